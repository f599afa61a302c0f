"""Runs scripts against the loop's state machine: events in, what stands and what was said out."""

from __future__ import annotations

from typing import Any

from engines.facts import Answered, Asked, Blocked, CompactionFailed, Compressed, Refused, ShouldCompress
from engines.loop import Conversation, Engines, Policy, begin, step, view
from engines.loop import events as e
from engines.loop.policy import take_anything
from engines.messages import Messages

SID = "s"


def rows(*texts: str, role: str = "user") -> Messages:
    """Messages with these texts."""
    return Messages.of([{"role": role, "content": text} for text in texts])


def count(messages: Messages) -> int:
    """An estimate that is easy to reckon with: ten tokens a message."""
    return 10 * len(messages)


def policy(**changes: Any) -> Policy:
    """A policy that takes every answer and counts messages, unless told otherwise."""
    return Policy(**{"accept": take_anything, "estimate": count, **changes})


class Driver:
    """One conversation with a threshold of 100 tokens, driven by hand."""

    def __init__(self, *compressors: str, messages: Messages | None = None, **changes: Any) -> None:
        self.revisers: tuple[str, ...] = changes.pop("revisers_serving", ())
        self.shadows: tuple[str, ...] = changes.pop("shadows_serving", ())
        self.policy = policy(**changes)
        self.compressors = compressors
        self.stated: dict[str, float] = {}
        self.said: list[Refused] = []
        self.at: float | None = None
        start = e.SessionStarted(SID, threshold=100, messages=messages or rows("u1", "u2", "u3"))
        self.state: Conversation = begin(start)

    @property
    def engines(self) -> Engines:
        return Engines(self.compressors, self.revisers, self.shadows, self.stated)

    def do(self, kind: type[e.Event], *args: Any, **told: Any) -> Driver:
        """Have an event happen, at the driver's time."""
        event = kind(SID, *args, at=told.pop("at", self.at), **told)
        self.state, said = step(self.state, event, self.engines, self.policy)
        self.said += said
        return self

    def reading(self, prompt: int, **told: Any) -> Driver:
        """The provider says how much the prompt held."""
        return self.do(e.UsageRead, {"prompt_tokens": prompt}, **told)

    def append(self, *texts: str, role: str = "assistant", **told: Any) -> Driver:
        return self.do(e.MessagesAppended, rows(*texts, role=role), **told)

    def answer(self, *texts: str, error: str | None = None, asked: Asked | None = None, **told: Any) -> Driver:
        """The engine that is asked (or the one that was, with `asked`) answers with these texts; none: it declines."""
        a = asked or self.asked
        messages = rows(*texts) if texts else None
        return self.do(e.AnswerHeard, Answered(SID, a.ask, a.n, a.to, messages=messages, error=error), **told)

    def serve(self, name: str, role: str = "compressor", **told: Any) -> Driver:
        """An engine begins to serve, the newest first."""
        setattr(self, f"{role}s", (name, *getattr(self, f"{role}s")))
        return self.do(e.EngineBegan, name, role, **told)

    def cease(self, name: str, role: str = "compressor", **told: Any) -> Driver:
        setattr(self, f"{role}s", tuple(n for n in getattr(self, f"{role}s") if n != name))
        return self.do(e.EngineCeased, name, role, **told)

    # -- what stands --------------------------------------------------------------------------------------------------

    def facts(self, cls: type) -> list[Any]:
        return [fact for fact in view(self.state) if type(fact) is cls]

    def fact(self, cls: type) -> Any:
        """The only fact of its class, or None."""
        found = self.facts(cls)
        assert len(found) <= 1
        return found[0] if found else None

    @property
    def asked(self) -> Asked:
        """The asking that stands, shadows apart."""
        (asked,) = (fact for fact in self.facts(Asked) if fact.role != "shadow")
        return asked

    @property
    def question(self) -> ShouldCompress | None:
        return self.fact(ShouldCompress)

    @property
    def failed(self) -> CompactionFailed | None:
        return self.fact(CompactionFailed)

    @property
    def blocked(self) -> Blocked | None:
        return self.fact(Blocked)

    @property
    def compressed(self) -> Compressed | None:
        return self.fact(Compressed)

    @property
    def to(self) -> str | None:
        """Who is asked, shadows apart."""
        found = [fact.to for fact in self.facts(Asked) if fact.role != "shadow"]
        return found[0] if found else None

    @property
    def texts(self) -> list[str]:
        """The texts of the context."""
        return [str(row["content"]) for row in self.state.messages]
