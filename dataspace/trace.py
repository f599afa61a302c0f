"""Every turn as plain data: who acted, why, what was done and who was told.

    with recording(ds) as turns:
        ...
    standing(turns)                    # the facts that stood at the end, from the record alone
    why(turns, n)                      # the chain of causes that led to turn n

A record keeps facts as they are; `dump_turns` and `load_turns` make JSON lines of it and read them.  Recording wraps the one place through
which everything is committed; a dataspace that is not recorded pays nothing.  (The idea of a turn log with causes is
that of Syndicate's `trace` schema.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

from ._actions import CALL, CRASH, OBSERVE, PUBLISH, RETRACT, SEND, SPAWN, STOP, UNOBSERVE, Cause, Op
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

    Recording must be cheap and reading need not be, so turns are noted raw and become `Turn`s when they are read.
    """

    def __init__(self, core: Dataspace, clock: Callable[[], float] | None) -> None:
        self._core = core
        self._clock = clock
        self._inner = core._release
        self._was_wrapped = core._wrapped
        self._n = 0
        self._raw: list[_Raw] = []
        self._note_standing()
        core._release = self._release  # type: ignore[method-assign]
        core._wrapped = True

    def end(self) -> None:
        """Record no more."""
        self._core._release = self._inner  # type: ignore[method-assign]
        self._core._wrapped = self._was_wrapped

    def take(self) -> tuple[Turn, ...]:
        """What was recorded, which is forgotten here: for who writes it away while it grows."""
        raw, self._raw = self._raw, []
        return tuple(map(_turn, raw))

    def __len__(self) -> int:
        return len(self._raw)

    @overload
    def __getitem__(self, position: int) -> Turn: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[Turn, ...]: ...
    def __getitem__(self, position: int | slice) -> Turn | tuple[Turn, ...]:
        if isinstance(position, slice):
            return tuple(map(_turn, self._raw[position]))
        return _turn(self._raw[position])

    def _note_standing(self) -> None:
        held: list[tuple[Op, Any, Any]] = []
        for index in self._core._indexes.values():
            for record in index.standing.values():
                held += [(PUBLISH, None, record.fact)] * record.count
        if held:
            self._n += 1
            self._raw.append((self._n, None, "", held, (), self._clock and self._clock()))

    def _release(self, actor: Actor, actions: list[tuple[Op, Any]], cause: Cause | None) -> None:
        n = self._n = self._n + 1
        queue = self._core._queue
        before = len(queue)
        # A handle's fact may get newer readings; all else of what is acted on stays as it is.
        done = []
        for op, what in actions:
            done.append((op, what, what.record.fact if op is PUBLISH or op is RETRACT else None))
        earlier, mine = None, _new(Cause, (0, None, "outside", None, n))
        if cause is not None:
            mine = _new(Cause, (cause.depth, cause.by, cause.kind, cause.before, n))
            earlier = cause.before.turn if cause.before is not None else None
        self._inner(actor, actions, mine)
        new = len(queue) - before
        told = () if not new else (queue[-1],) if new == 1 else tuple([queue[position] for position in range(-new, 0)])
        self._raw.append((n, earlier, actor.name, done, told, self._clock and self._clock()))


_new = tuple.__new__  # half the time of a named tuple's own
_Raw = tuple[int, int | None, str, list[tuple[Op, Any, Any]], tuple[Delivery, ...], float | None]


def _turn(raw: _Raw) -> Turn:
    n, cause, actor, done, told, at = raw
    news = tuple([_told(item) for item in told if item[0] is not CALL])
    return Turn(n, cause, actor, tuple([_plain(*action) for action in done]), news, at)


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
    counts: dict[Any, int] = {}
    facts: dict[Any, Any] = {}
    crashes: list[Any] = []

    def change(fact: Any, by: int) -> None:
        key = (type(fact), kind_of(type(fact)).key(fact))
        counts[key] = counts.get(key, 0) + by
        if counts[key]:
            facts[key] = fact
        else:
            del counts[key], facts[key]

    for turn in turns:
        for action in turn.actions:
            if action.name in ("publish", "retract"):
                change(action.what, 1 if action.name == "publish" else -1)
            elif action.name in ("observe", "unobserve"):
                change(Observe(action.what, turn.actor), 1 if action.name == "observe" else -1)
            elif action.name == "crash":
                change(action.what, 1)
                crashes.append(action.what)
                if len(crashes) > 100:
                    change(crashes.pop(0), -1)
    return tuple(facts.values())


def why(turns: Iterable[Turn], n: int) -> tuple[Turn, ...]:
    """The turns that led to turn `n`, from outside in; `KeyError` if the record has no such turn."""
    by_number = {turn.n: turn for turn in turns}
    chain = [by_number[n]]
    while (cause := chain[-1].cause) is not None and cause in by_number:
        chain.append(by_number[cause])
    return tuple(reversed(chain))
