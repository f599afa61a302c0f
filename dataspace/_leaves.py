"""Where facts and observers are filed together: records, groups, leaves and the shapes that lead to them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from ._paths import NOWHERE, form, looker, picker, projector
from ._values import Key, Kind

if TYPE_CHECKING:
    from ._pattern import Names, Path, Pattern

__all__ = ["Group", "Leaf", "Record", "Shape", "Watcher", "record_of"]

SMALL = 8
"""So many observers of one group are a tuple; more are a dict."""


class Watcher(Protocol):
    """What the index knows of an observer."""

    age: int
    pattern: Pattern[Any]


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
        self.bag: dict[Hashable, list[Any]] = {}  # captured values -> [how many facts look like it, the values]
        self.members: dict[int, Watcher] | None = None  # only for many: a tuple is smaller, a dict is quicker to leave
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
        entry = self.bag.setdefault(form(args), [0, args])
        entry[0] += 1
        return args if entry[0] == 1 else None

    def vanished(self, record: Record) -> tuple[Any, ...] | None:
        if self.look is None:
            return (record.fact,)
        look = form(self.look(record.seen))
        entry = self.bag[look]
        entry[0] -= 1
        if entry[0]:
            return None
        del self.bag[look]
        return entry[1]  # type: ignore[no-any-return]

    def heard(self, record: Record) -> tuple[Any, ...]:
        return (record.fact,) if self.look is None else self.look(record.seen)


class Leaf:
    """The facts and observers that share their constants."""

    __slots__ = ("facts", "groups", "only")

    def __init__(self, facts: dict[Key, Record] | None = None) -> None:
        self.facts = facts
        self.groups: tuple[Group, ...] = ()
        self.only: Group | None = None  # the group, if it is the only one and looks at whole facts: the usual case

    def group(self, captures: tuple[Names, ...]) -> Group:
        for group in self.groups:
            if group.captures == captures:
                return group
        group = Group(captures)
        for record in (self.facts or {}).values():
            group.appeared(record)
        self._set(*self.groups, group)
        return group

    def drop(self, group: Group) -> None:
        self._set(*[g for g in self.groups if g is not group])

    def _set(self, *groups: Group) -> None:
        self.groups = groups
        self.only = groups[0] if len(groups) == 1 and groups[0].look is None else None


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
            self.table[key] = Leaf({slot.key: slot, record.key: record})
            return None
        assert isinstance(slot, Leaf)
        if slot.facts is None:
            slot.facts = {}
        slot.facts[record.key] = record
        return slot if slot.groups else None

    def unfile(self, record: Record) -> Leaf | None:
        key = self.pick(record.key) if self.pick is not None else self.key(record)
        slot = self.table.get(key)
        if slot is None:
            return None
        if isinstance(slot, Record):
            del self.table[key]
            return None
        assert slot.facts is not None
        del slot.facts[record.key]
        if slot.groups:
            return slot
        self.tidy(key, slot)
        return None

    def find(self, record: Record) -> Leaf | None:
        slot = self.table.get(self.pick(record.key) if self.pick is not None else self.key(record))
        return slot if isinstance(slot, Leaf) and slot.groups else None

    def leaf(self, key: Hashable) -> Leaf:
        slot = self.table.get(key)
        if slot is None or isinstance(slot, Record):
            slot = self.table[key] = Leaf(None if slot is None else {slot.key: slot})
        return slot

    def tidy(self, key: Hashable, leaf: Leaf) -> None:
        """A leaf that nobody needs goes; one that only holds a fact shrinks to it."""
        if leaf.groups or (leaf.facts and len(leaf.facts) > 1):
            return
        if leaf.facts:
            (self.table[key],) = leaf.facts.values()
        else:
            del self.table[key]
