"""Which rows people wrote, and which a compaction or a host put there.

A summary of ours begins with `SUMMARY_HEAD` and a check value over what it says, and its last line is `SUMMARY_END`.
Its row carries `SUMMARY_KEY`; since hosts strip keys they do not know, or merge the row into a neighbour, the text alone
is believed too, but only where it can be ours: it is unaltered (`split_summary`), and it stands at an edge of the first
message that is no system message (`merged_summary`).  Anywhere else it is what somebody quoted, and stays a quotation.
A message with calls is never a summary and never a bridge, whatever it says.

A *bridge* is the one-line row that keeps roles alternating beside a summary.  A *real user turn* is a user message that
is none of these, nor marked as synthetic by a host.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from .rows import SYSTEM_ROLES, call_ids, calls_of, role_of, text_of

__all__ = [
    "BRIDGE_TEXT",
    "SUMMARY_END",
    "SUMMARY_HEAD",
    "SUMMARY_KEY",
    "SYNTHETIC_KEY",
    "Merged",
    "bridge",
    "current_user",
    "is_bridge",
    "is_foreign_summary",
    "is_real_user",
    "is_summary",
    "merged_summary",
    "said_by_user",
    "seal",
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

_SEALED = re.compile(re.escape(SUMMARY_HEAD) + r" #([0-9a-f]{8})\n")
_FOREIGN = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]:", "[END OF PRIOR CONTEXT")
_FOREIGN_END = "--- END OF CONTEXT SUMMARY"
R = TypeVar("R", bound=Mapping[str, Any])


class Merged(NamedTuple):
    """A summary of ours without its key: the row it stands in, its text, and that row without it (None: nothing else)."""

    at: int
    summary: str
    rest: dict[str, Any] | None


def seal(body: str) -> str:
    """Put head, check value and end around what a summary says; it must hold neither of the marks itself."""
    return f"{SUMMARY_HEAD} #{_checked(body)}\n{body}\n{SUMMARY_END}"


def split_summary(text: str) -> tuple[str, str, str]:
    """Cut a text into what stands before our summary in it, the summary, and what follows; three texts, some empty.

    A summary that was altered, cut off or made up by somebody who knows no more than the marks is none.
    """
    for head in _SEALED.finditer(text):
        end = text.find(SUMMARY_END, head.end())
        if end < 0:
            break
        following = text.find(SUMMARY_HEAD, head.end(), end)  # marks do not nest, so every letter is looked at once
        if following < 0 and _checked(text[head.end() : end].removesuffix("\n")) == head[1]:
            end += len(SUMMARY_END)
            return text[: head.start()], text[head.start() : end], text[end:]
    return text, "", ""


def is_summary(row: Mapping[str, Any]) -> bool:
    """Whether the row is a summary of ours and nothing else, as far as the row alone can tell."""
    if not _may_be(row):
        return False
    return bool(row.get(SUMMARY_KEY)) or _is_sealed(row)


def is_bridge(row: Mapping[str, Any]) -> bool:
    """Whether the row only keeps roles alternating."""
    return row.get("content") == BRIDGE_TEXT.get(role_of(row), ...) and not calls_of(row)


def is_foreign_summary(row: Mapping[str, Any]) -> bool:
    """Whether the row is the summary of the host's built-in compressor: it has the host's head, and its key or end line.

    The head alone is no proof: people quote it when they ask about it.
    """
    if not _may_be(row):
        return False
    text = text_of(row).strip()
    if not text.startswith(_FOREIGN):
        return False
    return bool(row.get(SUMMARY_KEY)) or text[text.rfind("\n") + 1 :].startswith(_FOREIGN_END)


def said_by_user(row: Mapping[str, Any]) -> bool:
    """Whether this is a real user turn, in a list whose summaries of ours are known: one in the text is a quotation."""
    if row.get("role") != "user" or row.get(SUMMARY_KEY) or is_bridge(row) or is_foreign_summary(row):
        return False
    return not any(key.startswith("_") and key.endswith(SYNTHETIC_KEY) and value for key, value in row.items())


def is_real_user(row: Mapping[str, Any]) -> bool:
    """Whether somebody outside the run loop said this: a user message that no compaction and no host made up."""
    return said_by_user(row) and not _is_sealed(row)


def current_user(messages: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the index of the last real user turn: the request at hand; None where there is none."""
    first = -1
    for back, row in enumerate(reversed(messages), 1):
        if row.get("role") == "user" and said_by_user(row):
            first = _first_spoken(messages) if first < 0 else first
            at = len(messages) - back
            if at != first or is_real_user(row):
                return at
    return None


def merged_summary(messages: Sequence[Mapping[str, Any]]) -> Merged | None:
    """Find a summary of ours whose key was dropped, by itself or merged into the first message that is no system message."""
    at = _first_spoken(messages)
    if at == len(messages) or not _may_be(messages[at]) or messages[at].get(SUMMARY_KEY):
        return None
    row = messages[at]
    before, summary, after = split_summary(text_of(row))
    if not summary or (before.strip() and after.strip()):
        return None
    if not before.strip() and not after.strip():
        return Merged(at, summary, None)
    rest = {**row, "content": _without(row.get("content"))}
    return None if split_summary(text_of(rest))[1] else Merged(at, summary, rest)


def bridge(role: str) -> dict[str, Any]:
    """Return a row of the given role (`user` or `assistant`) to stand between two neighbours of the other one."""
    return {"role": role, "content": BRIDGE_TEXT[role], SYNTHETIC_KEY: True}


def _checked(body: str) -> str:
    """The check value of what a summary says; blanks do not count, since hosts trim and wrap."""
    return f"{zlib.crc32(' '.join(body.split()).encode('utf-8', 'surrogatepass')):08x}"


def _may_be(row: Mapping[str, Any]) -> bool:
    return role_of(row) in {"user", "assistant"} and not call_ids(row)


def _is_sealed(row: Mapping[str, Any]) -> bool:
    text = text_of(row).strip()
    if not (text.startswith(SUMMARY_HEAD) and text.endswith(SUMMARY_END)):
        return False
    before, summary, after = split_summary(text)
    return bool(summary) and not before and not after


def _first_spoken(messages: Sequence[Mapping[str, Any]]) -> int:
    return next((at for at, row in enumerate(messages) if role_of(row) not in SYSTEM_ROLES), len(messages))


def _without(content: Any) -> Any:
    if isinstance(content, str):
        before, summary, after = split_summary(content)
        return (before + after).strip() if summary else content
    if isinstance(content, (list, tuple)):
        return [_without(part) for part in content]
    text = content.get("text") if isinstance(content, Mapping) else None
    return {**content, "text": _without(text)} if isinstance(text, str) else content
