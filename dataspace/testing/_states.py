"""When two moments of a run are the same state: everything that can decide what happens next, as one number.

Numbers are given to values, to parts and to states as they are met (the idea of collapse compression in model checkers),
so two states have the same number only if they are equal, and each takes little room: a few hundred bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from .._actions import Call
from .._facet import Actor, Facet
from .._handles import FactHandle, Handle, Observer
from ._forms import Forms
from ._scenario import Run

__all__ = ["States"]


class States:
    """Numbers states."""

    def __init__(self) -> None:
        self._parts: dict[Hashable, int] = {}
        self._states: dict[bytes, int] = {}  # by the numbers of their parts, four bytes each
        self._run: Run | None = None

    def __len__(self) -> int:
        return len(self._states)

    def number(self, run: Run) -> int:
        """The number of the state that `run` is in."""
        if run is not self._run:
            self._run, self._forms = run, Forms(run.omitted, self._part)
        parts = array("I", map(self._part, _parts(run, self._forms)))
        return self._states.setdefault(parts.tobytes(), len(self._states))

    def _part(self, part: Hashable) -> int:
        return self._parts.setdefault(part, len(self._parts))


def _parts(run: Run, forms: Forms) -> Iterator[Hashable]:
    """Standing facts by class, actors and their inboxes, what the scenario says is remembered, what may yet fall."""
    of, ds = forms.of, run.ds
    for cls, index in sorted(ds._indexes.items(), key=lambda pair: pair[0].__qualname__):
        if index.standing:
            yield (cls, *[(of(record.fact), record.count) for record in index.standing.values()])
    for name in sorted(ds._actors.keys() - ds.onlookers):
        yield ("actor", *_actor(ds._actors[name], forms))
        letters = ds.inbox(name)
        if letters:
            yield ("inbox", name, *[(one.kind, _receiver(one.to, forms), of(one.args)) for one in letters])
    for part in run.hidden:
        yield ("remembered", of(part()))
    for name, script in run.scripts.items():
        if script.steps:
            yield ("outside", name, *map(of, script.steps))


def _receiver(to: Any, forms: Forms) -> Hashable:
    if isinstance(to, Call):
        return forms.of(to.call)
    return (_handles(to.facet.actor).index(to), to.pattern)


def _actor(actor: Actor, forms: Forms) -> list[Hashable]:
    facets = list(actor.root._tree())
    place = {facet: i for i, facet in enumerate(facets)}
    lifetimes = [
        (
            facet.parent and place.get(facet.parent),
            facet.state,
            facet.pending,
            len(facet.tasks or ()),
            forms.of(facet.stop_actions),
        )
        for facet in facets
    ]
    handles = [(place[handle.facet], *_handle(handle, place)) for handle in _handles(actor)]
    return [actor.name, len(actor.crash_hooks), *lifetimes, *handles]


def _handle(handle: Handle, place: Mapping[Facet, int]) -> list[Hashable]:
    if isinstance(handle, Observer):
        held = [(look, place.get(facet)) for look, facet in (handle.lifetimes or {}).items()]
        calls = [getattr(c, "__qualname__", None) for c in (handle.appeared, handle.vanished, handle.heard)]
        return [handle.pattern, *calls, *held]
    assert isinstance(handle, FactHandle)
    return [handle.index.kind.cls, handle.record.key]


def _handles(actor: Actor) -> list[Handle]:
    """All that an actor holds, oldest first."""
    return sorted([handle for facet in actor.root._tree() for handle in facet.handles], key=lambda handle: handle.age)
