"""What an entry is about, and how much it matters.

One table: the importance of each kind (0 to 10: is it worth remembering?) and its pain (0 to 10: did it hurt?), as the
portable brain's own tools weigh them.  A log writes nothing whose importance is below its `least`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from attrs import frozen

__all__ = ["BRAIN_LEAST", "KINDS", "LOCAL_LEAST", "Kind"]

LOCAL_LEAST = 1.0
"""The threshold of a local log: all is written, single readings of usage too."""

BRAIN_LEAST = 3.0
"""The threshold of a portable brain's log: readings of usage and plain loads of skills are noise to it."""


@frozen
class Kind:
    """How entries of a kind are weighed, and what became of what they tell of."""

    importance: float
    pain: float
    result: Literal["success", "failure"] = "success"


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "usage": Kind(1, 0),  # one response, and how full the context is
        "skill-loaded": Kind(2, 1),  # also: deduplicated, updated
        "tool": Kind(3, 2),
        "session": Kind(4, 2),  # the rollup at the real end
        "delegated": Kind(4, 2),
        "blocked": Kind(4, 4, "failure"),  # automatic compaction is held back
        "skill-pruned": Kind(5, 4),
        "skill-reloaded": Kind(5, 4),
        "malformed": Kind(5, 7, "failure"),
        "compaction": Kind(6, 3),
        "refused": Kind(6, 5, "failure"),
        "skill-too-large": Kind(6, 5, "failure"),
        "tool-failed": Kind(6, 7, "failure"),
        "note": Kind(7, 2),  # said outright to be remembered
        "snapshot-failed": Kind(7, 7, "failure"),
        "compaction-failed": Kind(8, 8, "failure"),
        "loop-invalid": Kind(8, 8, "failure"),
        "dropped": Kind(8, 7, "failure"),  # entries that were lost, and how many
        "crash": Kind(9, 9, "failure"),
        "gave-up": Kind(9, 10, "failure"),
    }
)
"""Importance, pain and outcome by kind."""
