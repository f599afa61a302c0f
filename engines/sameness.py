"""Values that are the same: equal, and of the same types at any depth; frozen ones and the plain ones they were made from.

`True`, `1` and `1.0` are three values.  A dict is the same as a frozen row, a list as a tuple.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["recognised", "same"]


def same(one: Any, other: Any) -> bool:
    """Equal values of equal types, at any depth; plain dicts and lists count as rows and tuples."""
    if one is other:
        return True
    if isinstance(one, dict):
        if not isinstance(other, dict) or len(one) != len(other):
            return False
        return all(key in other and same(item, other[key]) for key, item in one.items())
    if isinstance(one, (tuple, list)):
        if not isinstance(other, (tuple, list)) or len(one) != len(other):
            return False
        return all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


def recognised(rows: Iterable[Any], like: tuple[dict[str, Any], ...]) -> Iterable[Any]:
    """The same rows; those that are in `like`, frozen, as they are there.

    Each is looked for at its distance from the start, and from the first that is not found there on, from the end.
    """
    if not isinstance(rows, (list, tuple)):
        return rows
    ahead, behind = 0, len(like) - len(rows)
    found: list[Any] = []
    for at, row in enumerate(rows):
        known = None
        if type(row) is dict:
            if at + ahead < len(like) and _equals(row, like[at + ahead]):
                known = like[at + ahead]
            elif ahead != behind and at + behind >= 0 and _equals(row, like[at + behind]):
                ahead = behind
                known = like[at + ahead]
        found.append(row if known is None else known)
    return found


def _equals(row: dict[str, Any], frozen: dict[str, Any]) -> bool:
    """`same` for a plain dict and a frozen one, quickly: most of what is in them is identical."""
    if len(row) != len(frozen):
        return False
    for key, item in frozen.items():
        now = row.get(key, ...)
        if now is not item and not _equal(now, item):
            return False
    return True


def _equal(now: Any, item: Any) -> bool:
    kind = type(item)
    if kind is tuple:
        return type(now) is list and len(now) == len(item) and all(map(_equal, now, item))
    if issubclass(kind, dict):
        return type(now) is dict and _equals(now, item)
    return type(now) is kind and bool(now == item)
