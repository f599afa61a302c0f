"""Turns: what an actor does at once, and the one queue that everything goes through.

A turn is the span in which one actor acts.  Its actions gather in a list and are committed in order when it ends;
committing files facts and observers and queues deliveries; delivering calls a callback, which is a turn again.  An
outermost turn runs all that it caused before it returns.  Nothing here waits, logs or reads a clock.

Actions are pairs of an `Op` and what it acts on, so a turn that fails, or goes back to a savepoint, is undone by walking
its actions backwards.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import get_ident
from types import CoroutineType
from typing import Any, NoReturn

from ._actions import CALL, CRASH, Cause, Op
from ._crash import Crashed, caused, chain, reason_of
from ._facet import Actor, Facet
from ._handles import Handle
from ._index import Delivery, Index
from ._leaves import Record, record_of
from ._state import State
from ._stopping import letting_go, stopping, walk
from ._tasks import Runtime, Task
from ._values import kind_of
from .errors import RunawayError, Stopped, TurnError

__all__ = ["Turns"]

ALIVE = State.ALIVE


class Turns:
    """Runs the turns of all actors of a dataspace; `Dataspace` adds what users call."""

    def __init__(self, on_crash: Callable[[Crashed, BaseException], object], max_depth: int, max_turns: int) -> None:
        self._on_crash = on_crash
        self._max_depth, self._max_turns = max_depth, max_turns
        # What of an actor's errors is its crash; the rest ends the program.
        self._crashing: type[BaseException] = Exception
        self._thread = get_ident()
        self._ages = count(1)
        self._indexes: dict[type, Index] = {}
        self._actors: dict[str, Actor] = {}
        self._queue: deque[Delivery] = deque()
        self._draining = False
        self._left, self._extended = max_turns, False
        self._actor: Actor | None = None  # whose turn it is
        self._actions: list[tuple[Op, Any]] = []  # of that turn
        self._bar: Actor | None = None  # whose turn it will seem to be when all that waits has been delivered
        self._crashes: deque[Record] = deque()
        self._crash_count = count(1)
        self._observers = 0
        self._runtime: Runtime | None = None
        self._closing = False  # no actor is made any more
        self._wrapped = False  # somebody wraps `_commit_alone` and `_commit`: take no short cuts
        self._turn_numbers = count(1)  # only a trace counts turns

    # -- turns --------------------------------------------------------------------------------------------------------

    def _check_thread(self) -> None:
        if get_ident() != self._thread:
            raise TurnError(
                "called from another thread than the dataspace's; use ds.from_thread or ds.from_thread_soon"
            )

    def _check_bar(self) -> None:
        """Raise while nobody may act: in a task whose lifetime has ended, and after an await inside a turn."""
        if self._actor is not None and self._actor.error is not None:
            raise type(self._actor.error)(*self._actor.error.args)

    @contextmanager
    def _cleaning_up(self) -> Iterator[None]:
        """The task of a lifetime that has ended may still let go of what it holds elsewhere, so that nothing leaks."""
        actor = self._actor
        if actor is not None and isinstance(actor.error, Stopped):
            self._actor = None
            try:
                yield
            finally:
                self._actor = actor
        else:
            yield

    def _refuse(self, actor: Actor) -> NoReturn:
        self._check_bar()
        assert self._actor is not None
        raise TurnError(
            f"{actor.name} cannot act in a turn of {self._actor.name}: ask for one of its own with me.later(fn)"
        )

    def _act(self, op: Op, what: Any, actor: Actor) -> None:
        """Add an action to the open turn; without one it is a turn of its own."""
        if self._actor is not None:
            self._actions.append((op, what))
        else:
            self._commit_alone(op, what, actor)

    def _commit_alone(self, op: Op, what: Any, actor: Actor) -> None:
        """A turn of one action."""
        self._release(actor, [(op, what)], None)
        if not actor.keep:
            self._check_idle(actor, None)
        if self._queue and not self._draining:
            self._drain()

    def _commit(self, actor: Actor, actions: list[tuple[Op, Any]], cause: Cause | None) -> None:
        self._release(actor, actions, cause)
        actions.clear()  # `_actions` may go on naming this list, and is not to hold what was released
        if not actor.keep:
            self._check_idle(actor, cause)

    def _release(self, actor: Actor, actions: list[tuple[Op, Any]], cause: Cause | None) -> None:
        """Release what a turn did.  It cannot fail: all that can was checked when the action was asked for.

        Everything that happens comes through here, but for the short cuts in `Facet`; a trace wraps it.
        """
        for op, what in actions:
            op.commit(self, what, cause)

    def _check_idle(self, actor: Actor, cause: Cause | None) -> None:
        """An actor that holds nothing any more ends."""
        if actor.alive and actor.is_idle():
            self._run(actor, lambda: self._stop(actor.root), cause)

    def _undo(self, actions: list[tuple[Op, Any]], mark: int = 0) -> None:
        for op, what in reversed(actions[mark:]):
            op.undo(what)
        del actions[mark:]

    def _run(self, actor: Actor, call: Callable[[], object], cause: Cause | None) -> None:
        """Run `call` as a turn of `actor`; an exception is the actor's crash."""
        self._actor, self._actions = actor, []
        try:
            call()
        except BaseException as error:
            actions, self._actor = self._actions, None
            self._undo(actions)
            if not isinstance(error, self._crashing):
                raise
            self._crash(actor, error, cause)
            return
        actions, self._actor = self._actions, None
        if actions:
            self._commit(actor, actions, cause)

    # -- deliveries ---------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Deliver until the queue is empty.  Called while it is being emptied, it leaves that to who is at it."""
        if self._draining:
            return
        self._draining = True
        self._left, self._extended = self._max_turns, False
        queue = self._queue
        try:
            while queue:
                self._deliver(*queue.popleft())
        finally:
            self._draining = False
            if self._bar is not None:
                self._actor, self._bar = self._bar, None

    def _deliver(self, kind: str, observers: tuple[Any, ...], args: tuple[Any, ...], cause: Cause | None) -> None:
        """Each callback is a turn of its own.  This is `_run`, unrolled: it is where the time goes."""
        left = self._left = self._left - len(observers)
        if left < 0 or left < len(self._queue) or (cause is not None and cause.depth >= self._max_depth):
            cause = self._overrun(kind, observers, cause)
        actions: list[tuple[Op, Any]] = []
        for observer in observers:
            callback = getattr(observer, kind)
            if callback is None or observer.state is not ALIVE:
                self._left += 1
                continue
            actor = self._actor = observer.facet.actor
            self._actions = actions
            try:
                result = callback(*args)
                if result is not None and type(result) is CoroutineType:
                    result.close()
                    raise TurnError("a callback cannot be asynchronous: use me.task, or an async body of me.during")
            except BaseException as error:
                self._actor = None
                self._undo(actions)
                if not isinstance(error, self._crashing):
                    self._queue.appendleft((kind, observers[observers.index(observer) + 1 :], args, cause))
                    raise
                self._crash(actor, error, caused(observer, kind, cause))
                continue
            self._actor = None
            if actions:
                self._commit(actor, actions, caused(observer, kind, cause))
            elif kind is CALL and not actor.keep:
                self._check_idle(actor, caused(observer, kind, cause))

    def _overrun(self, kind: str, observers: tuple[Any, ...], cause: Cause | None) -> Cause | None:
        """One outside event caused too much: crash who goes on, and begin to count anew.

        Who goes on is the actor whose turn caused this delivery, not those who merely hear of it; a new actor that is
        about to begin is the last link itself.  It is too much already when more waits than may still be run, or memory
        would be full before the bound is reached.  Once the number of turns is used up, all who would hear more crash
        too: it ends, whatever they do.
        """
        hearers = [o for o in observers if getattr(o, kind) is not None and o.state is ALIVE]
        left = self._left + len(observers) - len(hearers)
        deep = cause is not None and cause.depth >= self._max_depth
        if not (deep or left < len(self._queue)):
            return cause
        culprits = [cause.by.facet.actor] if cause is not None and cause.by is not None else []
        culprits += [hearer.facet.actor for hearer in hearers if left < 0 or (kind is CALL and hearer.begins and deep)]
        if any(actor.alive for actor in culprits):
            limit = f"{self._max_turns} turns" if left < len(self._queue) else f"{self._max_depth} turns in a row"
            error = RunawayError(f"one outside event caused more than {limit}; the last: {chain(cause)}")
            for actor in culprits:
                self._crash(actor, error, None)
            if left >= 0 and not self._extended:
                self._extended, self._left = True, self._max_turns  # for the others to hear what waits
        return None if deep else cause

    def _index_of(self, cls: type) -> Index:
        index = self._indexes.get(cls)
        if index is None:
            index = self._indexes[cls] = Index(kind_of(cls), self._queue.append)
        return index

    # -- stop and crash -----------------------------------------------------------------------------------------------

    def _stop(self, facet: Facet) -> None:
        """Within a turn of its actor: stop a lifetime, children first, then stop actions, then what it holds."""
        walk(stopping(facet, self._actions), self._actions)

    def _let_go(self, handle: Handle) -> None:
        """Within a turn of its actor: let go of a handle, and of the lifetimes that hang on it."""
        walk(letting_go(handle, self._actions), self._actions)

    def _crash(self, actor: Actor, error: BaseException, cause: Cause | None) -> None:
        """Outside of turns: the actor ends, and all that it held with it, newest first."""
        if not actor.alive:
            return
        facets = list(actor.root._tree())
        handles = sorted((h for f in facets for h in f.handles), key=lambda handle: -handle.age)
        for facet in facets:
            facet.state = State.STOPPED
            facet._cancel_tasks()
        crash = Crashed(actor.name, reason_of(error), next(self._crash_count))
        self._end(actor, error)
        self._release(actor, [*[(handle.release, handle) for handle in handles], (CRASH, crash)], cause)
        for hook in actor.crash_hooks:
            self._guard(hook, error, crash)
        self._guard(lambda e: self._on_crash(crash, e), error, None)
        self._drain()

    def _guard(self, hook: Callable[[Any], object], error: BaseException, crash: Crashed | None) -> None:
        """A hook that raises harms nobody, and is shown."""
        try:
            hook(error)
        except Exception as second:  # noqa: BLE001 - a hook is not ours to judge; it is shown
            if crash is not None:
                self._guard(lambda e: self._on_crash(crash, e), second, None)
            else:
                sys.excepthook(type(second), second, second.__traceback__)

    def _stand_crash(self, crash: Crashed, cause: Cause | None) -> None:
        index = self._index_of(Crashed)
        record = record_of(crash, index.key(crash))
        self._crashes.append(index.publish(record, cause))
        if len(self._crashes) > 100:
            index.retract(self._crashes.popleft(), cause)

    def _task_done(self, task: Task, error: BaseException | None) -> None:
        """Told by the runtime, outside of turns: a linked task has ended, in good order or with `error`."""
        facet = task.facet
        assert facet.tasks is not None
        facet.tasks.discard(task)
        actor = facet.actor
        if error is not None:
            self._crash(actor, error, None)
        elif task.ends_facet and facet.state is ALIVE:
            facet.stop()
        elif not actor.keep:
            self._check_idle(actor, None)
        self._drain()

    def _end(self, actor: Actor, error: BaseException | None) -> None:
        actor.alive, actor.error = False, error
        self._actors.pop(actor.name, None)
