"""All that the loop knows about one conversation, as immutable records.

The facts that stand are kept as they are: an unchanged fact is the same object from one state to the next, so that
whoever shows them can tell what changed by identity.
"""

from __future__ import annotations

from attrs import evolve, frozen

from engines.context import AskerContext
from engines.facts import (
    Asked,
    Blocked,
    Budget,
    CompactionFailed,
    Compressed,
    Refused,
    Session,
    ShouldCompress,
    Transcript,
    Usage,
)
from engines.messages import Messages

from .events import SessionStarted
from .policy import Engines, Policy

__all__ = ["Conversation", "Guard", "Now", "Question", "Work", "begin"]

TOLD = ("profile", "model", "provider", "platform", "parent", "host_session", "home")
"""What a session's start says of it, by the names of the fields of `Session`."""


@frozen
class Work:
    """One asking of one engine, and until when it may take."""

    fact: Asked
    until: float | None = None


@frozen
class Question:
    """A question that stands, and how far its answer has come.

    `before` is the context as it was handed over, None while it cannot be replaced.  `insists`: somebody waits for
    the answer.  `tried` and `why` are this round's engines and what became of them; `revised` likewise.
    `shown` is the input that shadows have been asked about.
    """

    fact: ShouldCompress
    before: Messages | None = None
    context: AskerContext | None = None
    focus: str | None = None
    insists: bool = False
    since: float | None = None
    tried: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    work: Work | None = None
    draft: Messages | None = None
    by: str = ""
    revised: tuple[str, ...] = ()
    offered: bool = False
    shown: Messages | None = None

    @property
    def idle(self) -> bool:
        """Whether nobody works on it and nothing is offered."""
        return self.work is None and not self.offered


@frozen
class Guard:
    """What automatic compaction is held back by.

    `grown`: something that can be compacted has come since the last try; until then `grown_from` is the lowest
    pressure read.  `futile` counts compactions in a row that
    left the pressure above the threshold, `awaiting` says that the latest has not been judged yet.  `recent` holds the
    times of compactions, `failures` counts rounds that failed in a row.
    """

    grown: bool = True
    grown_from: int | None = None
    futile: int = 0
    awaiting: bool = False
    recent: tuple[float, ...] = ()
    failures: int = 0


@frozen
class Conversation:
    """One conversation.  `asks` and `n` are the last numbers used; `pressure` None: not known since the last change."""

    session: Session
    budget: Budget
    transcript: Transcript
    asks: int = 0
    n: int = 0
    usage: Usage | None = None
    pressure: int | None = None
    question: Question | None = None
    shadows: tuple[Work, ...] = ()
    compressed: Compressed | None = None
    failed: CompactionFailed | None = None
    blocked: Blocked | None = None
    guard: Guard = Guard()
    busy: tuple[str, ...] = ()
    seqs: int = 0

    @property
    def sid(self) -> str:
        """The name of the conversation."""
        return self.session.sid

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.session.state == "active"

    @property
    def messages(self) -> Messages:
        """The latest known message list."""
        messages: Messages = self.transcript.messages
        return messages


@frozen
class Now:
    """What one step has at hand; `out` gathers the messages it sends."""

    engines: Engines
    policy: Policy
    at: float | None
    out: list[Refused]


def begin(event: SessionStarted, *, asks: int = 0, n: int = 0, before: Conversation | None = None) -> Conversation:
    """A new conversation; its numbers follow those given, and those of the one it takes the place of."""
    told = {name: getattr(event, name) for name in TOLD}
    fresh = Conversation(
        session=Session(event.sid, "active", **told),
        budget=Budget(event.sid, event.context_length, event.threshold),
        transcript=Transcript(event.sid, 1, messages=event.messages),
        asks=asks,
        n=n,
    )
    if before is None:
        return fresh
    transcript = Transcript(event.sid, before.transcript.rev + 1, messages=event.messages)
    return evolve(fresh, asks=before.asks, n=before.n, seqs=before.seqs, busy=before.busy, transcript=transcript)
