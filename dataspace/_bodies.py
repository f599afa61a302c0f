"""How the body of a lifetime is run: a boot function, the body of a `during`."""

from __future__ import annotations

from collections.abc import Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from ._tasks import Task, is_async
from .errors import TurnError

if TYPE_CHECKING:
    from ._facet import Facet

__all__ = ["Enter", "entering"]

Body = Callable[..., object]
Enter = Callable[[Body, "Facet", tuple[Any, ...]], None]
"""`enter(body, facet, args)` runs a body in a new lifetime, within a turn."""


def entering(owner: Facet, body: Body, what: str, *, ends_facet: bool = False) -> Enter:
    """How to enter `body`: by calling it, or as a task if it is async."""
    if not callable(body):
        raise TypeError(f"{body!r} is no function")
    if not is_async(body):
        return _call
    owner._check_runtime(what)
    return _boot if ends_facet else _start


def _call(body: Body, facet: Facet, args: tuple[Any, ...]) -> None:
    result = body(facet, *args)
    if type(result) is CoroutineType:
        result.close()
        raise TurnError(f"{body!r} returned a coroutine: give the async function itself")
    if callable(result) and not args and facet.parent is None:
        raise TypeError(f"{body!r} returned a function: perhaps it makes boot functions, and is to be called first")


def _start(body: Body, facet: Facet, args: tuple[Any, ...]) -> None:
    facet._link(Task(facet, body, (facet, *args)))  # type: ignore[arg-type]


def _boot(body: Body, facet: Facet, args: tuple[Any, ...]) -> None:
    task = Task(facet, body, (facet, *args))  # type: ignore[arg-type]
    task.ends_facet = True
    facet._link(task)
