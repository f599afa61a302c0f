"""Every turn as plain data: who acted, why, what was done and who was told.

    with recording(ds) as turns:
        ...
    standing(turns)                    # the facts that stood at the end, from the record alone
    why(turns, n)                      # the chain of causes that led to turn n

A record keeps facts as they are; `dump_turns` and `load_turns` make JSON lines of it and read them.  Recording wraps the
one place through which everything is committed; a dataspace that is not recorded pays nothing.  (The idea of a turn log
with causes is that of Syndicate's `trace` schema.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import TYPE_CHECKING, Any, overload

from ._actions import CALL, CRASH, OBSERVE, PUBLISH, RETRACT, SEND, SPAWN, STOP, UNOBSERVE, Cause, Op
from ._crash import Crashed
from ._dataspace import Dataspace
from ._facet import Actor
from ._index import Delivery
from ._pattern import Observe
from ._trace_lines import Opaque, dump_turns, load_turns
from ._turn_data import Action, Told, Turn
from ._values import kind_of

if TYPE_CHECKING:
    from ._runtime import AsyncDataspace

__all__ = ["Action", "Opaque", "Recording", "Told", "Turn", "dump_turns", "load_turns", "recording", "standing", "why"]


@contextmanager
def recording(ds: Dataspace | AsyncDataspace, *, clock: Callable[[], float] | None = None) -> Iterator[Recording]:
    """Record the turns of `ds` while the block runs.

    What stands already comes first, as a turn of nobody's.  With `clock` each turn says when it was.  Callbacks that did
    nothing are no turns of the record: that they were told is.
    """
    core: Dataspace = ds if isinstance(ds, Dataspace) else ds._core
    record = Recording(core, clock)
    try:
        yield record
    finally:
        record.end()


class Recording(Sequence[Turn]):
    """The turns recorded so far.  While the block of `recording` runs it grows; it can be read at any time.

    A turn's number is new to the dataspace, so several recordings agree on it.  Recording must be cheap and reading need
    not be: turns are noted raw and become `Turn`s when they are read.
    """

    def __init__(self, core: Dataspace, clock: Callable[[], float] | None) -> None:
        self._raw: list[_Raw] = []
        self._times: list[float] | None = None if clock is None else []
        self._note: Callable[[_Raw], object] = self._raw.append if clock is None else self._timed(clock)
        self._tap = _Tap.of(core)
        self._tap.open(self._note)

    def end(self) -> None:
        """Record no more."""
        self._tap.close(self._note)

    def take(self) -> tuple[Turn, ...]:
        """What was recorded, which is forgotten here: for who writes it away while it grows."""
        taken = self[:]
        self._raw.clear()
        if self._times is not None:
            self._times.clear()
        return taken

    def __len__(self) -> int:
        return len(self._raw)

    @overload
    def __getitem__(self, position: int) -> Turn: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[Turn, ...]: ...
    def __getitem__(self, position: int | slice) -> Turn | tuple[Turn, ...]:
        if not isinstance(position, slice):
            return _turn(self._raw[position], None if self._times is None else self._times[position])
        times = repeat(None) if self._times is None else self._times[position]
        return tuple(map(_turn, self._raw[position], times))

    def _timed(self, clock: Callable[[], float]) -> Callable[[_Raw], object]:
        assert self._times is not None
        keep, keep_time = self._raw.append, self._times.append

        def note(raw: _Raw) -> None:
            keep_time(clock())
            keep(raw)

        return note


class _Tap:
    """Stands in for `_release` while a dataspace is recorded; there is one, for all recordings of it."""

    def __init__(self, core: Dataspace) -> None:
        self._core = core
        self._inner, self._queue, self._number = core._release, core._queue, core._turn_numbers.__next__
        self._notes: list[Callable[[_Raw], object]] = []

    @classmethod
    def of(cls, core: Dataspace) -> _Tap:
        """The tap that is in place, or a new one."""
        tap = getattr(core._release, "__self__", None)
        return tap if isinstance(tap, cls) else cls(core)

    def open(self, note: Callable[[_Raw], object]) -> None:
        held = [
            part
            for index in self._core._indexes.values()
            for record in index.standing.values()
            for _ in range(record.count)
            for part in (PUBLISH, None, record.fact)
        ]
        if held:
            note((self._number(), None, "", (), *held))
        self._notes.append(note)
        self._core._release = self._release  # type: ignore[method-assign]
        self._core._wrapped = True

    def close(self, note: Callable[[_Raw], object]) -> None:
        if note in self._notes:
            self._notes.remove(note)
            if not self._notes:
                del self._core._release  # the instance's; that of the class is seen again
                self._core._wrapped = False

    def _release(self, actor: Actor, actions: list[tuple[Op, Any]], cause: Cause | None) -> None:
        n = self._number()
        queue = self._queue
        before = len(queue)
        # A handle's fact may get newer readings; all else of what is acted on stays as it is.  The note is flat, for what
        # is kept is looked at by the garbage collector, and that is a good part of what recording costs.
        done: list[Any] = []
        for op, what in actions:
            done += (op, what, what.record.fact if op is PUBLISH or op is RETRACT else None)
        if cause is None:
            earlier, mine = None, _new(Cause, (0, None, "outside", None, n))
        else:
            mine = _new(Cause, (cause.depth, cause.by, cause.kind, cause.before, n))
            earlier = cause.before.turn if cause.before is not None else None
        self._inner(actor, actions, mine)
        new = len(queue) - before
        told = () if not new else (queue[-1],) if new == 1 else tuple([queue[position] for position in range(-new, 0)])
        raw = (n, earlier, actor.name, told, *done)
        for note in self._notes:
            note(raw)


_new = tuple.__new__  # half the time of a named tuple's own
_Raw = tuple[Any, ...]
"""Number, cause, actor, deliveries, then three items for each action: what kind, on what, and the fact."""


def _turn(raw: _Raw, at: float | None) -> Turn:
    n, cause, actor, told, *done = raw
    news = tuple([_told(item) for item in told if item[0] is not CALL])
    return Turn(n, cause, actor, tuple(map(_plain, done[::3], done[1::3], done[2::3])), news, at)


def _plain(op: Op, what: Any, fact: Any) -> Action:
    if op is PUBLISH or op is RETRACT:
        return Action(op.name, fact, None if what is None else what.age)
    if op is OBSERVE or op is UNOBSERVE:
        return Action(op.name, what.pattern, what.age)
    if op is SEND:
        return Action(op.name, what.fact)
    if op is SPAWN:
        return Action(op.name, what.facet.actor.name)
    if op is STOP:
        return Action(op.name, "actor" if what.parent is None else "lifetime")
    return Action(op.name, what if op is CRASH else None)


def _told(item: Delivery) -> Told:
    kind, observers, args, _ = item
    return Told(kind, tuple([observer.facet.actor.name for observer in observers]), args)


def standing(turns: Iterable[Turn]) -> tuple[Any, ...]:
    """The facts that stand after `turns`, oldest first, interest and crashes among them."""
    ledger = _Ledger()
    for turn in turns:
        for action in turn.actions:
            ledger.enter(turn.actor, action)
    return tuple(ledger.facts.values())


class _Ledger:
    """Counts who stands behind what, as the index does."""

    def __init__(self) -> None:
        self.facts: dict[Any, Any] = {}
        self._counts: dict[Any, int] = {}
        self._crashes: list[Any] = []

    def enter(self, actor: str, action: Action) -> None:
        name, what = action.name, action.what
        if name == "crash" or (not actor and type(what) is Crashed):
            self._change(what, 1)
            self._crashes.append(what)
            if len(self._crashes) > 100:
                self._change(self._crashes.pop(0), -1)
        elif name in ("publish", "retract"):
            self._change(what, 1 if name == "publish" else -1)
        elif name in ("observe", "unobserve"):
            self._change(Observe(what, actor), 1 if name == "observe" else -1)

    def _change(self, fact: Any, by: int) -> None:
        key = (type(fact), kind_of(type(fact)).key(fact))
        count = self._counts[key] = self._counts.get(key, 0) + by
        if by > 0:
            self.facts[key] = fact  # with the newest readings
        elif not count:
            del self._counts[key], self.facts[key]


def why(turns: Iterable[Turn], n: int) -> tuple[Turn, ...]:
    """The turns that led to turn `n`, from outside in; `KeyError` if the record has no such turn."""
    by_number = {turn.n: turn for turn in turns}
    chain = [by_number[n]]
    while (cause := chain[-1].cause) is not None and cause in by_number:
        chain.append(by_number[cause])
    return tuple(reversed(chain))
