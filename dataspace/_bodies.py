"""How the body of a lifetime is run: a boot function, the body of a `during`."""

from __future__ import annotations

from collections.abc import Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from ._tasks import Task, is_async
from .errors import TurnError

if TYPE_CHECKING:
    from ._facet import Facet

__all__ = ["entering"]


def entering(
    owner: Facet, body: Callable[..., object], what: str, *, ends_facet: bool = False
) -> Callable[[Facet, tuple[Any, ...]], None]:
    """The function that runs a body in a new lifetime, within a turn; an async one as its task."""
    if not callable(body):
        raise TypeError(f"{body!r} is no function")
    if not is_async(body):
        return lambda facet, args: _enter(body, facet, args)
    owner._check_runtime(what)

    def start(facet: Facet, args: tuple[Any, ...]) -> None:
        task = Task(facet, body, (facet, *args))  # type: ignore[arg-type]
        task.ends_facet = ends_facet
        facet._link(task)

    return start


def _enter(body: Callable[..., object], facet: Facet, args: tuple[Any, ...]) -> None:
    result = body(facet, *args)
    if type(result) is CoroutineType:
        result.close()
        raise TurnError(f"{body!r} returned a coroutine: give the async function itself")
