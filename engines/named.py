"""Engines that somebody else has written, named as `package.module:name`.

What the name stands for is a boot function, or a function or class that takes nothing and gives an engine each time it
is called.  Whoever runs engines decides where modules are looked for, and what it can do with what it gets.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, isclass, signature
from typing import Any

__all__ = ["is_named", "maker"]


def is_named(name: str) -> bool:
    """Whether it is written as `package.module:name`."""
    return ":" in name


def maker(name: str) -> Callable[[], Any]:
    """A function that gives the engine `package.module:name`: a boot function as it is, anything else called anew each time.

    A boot function has to be given something; so has a class of context engines only by mistake, and calling it says so.
    Importing somebody's module can raise anything; what is no function raises `TypeError`.
    """
    module, _, attribute = name.partition(":")
    found: Any = import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(
            f"{attribute} is {type(found).__name__}, and neither a boot function nor something that makes one"
        )
    boots = not (isclass(found) and hasattr(found, "compress")) and any(
        map(_wanted, signature(found).parameters.values())
    )
    return (lambda: found) if boots else found


def _wanted(parameter: Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind is not Parameter.VAR_KEYWORD
