"""What adds up over a session, for one profile."""

from __future__ import annotations

from typing import Any

from attrs import define, field, fields

from engines.facts import Session, Usage

__all__ = ["Sums", "Tally"]


@define
class Sums:
    """What is counted, the more telling first, for an entry has room for so much.  `prompt` holds cached input too; `side_*` are the provider's own steps beside the answer.

    Times are seconds: `waited` for compactions, done or failed, `tool_lost` in tool calls that failed.
    """

    turns: int = 0
    responses: int = 0
    prompt: int = 0
    completion: int = 0
    peak: int = 0
    compactions: int = 0
    saved: int = 0
    waited: float = 0.0
    tools: int = 0
    tool_failures: int = 0
    tool_lost: float = 0.0
    failures: int = 0
    refused: int = 0
    skills_loaded: int = 0
    deduplicated: int = 0
    pruned: int = 0
    cache_read: int = 0
    cache_write: int = 0
    side_prompt: int = 0
    side_completion: int = 0
    delegated: int = 0
    reloaded: int = 0
    reasoning: int = 0

    def told(self) -> dict[str, int | float]:
        """What is not 0, by name."""
        values = {name: getattr(self, name) for name in NAMES}
        return {name: round(value, 3) for name, value in values.items() if value}

    def add(self, more: Sums) -> None:
        """Count what another has counted, too; a peak is the higher one."""
        peak = max(self.peak, more.peak)
        for name in NAMES:
            setattr(self, name, getattr(self, name) + getattr(more, name))
        self.peak = peak

    def read(self, usage: Usage) -> None:
        """Count one response; an estimate is nothing that a provider has counted."""
        self.peak = max(self.peak, usage.prompt or 0)
        if usage.estimated:
            return
        self.responses += 1
        self.prompt += usage.prompt or 0
        self.completion += usage.completion or 0
        self.cache_read += usage.cache_read or 0
        self.cache_write += usage.cache_write or 0
        self.reasoning += usage.reasoning or 0
        self.side_prompt += usage.side_prompt or 0
        self.side_completion += usage.side_completion or 0


NAMES = tuple(attribute.name for attribute in fields(Sums))


@define
class Tally:
    """One session: whose it is and where its entries go, settled at its start, and its sums."""

    session: Session
    profile: str
    route: Any
    began: float
    sums: Sums = field(factory=Sums)
    context_length: int = 0
    threshold: int = 0
    seq: int = 0
    wanted: dict[int, float] = field(factory=dict)
    """Since when a compaction is wanted, by question; of the latest questions."""
    asked: dict[int, float] = field(factory=dict)
    """When somebody was first asked."""
