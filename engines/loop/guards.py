"""When automatic compaction is held back.

Guards bear on asking automatically, never on an answer that somebody waits for.  Each gives a reason that a user can
read; the fact `Blocked` stands while a compaction would be wanted and is held back.
"""

from __future__ import annotations

from attrs import evolve

from engines.facts import Blocked
from engines.messages import Messages

from .policy import Policy
from .state import Conversation, Guard, Now

__all__ = ["backing_off", "charge", "counted", "grew", "held_back", "lift", "tried"]


def held_back(s: Conversation, now: Now) -> Blocked | None:
    """Why no compaction is to be tried now without being asked to, or None."""
    guard, policy = s.guard, now.policy
    if not policy.guards:
        return None
    if guard.futile >= policy.futile_most:
        return Blocked(
            s.sid,
            f"The last {guard.futile} compactions left the prompt above the threshold. Automatic compaction waits for"
            " a prompt below it, a manual compaction, a new session or a new model.",
        )
    if now.at is not None and (until := _too_often(guard, policy, now.at)) is not None:
        return Blocked(
            s.sid,
            f"There were {policy.often_most} compactions within {_minutes(policy.often_within)}. Automatic compaction"
            " pauses.",
            until=until,
        )
    if not guard.grown:
        return Blocked(s.sid, "Nothing that could be compacted has been added since the last try.")
    return None


def backing_off(s: Conversation, now: Now) -> bool:
    """Whether the latest failure is too recent for another try."""
    if s.failed is None:
        return False
    if s.failed.retry_at is None:  # no clock, or nobody to ask: not before something changes
        return not (s.guard.grown and any(name not in s.busy for name in now.engines.compressors))
    return now.at is None or now.at < s.failed.retry_at


def charge(s: Conversation, tokens: int, policy: Policy, *, real: bool) -> Guard:
    """What a reading says about the compactions before it.

    An estimate is too rough to count against a compaction; it only ends the wait for a real reading.
    """
    guard = s.guard if policy.owned else _grew_by_pressure(s.guard, tokens, s.budget.threshold)
    if not real:
        return evolve(guard, awaiting=False) if guard.awaiting else guard
    if tokens < s.budget.threshold:
        return evolve(guard, awaiting=False, futile=0) if guard.awaiting or guard.futile else guard
    return evolve(guard, awaiting=False, futile=guard.futile + 1) if guard.awaiting else guard


def grew(guard: Guard, added: Messages, policy: Policy) -> Guard:
    """The guard once `added` has been put at the end."""
    if guard.grown or not any(map(policy.compactable, added)):
        return guard
    return evolve(guard, grown=True, grown_from=None)


def _grew_by_pressure(guard: Guard, tokens: int, threshold: int) -> Guard:
    """A host does not always show its messages between two calls: a tenth of the threshold more is growth enough there."""
    if guard.grown:
        return guard
    if guard.grown_from is None or tokens < guard.grown_from:
        return evolve(guard, grown_from=tokens)
    if tokens >= guard.grown_from + threshold / 10:
        return evolve(guard, grown=True, grown_from=None)
    return guard


def tried(guard: Guard, pressure: int | None) -> Guard:
    """The guard after a try, with the pressure that remains if it is known."""
    return evolve(guard, grown=False, grown_from=pressure)


def counted(guard: Guard, now: Now, *, manual: bool) -> Guard:
    """The guard after a compaction that was taken over."""
    times = guard.recent
    if now.at is not None:
        times = (*times, now.at)[-now.policy.often_most :]
    return evolve(guard, awaiting=True, futile=0 if manual else guard.futile, recent=times, failures=0)


def lift(guard: Guard) -> Guard:
    """The guard for another model: only how often it was done still counts."""
    return evolve(guard, grown=True, grown_from=None, futile=0, awaiting=False, failures=0)


def _too_often(guard: Guard, policy: Policy, at: float) -> float | None:
    """Until when there would be too many compactions in the window, or None."""
    if len(guard.recent) < policy.often_most:
        return None
    until = guard.recent[-policy.often_most] + policy.often_within
    return until if at < until else None


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:g} minutes"
