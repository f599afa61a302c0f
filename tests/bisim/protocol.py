"""One conversation's compactions as a scenario for the explorer: the real loop, engines that answer when they like.

Every message is a word.  An engine's answer names all words that it stands for, who gave it and for which asking:
`{u1 u2}b1`.  So a look at the context tells whether anything was lost, doubled or reordered, and whose answer was taken.

The engines are actors without an event loop.  What an engine answers comes from outside, at any time after it was asked; a
well-behaved engine answers while the asking stands.  A scenario is made of *disturbances*, each of which is some steps
that may fall at any time, or a way in which engines misbehave.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dataspace import Facet, where
from dataspace.testing import Run
from engines.facts import (
    Answered,
    Asked,
    Blocked,
    CompactionFailed,
    Compressed,
    Role,
    Serving,
    ShouldCompress,
    Transcript,
)
from engines.loop import events as e
from engines.loop.actor import Loop
from tests.bisim.protocol_seen import Seen, refuse_bad, words_in
from tests.loop_driver import policy, rows

__all__ = ["DISTURBANCES", "Protocol", "protocol"]

SID = "s"

DISTURBANCES = {
    "crash": "the compressor that is asked first crashes",
    "crash reviser": "the reviser crashes",
    "swap": "a third compressor is plugged in, then the first is unplugged",
    "late": "a deadline passes, and engines answer whether or not they are still asked",
    "message": "a message comes meanwhile",
    "flapping": "the pressure falls below the low mark and rises again",
    "twice": "engines give each answer twice",
    "bad": "what the reviser makes of it is bad",
    "fail": "every compressor fails once, and there is time for another round",
}


class Engine:
    """An engine whose answers are outside steps."""

    def __init__(self, world: Protocol, name: str, role: Role) -> None:
        self.world = world
        self.name = name
        self.role = role
        self.asked: list[int] = []  # the askings it knows of and has not answered
        self.failures = int("fail" in world.disturbances and role == "compressor")
        self.me: Facet = world.run.ds.spawn(self.boot, name=name)

    def boot(self, me: Facet) -> None:
        me.during(where(Asked, to=self.name, role=self.role), self.work)
        me.later(lambda: me.publish(Serving(self.name, self.role)))

    def work(self, inner: Facet, asked: Asked) -> None:
        """Be asked: from now on the answer may come."""
        self.asked.append(asked.n)
        inner.on_stop(lambda _me: self.forget(asked.n))
        answer, times = self.answer(asked), 2 if "twice" in self.world.disturbances else 1
        listening = self.me if "late" in self.world.disturbances else inner
        steps = [partial(self.say, answer, asked.n) for _ in range(times)]
        self.world.run.outside(f"{self.name} answers {asked.n}", *steps, when=lambda: listening.alive)

    def answer(self, asked: Asked) -> Answered:
        """Which answer it will be is clear when it is asked."""
        if self.failures:
            self.failures -= 1
            return Answered(asked.sid, asked.ask, asked.n, self.name, error="busy")
        words = " ".join(words_in(asked.messages))
        if self.role == "reviser" and "bad" in self.world.disturbances:
            words = f"bad {words}"
        return Answered(asked.sid, asked.ask, asked.n, self.name, messages=rows(f"{{{words}}}{self.name}{asked.n}"))

    def say(self, answer: Answered, n: int) -> None:
        self.forget(n)
        self.world.tell(self.me, answer)

    def forget(self, n: int) -> None:
        if n in self.asked:
            self.asked.remove(n)


class Protocol:
    """A run of the scenario with its checks."""

    def __init__(self, run: Run, disturbances: frozenset[str], *, hosted: bool = False) -> None:
        self.run = run
        self.hosted = hosted
        self.disturbances = disturbances
        self.now = 0.0
        self.loop: Loop | None = None
        self.words = ["u1", "u2"]
        self.list = rows("u1", "u2")  # the host's, until its one call
        self.tell: Callable[[Facet, Answered], object] = lambda me, answer: me.send(answer)
        self.engines = [Engine(self, "a", "compressor"), Engine(self, "b", "compressor"), Engine(self, "r", "reviser")]
        self.seen = Seen()
        for cls in (Asked, ShouldCompress, Transcript, Compressed):
            run.watch(cls, self.seen.note)
        run.remembers(lambda: self.now, self.seen.remembered, self.remembered_by_loop, self.remembered_by_engines)
        run.leave_out(Transcript, "rev")
        self.outside()
        run.always(self.nothing_is_lost_or_reordered)
        run.always(self.seen.nothing_is_half_done)
        run.settled(self.nothing_is_stuck)

    # -- what may happen ----------------------------------------------------------------------------------------------

    def outside(self) -> None:
        run, outside = self.run, self.run.outside
        has = self.disturbances.__contains__
        outside("host", self.start, partial(self.read, 120))
        if self.hosted:
            outside("call", self.open, when=lambda: bool(run.ds.facts(ShouldCompress)))
            outside("return", self.close, when=lambda: self.offered() or bool(run.ds.facts(CompactionFailed)))
        if has("flapping"):
            outside("host", partial(self.read, 50), partial(self.read, 120))
        if has("message"):
            outside("message", self.append, when=lambda: self.loop is not None)
        if has("crash"):
            outside("crash", partial(run.crash, self.engines[1].me))
        if has("crash reviser"):
            outside("crash reviser", partial(run.crash, self.engines[2].me))
        if has("swap"):
            outside("swap", self.plug)
            outside("unplug", self.unplug, when=lambda: bool(run.ds.facts(where(Serving, engine="c"))))
        if has("late"):
            outside("deadline", partial(self.wait, 400.0), when=lambda: bool(run.ds.facts(Asked)))
        if has("fail"):
            outside("pause", partial(self.wait, 30.0), when=lambda: bool(run.ds.facts(CompactionFailed)))

    def start(self) -> None:
        """The loop comes when engines serve already: what stands is the first thing it hears."""
        told = policy(
            owned=not self.hosted, accept=refuse_bad, revisers=("r",), deadlines={"a": 300.0, "b": 300.0, "c": 300.0}
        )
        self.loop = Loop(self.run.ds.actor("loop"), told, clock=lambda: self.now)
        self.loop.feed(e.SessionStarted(SID, threshold=100, messages=self.list))

    def read(self, prompt: int) -> None:
        assert self.loop is not None
        self.loop.feed(e.UsageRead(SID, {"prompt_tokens": prompt}))

    def open(self) -> None:
        """The host waits in its compress call, with its messages."""
        assert self.loop is not None
        self.loop.feed(e.ContextOpened(SID, self.list))

    def close(self) -> None:
        """The host takes over what it is offered, or gives up."""
        assert self.loop is not None
        self.loop.feed(e.OfferCommitted(SID) if self.offered() else e.ContextReleased(SID))

    def offered(self) -> bool:
        state = self.loop and self.loop._states.get(SID)
        return bool(state and state.question and state.question.offered)

    def append(self) -> None:
        assert self.loop is not None
        added = rows("m1", role="assistant")
        self.words, self.list = [*self.words, "m1"], self.list + added
        self.loop.feed(e.MessagesAppended(SID, added))

    def wait(self, seconds: float) -> None:
        assert self.loop is not None
        self.now += seconds
        self.loop.tick()

    def plug(self) -> None:
        self.engines.append(Engine(self, "c", "compressor"))

    def unplug(self) -> None:
        self.engines[0].me.stop()

    # -- what tells states apart --------------------------------------------------------------------------------------

    def remembered_by_loop(self) -> Any:
        loop = self.loop
        if loop is None:
            return None
        state = loop._states.get(SID)
        return (
            state,
            loop._roster.of(SID),
            tuple(loop._waiting),
            loop.alarms.earliest(),
            tuple(loop._attention._watched),
        )

    def remembered_by_engines(self) -> Any:
        return self.words, [(engine.name, engine.asked, engine.failures) for engine in self.engines]

    # -- what must hold -----------------------------------------------------------------------------------------------

    def standing(self, cls: type) -> Any:
        """The fact of this class, or None; there are never two."""
        found = self.run.ds.facts(cls)
        assert len(found) <= 1, f"two at once: {found}"
        return found[0] if found else None

    def nothing_is_lost_or_reordered(self) -> None:
        """The context stands for all messages that came, in order, once each: compaction or not."""
        transcript = self.standing(Transcript)
        if transcript is not None:
            there = words_in(transcript.messages)
            assert there == self.words[: len(there)], f"the context stands for {there}, what came is {self.words}"
            assert len(there) == len(self.words) or "loop" in self.run.ds.waiting(), (
                f"{self.words} came, {there} is there"
            )

    def waits_for_host(self) -> bool:
        """Whether it is the host's turn: the context is not handed over, or a result is offered."""
        assert self.loop is not None
        question = self.loop.state(SID).question
        return self.hosted and (question is None or question.before is None or question.offered)

    def nothing_is_stuck(self) -> None:
        """A question that stands has an able engine at work on it, or it is said why not; nobody else is asked."""
        ds = self.run.ds
        question, asked = self.standing(ShouldCompress), self.standing(Asked)
        failed, blocked = self.standing(CompactionFailed), self.standing(Blocked)
        assert question is not None or asked is None, f"{asked} stands without a question"
        if asked is not None:
            assert ds.facts(where(Serving, engine=asked.to, role=asked.role)), f"{asked} stands, and it is gone"
            (engine,) = [one for one in self.engines if one.me.alive and one.name == asked.to]
            assert asked.n in engine.asked, f"{asked} stands, and nobody will answer it"
            assert asked.ask == question.ask
        elif question is not None and not self.waits_for_host():
            assert failed is not None or blocked is not None, f"{question} stands, and nothing happens"
        if failed is not None:
            tried = self.seen.tried.get(failed.ask, set())
            able = {serving.engine for serving in ds.facts(where(Serving, role="compressor"))}
            assert able <= tried or question is None, f"{failed}, and {able - tried} was not even asked"


def protocol(run: Run, disturbances: tuple[str, ...] = (), *, hosted: bool = False) -> Protocol:
    """The scenario with these disturbances; `hosted`: the context is a host's, which has it replaced in a call."""
    return Protocol(run, frozenset(disturbances), hosted=hosted)
