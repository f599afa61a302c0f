"""The loop's state machine: `step(state, event, engines, policy) -> (state, messages)`.

A plain function without clock, I/O or event loop, so that a host can run it on the thread that asks, and an actor in
its turn.  One handler per kind of event; what they decide with lies in the modules beside.  An ended conversation
heeds nothing but a new start and late answers, which are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from engines.facts import Budget, Refused, Transcript
from engines.messages import Messages

from . import events as e
from .guards import charge, grew
from .offer import answered, commit, pass_over, volunteered
from .policy import Engines, Policy
from .pressure import read_usage, same_response
from .question import (
    AUTOMATIC,
    ask_next,
    attempt,
    close,
    demand,
    drop_offer,
    raise_question,
    retry,
    weigh,
    withdraw,
)
from .state import Conversation, Guard, Now, begin

__all__ = ["step"]

Handler = Callable[[Conversation, Any, Now], Conversation]


def step(
    state: Conversation, event: e.Event, engines: Engines, policy: Policy
) -> tuple[Conversation, tuple[Refused, ...]]:
    """The state after `event`, and the messages to send once its facts stand.

    `engines` is who serves this conversation now, after the event.
    """
    now = Now(engines, policy, event.at, [])
    handler = _HANDLERS[type(event)]
    if not state.active and handler not in _AFTER_THE_END:
        return state, ()
    return handler(state, event, now), tuple(now.out)


# -- the session ------------------------------------------------------------------------------------------------------


def _started(s: Conversation, event: e.SessionStarted, now: Now) -> Conversation:
    drop_offer(s, now)
    return begin(event, before=s)


def _rotated(s: Conversation, event: e.SessionRotated, _now: Now) -> Conversation:
    return evolve(s, session=evolve(s.session, host_session=event.host_session))


def _reset(s: Conversation, event: e.SessionReset, now: Now) -> Conversation:
    drop_offer(s, now)
    s = evolve(_without_history(s), usage=None, pressure=None, compressed=None, guard=Guard())
    return _replace(s, event.messages)


def _ended(s: Conversation, _event: e.SessionEnded, now: Now) -> Conversation:
    """What stood of it goes; its numbers stay, so that a new start goes on counting."""
    drop_offer(s, now)
    s = evolve(_without_history(s), usage=None, pressure=None, compressed=None, guard=Guard(), busy=())
    return evolve(
        s, session=evolve(s.session, state="ended"), transcript=Transcript(s.sid, s.transcript.rev, messages=e.EMPTY)
    )


def _without_history(s: Conversation) -> Conversation:
    return evolve(s, question=None, shadows=(), failed=None, blocked=None)


def _budget(s: Conversation, event: e.BudgetChanged, now: Now) -> Conversation:
    """A new model ends what was held against the old one; the pressure is weighed against the new threshold."""
    budget = Budget(s.sid, event.context_length, event.threshold)
    if budget != s.budget:
        s = evolve(s, budget=budget)
    if event.model is not None and event.model != s.session.model:
        guard = evolve(s.guard, grown=True, grown_from=None, futile=0, awaiting=False, failures=0)
        s = evolve(s, session=evolve(s.session, model=event.model), guard=guard, blocked=None, failed=None)
    return weigh(s, now)


# -- what the provider and the host say -------------------------------------------------------------------------------


def _usage(s: Conversation, event: e.UsageRead, now: Now) -> Conversation:
    usage = read_usage(s.sid, s.seqs + 1, event.usage, event.estimate)
    if usage is None:
        return evolve(s, guard=evolve(s.guard, awaiting=False)) if s.guard.awaiting else s
    if same_response(s.usage, usage):
        usage = evolve(usage, seq=s.seqs)
    if usage.prompt is None:
        guard = evolve(s.guard, awaiting=False) if s.guard.awaiting else s.guard
        return evolve(s, usage=usage, seqs=usage.seq, guard=guard)
    guard = charge(s, usage.prompt, real=not usage.estimated)
    return weigh(evolve(s, usage=usage, seqs=usage.seq, pressure=usage.prompt, guard=guard), now)


def _pressure(s: Conversation, event: e.PressureGiven, now: Now) -> Conversation:
    return weigh(evolve(s, pressure=event.tokens, guard=charge(s, event.tokens, real=False)), now)


def _appended(s: Conversation, event: e.MessagesAppended, now: Now) -> Conversation:
    if not len(event.messages):
        return s
    guard = grew(s.guard, event.messages, now.policy)
    return evolve(_replace(s, s.messages + event.messages), guard=guard)


def _replaced(s: Conversation, event: e.TranscriptReplaced, now: Now) -> Conversation:
    """Who works on messages that are no longer there, works in vain."""
    old = s.messages
    same = _shared_start(old, event.messages)
    if same == len(old) == len(event.messages):
        return s
    guard = grew(s.guard, event.messages[same:], now.policy)
    s = evolve(_replace(s, event.messages), guard=guard)
    q = s.question
    if q is None or q.before is None or same >= len(q.before):
        return s
    if now.policy.owned:
        return s if q.idle else attempt(evolve(s, question=evolve(q, work=None)), now)
    return close(s, now)


def _replace(s: Conversation, messages: Messages) -> Conversation:
    return evolve(s, transcript=Transcript(s.sid, s.transcript.rev + 1, messages=messages))


def _shared_start(one: Messages, other: Messages) -> int:
    """How many messages both begin with."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine is not theirs and mine != theirs:
            break
        count += 1
    return count


# -- compaction -------------------------------------------------------------------------------------------------------


def _requested(s: Conversation, event: e.CompactionRequested, now: Now) -> Conversation:
    q = s.question
    insists = event.reason not in AUTOMATIC
    if q is None and not insists:
        return demand(s, event.reason, now, tokens=event.tokens, focus=event.focus)
    if q is None:
        return attempt(raise_question(s, event.reason, now, tokens=event.tokens, focus=event.focus), now)
    if not q.idle:
        return s
    focus = q.focus if event.focus is None else event.focus
    s = evolve(s, question=evolve(q, insists=q.insists or insists, focus=focus))
    return attempt(s, now) if insists else retry(s, now)


def _opened(s: Conversation, event: e.ContextOpened, now: Now) -> Conversation:
    """A call takes up the question that stands, or is one of its own; somebody waits, so it is always tried."""
    same = _shared_start(s.messages, event.messages)
    if not same == len(s.messages) == len(event.messages):
        guard = grew(s.guard, event.messages[same:], now.policy)
        s = evolve(_replace(s, event.messages), guard=guard)
    q = s.question
    if q is not None and q.offered:
        drop_offer(s, now)
        s, q = withdraw(s), None
    if q is None:
        s = raise_question(s, event.reason, now, tokens=event.tokens, focus=event.focus)
    elif q.work is not None and q.before is not None and _shared_start(q.before, event.messages) == len(q.before):
        return s  # the work under way will do: what is new in this call follows it
    q = s.question
    assert q is not None
    focus = q.focus if event.focus is None else event.focus
    q = evolve(q, before=event.messages, context=event.context, focus=focus, insists=True, work=None)
    return attempt(evolve(s, question=q), now)


def _released(s: Conversation, _event: e.ContextReleased, now: Now) -> Conversation:
    return close(s, now)


def _committed(s: Conversation, _event: e.OfferCommitted, now: Now) -> Conversation:
    return commit(s, now)


# -- engines ----------------------------------------------------------------------------------------------------------


def _answer(s: Conversation, event: e.AnswerHeard, now: Now) -> Conversation:
    return answered(s, event.answer, now)


def _volunteer(s: Conversation, event: e.AnswerVolunteered, now: Now) -> Conversation:
    return volunteered(s, event.by, event.messages, now)


def _began(s: Conversation, event: e.EngineBegan, now: Now) -> Conversation:
    """A compressor that begins to serve has not failed yet: what stands is asked at once."""
    if event.role != "compressor":
        return s
    if s.failed is not None or s.guard.failures:
        s = evolve(s, failed=None, guard=evolve(s.guard, failures=0))
    q = s.question
    if q is None:
        return s
    tried = tuple(name for name in q.tried if name != event.engine)
    guard = evolve(s.guard, grown=True, grown_from=None)
    return retry(evolve(s, question=evolve(q, tried=tried), guard=guard), now)


def _ceased(s: Conversation, event: e.EngineCeased, now: Now) -> Conversation:
    if event.engine in now.engines.of(event.role):
        return s
    shadows = tuple(work for work in s.shadows if work.fact.to != event.engine or event.role != "shadow")
    if len(shadows) < len(s.shadows):
        s = evolve(s, shadows=shadows)
    q = s.question
    if q is None or q.work is None or (q.work.fact.to, q.work.fact.role) != (event.engine, event.role):
        return s
    return pass_over(s, "stopped serving", now)


def _busy(s: Conversation, event: e.EngineBusy, _now: Now) -> Conversation:
    return s if event.engine in s.busy else evolve(s, busy=(*s.busy, event.engine))


def _free(s: Conversation, event: e.EngineFree, now: Now) -> Conversation:
    """An engine that could not be asked in this round, for it was still at work, is asked now."""
    s = evolve(s, busy=tuple(name for name in s.busy if name != event.engine))
    q = s.question
    if q is None or not q.idle or q.before is None or event.engine in q.tried:
        return s
    return ask_next(evolve(s, failed=None), now) if event.engine in now.engines.compressors else s


# -- time -------------------------------------------------------------------------------------------------------------


def _time(s: Conversation, _event: e.TimePassed, now: Now) -> Conversation:
    at = now.at
    if at is None:
        return s
    shadows = tuple(work for work in s.shadows if not _over(work.until, at))
    if len(shadows) < len(s.shadows):
        s = evolve(s, shadows=shadows)
    q = s.question
    if q is not None and q.work is not None and _over(q.work.until, at):
        limit = now.policy.patience(q.work.fact.to, q.work.fact.role)
        s = pass_over(s, f"did not answer within {limit:g} s", now)
    if s.failed is not None and _over(s.failed.retry_at, at):
        s = retry(evolve(s, failed=None), now)
    if s.blocked is not None and _over(s.blocked.until, at):
        s = weigh(evolve(s, blocked=None), now)
    return s


def _over(until: float | None, at: float) -> bool:
    return until is not None and until <= at


_HANDLERS: dict[type[e.Event], Handler] = {
    e.SessionStarted: _started,
    e.SessionRotated: _rotated,
    e.SessionReset: _reset,
    e.SessionEnded: _ended,
    e.BudgetChanged: _budget,
    e.UsageRead: _usage,
    e.PressureGiven: _pressure,
    e.MessagesAppended: _appended,
    e.TranscriptReplaced: _replaced,
    e.CompactionRequested: _requested,
    e.ContextOpened: _opened,
    e.ContextReleased: _released,
    e.OfferCommitted: _committed,
    e.AnswerHeard: _answer,
    e.AnswerVolunteered: _volunteer,
    e.EngineBegan: _began,
    e.EngineCeased: _ceased,
    e.EngineBusy: _busy,
    e.EngineFree: _free,
    e.TimePassed: _time,
}

_AFTER_THE_END = frozenset({_started, _answer, _volunteer, _busy, _free})
