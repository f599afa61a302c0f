"""What is in one chat message, however its author spelled it.

Content may be text, a list of parts (dicts or bare strings), one such dict, None or absent; `tool_calls` may be None.
Rows may carry keys nobody here knows; they are left alone.  Everything in this module reads, nothing changes a row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

__all__ = [
    "ROLES",
    "SYSTEM_ROLES",
    "Call",
    "call_id",
    "call_ids",
    "calls_of",
    "images_in",
    "own_text",
    "role_of",
    "text_of",
]

SYSTEM_ROLES = frozenset({"system", "developer"})
ROLES = SYSTEM_ROLES | {"user", "assistant", "tool", "function"}
"""Roles that providers know."""

_IMAGE_TYPES = frozenset({"image", "image_url", "input_image"})
_IMAGE_KEYS = ("image_url", "image", "source")
_OBJECT = (dict, Mapping)  # nearly all are dicts, and to tell that costs a tenth
_DATA_URL = 256  # a longer string that begins with `data:` is a file, not text
_ENCODED = 2000


class Call(NamedTuple):
    """One tool call: its id (may be empty), the tool, and the arguments as text, JSON or not."""

    id: str
    name: str
    arguments: str


def role_of(row: Mapping[str, Any]) -> str:
    """Return the role, or an empty string where there is none that could be one."""
    role = row.get("role")
    return role if isinstance(role, str) else ""


def text_of(row: Mapping[str, Any]) -> str:
    """Return the text of a message; parts are joined by line ends, an image reads `[image]`."""
    content = row.get("content")
    return content if isinstance(content, str) else "\n".join(_texts(content))


def own_text(row: Mapping[str, Any]) -> str:
    """Return content and arguments together: all that this row says."""
    calls = calls_of(row)
    return "\n".join([text_of(row), *[f"{call.name} {call.arguments}" for call in calls]]) if calls else text_of(row)


def images_in(content: Any) -> int:
    """Count the images (and other inlined files) in a message's content; text is never one."""
    if isinstance(content, (list, tuple)):
        return sum(images_in(part) for part in content)
    if not isinstance(content, Mapping):
        return 0
    if _is_image(content):
        return 1
    return sum(1 if _is_file(item) else images_in(item) for key, item in content.items() if key != "text")


def calls_of(row: Mapping[str, Any]) -> tuple[Call, ...]:
    """Return the tool calls of an assistant message, the older `function_call` included."""
    if row.get("role") != "assistant":
        return ()
    calls = row.get("tool_calls")
    found = [_call(call) for call in calls if isinstance(call, _OBJECT)] if isinstance(calls, (list, tuple)) else []
    legacy = row.get("function_call")
    if legacy is not None and isinstance(legacy, _OBJECT):
        call = _call({"function": legacy})
        found.append(call._replace(id=f"function:{call.name}"))
    return tuple(found)


def call_ids(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids of `calls_of(row)`, without looking at what is called."""
    if row.get("role") != "assistant":
        return ()
    calls = row.get("tool_calls")
    found: tuple[str, ...] = ()
    if calls and isinstance(calls, (list, tuple)):
        if len(calls) == 1 and isinstance(calls[0], dict):  # nearly all are such
            only = calls[0].get("id")
            found = (only if type(only) is str else _text(only),)
        else:
            found = tuple([_text(call.get("id")) for call in calls if isinstance(call, _OBJECT)])
    legacy = row.get("function_call")
    if legacy is not None and isinstance(legacy, _OBJECT):
        return (*found, f"function:{_call({'function': legacy}).name}")
    return found


def call_id(row: Mapping[str, Any]) -> str | None:
    """Return the id of the call a tool message answers, or None where the row is no result."""
    role = row.get("role")
    if role == "tool":
        answered = row.get("tool_call_id")
        return answered if type(answered) is str else _text(answered)
    return f"function:{_text(row.get('name'))}" if role == "function" else None


def _call(call: Mapping[str, Any]) -> Call:
    function = call.get("function")
    inner = function if isinstance(function, _OBJECT) else call
    arguments = inner.get("arguments", "")
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
    return Call(_text(call.get("id")), _text(inner.get("name")), arguments)


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, (list, tuple)):
        for part in content:
            yield from _texts(part)
    elif isinstance(content, Mapping):
        yield from _part(content)
    elif content is not None:
        yield str(content)


def _part(part: Mapping[str, Any]) -> Iterator[str]:
    text = part.get("text")
    if isinstance(text, str):
        yield text
    elif _is_image(part):
        yield "[image]"
    elif "content" in part:
        yield from _texts(part["content"])
    else:
        yield json.dumps(_without_files(part), ensure_ascii=False)


def _without_files(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_files(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_files(item) for item in value]
    return "[file]" if _is_file(value) else value


def _is_image(part: Mapping[str, Any]) -> bool:
    if part.get("type") in _IMAGE_TYPES:
        return True
    return "text" not in part and any(
        isinstance(part.get(key), Mapping) or _is_file(part.get(key)) for key in _IMAGE_KEYS
    )


def _is_file(value: Any) -> bool:
    """A data URL, or a string so long without a blank that it can only be encoded data."""
    if not isinstance(value, str) or len(value) <= _DATA_URL:
        return False
    return value.startswith("data:") or (len(value) > _ENCODED and " " not in value and "\n" not in value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
