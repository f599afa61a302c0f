"""What trio adds to the core: linked tasks, worker threads, the entrances of other threads.

Nothing here decides anything about facts; every action goes through the synchronous core, on trio's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from contextvars import Context
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import trio

from ._actions import CALL
from ._dataspace import Dataspace
from ._facet import Actor, Facet
from ._pattern import Pattern
from ._stream import Stream
from ._tasks import Changes, Task
from ._threads import Entrance, Work
from .errors import Stopped, TurnError

__all__ = ["TrioRuntime"]

T = TypeVar("T")
log = logging.getLogger("dataspace")

GRACE = 1.0
"""Seconds that a stopped task has to clean up, from when it was stopped."""

PATIENCE = 1.5 * GRACE
"""Seconds that one who awaits a stop waits: tasks that use up their time are still awaited."""

GENERATIONS = 100
"""How often actors may start others while the dataspace closes; who stops by then is not replaced any more."""


class TrioRuntime(trio.abc.Instrument):
    """What trio adds to a dataspace (`dataspace._tasks.Runtime`).

    As an instrument it sees each step of each task, and so a turn that is left open over an await, and a task that acts
    after its lifetime has ended: both are barred from acting.
    """

    def __init__(self, core: Dataspace, nursery: trio.Nursery) -> None:
        self._core = core
        self._nursery = nursery
        self._threads = trio.CapacityLimiter(64)
        self.entrance = Entrance(self, nursery)
        self._running: dict[Task, Running] = {}
        self._barred: WeakKeyDictionary[trio.lowlevel.Task, Actor] = WeakKeyDictionary()
        self._streams: set[Stream] = set()
        self.closed = False

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
        error: BaseException | None = None
        try:
            with running.scope:
                if not running.scope.cancel_called:
                    await task.fn(*task.args)
        except Exception as raised:  # noqa: BLE001 - it is the actor's crash
            error = raised
        except BaseExceptionGroup as group:
            # A nursery of the task was cancelled from outside, and some of its tasks failed while they cleaned up.
            rest = group.split(trio.Cancelled)[1]
            if rest is None or not isinstance(rest, self._core._crashing):
                raise
            error = rest
        except (trio.Cancelled, GeneratorExit):
            raise
        except BaseException as raised:
            if not isinstance(raised, self._core._crashing):
                raise
            error = raised
        finally:
            self._barred.pop(running.step, None)
            if self.drop_turn() and error is None:
                error = TurnError("a task ended while its turn was open: it was discarded; use `with me.turn():`")
            del self._running[task]
            running.over.set()
            self._report(task, error)

    def _report(self, task: Task, error: BaseException | None) -> None:
        facet = task.facet
        if error is not None and not facet.alive and _only_stopped(error):
            error = None
        if error is not None and not facet.actor.alive:
            log.error("a task of %s failed after its actor had ended", facet.name, exc_info=error)
        self._core._task_done(task, error)

    def _cancel(self, running: Running) -> None:
        running.scope.cancel()
        if running.deadline is None:
            running.deadline = trio.current_time() + GRACE
        if running.step is not None:
            self._barred[running.step] = _ended
            if running.step in _ancestry(trio.lowlevel.current_task()):
                # It has ended its own lifetime: it may not act in the rest of this step either.
                self._core._bar = _ended
                self._core._queue.append((CALL, (), (), None))  # for nobody: the bar falls when the queue is empty

    async def begun(self, facet: Facet) -> None:
        """Wait until the tasks that `facet` was born with have done their first step, which they do at once."""
        with trio.CancelScope(shield=True):
            for task in list(facet.tasks or ()):
                running = self._running.get(task)
                if running is not None:
                    await running.begun.wait()
            await trio.lowlevel.checkpoint()

    def ended(self, facet: Facet) -> Ending:
        return Ending(self, facet)

    async def wait_ended(self, facet: Facet) -> None:
        """Wait for the tasks of a stopped lifetime, and of those within it, as long as they have to clean up."""
        callers = list(_ancestry(trio.lowlevel.current_task()))  # who waits within such a task cannot wait for it
        rest = [running for task, running in self._running.items() if _within(task.facet, facet)]
        with trio.move_on_after(PATIENCE) as bound:
            for running in rest:
                if running.step not in callers:
                    await running.over.wait()
        if bound.cancelled_caught:
            log.warning("tasks of %s still run %s s after it was stopped", facet.name, PATIENCE)
        await trio.lowlevel.checkpoint()

    # -- as an instrument ---------------------------------------------------------------------------------------------

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._barred:
            bar = self._barred.get(task)
            if bar is None and any(self._barred.get(outer) is _ended for outer in _ancestry(task)):
                bar = _ended  # the tasks that a linked task has started end with it
            self._core._actor = bar

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._core._actor is not None and self.drop_turn():
            self._barred.setdefault(task, _awaited)

    def forgive(self) -> None:
        """The block whose turn was spoiled by an await ends: its task may act again, unless its lifetime has ended."""
        task = trio.lowlevel.current_task()
        if self._barred.get(task) is _awaited:
            del self._barred[task]
            self.drop_turn()

    def drop_turn(self) -> bool:
        """Nobody's turn from here on; was a turn left open, which is discarded?"""
        core = self._core
        actor, core._actor = core._actor, None
        if actor is None or actor in (_awaited, _ended):
            return False
        core._undo(core._actions)
        return True

    # -- threads ------------------------------------------------------------------------------------------------------

    async def blocking(self, fn: Callable[..., T], args: tuple[Any, ...], context: Context | None) -> T:
        work = Work(fn, args, context)
        try:
            return await trio.to_thread.run_sync(work.run, abandon_on_cancel=True, limiter=self._threads)
        except BaseException as raised:
            work.abandon(raised)
            raise

    # -- the rest -----------------------------------------------------------------------------------------------------

    def grace(self) -> AbstractContextManager[object]:
        callers = list(_ancestry(trio.lowlevel.current_task()))
        for running in self._running.values():
            if running.deadline is not None and running.step in callers:
                return trio.move_on_at(running.deadline, shield=True)
        return trio.move_on_after(GRACE, shield=True)

    def changes(self, facet: Facet, pattern: Pattern[Any]) -> Changes:
        return Stream(facet, pattern, self._streams)

    def backlog(self) -> int:
        return sum(len(stream.unread) for stream in self._streams)

    def check_open(self) -> None:
        """Raise unless one may act here and now, and the dataspace still runs."""
        self._core._check_thread()
        if self.closed:
            raise Stopped("the dataspace is closed")
        self._core._check_bar()

    def close(self) -> None:
        """Stop all actors, then end what still runs."""
        self._barred.pop(trio.lowlevel.current_task(), None)
        self.drop_turn()
        try:
            self._stop_actors()
        finally:
            self.closed = True
            trio.lowlevel.remove_instrument(self)
            self._nursery.cancel_scope.cancel()

    def _stop_actors(self) -> None:
        """The newest first, and then those that this has started."""
        core = self._core
        generation = 0
        while core._actors:
            # Who replaces what has gone must be reached itself, so newcomers wait for the next round.
            for actor in reversed(list(core._actors.values())):
                actor.root.stop()
            generation += 1
            core._closing = generation >= GENERATIONS


class Ending:
    """What `me.stop()` gives: nothing happens, and no warning, if it is not awaited."""

    def __init__(self, runtime: TrioRuntime, facet: Facet) -> None:
        self._runtime = runtime
        self._facet = facet

    def __await__(self) -> Generator[Any, Any, None]:
        return self._runtime.wait_ended(self._facet).__await__()


class Running:
    """A linked task that has been started."""

    __slots__ = ("begun", "deadline", "over", "scope", "step")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.deadline: float | None = None  # when the time to clean up is over
        self.begun = trio.Event()
        self.over = trio.Event()
        self.step: trio.lowlevel.Task | None = None


def _ancestry(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    """A task, the task in whose nursery it runs, and so on."""
    yield task
    while task.parent_nursery is not None:
        task = task.parent_nursery.parent_task
        yield task


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
