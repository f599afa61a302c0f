"""The tutorial's program, whole: two actors of one's own, a run loop, an engine swapped at work, and another one."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing
from attrs import frozen

from dataspace import Facet, Observe, open_dataspace, where
from engines import Loop, serve
from engines.facts import Answered, Asked, Compressed, Refused, Serving, ShouldCompress, Transcript
from engines.loop.events import MessagesAppended, SessionEnded, SessionStarted, UsageRead
from engines.swap import swap


@frozen
class Full:
    """A conversation for which a compaction is wanted, as the screen shows it."""

    sid: str


def letters(first: int, last: int) -> list[dict[str, str]]:
    """What user and assistant said about letters `first` to `last`, about a hundred tokens each."""
    return [
        {"role": role, "content": f"Letter {n}: " + "and so on " * 40}
        for n in range(first, last + 1)
        for role in ("user", "assistant")
    ]


SYSTEM = {"role": "system", "content": "You help with letters."}
LAST = {"role": "user", "content": "Now the last one."}


def watcher(me: Facet) -> None:
    """Page 2: as long as the question stands, so does `Full`."""
    me.during(ShouldCompress, lambda me, question: me.publish(Full(question.sid)))


class Screen:
    """Page 1: an observer that keeps what it sees."""

    def __init__(self, me: Facet) -> None:
        self.lines: list[str] = []
        me.observe(Full, appeared=self._note("+"), vanished=self._note("-"))
        me.observe(Compressed, appeared=self._note("+"), vanished=self._note("-"))
        me.observe(Refused, heard=self._note("!"))

    def _note(self, sign: str) -> Any:
        return lambda fact: self.lines.append(f"{sign} {type(fact).__name__} {fact.sid}")


def keep_the_end(me: Facet) -> None:
    """Page 3: the system message, a note, and the last two messages."""

    def shorten(_me: Facet, asked: Asked) -> list[Any]:
        system, *rest = asked.messages.thaw()
        note = {"role": "user", "content": f"({len(rest) - 2} earlier messages were left out.)"}
        return [system, note, *rest[-2:]]

    serve(me, shorten)


def slow(log: list[str]) -> Any:
    """Page 4: an engine that waits for a model that never answers."""

    def boot(me: Facet) -> None:
        async def ask_a_model(me: Facet, asked: Asked) -> None:
            log.append(f"{me.name} works on question {asked.ask}")
            try:
                await trio.sleep_forever()
            finally:
                log.append(f"{me.name} was cancelled")

        serve(me, ask_a_model)

    return boot


async def test_the_tour() -> None:
    """An engine is swapped while it works: no question and no message is lost, and nothing of the old one stays."""
    log: list[str] = []
    async with open_dataspace() as ds:
        screen = Screen(ds.actor("screen"))
        await ds.spawn(watcher)
        loop = Loop(ds.actor("loop"))
        old = await ds.spawn(slow(log), name="slow")
        loop.feed(SessionStarted("s1", threshold=1_000, messages=[SYSTEM, *letters(1, 5), LAST]))
        loop.feed(UsageRead("s1", {"prompt_tokens": 700}))
        assert [] == screen.lines == log

        # Over the threshold: the question stands, one engine is asked, the session goes on.
        loop.feed(UsageRead("s1", {"prompt_tokens": 1_100}))
        await trio.testing.wait_all_tasks_blocked()
        assert ["slow works on question 1"] == log
        assert (Full("s1"),) == ds.facts(Full)
        question = {"role": "assistant", "content": "Which one is the last?"}
        loop.feed(MessagesAppended("s1", [question]))

        # The swap: the same question, answered by the newcomer; what came meanwhile follows.
        new = await swap(ds, old, keep_the_end, name="compressor")
        assert new is not None
        assert ["slow works on question 1", "slow was cancelled"] == log
        assert ["+ Full s1", "+ Compressed s1", "- Full s1"] == screen.lines
        assert [(1, "compressor")] == [(fact.ask, fact.by) for fact in ds.facts(Compressed)]
        rows = loop.state("s1").messages.thaw()
        assert [SYSTEM, {"role": "user", "content": "(9 earlier messages were left out.)"}] == rows[:2]
        assert [letters(5, 5)[1], LAST, question] == rows[2:]
        assert (Serving("compressor", "compressor"),) == ds.facts(Serving)
        assert [] == [fact for fact in ds.facts(Observe) if fact.by == "slow"]

        # An answer of the old one that comes now is refused: nothing it says counts any more.
        screen.lines.clear()
        ds.actor("straggler").send(Answered("s1", 1, 1, "slow", messages=loop.state("s1").messages))
        assert ["! Refused s1"] == screen.lines
        assert rows == loop.state("s1").messages

        # Nobody serves: the question stands until somebody comes.
        await new.stop()
        loop.feed(MessagesAppended("s1", [*letters(6, 9), LAST]))
        loop.feed(UsageRead("s1", {"prompt_tokens": 1_200}))
        assert 2 == ds.facts(ShouldCompress)[0].ask
        await ds.spawn(keep_the_end, name="compressor#b")
        assert ["compressor#b"] == [fact.by for fact in ds.facts(where(Compressed, sid="s1"))]
        assert () == ds.facts(ShouldCompress) == ds.facts(Full)

        # The session ends, and what stood of it goes.
        loop.feed(SessionEnded("s1"))
        assert () == ds.facts(Compressed) == ds.facts(Transcript)
    assert ["slow works on question 1", "slow was cancelled"] == log
