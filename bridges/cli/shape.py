"""The types that the parts of a message may have.  Keys nobody here knows are left alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["problem_in"]


def problem_in(message: Mapping[str, Any]) -> str | None:
    """The first thing about a message that is not of the type it should be, in words, or None.

    The checks are generators that are read no further than their first problem.
    """
    return next((problem for check in (_content, _calls, _result, _usage) for problem in check(message)), None)


def _content(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, list):
        for at, part in enumerate(content):
            if not isinstance(part, (dict, str)):
                yield f"content[{at}] must be an object or text, not {_named(part)}"
            elif isinstance(part, dict) and not isinstance(part.get("text", ""), (str, type(None))):
                yield f"content[{at}].text must be text, not {_named(part['text'])}"
    elif content is not None and not isinstance(content, (str, dict)):
        yield f"content must be text, a list of parts or null, not {_named(content)}"


def _calls(message: Mapping[str, Any]) -> Iterator[str]:
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        yield f"tool_calls must be a list, not {_named(calls)}"
    for at, call in enumerate(calls or ()):
        yield from _call(call, f"tool_calls[{at}]")
    legacy = message.get("function_call")
    if legacy is not None:
        yield from _function(legacy, "function_call")


def _call(call: Any, path: str) -> Iterator[str]:
    if not isinstance(call, dict):
        yield f"{path} must be an object, not {_named(call)}"
    elif not isinstance(call.get("id"), (str, type(None))):
        yield f"{path}.id must be text, not {_named(call['id'])}"
    else:
        yield from _function(call.get("function", call), f"{path}.function")


def _function(function: Any, path: str) -> Iterator[str]:
    if not isinstance(function, dict):
        yield f"{path} must be an object, not {_named(function)}"
    elif not isinstance(function.get("name"), str):
        name = function.get("name")
        yield f"{path}.name must be text" + ("" if name is None else f", not {_named(name)}")
    elif not isinstance(function.get("arguments"), (str, dict, type(None))):
        yield f"{path}.arguments must be text, not {_named(function['arguments'])}"


def _result(message: Mapping[str, Any]) -> Iterator[str]:
    named = message.get("tool_call_id")
    if named is not None and not isinstance(named, str):
        yield f"tool_call_id must be text, not {_named(named)}"


def _usage(message: Mapping[str, Any]) -> Iterator[str]:
    usage = message.get("usage") if message.get("role") == "assistant" else None
    if usage is not None and not isinstance(usage, dict):
        yield f"usage must be an object, not {_named(usage)}"
    for key, count in (usage or {}).items():
        whole = isinstance(count, int) and not isinstance(count, bool) and count >= 0
        if key.endswith("_tokens") and count is not None and not whole:
            yield f"usage.{key} must be a whole number of tokens, not {_named(count)}"


def _named(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
