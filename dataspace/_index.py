"""The index: which facts of one class stand, and who is to hear of them.

Observers are filed by the *shape* of their pattern (which paths hold constants) and then by the constants themselves, so
a fact is looked up once per distinct shape, and observers with other constants are never touched.  Facts are filed the
same way, so a newcomer finds what stands without a scan.  (The idea is that of Syndicate's skeletons.)

An index turns changes into deliveries `(kind, observers, args, cause)`, appended to a queue; it calls nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Protocol

from ._values import PLAIN, Key, Kind, canon, kind_of

if TYPE_CHECKING:
    from ._pattern import Names, Path, Pattern

__all__ = ["APPEARED", "HEARD", "VANISHED", "Index", "Queue", "Record", "Watcher", "form"]

APPEARED, VANISHED, HEARD = "appeared", "vanished", "heard"

IDLE_SHAPES = 8
"""So many shapes without observers are kept a class: a swapped engine finds its shape still warm."""


class Watcher(Protocol):
    """What the index knows of an observer."""

    age: int
    pattern: Pattern[Any]


Delivery = tuple[str, tuple[Watcher, ...], tuple[Any, ...], Any]
Queue = Callable[[Delivery], object]


class Record:
    """A standing fact and how many stand behind it."""

    __slots__ = ("count", "fact", "key", "seen")

    def __init__(self, fact: Any, key: Key) -> None:
        self.fact = fact
        self.seen = fact  # what the index filed; `fact` may get newer readings
        self.key = key
        self.count = 0


class Group:
    """Observers of one leaf that look through the same captures."""

    __slots__ = ("bag", "captures", "look", "members", "view")

    def __init__(self, captures: tuple[Names, ...]) -> None:
        self.captures = captures
        self.look = _looker(captures)
        self.bag: dict[Hashable, list[Any]] = {}  # captured values -> [how many facts look like it, the values]
        self.members: dict[int, Watcher] | None = None  # only for many: a tuple is smaller, a dict is quicker to leave
        self.view: tuple[Watcher, ...] | None = ()

    def observers(self) -> tuple[Watcher, ...]:
        if self.view is None:
            assert self.members is not None
            self.view = tuple(self.members.values())
        return self.view

    def join(self, watcher: Watcher) -> None:
        if self.members is None and len(self.observers()) >= 8:
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

    __slots__ = ("facts", "groups")

    def __init__(self, facts: dict[Key, Record] | None = None) -> None:
        self.facts = facts
        self.groups: tuple[Group, ...] = ()

    def group(self, captures: tuple[Names, ...]) -> Group:
        for group in self.groups:
            if group.captures == captures:
                return group
        group = Group(captures)
        for record in (self.facts or {}).values():
            group.appeared(record)
        self.groups = (*self.groups, group)
        return group


class Shape:
    """One set of constant paths: constants -> what is filed under them.

    A slot that holds one fact and no observer is the bare record, which is what most slots are.
    """

    __slots__ = ("key", "observers", "table")

    def __init__(self, paths: tuple[Path, ...], kind: Kind, records: Iterable[Record]) -> None:
        self.key = _projector(paths, kind)
        self.table: dict[Hashable, Leaf | Record] = {}
        self.observers = 0
        for record in records:
            self.file(record)

    def file(self, record: Record) -> Leaf | None:
        """Add a fact; the leaf it fell into, if that has observers."""
        key = self.key(record)
        slot = self.table.get(key)
        if slot is None:
            if key is not _NOWHERE:
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
        key = self.key(record)
        slot = self.table.get(key)
        if slot is None:
            return None
        if isinstance(slot, Record):
            del self.table[key]
            return None
        assert slot.facts is not None
        del slot.facts[record.key]
        self.tidy(key, slot)
        return slot if slot.groups else None

    def find(self, record: Record) -> Leaf | None:
        slot = self.table.get(self.key(record))
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


class Index:
    """All that stands and all that observe, for one class of facts."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.standing: dict[Key, Record] = {}
        self.bare = Leaf(self.standing)
        self.shapes: dict[tuple[Path, ...], Shape] = {}

    # -- facts --------------------------------------------------------------------------------------------------------

    def publish(self, record: Record, queue: Queue, cause: Any) -> Record:
        """Count one more behind the fact; the record that holds it now.  News only when it was the first."""
        standing = self.standing.get(record.key)
        if standing is not None:
            standing.count += 1
            standing.fact = record.fact
            return standing
        record.count = 1
        self.standing[record.key] = record
        leaves = [self.bare] if self.bare.groups else []
        for shape in self.shapes.values():
            leaf = shape.file(record)
            if leaf is not None:
                leaves.append(leaf)
        if leaves:
            _tell(APPEARED, Group.appeared, leaves, record, queue, cause)
        return record

    def retract(self, record: Record, queue: Queue, cause: Any) -> None:
        """Count one less; news when it was the last."""
        record.count -= 1
        if record.count:
            return
        del self.standing[record.key]
        leaves = [self.bare] if self.bare.groups else []
        for shape in self.shapes.values():
            leaf = shape.unfile(record)
            if leaf is not None:
                leaves.append(leaf)
        if leaves:
            _tell(VANISHED, Group.vanished, leaves, record, queue, cause)

    def send(self, record: Record, queue: Queue, cause: Any) -> None:
        """Tell those who listen now."""
        leaves = [self.bare] if self.bare.groups else []
        for shape in self.shapes.values():
            leaf = shape.find(record)
            if leaf is not None:
                leaves.append(leaf)
        if leaves:
            _tell(HEARD, Group.heard, leaves, record, queue, cause)

    # -- observers ----------------------------------------------------------------------------------------------------

    def observe(self, watcher: Watcher, queue: Queue, cause: Any) -> None:
        """File an observer and tell it what stands, oldest first."""
        leaf, shape, _ = self._place(watcher.pattern)
        if shape is not None:
            shape.observers += 1
        group = leaf.group(watcher.pattern.captures)
        group.join(watcher)
        for args in _views(leaf, group):
            queue((APPEARED, (watcher,), args, cause))

    def unobserve(self, watcher: Watcher) -> None:
        leaf, shape, key = self._place(watcher.pattern)
        group = leaf.group(watcher.pattern.captures)
        if group.leave(watcher):
            leaf.groups = tuple([g for g in leaf.groups if g is not group])
        if shape is not None:
            shape.tidy(key, leaf)
            shape.observers -= 1
            if not shape.observers:
                self._retire()

    def facts(self, pattern: Pattern[Any]) -> list[Any]:
        """What matches, oldest first."""
        constants = list(pattern.constants())
        if not constants:
            return [record.fact for record in self.standing.values()]
        shape = self.shapes.get(tuple([path for path, _ in constants]))
        if shape is None:
            return [r.fact for r in self.standing.values() if pattern.match(r.seen) is not None]
        slot = shape.table.get(_key_of(constants))
        if slot is None or isinstance(slot, Record):
            return [] if slot is None else [slot.fact]
        return [record.fact for record in (slot.facts or {}).values()]

    def leaves(self) -> int:
        return sum(len(shape.table) for shape in self.shapes.values()) + bool(self.bare.groups)

    def _place(self, pattern: Pattern[Any]) -> tuple[Leaf, Shape | None, Hashable]:
        constants = list(pattern.constants())
        if not constants:
            return self.bare, None, None
        paths = tuple([path for path, _ in constants])
        shape = self.shapes.get(paths)
        if shape is None:
            shape = self.shapes[paths] = Shape(paths, self.kind, self.standing.values())
        key = _key_of(constants)
        return shape.leaf(key), shape, key

    def _retire(self) -> None:
        idle = [paths for paths, shape in self.shapes.items() if not shape.observers]
        for paths in idle[:-IDLE_SHAPES]:
            del self.shapes[paths]


def _tell(
    kind: str,
    see: Callable[[Group, Record], tuple[Any, ...] | None],
    leaves: list[Leaf],
    record: Record,
    queue: Queue,
    cause: Any,
) -> None:
    """Queue what each observer is to hear, by age of the observer."""
    if len(leaves) == 1 and len(leaves[0].groups) == 1:
        group = leaves[0].groups[0]
        args = see(group, record)
        if args is not None:
            queue((kind, group.view or group.observers(), args, cause))
        return
    told = [(see(group, record), group) for leaf in leaves for group in leaf.groups]
    everyone = [(w.age, w, args) for args, group in told if args is not None for w in group.observers()]
    everyone.sort(key=itemgetter(0))
    for _, watcher, args in everyone:
        queue((kind, (watcher,), args, cause))


def _views(leaf: Leaf, group: Group) -> Iterator[tuple[Any, ...]]:
    """What a newcomer to `group` hears: each appearance once, in the order of its oldest fact."""
    records = (leaf.facts or {}).values()
    if group.look is None:
        yield from [(record.fact,) for record in records]
        return
    seen: set[Hashable] = set()
    for record in records:
        args = group.look(record.seen)
        look = form(args)
        if look not in seen:
            seen.add(look)
            yield args


def form(args: tuple[Any, ...]) -> Hashable:
    return args if PLAIN.issuperset(map(type, args)) else canon(args)


def _looker(captures: tuple[Names, ...]) -> Callable[[Any], tuple[Any, ...]] | None:
    """Where there are captures: a function that takes them out of a fact which matches."""
    if not captures:
        return None
    get = attrgetter(*[".".join(path) for path in captures])
    return get if len(captures) > 1 else lambda fact: (get(fact),)


def _key_of(constants: list[tuple[Path, Hashable]]) -> Hashable:
    forms = [form for _, form in constants]
    return forms[0] if len(forms) == 1 else tuple(forms)


_NOWHERE = object()
"""Stands where a fact has not even the path that a shape looks at."""


def _projector(paths: tuple[Path, ...], kind: Kind) -> Callable[[Record], Hashable]:
    """The function from a record to the key under which a shape files it."""
    if all(len(path) == 1 and path[0] in kind.identity for path in paths):
        pick = itemgetter(*[kind.identity.index(str(path[0])) for path in paths])
        return lambda record: pick(record.key)
    if len(paths) == 1:
        walk = _walker(paths[0], kind)
        return lambda record: walk(record, _NOWHERE)
    walks = [_walker(path, kind) for path in paths]

    def project(record: Record) -> Hashable:
        found = tuple([walk(record, _NOWHERE) for walk in walks])
        return _NOWHERE if _NOWHERE in found else found

    return project


def _walker(path: Path, kind: Kind) -> Callable[[Record, object], Hashable]:
    """The function from a record to the canonical value at the end of `path`, or to `nowhere`."""
    steps = _steps(path, kind)
    if steps is None:
        return lambda record, nowhere: _look_up(record.seen, path, nowhere)
    first, rest = steps

    def walk(record: Record, nowhere: object) -> Hashable:
        value: Any = record.key[first]
        for cls, position in rest:
            if type(value) is not tuple or value[0] is not cls:
                return nowhere
            value = value[position]
        return value  # type: ignore[no-any-return]

    return walk


def _steps(path: Path, kind: Kind) -> tuple[int, list[tuple[type, int]]] | None:
    """The path as positions in canonical keys, where the class comes first; None where it passes a reading."""
    name, rest = str(path[0]), path[1:]
    if name not in kind.identity:
        return None
    first, steps = kind.identity.index(name), []
    while rest:
        cls = rest[0]
        assert isinstance(cls, type)
        if len(rest) == 1:
            steps.append((cls, 0))
            break
        inner, name = kind_of(cls), str(rest[1])
        if name not in inner.identity:
            return None
        steps.append((cls, inner.identity.index(name) + 1))
        rest = rest[2:]
    return first, steps


def _look_up(value: Any, path: Path, nowhere: object) -> Hashable:
    """Follow a path through the facts themselves, for readings have no place in the key."""
    for step in path:
        if isinstance(step, str):
            value = getattr(value, step)
        elif type(value) is not step:
            return nowhere
    return path[-1] if isinstance(path[-1], type) else canon(value)
