"""Tool calls and their results belong together: the units that compaction keeps or folds whole.

A *group* is a run of rows.  An assistant message with calls and the results directly after it are one group; every
other row is a group by itself.  A result that answers no call of the message before it is an *orphan*, a call without
a result is *missing* one, and a group that is missing some at the very end of the list is still *open*: its tools run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from .rows import call_id, calls_of

__all__ = ["Group", "groups"]


@frozen
class Group:
    """Rows `start` to `stop` (exclusive) of a list; `missing` are the ids of calls without a result."""

    start: int
    stop: int
    orphan: bool = False
    missing: tuple[str, ...] = ()
    open: bool = False


def groups(messages: Sequence[Mapping[str, Any]]) -> tuple[Group, ...]:
    """Cut a list into its groups, in order; together they cover every row once."""
    found: list[Group] = []
    at, end = 0, len(messages)
    while at < end:
        calls = calls_of(messages[at])
        if calls:
            stop, missing = _results(messages, at + 1, Counter(call.id for call in calls))
            found.append(Group(at, stop, missing=missing, open=bool(missing) and stop == end))
            at = stop
        else:
            found.append(Group(at, at + 1, orphan=call_id(messages[at]) is not None))
            at += 1
    return tuple(found)


def _results(messages: Sequence[Mapping[str, Any]], at: int, wanted: Counter[str]) -> tuple[int, tuple[str, ...]]:
    """Follow the results that answer the wanted calls; each call is answered once."""
    while at < len(messages):
        answered = call_id(messages[at])
        if answered is None or not wanted[answered]:
            break
        wanted[answered] -= 1
        at += 1
    return at, tuple(wanted.elements())
