"""One conversation's compactions as a scenario for the explorer: the real loop, engines that answer when they like.

Every message is a word.  An engine's answer names all words that it stands for, who gave it and for which asking:
`{u1 u2}b1`.  So a look at the context tells whether anything was lost, doubled or reordered, and whose answer was taken.

The engines are actors without an event loop.  What an engine answers comes from outside, at any time after it was asked; a
well-behaved engine answers while the asking stands.  A scenario is made of *disturbances*, each of which is some steps
that may fall at any time, or a way in which engines misbehave.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from dataspace import Appeared, Facet, where
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
from engines.loop import Verdict
from engines.loop import events as e
from engines.loop.actor import Loop
from engines.messages import Messages
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


def words_in(messages: Messages) -> list[str]:
    """The words that a list stands for, in order."""
    return [word for row in messages for word in re.findall(r"\w+", re.sub(r"}\w+", "}", str(row["content"])))]


def giver_of(messages: Messages) -> tuple[str, int] | None:
    """Who gave the answer that a context begins with, and for which asking."""
    found = re.fullmatch(r"\{.*}([a-z]+)(\d+)", str(messages[0]["content"]))
    return (found[1], int(found[2])) if found is not None else None


def refuse_bad(answer: Messages, _before: Messages) -> Verdict:
    """What a judge says who knows a bad answer when he sees one."""
    bad = any("bad" in str(row["content"]) for row in answer)
    return Verdict(None, "it is bad") if bad else Verdict(answer)


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

    def __init__(self, run: Run, disturbances: frozenset[str]) -> None:
        self.run = run
        self.disturbances = disturbances
        self.now = 0.0
        self.loop: Loop | None = None
        self.words = ["u1", "u2"]
        self.tell: Callable[[Facet, Answered], object] = lambda me, answer: me.send(answer)
        self.engines = [Engine(self, "a", "compressor"), Engine(self, "b", "compressor"), Engine(self, "r", "reviser")]
        self.checked: Any = None
        self.history = [run.watch(cls) for cls in (Asked, ShouldCompress, Transcript, Compressed)]
        run.remembers(lambda: self.now, self.remembered_by_loop, self.remembered_by_engines)
        run.leave_out(Transcript, "rev")
        self.outside()
        run.always(self.nothing_is_lost_or_reordered)
        run.always(self.history_is_right)
        run.settled(self.nothing_is_stuck)

    # -- what may happen ----------------------------------------------------------------------------------------------

    def outside(self) -> None:
        run, outside = self.run, self.run.outside
        has = self.disturbances.__contains__
        outside("host", self.start, partial(self.read, 120))
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
        told = policy(accept=refuse_bad, revisers=("r",), deadlines={"a": 300.0, "b": 300.0, "c": 300.0})
        self.loop = Loop(self.run.ds.actor("loop"), told, clock=lambda: self.now)
        self.loop.feed(e.SessionStarted(SID, threshold=100, messages=rows(*self.words)))

    def read(self, prompt: int) -> None:
        assert self.loop is not None
        self.loop.feed(e.UsageRead(SID, {"prompt_tokens": prompt}))

    def append(self) -> None:
        assert self.loop is not None
        self.words.append("m1")
        self.loop.feed(e.MessagesAppended(SID, rows("m1", role="assistant")))

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

    def history_is_right(self) -> None:
        """What is true of all that has happened, looked at when something has."""
        lengths = list(map(len, self.history))
        if lengths != self.checked:
            self.checked = lengths
            self.numbers_are_new()
            self.one_answer_each_and_the_right_one()

    def numbers_are_new(self) -> None:
        """No question and no asking has the number of an earlier one."""
        askings, questions, *_ = self.history
        for seen in (
            [change.fact.n for change in askings if isinstance(change, Appeared)],
            [change.fact.ask for change in questions if isinstance(change, Appeared)],
        ):
            assert seen == sorted(set(seen)), f"a number came back: {seen}"

    def one_answer_each_and_the_right_one(self) -> None:
        """At most one result a question, given for the latest asking of its kind, and none that is bad."""
        askings, _, transcripts, compressed = self.history
        taken = [change.fact.ask for change in compressed if isinstance(change, Appeared)]
        contexts = [change.fact.messages for change in transcripts if isinstance(change, Appeared)]
        givers = list(dict.fromkeys(giver for giver in map(giver_of, contexts) if giver is not None))
        assert len(taken) == len(set(taken)) == len(givers), f"questions {taken}, answers {givers}"
        asked = [change.fact for change in askings if isinstance(change, Appeared)]
        for ask, (by, n) in zip(taken, givers, strict=True):
            (asking,) = [fact for fact in asked if fact.n == n]
            same = [fact.n for fact in asked if fact.ask == ask and fact.role == asking.role]
            assert (asking.ask, asking.to, n) == (ask, by, same[-1]), f"the answer {by}{n} was taken for question {ask}"

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
        elif question is not None:
            assert failed is not None or blocked is not None, f"{question} stands, and nothing happens"
        if failed is not None and failed.retry_at is None:
            tried = {change.fact.to for change in self.history[0] if change.fact.ask == failed.ask}
            able = {serving.engine for serving in ds.facts(where(Serving, role="compressor"))}
            assert able <= tried, f"{failed}, and {able - tried} was not even asked"


def protocol(run: Run, disturbances: tuple[str, ...] = ()) -> Protocol:
    """The scenario with these disturbances."""
    return Protocol(run, frozenset(disturbances))
