"""What befalls a conversation from outside: its beginning and end, its limits, readings and messages."""

from __future__ import annotations

from attrs import evolve

from engines.facts import Budget, Transcript, Usage
from engines.messages import Messages

from . import events as e
from .guards import charge, grew, lift
from .pressure import read_usage, same_response
from .question import attempt, close, drop_offer, retry, weigh
from .state import Conversation, Guard, Now, begin

__all__ = [
    "appended",
    "budget_changed",
    "described",
    "ended",
    "pressure_given",
    "replaced",
    "reset",
    "rotated",
    "shared_start",
    "started",
    "take_over",
    "usage_read",
]


def started(s: Conversation, event: e.SessionStarted, now: Now) -> Conversation:
    """A new beginning under the same name: nothing is kept but the numbers."""
    drop_offer(s, now)
    return begin(event, before=s)


def rotated(s: Conversation, event: e.SessionRotated, _now: Now) -> Conversation:
    """Only the host's name for it is another one."""
    return evolve(s, session=evolve(s.session, host_session=event.host_session))


def described(s: Conversation, event: e.SessionDescribed, _now: Now) -> Conversation:
    """What is told takes the place of what was known; nothing else changes."""
    told = {name: getattr(event, name) for name in ("provider", "parent")}
    news = {name: value for name, value in told.items() if value is not None and value != getattr(s.session, name)}
    return evolve(s, session=evolve(s.session, **news)) if news else s


def reset(s: Conversation, event: e.SessionReset, now: Now) -> Conversation:
    """The conversation goes on with other messages, and nothing is held against it."""
    return _put(_emptied(s, now), event.messages)


def ended(s: Conversation, event: e.SessionEnded, now: Now) -> Conversation:
    """What stood of it goes; its numbers stay, so that a new start goes on counting."""
    s = _emptied(s, now)
    return evolve(
        s,
        session=evolve(s.session, state="ended", ended=event.reason),
        transcript=Transcript(s.sid, s.transcript.rev, messages=e.EMPTY),
    )


def _emptied(s: Conversation, now: Now) -> Conversation:
    drop_offer(s, now)
    return evolve(
        s,
        usage=None,
        pressure=None,
        question=None,
        shadows=(),
        compressed=None,
        failed=None,
        blocked=None,
        guard=Guard(),
    )


def budget_changed(s: Conversation, event: e.BudgetChanged, now: Now) -> Conversation:
    """A new model ends what was held against the old one; the pressure is weighed against the new threshold."""
    budget = Budget(s.sid, event.context_length, event.threshold)
    if budget != s.budget:
        s = evolve(s, budget=budget)
    if event.model is None or event.model == s.session.model:
        return weigh(s, now)
    session = evolve(s.session, model=event.model)
    s = evolve(s, session=session, guard=lift(s.guard), blocked=None, failed=None)
    return retry(weigh(s, now), now)


# -- readings ---------------------------------------------------------------------------------------------------------


def usage_read(s: Conversation, event: e.UsageRead, now: Now) -> Conversation:
    """A report that says nothing of the prompt leaves the pressure as it was, unless there is an estimate."""
    usage = _reading(s, event, now)
    if usage is None:
        return _unjudged(s)
    if same_response(s.usage, usage):
        usage = evolve(usage, seq=s.seqs)
    if usage.prompt is None:
        return _unjudged(evolve(s, usage=usage, seqs=usage.seq))
    guard = charge(s, usage.prompt, now.policy, real=not usage.estimated)
    return weigh(evolve(s, usage=usage, seqs=usage.seq, pressure=usage.prompt, guard=guard), now)


def pressure_given(s: Conversation, event: e.PressureGiven, now: Now) -> Conversation:
    """Like an estimated reading, without a report to publish."""
    return weigh(evolve(s, pressure=event.tokens, guard=charge(s, event.tokens, now.policy, real=False)), now)


def _reading(s: Conversation, event: e.UsageRead, now: Now) -> Usage | None:
    usage = read_usage(s.sid, s.seqs + 1, event.usage, event.estimate)
    if (usage is not None and usage.prompt is not None) or not now.policy.owned or not len(s.messages):
        return usage
    # The context is the loop's own, so it can tell what the provider did not.
    estimate = now.policy.estimate(s.messages)
    if usage is None:
        return Usage(s.sid, s.seqs + 1, prompt=estimate, estimated=True)
    return evolve(usage, prompt=estimate, estimated=True)


def _unjudged(s: Conversation) -> Conversation:
    """No reading will come for the compaction before it: it is not held against it."""
    return evolve(s, guard=evolve(s.guard, awaiting=False)) if s.guard.awaiting else s


# -- messages ---------------------------------------------------------------------------------------------------------


def appended(s: Conversation, event: e.MessagesAppended, now: Now) -> Conversation:
    """More messages at the end; who works on a compaction is not disturbed."""
    if not len(event.messages):
        return s
    return evolve(_put(s, s.messages + event.messages), guard=grew(s.guard, event.messages, now.policy))


def replaced(s: Conversation, event: e.TranscriptReplaced, now: Now) -> Conversation:
    """Who works on messages that are no longer there works in vain: the question is asked anew, of the new ones."""
    s, same = take_over(s, event.messages, now)
    q = s.question
    if q is None or q.before is None or same >= len(q.before):
        return s
    if not now.policy.owned:
        return close(s, now)
    return s if q.idle else attempt(evolve(s, question=evolve(q, work=None)), now)


def take_over(s: Conversation, messages: Messages, now: Now) -> tuple[Conversation, int]:
    """The state with another list, and how many messages at its start are as they were."""
    same = shared_start(s.messages, messages)
    if same == len(s.messages) == len(messages):
        return s, same
    transcript = Transcript(s.sid, s.transcript.rev + 1, messages=messages)
    return evolve(s, transcript=transcript, guard=grew(s.guard, messages[same:], now.policy)), same


def shared_start(one: Messages, other: Messages) -> int:
    """How many messages both begin with."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine is not theirs and mine != theirs:
            break
        count += 1
    return count


def _put(s: Conversation, messages: Messages) -> Conversation:
    return evolve(s, transcript=Transcript(s.sid, s.transcript.rev + 1, messages=messages))
