"""How much of the context is used: what a provider's usage report says about the prompt.

Pressure is what the prompt held, cached or not.  What the model wrote, reasoning included, is never part of it: it
was not in the prompt yet.  What a report leaves out is absent, not zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engines.facts import Usage

__all__ = ["read_usage", "same_response", "sizes"]

MOST = 10**12
"""Tokens; a report of more says nothing."""

# The spellings met in the wild, the host's own first: what was completed, in all, read from the cache, written to it, and reasoning.
_COUNTS = (
    ("completion_tokens", "output_tokens"),
    ("total_tokens",),
    ("cache_read_tokens", "cache_read_input_tokens"),
    ("cache_write_tokens", "cache_creation_input_tokens"),
    ("reasoning_tokens",),
)


def read_usage(sid: str, seq: int, usage: Mapping[str, Any], estimate: int | None = None) -> Usage | None:
    """The reading in a usage report, or None if it says nothing and there is no estimate to stand in."""
    prompt = _count(usage.get("prompt_tokens"))
    counts = [_first(usage, keys) for keys in _COUNTS]
    completion, total, cache_read, cache_write, reasoning = counts
    if prompt is None:
        prompt = _sum(_count(usage.get("input_tokens")), cache_read, cache_write)
    estimated = prompt is None and estimate is not None
    if estimated:
        prompt = estimate
    if prompt is None and all(count is None for count in counts):
        return None
    response = usage.get("response_id")
    steps = usage.get("iterations")
    beside = (None, None) if steps is None else _beside(steps, prompt, completion)
    return Usage(
        sid,
        seq,
        prompt=prompt,
        completion=completion,
        total=total,
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=reasoning,
        side_prompt=beside[0],
        side_completion=beside[1],
        estimated=estimated or usage.get("estimated") is True,
        response_id=response if isinstance(response, str) else None,
    )


def sizes(usage: Mapping[str, Any]) -> tuple[int | None, int | None, int | None]:
    """What the reading in a report says of prompt, completion and total; None: nothing."""
    prompt = usage.get("prompt_tokens")
    if (
        type(prompt) is int and 0 <= prompt <= MOST
    ):  # nearly always, and then the rest of the report is nobody's business
        return prompt, _first(usage, _COUNTS[0]), _first(usage, _COUNTS[1])
    reading = read_usage("", 0, usage)
    return (None, None, None) if reading is None else (reading.prompt, reading.completion, reading.total)


def same_response(one: Usage | None, other: Usage) -> bool:
    """Whether both are readings of one response, told twice."""
    return one is not None and one.response_id is not None and one.response_id == other.response_id


def _beside(steps: Any, prompt: int | None, completion: int | None) -> tuple[int | None, int | None]:
    """What the provider's own steps have read and written: all its `iterations` less what the report itself counts."""
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
        if value is not None and (count := _count(value)) is not None:
            return count
    return None


def _count(value: Any) -> int | None:
    """A number of tokens, if it is one."""
    number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST
    return value if number else None


def _sum(fresh: int | None, cache_read: int | None, cache_write: int | None) -> int | None:
    """Cached input is counted beside the fresh input, not within it; once."""
    if fresh is None and cache_read is None and cache_write is None:
        return None
    return (fresh or 0) + (cache_read or 0) + (cache_write or 0)
