"""The dataspace under trio, as its users see it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio

from ._crash import Crashed
from ._dataspace import Dataspace, Statistics
from ._facet import Facet
from ._pattern import Pattern
from ._trio import TrioRuntime
from .errors import TurnError

__all__ = ["AsyncDataspace", "run_dataspace"]

T = TypeVar("T")
log = logging.getLogger("dataspace")


def log_crash(crash: Crashed, error: BaseException) -> None:
    """Log a crash with its traceback; what `open_dataspace` does by default."""
    log.error("actor %s crashed: %s", crash.actor, crash.reason, exc_info=error)


class AsyncDataspace:
    """A dataspace whose actors may have tasks; made by `open_dataspace`."""

    def __init__(self, core: Dataspace, runtime: TrioRuntime) -> None:
        self._core = core
        self._runtime = runtime

    def actor(self, name: str) -> Facet:
        """An actor driven by the calling code; it lives until it is stopped.  Raises `NameTaken`."""
        self._runtime.check_open()
        return self._core.actor(name)

    async def spawn(self, boot: Callable[..., object], *args: Any, name: str | None = None) -> Facet:
        """Start an actor with `boot(me, *args)`; returns its `me` when its first turn and all that caused are done.

        With `def boot` the actor lives until it holds nothing or is stopped, with `async def boot` until that returns;
        of an async boot, what it does before it first waits is done when this returns.  Raises `NameTaken`.
        """
        self._runtime.check_open()
        # Cancelled here nothing has happened; afterwards the caller gets what it has to stop.
        await trio.lowlevel.checkpoint_if_cancelled()
        me = self._core.spawn(boot, *args, name=name)
        await self._runtime.begun(me)
        return me

    def facts(self, pattern: Pattern[T] | type[T]) -> tuple[T, ...]:
        """The facts that stand now and match, oldest first."""
        return self._core.facts(pattern)

    def statistics(self) -> Statistics:
        """What the dataspace holds now."""
        return self._core.statistics()

    def from_thread(self, fn: Callable[..., T], *args: Any) -> T:
        """From another thread: run `fn(*args)` on the dataspace's thread and wait for what it returns or raises.

        Raises `Stopped` when the dataspace is closed.
        """
        return self._runtime.entrance.from_thread(fn, args)

    def from_thread_soon(self, fn: Callable[..., object], *args: Any) -> None:
        """From another thread: have `fn(*args)` run on the dataspace's thread, in the order of these calls; do not wait.

        An error of `fn` is logged.  Raises `Stopped` when the dataspace is closed.
        """
        self._runtime.entrance.from_thread_soon(fn, args)


@asynccontextmanager
async def run_dataspace(
    on_crash: Callable[[Crashed, BaseException], object] | None, max_depth: int, max_turns: int, *, guest: bool
) -> AsyncIterator[AsyncDataspace]:
    """What `open_dataspace` opens."""
    if not trio.lowlevel.in_trio_run():
        raise TurnError(
            "open_dataspace() needs trio: start the program with trio.run(main); from an asyncio program, run it in a "
            "thread of its own and come in with from_thread"
        )
    core = Dataspace(on_crash=on_crash or log_crash, max_depth=max_depth, max_turns=max_turns)
    core._crashing = BaseException if guest else Exception
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            with TrioRuntime(core, nursery) as runtime:
                try:
                    yield AsyncDataspace(core, runtime)
                except BaseException as error:  # noqa: BLE001 - raised again outside of the nursery, which would wrap it
                    failure = error
    except BaseExceptionGroup as group:
        # Actors' errors do not come this far: it is the end of the program, or a bug.
        ends = group.split(trio.Cancelled)[1]
        if ends is not None:
            own = _apart_from_cancelled(failure)
            raise (BaseExceptionGroup(ends.message, [own, *ends.exceptions]) if own is not None else ends) from None
        if failure is None:
            raise
    if failure is not None:
        raise failure


def _apart_from_cancelled(error: BaseException | None) -> BaseException | None:
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1]
    return None if isinstance(error, trio.Cancelled) else error
