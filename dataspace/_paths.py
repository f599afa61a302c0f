"""Ways into facts: from the paths that a pattern names to quick functions that follow them.

A path leads through field names and, where a nested pattern fixes it, the class of the fact held there.  Wherever it
can be, it is followed through the canonical key of the outer fact, which holds those of the facts in it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from ._values import PLAIN, Key, Kind, canon, kind_of
from .errors import NotAFact

if TYPE_CHECKING:
    from ._leaves import Record
    from ._pattern import Names, Path

__all__ = ["NOWHERE", "form", "key_of", "looker", "picker", "projector"]

NOWHERE = object()
"""Stands where a fact has not even the path that a shape looks at."""


def form(args: tuple[Any, ...]) -> Hashable:
    """The canonical form of what an observer sees."""
    return args if PLAIN.issuperset(map(type, args)) else canon(args)


@lru_cache(maxsize=1024)  # most observers look through captures that others look through too
def looker(captures: tuple[Names, ...]) -> Callable[[Any], tuple[Any, ...]] | None:
    """Where there are captures: a function that takes them out of a fact which matches."""
    if not captures:
        return None
    get = attrgetter(*[".".join(path) for path in captures])
    return get if len(captures) > 1 else lambda fact: (get(fact),)


def key_of(constants: list[tuple[Path, Hashable]]) -> Hashable:
    forms = [form for _, form in constants]
    return forms[0] if len(forms) == 1 else tuple(forms)


def picker(paths: tuple[Path, ...], kind: Kind) -> Callable[[Key], Hashable] | None:
    """Where all paths are plain fields of the key, which is nearly always: the function that takes them out of it."""
    if all(len(path) == 1 and path[0] in kind.identity for path in paths):
        return itemgetter(*[kind.identity.index(str(path[0])) for path in paths])
    return None


def projector(paths: tuple[Path, ...], kind: Kind) -> Callable[[Record], Hashable]:
    """The function from a record to the key under which a shape files it."""
    if len(paths) == 1:
        walk = _walker(paths[0], kind)
        return lambda record: walk(record, NOWHERE)
    walks = [_walker(path, kind) for path in paths]

    def project(record: Record) -> Hashable:
        found = tuple([walk(record, NOWHERE) for walk in walks])
        return NOWHERE if NOWHERE in found else found

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
    try:
        return path[-1] if isinstance(path[-1], type) else canon(value)
    except NotAFact:  # a reading that cannot be compared is like no literal
        return nowhere
