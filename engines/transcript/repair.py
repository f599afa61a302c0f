"""Mending a message list: pure functions from one list to a better one, for guards and for the compressor.

Each takes and returns `Messages` and gives the very same value back where there is nothing to mend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..messages import Messages, Row
from .check import collides, neighbours, system_rows
from .groups import Group, groups
from .marks import bridge, current_user, is_summary
from .rows import ROLES, SYSTEM_ROLES, calls_of, role_of

__all__ = ["MISSING_RESULT", "bridge_neighbours", "drop_orphans", "drop_unknown", "merge_neighbours", "stub_missing"]

MISSING_RESULT = "[No result of this call was recorded.]"


def drop_orphans(messages: Messages) -> Messages:
    """Drop tool results that answer no call of the message before them."""
    found = groups(messages)
    if not any(group.orphan for group in found):
        return messages
    return Messages.of([row for group in found if not group.orphan for row in messages[group.start : group.stop]])


def drop_unknown(messages: Messages) -> Messages:
    """Drop rows whose role no provider knows."""
    kept = [row for row in messages if role_of(row) in ROLES]
    return messages if len(kept) == len(messages) else Messages.of(kept)


def stub_missing(messages: Messages) -> Messages:
    """Add a result that says so for every call without one; calls still open at the end stay open."""
    found = groups(messages)
    if not any(group.missing and not group.open for group in found):
        return messages
    rows: list[Any] = []
    for group in found:
        rows.extend(messages[group.start : group.stop])
        if group.missing and not group.open:
            rows.extend(_stubs(messages[group.start], group))
    return Messages.of(rows)


def merge_neighbours(messages: Messages, before: Messages | None = None) -> Messages:
    """Merge neighbours of one role, except those that stood so in `before` and those that must stay apart.

    Kept apart are the current user message, summaries, and an assistant message whose calls come first.
    """
    request = current_user(messages)
    own = None if request is None else messages[request]

    def merge(one: Row, other: Row) -> list[Any] | None:
        if own is one or own is other or is_summary(one) or is_summary(other) or calls_of(one):
            return None
        return [{**one, **other, "content": _joined(one.get("content"), other.get("content"))}]

    return _meeting(messages, before, merge)


def bridge_neighbours(messages: Messages, before: Messages | None = None) -> Messages:
    """Put a short synthetic row between neighbours of one role, except those that stood so in `before`.

    One goes in front too, if the conversation began with a user message in `before` and does not any more.
    """
    other_role = {"user": "assistant", "assistant": "user"}
    bridged = _meeting(messages, before, lambda one, other: [one, bridge(other_role[role_of(one)]), other])
    at = system_rows(bridged)
    if before is None or _first_role(bridged) in {"", "user"} or _first_role(before) != "user":
        return bridged
    return Messages.of([*bridged[:at], bridge("user"), *bridged[at:]])


def _meeting(messages: Messages, before: Messages | None, mend: Callable[[Row, Row], list[Any] | None]) -> Messages:
    """Let `mend` say what is to stand for two colliding rows (None: leave them), from the front to the back."""
    known = neighbours(before or Messages())
    rows: list[Any] = []
    last: int | None = None  # where the last row that is no system message stands in `rows`
    for row in messages:
        put = [row]
        if role_of(row) not in SYSTEM_ROLES:
            if last is not None and collides(rows[last], row, known):
                mended = mend(rows[last], row)
                if mended is not None:
                    between = rows[last + 1 :]
                    del rows[last:]
                    put = list(Messages.of([mended[0], *between, *mended[1:]]))
            last = len(rows) + max(at for at, new in enumerate(put) if role_of(new) not in SYSTEM_ROLES)
        rows.extend(put)
    return messages if len(rows) == len(messages) and all(map(_is, rows, messages)) else Messages.of(rows)


def _first_role(messages: Messages) -> str:
    at = system_rows(messages)
    return role_of(messages[at]) if at < len(messages) else ""


def _is(one: object, other: object) -> bool:
    return one is other


def _stubs(row: Row, group: Group) -> list[dict[str, Any]]:
    names = {call.id: call.name for call in calls_of(row)}
    return [_stub(missing, names[missing]) for missing in group.missing]


def _stub(call: str, name: str) -> dict[str, Any]:
    if call.startswith("function:"):
        return {"role": "function", "name": name, "content": MISSING_RESULT}
    return {"role": "tool", "tool_call_id": call, "content": MISSING_RESULT}


def _joined(one: Any, other: Any) -> Any:
    """Join two contents: texts by an empty line, anything else as lists of parts."""
    if not one or not other:
        return one or other
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}\n\n{other}"
    return [*_parts(one), *_parts(other)]


def _parts(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [content] if isinstance(content, dict) else list(content)
