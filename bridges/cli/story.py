"""The story of a replay, told by what appears, vanishes and is heard in the dataspace.

A `Story` is fed the facts in order and keeps what a display or a reckoning wants to know.  It neither acts nor prints;
each `take` returns the moments that were worth telling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen

from dataspace import Crashed, Facet
from engines import facts as f
from engines.transcript import estimate_tokens

from .moments import Moment
from .position import Position, Swapped
from .skill_counts import SkillCounts
from .terminal import one_line

__all__ = ["Compaction", "EngineState", "Story", "watching"]

Told = dict[str, Any]


@frozen
class Compaction:
    """One compaction that was taken over; tokens on the provider's scale, seconds of real time."""

    ask: int
    by: str
    tokens_before: int
    tokens_after: int
    seconds: float


@define
class EngineState:
    """What is known of an engine: its roles, what it does now, and how many compactions are its work."""

    roles: dict[str, None] = field(factory=dict)
    doing: str = "serving"
    compactions: int = 0


@define
class Story:
    """All that has happened so far.  `clock` gives real time in seconds; `threshold` 0: not known yet."""

    clock: Callable[[], float]
    facts: dict[Any, None] = field(factory=dict)
    engines: dict[str, EngineState] = field(factory=dict)
    compactions: list[Compaction] = field(factory=list)
    readings: list[tuple[int, int]] = field(factory=list)  # line, pressure
    counts: dict[str, int] = field(factory=dict)
    position: Position = Position(0, 0)
    pressure: int = 0
    peak: int = 0
    served: dict[str, None] = field(factory=dict)
    crashes: dict[str, str] = field(factory=dict)  # engine, its latest reason
    skills: SkillCounts = field(factory=SkillCounts)
    _asked: dict[int, f.Asked] = field(factory=dict)
    _since: dict[int, float] = field(factory=dict)

    def count(self, event: str) -> int:
        """How many moments of this kind there were."""
        return self.counts.get(event, 0)

    def standing(self, cls: type) -> Any:
        """The newest standing fact of a class, or None."""
        return next((fact for fact in reversed(self.facts) if type(fact) is cls), None)

    def take(self, change: str, fact: Any) -> tuple[Moment, ...]:
        """A fact has `appeared` or `vanished`, or a message was `heard`."""
        if change == "appeared":
            self.facts[fact] = None
        elif change == "vanished":
            self.facts.pop(fact, None)
        self.skills.take(change, fact)
        handler = _HANDLERS.get((change, type(fact)))
        told = None if handler is None else handler(self, fact)
        if told is None:
            return ()
        event = told.pop("event")
        self.counts[event] = self.counts.get(event, 0) + 1
        return (Moment(event, self.position.line, tuple(told.items())),)

    # -- where we are -------------------------------------------------------------------------------------------------

    def _moved(self, position: Position) -> None:
        self.facts.pop(position)
        self.position = position

    def _read(self, usage: f.Usage) -> None:
        if usage.prompt is not None:
            self.pressure = usage.prompt
            self.peak = max(self.peak, usage.prompt)
            self.readings.append((self.position.line, usage.prompt))

    # -- questions and answers ----------------------------------------------------------------------------------------

    def _crossed(self, question: f.ShouldCompress) -> Told:
        return _told("crossing", ask=question.ask, tokens=question.tokens, threshold=question.threshold)

    def _gone(self, question: f.ShouldCompress) -> Told | None:
        session = self.standing(f.Session)
        if session is None or session.state == "ended" or any(done.ask == question.ask for done in self.compactions):
            return None
        return _told("withdrawn", ask=question.ask)

    def _put(self, asked: f.Asked) -> Told:
        if asked.role == "compressor":
            self._asked[asked.ask] = asked
            self._since.setdefault(asked.ask, self.clock())
        self._engine(asked.to).doing = "working"
        role = None if asked.role == "compressor" else asked.role
        return _told("asked", ask=asked.ask, engine=asked.to, role=role, tokens=self._measured(asked.messages))

    def _over(self, asked: f.Asked) -> None:
        engine = self._engine(asked.to)
        if engine.doing == "working":
            engine.doing = "serving"

    def _answered(self, answer: f.Answered) -> Told:
        if answer.messages is not None:
            return _told("answered", ask=answer.ask, engine=answer.by, tokens=self._measured(answer.messages))
        if answer.error is None:
            return _told("declined", ask=answer.ask, engine=answer.by)
        return _told("erred", ask=answer.ask, engine=answer.by, reason=one_line(answer.error))

    def _compressed(self, result: f.Compressed) -> Told:
        asked = self._asked.pop(result.ask, None)
        seconds = self.clock() - self._since.pop(result.ask, self.clock())
        before = result.tokens_before if asked is None else self._measured(asked.messages)
        done = Compaction(result.ask, result.by, before, self._measured(result.messages), seconds)
        self.compactions.append(done)
        self._engine(result.by).compactions += 1
        self.pressure = done.tokens_after
        self.peak = max(
            self.peak, done.tokens_before
        )  # more than the last reading, where the question had stood a while
        return _told(
            "compressed", ask=done.ask, by=done.by, before=done.tokens_before, after=done.tokens_after, seconds=seconds
        )

    def _refused(self, refused: f.Refused) -> Told:
        return _told("refused", ask=refused.ask, by=refused.by, reason=one_line(refused.reason))

    def _failed(self, failed: f.CompactionFailed) -> Told:
        self._since.pop(failed.ask, None)
        return _told("failed", ask=failed.ask, reason=one_line(failed.reason))

    def _blocked(self, blocked: f.Blocked) -> Told:
        return _told("blocked", reason=one_line(blocked.reason))

    # -- engines ------------------------------------------------------------------------------------------------------

    def _began(self, serving: f.Serving) -> Told:
        engine = self._engine(serving.engine)
        engine.roles[serving.role] = None
        self.served[serving.engine] = None
        engine.doing = "serving"
        return _told("serving", engine=serving.engine, role=serving.role)

    def _ceased(self, serving: f.Serving) -> Told | None:
        engine = self._engine(serving.engine)
        if engine.doing in {"serving", "working"}:
            engine.doing = "gone"
        return _told("left", engine=serving.engine, role=serving.role)

    def _crashed(self, crash: Crashed) -> Told | None:
        if crash.actor not in self.engines:
            return None  # not an engine: a display, which is nobody's loss but its own
        self.engines[crash.actor].doing = "crashed"
        self.crashes[crash.actor] = reason = one_line(crash.reason)
        return _told("crashed", engine=crash.actor, reason=reason)

    def _gave_up(self, given: f.GaveUp) -> Told:
        self._engine(given.engine).doing = "given up"
        return _told("gave-up", engine=given.engine, crashes=given.crashes, reason=one_line(given.reason))

    def _swapped(self, swap: Swapped) -> Told:
        if swap.new is not None:
            self._engine(swap.new, "starting")
        return _told(
            "swap", at=swap.place, old=swap.old, new=swap.new, note=None if swap.note is None else one_line(swap.note)
        )

    # -- inside -------------------------------------------------------------------------------------------------------

    def _engine(self, name: str, doing: str = "serving") -> EngineState:
        return self.engines.setdefault(name, EngineState(doing=doing))

    def _measured(self, messages: Any) -> int:
        return self.position.scale.of(estimate_tokens(messages or ()))


_HANDLERS: dict[tuple[str, type], Callable[[Story, Any], Told | None]] = {
    ("appeared", Position): Story._moved,
    ("appeared", f.Usage): Story._read,
    ("appeared", f.ShouldCompress): Story._crossed,
    ("vanished", f.ShouldCompress): Story._gone,
    ("appeared", f.Asked): Story._put,
    ("vanished", f.Asked): Story._over,
    ("heard", f.Answered): Story._answered,
    ("appeared", f.Compressed): Story._compressed,
    ("heard", f.Refused): Story._refused,
    ("appeared", f.CompactionFailed): Story._failed,
    ("appeared", f.Blocked): Story._blocked,
    ("appeared", f.Serving): Story._began,
    ("vanished", f.Serving): Story._ceased,
    ("appeared", Crashed): Story._crashed,
    ("appeared", f.GaveUp): Story._gave_up,
    ("heard", Swapped): Story._swapped,
}

WATCHED = (*f.FACTS.values(), Crashed, Position, Swapped)


def watching(story: Story, tell: Callable[[tuple[Moment, ...]], object]) -> Callable[[Facet], None]:
    """A boot function for an actor that feeds `story` and hands on what is worth telling, after every change."""

    def watch(me: Facet) -> None:
        def on(change: str) -> Callable[[Any], object]:
            return lambda fact: tell(story.take(change, fact))

        for cls in WATCHED:
            me.observe(cls, appeared=on("appeared"), vanished=on("vanished"), heard=on("heard"))

    return watch


def _told(event: str, **told: Any) -> Told:
    return {"event": event, **told}
