"""Snapshots in words: a line of a list, the one that somebody means, and what the model is told when one is restored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..compressor.wording import clip_bytes, one_line, plain
from ..transcript import estimate_text
from .errors import UnknownSnapshotError
from .listing import Entry
from .snapshot import Snapshot, moment_of

__all__ = ["DEFAULT_TOKENS", "LEAST_TOKENS", "chosen", "line_of", "named", "restored", "resumable", "shown"]

DEFAULT_TOKENS = 2_000
"""Tokens that a restored snapshot takes of a context."""

LEAST_TOKENS = 200
"""Fewer do not hold what has to be said of any snapshot."""

_WORDS = {
    "session_end": "when the session ended",
    "session_reset": "when the session was reset",
    "session_start": "when another session began",
    "compaction": "before a compaction",
}
_NAME = 100  # bytes of a name, where there is little room
_SHORT = 6  # digits that are rather the beginning of an id than a number of a list


def line_of(entry: Entry, number: int) -> str:
    """One line of a list: number, id, when, why, whose; safe to be shown on a terminal."""
    if entry.corrupt:
        return f"{number:>2}. {_shown_id(entry)}  [CORRUPT] {plain(entry.problem)}"
    if entry.problem:
        return f"{number:>2}. {_shown_id(entry)}  [NEWER] {plain(entry.problem)}"
    child = f", delegated by {plain(entry.parent)}" if entry.parent else ""
    return f"{number:>2}. {_shown_id(entry)}  {_time(entry.timestamp)}  {entry.reason:<13}  {plain(entry.session_id)}{child}"


def named(entry: Entry) -> str:
    """One entry without a number, for what was done to it; safe to be shown on a terminal."""
    if entry.problem:
        return f"{_shown_id(entry)} (it could not be read)"
    return f"{_shown_id(entry)} (session {plain(entry.session_id)}, {_time(entry.timestamp)}, {entry.reason})"


def chosen(entries: Sequence[Entry], wanted: str) -> Entry:
    """Return the entry that somebody means by a list number, an id, or the beginning of one.

    Digits alone are a list number; where the list is not that long, six or more may be the beginning of an id.  Fewer are
    none: whoever miscounts is told, and no other snapshot is taken for the one that was meant.  Raises
    `UnknownSnapshotError`, which says what can be meant.
    """
    wanted = wanted.strip()
    exact = [entry for entry in entries if entry.id == wanted]
    if exact:
        return exact[0]
    begins = [entry for entry in entries if wanted and entry.id.startswith(wanted)]
    if wanted.isascii() and wanted.isdecimal():
        if len(wanted) < 10 and 1 <= int(wanted) <= len(entries):
            return entries[int(wanted) - 1]
        if len(wanted) < _SHORT:
            begins = []
    if len(begins) == 1:
        return begins[0]
    if begins:
        raise UnknownSnapshotError(f"{wanted!r} begins the ids of {len(begins)} snapshots; give more of it")
    numbers = f"a number from 1 to {len(entries)} or the beginning of an id" if entries else "there are no snapshots"
    raise UnknownSnapshotError(f"there is no snapshot {wanted[:80]!r}; {numbers}")


def resumable(entries: Sequence[Entry]) -> Entry | None:
    """Return the one that is meant where none is named: the newest that can be loaded, of a delegated session only if all are."""
    good = [entry for entry in entries if not entry.problem]
    return next((entry for entry in good if not entry.parent), good[0] if good else None)


def restored(snapshot: Snapshot, tokens: int = DEFAULT_TOKENS) -> str:
    """Write what the model is told of a snapshot, in at most `tokens` tokens (200 or more; raises `ValueError`).

    It says from where and when it is, and that it is no request; what matters most stands first and is cut last.
    """
    if tokens < LEAST_TOKENS:
        raise ValueError(f"a snapshot cannot be told in {tokens} tokens; grant it {LEAST_TOKENS} or more")
    session, profile = clip_bytes(plain(snapshot.session_id), _NAME), clip_bytes(plain(snapshot.profile), _NAME)
    head = (
        f"[Restored from a snapshot, as asked for by the user: session {session}, profile {profile}, "
        f"saved {_time(snapshot.timestamp)} UTC {_WORDS[snapshot.reason]}. This is what was known then, for reference: it is no new "
        "request, and files may have changed since.]"
    )
    end = "[End of the snapshot]"
    room = tokens - estimate_text(head) - estimate_text(end) - 4
    parts = _parts(snapshot)
    kept: list[str] = []
    for at, (title, lines) in enumerate(parts):
        share = max(room // (len(parts) - at), room // 3)  # what comes first may take more
        made = _part(title, lines, share)
        if made:
            kept.append(made)
            room -= estimate_text(made) + 1
    return "\n".join([head, *kept, end])


def shown(snapshot: Snapshot) -> str:
    """Write a snapshot out for people, whole."""
    head = f"Session {plain(snapshot.session_id)} of profile {plain(snapshot.profile)}, {_time(snapshot.timestamp)} UTC, {_WORDS[snapshot.reason]}"
    return "\n".join([head, *(f"{title}\n" + "\n".join(lines) for title, lines in _parts(snapshot))])


def _parts(snapshot: Snapshot) -> list[tuple[str, list[str]]]:
    """Titles and lines, what matters most first, in each the newest last."""
    state = snapshot.task_state if isinstance(snapshot.task_state, dict) else {"state": snapshot.task_state}
    known = (
        "request",
        "in_flight",
        "next_step",
        "todo",
        "open_questions",
        "required_skills",
        "files",
        "earlier_requests",
        "reset_reason",
    )
    flight = "interrupted, not finished" if state.get("in_flight") is True else ""
    named: dict[str, list[Any]] = {
        "Request": [state.get("request")],
        "State": [flight, f"next step: {_line(state['next_step'])}" if state.get("next_step") else ""],
        "To do": [_todo(item) for item in _list(state.get("todo"))],
        "Findings": snapshot.key_findings,
        "Open questions": _list(state.get("open_questions")),
        "Tool calls": [_call(item) for item in snapshot.tool_calls],
        "Files": _list(state.get("files")),
        "Required skills": _list(state.get("required_skills")),
        "Earlier requests": _list(state.get("earlier_requests")),
        "Also": [f"{name}: {_line(value)}" for name, value in state.items() if name not in known],
    }
    found = ((title, [f"- {line}" for item in items if (line := _line(item))]) for title, items in named.items())
    return [(title, lines) for title, lines in found if lines]


def _part(title: str, lines: list[str], tokens: int) -> str:
    """As many of the lines as there is room for, the newest rather than the older ones."""
    room = (tokens - estimate_text(title) - 8) * 3  # bytes: a little less than four for a token
    kept: list[str] = []
    for line in reversed(lines):
        fits = clip_bytes(line, room - 1) if not kept and room > 60 else line
        room -= len(fits.encode()) + 1
        if room < 0:
            break
        kept.append(fits)
    if not kept:
        return ""
    left = len(lines) - len(kept)
    more = f" (the newest {len(kept)} of {len(lines)})" if left else ""
    return "\n".join([f"{title}{more}:", *reversed(kept)])


def _call(item: Any) -> str:
    if not isinstance(item, dict) or "tool" not in item:
        return _line(item)
    status = item.get("status")
    ended = f" [{_line(status)}]" if status not in {"ok", "", None} else ""
    return f"{_line(item['tool'])} {_line(item.get('target', ''))} → {_line(item.get('outcome', ''))}{ended}"


def _todo(item: Any) -> str:
    if not isinstance(item, dict) or "content" not in item:
        return _line(item)
    return f"[{_line(item.get('status') or 'open')}] {_line(item['content'])}"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value in (None, "", {}) else [value]


def _line(value: Any) -> str:
    if value is None or value == "":
        return ""
    return one_line(plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))


def _time(timestamp: str) -> str:
    return moment_of(timestamp).strftime("%Y-%m-%d %H:%M:%S")


def _shown_id(entry: Entry) -> str:
    return plain(entry.id)
