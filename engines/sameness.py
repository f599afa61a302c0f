"""Values that are the same: equal, and of the same types at any depth; frozen ones and the plain ones they were made from.

`True`, `1` and `1.0` are three values.  A dict is the same as a frozen row, a list as a tuple.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def recognised(
    rows: Iterable[Any], like: tuple[dict[str, Any], ...], made_of: Sequence[dict[str, Any]] | None = None
) -> Iterable[Any]:
    """The same rows; those that are in `like`, frozen, as they are there.

    Each is looked for at its distance from the start, and from the first that is not found there on, from the end.
    `made_of` are the plain rows that `like` was frozen from, if nobody has changed anything in them since: a value that
    is still the very same object is not looked into.
    """
    if not isinstance(rows, (list, tuple)):
        return rows
    if made_of is None or len(made_of) != len(like):
        made_of = like
    ahead, behind = 0, len(like) - len(rows)
    found: list[Any] = []
    for at, row in enumerate(rows):
        known = None
        if type(row) is dict:
            if at + ahead < len(like) and _equals(row, like[at + ahead], made_of[at + ahead]):
                known = like[at + ahead]
            elif ahead != behind and at + behind >= 0 and _equals(row, like[at + behind], made_of[at + behind]):
                ahead = behind
                known = like[at + ahead]
        found.append(row if known is None else known)
    return found


def _equals(row: Any, frozen: dict[str, Any], plain: dict[str, Any]) -> bool:
    """`same` for a plain dict and a frozen one, quickly: most of what is in them is identical, or was in `plain`."""
    if type(row) is not dict or len(row) != len(frozen):
        return False
    for key, item in frozen.items():
        now = row.get(key, ...)
        if now is item or now is plain.get(key, item):
            continue
        kind = type(item)
        if kind is str:  # an equal text that is another object: it was made anew
            if type(now) is not str or now != item:
                return False
        elif not (_equals(now, item, item) if issubclass(kind, dict) else _equal(now, item)):
            return False
    return True


def _equal(now: Any, item: Any) -> bool:
    kind = type(item)
    if kind is tuple:
        if type(now) is not list or len(now) != len(item):
            return False
        for one, other in zip(now, item, strict=True):
            if one is other:
                continue
            if not (_equals(one, other, other) if isinstance(other, dict) else _equal(one, other)):
                return False
        return True
    return type(now) is kind and bool(now == item)
