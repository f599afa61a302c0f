"""What bears on the question that stands: requests, the owner of the context, engines that come and go, time."""

from __future__ import annotations

from attrs import evolve

from . import events as e
from .offer import answered, commit, pass_over, volunteered
from .question import AUTOMATIC, ask_next, attempt, close, demand, drop_offer, raise_question, retry, weigh, withdraw
from .session import shared_start, take_over
from .state import Conversation, Now, Question

__all__ = [
    "answer_heard",
    "answer_volunteered",
    "asking_unheard",
    "context_opened",
    "context_released",
    "engine_began",
    "engine_busy",
    "engine_ceased",
    "engine_free",
    "offer_committed",
    "requested",
    "time_passed",
]


# -- requests and the owner of the context ----------------------------------------------------------------------------


def requested(s: Conversation, event: e.CompactionRequested, now: Now) -> Conversation:
    """Somebody who waits is always tried for; a request ahead of time minds the guards."""
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


def context_opened(s: Conversation, event: e.ContextOpened, now: Now) -> Conversation:
    """A call takes up the question that stands, or is one of its own; somebody waits, so it is always tried."""
    s, _ = take_over(s, event.messages, now)
    if s.question is not None and s.question.offered:
        drop_offer(s, now)
        s = withdraw(s)
    if s.question is None:
        s = raise_question(s, event.reason, now, tokens=event.tokens, focus=event.focus)
    q = s.question
    assert q is not None
    if _under_way(q, event):
        return s
    focus = q.focus if event.focus is None else event.focus
    q = evolve(q, before=event.messages, context=event.context, focus=focus, insists=True)
    return attempt(evolve(s, question=q), now)


def _under_way(q: Question, event: e.ContextOpened) -> bool:
    """Whether the work that is being done will do for this call too: what is new in it follows the result."""
    if q.work is None or q.before is None:
        return False
    return shared_start(q.before, event.messages) == len(q.before)


def context_released(s: Conversation, _event: e.ContextReleased, now: Now) -> Conversation:
    """The call is over."""
    return close(s, now)


def offer_committed(s: Conversation, _event: e.OfferCommitted, now: Now) -> Conversation:
    """The offer, if there is one, has become the context."""
    return commit(s, now)


# -- engines ----------------------------------------------------------------------------------------------------------


def answer_heard(s: Conversation, event: e.AnswerHeard, now: Now) -> Conversation:
    """Somebody answers, asked or not."""
    return answered(s, event.answer, now)


def answer_volunteered(s: Conversation, event: e.AnswerVolunteered, now: Now) -> Conversation:
    """Somebody answers where nobody is asked."""
    return volunteered(s, event.by, event.messages, now)


def engine_began(s: Conversation, event: e.EngineBegan, now: Now) -> Conversation:
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


def engine_ceased(s: Conversation, event: e.EngineCeased, now: Now) -> Conversation:
    """An engine that is gone answers no more; the next is asked."""
    if event.engine in now.engines.of(event.role):
        return s
    if event.role == "shadow":
        return evolve(s, shadows=tuple(work for work in s.shadows if work.fact.to != event.engine))
    q = s.question
    if q is None or q.work is None or (q.work.fact.to, q.work.fact.role) != (event.engine, event.role):
        return s
    return pass_over(s, "stopped serving", now)


def asking_unheard(s: Conversation, event: e.AskingUnheard, now: Now) -> Conversation:
    """An engine that does not listen is as good as gone."""
    q = s.question
    if q is None or q.work is None or q.work.fact.n != event.n:
        return s
    return pass_over(s, "does not listen", now)


def engine_busy(s: Conversation, event: e.EngineBusy, _now: Now) -> Conversation:
    """A call is running that may outlive the question."""
    return s if event.engine in s.busy else evolve(s, busy=(*s.busy, event.engine))


def engine_free(s: Conversation, event: e.EngineFree, now: Now) -> Conversation:
    """An engine that could not be asked in this round, for it was still at work, is asked now."""
    s = evolve(s, busy=tuple(name for name in s.busy if name != event.engine))
    q = s.question
    if q is None or not q.idle or q.before is None or event.engine in q.tried:
        return s
    return ask_next(evolve(s, failed=None), now) if event.engine in now.engines.compressors else s


# -- time -------------------------------------------------------------------------------------------------------------


def time_passed(s: Conversation, event: e.TimePassed, now: Now) -> Conversation:
    """Deadlines first, then what waited for its time."""
    at = event.at
    if at is None:
        return s
    if any(_over(work.until, at) for work in s.shadows):
        s = evolve(s, shadows=tuple(work for work in s.shadows if not _over(work.until, at)))
    q = s.question
    if q is not None and q.work is not None and _over(q.work.until, at):
        s = pass_over(s, f"did not answer within {q.work.fact.seconds:g} s", now)
    if s.failed is not None and _over(s.failed.retry_at, at):
        s = retry(evolve(s, failed=None), now)
    if s.blocked is not None and _over(s.blocked.until, at):
        s = weigh(evolve(s, blocked=None), now)
    return s


def _over(until: float | None, at: float) -> bool:
    return until is not None and until <= at
