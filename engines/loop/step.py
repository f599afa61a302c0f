"""The loop's state machine: `step(state, event, engines, policy) -> (state, messages)`.

A plain function without clock, I/O or event loop, so that a host can run it on the thread that asks, and an actor in
its turn.  This is the table: one handler for each kind of event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engines.facts import Refused

from . import calls, session
from . import events as e
from .policy import Engines, Policy
from .state import Conversation, Now

__all__ = ["step"]

_HANDLERS: dict[type[e.Event], Callable[[Conversation, Any, Now], Conversation]] = {
    e.SessionStarted: session.started,
    e.SessionDescribed: session.described,
    e.SessionRotated: session.rotated,
    e.SessionReset: session.reset,
    e.SessionEnded: session.ended,
    e.BudgetChanged: session.budget_changed,
    e.UsageRead: session.usage_read,
    e.PressureGiven: session.pressure_given,
    e.MessagesAppended: session.appended,
    e.TranscriptReplaced: session.replaced,
    e.CompactionRequested: calls.requested,
    e.ContextOpened: calls.context_opened,
    e.ContextReleased: calls.context_released,
    e.OfferCommitted: calls.offer_committed,
    e.AnswerHeard: calls.answer_heard,
    e.AnswerVolunteered: calls.answer_volunteered,
    e.EngineBegan: calls.engine_began,
    e.EngineCeased: calls.engine_ceased,
    e.AskingUnheard: calls.asking_unheard,
    e.EngineBusy: calls.engine_busy,
    e.EngineFree: calls.engine_free,
    e.TimePassed: calls.time_passed,
}

_AFTER_THE_END = frozenset({e.SessionStarted, e.AnswerHeard, e.AnswerVolunteered, e.EngineBusy, e.EngineFree})


def step(
    state: Conversation, event: e.Event, engines: Engines, policy: Policy
) -> tuple[Conversation, tuple[Refused, ...]]:
    """The state after `event`, and the messages to send once its facts stand.

    `engines` is who serves this conversation now, after the event.  A conversation that has ended heeds nothing but a
    new start, and answers, which it refuses.
    """
    kind = type(event)
    if state.session.state != "active" and kind not in _AFTER_THE_END:
        return state, ()
    now = Now(engines, policy, event.at, [])
    return _HANDLERS[kind](state, event, now), tuple(now.out)
