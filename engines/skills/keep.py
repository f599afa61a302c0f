"""Putting back what a task cannot do without: the text of a required skill that a compaction dropped.

Where the row is still there its result returns to it; where the call is gone, call and result are put in as they were,
at a place where no rule of a transcript minds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..messages import Messages, Row
from ..transcript import Call, call_id, calls_of, estimate_row, role_of
from ..transcript.rows import SYSTEM_ROLES
from .entries import Entry
from .scan import Sighting, look, summary_rows

__all__ = ["answers_to", "restored", "whole_texts"]


def whole_texts(rows: Messages) -> dict[tuple[str, str | None], Sighting]:
    """The newest whole text of every skill that is available, by key."""
    return {found.key: found.whole[-1] for found in look(rows) if found.whole}


def restored(rows: Messages, before: Messages, wanted: Iterable[Entry], room: int) -> Messages:
    """Put the texts of these entries back, in this order, as far as `room` tokens go."""
    there, texts = whole_texts(rows), whole_texts(before)
    for entry in wanted:
        one = texts.get(entry.key)
        if entry.key in there or one is None or one.call is None or one.reading.sha256 != entry.sha256:
            continue
        result = before[one.at]
        at = next((at for at, row in answers_to(rows, {one.call.id}) if role_of(row) == "tool"), None)
        if at is not None:
            cost = estimate_row(result) - estimate_row(rows[at])
            made = Messages.of([*rows[:at], result, *rows[at + 1 :]]) if cost <= room else None
        else:
            asked = _asking(one)
            cost = estimate_row(result) + estimate_row(asked)
            made = _inserted(rows, asked, result) if cost <= room else None
        if made is not None:
            rows, room = made, room - cost
    return rows


def answers_to(rows: Messages, calls: Collection[str]) -> list[tuple[int, Row]]:
    """The results of these calls, each directly after the message that makes the call."""
    found: list[tuple[int, Row]] = []
    open_calls: set[str] = set()
    for at, row in enumerate(rows):
        if role_of(row) == "tool":
            if call_id(row) in open_calls:
                found.append((at, row))
        else:
            open_calls = {call.id for call in calls_of(row)} & set(calls)
    return found


def _asking(one: Sighting) -> Row:
    """The message that makes this one call, and no others."""
    call = one.call or Call("", "", "")
    asked = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    return Messages.of([{"role": "assistant", "content": "", "tool_calls": [asked]}])[0]


def _inserted(rows: Messages, asked: Row, result: Row) -> Messages | None:
    """Call and result behind the summary, or None where they fit in nowhere."""
    summaries = summary_rows(rows)
    start = summaries[-1] + 1 if summaries else 0
    spoken = [at for at, row in enumerate(rows) if role_of(row) not in SYSTEM_ROLES]
    for at in range(start, len(rows) + 1):
        if not any(place < at for place in spoken) or (at < len(rows) and role_of(rows[at]) in {"tool", "function"}):
            continue
        if role_of(rows[at - 1]) in {"user", "tool", "function"} and _settled(rows, at):
            return Messages.of([*rows[:at], asked, result, *rows[at:]])
    return None


def _settled(rows: Messages, at: int) -> bool:
    """Whether no call before this place still waits for a result."""
    back = at - 1
    answered: set[str] = set()
    while back >= 0 and role_of(rows[back]) == "tool":
        answered.add(call_id(rows[back]) or "")
        back -= 1
    return back < 0 or {call.id for call in calls_of(rows[back])} <= answered
