"""The state machine of a conversation's skills: `step(ledger, event, policy)`.

It says what stands, which loads bring a text, and which tools have to wait.  It knows no clock, no thread and no
dataspace; whoever has news steps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from . import events as e
from . import loads, seeing, tasks
from .ledger import Ledger, Stepped
from .policy import SkillPolicy

__all__ = ["Stepped", "step"]


def step(ledger: Ledger, event: e.Event, policy: SkillPolicy) -> Stepped:
    """The ledger after an event."""
    handler = _HANDLERS[type(event)]
    return handler(evolve(ledger, events=ledger.events + 1), event, policy)


_HANDLERS: dict[type[e.Event], Callable[[Ledger, Any, SkillPolicy], Stepped]] = {
    e.Loaded: loads.loaded,
    e.CannotLoad: loads.cannot_load,
    e.Seen: seeing.seen,
    e.TakenOver: seeing.taken_over,
    e.Compacted: seeing.compacted,
    e.RequestBegan: tasks.request_began,
    e.RequestEnded: tasks.request_ended,
    e.Declared: tasks.declared,
    e.ToolAsked: tasks.tool_asked,
    e.ToolDone: tasks.tool_done,
}
