"""The index: which facts of one class stand, and who is to hear of them.

Observers are filed by the *shape* of their pattern (which paths hold constants) and then by the constants themselves, so
a fact is looked up once per distinct shape, and observers with other constants are never touched.  Facts are filed the
same way, so a newcomer finds what stands without a scan.  (The idea is that of Syndicate's skeletons.)

An index turns changes into deliveries `(kind, observers, args, cause)`, appended to a queue; it calls nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ._leaves import Group, Leaf, Record, Shape, Watcher
from ._paths import form, key_of
from ._values import Key, Kind

if TYPE_CHECKING:
    from ._pattern import Path, Pattern

__all__ = ["APPEARED", "HEARD", "VANISHED", "Delivery", "Index"]

APPEARED, VANISHED, HEARD = "appeared", "vanished", "heard"

IDLE_SHAPES = 8
"""So many shapes without observers are kept a class: a swapped engine finds its shape still warm."""

Delivery = tuple[str, tuple[Any, ...], tuple[Any, ...], Any]
Queue = Callable[[Delivery], object]
Visit = Callable[[Shape, Record], Leaf | None]


class Index:
    """All that stands and all that observe, for one class of facts."""

    def __init__(self, kind: Kind, queue: Queue) -> None:
        self.kind = kind
        self.key = kind.key
        self.queue = queue
        self.standing: dict[Key, Record] = {}
        self.bare = Leaf(self.standing)
        self.shapes: dict[tuple[Path, ...], Shape] = {}
        self.walk: tuple[Shape, ...] = ()  # the same shapes, for the walk that every publish makes

    # -- facts --------------------------------------------------------------------------------------------------------

    def publish(self, record: Record, cause: Any) -> Record:
        """Count one more behind the fact; the record that holds it now.  News only when it was the first."""
        standing = self.standing.setdefault(record.key, record)
        standing.count += 1
        if standing is not record:
            standing.fact = record.fact
            return standing
        self._spread(APPEARED, Shape.file, record, cause)
        return record

    def retract(self, record: Record, cause: Any) -> None:
        """Count one less; news when it was the last."""
        record.count -= 1
        if record.count:
            return
        del self.standing[record.key]
        self._spread(VANISHED, Shape.unfile, record, cause)

    def send(self, record: Record, cause: Any) -> None:
        """Tell those who listen now."""
        self._spread(HEARD, Shape.find, record, cause)

    def _spread(self, kind: str, visit: Visit, record: Record, cause: Any) -> None:
        """Visit the place of a fact in every shape, and queue what the observers met there are to hear."""
        first, others = self.bare if self.bare.first is not None else None, None
        for shape in self.walk:
            leaf = visit(shape, record)
            if leaf is None:
                continue
            if first is None:
                first = leaf
            else:
                others = [*(others or ()), leaf]
        if first is None:
            return
        group = first.first
        if others is None and group is not None and group.look is None and not first.others:
            # The usual case: the only group looks at whole facts, and is told together.
            self.queue((kind, group.view or group.observers(), (record.fact,), cause))
        else:
            self._tell(kind, [first, *(others or ())], record, cause)

    def _tell(self, kind: str, leaves: list[Leaf], record: Record, cause: Any) -> None:
        """Queue what each observer is to hear, by age of the observer."""
        told = [(_see[kind](group, record), group) for leaf in leaves for group in leaf.groups()]
        if len(told) == 1:
            # In one group the observers are by age already, and are told together.
            ((args, group),) = told
            if args is not None:
                self.queue((kind, group.view or group.observers(), args, cause))
            return
        everyone = [(w.age, w, args) for args, group in told if args is not None for w in group.observers()]
        everyone.sort(key=itemgetter(0))
        for _, watcher, args in everyone:
            self.queue((kind, (watcher,), args, cause))

    # -- observers ----------------------------------------------------------------------------------------------------

    def observe(self, watcher: Watcher, cause: Any) -> None:
        """File an observer and tell it what stands, oldest first."""
        leaf, shape, _ = self._place(watcher.pattern)
        if shape is not None:
            shape.observers += 1
        group = leaf.group(watcher.pattern.captures)
        group.join(watcher)
        for args in _views(leaf, group):
            self.queue((APPEARED, (watcher,), args, cause))

    def unobserve(self, watcher: Watcher) -> None:
        """Take an observer out; it hears nothing more."""
        leaf, shape, key = self._place(watcher.pattern)
        group = leaf.group(watcher.pattern.captures)
        if group.leave(watcher):
            leaf.drop(group)
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
        slot = shape.table.get(key_of(constants))
        if slot is None or isinstance(slot, Record):
            return [] if slot is None else [slot.fact]
        return [record.fact for record in slot.records()]

    def leaves(self) -> int:
        """How many places hold something."""
        return sum(len(shape.table) for shape in self.shapes.values()) + (self.bare.first is not None)

    def _place(self, pattern: Pattern[Any]) -> tuple[Leaf, Shape | None, Hashable]:
        constants = list(pattern.constants())
        if not constants:
            return self.bare, None, None
        paths = tuple([path for path, _ in constants])
        shape = self.shapes.get(paths)
        if shape is None:
            shape = self.shapes[paths] = Shape(paths, self.kind, self.standing.values())
            self.walk = tuple(self.shapes.values())
        key = key_of(constants)
        return shape.leaf(key), shape, key

    def _retire(self) -> None:
        idle = [paths for paths, shape in self.shapes.items() if not shape.observers]
        if len(idle) > IDLE_SHAPES:
            for paths in idle[:-IDLE_SHAPES]:
                del self.shapes[paths]
            self.walk = tuple(self.shapes.values())


_see: dict[str, Callable[[Group, Record], tuple[Any, ...] | None]] = {
    APPEARED: Group.appeared,
    VANISHED: Group.vanished,
    HEARD: Group.heard,
}


def _views(leaf: Leaf, group: Group) -> Iterator[tuple[Any, ...]]:
    """What a newcomer to `group` hears: each appearance once, in the order of its oldest fact."""
    records = leaf.records()
    if group.look is None:
        yield from [(record.fact,) for record in records]
        return
    bag, seen = group.bag or {}, set()
    for record in records:
        look = form(group.look(record.seen))
        if look not in seen:
            seen.add(look)
            yield tuple(bag[look][1])  # what older observers saw, and what all will see vanish
