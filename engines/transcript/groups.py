"""Tool calls and their results belong together: the units that compaction keeps or folds whole.

A *group* is a run of rows.  An assistant message with calls and the results directly after it are one group; every
other row is a group by itself.  A result that answers no call of the message before it is an *orphan*, a call without
a result is *missing* one, and a group that is missing some at the very end of the list is still *open*: its tools run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from .rows import call_id, call_ids

__all__ = ["Group", "groups", "open_calls", "torn"]

Cut = tuple[int, int, bool, tuple[str, ...]]


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
    end = len(messages)
    return tuple(
        [
            Group(start, stop, orphan, missing, bool(missing) and stop == end)
            for start, stop, orphan, missing in _cuts(messages)
        ]
    )


def torn(messages: Iterable[Mapping[str, Any]]) -> list[tuple[int, tuple[str, ...]]]:
    """The rows that begin a group which is not whole and not open, with the ids that it is missing; none: an orphan."""
    found: list[tuple[int, tuple[str, ...]]] = []
    start, wanted = 0, list[str]()  # the latest row with calls, and which of them have no result yet
    for at, row in enumerate(messages):
        role = row.get("role")
        if role == "tool":
            answered = row.get("tool_call_id")
            if type(answered) is not str:
                answered = call_id(row)
        else:
            answered = call_id(row) if role == "function" else None
        if wanted:
            if answered in wanted:
                wanted.remove(answered)
                continue
            found.append((start, tuple(wanted)))
            wanted = []
        if answered is not None:
            found.append((at, ()))
        elif role == "assistant" and (ids := call_ids(row)):
            start, wanted = at, list(ids)
    return found


def open_calls(messages: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The ids of the calls whose tools still run: those that the last group of the list is missing."""
    at = len(messages) - 1
    while at >= 0 and call_id(messages[at]) is not None:
        at -= 1
    if at < 0:
        return ()
    calls = call_ids(messages[at])
    if not calls:
        return ()
    stop, missing = _results(messages, at + 1, calls)
    return missing if stop == len(messages) else ()


def _cuts(messages: Sequence[Mapping[str, Any]]) -> Iterator[Cut]:
    """Start, stop, orphan, missing of every group."""
    messages = tuple(messages)  # which is quicker to look into
    at, end = 0, len(messages)
    while at < end:
        row = messages[at]
        calls = call_ids(row)
        if calls:
            stop, missing = _results(messages, at + 1, calls)
            yield at, stop, False, missing
            at = stop
        else:
            yield at, at + 1, call_id(row) is not None, ()
            at += 1


def _results(messages: Sequence[Mapping[str, Any]], at: int, calls: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """Follow the results that answer the wanted calls; each call is answered once."""
    end = len(messages)
    if len(calls) == 1:  # nearly all are
        return (at + 1, ()) if at < end and call_id(messages[at]) == calls[0] else (at, calls)
    wanted = Counter(calls)
    while at < end:
        answered = call_id(messages[at])
        if answered is None or not wanted[answered]:
            break
        wanted[answered] -= 1
        at += 1
    return at, tuple(wanted.elements())
