"""A provider that cuts off what it is sent reports the same prompt size however long the conversation grows.

The threshold is then never crossed, and nobody says why.  This notices: readings that stay where they are while the
estimates beside them grow.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Plateau"]

READINGS = 3
"""So many readings in a row make a plateau."""
WIDTH = 0.01  # the most that readings of one plateau differ by, as a share
APART = 2.0  # how many times a reading the first estimate beside it may be: estimates are rough
GROWTH = 1.3  # how much the estimate has to have grown since its first reading


class Plateau(NamedTuple):
    """What has been seen of it so far; `noticed` once it is one."""

    level: int = 0
    readings: int = 0
    first: int = 0
    noticed: bool = False

    @property
    def cut_off(self) -> bool:
        """Whether the reading may well be all that the provider takes: it began at about what the prompt then held.

        One that reports a fixed number, or only what is new in a prompt, is far from any estimate.
        """
        return self.noticed and self.first <= self.level * APART

    def read(self, prompt: int, estimate: int) -> Plateau:
        """The provider says how large the prompt was, after somebody had estimated it (0: nobody has)."""
        if prompt <= 0:
            return self
        if abs(prompt - self.level) > self.level * WIDTH:
            return Plateau(prompt, 1, estimate)
        first = self.first or estimate
        readings = self.readings + 1
        return Plateau(
            max(prompt, self.level), readings, first, readings >= READINGS and estimate >= first * GROWTH > 0
        )
