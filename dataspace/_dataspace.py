"""The dataspace: actors, turns and the one queue that everything goes through.

A turn is the span in which one actor acts.  Its actions gather in a list and are committed in order when it ends;
committing files facts and observers and queues deliveries; delivering calls a callback, which is a turn again.  An
outermost turn runs all that it caused before it returns.  Nothing here waits, logs or reads a clock.

Actions are pairs of an `Op` and what it acts on.  `Op.undo` restores what the call that made the action had changed
already, so a turn that fails, or goes back to a savepoint, is undone by walking its actions backwards.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from threading import get_ident
from types import CoroutineType
from typing import Any, NoReturn, TypeVar

from attrs import frozen

from ._actions import CALL, SPAWN, STOP, Call, Cause, Op
from ._facet import Actor, Facet
from ._handles import Handle, Observer
from ._index import Delivery, Index, Record
from ._pattern import Pattern, pattern_of
from ._state import State
from ._tasks import Runtime, Task, is_async
from ._values import is_fact_class, kind_of
from .errors import NameTaken, NotAFact, RunawayError, TurnError

__all__ = ["Crashed", "Dataspace", "Statistics"]

T = TypeVar("T")
ALIVE = State.ALIVE


@frozen
class Crashed:
    """Actor `actor` crashed; `n` counts the crashes of this dataspace, the newest 100 stand."""

    actor: str
    reason: str
    n: int


@frozen
class Statistics:
    """What a dataspace holds at one instant."""

    facts: int
    """Facts that stand, interest and crashes among them."""
    observers: int
    actors: int
    backlog: int
    """Unread changes, over all open `changes`."""
    leaves: int
    """Places in the index that hold a fact or an observer; back to what it was when those are gone."""


def print_crash(crash: Crashed, error: BaseException) -> None:
    """Show a crash on stderr: what a dataspace without a runtime does, so that no error goes unseen."""
    sys.excepthook(type(error), error, error.__traceback__)


class Dataspace:
    """Facts, those who publish them and those who observe them; synchronous and deterministic.

    To be used from the thread that made it.  `on_crash(crashed, error)` is told of every crash, after the fact; by
    default it prints a traceback.  `max_depth` bounds the chain of turns that one outside event may cause, `max_turns`
    their number; past that the actor which goes on crashes with `RunawayError`.
    """

    def __init__(
        self,
        *,
        on_crash: Callable[[Crashed, BaseException], object] = print_crash,
        max_depth: int = 10_000,
        max_turns: int = 1_000_000,
    ) -> None:
        self._on_crash = on_crash
        self._max_depth, self._max_turns = max_depth, max_turns
        self._thread = get_ident()
        self._ages = count(1)
        self._indexes: dict[type, Index] = {}
        self._actors: dict[str, Actor] = {}
        self._queue: deque[Delivery] = deque()
        self._draining = False
        self._left = self._grant = max_turns
        self._actor: Actor | None = None  # whose turn it is
        self._actions: list[tuple[Op, Any]] = []  # of that turn
        self._crashes: deque[Record] = deque()
        self._crash_count = count(1)
        self._observers = 0
        self._runtime: Runtime | None = None

    # -- what users call ----------------------------------------------------------------------------------------------

    def actor(self, name: str) -> Facet:
        """An actor driven by the calling code; it lives until it is stopped.  Raises `NameTaken`."""
        self._check_thread()
        actor = self._new_actor(name, keep=True)
        self._actors[name] = actor
        return actor.root

    def spawn(self, boot: Callable[..., object], *args: Any, name: str | None = None) -> Facet:
        """Start an actor with `boot(me, *args)` and run all that this causes; returns the actor's `me`.

        The actor lives until it holds nothing or is stopped.  `name` is by default that of the function, numbered if
        taken; raises `NameTaken` for a given one.
        """
        self._check_thread()
        if self._actor is not None:
            raise TurnError(f"it is {self._actor.name}'s turn: within a turn spawn with me.spawn(...)")
        action = self._spawning(boot, args, name)
        self._commit_alone(*action, action[1].facet.actor)
        return action[1].facet

    def facts(self, pattern: Pattern[T] | type[T]) -> tuple[T, ...]:
        """The facts that stand now and match, oldest first."""
        self._check_thread()
        wanted = pattern_of(pattern)
        index = self._indexes.get(wanted.cls)
        return tuple(index.facts(wanted)) if index is not None else ()

    def statistics(self) -> Statistics:
        """What the dataspace holds now."""
        self._check_thread()
        return Statistics(
            facts=sum(len(index.standing) for index in self._indexes.values()),
            observers=self._observers,
            actors=len(self._actors),
            backlog=self._runtime.backlog() if self._runtime is not None else 0,
            leaves=sum(index.leaves() for index in self._indexes.values()),
        )

    # -- turns --------------------------------------------------------------------------------------------------------

    def _check_thread(self) -> None:
        if get_ident() != self._thread:
            raise TurnError("called from another thread than the dataspace's; use ds.from_thread or ds.from_thread_soon")

    def _refuse(self, actor: Actor) -> NoReturn:
        assert self._actor is not None
        if self._actor.error is not None:
            raise type(self._actor.error)(*self._actor.error.args)
        raise TurnError(f"{actor.name} cannot act in a turn of {self._actor.name}: ask for one of its own with me.later(fn)")

    def _act(self, op: Op, what: Any, actor: Actor) -> None:
        """Add an action to the open turn; without one it is a turn of its own."""
        if self._actor is not None:
            self._actions.append((op, what))
        else:
            self._commit_alone(op, what, actor)

    def _commit_alone(self, op: Op, what: Any, actor: Actor) -> None:
        """A turn of one action."""
        op.commit(self, what, None)
        if not actor.keep:
            self._check_idle(actor, None)
        if self._queue:
            self._drain()

    def _commit(self, actor: Actor, actions: list[tuple[Op, Any]], cause: Cause | None) -> None:
        """Release what a turn did.  It cannot fail: all that can was checked when the action was asked for."""
        for op, what in actions:
            op.commit(self, what, cause)
        if not actor.keep:
            self._check_idle(actor, cause)

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
            result = call()
            if type(result) is CoroutineType:
                result.close()
                raise TurnError("a turn cannot be asynchronous: use me.task, or an async body of me.during")
        except Exception as error:
            actions, self._actor = self._actions, None
            self._undo(actions)
            self._crash(actor, error, cause)
            return
        except BaseException:
            actions, self._actor = self._actions, None
            self._undo(actions)
            raise
        actions, self._actor = self._actions, None
        if actions:
            self._commit(actor, actions, cause)

    # -- deliveries ---------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Deliver until the queue is empty.  Called while it is being emptied, it leaves that to who is at it."""
        if self._draining or not self._queue:
            return
        self._draining, queue = True, self._queue
        self._left = self._grant = self._max_turns
        try:
            while queue:
                self._deliver(*queue.popleft())
        finally:
            self._draining = False

    def _deliver(self, kind: str, observers: tuple[Any, ...], args: tuple[Any, ...], cause: Cause | None) -> None:
        """Each callback is a turn of its own.  This is `_run`, unrolled: it is where the time goes."""
        depth = 1 if cause is None else cause.depth + 1
        self._left -= len(observers)
        if depth > self._max_depth or self._left < 0:
            depth, cause = self._overrun(kind, observers, cause)
        actions: list[tuple[Op, Any]] = []
        for position, observer in enumerate(observers):
            callback = getattr(observer, kind)
            if callback is None or observer.state is not ALIVE or observer.facet.state is not ALIVE:
                continue
            self._actor, self._actions = actor, actions = observer.facet.actor, actions
            try:
                result = callback(*args)
                if result is not None and type(result) is CoroutineType:
                    result.close()
                    raise TurnError("a callback cannot be asynchronous: use me.task, or an async body of me.during")
            except BaseException as error:
                self._actor = None
                self._undo(actions)
                if not isinstance(error, Exception):
                    self._queue.appendleft((kind, observers[position + 1 :], args, cause))
                    raise
                self._crash(actor, error, Cause(depth, observer, kind, cause))
                continue
            self._actor = None
            if actions:
                self._commit(actor, actions, Cause(depth, observer, kind, cause))
                actions = []
            elif kind is CALL and not actor.keep:
                self._check_idle(actor, cause)

    def _overrun(self, kind: str, observers: tuple[Any, ...], cause: Cause | None) -> tuple[int, Cause | None]:
        """One outside event caused too much: crash who goes on, and begin to count anew.

        Who goes on is the actor whose turn caused this delivery, not those who merely hear of it.  Each time the next
        allowance is a tenth, and with none left whoever hears anything crashes: this ends whatever they do.
        """
        chain = _chain(cause)
        why = f"more than {self._max_depth} turns in a row" if self._left >= 0 else f"more than {self._max_turns} turns"
        if self._left < 0:
            self._grant //= 10
            self._left = self._grant
        error = RunawayError(f"one outside event caused {why}; the last: {chain}")
        culprits = [cause.by.facet.actor] if cause is not None else []
        if kind is CALL or not self._grant:
            culprits += [observer.facet.actor for observer in observers]
        for actor in culprits:
            if actor.alive:
                self._crash(actor, error, None)
        return 1, None

    # -- facts, observers, actors -------------------------------------------------------------------------------------

    def _index(self, fact: Any) -> Index:
        cls = type(fact)
        index = self._indexes.get(cls)
        if index is None:
            if not is_fact_class(cls):
                raise NotAFact(f"{fact!r} cannot be published or sent: a fact is an instance of a frozen attrs class")
            index = self._indexes[cls] = Index(kind_of(cls))
        return index

    def _index_of(self, cls: type) -> Index:
        index = self._indexes.get(cls)
        if index is None:
            index = self._indexes[cls] = Index(kind_of(cls))
        return index

    def _new_actor(self, name: str, *, keep: bool) -> Actor:
        if not (isinstance(name, str) and name):
            raise NameTaken(f"an actor's name is a text that is not empty, not {name!r}")
        if name in self._actors:
            raise NameTaken(f"there is a live actor {name!r} already; give another name, or stop it first")
        return Actor(self, name, keep)

    def _spawning(self, boot: Callable[..., object], args: tuple[Any, ...], name: str | None) -> tuple[Op, Call]:
        """Reserve the name and make the action that will boot the actor."""
        if name is None:
            name = next(self._free_names(getattr(boot, "__name__", "actor")))
        actor = self._new_actor(name, keep=False)
        if is_async(boot):
            actor.root._check_runtime("an async boot function")
        self._actors[name] = actor
        # The call that boots counts as pending until it runs, or the actor would be idle before it began.
        actor.root.pending += 1

        def run() -> None:
            actor.root.pending -= 1
            actor.root._enter(boot, args, ends_facet=True)

        return SPAWN, Call(actor.root, run)

    def _free_names(self, name: str) -> Iterator[str]:
        for n in count(1):
            numbered = name if n == 1 else f"{name}#{n}"
            if numbered not in self._actors:
                yield numbered

    # -- stop and crash -----------------------------------------------------------------------------------------------

    def _stop(self, facet: Facet) -> None:
        """Within a turn of its actor: stop a lifetime, children first, then stop actions, then what it holds."""
        if facet.state is not State.ALIVE:
            return
        self._actions.append((STOP, facet))
        facet.state = State.STOPPING
        for child in reversed(list(facet.children)):
            self._stop(child)
        stage = facet.parent
        if stage is not None:
            facet.state = State.STOPPED
        for action in list(facet.stop_actions):
            action(stage or facet)
        facet.state = State.STOPPED
        for handle in reversed(list(facet.handles)):
            self._let_go(handle)

    def _let_go(self, handle: Handle) -> None:
        if handle.state is State.ALIVE:
            handle.state = State.STOPPING
            self._actions.append((handle.release, handle))
            if isinstance(handle, Observer):
                for facet in list(handle.lifetimes.values()) if handle.lifetimes else ():
                    self._stop(facet)

    def _crash(self, actor: Actor, error: BaseException, cause: Cause | None) -> None:
        """Outside of turns: the actor ends, and all that it held with it, newest first."""
        if not actor.alive:
            return
        facets = list(actor.root._tree())
        handles = sorted((h for f in facets for h in f.handles), key=lambda handle: -handle.age)
        for facet in facets:
            facet.state = State.STOPPED
            facet._cancel_tasks()
        for handle in handles:
            handle.release.commit(self, handle, cause)
        crash = Crashed(actor.name, _reason(error), next(self._crash_count))
        self._end(actor, error)
        self._stand_crash(crash, cause)
        for hook in actor.crash_hooks:
            self._guard(hook, error, crash)
        self._guard(lambda e: self._on_crash(crash, e), error, None)
        self._drain()

    def _guard(self, hook: Callable[[Any], object], error: BaseException, crash: Crashed | None) -> None:
        """A hook that raises harms nobody, and is shown."""
        try:
            hook(error)
        except Exception as second:
            if crash is not None:
                self._guard(lambda e: self._on_crash(crash, e), second, None)
            else:
                sys.excepthook(type(second), second, second.__traceback__)

    def _stand_crash(self, crash: Crashed, cause: Cause | None) -> None:
        index = self._index_of(Crashed)
        record = Record(crash, index.kind.key(crash))
        self._crashes.append(index.publish(record, self._queue.append, cause))
        if len(self._crashes) > 100:
            index.retract(self._crashes.popleft(), self._queue.append, cause)

    def _task_done(self, task: Task, error: Exception | None) -> None:
        """Told by the runtime, outside of turns: a linked task has ended, in good order or with `error`."""
        facet = task.facet
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


def _reason(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(an error that cannot be shown)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _chain(cause: Cause | None, links: int = 6) -> str:
    shown = []
    while cause is not None and len(shown) < links:
        shown.append(f"{cause.by.facet.actor.name} {cause.kind} {cause.by!r}")
        cause = cause.before
    return " <- ".join(shown) + (" <- ..." if cause is not None else "")
