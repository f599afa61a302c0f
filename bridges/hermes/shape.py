"""Rows that the host itself cannot read.

The host walks through the calls of every message before each request, and a provider refuses a whole request for one
content of a kind it does not know.  So a row that is none of a chat's ends this turn and every later one.  Such a row
cannot be left out either: it may be the summary of all that is gone.  Results whose call nobody can tell are no such
rows: they are orphans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engines.messages import Row

__all__ = ["misshapen", "unreadable"]


def unreadable(put: Sequence[Row], gone: Sequence[Row]) -> str:
    """What is wrong with the shape of rows that were put in; empty where nothing is.

    What was wrong with a row in `gone` already is not charged to whoever has changed that row: the host lives with it.
    """
    odd = [row for row in put if type(row.get("content")) is not str or "tool_calls" in row]  # most are plain texts
    wrong = [why for row in odd if (why := misshapen(row))]
    if not wrong:
        return ""
    known = set(map(misshapen, gone))
    return next((why for why in wrong if why not in known), "")


def misshapen(row: Row) -> str:
    """What is wrong with the shape of a row, whatever its role; empty where nothing is."""
    content, calls = row.get("content"), row.get("tool_calls")
    if calls is not None and not (isinstance(calls, tuple) and all(map(_is_call, calls))):
        return "there is something in the tool calls of a message that is no call"
    if not (type(content) is str or content is None or (isinstance(content, tuple) and all(map(_is_part, content)))):
        return "the content of a message is neither text nor a list of parts"
    return ""


def _is_call(call: Any) -> bool:
    """An id and a function with a name; arguments that are missing or none are mended by the host."""
    if not isinstance(call, dict):
        return False
    ids = [given for name in ("id", "call_id") if (given := call.get(name)) is not None]
    function = call.get("function")
    named = isinstance(function, dict) and isinstance(function.get("name"), str)
    return named and bool(ids) and all(isinstance(given, str) for given in ids)


def _is_part(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("type"), str))
