"""Reading what is said of a tool call: its arguments, what it was about, whether it failed.

Hosts differ in spelling (`filePath`, `file_path`) and in where a failure shows: in a status, or in the result itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["arguments", "ends_of", "failed", "hook_call", "is_hook", "label", "outcome", "snake", "subject"]

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SUBJECTS = (
    *(
        "file_path",
        "notebook_path",
        "new_path",
        "filename",
        "file",
        "command",
        "cmd",
        "script",
        "pattern",
        "query",
        "url",
        "uri",
    ),
    *("path", "directory", "name", "skill", "goal", "task", "prompt", "action", "raw"),
)
"""What a call is about, in the order in which it is looked for; `raw` is what a host could not read itself."""

_FINE = frozenset({"", "ok", "success", "succeeded", "completed", "done"})
_LONG = 4_000  # characters from which on arguments are shortened
_PAIR = re.compile(r'"(\w+)"\s*:\s*"((?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})){1,400})"')
_SMALL = 2_000  # characters up to which a result is read whole
_AT_HEAD = re.compile(r'\{\s*"success"\s*:\s*false|\{\s*"error"\s*:\s*(?!null|""|false)\S')
_AT_TAIL = re.compile(
    r'(?<!\\)"exit_?[cC]ode"\s*:\s*-?[1-9]\d*\s*(?:,\s*"\w+"\s*:\s*(?:null|""|false|true|\d+)\s*)*\}\s*$'
)


def snake(name: str) -> str:
    """A name as Python spells it: `filePath` and `file-path` become `file_path`."""
    return _HUMP.sub("_", name).replace("-", "_").replace(" ", "_").lower()


def arguments(args: Any) -> dict[str, Any] | None:
    """A call's arguments by name, in one spelling; `args` is a mapping or JSON text, nothing at all is no arguments.

    None: they are not what arguments look like.
    """
    if isinstance(args, (str, bytes)):
        if not args.strip():
            return {}
        try:
            args = json.loads(args)
        except (ValueError, RecursionError):
            return None
    if args is None:
        return {}
    return _spelt(args) if isinstance(args, Mapping) else None


def _spelt(told: Mapping[Any, Any]) -> dict[str, Any]:
    """The same in one spelling; of a name that is there in two, what says something."""
    made: dict[str, Any] = {}
    for name, value in told.items():
        name = snake(str(name))  # noqa: PLW2901 - the other spelling is of no use
        if made.get(name) in (None, "") or value not in (None, ""):
            made[name] = value
    return made


def ends_of(args: str) -> str | dict[str, Any]:
    """Long arguments as the short values at their two ends, where all that names a call's subject stands.

    So that a file's whole content does not wait in a queue for the sake of its path.  Short ones come back as they are.
    """
    if len(args) <= _LONG:
        return args
    if not (args.lstrip().startswith("{") and args.rstrip().endswith("}")):
        return args[:_LONG]  # no arguments, and not made so by cutting
    found = _PAIR.findall(args[: _LONG // 2]) + _PAIR.findall(args[-_LONG // 2 :])
    return {name: json.loads(f'"{value}"', strict=False) for name, value in found}


def subject(args: Mapping[str, Any]) -> str:
    """What a call is about: the file, the command, the address; `args` in one spelling."""
    for name in _SUBJECTS:
        value = args.get(name)
        if isinstance(value, str) and value.strip():
            return " ".join(value.split())
    return ""


def label(tool: str, args: Mapping[str, Any]) -> str:
    """A call in a few words, alike for calls that do the same."""
    about = subject(args)
    return f"{tool}: {about}" if about else tool


def failed(status: str, result: str) -> bool:
    """Whether a call failed: by its status or, as some tools tell it, in a result that is a JSON object.

    Of a long result only the two ends are looked at, for this is asked on the run loop's time.
    """
    if status.lower() not in _FINE:
        return True
    if not result.startswith("{"):
        return False
    if len(result) > _SMALL:
        return bool(_AT_HEAD.match(result) or _AT_TAIL.search(result, len(result) - 200))
    try:
        told = json.loads(result)
    except (ValueError, RecursionError):
        return False
    return _tells_failure(told)


def outcome(status: str, result: str) -> str:
    """`ok`, or in one word how a call went wrong."""
    if not failed(status, result):
        return "ok"
    return "tool_error" if status.lower() in _FINE else status


def _tells_failure(told: Any) -> bool:
    if not isinstance(told, Mapping):
        return False
    code = told.get("exit_code", told.get("exitCode", 0))
    fell = isinstance(code, int) and not isinstance(code, bool) and code != 0
    stopped = any(told.get(name) is True for name in ("is_error", "isError", "interrupted"))
    return told.get("success") is False or bool(told.get("error")) or stopped or fell


# -- what a hook is given on its way ----------------------------------------------------------------------------------


def is_hook(payload: Mapping[Any, Any]) -> bool:
    """Whether a payload is a hook's (it names a tool) and no entry (that would name an action)."""
    return "action" not in payload and "tool_name" in map(snake, payload)


def hook_call(payload: Mapping[Any, Any]) -> tuple[str, str | dict[str, Any], str, str] | None:
    """Tool, arguments, status and result of a hook's payload, however it is spelt; None: it is none.

    Nor is one from before the call: nothing has happened then.  What a host's hook has beside may stand under `extra`.
    """
    told = _spelt(payload)
    if isinstance(told.get("extra"), Mapping):
        told = _spelt(told["extra"]) | {name: value for name, value in told.items() if value is not None}
    tool, event = told.get("tool_name"), snake(str(told.get("hook_event_name") or ""))
    args = told.get("tool_input", told.get("args"))
    if not isinstance(tool, str) or not tool.strip() or event.startswith("pre_"):
        return None
    if args is not None and not isinstance(args, (str, Mapping)):
        return None
    answers = (told.get(name) for name in ("tool_response", "tool_result", "result", "error_message", "error"))
    answer = next((one for one in answers if one not in (None, "")), "")
    if not isinstance(answer, (str, Mapping, list)):
        return None
    result = answer if isinstance(answer, str) else json.dumps(answer, default=str)
    status = str(told.get("status") or "")
    if status.lower() in _FINE and (event.endswith("_failure") or _tells_failure(told)):
        status = "error"
    return tool, args if isinstance(args, str) else dict(args or {}), status, result
