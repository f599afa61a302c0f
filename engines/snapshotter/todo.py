"""The list of things to do that a host's tool keeps, wherever in the call or its result it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..compressor.wording import one_line

__all__ = ["next_of", "todo_in"]

_TOOLS = ("todo", "plan", "task_list")
_LISTS = ("todos", "plan", "items", "tasks", "steps")
_TEXTS = ("content", "step", "text", "title", "task", "description")
_MOST = 30
_READ = 100_000  # characters


def todo_in(tool: str, args: str, result: str) -> list[dict[str, str]] | None:
    """Return the list after a call, each item with `content` and `status`; None where the call is about no such list."""
    if not any(name in tool.lower() for name in _TOOLS):
        return None
    for text in (result, args):  # a call may change some items only; the result has them all
        found = _listed(_loaded(text))
        if found is not None:
            return found
    return None


def next_of(todo: list[dict[str, str]]) -> str:
    """Return what is being done, or else what comes next; nothing where all is done."""
    for states in (("in_progress", "active", "doing"), ("pending", "todo", "open", "")):
        for item in todo:
            if item["status"].lower() in states:
                return item["content"]
    return ""


def _listed(loaded: Any) -> list[dict[str, str]] | None:
    if isinstance(loaded, Mapping):
        loaded = next((loaded[name] for name in _LISTS if isinstance(loaded.get(name), list)), None)
    if not isinstance(loaded, list):
        return None
    items = [item for item in loaded if isinstance(item, Mapping)]
    found = [{"content": _content(item), "status": str(item.get("status") or "")[:20]} for item in items[:_MOST]]
    return [item for item in found if item["content"]] if found or not loaded else None


def _content(item: Mapping[str, Any]) -> str:
    return next(
        (one_line(item[name], 160) for name in _TEXTS if isinstance(item.get(name), str) and item[name].strip()), ""
    )


def _loaded(text: str) -> Any:
    if len(text) > _READ:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
