"""The actions of a turn: how each is committed, and how the call that asked for it is undone.

A call like `me.publish` checks all that can fail, marks what it must (a handle as going, a name as taken) and adds an
action to the turn.  `commit` files facts and observers and queues deliveries; `undo` takes the mark back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ._leaves import record_of
from ._pattern import Observe
from ._state import State

if TYPE_CHECKING:
    from ._crash import Crashed
    from ._facet import Facet
    from ._handles import FactHandle, Observer
    from ._leaves import Record
    from ._tasks import Task
    from ._turns import Turns

STOPPED = State.STOPPED

__all__ = [
    "CALL",
    "CRASH",
    "LATER",
    "NOTE",
    "OBSERVE",
    "PUBLISH",
    "RETRACT",
    "SEND",
    "SPAWN",
    "STOP",
    "TASK",
    "UNOBSERVE",
    "Call",
    "Cause",
    "Op",
]

CALL = "call"
"""The kind of a delivery that runs a function as a turn: a boot, a `later`, a stop."""


class Cause(NamedTuple):
    """What made a turn commit: the delivery it handled, and what caused that."""

    depth: int
    by: Any
    kind: str
    before: Cause | None
    turn: int | None = None
    """The number of the turn that it caused; only a trace counts them."""


class Call:
    """A function to be run as a turn of `facet`'s actor; in the queue it stands where an observer would."""

    __slots__ = ("begins", "call", "facet")

    def __init__(self, facet: Facet, call: Callable[[], object], *, begins: bool = False) -> None:
        self.facet = facet
        self.call = call
        self.begins = begins  # the actor, that is: it is its boot

    @property
    def state(self) -> State:
        return self.facet.state

    def __repr__(self) -> str:
        return getattr(self.call, "__qualname__", "a function")


class Op:
    """One kind of action."""

    __slots__ = ("commit", "name", "undo")

    def __init__(
        self,
        name: str,
        commit: Callable[[Turns, Any, Cause | None], object],
        undo: Callable[[Any], object],
    ) -> None:
        self.name, self.commit, self.undo = name, commit, undo

    def __repr__(self) -> str:
        return self.name


def _publish(ds: Turns, handle: FactHandle, cause: Cause | None) -> None:
    handle.record = handle.index.publish(handle.record, cause)


def _unpublish(handle: FactHandle) -> None:
    handle.state = State.STOPPED
    handle.facet.handles.pop(handle, None)


def _retract(ds: Turns, handle: FactHandle, cause: Cause | None) -> None:
    handle.state = STOPPED
    del handle.facet.handles[handle]
    handle.index.retract(handle.record, cause)


def _keep(handle: FactHandle | Observer | Facet) -> None:
    handle.state = State.ALIVE


def _observe(ds: Turns, observer: Observer, cause: Cause | None) -> None:
    # Interest stands before the observer is filed, so who observes `Observe` finds itself among what stands.
    interest = Observe(observer.pattern, observer.facet.actor.name)
    index = ds._index_of(Observe)
    observer.interest = index.publish(record_of(interest, index.key(interest)), cause)
    ds._index_of(observer.pattern.cls).observe(observer, cause)
    ds._observers += 1


def _forget(observer: Observer) -> None:
    observer.state = State.STOPPED
    observer.facet.handles.pop(observer, None)
    if observer.gone is not None:
        observer.gone()


def _unobserve(ds: Turns, observer: Observer, cause: Cause | None) -> None:
    _forget(observer)
    ds._index_of(observer.pattern.cls).unobserve(observer)
    assert observer.interest is not None
    ds._index_of(Observe).retract(observer.interest, cause)
    ds._observers -= 1


def _send(ds: Turns, record: Record, cause: Cause | None) -> None:
    ds._index_of(type(record.fact)).send(record, cause)


def _call(ds: Turns, call: Call, cause: Cause | None) -> None:
    ds._queue.append((CALL, (call,), (), cause))


def _free_name(call: Call) -> None:
    actor = call.facet.actor
    actor.alive = False
    call.facet.state = State.STOPPED
    del actor.ds._actors[actor.name]


def _drop_call(call: Call) -> None:
    call.facet.pending -= 1


def _stop(ds: Turns, facet: Facet, cause: Cause | None) -> None:
    facet._cancel_tasks()
    parent = facet.parent
    if parent is not None:
        if parent.children:
            parent.children.pop(facet, None)
    else:
        ds._end(facet.actor, None)


def _start(ds: Turns, task: Task, cause: Cause | None) -> None:
    if task.facet.state is State.ALIVE:
        assert ds._runtime is not None
        ds._runtime.start(task)
    else:
        _drop_task(task)


def _drop_task(task: Task) -> None:
    if task.facet.tasks:
        task.facet.tasks.discard(task)


def _tell_crash(ds: Turns, crash: Crashed, cause: Cause | None) -> None:
    ds._stand_crash(crash, cause)


def _nothing(ds: Turns, what: Any, cause: Cause | None) -> None:
    pass


def _harmless(what: Any) -> None:
    pass


def _unnote(undo: Callable[[], object]) -> None:
    undo()


PUBLISH = Op("publish", _publish, _unpublish)
RETRACT = Op("retract", _retract, _keep)
OBSERVE = Op("observe", _observe, _forget)
UNOBSERVE = Op("unobserve", _unobserve, _keep)
SEND = Op("send", _send, _harmless)
SPAWN = Op("spawn", _call, _free_name)
LATER = Op("later", _call, _drop_call)
TASK = Op("task", _start, _drop_task)
STOP = Op("stop", _stop, _keep)
CRASH = Op("crash", _tell_crash, _harmless)
NOTE = Op("note", _nothing, _unnote)
"""Nothing to commit; what it acts on is the function that undoes a change already made."""
