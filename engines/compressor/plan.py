"""Which messages stay as they are, which may be touched, and how much room there is.

A plan is made before anything is written, so that a summariser can be asked about exactly what is going to go.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from ..messages import Messages, Row
from ..transcript import (
    SUMMARY_KEY,
    Group,
    current_user,
    estimate_row,
    estimate_tokens,
    groups,
    is_bridge,
    is_summary,
    merged_summary,
    role_of,
    system_rows,
    text_of,
)
from ..transcript.rows import ROLES
from .fingerprint import Fingerprint
from .fold import best_lines
from .limits import Limits
from .reader import Reader
from .redact import redact
from .summary import Summary, merge
from .text import SMALLEST, loosely_split, parse
from .wording import focus_words

__all__ = ["MOST_RESERVED", "Plan", "plan_compaction"]

_MOST_SCALE = 1.5
MOST_RESERVED = 0.5
_BRIDGES = 60  # tokens for up to two bridge rows and rounding
_PER_REQUEST = 26  # bytes of a summary that one request takes at least


@frozen
class Plan:
    """How one list is going to be compacted; sizes in estimated tokens.

    `rows` is the list without older summaries, which are read into `old`.  The first `head` rows are the system
    message, `request` is the current user message, `before` the groups between them and the tail, `tail` the newest
    groups, of which the last has to shrink to `tail_room` if `shrink`.  `room` is what is left for summary and worn
    messages, `summary_room` the most a summary may take of it.
    """

    messages: Messages
    limits: Limits
    wanted: tuple[str, ...]
    old: Summary
    rows: Messages
    reader: Reader
    head: int
    request: int | None
    before: tuple[Group, ...]
    tail: tuple[Group, ...]
    shrink: bool
    tail_room: int
    room: int
    summary_room: int


def plan_compaction(
    messages: Messages, limits: Limits, *, focus: str | None = None, tokens: int | None = None, reserve: int = 0
) -> Plan | None:
    """Plan a compaction; None where the list is within its budget already.

    `reserve` is how many tokens a revision is going to add; up to half of the budget is left free for that.

    `tokens` is what the provider counts for this list; where that is more than our estimate the budget is taken to be
    that much smaller, up to half as much again.
    """
    estimate = estimate_tokens(messages)
    scale = min(max(tokens / estimate, 1.0), _MOST_SCALE) if tokens and estimate else 1.0
    budget = int(limits.threshold * limits.result / scale)
    if estimate <= budget:
        return None
    budget -= min(reserve, int(budget * MOST_RESERVED))
    rows, old = _without_summaries(messages)
    head, request = system_rows(messages), current_user(rows)
    fixed = estimate_tokens(rows[:head]) + (0 if request is None else estimate_row(rows[request]))
    asked = len(old.requests) + sum(row.get("role") == "user" for row in rows)
    least = (SMALLEST + _PER_REQUEST * asked) // 4
    space = budget - fixed - _BRIDGES
    tail_room = max(min(int(limits.threshold * limits.tail / scale), space - least), 0)
    body = tuple(group for group in groups(rows) if group.start >= head)
    at, cost, shrink = _tail(rows, body, request, tail_room)
    room = max(space - min(cost, tail_room if shrink else cost), least)
    wanted = focus_words(focus)
    summary_room = min(room, max(min(int(limits.threshold * limits.summary / scale), limits.summary_most), least))
    return Plan(
        messages=messages,
        limits=limits,
        wanted=wanted,
        old=old,
        rows=rows,
        reader=Reader(rows, limits.row_chars, wanted, _staying(rows, body[at:], head, request, shrink)),
        head=head,
        request=request,
        before=body[:at],
        tail=body[at:],
        shrink=shrink,
        tail_room=tail_room,
        room=room,
        summary_room=summary_room,
    )


def _tail(rows: Messages, body: tuple[Group, ...], request: int | None, room: int) -> tuple[int, int, bool]:
    """Walk back from the end while whole groups fit; returns where the tail begins, its cost, whether it must shrink.

    The current user message costs nothing here, since it stays anyway; calls that still run stay whatever they cost;
    the newest group stays too, shrunk where it is larger than all the room, if there is any to speak of.
    """
    at, cost = len(body), 0
    for group in reversed(body):
        size = (
            0 if group.start == request or not _stays(rows, group) else estimate_tokens(rows[group.start : group.stop])
        )
        if cost + size > room and not group.open:
            break
        cost += size
        at -= 1
    if at < len(body) or not body:
        return _without_stray(rows, body, at), cost, False
    return len(body) - 1, room, True


def _staying(rows: Messages, tail: tuple[Group, ...], head: int, request: int | None, shrink: bool) -> frozenset[int]:
    """The rows that stay word for word whatever becomes of the others."""
    kept = [] if shrink else [at for group in tail if _stays(rows, group) for at in range(group.start, group.stop)]
    return frozenset([*range(head), *([] if request is None else [request]), *kept])


def _without_stray(rows: Messages, body: tuple[Group, ...], at: int) -> int:
    """A tail does not begin with what is not going to stay."""
    while at < len(body) and not _stays(rows, body[at]):
        at += 1
    return at


def _stays(rows: Messages, group: Group) -> bool:
    return not group.orphan and role_of(rows[group.start]) in ROLES


def _without_summaries(messages: Messages) -> tuple[Messages, Summary]:
    """Take our own earlier summaries out of a list, also the one that a host merged into the first message."""
    rows: list[Any] = []
    old = Summary()
    merged = merged_summary(messages)
    for at, row in enumerate(messages):
        if merged is not None and at == merged.at:
            old = merge(old, parse(merged.summary))
            rows += [] if merged.rest is None else [merged.rest]
        elif row.get(SUMMARY_KEY) and is_summary(row):
            old = merge(old, _read(row))
        elif not is_bridge(row):
            rows.append(row)
    return Messages.of(rows), old


def _read(row: Row) -> Summary:
    """Read a row with our key; what a host put beside the summary, or its own summary under the same key, becomes notes."""
    text, mark = text_of(row), row.get(SUMMARY_KEY)
    before, ours, after = loosely_split(text)
    beside = redact(f"{before}\n{after}".strip())
    found = parse(ours) if ours else Summary(compactions=1)
    seen = Fingerprint.read(mark.get("seen") if isinstance(mark, Row) else None)
    return evolve(found, notes=(*found.notes, *best_lines(beside)) if beside else found.notes, seen=seen)
