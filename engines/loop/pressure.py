"""How much of the context is used: what a provider's usage report says about the prompt.

Pressure is what the prompt held, cached or not.  What the model wrote, reasoning included, is never part of it: it
was not in the prompt yet.  What a report leaves out is absent, not zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engines.facts import Usage

__all__ = ["read_usage", "same_response"]

MOST = 10**12
"""Tokens; a report of more says nothing."""

# The spellings met in the wild, the host's own first.
_KEYS = {
    "completion": ("completion_tokens", "output_tokens"),
    "total": ("total_tokens",),
    "cache_read": ("cache_read_tokens", "cache_read_input_tokens"),
    "cache_write": ("cache_write_tokens", "cache_creation_input_tokens"),
    "reasoning": ("reasoning_tokens",),
}


def read_usage(sid: str, seq: int, usage: Mapping[str, Any], estimate: int | None = None) -> Usage | None:
    """The reading in a usage report, or None if it says nothing and there is no estimate to stand in."""
    counts = {name: _first(usage, keys) for name, keys in _KEYS.items()}
    prompt = _first(usage, ("prompt_tokens",))
    if prompt is None:
        prompt = _sum(_first(usage, ("input_tokens",)), counts["cache_read"], counts["cache_write"])
    estimated = prompt is None and estimate is not None
    if estimated:
        prompt = estimate
    if prompt is None and all(count is None for count in counts.values()):
        return None
    response = usage.get("response_id")
    side_prompt, side_completion = _beside(usage, prompt, counts["completion"])
    return Usage(
        sid,
        seq,
        prompt=prompt,
        estimated=estimated or usage.get("estimated") is True,
        response_id=response if isinstance(response, str) else None,
        side_prompt=side_prompt,
        side_completion=side_completion,
        **counts,
    )


def same_response(one: Usage | None, other: Usage) -> bool:
    """Whether both are readings of one response, told twice."""
    return one is not None and one.response_id is not None and one.response_id == other.response_id


def _beside(usage: Mapping[str, Any], prompt: int | None, completion: int | None) -> tuple[int | None, int | None]:
    """What the provider's own steps have read and written: all its `iterations` less what the report itself counts."""
    steps = usage.get("iterations")
    if not isinstance(steps, (list, tuple)):
        return None, None
    told = [
        read
        for step in steps
        if isinstance(step, Mapping) and (read := read_usage("", 0, {**step, "iterations": None}))
    ]
    side = (
        sum(one.prompt or 0 for one in told) - (prompt or 0),
        sum(one.completion or 0 for one in told) - (completion or 0),
    )
    return (max(0, side[0]), max(0, side[1])) if told else (None, None)


def _first(usage: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        value = usage.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST:
            return value
    return None


def _sum(fresh: int | None, cache_read: int | None, cache_write: int | None) -> int | None:
    """Cached input is counted beside the fresh input, not within it; once."""
    if fresh is None and cache_read is None and cache_write is None:
        return None
    return (fresh or 0) + (cache_read or 0) + (cache_write or 0)
