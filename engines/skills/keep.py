"""Putting back what a task cannot do without: the text of a required skill that a compaction dropped.

Where the row is still there its result returns to it; where the call is gone, call and result are put in as they were,
at a place where no rule of a transcript minds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ..messages import Messages, Row
from ..transcript import Call, call_id, calls_of, estimate_row, role_of
from ..transcript.rows import SYSTEM_ROLES
from .entries import Entry, Key
from .scan import Sighting, look, summary_rows

__all__ = ["CALL", "kept_tokens", "restored", "whole_texts"]

CALL = 60
"""Tokens of the message that makes a call, where it has to be put in with the result."""


def whole_texts(rows: Messages, known: Iterable[Entry] = ()) -> dict[Key, Sighting]:
    """The newest whole text of every skill that is available, by key; `known` as for `look`."""
    return {found.key: found.whole[-1] for found in look(rows, known=known) if found.whole}


def kept_tokens(rows: Messages, before: Messages, wanted: Iterable[Entry], known: Iterable[Entry]) -> int:
    """How many tokens the texts of these entries take that are still in the rows."""
    known = tuple(known)
    return _kept_tokens(whole_texts(rows, known), whole_texts(before, known), before, wanted)


def _kept_tokens(
    there: Mapping[Key, Sighting], texts: Mapping[Key, Sighting], before: Messages, wanted: Iterable[Entry]
) -> int:
    return sum(_cost(before, texts[entry.key]) for entry in wanted if entry.key in there and entry.key in texts)


def restored(
    rows: Messages, before: Messages, wanted: Iterable[Entry], room: int, known: Iterable[Entry] = ()
) -> Messages:
    """Put the texts of these entries back, in this order, as far as `room` tokens go.

    What is still there takes its share of the room, so that texts put back are counted again when this is done again.
    """
    wanted, known = tuple(wanted), tuple(known)
    if not wanted:
        return rows
    there, texts = whole_texts(rows, known), whole_texts(before, known)
    room -= _kept_tokens(there, texts, before, wanted)
    lost = [(entry, texts[entry.key]) for entry in wanted if entry.key not in there and entry.key in texts]
    taken = {one.at for one in there.values()}
    places: dict[str, int] = {}
    for at, row in _answers_to(rows, {one.call.id for _, one in lost if one.call is not None}):
        if at not in taken:
            places.setdefault(call_id(row) or "", at)
    made = list(rows)
    added: list[Row] = []
    into = _place(rows)
    for entry, one in lost:
        cost = _cost(before, one)
        if one.call is None or one.reading.sha256 != entry.sha256 or cost > room:
            continue
        if one.call.id in places:
            made[places.pop(one.call.id)] = before[one.at]
        elif into is not None:
            added[:0] = [_asking(one.call), before[one.at]]
        else:
            continue
        room -= cost
    if into is not None:
        made[into:into] = added
    return Messages.of(made)


def _cost(before: Messages, one: Sighting) -> int:
    """What a text takes with its call, wherever it goes: the same when it is put back and when it is there."""
    return estimate_row(before[one.at]) + CALL


def _answers_to(rows: Messages, calls: Collection[str]) -> list[tuple[int, Row]]:
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


def _asking(call: Call) -> Row:
    """The message that makes this one call, and no others."""
    asked = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    return Messages.of([{"role": "assistant", "content": "", "tool_calls": [asked]}])[0]


def _place(rows: Messages) -> int | None:
    """Where a call with its result can go behind the summary; None where it fits in nowhere."""
    summaries = summary_rows(rows)
    start = summaries[-1] + 1 if summaries else 0
    first = next((at for at, row in enumerate(rows) if role_of(row) not in SYSTEM_ROLES), len(rows))
    for at in range(max(start, first + 1), len(rows) + 1):
        if at < len(rows) and role_of(rows[at]) in {"tool", "function"}:
            continue
        if role_of(rows[at - 1]) in {"user", "tool", "function"} and _settled(rows, at):
            return at
    return None


def _settled(rows: Messages, at: int) -> bool:
    """Whether no call before this place still waits for a result."""
    back = at - 1
    answered: set[str] = set()
    while back >= 0 and role_of(rows[back]) == "tool":
        answered.add(call_id(rows[back]) or "")
        back -= 1
    return back < 0 or {call.id for call in calls_of(rows[back])} <= answered
