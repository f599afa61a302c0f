"""The loop as an actor: facts kept up to date, engines that come and go, deadlines under trio."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from dataspace import CAPTURE, Crashed, Dataspace, Facet, open_dataspace, where
from engines import Loop, Policy, serve
from engines.facts import (
    Answered,
    Asked,
    Blocked,
    Budget,
    CompactionFailed,
    Compressed,
    Refused,
    Serving,
    Session,
    ShouldCompress,
    Transcript,
    Usage,
    Working,
)
from engines.loop import events as e
from engines.loop import view
from engines.loop.actor import UnknownSessionError
from engines.loop.alarms import Alarms
from engines.loop.timer import keep_time, settled
from engines.messages import Messages
from tests.loop_driver import policy, rows

SHOWN = (Session, Budget, Usage, Transcript, ShouldCompress, Asked, Compressed, CompactionFailed, Blocked)


def usage(sid: str, prompt: int, **told: Any) -> e.UsageRead:
    """A reading of one conversation."""
    return e.UsageRead(sid, {"prompt_tokens": prompt}, **told)


def start(loop: Loop, *sids: str, threshold: int = 100) -> None:
    """Have conversations begin, with three messages each."""
    for sid in sids:
        loop.feed(e.SessionStarted(sid, threshold=threshold, messages=rows("u1", "u2", "u3")))


def texts(loop: Loop, sid: str) -> list[str]:
    """The texts of a context."""
    return [row["content"] for row in loop.state(sid).messages]


def compressor(*result: str) -> Any:
    """The boot function of an engine that answers with these texts, or declines without any."""

    def boot(me: Facet) -> None:
        serve(me, lambda _me, _asked: rows(*result) if result else None)

    return boot


class Heard:
    """Everything that is said of some classes, in order."""

    def __init__(self, ds: Dataspace, *classes: type) -> None:
        self.log: list[tuple[str, Any]] = []
        me = ds.actor("listener")
        for cls in classes:
            me.observe(
                cls,
                appeared=lambda fact: self.log.append(("+", fact)),
                vanished=lambda fact: self.log.append(("-", fact)),
                heard=lambda fact: self.log.append(("!", fact)),
            )

    def take(self) -> list[tuple[str, Any]]:
        taken, self.log = self.log, []
        return taken


def test_one_compaction_without_an_event_loop() -> None:
    """The facts of one compaction, in the order in which they come and go."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy())
    start(loop, "s1")
    ds.spawn(compressor("short"), name="a")
    heard = Heard(ds, ShouldCompress, Asked, Compressed, Transcript, Usage)
    assert [("+", Transcript("s1", 1))] == heard.take()
    loop.feed(usage("s1", 120))
    assert [
        ("+", Usage("s1", 1)),
        ("+", ShouldCompress("s1", 1)),
        ("+", Asked("s1", 1, 1, "a")),
        ("-", Asked("s1", 1, 1, "a")),
        ("+", Transcript("s1", 2)),
        ("+", Compressed("s1", 1, "a")),
        ("-", Transcript("s1", 1)),
        ("-", ShouldCompress("s1", 1)),
    ] == heard.take()
    assert ["short"] == texts(loop, "s1")
    assert (Session("s1"), Budget("s1", 0, 100)) == (*ds.facts(Session), *ds.facts(Budget))


def test_a_reading_disturbs_nobody_but_those_who_read() -> None:
    """D05, D13: usage is replaced without a gap, and below the threshold nothing else is said at all."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy())
    start(loop, *(f"s{n}" for n in range(50)))
    gaps: list[object] = []
    me = ds.actor("reader")
    me.observe(where(Usage, sid=CAPTURE), vanished=gaps.append)
    heard = Heard(ds, ShouldCompress, Asked, Serving, Transcript, Budget, Session)
    heard.take()
    for n in range(1000):
        loop.feed(usage(f"s{n % 50}", n % 100))
    assert ([], []) == (gaps, heard.take())
    assert 50 == len(ds.facts(Usage))


def test_two_compressors_give_one_result() -> None:
    """D10: one is asked; the other may do what it likes, and what it answers unasked is refused."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy())
    start(loop, "s1")

    def pushy(me: Facet) -> None:
        def push(asked: Asked) -> None:
            me.send(Answered(asked.sid, asked.ask, asked.n, me.name, messages=rows("pushed")))

        me.observe(Asked, appeared=push)

    ds.spawn(pushy, name="pushy")
    ds.spawn(compressor("old"), name="compressor")
    ds.spawn(compressor("new"), name="compressor#2")
    heard = Heard(ds, Refused)
    loop.feed(usage("s1", 120))
    assert ["new"] == texts(loop, "s1")
    assert [("!", Refused("s1", 1, "pushy", "late or not asked for"))] == heard.take()


def test_an_engine_that_crashes_leaves_the_question_open() -> None:
    """C21, D06: nothing is marked as done by an engine that fails; the next one gets the question, the crash stands."""
    ds = Dataspace(on_crash=lambda _crash, _error: None)
    loop = Loop(ds.actor("loop"), policy())
    start(loop, "s1")

    def broken(me: Facet) -> None:
        def fail(_asked: Asked) -> None:
            me.publish(Blocked("s1", "never seen"))
            raise RuntimeError("no thanks")

        me.observe(where(Asked, to=me.name), appeared=fail)
        me.publish(Serving(me.name, "compressor"))

    ds.spawn(broken, name="broken")
    heard = Heard(ds, Blocked, ShouldCompress)
    loop.feed(usage("s1", 120))
    assert [("+", ShouldCompress("s1", 1))] == heard.take()
    assert () == ds.facts(Asked)
    assert [("broken stopped serving", 1)] == [(f.reason, f.ask) for f in ds.facts(CompactionFailed)]
    assert ["broken"] == [crash.actor for crash in ds.facts(Crashed)]
    ds.spawn(compressor("short"), name="sound")
    assert ["short"] == texts(loop, "s1")
    assert () == ds.facts(CompactionFailed)
    assert 2 == loop.state("s1").n


def test_a_swap_loses_no_crossing() -> None:
    """D12: the old engine goes, the crossing stands and says why; the new one is asked at once."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy())
    start(loop, "s1", "s2")
    old = ds.spawn(compressor("old"), name="compressor")
    old.stop()
    loop.feed(usage("s1", 120))
    loop.feed(usage("s2", 99))
    assert ["no compressor is serving"] == [failed.reason for failed in ds.facts(CompactionFailed)]
    ds.spawn(compressor("new"), name="compressor#b")
    assert ["new"] == texts(loop, "s1")
    loop.feed(e.BudgetChanged("s2", threshold=90))
    assert ["new"] == texts(loop, "s2")
    assert {"s1": 1, "s2": 1} == {fact.sid: fact.ask for fact in ds.facts(Compressed)}


def test_reactions_do_not_raise_the_question_again() -> None:
    """C20: who reacts to a question by raising the pressure gets no second one while it stands, and no loop."""
    ds = Dataspace(max_turns=2000)
    loop = Loop(ds.actor("loop"), policy())
    start(loop, "s1")

    def eager(me: Facet) -> None:
        me.observe(ShouldCompress, appeared=lambda q: loop.feed(usage(q.sid, 500)))
        me.observe(Compressed, appeared=lambda c: loop.feed(e.MessagesAppended(c.sid, rows("telemetry"))))

    ds.spawn(eager)
    heard = Heard(ds, ShouldCompress)
    loop.feed(usage("s1", 120))
    assert [("+", ShouldCompress("s1", 1))] == heard.take()
    ds.spawn(compressor("short"), name="a")
    assert [("-", ShouldCompress("s1", 1))] == heard.take()
    assert ["short", "telemetry"] == texts(loop, "s1")
    assert () == ds.facts(Crashed)


def test_ended_conversations_leave_nothing_and_are_forgotten() -> None:
    """D09: a thousand conversations later, the newest few are remembered and nothing else is left of any."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy(), clock=lambda: 0.0, keep_ended=3)
    ds.spawn(compressor(), name="a")
    before = ds.statistics()
    for n in range(1000):
        start(loop, f"s{n}")
        loop.feed(usage(f"s{n}", 120))
        loop.feed(e.SessionEnded(f"s{n}"))
    assert [Session(f"s{n}", "ended") for n in (997, 998, 999)] == list(ds.facts(Session))
    after = ds.statistics()
    assert (before.facts + 3, before.observers) == (after.facts, after.observers)
    assert ("s997", "s998", "s999") == tuple(loop.sids())
    assert loop.alarms.earliest() is None
    loop.feed(usage("s999", 500))
    assert () == ds.facts(ShouldCompress)


def test_numbers_are_not_used_again_by_a_forgotten_name() -> None:
    """Who comes back under a name that was forgotten goes on counting, so no late answer can fit."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy(), keep_ended=0)
    ds.spawn(compressor("short"), name="a")
    for expected in (1, 2, 3):
        start(loop, "s1")
        loop.feed(usage("s1", 120))
        assert [expected] == [fact.ask for fact in ds.facts(Compressed)]
        loop.feed(e.SessionEnded("s1"))
        assert () == ds.facts(Session)


def test_a_conversation_that_starts_again_is_not_forgotten() -> None:
    """An ended one that is active again does not count among those to forget."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy(), keep_ended=1)
    for sid in ("s1", "s2", "s1"):
        start(loop, sid)
        loop.feed(e.SessionEnded(sid))
    assert [Session("s1", "ended")] == list(ds.facts(Session))
    start(loop, "s1")
    start(loop, "s3")
    loop.feed(e.SessionEnded("s3"))
    assert {"s1": "active", "s3": "ended"} == {fact.sid: fact.state for fact in ds.facts(Session)}


def test_who_is_not_known_is_said() -> None:
    """An unknown name is an error for who feeds the loop, and a refusal for who answers."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy())
    with pytest.raises(UnknownSessionError, match="no session 'nope'"):
        loop.feed(usage("nope", 1))
    with pytest.raises(UnknownSessionError):
        loop.state("nope")
    heard = Heard(ds, Refused)
    ds.actor("x").send(Answered("nope", 1, 1, "x", messages=rows("y")))
    assert [("!", Refused("nope", 1, "x", "there is no such conversation"))] == heard.take()
    with pytest.raises(RuntimeError, match="clock"):
        loop.tick()


def test_events_fed_within_a_turn_follow_it() -> None:
    """Who feeds the loop from a callback may start a conversation and go on with it; all comes after that turn."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy(), keep_ended=0)
    seen: list[tuple[Any, ...]] = []

    def boot(me: Facet) -> None:
        loop.feed(e.SessionStarted("s1", threshold=100))
        loop.feed(usage("s1", 50))
        loop.feed(e.SessionEnded("s1"))
        loop.feed(usage("s1", 60))  # comes when it is forgotten
        seen.append(ds.facts(Session))
        me.observe(Usage, appeared=lambda fact: seen.append((fact,)))

    ds.spawn(boot)
    assert [(), (Usage("s1", 1),)] == seen
    assert () == ds.facts(Session)


def test_engines_may_serve_one_conversation() -> None:
    """Who serves one conversation is asked there and not elsewhere; what stands elsewhere is not its business."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy())
    start(loop, "s1", "s2")
    for sid in ("s1", "s2"):
        loop.feed(usage(sid, 120))

    def boot(me: Facet) -> None:
        serve(me, lambda _me, _asked: rows("own"), sid="s2")

    own = ds.spawn(boot, name="own")
    assert ["u1", "u2", "u3"] == texts(loop, "s1")
    assert ["own"] == texts(loop, "s2")
    own.stop()
    assert [True, False] == [loop.state(sid).question is not None for sid in ("s1", "s2")]


def test_a_newcomer_ends_the_backoff_of_conversations_without_a_question() -> None:
    """A compressor that begins to serve makes every conversation forget its failures, so the next pause is short."""
    ds = Dataspace()
    now = [0.0]
    loop = Loop(ds.actor("loop"), policy(), clock=lambda: now[0])
    start(loop, "s1")

    def failing(me: Facet) -> None:
        def work(_me: Facet, _asked: Asked) -> None:
            raise OSError("down")

        serve(me, work)

    ds.spawn(failing, name="a")
    loop.feed(usage("s1", 120))
    loop.feed(usage("s1", 10))
    now[0] = 30.0
    loop.tick()
    assert () == ds.facts(CompactionFailed)
    ds.spawn(failing, name="b")
    loop.feed(usage("s1", 120))
    assert [60.0] == [failed.retry_at for failed in ds.facts(CompactionFailed)]


def test_who_does_not_listen_is_passed_over() -> None:
    """An engine that serves without observing what it is asked, or stops to observe it, is followed by the next."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy(compressors=("deaf", "fickle")))
    start(loop, "s1")
    ds.actor("telemetry").observe(Asked)
    ds.actor("deaf").publish(Serving("deaf", "compressor"))
    fickle = ds.actor("fickle")
    interest = fickle.observe(where(Asked, to="fickle"))
    fickle.publish(Serving("fickle", "compressor"))
    loop.feed(usage("s1", 120))
    assert ["fickle"] == [asked.to for asked in ds.facts(Asked)]
    ds.spawn(compressor("short"), name="a")
    fickle.observe(Usage)
    fickle.retract(interest)
    assert ["short"] == texts(loop, "s1")
    assert 3 == loop.state("s1").n


def test_who_comes_back_is_asked_again_in_the_same_round() -> None:
    """An engine that had declined and is replaced under its name while another is at work comes after that one."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy(compressors=("first", "second")))
    start(loop, "s1")
    first = ds.spawn(compressor(), name="first")
    second = ds.actor("second")
    second.observe(where(Asked, to="second"))
    second.publish(Serving("second", "compressor"))
    loop.feed(usage("s1", 120))
    (asked,) = ds.facts(Asked)
    assert "second" == asked.to
    first.stop()
    ds.spawn(compressor("short"), name="first")
    assert (asked,) == ds.facts(Asked)
    second.send(Answered("s1", asked.ask, asked.n, "second"))
    assert (["short"], 3) == (texts(loop, "s1"), loop.state("s1").n)


def test_a_question_that_goes_at_once_is_not_looked_after() -> None:
    """Two events in one turn: the question is gone before anybody could ask whether it was heard."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy())
    start(loop, "s1")
    ds.actor("deaf").publish(Serving("deaf", "compressor"))
    with ds.actor("host").turn():
        loop.feed(usage("s1", 120))
        loop.feed(usage("s1", 10))
    assert () == ds.facts(CompactionFailed)
    assert 1 == loop.state("s1").n


def test_an_engine_at_work_elsewhere_is_passed_over() -> None:
    """`Working` keeps an engine from being asked about that conversation, and about no other."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy())
    start(loop, "s1", "s2")
    engine = ds.spawn(compressor("short"), name="a")
    handle = engine.publish(Working("a", "s1"))
    for sid in ("s1", "s2"):
        loop.feed(usage(sid, 120))
    assert ["u1", "u2", "u3"] == texts(loop, "s1")
    assert ["short"] == texts(loop, "s2")
    engine.retract(handle)
    assert ["short"] == texts(loop, "s1")


def test_a_loop_that_comes_late_learns_who_serves() -> None:
    """Engines may be there first; the loop hears of them and of what they are at."""
    ds = Dataspace()
    ds.spawn(compressor("short"), name="a")
    loop = Loop(ds.actor("loop"), policy())
    start(loop, "s1")
    loop.feed(usage("s1", 120))
    assert ["short"] == texts(loop, "s1")


def test_the_default_policy_is_strict() -> None:
    """Without a policy an answer with errors or faults is refused, and the context stays."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"))
    start(loop, "s1")
    heard = Heard(ds, Refused)

    def boot(me: Facet) -> None:
        serve(me, lambda _me, _asked: [{"role": "wizard", "content": "x"}] * 5)

    ds.spawn(boot, name="a")
    loop.feed(usage("s1", 120))
    assert ["u1", "u2", "u3"] == texts(loop, "s1")
    ((_, refused),) = heard.take()
    assert "wizard" in refused.reason
    assert refused.reason.endswith("more")


def test_readings_that_are_no_identity_are_shown_too() -> None:
    """Another name or model of a session changes no fact, and is there to read."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy())
    start(loop, "s1")
    heard = Heard(ds, Session)
    heard.take()
    loop.feed(e.SessionRotated("s1", "host-2"))
    assert [] == heard.take()
    assert ["host-2"] == [session.host_session for session in ds.facts(Session)]


def test_what_is_told_of_a_session_later_is_shown_and_nothing_else_changes() -> None:
    """A name takes the place of the one that was known; what is not told, or is known already, stays as it was."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy())
    start(loop, "s1")

    def told(**news: str) -> tuple[Session, tuple[str | None, ...]]:
        loop.feed(e.SessionDescribed("s1", **news))
        (session,) = ds.facts(Session)
        return session, (session.state, session.provider, session.parent)

    (began,) = ds.facts(Session)
    assert (began, ("active", "p1", None)) == told(provider="p1")
    known, said = told(parent="s0")
    assert ("active", "p1", "s0") == said
    same, _ = told(provider="p1")
    nothing, _ = told()
    assert known is same is nothing
    assert ("active", "p2", "s0") == told(provider="p2")[1]


EVENTS = st.one_of(
    st.builds(usage, st.just("s1"), st.sampled_from([10, 90, 120])),
    st.builds(e.MessagesAppended, st.just("s1"), st.just(rows("more"))),
    st.builds(e.CompactionRequested, st.just("s1"), st.sampled_from(["manual", "ahead"])),
    st.builds(e.BudgetChanged, st.just("s1"), threshold=st.sampled_from([50, 100]), model=st.sampled_from(["a", "b"])),
    st.builds(e.SessionRotated, st.just("s1"), st.sampled_from(["h1", "h2"])),
    st.builds(e.SessionDescribed, st.just("s1"), provider=st.sampled_from([None, "p1", "p2"])),
    st.builds(e.SessionEnded, st.just("s1")),
    st.builds(e.SessionStarted, st.just("s1"), threshold=st.just(100)),
    st.sampled_from(["answer", "decline", "come or go"]),
)


@given(st.lists(EVENTS, max_size=30))
def test_what_stands_is_what_follows_from_the_state(events: list[Any]) -> None:
    """After every event the dataspace holds exactly the facts of the state, with their latest readings."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy())
    start(loop, "s1")
    engine = ds.actor("a")
    engine.observe(where(Asked, to="a"))
    serving = None
    for event in events:
        asked = ds.facts(Asked)
        if event == "come or go":
            serving = engine.retract(serving) if serving else engine.publish(Serving("a", "compressor"))
        elif isinstance(event, str):
            for fact in asked:
                messages = rows("short") if event == "answer" else None
                engine.send(Answered(fact.sid, fact.ask, fact.n, "a", messages=messages))
        else:
            loop.feed(event)
        standing = {id(fact) for cls in SHOWN for fact in ds.facts(cls)}
        assert {id(fact) for fact in view(loop.state("s1"))} == standing


def test_alarms_give_the_earliest() -> None:
    """One time for each name; changed and dropped times are forgotten, and who waits is told of earlier ones."""
    alarms = Alarms()
    told: list[float | None] = []
    alarms.changed = lambda: told.append(alarms.earliest())
    for sid, at in [("a", 5.0), ("b", 7.0), ("c", 3.0), ("c", 3.0), ("c", None), ("a", 6.0), ("d", None)]:
        alarms.set(sid, at)
    assert [5.0, 3.0] == told
    assert 6.0 == alarms.earliest()
    assert () == alarms.due(5.9)
    assert ("a", "b") == alarms.due(7.0)
    assert alarms.earliest() is None


# -- under trio -------------------------------------------------------------------------------------------------------


async def test_deadlines_and_retries_come_by_themselves(autojump_clock: Any) -> None:
    """An engine that hangs is called off after its time, the next is asked, and a failed round is tried again."""
    async with open_dataspace() as ds:
        loop = Loop(ds.actor("loop"), policy(compressors=("slow", "quick"), deadlines={"slow": 10.0}))
        keep_time(loop)
        log: list[tuple[str, float]] = []

        def slow(me: Facet) -> None:
            async def work(_me: Facet, asked: Asked) -> None:
                log.append((f"{asked.n} asked", trio.current_time() - began))
                try:
                    await trio.sleep_forever()
                finally:
                    log.append((f"{asked.n} off", trio.current_time() - began))

            serve(me, work)

        await ds.spawn(slow, name="slow")
        start(loop, "s1")
        began = trio.current_time()
        loop.feed(usage("s1", 120))
        await trio.sleep(9.9)
        assert ["u1", "u2", "u3"] == texts(loop, "s1")
        await trio.sleep(0.2)
        assert [("slow did not answer within 10 s", 40.0)] == [
            (failed.reason, (failed.retry_at or 0) - began) for failed in ds.facts(CompactionFailed)
        ]
        await trio.sleep(30)
        assert [("1 asked", 0.0), ("1 off", 10.0), ("2 asked", 40.0)] == log
        await ds.spawn(compressor("short"), name="quick")
        await trio.sleep(10)
        assert ["short"] == texts(loop, "s1")


async def test_a_deadline_moves_with_the_work(autojump_clock: Any) -> None:
    """The loop wakes for the earliest of many, and an answer in time takes its deadline away."""
    async with open_dataspace() as ds:
        loop = Loop(ds.actor("loop"), policy(deadline=20.0), clock=trio.current_time)
        keep_time(loop)

        def patient(me: Facet) -> None:
            async def work(_me: Facet, asked: Asked) -> Any:
                await trio.sleep(5 if asked.sid == "s1" else 50)
                return rows("short")

            serve(me, work)

        await ds.spawn(patient, name="a")
        start(loop, "s1", "s2")
        loop.feed(usage("s2", 120))
        await trio.sleep(1)
        loop.feed(usage("s1", 120))
        await trio.sleep(18.9)
        assert (["short"], ["u1", "u2", "u3"]) == (texts(loop, "s1"), texts(loop, "s2"))
        assert () == ds.facts(CompactionFailed)
        await trio.sleep(0.2)
        assert ["s2"] == [failed.sid for failed in ds.facts(CompactionFailed)]


async def test_one_can_wait_for_a_decision(autojump_clock: Any) -> None:
    """Settled: the work on the question is over, whether anybody could do it or not; shadows do not count."""
    async with open_dataspace() as ds:
        loop = Loop(ds.actor("loop"), policy(compressors=("first", "second")))

        def boot(me: Facet, role: Any, *result: str) -> None:
            async def work(_me: Facet, _asked: Asked) -> Any:
                await trio.sleep(60 if role == "shadow" else 1)
                return rows(*result) if result else None

            serve(me, work, role=role)

        await ds.spawn(boot, "compressor", name="first")
        await ds.spawn(boot, "shadow", name="shadow")
        second = await ds.spawn(boot, "compressor", "short", name="second")
        start(loop, "s1", "s2")
        began = trio.current_time()
        await settled(loop, "s1")
        loop.feed(usage("s1", 120))
        await settled(loop, "s1")
        assert (["short"], 2.0) == (texts(loop, "s1"), trio.current_time() - began)
        assert ["shadow"] == [asked.to for asked in ds.facts(Asked)]
        await second.stop()
        loop.feed(usage("s2", 120))
        await settled(loop, "s2")
        assert ["s2"] == [failed.sid for failed in ds.facts(CompactionFailed)]
        with pytest.raises(UnknownSessionError):
            await settled(loop, "s3")


async def test_an_engine_stopped_at_work_is_followed_by_the_next(autojump_clock: Any) -> None:
    """Swap in the middle of a compaction: the new engine is asked with a new number, the old one's task ends."""
    async with open_dataspace() as ds:
        loop = Loop(ds.actor("loop"), policy())
        ended: list[int] = []

        def hanging(me: Facet) -> None:
            async def work(_me: Facet, asked: Asked) -> None:
                try:
                    await trio.sleep_forever()
                finally:
                    ended.append(asked.n)

            serve(me, work)

        old = await ds.spawn(hanging, name="compressor")
        start(loop, "s1")
        loop.feed(usage("s1", 120))
        await trio.testing.wait_all_tasks_blocked()
        await ds.spawn(compressor("new"), name="compressor#b")
        assert ["u1", "u2", "u3"] == texts(loop, "s1")
        await old.stop()
        assert ["new"] == texts(loop, "s1")
        assert [1] == ended
        assert 1 == loop.state("s1").asks


def test_a_bug_in_the_loop_is_seen_and_harms_one_conversation(caplog: pytest.LogCaptureFixture) -> None:
    """What goes wrong for one conversation is logged with its traceback; it goes on as it was, and so do the others."""

    def broken(messages: Messages) -> int:
        if "bad" in str(messages[0]["content"]):
            raise ZeroDivisionError
        return 7

    ds = Dataspace()
    loop = Loop(ds.actor("loop"), Policy(estimate=broken))
    for sid, word in (("s1", "bad"), ("s2", "good")):
        loop.feed(e.SessionStarted(sid, threshold=100, messages=Messages.of([{"role": "user", "content": word}])))
    before = loop.state("s1")
    with caplog.at_level(logging.ERROR, "engines.loop"):
        loop.feed(e.UsageRead("s1", {}))
        loop.feed(e.UsageRead("s2", {}))
    assert [ZeroDivisionError] == [record.exc_info and record.exc_info[0] for record in caplog.records]
    assert before is loop.state("s1")
    assert [("s2", 7)] == [(fact.sid, fact.prompt) for fact in ds.facts(Usage)]
    assert () == ds.facts(Crashed)
