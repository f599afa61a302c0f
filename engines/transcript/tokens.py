"""How many tokens a message takes, near enough and the same every time.

The rule: the UTF-8 bytes of what a provider is sent, divided by four and rounded up: text, tool names, arguments and
ids.  A row costs 4 more, a tool call 8 more, and an image `IMAGE_TOKENS`, whatever its size: the data of an image is
never counted as text.  Keys that providers do not know cost nothing.  Parts of a list are summed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..messages import Row
from .rows import calls_of, images_in, text_of

__all__ = ["IMAGE_TOKENS", "at_most", "estimate_row", "estimate_text", "estimate_tokens"]

IMAGE_TOKENS = 1500
_ROW, _CALL = 4, 8
_SENT = ("name", "tool_call_id", "reasoning_content")


def estimate_tokens(messages: Iterable[Mapping[str, Any]]) -> int:
    """Estimate the tokens of a message list; immediate for rows that were estimated before."""
    return sum([estimate_row(row) for row in messages])


def estimate_row(row: Mapping[str, Any]) -> int:
    """Estimate one message; a frozen row remembers the answer."""
    if type(row) is not Row:
        return _estimate(row)
    known: int | None = getattr(row, "memo", None)
    if known is None:
        row.memo = known = _estimate(row)
    return known


def at_most(row: Mapping[str, Any]) -> int:
    """A number that the estimate does not exceed, quickly: of a plain message with its size in characters."""
    content = row.get("content")
    if type(content) is not str or "tool_calls" in row or "function_call" in row:
        return estimate_row(row)
    size = len(content)  # no character has more than four bytes
    for key in _SENT:
        if key in row and isinstance(value := row[key], str):
            size += len(value)
    return _ROW + size


def estimate_text(text: str) -> int:
    """Estimate a text by itself."""
    return -(-_bytes(text) // 4)


def _estimate(row: Mapping[str, Any]) -> int:
    content = row.get("content")
    tokens = _ROW
    if isinstance(content, str):
        size = len(content) if content.isascii() else _bytes(content)
    elif content:
        size = _bytes(text_of(row))
        tokens += images_in(content) * IMAGE_TOKENS
    else:
        size = 0
    for call in calls_of(row) if "tool_calls" in row or "function_call" in row else ():
        size += _bytes(call.id) + _bytes(call.name) + _bytes(call.arguments)
        tokens += _CALL
    for key in _SENT:
        if key in row and isinstance(value := row[key], str):
            size += _bytes(value)
    return tokens - (-size // 4)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
