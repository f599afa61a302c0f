"""The dataspace under trio: a nursery for linked tasks, worker threads, streams of changes, other threads' entrances.

Nothing here decides anything about facts; every action goes through the synchronous core, on trio's thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any, TypeVar

import trio

from ._changes import Backlog
from ._dataspace import Crashed, Dataspace, Statistics
from ._facet import Actor, Facet
from ._handles import Observer
from ._pattern import Pattern
from ._tasks import Change, Changes, Task
from .errors import ActorCrashed, Stopped, TurnError

__all__ = ["AsyncDataspace", "run_dataspace"]

T = TypeVar("T")
log = logging.getLogger("dataspace")

GRACE = 1.0
"""Seconds that `await me.stop()` waits for tasks which clean up."""


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
        return self._runtime.from_thread(fn, args)

    def from_thread_soon(self, fn: Callable[..., object], *args: Any) -> None:
        """From another thread: have `fn(*args)` run on the dataspace's thread, in the order of these calls; do not wait.

        An error of `fn` is logged.  Raises `Stopped` when the dataspace is closed.
        """
        self._runtime.from_thread_soon(fn, args)


@asynccontextmanager
async def run_dataspace(
    on_crash: Callable[[Crashed, BaseException], object] | None, max_depth: int, max_turns: int
) -> AsyncIterator[AsyncDataspace]:
    """What `open_dataspace` opens."""
    core = Dataspace(on_crash=on_crash or log_crash, max_depth=max_depth, max_turns=max_turns)
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            core._runtime = runtime = TrioRuntime(core, nursery)
            trio.lowlevel.add_instrument(runtime)
            try:
                yield AsyncDataspace(core, runtime)
            except BaseException as error:
                # Kept out of the nursery, which would wrap it in a group.
                failure = error
            finally:
                runtime.close()
    except BaseExceptionGroup as group:
        if failure is None or group.split(trio.Cancelled)[1] is not None:
            raise
    finally:
        trio.lowlevel.remove_instrument(runtime)
    if failure is not None:
        raise failure


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
        except Exception as raised:
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
        for task in list(facet.tasks):
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


class Work:
    """A function that runs in a worker thread, and may be abandoned there."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], context: Context | None) -> None:
        self._call = (lambda: fn(*args)) if context is None else (lambda: context.copy().run(fn, *args))
        self._name = getattr(fn, "__qualname__", str(fn))
        self._lock = threading.Lock()
        self._abandoned = False
        self._error: BaseException | None = None

    def run(self) -> Any:
        try:
            return self._call()
        except BaseException as error:
            with self._lock:
                self._error = error
                late = self._abandoned
            if late:
                self._log(error)
                return None
            raise

    def abandon(self) -> None:
        with self._lock:
            self._abandoned = True
            error = self._error
        if error is not None:
            self._log(error)

    def _log(self, error: BaseException) -> None:
        log.error("%s failed in a thread nobody waits for any more", self._name, exc_info=error)


class Stream(Changes):
    """See `Facet.changes`."""

    def __init__(self, facet: Facet, pattern: Pattern[Any], streams: set[Stream]) -> None:
        self._facet = facet
        self._pattern = pattern
        self._streams = streams
        self._readers = trio.lowlevel.ParkingLot()
        self._handle: Observer | None = None
        self.unread = Backlog(pattern)

    def __enter__(self) -> Stream:
        if self._handle is not None:
            raise TurnError("changes can be entered once; ask me.changes for others")
        tell = self._tell
        unread = self.unread
        observer = Observer(self._facet, next(self._facet.ds._ages), self._pattern)
        observer.appeared, observer.vanished, observer.heard = tell(unread.appeared), tell(unread.vanished), tell(unread.heard)
        observer.gone = self._readers.unpark_all
        self._facet._may_act()
        self._handle = observer
        self._streams.add(self)
        self._facet._begin(observer)
        return self

    def __exit__(self, *exc: object) -> None:
        self._streams.discard(self)
        if self._handle is not None:
            self._facet.retract(self._handle)

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Change:
        if self._handle is None:
            raise TurnError("read changes within their block: with me.changes(pattern) as changes: ...")
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self.unread:
            if not self._handle.standing:
                error = self._facet.actor.error
                if error is not None:
                    raise ActorCrashed(f"actor {self._facet.name} crashed: {type(error).__name__}") from error
                raise StopAsyncIteration
            await self._readers.park()
        await trio.lowlevel.cancel_shielded_checkpoint()
        return self.unread.take()

    def _tell(self, note: Callable[..., None]) -> Callable[..., None]:
        def call(*args: Any) -> None:
            note(*args)
            self._readers.unpark()

        return call


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
