"""What trio adds to the core: linked tasks, worker threads, the entrances of other threads.

Nothing here decides anything about facts; every action goes through the synchronous core, on trio's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from contextvars import Context
from typing import Any, TypeVar

import trio

from ._dataspace import Dataspace
from ._facet import Actor, Facet
from ._pattern import Pattern
from ._stream import Stream
from ._tasks import Changes, Task
from ._threads import Work
from .errors import Stopped, TurnError

__all__ = ["TrioRuntime"]

T = TypeVar("T")
log = logging.getLogger("dataspace")

GRACE = 1.0
"""Seconds that a stopped task has to clean up."""


class TrioRuntime(trio.abc.Instrument):
    """What trio adds to a dataspace (`dataspace._tasks.Runtime`).

    As an instrument it sees each step of each task, and so a turn that is left open over an await, and a task that acts
    after its lifetime has ended: both are barred from acting.
    """

    def __init__(self, core: Dataspace, nursery: trio.Nursery) -> None:
        self._core = core
        self._nursery = nursery
        self._token = trio.lowlevel.current_trio_token()
        self._threads = trio.CapacityLimiter(64)
        self._running: dict[Task, Running] = {}
        self._barred: dict[trio.lowlevel.Task, Actor] = {}
        self._streams: set[Stream] = set()
        self._closed = False

    def __enter__(self) -> TrioRuntime:
        self._core._runtime = self
        trio.lowlevel.add_instrument(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- tasks --------------------------------------------------------------------------------------------------------

    def start(self, task: Task) -> None:
        running = self._running[task] = Running()
        task.cancel = lambda: self._cancel(running)
        if task.context is None:
            self._nursery.start_soon(self._run, task, running, name=task.fn)
        else:
            # A trio task begins with a copy of the context variables of whoever starts it.
            task.context.copy().run(self._nursery.start_soon, self._run, task, running, name=task.fn)  # type: ignore[arg-type]

    async def _run(self, task: Task, running: Running) -> None:
        running.step = trio.lowlevel.current_task()
        running.begun.set()
        error: Exception | None = None
        try:
            with running.scope:
                if not running.scope.cancel_called:
                    await task.fn(*task.args)
        except Exception as raised:  # noqa: BLE001 - it is the actor's crash
            error = raised
        finally:
            self._barred.pop(running.step, None)
            self._drop_poison()
            del self._running[task]
            running.over.set()
            self._report(task, error)

    def _report(self, task: Task, error: Exception | None) -> None:
        facet = task.facet
        if error is not None and not facet.alive and _only_stopped(error):
            error = None
        if error is not None and not facet.actor.alive:
            log.error("a task of %s failed after its actor had ended", facet.name, exc_info=error)
        self._core._task_done(task, error)

    def _cancel(self, running: Running) -> None:
        running.scope.cancel()
        if running.step is not None:
            self._barred[running.step] = _ended

    async def begun(self, facet: Facet) -> None:
        """Wait until the tasks that `facet` was born with have done their first step."""
        for task in list(facet.tasks or ()):
            running = self._running.get(task)
            if running is not None:
                await running.begun.wait()
        await trio.lowlevel.checkpoint()

    def ended(self, facet: Facet) -> Ending:
        return Ending(self, facet)

    async def wait_ended(self, facet: Facet) -> None:
        """Wait for the tasks of a stopped lifetime, and of those within it; not longer than they have to clean up."""
        rest = [running for task, running in self._running.items() if _within(task.facet, facet)]
        with trio.move_on_after(GRACE) as bound:
            for running in rest:
                if running.step is not trio.lowlevel.current_task():
                    await running.over.wait()
        if bound.cancelled_caught:
            log.warning("tasks of %s still run %s s after it was stopped", facet.name, GRACE)
        await trio.lowlevel.checkpoint()

    # -- as an instrument ---------------------------------------------------------------------------------------------

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._barred and task in self._barred:
            self._core._actor = self._barred[task]

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        core = self._core
        if core._actor is None:
            return
        if core._actor.ds is not None and task not in self._barred:
            core._undo(core._actions)
            self._barred[task] = _awaited
        core._actor = None

    def forgive(self) -> None:
        """The block whose turn was spoiled by an await ends: its task may act again."""
        self._barred.pop(trio.lowlevel.current_task(), None)
        self._drop_poison()

    def _drop_poison(self) -> None:
        if self._core._actor in (_awaited, _ended):
            self._core._actor = None

    # -- threads ------------------------------------------------------------------------------------------------------

    async def blocking(self, fn: Callable[..., T], args: tuple[Any, ...], context: Context | None) -> T:
        work = Work(fn, args, context)
        try:
            return await trio.to_thread.run_sync(work.run, abandon_on_cancel=True, limiter=self._threads)
        except trio.Cancelled:
            work.abandon()
            raise

    def from_thread(self, fn: Callable[..., T], args: tuple[Any, ...]) -> T:
        def call() -> T:
            self.check_open()
            return fn(*args)

        try:
            return trio.from_thread.run_sync(call, trio_token=self._token)
        except trio.RunFinishedError:
            raise Stopped("the dataspace is closed") from None

    def from_thread_soon(self, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        def call() -> None:
            try:
                self.check_open()
                fn(*args)
            except Exception:
                log.exception("what a thread asked for failed: %s", getattr(fn, "__qualname__", fn))

        if self._closed:
            raise Stopped("the dataspace is closed")
        try:
            self._token.run_sync_soon(call)
        except trio.RunFinishedError:
            raise Stopped("the dataspace is closed") from None

    # -- the rest -----------------------------------------------------------------------------------------------------

    def grace(self) -> AbstractContextManager[object]:
        return trio.move_on_after(GRACE, shield=True)

    def changes(self, facet: Facet, pattern: Pattern[Any]) -> Changes:
        return Stream(facet, pattern, self._streams)

    def backlog(self) -> int:
        return sum(len(stream.unread) for stream in self._streams)

    def check_open(self) -> None:
        if self._closed:
            raise Stopped("the dataspace is closed")

    def close(self) -> None:
        """Stop all actors, the newest first, and those that their stop actions start; then end what still runs."""
        core = self._core
        core._actor = None
        while core._actors:
            actor = next(reversed(core._actors.values()))
            actor.root.stop()
        self._closed = True
        trio.lowlevel.remove_instrument(self)
        self._nursery.cancel_scope.cancel()


class Ending:
    """What `me.stop()` gives: nothing happens, and no warning, if it is not awaited."""

    def __init__(self, runtime: TrioRuntime, facet: Facet) -> None:
        self._runtime = runtime
        self._facet = facet

    def __await__(self) -> Generator[Any, Any, None]:
        return self._runtime.wait_ended(self._facet).__await__()


class Running:
    """A linked task that has been started."""

    __slots__ = ("begun", "over", "scope", "step")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.begun = trio.Event()
        self.over = trio.Event()
        self.step: trio.lowlevel.Task | None = None


def _within(facet: Facet | None, outer: Facet) -> bool:
    while facet is not None and facet is not outer:
        facet = facet.parent
    return facet is outer


def _only_stopped(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_only_stopped(part) for part in error.exceptions)
    return isinstance(error, Stopped)


def _poison(error: Exception) -> Actor:
    """Whose turn it is while nobody may act: the reason is what any attempt raises."""
    actor = Actor(None, "nobody", keep=True)  # type: ignore[arg-type]
    actor.error = error
    return actor


_awaited = _poison(TurnError("there was an await inside a turn: it was discarded; keep turns synchronous"))
_ended = _poison(Stopped("the lifetime of this task has ended; it can only clean up"))
