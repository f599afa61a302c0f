"""Budget and meter of an agent for when no hosted engine is in charge.

The threshold is a share of the window, by the rules of the host's own compressor.  The host may set threshold and share
by hand; there is one of each, so what it sets is what counts.  The meter keeps what the provider said last, and whether
a rough estimate is to be believed against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .fields import FIELDS, SMALLEST, VERDICT

__all__ = ["Own"]

NEARLY_ALL = 0.85  # of a window that the floor would fill
SMALL_WINDOW, SMALL_SHARE = 512_000, 0.75
GROWTH, GROWTH_SHARE = 4096, 0.05  # how much an estimate may grow before it is believed


class Own:
    """Plain values by the host's names for them."""

    def __init__(self, percent: float = 0.5, first: int = 3, last: int = 20, max_tokens: int | None = None) -> None:
        self.values: dict[str, Any] = dict(FIELDS)
        self.values.update(threshold_percent=percent, protect_first_n=first, protect_last_n=last, max_tokens=max_tokens)
        self._percent = percent  # as configured, or as the host has set it since
        self.set_by_host = False
        """The host has set the share by hand: it counts as it is, without any floor, for the next model too."""

    def copy(self) -> Own:
        """The same budget, and nothing of the session."""
        made = Own()
        made.values = dict(self.values)
        made._percent, made.set_by_host = self._percent, self.set_by_host
        made.reset()
        made.values["_session_id"] = ""
        return made

    def write(self, name: str, value: Any) -> None:
        """The host sets a value."""
        self.values[name] = value
        if name == "threshold_percent" and isinstance(value, (int, float)) and 0 < value <= 1:
            self._percent, self.set_by_host = float(value), True

    def update_model(self, told: Mapping[str, Any]) -> None:
        """Another model: the threshold is reckoned anew, and what was read of the old one counts no more."""
        values = self.values
        values.update({name: value for name, value in told.items() if name in FIELDS and value is not None})
        self._reckon()
        self._unread()
        values["_ineffective_compression_count"] = 0

    def retune(self, percent: float, first: int, last: int, max_tokens: int | None) -> None:
        """Other rules for the same model; what was read and counted stays, and so does what the host has lowered."""
        values, by_host, lowered = self.values, self.set_by_host, self.values["threshold_tokens"]
        share = self._percent
        values.update(protect_first_n=first, protect_last_n=last, max_tokens=max_tokens)
        self._percent, self.set_by_host = percent, False
        self._reckon()
        if by_host and lowered < values["threshold_tokens"]:
            self._percent, self.set_by_host = share, True
            values.update(threshold_percent=share, threshold_tokens=lowered)

    def _reckon(self) -> None:
        """The threshold that follows from window, share and reservation."""
        values = self.values
        length = values["context_length"]
        if not isinstance(length, int) or length <= 0:
            return
        share = self._percent
        if not self.set_by_host and length < SMALL_WINDOW:
            share = max(share, SMALL_SHARE)
        values["threshold_percent"] = share
        values["threshold_tokens"] = (
            max(1, int(length * share)) if self.set_by_host else threshold(length, share, values["max_tokens"])
        )

    def reset(self) -> None:
        """A new session."""
        self._unread()
        for name in (
            "compression_count",
            "_ineffective_compression_count",
            "_context_probed",
            "_context_probe_persistable",
        ):
            self.values[name] = FIELDS[name]
        self.verdict()

    def verdict(self, **told: Any) -> None:
        """What the host is to see of a compress call; what is not told is as if all were well."""
        for name in VERDICT:
            self.values[name] = told.get(name, FIELDS[name])

    def read_usage(self, prompt: int | None, completion: int | None, total: int | None) -> None:
        """A response came, with these sizes; what its report leaves out is not zero."""
        values = self.values
        compacted = values["awaiting_real_usage_after_compression"]
        values["awaiting_real_usage_after_compression"] = False
        values["_verify_compaction_cleared_threshold"] = False
        if prompt is None:
            values["last_prompt_tokens"] = max(values["last_prompt_tokens"], 0)  # the host reckons for itself then
            return
        rough = values["last_compression_rough_tokens"]
        if prompt >= values["threshold_tokens"]:
            values["last_rough_tokens_when_real_prompt_fit"] = 0
        elif compacted and rough > 0:
            values["last_rough_tokens_when_real_prompt_fit"] = rough
        values["last_prompt_tokens"] = prompt
        values["last_real_prompt_tokens"] = prompt
        values["last_completion_tokens"] = completion or 0
        values["last_total_tokens"] = total or prompt + (completion or 0)

    def defers(self, rough: int) -> bool:
        """Whether an estimate above the threshold is to wait for a real reading."""
        values = self.values
        limit = values["threshold_tokens"]
        if rough < limit:
            return False
        if values["awaiting_real_usage_after_compression"]:
            return True
        base = values["last_rough_tokens_when_real_prompt_fit"]
        if not 0 < values["last_real_prompt_tokens"] < limit or base <= 0:
            return False
        if rough - base > max(GROWTH, int(limit * GROWTH_SHARE)):
            return False
        values["last_rough_tokens_when_real_prompt_fit"] = max(base, rough)
        return True

    def _unread(self) -> None:
        for name in (
            "last_prompt_tokens",
            "last_completion_tokens",
            "last_total_tokens",
            "last_real_prompt_tokens",
            "last_compression_rough_tokens",
            "last_rough_tokens_when_real_prompt_fit",
            "awaiting_real_usage_after_compression",
            "_verify_compaction_cleared_threshold",
        ):
            self.values[name] = FIELDS[name]


def threshold(length: int, share: float, reserved: int | None) -> int:
    """From which prompt size on to compact: a share of what the output leaves, never the whole window."""
    window = length - (reserved or 0)
    if window <= 0:
        window = length
    wanted = max(int(window * share), SMALLEST)
    return wanted if wanted < window else max(1, min(int(window * NEARLY_ALL), window - 1))
