"""A snapshot as the text of a file, within a size: the oldest entries go first, and what is too large alone is cut."""

from __future__ import annotations

import json
from typing import Any

from ..compressor.requests import share_out
from ..compressor.wording import bytes_of, clip_bytes
from .plain import CUT
from .snapshot import Snapshot

__all__ = ["LIMIT", "MOST_ENTRIES", "cut_to", "render"]

LIMIT = 10_000
"""Bytes of a file."""

MOST_ENTRIES = 50
"""How many tool calls, and how many findings, are kept."""

_STATE = 6_000  # bytes that the state of the task may take where not everything has room, and lineage the other
_LINEAGE = 1_000
_ALONE = 2_500  # bytes that are left of an entry that has no room alone
_LEAST = 24
_encode = json.JSONEncoder(ensure_ascii=False).encode  # made once: this is called for every entry
_LISTS: tuple[str, ...] = ("tool_calls", "key_findings")


def render(snapshot: Snapshot, limit: int = LIMIT) -> str:
    """Write a snapshot out as readable JSON of at most `limit` bytes (2,000 or more): one entry a line."""
    body = snapshot.as_json()
    for name in _LISTS:
        body[name] = body[name][-MOST_ENTRIES:]
    text = _laid_out(body)
    if bytes_of(text) <= limit:
        return text
    body["task_state"] = cut_to(body["task_state"], min(_STATE, limit * 6 // 10))
    body["lineage"] = cut_to(body["lineage"], min(_LINEAGE, limit // 10))
    room = (
        limit - bytes_of(_laid_out({**body, "tool_calls": [], "key_findings": []})) - 8
    )  # what opens and closes the lists
    _fit(body, max(room, _LEAST * 4))
    return _laid_out(body)


def _fit(body: dict[str, Any], room: int) -> None:
    """Make the two lists fit into so many bytes."""
    costs: dict[str, list[int]] = {name: [_cost(item) for item in body[name]] for name in _LISTS}
    alone = min(room // 4, _ALONE)
    for name in _LISTS:
        for at, cost in enumerate(costs[name]):
            if cost > room:
                body[name][at] = cut_to(body[name][at], alone)
                costs[name][at] = _cost(body[name][at])
    sums: dict[str, int] = {name: sum(costs[name]) for name in _LISTS}
    gone = dict.fromkeys(_LISTS, 0)
    while sum(sums.values()) > room:
        many = [name for name in _LISTS if len(costs[name]) - gone[name] > 1]
        if not many:  # one entry of each, and they are too large together
            for name in _LISTS:
                body[name] = [cut_to(item, room // 2 - 8) for item in body[name][-1:]]
            return
        heavier = max(many, key=sums.__getitem__)
        sums[heavier] -= costs[heavier][gone[heavier]]
        gone[heavier] += 1
    for name in _LISTS:
        body[name] = body[name][gone[name] :]


def cut_to(value: Any, most: int) -> Any:
    """Cut plain JSON so that it takes at most `most` bytes (24 or more): texts at their end, lists at their beginning.

    Whatever was cut says so: a text ends in `[cut]`, a list begins with it, and an object has a key `cut`.
    """
    if _size(value) <= most:
        return value
    made: Any = CUT
    if isinstance(value, str):
        made = _shorter(value, most)
    elif isinstance(value, dict):
        made = _smaller(value, most)
    elif isinstance(value, list):
        made = _newest(value, most)
    return made if _size(made) <= most else CUT


def _shorter(text: str, most: int) -> str:
    room = most - len(CUT) - 3
    while room > 0:
        made = f"{clip_bytes(text, room)} {CUT}".lstrip()
        if _size(made) <= most:
            return made
        room = room * 3 // 4 if room > 8 else room - 1  # what is escaped takes more room than it seems to
    return CUT


def _smaller(value: dict[str, Any], most: int) -> dict[str, Any]:
    room = most - 16
    names = [name for name in value if name != "cut"][: max(room // (2 * _LEAST), 1)]
    keys = {name: cut_to(name, 64) for name in names}
    room -= sum(_size(key) + 4 for key in keys.values())
    sizes = [_size(value[name]) for name in names]
    shares = zip(names, sizes, share_out(sizes, max(room, 0)), strict=True)
    made = {keys[name]: cut_to(value[name], share) for name, size, share in shares if share >= min(size, 8)}
    return {**made, "cut": True}


def _newest(value: list[Any], most: int) -> list[Any]:
    room, kept = most - len(CUT) - 6, list[Any]()
    for item in reversed(value):
        cost = _size(item) + 2
        if cost > room:
            if not kept and room > _LEAST * 2:
                kept.append(cut_to(item, room - 2))
            break
        kept.append(item)
        room -= cost
    return [CUT, *reversed(kept)]


def _laid_out(body: dict[str, Any]) -> str:
    """One field a line, and the items of a field each on a line of their own."""
    lines = [f" {_dumped(name)}: {_opened(value)}" for name, value in body.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _opened(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f"  {_dumped(item)}" for item in value) + "\n ]"
    if isinstance(value, dict) and value:
        return "{\n" + ",\n".join(f"  {_dumped(name)}: {_dumped(item)}" for name, item in value.items()) + "\n }"
    return _dumped(value)


def _cost(item: Any) -> int:
    return _size(item) + 4  # indented, and on a line of its own


def _size(value: Any) -> int:
    return bytes_of(_dumped(value))


def _dumped(value: Any) -> str:
    return _encode(value)
