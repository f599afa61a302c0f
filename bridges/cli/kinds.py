"""The engines that the command can plug, by kind; each is imported when it is first wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

__all__ = ["KINDS", "Boot", "Kinds", "boot_of"]

Boot = Callable[..., object]
Kinds = Mapping[str, Callable[[], Boot]]
"""For each kind a function that makes the boot function of one engine."""


def _made_by(module: str, factory: str) -> Callable[[], Boot]:
    def make() -> Boot:
        boot: Boot = getattr(import_module(module), factory)()
        return boot

    return make


KINDS: Kinds = {"compressor": _made_by("engines.compressor", "compressor")}
"""What `--engine` and `--swap` know."""


def boot_of(engine: str, kinds: Kinds) -> Boot:
    """A boot function for an engine named `kind` or `kind#instance`; raises `KeyError`."""
    return kinds[engine.partition("#")[0]]()
