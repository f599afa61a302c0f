"""What a tool call did, in one line: the tool, what it worked on, how it ended."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from ..skills.reading import read_result
from ..skills.wording import label_of
from ..transcript import Call
from .wording import excerpt, lines_with, one_line

__all__ = ["PRUNED", "Outcome", "Target", "brief", "noise_in", "outcome_of", "skill_of", "target_of"]

PRUNED = "[SKILL_PRUNED]"
"""Says in a summary that a skill's text was dropped; in the row itself stands the marker of `engines.skills`."""

_SHELL_KEYS = ("command", "cmd", "script", "code")
_PATH_KEYS = (
    "path",
    "file_path",
    "filename",
    "file",
    "file_name",
    "filepath",
    "notebook_path",
    "target_file",
    "dir",
    "directory",
)
_OTHER_KEYS = ("url", "query", "pattern", "name", "q", "search", "prompt", "task", "text", "input")
_WRITES = re.compile(
    r"(?i)(?:^|[\s;&|_])(?:write|edit|create|insert|replace|patch|append|touch|rm|mv|cp|tee|mkdir|delete|sed\s+-i|apply|update)(?:[\s_]|$)|[^<>=-]>{1,2}\s*[\w./~]"
)
_CUES = (
    "error",
    "exception",
    "traceback",
    "fatal",
    "panic",
    "failed",
    "not found",
    "no such file",
    "denied",
    "fault",
    "timed out",
)
_FAILED = re.compile(
    r"(?i)\b\w*(?:error|exception)\b\s*[:(\[]|\btraceback \(most recent|\bfatal:|\bpanic(?:ked)?\b|(?-i:\bFAILED\b)|\bnot found\b|"
    r"no such file or directory|permission denied|segmentation fault|\btimed out\b"
)
_SOURCE = re.compile(
    r"\s*(?:\d+\s*[:|]|[+-]\s|(?:raise|except|throw|catch|assert|import|from|def|class|return|if|try|print)\b|[#*]|//)"
)
_TRACEBACK = "traceback (most recent"
_VARIES = re.compile(r"[/\\\d]")
_EXIT = re.compile(r"(?i)\bexit(?:ed)?(?:\s+with)?[\s_]*(?:code|status)?\W{0,4}(\d{1,3})\b")
_PARSED = 500_000  # characters of JSON that are read to be made shorter; what is longer is cut as it stands
_JSON_TEXT = ("error", "message", "output", "stdout", "stderr", "result", "content", "status")


@frozen
class Target:
    """What a call worked on: `text` for people, `path` if it is a file, `command` if a shell ran it."""

    text: str
    path: str = ""
    command: str = ""
    writes: bool = False


@frozen
class Outcome:
    """How a call ended: `text` is short, `failed` if it says so, `error` the line that does."""

    text: str
    failed: bool = False
    error: str = ""


def brief(text: str, most: int) -> str:
    """Return arguments or a result in about `most` characters, so that what is asked of them here can still be told.

    Of a long JSON object the texts are cut, and what else is long is dropped: cut through the middle it would be no JSON,
    and neither the path beside a long content could be read, nor the exit code after a long output.
    """
    if len(text) <= most:
        return text
    loaded = _loaded(text) if text[:1] == "{" and len(text) <= _PARSED else None
    if not isinstance(loaded, dict):
        return excerpt(text, most)
    room = max(most // max(len(loaded), 2), 100)
    short = {
        key: excerpt(value, room) if isinstance(value, str) else value
        for key, value in loaded.items()
        if isinstance(value, str) or len(_as_text(value)) <= room
    }
    told = json.dumps(short, ensure_ascii=False)
    return told if len(told) <= 2 * most else excerpt(text, most)


def target_of(call: Call) -> Target:
    """Say what a call worked on, from whichever argument names it."""
    arguments = _loaded(call.arguments)
    if not isinstance(arguments, Mapping):
        return Target(one_line(call.arguments, 100))
    command = _first(arguments, _SHELL_KEYS)
    if command:
        lines = command.strip().splitlines()
        more = f" (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
        line = one_line(lines[0], 130) if lines else ""
        return Target(line + more, command=command, writes=bool(_WRITES.search(line)))
    path = _first(arguments, _PATH_KEYS)
    writes = bool(_WRITES.search(call.name))
    if path:
        return Target(one_line(path, 200), path=path.strip(), writes=writes)
    text = _first(arguments, _OTHER_KEYS) or next((item for item in arguments.values() if isinstance(item, str)), "")
    return Target(one_line(text, 120), writes=writes)


def outcome_of(text: str, noise: frozenset[str] = frozenset()) -> Outcome:
    """Say how a call ended, from its result; `noise` are lines that many results have."""
    loaded = _loaded(text) if text[:1] in "{[" else None
    if isinstance(loaded, Mapping):
        return _structured(loaded, noise)
    error = _error_in(text)
    code = _EXIT.search(text) if "exit" in text or "Exit" in text else None
    failed = bool(error) or bool(code and code[1] != "0")
    said = error or _gist(text, noise)
    if code and failed:
        said = f"exit {code[1]}: {said}" if said else f"exit {code[1]}"
    return Outcome(said or "no output", failed, error)


def skill_of(call: Call, text: str) -> str | None:
    """Return how a skill that this call brought is named (with its file, if it is one); None for other calls."""
    found = read_result(call, text)
    return None if found is None or found.kind not in {"whole", "gone"} else label_of(found.name, found.file)


def noise_in(results: Iterable[str]) -> frozenset[str]:
    """Return the shapes of lines that begin or end so many results that they say nothing (prompts, status lines)."""
    seen: Counter[str] = Counter()
    total = 0
    for text in results:
        total += 1
        lines = [line for line in (text[:300] + "\n" + text[-300:]).splitlines() if line]
        seen.update({_shape(line) for line in (*lines[:2], *lines[-4:])})
    return frozenset(line for line, times in seen.items() if times >= 3 and times * 5 >= total and len(line) > 4)


def _shape(line: str) -> str:
    """A line without what varies in it: numbers and paths."""
    return " ".join([word for word in line[:80].split() if not _VARIES.search(word)])


def _structured(loaded: Mapping[str, Any], noise: frozenset[str]) -> Outcome:
    code = next((loaded[key] for key in ("exit_code", "returncode", "code") if isinstance(loaded.get(key), int)), 0)
    failed = (
        code not in (0, True)
        or loaded.get("success") is False
        or loaded.get("ok") is False
        or bool(loaded.get("error"))
    )
    said = next((one_line(_as_text(loaded[key]), 160) for key in _JSON_TEXT if loaded.get(key)), "")
    output = _as_text(loaded.get("output") or loaded.get("stdout") or "")
    if not (
        failed and any(loaded.get(key) for key in ("error", "message"))
    ):  # what a command says of a failure is at its end
        said = (_error_in(output) if failed else "") or _gist(output, noise) or said
    error = said or f"exit {code}" if failed else ""
    return Outcome(
        (f"exit {code}: " if code not in (0, True) else "") + (said or ("failed" if failed else "done")), failed, error
    )


def _error_in(text: str) -> str:
    """The last line that reports an error; for a traceback its last line, which names it."""
    lines = (text[start:stop] for start, stop in reversed(lines_with(text, _CUES)))
    found = next((line for line in lines if _reports(line)), "")
    if _TRACEBACK in found.lower():
        rest = text[text.rfind(found) + len(found) :].splitlines()
        found = next((line for line in rest if line and not line[0].isspace()), found)
    return one_line(found, 160)


def _reports(line: str) -> bool:
    """Whether a line reports an error, rather than being source code that speaks of one."""
    return len(line) < 2000 and not _SOURCE.match(line) and _FAILED.search(line) is not None


def _gist(text: str, noise: frozenset[str]) -> str:
    """The only line of a short result, or the first and last of a longer one, and how long it is."""
    lines = [line for raw in text.splitlines() if (line := raw.strip())]
    begin, end = 0, len(lines)
    while begin < end and _shape(lines[begin]) in noise:
        begin += 1
    while end > begin and _shape(lines[end - 1]) in noise:
        end -= 1
    lines = lines[begin:end] or lines  # better what many say than nothing
    if not lines:
        return ""
    if len(lines) == 1 or sum(map(len, lines)) <= 120:
        return one_line(" / ".join(lines), 120)
    return f"{one_line(lines[0], 70)} … {one_line(lines[-1], 40)} ({len(lines)} lines)"


def _first(arguments: Mapping[str, Any], keys: Iterable[str]) -> str:
    for key in keys:
        value = arguments.get(key)
        if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
            value = " ".join(value)
        if isinstance(value, str) and value.strip():
            return value
    return ""


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
