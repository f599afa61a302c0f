"""Hashable forms of values, readings included, and of what lives in a dataspace: equal forms, equal states.

From one state of a run to the next most values are the same objects.  Those that cannot change are looked at once a run, and
are a number from then on: that is quick, and a form that holds many takes little room.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

import attrs

from .._facet import Facet
from .._handles import FactHandle, Observer
from .._values import PLAIN, _immutable, canon, is_fact_class
from ..errors import NotAFact

__all__ = ["Forms"]

Way = Callable[[Any], Hashable]


class Forms:
    """Makes forms, for one run.  `omitted` names fields of classes that do not count; `number` gives equal forms the same number.

    Objects that are no values count by their class alone: what they hold, the scenario tells.
    """

    def __init__(self, omitted: Mapping[type, frozenset[str]], number: Callable[[Hashable], int]) -> None:
        self._omitted = omitted
        self._number = number
        self._ways: dict[type, Way] = {}  # by class, for this is where the time goes
        self._known: dict[int, tuple[Any, Hashable]] = {}  # by id, with the object, so that nothing else gets its id
        self._fixed = True  # is all that has been met such that it cannot change?
        self._within: set[int] = set()

    def of(self, value: Any) -> Hashable:
        """The form of a value."""
        cls = type(value)
        if cls in PLAIN:
            return value  # type: ignore[no-any-return]
        way = self._ways.get(cls)
        if way is None:
            way = self._ways[cls] = self._of_value(cls) or self._of_function(cls) or self._of_object(cls)
        return way(value)

    # -- by class -----------------------------------------------------------------------------------------------------

    def _of_value(self, cls: type) -> Way | None:
        of = self.of
        if cls in (bool, float) or issubclass(cls, enum.Enum):
            return lambda value: (cls, value)
        if issubclass(cls, tuple):
            return lambda value: (cls, *map(of, value))
        if issubclass(cls, frozenset):
            return lambda value: (cls, frozenset(map(of, value)))
        if issubclass(cls, set):
            return self._fresh(lambda value: (cls, frozenset(map(of, value))))
        if issubclass(cls, list):
            return self._fresh(lambda value: (cls, *map(of, value)))
        if cls is dict:
            return self._fresh(lambda value: (cls, *map(of, value.items())))
        if attrs.has(cls):
            omitted = self._omitted.get(cls, frozenset())
            names = [a.name for a in attrs.fields(cls) if a.name not in omitted]
            way = self._once if is_fact_class(cls) else self._fresh
            return way(lambda value: (cls, *[of(getattr(value, name)) for name in names]))
        return None

    def _of_function(self, cls: type) -> Way | None:
        of = self.of
        if cls is partial:
            return self._once(lambda value: (cls, of(value.func), of(value.args), *map(of, value.keywords.items())))
        if cls in (MethodType, BuiltinMethodType):
            return self._once(lambda value: (cls, value.__module__, value.__qualname__, of(value.__self__)))
        if cls is FunctionType:
            return self._fresh(lambda value: (cls, value.__qualname__, value.__module__, *map(of, _closed_over(value))))
        return None

    def _of_object(self, cls: type) -> Way:
        if issubclass(cls, Facet):
            return self._fresh(lambda facet: (cls, facet.actor.name, facet.state, facet.parent is None))
        if issubclass(cls, Observer):
            return lambda observer: (cls, observer.facet.actor.name, observer.pattern)
        if issubclass(cls, FactHandle):
            return self._fresh(lambda handle: (cls, handle.facet.actor.name, handle.state, self.of(handle.record.fact)))
        if cls in _immutable or issubclass(cls, type):
            return lambda value: (cls, _canon(value))
        return lambda _value: (cls,)

    # -- what may change, and what cannot -----------------------------------------------------------------------------

    def _fresh(self, way: Way) -> Way:
        """The same for what may change, and may hold itself: looked at each time."""
        within = self._within

        def guarded(value: Any) -> Hashable:
            self._fixed = False
            if id(value) in within:
                return (type(value), "around it")
            within.add(id(value))
            try:
                return way(value)
            finally:
                within.discard(id(value))

        return guarded

    def _once(self, way: Way) -> Way:
        """The same for what cannot change, unless it holds what can: a number, known when the object comes again."""
        known, number = self._known, self._number

        def remembered(value: Any) -> Hashable:
            found = known.get(id(value))
            if found is not None:
                return found[1]
            before, self._fixed = self._fixed, True
            form = way(value)
            if self._fixed:
                form = (Forms, number(form))  # no form of a value begins so
                known[id(value)] = value, form
            self._fixed &= before
            return form

        return remembered


def _closed_over(function: FunctionType) -> list[Any]:
    """The values that a function brings along."""
    cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    return [*cells, *(function.__defaults__ or ())]


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading is the question
    except ValueError:
        return False
    return True


def _canon(value: Any) -> Hashable:
    try:
        return canon(value)
    except NotAFact:  # a NaN of some kind
        return None
