"""Hypothesis strategies for facts and for patterns over them.

    facts(Ping, Pong)                    any fact of these classes
    patterns(Ping)                       any pattern over them: literals, nested patterns, captures, quoted values
    matching(fact)                       patterns that the given fact matches

Values follow the annotations, and come from small sets, so that facts and patterns meet: what is drawn twice is often equal,
and often equal but for its type.  `fields` gives a strategy for single fields, `types` for whatever is annotated so:

    facts(Asked, fields={"messages": st.just(messages)}, types={str: st.sampled_from(["s1", "s2"])})
"""

from __future__ import annotations

import math
import types as python_types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

import attrs
from hypothesis import strategies as st

from .._pattern import CAPTURE, Pattern, literal, where
from .._values import is_fact_class, kind_of
from .._wire_values import meant

__all__ = ["facts", "matching", "patterns", "values"]

Strategies = Mapping[Any, st.SearchStrategy[Any]]

_NONE: Strategies = {}
_NO_FIELDS: Mapping[str, st.SearchStrategy[Any]] = {}
_TEXTS = ("", "a", "b", "s1", "?", "_", "#t", "1", "a b", 'qu"ote', "é\n", "(a)")
_FLOATS = (0.0, -0.0, 1.0, 0.5, -2.5e-7, 1e300, math.inf, -math.inf)

_plain: dict[Any, st.SearchStrategy[Any]] = {
    str: st.sampled_from(_TEXTS) | st.text(max_size=4),
    int: st.integers(-1, 2) | st.integers(),
    bool: st.booleans(),
    float: st.sampled_from(_FLOATS) | st.floats(allow_nan=False),
    bytes: st.sampled_from([b"", b"a", b"\x00\xff"]) | st.binary(max_size=4),
    None: st.none(),
    type(None): st.none(),
}
_scalars = st.one_of(*_plain.values())
_anything = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)


def values(annotation: Any, *, types: Strategies = _NONE) -> st.SearchStrategy[Any]:
    """Values that a field annotated like this may hold; `Any` is scalars, tuples and frozensets.

    Raises `TypeError` for an annotation that `types` would have to explain.
    """
    if annotation in types:
        return types[annotation]
    if meant(annotation) is not annotation:
        return values(meant(annotation), types=types)
    if annotation in _plain:
        return _plain[annotation]
    if annotation in (Any, object):
        return _anything
    if is_fact_class(annotation):
        return st.deferred(lambda: facts(annotation, types=types))
    return _composite(annotation, types)


def _composite(annotation: Any, types: Strategies) -> st.SearchStrategy[Any]:
    origin, args = get_origin(annotation) or annotation, get_args(annotation)
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, python_types.UnionType):
        return st.one_of([values(arm, types=types) for arm in args])
    if origin is frozenset:
        return st.frozensets(values(args[0] if args else Any, types=types), max_size=3)
    if origin is tuple:
        if get_origin(annotation) is None or args[-1:] == (Ellipsis,):
            return st.lists(values(args[0] if args else Any, types=types), max_size=3).map(tuple)
        return st.tuples(*[values(item, types=types) for item in args])
    raise TypeError(f"no strategy for {annotation!r}: give one with types={{{annotation!r}: ...}}")


def facts(
    *classes: type, fields: Mapping[str, st.SearchStrategy[Any]] = _NO_FIELDS, types: Strategies = _NONE
) -> st.SearchStrategy[Any]:
    """Facts of these classes."""
    return st.one_of([_facts(cls, fields, types) for cls in classes])


def _facts(cls: type, fields: Mapping[str, st.SearchStrategy[Any]], types: Strategies) -> st.SearchStrategy[Any]:
    given = {a.alias: _field(a, fields, types) for a in _fields(cls) if a.init}
    return st.builds(cls, **given)


def _field(a: Any, fields: Mapping[str, st.SearchStrategy[Any]], types: Strategies) -> st.SearchStrategy[Any]:
    if a.name in fields:
        return fields[a.name]
    return values(Any if a.type is None else a.type, types=types)


def _fields(cls: type) -> tuple[Any, ...]:
    kind_of(cls)
    attrs.resolve_types(cls)
    return tuple(attrs.fields(cls))


def patterns(
    *classes: type, fields: Mapping[str, st.SearchStrategy[Any]] = _NO_FIELDS, types: Strategies = _NONE
) -> st.SearchStrategy[Pattern[Any]]:
    """Patterns over these classes, whatever they match."""
    return st.one_of([_patterns(cls, fields, types) for cls in classes])


@st.composite
def _patterns(
    draw: st.DrawFn, cls: type, fields: Mapping[str, st.SearchStrategy[Any]], types: Strategies
) -> Pattern[Any]:
    parts: dict[str, Any] = {}
    for a in _fields(cls):
        kind = draw(st.sampled_from(["anything", "anything", "capture", "literal", "inside", "quoted"]))
        nested = _facts_within(a.type)
        if kind == "capture":
            parts[a.name] = CAPTURE
        elif kind == "inside" and nested:
            parts[a.name] = draw(st.one_of([_patterns(inner, {}, types) for inner in nested]))
        elif kind == "quoted" and a.type in (Any, object, None):
            parts[a.name] = literal(draw(st.sampled_from([CAPTURE, cls, where(cls)])))
        elif kind != "anything":
            parts[a.name] = draw(_quoted(_field(a, fields, types)))
    return where(cls, **parts)


def _quoted(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A literal, as it is or quoted: both mean the same, where the value is not a class, a pattern or CAPTURE."""
    return st.tuples(strategy, st.booleans()).map(lambda drawn: literal(drawn[0]) if drawn[1] else drawn[0])


def _facts_within(annotation: Any) -> list[type]:
    if is_fact_class(annotation):
        return [annotation]
    if get_origin(annotation) in (Union, python_types.UnionType):
        return [cls for arm in get_args(annotation) for cls in _facts_within(arm)]
    return []


@st.composite
def matching(draw: st.DrawFn, fact: Any) -> Pattern[Any]:
    """Patterns that `fact` matches."""
    parts: dict[str, Any] = {}
    for a in attrs.fields(type(fact)):
        value = getattr(fact, a.name)
        kind = draw(st.sampled_from(["anything", "capture", "literal", "inside"]))
        if kind == "capture":
            parts[a.name] = CAPTURE
        elif kind == "inside" and is_fact_class(type(value)):
            parts[a.name] = draw(matching(value))
        elif kind in ("literal", "inside"):
            parts[a.name] = draw(_quoted(st.just(value)))
    return where(type(fact), **parts)
