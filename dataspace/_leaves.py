"""Where facts and observers are filed together: records, groups, leaves and the shapes that lead to them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, final

from ._paths import NOWHERE, form, looker, picker, projector
from ._values import Key, Kind

if TYPE_CHECKING:
    from ._pattern import Names, Path, Pattern

__all__ = ["Group", "Leaf", "Record", "Shape", "Watcher", "record_of"]

SMALL = 8
"""So many observers of a group, or facts of a leaf, are a tuple, which is smaller; more are a dict, quicker to leave."""


class Watcher(Protocol):
    """What the index knows of an observer."""

    age: int
    pattern: Pattern[Any]


@final
class Record:
    """A standing fact and how many stand behind it."""

    __slots__ = ("count", "fact", "key", "seen")

    fact: Any
    seen: Any  # what the index filed; `fact` may get newer readings
    key: Key
    count: int


def record_of(fact: Any, key: Key) -> Record:
    """A record that nobody stands behind yet."""
    record = Record()  # attributes set from outside: half the time of an `__init__`, at every publish
    record.fact = record.seen = fact
    record.key = key
    record.count = 0
    return record


class Group:
    """Observers of one leaf that look through the same captures."""

    __slots__ = ("bag", "captures", "look", "members", "view")

    def __init__(self, captures: tuple[Names, ...]) -> None:
        self.captures = captures
        self.look = looker(captures)
        # Captured values -> [how many facts look like it, the values]; made when the first fact comes.
        self.bag: dict[Hashable, list[Any]] | None = None
        self.members: dict[int, Watcher] | None = None  # only for many
        self.view: tuple[Watcher, ...] | None = ()

    def observers(self) -> tuple[Watcher, ...]:
        if self.view is None:
            assert self.members is not None
            self.view = tuple(self.members.values())
        return self.view

    def join(self, watcher: Watcher) -> None:
        if self.members is None and len(self.observers()) >= SMALL:
            self.members = {w.age: w for w in self.observers()}
        if self.members is None:
            self.view = (*self.observers(), watcher)
        else:
            self.members[watcher.age] = watcher
            self.view = None

    def leave(self, watcher: Watcher) -> bool:
        """True when nobody is left."""
        if self.members is None:
            self.view = tuple([w for w in self.observers() if w is not watcher])
            return not self.view
        del self.members[watcher.age]
        self.view = None
        return not self.members

    def appeared(self, record: Record) -> tuple[Any, ...] | None:
        """What the members are to hear of a new fact; None when it looks like one that stands."""
        if self.look is None:
            return (record.fact,)
        args = self.look(record.seen)
        if self.bag is None:
            self.bag = {}
        entry = self.bag.setdefault(form(args), [0, args])
        entry[0] += 1
        return args if entry[0] == 1 else None

    def vanished(self, record: Record) -> tuple[Any, ...] | None:
        if self.look is None:
            return (record.fact,)
        assert self.bag is not None
        look = form(self.look(record.seen))
        entry = self.bag[look]
        entry[0] -= 1
        if entry[0]:
            return None
        del self.bag[look]
        return entry[1]  # type: ignore[no-any-return]

    def heard(self, record: Record) -> tuple[Any, ...]:
        return (record.fact,) if self.look is None else self.look(record.seen)


@final
class Leaf:
    """The facts and observers that share their constants.

    Nearly all leaves that have observers have one group of them, which is why it is kept apart from `others`.
    """

    __slots__ = ("facts", "first", "others")

    def __init__(self, facts: tuple[Record, ...] | dict[Key, Record] = ()) -> None:
        self.facts = facts
        self.first: Group | None = None
        self.others: tuple[Group, ...] = ()

    def groups(self) -> tuple[Group, ...]:
        return () if self.first is None else (self.first, *self.others)

    def group(self, captures: tuple[Names, ...]) -> Group:
        for group in self.groups():
            if group.captures == captures:
                return group
        group = Group(captures)
        for record in self.records():
            group.appeared(record)
        self._set(*self.groups(), group)
        return group

    def drop(self, group: Group) -> None:
        self._set(*[g for g in self.groups() if g is not group])

    def _set(self, *groups: Group) -> None:
        self.first, self.others = (groups[0], groups[1:]) if groups else (None, ())

    def records(self) -> Iterable[Record]:
        """The facts, oldest first."""
        return self.facts if isinstance(self.facts, tuple) else self.facts.values()


class Shape:
    """One set of constant paths: constants -> what is filed under them.

    A slot that holds one fact and no observer is the bare record, which is what most slots are.
    """

    __slots__ = ("key", "observers", "pick", "table")

    def __init__(self, paths: tuple[Path, ...], kind: Kind, records: Iterable[Record]) -> None:
        self.pick = picker(paths, kind)
        self.key = projector(paths, kind)
        self.table: dict[Hashable, Leaf | Record] = {}
        self.observers = 0
        for record in records:
            self.file(record)

    def file(self, record: Record) -> Leaf | None:
        """Add a fact; the leaf it fell into, if that has observers."""
        key = self.pick(record.key) if self.pick is not None else self.key(record)
        slot = self.table.get(key)
        if slot is None:
            if key is not NOWHERE:
                self.table[key] = record
            return None
        if type(slot) is Record:
            self.table[key] = Leaf((slot, record))
            return None
        facts = slot.facts
        if not facts:
            slot.facts = (record,)
        elif isinstance(facts, dict):
            facts[record.key] = record
        elif len(facts) < SMALL:
            slot.facts = (*facts, record)
        else:
            slot.facts = {r.key: r for r in (*facts, record)}
        return slot if slot.first is not None else None

    def unfile(self, record: Record) -> Leaf | None:
        key = self.pick(record.key) if self.pick is not None else self.key(record)
        slot = self.table.get(key)
        if slot is None:
            return None
        if type(slot) is Record:
            del self.table[key]
            return None
        facts = slot.facts
        if len(facts) == 1:
            slot.facts = ()
        elif isinstance(facts, dict):
            del facts[record.key]
        else:
            slot.facts = tuple([r for r in facts if r is not record])
        if slot.first is not None:
            return slot
        self.tidy(key, slot)
        return None

    def find(self, record: Record) -> Leaf | None:
        slot = self.table.get(self.pick(record.key) if self.pick is not None else self.key(record))
        return slot if type(slot) is Leaf and slot.first is not None else None

    def leaf(self, key: Hashable) -> Leaf:
        slot = self.table.get(key)
        if slot is None or isinstance(slot, Record):
            slot = self.table[key] = Leaf(() if slot is None else (slot,))
        return slot

    def tidy(self, key: Hashable, leaf: Leaf) -> None:
        """A leaf that nobody needs goes; one that only holds a fact shrinks to it."""
        if leaf.first is not None or len(leaf.facts) > 1:
            return
        if leaf.facts:
            (self.table[key],) = leaf.records()
        else:
            del self.table[key]
