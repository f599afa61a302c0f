"""Summaries in the host's words.

The host, its store and its own compressor tell a summary by how it begins and ends.  Ours stands between the two, so
that all of them know it for what it is; for our compressor it is taken out again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from attrs import evolve, frozen

from dataspace import Facet
from engines.compressor import Limits, finish, plan_compaction
from engines.engine import serve
from engines.facts import Asked
from engines.messages import Messages
from engines.transcript import SUMMARY_KEY, calls_of, is_summary, role_of, split_summary, text_of

from .host import compression

__all__ = ["Wording", "compressor", "host_wording"]

SECONDS = 10.0
"""Plenty for a compaction without a model."""


@frozen
class Wording:
    """How the host begins and ends a summary, and what it puts around one that it merges into another message."""

    prefix: str = "[CONTEXT COMPACTION — REFERENCE ONLY]"
    end: str = "--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---"
    prior: str = "[PRIOR CONTEXT — for reference only; not a new message]"
    delimiter: str = "[END OF PRIOR CONTEXT — COMPACTION SUMMARY BELOW]"
    request: str = "You are a summarization agent creating a context checkpoint."
    """How the host begins when it asks for a summary."""

    def dressed(self, messages: Messages) -> Messages:
        """The same list with our summaries in the host's words."""
        return self._each(messages, lambda text: f"{self.prefix}\n{text}\n\n{self.end}", is_summary)

    def undressed(self, messages: Messages) -> Messages:
        """The same list with our summaries by themselves."""
        return self._each(messages, lambda text: split_summary(text)[1], self._is_dressed)

    def merged_summary(self, text: str) -> str:
        """The summary in a message it was merged into, with its end; empty where there is none."""
        _before, found, after = text.rpartition(self.delimiter)  # there may be an earlier one in it
        return after.strip() if found else ""

    def body(self, text: str) -> str:
        """What a summary says, without how the host begins and ends it."""
        text = (self.merged_summary(text) or text).strip()
        text = text.removeprefix(self.prefix).removesuffix(self.end)
        lines = text.strip().splitlines()
        if lines and lines[0].startswith("[CONTEXT COMPACTION"):  # an earlier wording of the host
            lines = lines[1:]
        return "\n".join(lines).strip()

    def _is_dressed(self, row: Any) -> bool:
        if role_of(row) not in {"user", "assistant"} or calls_of(row):
            return False  # whatever a tool returns, it is no summary of ours
        before, summary, after = split_summary(text_of(row))
        return bool(summary) and before.strip() == self.prefix and after.strip() == self.end

    def _each(self, messages: Messages, change: Callable[[str], str], chosen: Callable[[Any], bool]) -> Messages:
        if not any(map(chosen, messages)):
            return messages
        return Messages.of(
            [
                {**row, "content": change(text_of(row)), SUMMARY_KEY: row.get(SUMMARY_KEY) or True}
                if chosen(row)
                else row
                for row in messages
            ]
        )


@cache
def host_wording() -> Wording:
    """The wording of the host that is installed."""
    try:
        host = compression()
        return Wording(
            prefix=host.SUMMARY_PREFIX,
            end=host._SUMMARY_END_MARKER,
            prior=host._MERGED_PRIOR_CONTEXT_HEADER,
            delimiter=host._MERGED_SUMMARY_DELIMITER,
        )
    except (ImportError, AttributeError):
        return Wording()


def compressor(sid: str, wording: Wording) -> Callable[[Facet], None]:
    """The boot function of our compressor for one conversation of the host."""
    given = Limits(threshold=100_000)

    def work(_me: Facet, asked: Asked) -> Messages | None:
        limits = evolve(given, threshold=asked.threshold) if asked.threshold > 0 else given
        plan = plan_compaction(
            wording.undressed(asked.messages), limits, focus=asked.focus, tokens=asked.tokens or None
        )
        done = None if plan is None else finish(plan)
        return None if done is None else wording.dressed(done)

    def boot(me: Facet) -> None:
        serve(me, work, sid=sid, seconds=SECONDS)

    return boot
