"""One question: when it is raised and let go, and which engine is asked next.

Its number `ask` and every `n` are new, always.  A question is asked of one compressor at a time, each once a round; a
round that nobody could answer is a failure, and another round comes later under the same number.
"""

from __future__ import annotations

from attrs import evolve

from engines.facts import Asked, Blocked, CompactionFailed, Reason, Refused, Role, ShouldCompress
from engines.messages import Messages

from .guards import backing_off, held_back, tried
from .state import Conversation, Now, Question, Work

__all__ = [
    "ask_next",
    "attempt",
    "close",
    "demand",
    "drop_offer",
    "give_up",
    "put",
    "raise_question",
    "retry",
    "weigh",
    "withdraw",
]

AUTOMATIC = frozenset({"threshold", "ahead"})
"""Reasons for which nobody waits: falling pressure withdraws the question."""


def weigh(s: Conversation, now: Now) -> Conversation:
    """Raise, withdraw or retry the question, by the pressure."""
    pressure, q = s.pressure, s.question
    if pressure is None:
        return s
    low = pressure < s.budget.threshold * now.policy.low_mark
    if low and q is not None and q.fact.reason in AUTOMATIC and not q.insists and not q.offered:
        s, q = withdraw(s), None
    if q is not None:
        return retry(s, now)
    if pressure >= s.budget.threshold:
        return demand(s, "threshold", now)
    if low and s.failed is not None and s.failed.retry_at is None:
        s = evolve(s, failed=None)
    return _unblock(s)


def demand(
    s: Conversation, reason: Reason, now: Now, *, tokens: int | None = None, focus: str | None = None
) -> Conversation:
    """Raise the question without being told to, unless the guards hold it back."""
    held = held_back(s, now)
    if held is not None:
        return _block(s, held)
    s = raise_question(s, reason, now, tokens=tokens, focus=focus)
    return s if backing_off(s, now) else attempt(s, now)


def raise_question(
    s: Conversation, reason: Reason, now: Now, *, tokens: int | None = None, focus: str | None = None
) -> Conversation:
    """The state with a new question."""
    ask = s.asks + 1
    reckoned = tokens if tokens is not None else s.pressure
    if reckoned is None:
        reckoned = now.policy.estimate(s.messages)
    fact = ShouldCompress(s.sid, ask, reason=reason, tokens=reckoned, threshold=s.budget.threshold, focus=focus)
    question = Question(fact, focus=focus, insists=reason not in AUTOMATIC)
    return evolve(s, asks=ask, question=question, blocked=None)


def retry(s: Conversation, now: Now) -> Conversation:
    """Ask again if nobody is at work on the question and nothing speaks against it."""
    q = s.question
    if q is None or not q.idle:
        return s
    held = None if q.insists else held_back(s, now)
    if held is not None:
        return _block(s, held)
    s = _unblock(s)
    return s if backing_off(s, now) else attempt(s, now)


def _unblock(s: Conversation) -> Conversation:
    return s if s.blocked is None else evolve(s, blocked=None)


def _block(s: Conversation, held: Blocked) -> Conversation:
    """A block that says the same stands on as it is."""
    old = s.blocked
    return s if old is not None and old == held and old.until == held.until else evolve(s, blocked=held)


def attempt(s: Conversation, now: Now) -> Conversation:
    """Begin a round, if the context can be replaced now."""
    q = s.question
    if q is None or not now.policy.asks:
        return s
    before = s.messages if now.policy.owned else q.before
    if before is None:
        return s
    fact = q.fact
    if s.pressure is not None and fact.reason in AUTOMATIC and fact.tokens != s.pressure:
        fact = evolve(fact, tokens=s.pressure)  # it stood for a while, and is about more by now
    new = q.shown is not before
    q = evolve(q, fact=fact, before=before, shown=before, tried=(), why=(), revised=(), draft=None, by="", since=now.at)
    s = evolve(s, question=q, failed=None, blocked=None)
    return ask_next(_ask_shadows(s, now) if new and (now.engines.shadows or s.shadows) else s, now)


def ask_next(s: Conversation, now: Now) -> Conversation:
    """Ask the first compressor that has not been asked in this round; none left: the round has failed."""
    q = _standing(s)
    for name in now.engines.compressors:
        if name not in q.tried and name not in s.busy:
            s, work = put(s, name, "compressor", now)
            return evolve(s, question=evolve(q, tried=(*q.tried, name), work=work))
    return _fail(s, now)


def put(
    s: Conversation, name: str, role: Role, now: Now, messages: Messages | None = None
) -> tuple[Conversation, Work]:
    """Number an asking of engine `name`."""
    q = _standing(s)
    seconds = now.policy.patience(name, role, now.engines.seconds.get(name))
    asked = Asked(
        s.sid,
        q.fact.ask,
        s.n + 1,
        name,
        role,
        messages=q.before if messages is None else messages,
        threshold=s.budget.threshold,
        tokens=q.fact.tokens,
        focus=q.focus,
        seconds=None if now.at is None else seconds,
        context=q.context,
    )
    until = None if now.at is None else now.at + seconds
    return evolve(s, n=s.n + 1), Work(asked, until)


def _ask_shadows(s: Conversation, now: Now) -> Conversation:
    """Shadows see the same input, once, and decide nothing; those of an earlier input are not waited for."""
    asked = []
    for name in now.engines.shadows:
        if name not in s.busy:
            s, work = put(s, name, "shadow", now)
            asked.append(work)
    return evolve(s, shadows=tuple(asked))


def _fail(s: Conversation, now: Now) -> Conversation:
    """Nobody could do it.  The question stands on; the context is as it was."""
    q = _standing(s)
    waiting = [name for name in now.engines.compressors if name not in q.tried]
    why = (*q.why, *(f"{name} is still at work on an earlier question" for name in waiting))
    guard, retry_at = s.guard, None
    if q.tried:
        guard = evolve(guard, failures=guard.failures + 1)
        retry_at = None if now.at is None else now.at + now.policy.pause(guard.failures)
        if now.at is None or all(reason.endswith(" declined") for reason in q.why):
            guard = tried(guard, s.pressure)
    failed = CompactionFailed(s.sid, q.fact.ask, reason="; ".join(why) or "no compressor is serving", retry_at=retry_at)
    return evolve(s, question=evolve(q, work=None, insists=False), failed=failed, guard=guard)


def give_up(s: Conversation, why: str, now: Now) -> Conversation:
    """The compressor at work will not answer this question; the next is asked."""
    q = _standing(s)
    assert q.work is not None
    return ask_next(evolve(s, question=evolve(q, work=None, why=(*q.why, f"{q.work.fact.to} {why}"))), now)


def withdraw(s: Conversation) -> Conversation:
    """The question is no longer asked; who works on it stops."""
    return evolve(s, question=None, shadows=())


def drop_offer(s: Conversation, now: Now) -> None:
    """Say that what was offered has not been taken."""
    q = s.question
    if q is not None and q.offered:
        now.out.append(Refused(s.sid, q.fact.ask, q.by, "dropped by host"))


def close(s: Conversation, now: Now) -> Conversation:
    """The context cannot be replaced any more: a question of the caller goes with the call, any other stands on."""
    q = s.question
    if q is None or q.before is None:
        return s
    drop_offer(s, now)
    if q.fact.reason not in AUTOMATIC:
        return withdraw(s)
    left = Question(q.fact, since=q.since)
    return evolve(s, question=left, shadows=())


def _standing(s: Conversation) -> Question:
    assert s.question is not None
    return s.question
