"""What a row says of a skill: whether the text is there, whole, or what stands in its place.

Only rows that can speak of skills are read at all: a result of `skill_view`, and a user message in the form in which
the host loads skills at a user's command.  Whatever looks the same anywhere else is what somebody quoted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Literal

from attrs import field, frozen

from ..transcript import Call
from .wording import SKILL_TOOL, read_marker

__all__ = ["SKILL_KEY", "Reading", "brings_skills", "hash_of", "read_lost", "read_result", "read_user"]

SKILL_KEY = "_skill"
"""The private key of a row whose skill was pruned: what is known of it."""

Kind = Literal["whole", "gone", "notice", "superseded", "failed"]

_SUCCESS = re.compile(r"\s*\{\s*\"success\":\s*(true|false)\b")
_SIZES = re.compile(r"(?:tool response was |too large \()([\d,]{1,15}) char")
_PREVIEW = re.compile(r"^Preview \(first \d+ chars\):\n", re.MULTILINE)
_PERSISTED, _DUPLICATE = "<persisted-output>", "[Duplicate tool output"
_INVOKED = '[IMPORTANT: The user has invoked the "'
_SINGLE = re.compile(re.escape(_INVOKED) + r'(.{1,300}?)" skill, [^\n]*\]\n\n')
_LISTED = re.compile(r"^Skills loaded: ([^\n]+)$", re.MULTILINE)
_BLOCK = re.compile(r"^\[Loaded as part of the [^\n]*\]\n\n", re.MULTILINE)
_DIRECTORY = re.compile(r"^\[Skill directory: ([^\n]+)\]$", re.MULTILINE)
_AFTER = re.compile(
    r"\n\n(?:\[Skill directory: |\[Skill config \(from |\[Skill setup note: |\[This skill has supporting files:\]|"
    r"The user has provided the following instruction alongside the skill invocation: |\[Runtime note: )"
)


@frozen
class Reading:
    """One row's word on one skill.

    `kind`: `whole` (the text is there), `gone` (it was, and something stands in its place), `notice` (it is said to be
    elsewhere), `superseded` (a newer version is known), `failed` (it never came).  `called` is the name the skill was
    asked for with, `size` the characters of the whole result.
    """

    kind: Kind
    name: str
    called: str
    file: str | None = None
    path: str | None = None
    sha256: str | None = None
    size: int | None = None
    body: str = field(default="", repr=False)
    directory: str | None = None


def hash_of(body: str) -> str:
    """The hash by which versions of a text are told apart."""
    return sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


def read_result(call: Call, text: str, key: Any = None) -> Reading | None:
    """Read the result of a call of `skill_view`; `key` is the row's private key.  None: it says nothing of a skill."""
    if call.name != SKILL_TOOL:
        return None
    called, file = _asked_for(call.arguments)
    name = called or "unknown"
    known = key if isinstance(key, Mapping) else {}
    if text.lstrip()[:1] == "{":
        told = _loaded(text)
        if told is not None:
            found = _structured(told, name, file, len(text), known)
            failed = found.kind == "notice" and known.get("state") == "failed"
            return Reading("failed", found.name, name, found.file) if failed else found
    if known.get("state") == "failed":
        return Reading("failed", name, name, file)
    left = _remains(called, file, text)
    if left is None and not known:
        return None
    size = left.size if left is not None else None
    if left is not None and left.kind == "failed":
        return left
    return Reading(
        "superseded" if known.get("state") == "superseded" else "gone",
        _text(known.get("name")) or name,
        name,
        _text(known.get("file")) or file or (left.file if left is not None else None),
        _text(known.get("path")),
        _text(known.get("sha256")),
        size,
    )


def read_lost(call: Call) -> Reading:
    """Read the result of a call of `skill_view` in whose place something stands that says nothing."""
    called, file = _asked_for(call.arguments)
    return Reading("gone", called or "unknown", called or "unknown", file)


def brings_skills(text: str) -> bool:
    """Whether a user's message may bring skills along; most do not."""
    return text.startswith(_INVOKED)


def read_user(text: str) -> Iterator[Reading]:
    """Read the skills that a user's command brought along in a message of the user."""
    if not brings_skills(text):
        return
    single = _SINGLE.match(text)
    if single is not None:
        yield _brought(single[1], text[single.end() :])
        return
    heads = list(_BLOCK.finditer(text))
    names = _LISTED.search(text, 0, heads[0].start() if heads else len(text))
    if names is None:
        return
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for name, head, end in zip(names[1].split(", "), heads, ends, strict=False):
        yield _brought(name, text[head.end() : end].rstrip("\n"))


def _brought(said: str, text: str) -> Reading:
    name = _text(said) or "unknown"
    after = _AFTER.search(text)
    body = text[: after.start()] if after is not None else text
    where = _DIRECTORY.search(text, len(body))
    directory = where[1] if where is not None else None
    return Reading("whole", name, name, None, None, hash_of(body), len(body), body, directory)


def _structured(told: Mapping[str, Any], called: str, file: str | None, size: int, known: Mapping[str, Any]) -> Reading:
    name = _text(told.get("name")) or called
    file = file or _clean(_text(told.get("file")))
    digest = _text(told.get("hash"))
    if told.get("status") == "deduplicated":
        return Reading("notice", name, called, file)
    if told.get("success") is not True:
        return Reading("failed", name, called, file)
    if told.get("already_active") is True:
        return Reading("notice", name, called, file, _text(known.get("path")), digest)
    if told.get("superseded") is True:
        return Reading("superseded", name, called, file, _text(known.get("path")), digest)
    body = told.get("content")
    if not isinstance(body, str) or told.get("is_binary") is True:
        return Reading("failed", name, called, file)
    path, directory = _text(told.get("path")), _text(told.get("skill_dir"))
    return Reading("whole", name, called, file, path, hash_of(body), size, body, directory)


def _remains(called: str, file: str | None, text: str) -> Reading | None:
    """What is left of a result that is no JSON any more; what was called for, the call says best."""
    name = called or "unknown"
    found = read_marker(text)
    if found is not None:
        return Reading("gone", name, name, file if called else found.file, size=found.size)
    if text.startswith(_DUPLICATE):
        return Reading("gone", name, name, file)
    shown = text
    if text.startswith(_PERSISTED):
        preview = _PREVIEW.search(text)
        shown = text[preview.end() :] if preview is not None else ""
    success = _SUCCESS.match(shown)
    if success is None:
        return None
    sizes = _SIZES.findall(text)
    size = int(sizes[-1].replace(",", "") or 0) if sizes else None
    return Reading("gone" if success[1] == "true" else "failed", name, name, file, size=size)


def _asked_for(arguments: str) -> tuple[str, str | None]:
    told = _loaded(arguments)
    if told is None:
        return "", None
    return _text(told.get("name")) or "", _clean(_text(told.get("file_path")))


def _clean(file: str | None) -> str | None:
    """A linked file however it was spelled; the skill's own text asked for by name is no linked file."""
    if file is None:
        return None
    said = file.strip().removeprefix("./")
    return None if said in {"", "SKILL.md"} else said


def _text(value: Any) -> str | None:
    """A name, a path or a hash on one line, as it can be written into one."""
    return " ".join(value.split()) or None if isinstance(value, str) else None


def _loaded(text: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, Mapping) else None
