"""What the core knows of linked tasks: that they belong to a facet.  How they run is the runtime's."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager
from contextvars import Context
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from attrs import frozen

if TYPE_CHECKING:
    from ._facet import Facet
    from ._pattern import Pattern

__all__ = ["Appeared", "Change", "Changes", "Heard", "Runtime", "Task", "Vanished", "check_async", "done", "is_async"]

T = TypeVar("T")


@frozen
class Appeared:
    """A fact appeared; for a pattern with captures `captures` holds them, and `fact` is None."""

    fact: Any = None
    captures: tuple[Any, ...] | None = None


@frozen
class Vanished:
    """A fact that had appeared is gone."""

    fact: Any = None
    captures: tuple[Any, ...] | None = None


@frozen
class Heard:
    """A message was sent."""

    fact: Any = None
    captures: tuple[Any, ...] | None = None


Change = Appeared | Vanished | Heard


class Changes(AbstractContextManager["Changes"], AsyncIterator[Change]):
    """What `me.changes` gives: within its `with` block, an asynchronous iterator over what happens."""


class Task:
    """An async function linked to a facet."""

    __slots__ = ("args", "cancel", "context", "ends_facet", "facet", "fn")

    def __init__(self, facet: Facet, fn: Callable[..., Awaitable[object]], args: tuple[Any, ...]) -> None:
        self.facet = facet
        self.fn = fn
        self.args = args
        self.context: Context | None = None
        self.ends_facet = False
        """The boot of an actor: when it returns, the actor ends."""
        self.cancel: Callable[[], object] | None = None


class Runtime(Protocol):
    """What an event loop adds to a dataspace."""

    def start(self, task: Task) -> None: ...
    def forgive(self) -> None: ...
    def ended(self, facet: Facet) -> Awaitable[None]: ...
    def grace(self) -> AbstractContextManager[object]: ...
    def changes(self, facet: Facet, pattern: Pattern[Any]) -> Changes: ...
    def blocking(self, fn: Callable[..., T], args: tuple[Any, ...], context: Context | None) -> Awaitable[T]: ...
    def backlog(self) -> int: ...


class Done:
    """Awaitable, and over at once: what a dataspace without event loop has to wait for."""

    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield


done = Done()


def is_async(fn: Any) -> bool:
    """Does calling `fn` give a coroutine?"""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(f"{fn!r} is a generator function, which would never run; it must not yield")
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(type(fn), "__call__", None))  # noqa: B004 - the method itself is asked about


def check_async(fn: Any) -> None:
    """Raise `TypeError` for what cannot be a task: at the call, not when the task would have begun."""
    if inspect.iscoroutine(fn):
        fn.close()
        raise TypeError(f"task takes an async function and its arguments, not the call of one: {fn!r}")
    if not callable(fn):
        raise TypeError(f"task takes an async function, not {fn!r}")
