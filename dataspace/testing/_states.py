"""When two moments of a run are the same state: everything that can decide what happens next, as one number.

Numbers are given to parts and to states as they are met (the idea of collapse compression in model checkers), so two
states have the same number only if they are equal, and each takes little room.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import attrs

from .._actions import Call
from .._facet import Actor, Facet
from .._handles import FactHandle, Handle, Observer
from .._values import PLAIN, canon
from ..errors import NotAFact
from ._scenario import Run

__all__ = ["States"]


class States:
    """Numbers states."""

    def __init__(self) -> None:
        self._parts: dict[Hashable, int] = {}
        self._states: dict[tuple[int, ...], int] = {}
        self._forms: _Forms | None = None

    def __len__(self) -> int:
        return len(self._states)

    def number(self, run: Run) -> int:
        """The number of the state that `run` is in."""
        if self._forms is None:
            self._forms = _Forms(run.omitted)
        form = self._forms
        parts = [self._part(part) for part in form.space(run)]
        parts += [self._part(("remembered", form.of(part()))) for part in run.hidden]
        parts += [
            self._part(("outside", name, *map(form.of, script.steps)))
            for name, script in run.scripts.items()
            if script.steps
        ]
        return self._states.setdefault(tuple(parts), len(self._states))

    def _part(self, part: Hashable) -> int:
        return self._parts.setdefault(part, len(self._parts))


class _Forms:
    """Hashable forms of values, readings included, and of what lives in a dataspace.

    Objects that are no values count by their class alone: what they hold, the scenario tells.
    """

    def __init__(self, omitted: Mapping[type, frozenset[str]]) -> None:
        self._omitted = omitted
        self._within: set[int] = set()
        self._ways: dict[type, Callable[[Any], Hashable]] = {}  # by class, for this is where the time goes

    def of(self, value: Any) -> Hashable:
        cls = type(value)
        if cls in PLAIN:
            return value  # type: ignore[no-any-return]
        way = self._ways.get(cls)
        if way is None:
            way = self._ways[cls] = self._way(cls)
        return way(value)

    def _way(self, cls: type) -> Callable[[Any], Hashable]:
        of = self.of
        if cls in (bool, float) or issubclass(cls, enum.Enum):
            return lambda value: (cls, value)
        if issubclass(cls, tuple):
            return lambda value: (cls, *map(of, value))
        if issubclass(cls, (frozenset, set)):
            return self._once(lambda value: (cls, frozenset(map(of, value))))
        if issubclass(cls, list):
            return self._once(lambda value: (cls, *map(of, value)))
        if cls is dict:
            return self._once(lambda value: (cls, *map(of, value.items())))
        if attrs.has(cls):
            omitted = self._omitted.get(cls, frozenset())
            names = [a.name for a in attrs.fields(cls) if a.name not in omitted]
            return self._once(lambda value: (cls, *[of(getattr(value, name)) for name in names]))
        if cls in (partial, MethodType, FunctionType):
            return self._once(lambda value: (cls, *self._function(value, cls)))
        return lambda value: (cls, *self._living(value))

    def _once(self, way: Callable[[Any], Hashable]) -> Callable[[Any], Hashable]:
        """The same for what may hold itself."""

        def guarded(value: Any) -> Hashable:
            if id(value) in self._within:
                return (type(value), "around it")
            self._within.add(id(value))
            try:
                return way(value)
            finally:
                self._within.discard(id(value))

        return guarded

    def _function(self, value: Any, cls: type) -> list[Hashable]:
        if cls is partial:
            return [self.of(value.func), self.of(value.args), self.of(value.keywords)]
        if cls is MethodType:
            return [value.__qualname__, self.of(value.__self__)]
        cells = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
        return [value.__qualname__, value.__module__, *map(self.of, [*cells, *(value.__defaults__ or ())])]

    def _living(self, value: Any) -> list[Hashable]:
        if isinstance(value, Facet):
            return [value.actor.name, value.state, value.parent is None]
        if isinstance(value, Observer):
            return [value.facet.actor.name, value.pattern]
        if isinstance(value, FactHandle):
            return [value.facet.actor.name, value.state, self.of(value.record.fact)]
        try:
            return [canon(value)]
        except NotAFact:
            return []

    def space(self, run: Run) -> list[Hashable]:
        """The parts of a dataspace: standing facts by class, actors and their inboxes."""
        ds = run.ds
        parts: list[Hashable] = [
            (cls, *[(self.of(record.fact), record.count) for record in index.standing.values()])
            for cls, index in sorted(ds._indexes.items(), key=lambda pair: pair[0].__qualname__)
            if index.standing
        ]
        for name in sorted(ds._actors.keys() - ds.onlookers):
            parts.append(("actor", *self._actor(ds._actors[name])))
            letters = ds.inbox(name)
            if letters:
                parts.append(
                    (
                        "inbox",
                        name,
                        *[(letter.kind, self._receiver(letter.to), self.of(letter.args)) for letter in letters],
                    )
                )
        return parts

    def _receiver(self, to: Any) -> Hashable:
        if isinstance(to, Call):
            return self.of(to.call)
        return (_handles(to.facet.actor).index(to), to.pattern)

    def _actor(self, actor: Actor) -> list[Hashable]:
        facets = list(actor.root._tree())
        place = {facet: i for i, facet in enumerate(facets)}
        lifetimes = [
            (
                facet.parent and place.get(facet.parent),
                facet.state,
                facet.pending,
                len(facet.tasks or ()),
                self.of(facet.stop_actions),
            )
            for facet in facets
        ]
        handles = [(place[handle.facet], *self._handle(handle, place)) for handle in _handles(actor)]
        return [actor.name, len(actor.crash_hooks), *lifetimes, *handles]

    def _handle(self, handle: Handle, place: Mapping[Facet, int]) -> list[Hashable]:
        if isinstance(handle, Observer):
            held = [(look, place.get(facet)) for look, facet in (handle.lifetimes or {}).items()]
            calls = [getattr(c, "__qualname__", None) for c in (handle.appeared, handle.vanished, handle.heard)]
            return [handle.pattern, *calls, *held]
        assert isinstance(handle, FactHandle)
        return [handle.index.kind.cls, handle.record.key]


def _handles(actor: Actor) -> list[Handle]:
    """All that an actor holds, oldest first."""
    return sorted([handle for facet in actor.root._tree() for handle in facet.handles], key=lambda handle: handle.age)


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading is the question
    except ValueError:
        return False
    return True
