"""Facts and values as they are written on a page, and back."""

from __future__ import annotations

from typing import Any

import attrs

from .._pattern import CAPTURE, Pattern, literal, where
from .._text import format_pattern
from ..errors import PatternError

__all__ = ["fact_of", "text_of", "value_text"]


def fact_of(pattern: Pattern[Any]) -> Any:
    values = {}
    for field in attrs.fields(pattern.cls):
        part = pattern.parts.get(field.name)
        if part is CAPTURE:
            raise ValueError("a fact holds values, not ?captures")
        if part is not None:
            values[field.alias] = fact_of(part) if isinstance(part, Pattern) else part.value
    return pattern.cls(**values)


def text_of(fact: Any) -> str:
    """A fact as it is written on a page; fields that are as by default are left out."""
    told = {}
    for field in attrs.fields(type(fact)):
        value = getattr(fact, field.name)
        if type(value) is not type(field.default) or value != field.default:
            told[field.name] = literal(value) if _has_text(value) else value_text(value)
    return format_pattern(where(type(fact), **told))


@attrs.frozen
class _V:
    value: Any


def _written(value: Any) -> str:
    """One value as a pattern writes it; `PatternError` if it has no text."""
    return format_pattern(where(_V, value=literal(value))).removeprefix("(_v ").removesuffix(")")


def value_text(value: Any) -> str:
    try:
        return _written(value)
    except PatternError:
        return repr(value)


def _has_text(value: Any) -> bool:
    try:
        _written(value)
    except PatternError:
        return False
    return True
