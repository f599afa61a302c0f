"""The three states of anything that has a lifetime."""

from __future__ import annotations

import enum

__all__ = ["State"]


class State(enum.Enum):
    """Whether a facet acts and hears, and whether a handle still stands for something."""

    ALIVE = "alive"
    STOPPING = "stopping"
    """A handle: its retraction is part of the open turn.  A facet: its stop actions run; what it publishes is unseen."""
    STOPPED = "stopped"
