"""Where the runtime's own words go in a summary, whichever compressor wrote it.

In a summary of ours they stand inside its seal; in one of the host's before its last line, which says that it ends; in
any other at the end.  What an earlier compaction put there, or a model copied, is taken out first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..transcript import (
    SUMMARY_END,
    SUMMARY_HEAD,
    SUMMARY_KEY,
    SYNTHETIC_KEY,
    bridge,
    is_bridge,
    role_of,
    seal,
    split_summary,
)
from ..transcript.rows import SYSTEM_ROLES
from .block import without_block
from .entries import SKILLS_KEY
from .wording import without_sections

__all__ = ["OWN_HEADING", "added_summary", "cleared", "is_added", "placed", "unblocked", "without_words"]

_FOREIGN_END = "--- END OF CONTEXT SUMMARY"
OWN_HEADING = "## Skills no longer in context"
"""What our compressor says of skills by itself; the sections say it better."""

_ADDED = {"skills": True}
_INTRO = "Earlier messages, pruned (compaction 0, 0 messages). This is background, not a request."


def placed(row: Mapping[str, Any], words: str) -> dict[str, Any]:
    """The summary row with these words in it, and without any earlier ones; the same value where nothing changes."""

    def put(text: str) -> str:
        before, summary, after = split_summary(text)
        if summary:
            body = _without_own(without_words(_body(summary)))
            kept = body.rstrip("\n")  # blank lines between it and a block go with the block
            return before + seal(f"{kept}\n{words}" if words else body) + after
        text = without_words(text)
        if not words:
            return text
        head, end = _before_end(text)
        return f"{head}\n\n{words}\n\n{end}" if end else f"{text.rstrip()}\n\n{words}"

    return _edited(row, put)


def cleared(row: Mapping[str, Any]) -> dict[str, Any]:
    """The summary row without any words of ours."""
    made = placed(row, "")
    made.pop(SKILLS_KEY, None)
    return made


def unblocked(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The summary row without blocks of texts, its sections left as they are."""

    def put(text: str) -> str:
        before, summary, after = split_summary(text)
        return before + seal(without_block(_body(summary))) + after if summary else without_block(text)

    return _edited(row, put)


def without_words(text: str) -> str:
    """A text without sections and blocks."""
    return without_block(without_sections(text))


def added_summary(rows: Sequence[Mapping[str, Any]], words: str) -> list[Mapping[str, Any]]:
    """The rows with a summary of our own in front, for a compaction that made none."""
    at = next((at for at, row in enumerate(rows) if role_of(row) not in SYSTEM_ROLES), len(rows))
    made: list[Mapping[str, Any]] = [
        {"role": "user", "content": seal(f"{_INTRO}\n{words}"), SUMMARY_KEY: dict(_ADDED), SYNTHETIC_KEY: True}
    ]
    following = rows[at:]
    if following and is_bridge(following[0]) and role_of(following[0]) == "user":
        following = following[1:]  # it stood in for a summary
    if following and role_of(following[0]) == "user":
        made.append(bridge("assistant"))
    return [*rows[:at], *made, *following]


def is_added(row: Mapping[str, Any]) -> bool:
    """Whether this row is a summary that was added here."""
    return row.get(SUMMARY_KEY) == _ADDED


def _body(summary: str) -> str:
    """What a sealed summary says, without head and end."""
    return "\n".join(summary.split("\n")[1:-1])


def _without_own(body: str) -> str:
    kept: list[str] = []
    inside = False
    for line in body.split("\n"):
        inside = line == OWN_HEADING or (inside and not line.startswith("## "))
        if not inside:
            kept.append(line)
    return "\n".join(kept)


def _before_end(text: str) -> tuple[str, str]:
    """Cut before the line with which the host's summaries end."""
    text = text.rstrip()
    start = text.rfind("\n") + 1
    if not text.startswith(_FOREIGN_END, start):
        return text, ""
    return text[:start].rstrip(), text[start:]


def _edited(row: Mapping[str, Any], put: Callable[[str], str]) -> dict[str, Any]:
    """The row with its summary changed, or the last of its texts; without what would be sent instead of the content."""
    content = row.get("content")
    changed: Any = content
    if isinstance(content, str):
        changed = _filled(put(content))
    elif isinstance(content, (list, tuple)):
        changed = _sealed_in_one(content)
        texts = sorted(
            (at for at, part in enumerate(changed) if _part_text(part) is not None),
            key=lambda at: (bool((_part_text(changed[at]) or "").strip()), at),
        )
        sealed = [at for at in texts if split_summary(_part_text(changed[at]) or "")[1]]
        for at in (sealed or texts)[-1:]:
            part, text = changed[at], _part_text(changed[at]) or ""
            told = _filled(put(text))
            changed[at] = told if isinstance(part, str) else {**part, "text": told}
    made = {**row, "content": changed}
    if changed != content:
        made.pop("api_content", None)
    return made


def _filled(made: str) -> str:
    """A text that is not taken out whole: an empty message is none that a provider takes."""
    return made if made.strip() else _INTRO


def _sealed_in_one(content: Sequence[Any]) -> list[Any]:
    """The parts of a row, those over which a summary of ours is spread made one, as it reads."""
    parts = list(content)
    texts = [_part_text(part) for part in parts]
    if any(text is not None and split_summary(text)[1] for text in texts):
        return parts
    for start in range(len(parts)):
        if SUMMARY_HEAD not in (texts[start] or ""):
            continue
        for stop in range(start + 2, len(parts) + 1):
            run = texts[start:stop]
            if run[-1] is None:
                break
            joined = "\n".join(text for text in run if text is not None)
            if SUMMARY_END in (run[-1] or "") and split_summary(joined)[1]:
                first = parts[start]
                one = joined if isinstance(first, str) else {**first, "text": joined}
                return [*parts[:start], one, *parts[stop:]]
    return parts


def _part_text(part: Any) -> str | None:
    """The text of one part; None where it is something else."""
    text = part.get("text") if isinstance(part, Mapping) else part
    return text if isinstance(text, str) else None
