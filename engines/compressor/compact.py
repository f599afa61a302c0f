"""The compaction itself: one message list in, a smaller one with the same conversation in it out.

In order: the system message, word for word; one summary of what is folded; the current user message, word for word;
older messages worn down to essentials, as many as there is room for; the newest messages, word for word.  The same
input gives the same result, and the input is never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import evolve, frozen

from ..messages import Messages, Row
from ..transcript import (
    SUMMARY_KEY,
    Group,
    bridge_neighbours,
    estimate_row,
    estimate_tokens,
    role_of,
    said_by_user,
    stub_missing,
    text_of,
)
from ..transcript.rows import ROLES
from .fold import findings
from .lexer import Kind, lex
from .limits import Limits
from .plan import Plan, plan_compaction
from .summary import Summary, merge
from .text import fit, render
from .wear import shrink, wear
from .wording import bytes_of

__all__ = ["compact", "finish"]

_VERSION = 1
_SLACK = 0.25  # of the room: less is not worth another round


def compact(
    messages: Iterable[Any], limits: Limits, *, focus: str | None = None, tokens: int | None = None, prose: str = ""
) -> Messages | None:
    """Compact a message list; None where nothing is worth doing (it is within its budget, or would hardly shrink).

    `focus` says in words what matters most; `tokens` is the provider's count for the list, if known; `prose` is put into
    the summary as it is.  The result keeps to `limits.result`, unless the system message, the current user message and
    calls that still run exceed that by themselves, or there are so many requests that a word or two of each do.
    """
    plan = plan_compaction(Messages.of(messages), limits, focus=focus, tokens=tokens)
    return None if plan is None else finish(plan, prose)


def finish(plan: Plan, prose: str = "") -> Messages | None:
    """Carry a plan out; None where the list would hardly shrink."""
    tail = _tail_rows(plan)
    if plan.shrink and not tail:
        plan = _without_tail(plan)
    draft = _draft(plan, tail, plan.room - plan.summary_room, prose)
    spare = plan.room - draft.size
    if draft.folded and spare > plan.room * _SLACK:
        fuller = _draft(plan, tail, draft.worn_size + spare, prose)
        draft = fuller if fuller.size <= plan.room else draft
    made = bridge_neighbours(stub_missing(Messages.of(draft.rows)), plan.messages)
    worthwhile = estimate_tokens(made) <= estimate_tokens(plan.messages) * (1 - plan.limits.worth)
    return made if worthwhile and made else None


def _without_tail(plan: Plan) -> Plan:
    """The same plan where even the newest group has to be worn down or folded, for it cannot be shrunk to its room."""
    return evolve(plan, before=plan.before + plan.tail, tail=(), shrink=False, room=plan.room + plan.tail_room)


@frozen
class _Draft:
    """One way to divide the groups before the tail: `size` is what summary and worn messages take, in tokens."""

    rows: list[Any]
    folded: tuple[Group, ...]
    worn_size: int
    size: int


def _draft(plan: Plan, tail: list[Any], space: int, prose: str) -> _Draft:
    """Wear down the newest groups that fit into `space` tokens and fold all others."""
    worn, cut = _worn(plan, space)
    stray = [group for group in plan.tail if not _stays(plan, group)]
    folded = tuple(group for group in plan.before[:cut] if group.start != plan.request)
    folded += tuple(group for group in plan.before[cut:] if not _stays(plan, group)) + tuple(stray)
    early = plan.request is not None and any(group.start == plan.request for group in plan.before[:cut])
    request = [plan.rows[plan.request]] if early and plan.request is not None else []
    kept = Messages.of([*plan.rows[: plan.head], *request, *worn, *tail])
    worn_size = sum(estimate_row(row) for row in Messages.of(worn) if row is not _request(plan))
    summary = _summary(plan, folded, plan.before[cut:], kept, plan.room - worn_size, prose)
    rows: list[Any] = list(plan.rows[: plan.head])
    size = worn_size
    if folded or not summary.empty:
        note = Messages.of([_row(summary)])[0]
        rows.append(note)
        size += estimate_row(note)
    return _Draft([*rows, *request, *worn, *tail], folded, worn_size, size)


def _worn(plan: Plan, space: int) -> tuple[list[Any], int]:
    """The newest groups before the tail in their small form, as far as they fit; and how many older ones do not."""
    later = {text_of(row): str(row.get("tool_call_id", "")) for row in plan.rows if role_of(row) == "tool"}
    chosen: list[list[Any]] = []
    cut = len(plan.before)
    while cut > 0:
        group = plan.before[cut - 1]
        rows: list[Any] = []
        if group.start == plan.request:
            rows = [plan.rows[group.start]]
        elif _stays(plan, group):
            if space <= 0:
                break
            rows = list(Messages.of(wear(plan.reader, group, later)))
            space -= sum(map(estimate_row, rows))
            if space < 0:
                break
        chosen.append(rows)
        cut -= 1
    return [row for rows in reversed(chosen) for row in rows], cut


def _tail_rows(plan: Plan) -> list[Any]:
    """The newest groups word for word; where one alone is larger than all the room for them, its middle goes."""
    kept = [group for group in plan.tail if _stays(plan, group)]
    rows = [row for group in kept for row in plan.rows[group.start : group.stop]]
    if not plan.shrink or not rows:
        return rows
    return shrink(rows, plan.tail_room) or []


def _summary(
    plan: Plan, folded: Sequence[Group], worn: Sequence[Group], kept: Messages, room: int, prose: str
) -> Summary:
    """Sum up what goes, merge it into what was known, and fit that into `room` tokens."""
    reader, old = plan.reader, plan.old
    new = evolve(findings(reader, folded, len(old.requests)), prose=prose)
    summary = evolve(merge(old, new), compactions=old.compactions + 1)
    size = min(room, plan.summary_room) * 4 - 32
    requests = tuple(text_of(row) for row in kept if said_by_user(row))
    touched = (*folded, *worn, *_shrunk(plan))
    gone = tuple(sorted({at for group in touched for at in range(group.start, group.stop)} - reader.staying))
    known = _identifiers(old) if old.compactions else {}
    standing = reader.standing(kept)
    tokens = reader.ranked(gone, known, "\n".join([*summary.requests, *requests]))
    tokens = tuple(token for token in tokens if token not in standing)
    summary = fit(
        evolve(summary, identifiers=tokens),
        size,
        reader.compare(summary, requests, len(old.requests)),
        plan.wanted,
    )
    text = render(evolve(summary, identifiers=()))
    there = lex(text)
    return evolve(
        summary, identifiers=_fill((token for token in tokens if token not in there), size - bytes_of(text) - 24)
    )


def _identifiers(old: Summary) -> dict[str, Kind]:
    """All that an earlier summary names, the ones listed first; a plain word among those was the name of something called."""
    kinds = lex(render(old))
    return {token: kinds.get(token, "name") for token in dict.fromkeys([*old.identifiers, *kinds])}


def _shrunk(plan: Plan) -> tuple[Group, ...]:
    return plan.tail if plan.shrink else ()


def _fill(tokens: Iterable[str], room: int) -> tuple[str, ...]:
    chosen = []
    for token in tokens:
        cost = bytes_of(token) + 1
        if cost <= room:
            chosen.append(token)
            room -= cost
        elif room < 6:
            break
    return tuple(chosen)


def _stays(plan: Plan, group: Group) -> bool:
    return not group.orphan and role_of(plan.rows[group.start]) in ROLES


def _request(plan: Plan) -> Row | None:
    return None if plan.request is None else plan.rows[plan.request]


def _row(summary: Summary) -> dict[str, Any]:
    mark = {"version": _VERSION, "compactions": summary.compactions, "seen": str(summary.seen)}
    return {"role": "user", "content": render(summary), SUMMARY_KEY: mark}
