"""Messages of the host in which something is no plain JSON: the dataspace sees them with a text in its place.

The host may hold what no provider is ever sent, such as a date or a number that is none.  A compaction does not fail for
that: in what is made of the list, each of these texts is given back as what it stands for.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from contextlib import suppress
from math import isfinite
from typing import Any, TypeGuard

from engines.messages import Messages, NotJSONError

__all__ = ["Strange"]

DEEPEST = 50
Rows = list[dict[str, Any]]


class Strange:
    """A list as it can be frozen: `messages`; raises `NotJSONError` where one of its rows is no dict."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self._own: dict[str, Any] = {}
        known: list[Any] = []
        for at, row in enumerate(rows):
            try:
                known.extend(Messages.of([row]))
            except NotJSONError:
                known.append({key: self._told(row[key], at, 1) for key in row} if _has_names(row) else row)
        self.messages = Messages.of(known)

    def back(self, rows: Rows) -> Rows:
        """What was made of `messages`, with everything as it really is."""
        return [self._back(row) for row in rows]

    def _told(self, value: Any, row: int, depth: int) -> Any:
        """The same with a text in place of what is no JSON."""
        if isinstance(value, (str, int, type(None))) or (isinstance(value, float) and isfinite(value)):
            return value
        if depth < DEEPEST and _has_names(value):
            return {key: self._told(item, row, depth + 1) for key, item in value.items()}
        if depth < DEEPEST and isinstance(value, (list, tuple)):
            return [self._told(item, row, depth + 1) for item in value]
        text = f"[{type(value).__name__} {len(self._own)} in row {row}]"
        self._own[text] = value
        return text

    def _back(self, value: Any) -> Any:
        if isinstance(value, str):
            return _copy(self._own[value]) if value in self._own else value
        if isinstance(value, dict):
            return {key: self._back(item) for key, item in value.items()}
        return [self._back(item) for item in value] if isinstance(value, list) else value


def _has_names(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and all(type(key) is str for key in value)


def _copy(value: Any) -> Any:
    with suppress(Exception):  # what cannot be copied is shared, as it would have been
        return copy.deepcopy(value)
    return value
