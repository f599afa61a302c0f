"""Making older messages smaller while they stay messages: same rows, same pairs, less in them.

An old tool result becomes one line (tool, target, outcome, size), a repeat a reference to the other one; huge arguments
shrink inside valid JSON; old images become a placeholder; an overlong text keeps its beginning and end.  Rows the user
wrote keep every word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..messages import Messages, Row, thaw
from ..skills.wording import marker, read_marker
from ..transcript import Group, call_id, calls_of, estimate_tokens, images_in, said_by_user, text_of
from .reader import Reader, Step
from .redact import redact
from .wording import bytes_of, excerpt, one_line

__all__ = ["line_of", "shrink", "wear"]

_SHORT = 200  # characters a result may have and stay as it is
_ARGUMENT = 240
_TEXT = 2000
_IMAGE = "[image left out]"


def line_of(step: Step, same_as: str = "") -> str:
    """Say a tool result in one line."""
    if step.skill is not None:
        return marker(step.skill, step.size)
    head = f"[{step.call.name}] {step.target}".rstrip()
    if same_as:
        return f"{head} → same output as {same_as} ({step.size:,} chars)"
    return f"{head} → {step.outcome.text} ({step.size:,} chars)"


def wear(reader: Reader, group: Group, later: Mapping[str, str]) -> list[Any]:
    """Return the rows of one group in their small form; `later` maps long results to the call that has them last."""
    row = reader.rows[group.start]
    if said_by_user(row):
        return [_without_images(row)]
    rows: list[Any] = [_small_text(_small_arguments(_without_images(row)))]
    steps = iter(_by_result(reader, group))
    for at in range(group.start + 1, group.stop):
        result, step = reader.rows[at], next(steps)
        text = text_of(result)
        line = line_of(step, _reference(later, text, step))
        smaller = len(line) < len(text) and (len(text) > _SHORT or step.skill is not None)
        smaller = smaller and not (step.skill is not None and read_marker(text))
        if smaller or images_in(result.get("content")):
            result = Messages.of(
                [{**result, "content": line if smaller else f"{text} {_IMAGE}".replace("[image]", "").strip()}]
            )[0]
        rows.append(result)
    return rows


def shrink(rows: Sequence[Row], room: int) -> list[Any] | None:
    """Shrink the newest group to about `room` tokens by taking the middle out of its longest texts; None: it cannot."""
    if _space(rows, room) < 200 * len(rows):
        rows = [Messages.of([_small_arguments(row)])[0] for row in rows]
    space = _space(rows, room)
    if space < 100 * len(rows):
        return None
    most = _level(sorted(bytes_of(text_of(row)) for row in rows), space)
    made = Messages.of([_excerpted(row, most) for row in rows])
    return list(made) if estimate_tokens(made) <= room else None


def _space(rows: Sequence[Row], room: int) -> int:
    """How many bytes of text these rows may have."""
    return (room - estimate_tokens(rows)) * 4 + sum(bytes_of(text_of(row)) - 3 for row in rows)


def _level(sizes: Iterable[int], space: int) -> int:
    """How long the longest may be, so that all together fit."""
    sizes = list(sizes)
    for done, size in enumerate(sizes):
        share = space // (len(sizes) - done)
        if size > share:
            return share
        space -= size
    return max(sizes, default=0)


def _excerpted(row: Row, most: int) -> Any:
    text = text_of(row)
    if bytes_of(text) <= most:
        return row
    short, room = excerpt(text, most), most
    while room > 40 and bytes_of(short) > most:
        room = room * 2 // 3
        short = excerpt(text, room)
    return {**row, "content": short}


def _by_result(reader: Reader, group: Group) -> Iterable[Step]:
    """The steps of a group in the order of its results."""
    steps: dict[str, list[Step]] = {}
    for step in reader.steps(group):
        steps.setdefault(step.call.id, []).append(step)
    for at in range(group.start + 1, group.stop):
        yield steps[call_id(reader.rows[at]) or ""].pop(0)


def _reference(later: Mapping[str, str], text: str, step: Step) -> str:
    last = later.get(text, "")
    return "" if last == step.call.id or len(text) <= _SHORT else last


def _small_text(row: Any) -> Any:
    content = row.get("content")
    if isinstance(content, str) and len(content) > _TEXT:
        return {**row, "content": excerpt(content, _TEXT)}
    if isinstance(content, (list, tuple)) and len(text_of(row)) > _TEXT:
        return {**row, "content": [{"type": "text", "text": excerpt(text_of(row), _TEXT)}]}
    return row


def _without_images(row: Any) -> Any:
    content = row.get("content")
    if isinstance(content, str) or not images_in(content):
        return row
    parts = content if isinstance(content, (list, tuple)) else [content]
    return {**row, "content": [{"type": "text", "text": _IMAGE} if images_in(part) else part for part in parts]}


def _small_arguments(row: Any) -> Any:
    """Shorten long strings inside the arguments of calls; what is no JSON becomes JSON that holds its beginning."""
    if not any(len(call.arguments) > 2 * _ARGUMENT for call in calls_of(row)):
        return row
    made = thaw(Messages.of([row])[0])
    holders = [call.get("function", call) for call in made.get("tool_calls") or () if isinstance(call, dict)]
    for holder in [*holders, made.get("function_call")]:
        if isinstance(holder, dict) and "arguments" in holder:
            holder["arguments"] = _small(holder["arguments"])
    return made


def _small(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return _cut(arguments)
    if len(arguments) <= 2 * _ARGUMENT:
        return arguments
    try:
        loaded = json.loads(arguments)
    except (ValueError, RecursionError):
        return json.dumps({"cut": one_line(redact(arguments), _ARGUMENT)}, ensure_ascii=False)
    short = json.dumps(_cut(loaded), ensure_ascii=False)
    return short if len(short) < len(arguments) else arguments


def _cut(value: Any, most: int = _ARGUMENT) -> Any:
    if isinstance(value, str):
        return excerpt(value, most) if len(value) > most else value
    if isinstance(value, dict):
        return {key: _cut(item, most) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        shown = [_cut(item, most) for item in value[:20]]
        return [*shown, f"[{len(value) - 20} more]"] if len(value) > 20 else shown
    return value
