"""From an answer to a new context: judged, revised, offered, committed.

One answer is taken for the asking that stands.  It is checked against the context as it was handed over, and so is
what a reviser makes of it.  The result is offered to the owner of the context; only the commit changes anything.
"""

from __future__ import annotations

from attrs import evolve

from engines.facts import Answered, Compressed, Refused, Transcript
from engines.messages import Messages

from .guards import counted, tried
from .policy import Verdict
from .question import give_up, put
from .state import Conversation, Now, Question, Work

__all__ = ["answered", "commit", "pass_over", "volunteered"]


def answered(s: Conversation, answer: Answered, now: Now) -> Conversation:
    """Take an answer for the asking that stands, refuse any other."""
    q = s.question
    if q is not None and q.work is not None and _answers(answer, q.work):
        if q.work.fact.role == "compressor":
            return _judge(s, q, answer, now)
        return _judge_revision(s, q, answer, now)
    shadows = tuple(work for work in s.shadows if not _answers(answer, work))
    if len(shadows) < len(s.shadows):
        return evolve(s, shadows=shadows)
    if answer.messages is not None:
        _refuse(s, answer.ask, answer.by, "late or not asked for", now)
    return s


def volunteered(s: Conversation, by: str, messages: Messages, now: Now) -> Conversation:
    """Take an answer from somebody who was not asked, where nobody is."""
    q = s.question
    if q is None or not q.idle or now.policy.asks:
        _refuse(s, s.asks, by, "no question stands" if q is None else "somebody else was asked", now)
        return s
    verdict = _check(messages, s.messages, now)
    if verdict.messages is None:
        _refuse(s, q.fact.ask, by, verdict.reason, now)
        return s
    q = evolve(q, before=s.messages, draft=verdict.messages, by=by)
    return commit(evolve(s, question=evolve(q, offered=True)), now)


def pass_over(s: Conversation, why: str, now: Now) -> Conversation:
    """The engine at work gives no answer: the next one is asked; without a reviser the draft goes on as it is."""
    q = s.question
    assert q is not None
    assert q.work is not None
    if q.work.fact.role == "compressor":
        return give_up(s, why, now)
    return _revise(evolve(s, question=evolve(q, work=None)), now)


def commit(s: Conversation, now: Now) -> Conversation:
    """The owner has taken the offer over: the context is the result, followed by what arrived meanwhile."""
    q = s.question
    if q is None or not q.offered:
        return s
    assert q.draft is not None
    assert q.before is not None
    messages = q.draft + s.messages[len(q.before) :]
    seconds = now.at - q.since if now.at is not None and q.since is not None else 0.0
    after = _reckon(q, now)
    compressed = Compressed(
        s.sid,
        q.fact.ask,
        q.by,
        messages=q.draft,
        tokens_before=q.fact.tokens,
        tokens_after=after,
        seconds=seconds,
    )
    guard = tried(counted(s.guard, now, manual=q.fact.reason == "manual"), None)
    return evolve(
        s,
        transcript=Transcript(s.sid, s.transcript.rev + 1, messages=messages),
        compressed=compressed,
        question=None,
        pressure=None,
        failed=None,
        blocked=None,
        guard=guard,
    )


def _answers(answer: Answered, work: Work) -> bool:
    asked = work.fact
    return answer.n == asked.n and answer.by == asked.to and answer.ask == asked.ask


def _judge(s: Conversation, q: Question, answer: Answered, now: Now) -> Conversation:
    if answer.messages is None:
        return give_up(s, "declined" if answer.error is None else f"failed: {answer.error}", now)
    assert q.before is not None
    verdict = _check(answer.messages, q.before, now)
    if verdict.messages is None:
        _refuse(s, q.fact.ask, answer.by, verdict.reason, now)
        return give_up(s, f"gave an answer that was refused: {verdict.reason}", now)
    q = evolve(q, work=None, draft=verdict.messages, by=answer.by)
    return _revise(evolve(s, question=q), now)


def _judge_revision(s: Conversation, q: Question, answer: Answered, now: Now) -> Conversation:
    """A bad revision is skipped: the draft was good without it."""
    assert q.before is not None
    draft = q.draft
    if answer.messages is not None:
        verdict = _check(answer.messages, q.before, now)
        if verdict.messages is None:
            _refuse(s, q.fact.ask, answer.by, verdict.reason, now)
        else:
            draft = verdict.messages
    return _revise(evolve(s, question=evolve(q, work=None, draft=draft)), now)


def _revise(s: Conversation, now: Now) -> Conversation:
    """Ask the next reviser; none left, or nothing to revise: offer the draft."""
    q = s.question
    assert q is not None
    if q.draft != q.before:
        for name in now.engines.revisers:
            if name not in q.revised and name not in s.busy:
                s, work = put(s, name, "reviser", now, q.draft)
                return evolve(s, question=evolve(q, work=work, revised=(*q.revised, name)))
    s = evolve(s, question=evolve(q, offered=True))
    return commit(s, now) if now.policy.owned else s


def _check(answer: Messages, before: Messages, now: Now) -> Verdict:
    """Judge by the function handed in; where it fails, the answer is refused, for nobody has vouched for it."""
    try:
        verdict = now.policy.accept(Messages.of(answer), before)
        return verdict if verdict.messages is None else Verdict(Messages.of(verdict.messages), verdict.reason)
    except Exception as error:  # noqa: BLE001 - whatever an answer provokes in its judge speaks against the answer
        return Verdict(None, f"it could not be checked: {error!r}")


def _refuse(s: Conversation, ask: int, by: str, reason: str, now: Now) -> None:
    now.out.append(Refused(s.sid, ask, by, reason))


def _reckon(q: Question, now: Now) -> int:
    """What the result holds, on the scale on which the pressure was told.

    Where somebody else keeps the context, what its prompt holds beyond the messages (instructions, tools) stays what it was.
    """
    estimate = now.policy.estimate
    assert q.draft is not None
    assert q.before is not None
    rough = estimate(q.draft)
    rough_before = estimate(q.before)
    if not (rough_before and q.fact.tokens):
        return rough
    if not now.policy.owned and q.fact.tokens > rough_before:
        return q.fact.tokens - rough_before + rough
    return (rough * q.fact.tokens + rough_before // 2) // rough_before  # whole numbers: no count is too large
