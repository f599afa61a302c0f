"""Which rows people wrote, and which a compaction or a host put there.

A summary of ours carries `SUMMARY_KEY` and is told by its text alone too, since hosts strip keys they do not know: it
begins with `SUMMARY_HEAD` and its last line is `SUMMARY_END`.  A host may also have merged one into a neighbour, so a
summary is looked for anywhere in a text.  A *bridge* is the one-line row that keeps roles alternating beside a
summary.  A *real user turn* is a user message that is neither of these, nor marked as synthetic by a host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from .rows import role_of, text_of

__all__ = [
    "BRIDGE_TEXT",
    "SUMMARY_END",
    "SUMMARY_HEAD",
    "SUMMARY_KEY",
    "SYNTHETIC_KEY",
    "bridge",
    "current_user",
    "is_bridge",
    "is_foreign_summary",
    "is_real_user",
    "is_summary",
    "split_summary",
]

SUMMARY_KEY = "_compressed_summary"
SYNTHETIC_KEY = "_synthetic"
SUMMARY_HEAD = "[COMPRESSED SUMMARY: reference only]"
SUMMARY_END = "[END OF COMPRESSED SUMMARY]"
BRIDGE_TEXT = {
    "assistant": "[Noted: the summary above is reference; the conversation goes on below.]",
    "user": "[The conversation goes on below.]",
}

_FOREIGN = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]:", "[END OF PRIOR CONTEXT")
R = TypeVar("R", bound=Mapping[str, Any])


def split_summary(text: str) -> tuple[str, str, str]:
    """Cut a text into what stands before our summary in it, the summary, and what follows; three texts, some empty."""
    start = text.find(SUMMARY_HEAD)
    end = text.find(SUMMARY_END, start)
    if start < 0 or end < 0:
        return text, "", ""
    end += len(SUMMARY_END)
    return text[:start], text[start:end], text[end:]


def is_summary(row: Mapping[str, Any]) -> bool:
    """Whether the row is a summary of ours and nothing else."""
    if role_of(row) not in {"user", "assistant"}:
        return False
    if row.get(SUMMARY_KEY):
        return True
    before, summary, after = split_summary(text_of(row))
    return bool(summary) and not before.strip() and not after.strip()


def is_bridge(row: Mapping[str, Any]) -> bool:
    """Whether the row only keeps roles alternating."""
    return row.get("content") == BRIDGE_TEXT.get(role_of(row), ...)


def is_foreign_summary(row: Mapping[str, Any]) -> bool:
    """Whether the row is the summary of the host's built-in compressor."""
    return role_of(row) in {"user", "assistant"} and text_of(row).lstrip().startswith(_FOREIGN)


def is_real_user(row: Mapping[str, Any]) -> bool:
    """Whether somebody outside the run loop said this: a user message that no compaction and no host made up."""
    if row.get("role") != "user" or is_summary(row) or is_bridge(row) or is_foreign_summary(row):
        return False
    return not any(key.startswith("_") and key.endswith(SYNTHETIC_KEY) and value for key, value in row.items())


def current_user(messages: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the index of the last real user turn: the request at hand; None where there is none."""
    return next((at for at in range(len(messages) - 1, -1, -1) if is_real_user(messages[at])), None)


def bridge(role: str) -> dict[str, Any]:
    """Return a row of the given role (`user` or `assistant`) to stand between two neighbours of the other one."""
    return {"role": role, "content": BRIDGE_TEXT[role], SYNTHETIC_KEY: True}
