"""What follows from a state: the facts that stand, when to look again, whether a compaction is due."""

from __future__ import annotations

from typing import Any

from engines.facts import Asked

from .state import Conversation

__all__ = ["due", "view", "wake", "working"]


def view(s: Conversation) -> tuple[Any, ...]:
    """The facts that stand, in the order in which they are to appear; an unchanged fact is the same object again."""
    if not s.active:
        return (s.session,)
    q = s.question
    asked = None if q is None else q.fact  # before what became of it
    standing = (s.session, s.budget, s.usage, s.transcript, s.compressed, asked, s.failed, s.blocked)
    facts: list[Any] = [fact for fact in standing if fact is not None]
    facts.extend(work.fact for work in s.shadows)
    if q is not None and q.work is not None:
        facts.append(q.work.fact)
    return tuple(facts)


def working(s: Conversation) -> Asked | None:
    """The asking whose answer is waited for, shadows apart."""
    q = s.question
    return None if q is None or q.work is None else q.work.fact


def wake(s: Conversation) -> float | None:
    """When the state is to be shown the time again (`TimePassed`), or None."""
    times = [work.until for work in s.shadows]
    q = s.question
    if q is not None and q.work is not None:
        times.append(q.work.until)
    if s.failed is not None:
        times.append(s.failed.retry_at)
    if s.blocked is not None:
        times.append(s.blocked.until)
    return min((time for time in times if time is not None), default=None)


def due(s: Conversation, at: float | None = None) -> bool:
    """Whether a host should hand its context over now: a question stands, and nothing holds it back."""
    if s.question is None or s.blocked is not None:
        return False
    if s.failed is None:
        return True
    return s.failed.retry_at is not None and at is not None and at >= s.failed.retry_at
