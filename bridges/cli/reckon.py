"""The pressure of a replayed session.

A recording knows nothing of our compactions: what its provider reported is about the recorded list.  So the estimate
for the live list is scaled by what the provider said over the estimate for the recorded list, up to the same line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from engines.loop.pressure import read_usage

__all__ = ["DEFAULT_CONTEXT", "Scale", "budget", "reckon"]

DEFAULT_CONTEXT = 128_000
"""Tokens a model is taken to hold when nothing is said about it."""

_DEFAULT_SHARE = 75  # of the context length, in per cent


@frozen
class Scale:
    """The provider's tokens over estimated tokens, as two whole numbers: `told` for `estimated`."""

    told: int = 1
    estimated: int = 1

    def of(self, estimate: int) -> int:
        """An estimate on the provider's scale, rounded to whole tokens."""
        return (2 * estimate * self.told + self.estimated) // (2 * self.estimated)


def reckon(usage: Mapping[str, Any] | None, recorded: int, live: int) -> tuple[Mapping[str, Any], Scale]:
    """What the provider would have reported for the live list, and the scale it follows from.

    `recorded` and `live` are the estimates for both lists before the response.  Without a prompt count in `usage`
    (none at all, or a nought, which no prompt has) the scale is 1.
    """
    usage = usage or {}
    reading = read_usage("", 1, usage)
    prompt = reading.prompt if reading is not None else None
    if not prompt:
        return {**usage, "prompt_tokens": live, "estimated": True}, Scale()
    if not recorded:
        return usage, Scale()  # the first line: there is no list to compare
    scale = Scale(prompt, recorded)
    return {**usage, "prompt_tokens": scale.of(live)}, scale


def budget(context_length: int | None, threshold: int | None) -> tuple[int, int]:
    """Context length and threshold in tokens, with what was left out filled in; the caller checks that they fit."""
    if threshold is None:
        context_length = context_length or DEFAULT_CONTEXT
        return context_length, max(1, context_length * _DEFAULT_SHARE // 100)
    return context_length or max(DEFAULT_CONTEXT, threshold), threshold
