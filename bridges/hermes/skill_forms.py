"""What a provider is sent, in whatever form it takes it, read as the rows of a chat, and results put back into that form.

The host keeps every conversation as a chat and makes another form of it for each request: blocks in messages (Anthropic's,
and Bedrock's with names of its own), or a flat list of items (the Responses API).  Whoever looks a request over is shown
that form.  Only what `skill_view` needs is read, and only the text of a tool's result is ever changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from engines.skills import collapsed

__all__ = ["collapsed_request"]

_PREFIX = "mcp__"  # before every tool's name where the host logs in as an application of the provider's


class _Place(NamedTuple):
    """Where a row comes from: an item of the request, and a block of it (None: the item itself)."""

    item: int
    block: int | None


def collapsed_request(request: Mapping[str, Any]) -> dict[str, Any] | None:
    """The request with each text of a skill once, all else as it is; None where there is nothing to change."""
    name = "messages" if isinstance(request.get("messages"), list) else "input"
    items = request.get(name)
    if not isinstance(items, list):
        return None
    if name == "messages" and any(isinstance(item, Mapping) and item.get("role") == "tool" for item in items):
        made = collapsed(items)
        return None if made is None else {**request, name: made}
    rows, places = _read(items)
    changed = collapsed(rows)
    if changed is None:
        return None
    made = list(items)
    for before, after, place in zip(rows, changed, places, strict=True):
        if after is not before:
            made[place.item] = _put(made[place.item], place.block, after["content"])
    return {**request, name: made}


def _read(items: Sequence[Any]) -> tuple[list[dict[str, Any]], list[_Place]]:
    """All that can speak of skills, as rows of a chat, and where each comes from."""
    rows: list[dict[str, Any]] = []
    places: list[_Place] = []
    for at, item in enumerate(items):
        for block, row in _rows(item) if isinstance(item, Mapping) else ():
            last = rows[-1] if rows else {}
            if row["role"] == "assistant" == last.get("role"):  # calls made together stand in items of their own
                last["tool_calls"] += row["tool_calls"]
                last["content"] += row["content"]
                continue
            rows.append(row)
            places.append(_Place(at, block))
    return rows, places


def _rows(item: Mapping[str, Any]) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """The rows of one item; what a user says in one item is one row, behind the results in it."""
    told = _row(item)
    if told is not None:
        yield None, told
        return
    role, content = item.get("role"), item.get("content")
    if role not in {"user", "assistant"}:
        return
    if isinstance(content, str):
        yield None, _said(role, content)
        return
    said: list[str] = []
    for at, block in enumerate(content if isinstance(content, list) else ()):
        row = _row(block) if isinstance(block, Mapping) else None
        if row is not None:
            yield at, row
        elif isinstance(block, Mapping) and isinstance(block.get("text"), str):
            said.append(block["text"])
    if said:
        yield None, _said(role, "\n".join(said))


def _said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text, **({"tool_calls": []} if role == "assistant" else {})}


def _row(part: Mapping[str, Any]) -> dict[str, Any] | None:
    """A call or a result, in any of the forms; None: it is neither."""
    kind = part.get("type")
    if kind == "function_call":
        return _call(part.get("call_id"), part.get("name"), part.get("arguments"))
    if kind == "function_call_output":
        return _result(part.get("call_id"), part.get("output"))
    if kind == "tool_use":
        return _call(part.get("id"), part.get("name"), part.get("input"))
    if kind == "tool_result":
        return _result(part.get("tool_use_id"), part.get("content"))
    if isinstance(call := part.get("toolUse"), Mapping):
        return _call(call.get("toolUseId"), call.get("name"), call.get("input"))
    if isinstance(result := part.get("toolResult"), Mapping):
        return _result(result.get("toolUseId"), result.get("content"))
    return None


def _call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    told = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    function = {"name": str(name).removeprefix(_PREFIX), "arguments": told}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def _result(call_id: Any, content: Any) -> dict[str, Any]:
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    whole = all(isinstance(text, str) for text in texts)
    return {"role": "tool", "tool_call_id": call_id, "content": "\n".join(map(str, texts)) if whole else ""}


def _put(item: Any, block: int | None, text: str) -> Any:
    """The item with this text for the result in it, or in one of its blocks."""
    if block is not None:
        content = list(item["content"])
        content[block] = _put(content[block], None, text)
        return {**item, "content": content}
    if "toolResult" in item:
        return {**item, "toolResult": {**item["toolResult"], "content": [{"text": text}]}}
    name = "output" if "output" in item else "content"
    told = item[name]
    return {**item, name: [{**told[0], "text": text}] if isinstance(told, list) and isinstance(told[0], dict) else text}
