"""Every text that the skills engine puts before a model, and how to know it again.

A pruned skill's row is a *marker*; a repeated load is answered with a *notice*; the summary of a compaction carries two
*sections*.  Their form is part of the interface: models are told what they mean, and the next compaction reads them.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..transcript import SUMMARY_END, SUMMARY_HEAD

__all__ = [
    "LOADED",
    "PRUNED",
    "REQUIRED",
    "RULE",
    "SKILL_TOOL",
    "Marker",
    "label_of",
    "listed",
    "marker",
    "notice",
    "plain_marker",
    "pruned_now",
    "read_marker",
    "reload_first",
    "reload_warning",
    "sections",
    "superseded",
    "updated",
    "without_sections",
]

SKILL_TOOL = "skill_view"
PRUNED = "[SKILL_PRUNED: content lost in compression; reload with skill_view before relying on it]"
"""Ends the row of a skill whose text was dropped."""

LOADED = "## Skills Loaded This Session"
REQUIRED = "## Required Skills For Current Task"
RULE = (
    "A skill listed as pruned, and a skill_view result that holds a marker or metadata only, is not usable: before you"
    " continue a task that needs it, reload it with skill_view. Do not reload it otherwise."
)
_STATES = {
    "pruned": "pruned — reload before use if required by active task",
    "available": "available in current context",
}
_NONE = "- none"
_SEAL = re.compile(r"\[kept by the runtime: #([0-9a-f]{8})\]")
_OURS = re.compile(r"#{1,6}\s*(?:skills loaded this session|required skills for current task)\s*:?\s*", re.IGNORECASE)
_ITEM = re.compile(r"\s*(?:[-*•]|\d+[.)])\s")
_MARKER = re.compile(r"\[skill_view\] name=(.*?)(?: file=(.*?))? \(([\d,]{1,15}) chars\)(?: \[SKILL_PRUNED\b[^\n]*)?")
_LONGEST = 300
_MARKER_SIZE = 2_000  # characters; what is longer is no line that stands for a result


class Marker(NamedTuple):
    """What a marker says: the skill as it was called, its linked file, and the characters that the result had."""

    name: str
    file: str | None
    size: int


def plain_marker(name: str, size: int, file: str | None = None) -> str:
    """The row of a result that is gone, without a word on what that means."""
    return f"[{SKILL_TOOL}] name={label_of(name, file)} ({size:,} chars)"


def marker(name: str, size: int, file: str | None = None) -> str:
    """The row of a pruned skill; `name` is what `skill_view` was called with, `size` the characters of its result."""
    return f"{plain_marker(name, size, file)} {PRUNED}"


def read_marker(text: str) -> Marker | None:
    """Read a whole row as a marker, ours or a host's in any of its forms; None where it is none."""
    text = text.strip() if len(text) <= _MARKER_SIZE else ""
    found = _MARKER.fullmatch(text) if text.startswith(f"[{SKILL_TOOL}] name=") else None
    return None if found is None else Marker(found[1], found[2], int(found[3].replace(",", "") or 0))


def label_of(name: str, file: str | None = None) -> str:
    """How a skill, or a linked file of one, is named in a line of text."""
    said = _line(name) or "unknown"
    return f"{said} file={_line(file)}" if file else said


def notice(name: str, sha256: str) -> str:
    """Answer a load of a skill whose text is in context already."""
    return _json(
        {
            "success": True,
            "name": name,
            "hash": sha256,
            "already_active": True,
            "message": "Its full text is in the current context, unchanged; there is nothing to reload.",
        }
    )


def updated(name: str, sha256: str, content: str) -> str:
    """Answer a load of a skill that has changed since its text came into context."""
    return _json({"success": True, "name": name, "hash": sha256, "updated_active_context": True, "content": content})


def superseded(name: str, sha256: str) -> str:
    """Stand in place of an older version of a skill."""
    return _json(
        {
            "success": True,
            "name": name,
            "hash": sha256,
            "superseded": True,
            "message": "An older version of this skill was here; a newer one has been loaded since.",
        }
    )


def pruned_now(names: Sequence[str]) -> str:
    """What goes with a user's message while something is pruned."""
    return f"[Skills pruned from context: {', '.join(names)}. {RULE}]"


def reload_first(names: Sequence[str], tool: str) -> str:
    """Why a tool has to wait, and what to do."""
    return (
        f"{tool} was not run. {_lost(names)} Reload first, in a step of its own, with {_calls(names)}; then go over what"
        f" you concluded since the text was lost, derive it anew from the skill, and call {tool} again if it is still right."
    )


def reload_warning(names: Sequence[str]) -> str:
    """The same said beside a tool's result, where nothing was held back."""
    return (
        f"[Skills: {_lost(names)} Before you go on, reload with {_calls(names)}, and derive anew what you concluded since"
        " the text was lost.]"
    )


def sections(states: Iterable[tuple[str, str]], required: Sequence[str]) -> str:
    """Both sections: a label and its state for every skill, and the labels of those that the task at hand needs."""
    lines = [LOADED, *(f"- {label}: {_STATES[state]}" for label, state in states), RULE, REQUIRED]
    lines += [f"- {_line(label)}" for label in required] or [_NONE]
    body = "\n".join(lines)
    return f"{body}\n[kept by the runtime: #{_checked(body)}]"


def listed(text: str) -> tuple[tuple[str, bool], ...]:
    """The labels in sections that are unaltered, each with whether it was said to be pruned; nothing of any others."""
    found: dict[str, bool] = {}
    done = 0
    for seal in _SEAL.finditer(text):
        start = text.rfind(LOADED, done, seal.start())
        done = seal.end()
        body = text[start : seal.start()].rstrip("\n")
        if start < 0 or _checked(body) != seal[1]:
            continue
        for line in body.partition(f"\n{RULE}")[0].split("\n")[1:]:
            for state, said in _STATES.items():
                if line.endswith(f": {said}"):
                    found[line.removeprefix("- ").removesuffix(f": {said}")] = state == "pruned"
    return tuple(found.items())


def without_sections(text: str) -> str:
    """The text without these sections, whoever wrote them; whatever else stands there stays."""
    if not _OURS.search(text) and not _SEAL.search(text):
        return text
    kept: list[str] = []
    inside = False
    for line in text.split("\n"):
        if _OURS.fullmatch(line.strip()):
            inside = True
        elif not inside:
            kept.append(line)
        elif line.strip() and line != RULE and not _ITEM.match(line) and not _SEAL.fullmatch(line.strip()):
            inside = False
            kept.append(line)
    return "\n".join(kept)


def _lost(names: Sequence[str]) -> str:
    return (
        f"The text of {', '.join(names)}, which the current task rests on, was lost when the context was compacted: what you"
        " remember of it is not to be relied on."
    )


def _calls(names: Sequence[str]) -> str:
    calls = []
    for label in names:
        name, _, file = label.partition(" file=")
        more = f", file_path={file!r}" if file else ""
        calls.append(f"{SKILL_TOOL}(name={name!r}{more})")
    return ", ".join(calls)


def _line(text: str | None) -> str:
    line = " ".join((text or "").split())
    for mark in (SUMMARY_HEAD, SUMMARY_END):
        line = line.replace(mark, mark.replace("[", "("))
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _json(told: dict[str, object]) -> str:
    return json.dumps(told, ensure_ascii=False)


def _checked(body: str) -> str:
    return f"{zlib.crc32(' '.join(body.split()).encode('utf-8', 'surrogatepass')):08x}"
