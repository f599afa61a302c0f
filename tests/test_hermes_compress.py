"""The adapter's compress call: the wait, the offer, what is put back, and what becomes of engines that misbehave."""

from __future__ import annotations

import _thread
import copy
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

import pytest

from bridges.hermes import calls
from bridges.hermes.cell import Cell
from bridges.hermes.hooks import _turn_ended, _turn_opened
from bridges.hermes.runtime import _forget, current_runtime, running
from engines import facts as f
from tests.hermes_adapter.desk import FAKE, PLAIN, Engines, commit, conversation, facts, hosted
from tests.hermes_adapter.fakes import WHO, Fake
from tests.hermes_adapter.fixtures import engines

__all__ = ["engines"]

BOTH = pytest.mark.parametrize("kind", ["compressor", FAKE])


def large() -> list[dict[str, Any]]:
    """A conversation that our compressor, too, has to compact."""
    return conversation(60, 9000)


def crossed(engine: Any, tokens: int = 150_000) -> None:
    """The provider reports a prompt above the threshold, and the host asks."""
    engine.update_from_response({"prompt_tokens": tokens})
    assert engine.should_compress(tokens)


def waits(condition: Callable[[], Any]) -> None:
    """Wait for something that another thread does."""
    for _ in range(2000):
        if condition():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it did not happen")


# -- the ordinary way -------------------------------------------------------------------------------------------------


@BOTH
def test_a_compaction_is_published_once_it_is_taken(engines: Engines, kind: str) -> None:
    """The question stands, is answered, offered, and `Compressed` when the host has taken it; the input is as it was."""
    engine = engines.started(kind)
    crossed(engine)
    assert ["threshold"] == [fact.reason for fact in facts(f.ShouldCompress, engine)]
    rows = large()
    kept = copy.deepcopy(rows)
    done = engine.compress(rows, current_tokens=150_000)
    assert (kept, False, None) == (rows, engine._last_compress_aborted, engine._last_summary_error)
    assert [] == facts(f.Compressed, engine)
    assert 1 == len(facts(f.ShouldCompress, engine))
    commit(engine)
    (compressed,) = facts(f.Compressed, engine)
    assert (1, kind) == (compressed.ask, compressed.by.partition("#")[0])
    assert compressed.messages == done
    assert [] == facts(f.ShouldCompress, engine) + facts(f.Asked, engine)
    assert 1 == engine.compression_count


@BOTH
def test_what_is_returned_is_the_host_s_own(engines: Engines, kind: str) -> None:
    """Fresh rows, without the mark of stored ones; changing them changes nothing else."""
    engine = engines.started(kind)
    crossed(engine)
    rows = large()
    done = engine.compress(rows)
    commit(engine)
    assert not any("_db_persisted" in row for row in done)
    done[0]["content"] = "changed"
    assert "Count the parcels." == rows[0]["content"]
    assert "Count the parcels." == facts(f.Compressed, engine)[0].messages[0]["content"]


def test_the_work_is_done_in_the_caller_s_context(engines: Engines) -> None:
    """In another thread, in the context variables of the call (credentials and home are such in this host)."""
    engine = engines.started(FAKE)
    crossed(engine)
    token = WHO.set("robin")
    try:
        engine.compress(large())
    finally:
        WHO.reset(token)
    assert "robin False" == engine.who


@pytest.mark.parametrize(("told", "reason"), [({}, "overflow"), ({"force": True}, "manual")])
def test_a_call_that_nobody_was_asked_about(engines: Engines, told: dict[str, Any], reason: str) -> None:
    """Overflow and a compaction by hand come without a question; it is always tried."""
    engine = engines.started(FAKE)
    asked: list[Any] = []
    Fake.plan = lambda _self, messages, _told: asked.extend(facts(f.ShouldCompress, engine)) or messages[-1:]
    assert 1 == len(engine.compress(large(), **told))
    assert [reason] == [fact.reason for fact in asked]


@pytest.mark.parametrize("kinds", [("compressor",), (FAKE,), (FAKE, "compressor")])
def test_nothing_in_nothing_out(engines: Engines, kinds: tuple[str, ...]) -> None:
    """B20: an empty list stays the same list, and a short one comes back as it is."""
    engine = engines.started(*kinds)
    Fake.plan = lambda _self, messages, _told: messages
    for rows in (
        [],
        [{"role": "system", "content": "s"}],
        [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
    ):
        assert rows is engine.compress(rows)
        assert not engine._last_compress_aborted


def test_no_compressor_no_compaction(engines: Engines) -> None:
    """Facts decide: without an engine the host is told no, and a call it makes all the same is aborted."""
    engine = engines.started()
    engine.update_from_response({"prompt_tokens": 190_000})
    assert not engine.should_compress(190_000)
    assert ["threshold"] == [fact.reason for fact in facts(f.ShouldCompress, engine)]
    rows = large()
    assert rows is engine.compress(rows)
    assert engine._last_compress_aborted
    assert "no compressor is serving" in engine._last_summary_error


def test_an_engine_plugged_in_later_is_asked(engines: Engines) -> None:
    """A live swap: what begins to serve while the session runs is asked, and what was configured need not be there."""
    from engines.engine import serve

    engine = engines.started()
    crossing = {"prompt_tokens": 190_000}
    engine.update_from_response(crossing)
    assert not engine.should_compress(190_000)
    runtime = running()
    assert runtime is not None

    def boot(me: Any) -> None:
        serve(me, lambda _me, asked: asked.messages[-1:])

    runtime.ask(lambda desk: desk.me.spawn(boot, name="late"))
    facts(f.Serving)
    engine.update_from_response(crossing)
    assert engine.should_compress(190_000)
    assert 1 == len(engine.compress(large()))
    commit(engine)
    assert ["late"] == [fact.by for fact in facts(f.Compressed, engine)]


@contextmanager
def held_up() -> Iterator[None]:
    """Nothing gets through on the dataspace's thread meanwhile."""
    runtime, held, go_on = running(), threading.Event(), threading.Event()
    assert runtime is not None
    runtime.soon(lambda _desk: (held.set(), go_on.wait(30)))
    assert held.wait(30)
    try:
        yield
    finally:
        go_on.set()


def test_the_host_does_not_wait_for_the_dataspace(engines: Engines) -> None:
    """Question and answer go a shorter way; their facts and messages follow, each once, and refuse nothing."""
    engine = engines.started(FAKE)
    crossed(engine)
    heard: list[Any] = []
    refused(engine, heard)
    runtime, seen = running(), list[Any]()
    assert runtime is not None
    for kind in (f.Asked, f.Working, f.Compressed):
        runtime.ask(lambda desk, kind=kind: desk.me.observe(kind, appeared=seen.append))
    runtime.ask(lambda desk: desk.me.observe(f.Answered, heard=seen.append))
    with held_up():
        rows = large()
        assert engine.compress(rows) is not rows
        assert not seen
        commit(engine)
    assert 1 == len(facts(f.Compressed, engine))
    assert [f.Asked, f.Answered, f.Compressed] == [type(each) for each in seen]
    assert [] == heard == facts(f.Working) == facts(f.Asked)


def test_two_answers_on_their_way_are_two(engines: Engines) -> None:
    """The first is dropped by the host, not refused as late, though its message comes after the second answer."""
    engine = engines.started(FAKE)
    crossed(engine)
    heard: list[Any] = []
    refused(engine, heard)
    with held_up():
        rows = large()
        assert engine.compress(rows) is not rows
        assert engine.compress(rows) is not rows
        commit(engine)
    assert 1 == len(facts(f.Compressed, engine))
    assert ["dropped by host"] == [message.reason for message in heard]


def test_who_still_works_is_not_asked_again(engines: Engines) -> None:
    """Also where the facts have not said yet that it does: an interrupted call runs on, and the next engine is asked."""
    engine = engines.started(FAKE, "compressor")
    crossed(engine)
    at_work, go_on = threading.Event(), threading.Event()
    Fake.plan = lambda _self, rows, _told: (at_work.set(), go_on.wait(30)) and rows[-1:]
    interrupter = threading.Thread(target=lambda: (at_work.wait(30), _thread.interrupt_main()))
    with held_up():
        interrupter.start()
        with pytest.raises(KeyboardInterrupt):
            engine.compress(large())
    Fake.plan = None
    interrupter.join(30)
    rows = large()
    assert engine.compress(rows) is not rows
    commit(engine)
    assert ["compressor"] == [fact.by.partition("#")[0] for fact in facts(f.Compressed, engine)]
    assert [f"{FAKE}#"] == [fact.engine.partition("#")[0] + "#" for fact in facts(f.Working)]
    go_on.set()
    waits(lambda: not facts(f.Working))


# -- the offer --------------------------------------------------------------------------------------------------------


def refused(engine: Any, heard: list[Any]) -> None:
    """Gather refusals from now on."""
    facts(f.Session, engine)
    runtime = running()
    assert runtime is not None
    runtime.ask(lambda desk: desk.me.observe(f.Refused, heard=heard.append))


@pytest.mark.parametrize("goes_on", ["usage", "verdict", "defer", "compress", "turn"])
@BOTH
def test_an_offer_that_is_not_taken_is_dropped(engines: Engines, goes_on: str, kind: str) -> None:
    """The host goes on without having taken it: refused, nothing compressed, and the engine is as before."""
    engine = engines.started(kind)
    _turn_opened(turn_id="t1")
    engine.get_active_compression_failure_cooldown()
    crossed(engine)
    heard: list[Any] = []
    refused(engine, heard)
    rows = large()
    assert rows is not engine.compress(rows)
    assert 1 == engine.compression_count
    if goes_on == "usage":
        engine.update_from_response({"prompt_tokens": 10})
    elif goes_on == "verdict":
        engine.should_compress(10)
    elif goes_on == "defer":
        engine.should_defer_preflight_to_real_usage(10)
    elif goes_on == "compress":
        engine.compress([])
        engine.compress(rows)
    else:
        _turn_ended(turn_id="t1")
    facts(f.Session, engine)
    assert ["dropped by host"] == [message.reason for message in heard]
    assert [] == facts(f.Compressed, engine)
    if goes_on != "compress":
        assert 0 == engine.compression_count
        if kind == FAKE:
            assert [] == engine.notes


def test_what_came_meanwhile_is_heard_again(engines: Engines) -> None:
    """Put back, an engine is told what it was told since its call."""
    engine = engines.started(FAKE)
    crossed(engine)
    engine.compress(large())
    engine.on_session_end("s1", [])
    engine.on_session_start("s2", boundary_reason="compression")
    engine.update_from_response({"prompt_tokens": 10})
    assert [("end", "s1", 0), ("start", "s2", "compression"), ("usage", {"prompt_tokens": 10})] == engine.heard[-3:]
    assert [] == engine.notes


def test_a_compaction_that_was_taken_is_kept(engines: Engines) -> None:
    """After the commit nothing is put back any more."""
    engine = engines.started(FAKE)
    crossed(engine)
    engine.compress(large())
    commit(engine)
    engine.update_from_response({"prompt_tokens": 10})
    assert (["compressed"], 1) == (engine.notes, engine.compression_count)


def test_overlapping_calls(engines: Engines) -> None:
    """A second call on the same engine takes the place of the first, which gets its list back; one answer is taken."""
    engine = engines.started(FAKE)
    crossed(engine)
    go, entered = threading.Event(), threading.Event()

    def slow(_self: Fake, messages: Any, _told: Any) -> Any:
        entered.set()
        go.wait(10)
        return messages[-1:]

    Fake.plan = slow
    first, second = large(), [*large(), {"role": "assistant", "content": "More."}, {"role": "user", "content": "Last."}]
    results: dict[str, Any] = {}
    threads = [
        threading.Thread(target=lambda: results.update(first=engine.compress(first))),
        threading.Thread(target=lambda: results.update(second=engine.compress(second))),
    ]
    threads[0].start()
    assert entered.wait(10)
    threads[1].start()
    threads[0].join(10)
    assert results["first"] is first
    go.set()
    threads[1].join(10)
    commit(engine)
    assert len(facts(f.Compressed, engine)) <= 1
    assert "second" in results


# -- waiting ----------------------------------------------------------------------------------------------------------


def test_an_interrupt_gets_through(engines: Engines) -> None:
    """Ctrl-C in the waiting thread: it is raised at once, the question is gone, the engine is as before (C02)."""
    engine = engines.started(FAKE)
    crossed(engine)
    go, back = threading.Event(), threading.Event()

    def interrupts(self: Fake, messages: Any, _told: Any) -> Any:
        _thread.interrupt_main(signal.SIGINT)
        go.wait(10)
        back.set()
        return messages[-1:]

    Fake.plan = interrupts
    rows = large()
    kept = copy.deepcopy(rows)
    with pytest.raises(KeyboardInterrupt):
        engine.compress(rows)
    assert (kept, []) == (rows, facts(f.Asked, engine) + facts(f.Compressed, engine))
    go.set()
    assert back.wait(10)
    waits(lambda: not engine.seat.hosted[FAKE].stuck)
    assert ([], 0) == (engine.notes, engine.compression_count)
    Fake.plan = None
    waits(lambda: not facts(f.Working))
    assert 3 == len(engine.compress(rows))


@pytest.mark.parametrize("fails", [False, True])
def test_what_comes_after_the_end_of_its_conversation_is_nobodys(
    engines: Engines, caplog: pytest.LogCaptureFixture, fails: bool
) -> None:
    """/new while an engine works: the call ends with the host's own list, and the log has only what the engine raises."""
    engine = engines.started(FAKE)
    crossed(engine)
    rows = large()

    def begins_anew(_self: Fake, messages: Any, _told: Any) -> Any:
        engine.on_session_reset()
        waits(lambda: not facts(f.Serving, sid=sid))
        return messages[len(messages)] if fails else messages[-1:]

    sid = engine.seat.cell.sid
    Fake.plan = begins_anew
    assert rows is engine.compress(rows)
    waits(lambda: not engine.seat.hosted[FAKE].stuck)
    assert [] == facts(f.Working)
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == fails
    assert not [text for text in told if "was not taken" in text]


def test_an_engine_that_hangs_is_left_behind(engines: Engines) -> None:
    """Past its deadline the next is asked; until its call returns, cheap calls do not touch it and it is not asked."""
    engine = engines.started(FAKE, "compressor", deadline=0.05)
    crossed(engine)
    go = threading.Event()
    Fake.plan = lambda _self, messages, _told: go.wait(10) and messages[-1:]
    rows = large()
    done = engine.compress(rows)
    commit(engine)
    assert ["compressor"] == [fact.by.partition("#")[0] for fact in facts(f.Compressed, engine)]
    before = len(hosted().heard)
    engine.update_from_response({"prompt_tokens": 20_000})
    engine.should_compress(20_000)
    assert before == len(hosted().heard)
    assert 1 == len(facts(f.Working))
    go.set()
    waits(lambda: not facts(f.Working) and not engine.seat.hosted[FAKE].stuck)
    assert [] == hosted().notes
    engine.update_from_response({"prompt_tokens": 21_000})
    assert ("usage", {"prompt_tokens": 21_000}) == hosted().heard[-1]
    assert done


@pytest.mark.parametrize("kind", [FAKE])
def test_a_failure_pauses_automatic_tries(engines: Engines, kind: str) -> None:
    """C03, C14: aborted, nothing lost, no automatic try for a while; by hand it is tried at once."""
    engine = engines.started(kind)
    crossed(engine)

    def fails(_self: Fake, _messages: Any, _told: Any) -> Any:
        raise ValueError("no credit for sk-secret-1234")

    Fake.plan = fails
    rows = large()
    assert rows is engine.compress(rows)
    assert engine._last_compress_aborted
    assert "ValueError: no credit for [redacted]" in engine._last_summary_error
    assert [] == engine.notes
    engine.update_from_response({"prompt_tokens": 151_000})
    assert not engine.should_compress(151_000)
    assert ["pauses" in fact.reason for fact in facts(f.Blocked, engine)] == [True]
    Fake.plan = None
    assert 3 == len(engine.compress(rows, force=True))
    assert not engine._last_compress_aborted
    commit(engine)
    crossed(engine)


@BOTH
def test_a_failure_is_forgotten_with_its_session(engines: Engines, kind: str) -> None:
    """After /new the host sees nothing of the old session's aborted compaction (B16)."""
    engine = engines.started(kind, deadline=5)
    Fake.plan = lambda _self, _messages, _told: 1 / 0
    rows: list[Any] = [*large(), 17]
    assert rows is engine.compress(rows)
    assert engine._last_compress_aborted
    engine.on_session_reset()
    assert (False, None) == (engine._last_compress_aborted, engine._last_summary_error)


def test_an_engine_that_finds_nothing_to_do(engines: Engines) -> None:
    """Its own list back is no failure: nothing is aborted, and what it noted down stays noted."""
    engine = engines.started(FAKE)
    crossed(engine)
    Fake.plan = lambda _self, messages, _told: messages
    rows = large()
    assert rows is engine.compress(rows)
    assert (False, ["compressed"]) == (engine._last_compress_aborted, engine.notes)


def test_its_own_abort_is_seen(engines: Engines) -> None:
    """An engine that follows the host's abort protocol is seen to follow it."""
    engine = engines.started(FAKE)
    crossed(engine)

    def aborts(self: Fake, messages: Any, _told: Any) -> Any:
        self._last_compress_aborted, self._last_summary_error = True, "no summary"
        return messages

    Fake.plan = aborts
    rows = large()
    assert rows is engine.compress(rows)
    assert (True, "no summary") == (engine._last_compress_aborted, engine._last_summary_error)


def test_somebody_else_s_result_hides_its_abort(engines: Engines) -> None:
    """The first engine aborts, the second succeeds: the host must not see the abort."""
    engine = engines.started(FAKE, "compressor")
    crossed(engine)

    def aborts(self: Fake, messages: Any, _told: Any) -> Any:
        self._last_compress_aborted = True
        return messages

    Fake.plan = aborts
    assert len(engine.compress(large())) > 0
    assert (False, True, 1) == (
        engine._last_compress_aborted,
        engine._last_compression_made_progress,
        engine.compression_count,
    )
    commit(engine)
    assert ["compressor"] == [fact.by.partition("#")[0] for fact in facts(f.Compressed, engine)]


def test_the_input_is_safe_from_its_engine(engines: Engines) -> None:
    """What an engine does to the list it gets, and then fails, is done to a copy."""
    engine = engines.started(FAKE)

    def ruins(_self: Fake, messages: Any, _told: Any) -> Any:
        messages[0]["content"] = "ruined"
        del messages[1:]
        raise RuntimeError("after the damage")

    Fake.plan = ruins
    rows = large()
    kept = copy.deepcopy(rows)
    assert rows is engine.compress(rows)
    assert kept == rows


@pytest.mark.parametrize("guard", ["repair", "record"])
@BOTH
@pytest.mark.parametrize(
    "odd", [float("nan"), {1, 2}, {3: "three"}, object(), [[{"at": b"bytes"}]], [date(2026, 1, 1)]]
)
def test_messages_that_are_no_json(engines: Engines, kind: str, guard: str, odd: Any) -> None:
    """What the host holds beside its messages is no reason not to compact: rows that are kept are given back as they were."""
    engine = engines.started(kind, guard=guard)
    rows = [*large()[:-1], {"role": "user", "content": "Now.", "stamp": odd, "_db_persisted": True}]
    rows[4] = {**rows[4], "stamp": odd}  # one that goes, or is made shorter
    before = [dict(row) for row in rows]
    crossed(engine)
    done = engine.compress(rows, current_tokens=150_000)
    assert len(str(done)) < len(str(rows))
    assert rows == before
    assert "Now." == done[-1]["content"]
    commit(engine)
    (fact,) = facts(f.Compressed, engine)
    assert "Now." == fact.messages[-1]["content"]
    for stamp in [row["stamp"] for row in done if "stamp" in row]:
        assert (type(odd), repr(odd)[:9]) == (type(stamp), repr(stamp)[:9])


def test_messages_that_hold_themselves(engines: Engines) -> None:
    """Nor is a list that has no end."""
    engine = engines.started(FAKE)
    endless: list[Any] = []
    endless.append(endless)
    rows = [*large()[:-1], {"role": "user", "content": "Now.", "stamp": endless}]
    crossed(engine)
    assert "Now." == engine.compress(rows)[-1]["content"]


def test_messages_that_are_none(engines: Engines) -> None:
    """A row that is no message at all: the host gets its own list back, and hears what is wrong."""
    engine = engines.started(FAKE)
    rows: list[Any] = [*large(), 17]
    assert rows is engine.compress(rows)
    assert engine._last_compress_aborted
    assert "must be a dict, not int" in engine._last_summary_error


# -- guards of a hosted engine ----------------------------------------------------------------------------------------


def test_a_block_of_the_engine_in_charge_is_its_own(engines: Engines) -> None:
    """Alone it blocks; where another serves too, that one is asked instead."""
    alone = engines.started(PLAIN)
    alone.update_from_response({"prompt_tokens": 150_000})
    assert not alone.should_compress(150_000)
    assert alone._automatic_compression_blocked()
    assert {"remaining_seconds": 12.0} == alone.get_active_compression_failure_cooldown()
    assert 1 == len(facts(f.Blocked, alone))
    both = engines.started(PLAIN, "compressor", session="s2")
    facts(f.Serving)
    both.update_from_response({"prompt_tokens": 150_000})
    assert both.should_compress(150_000)
    assert not both._automatic_compression_blocked()
    assert both.get_active_compression_failure_cooldown() is None
    both.compress(large())
    commit(both)
    assert ["compressor"] == [fact.by.partition("#")[0] for fact in facts(f.Compressed, both)]
    assert not any(heard[0] == "compress" for heard in hosted().heard)


def test_whose_compaction_it_was(engines: Engines) -> None:
    """The host's word that a compaction is complete reaches the engine that made it, and no other."""
    engine = engines.started(PLAIN)
    engine.compress(large())
    commit(engine)
    engine.record_completed_compaction(used_fallback=False)
    assert ("completed", False) == hosted().heard[-1]
    Fake.plan = lambda _self, messages, _told: messages
    other = engines.started(PLAIN, "compressor", session="s2")
    other.compress(large())
    commit(other)
    other.record_completed_compaction(used_fallback=False)
    assert ("completed", False) not in hosted().heard


def test_our_own_guards_without_a_hosted_engine(engines: Engines) -> None:
    """Two compactions in a row that did not help block automatic ones, with a reason; by hand it is tried (C08)."""
    engine = engines.started("compressor")
    for at in range(2):
        crossed(engine, 151_000 + at * 20_000)
        assert engine.compress(conversation(60 + at * 10, 9000)) is not None
        commit(engine)
        engine.update_from_response({"prompt_tokens": 152_000 + at * 20_000})
    engine.update_from_response({"prompt_tokens": 195_000})
    assert not engine.should_compress(195_000)
    assert ["left the prompt above" in fact.reason for fact in facts(f.Blocked, engine)] == [True]
    rows = conversation(90, 9000)
    assert rows is not engine.compress(rows, force=True)


# -- the thread -------------------------------------------------------------------------------------------------------


def test_a_dead_thread_is_replaced(engines: Engines) -> None:
    """The dataspace ends: the next call starts another one, and the conversation stands there as it was."""
    engine = engines.started("compressor")
    engine.update_from_response({"prompt_tokens": 10})
    first = running()
    assert first is not None
    first.stop()
    assert not first.alive
    assert not engine.should_compress(1)
    assert current_runtime() is not first
    assert [10] == [reading.prompt for reading in facts(f.Usage, engine)]
    engine.update_from_response({"prompt_tokens": 11})
    assert [11] == [reading.prompt for reading in facts(f.Usage, engine)]
    crossed(engine)
    assert len(engine.compress(large())) > 0


def test_a_fork_starts_its_own(engines: Engines) -> None:
    """What a forked child forgets: the parent's thread is not its own."""
    engine = engines.started("compressor")
    first = running()
    assert first is not None
    _forget()
    assert running() is None
    engine.update_from_response({"prompt_tokens": 12})
    assert running() not in {None, first}
    assert [12] == [reading.prompt for reading in facts(f.Usage, engine)]
    first.stop()


@pytest.mark.parametrize("kind", ["compressor", FAKE])
def test_no_moment_without_an_engine_in_charge(engines: Engines, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """While a conversation is shown for the first time, or by another dataspace, its engines count as serving already.

    Observers begin to serve before they do, and a verdict of the host may fall in between.
    """
    seen: list[tuple[str, ...]] = []
    choose = Cell.choose

    def recorded(cell: Cell, found: Any) -> None:
        choose(cell, found)
        seen.append(cell.engines.compressors)

    monkeypatch.setattr(Cell, "choose", recorded)
    engine = engines.started(kind, observers=["skills", "telemetry"])
    crossed(engine)
    for again in (False, True):
        if again:
            stopped = running()
            assert stopped is not None
            stopped.stop()
            seen.clear()  # as long as there is none there is nobody to be asked, and nobody looks
            crossed(engine)
        assert facts(f.Serving, engine, role="compressor")
        assert {1} == {len(names) for names in seen}


def test_without_a_dataspace_the_engine_is_called_directly(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be started any more, hosted engines still compact."""
    from bridges.hermes import place

    monkeypatch.setattr(place, "current_runtime", lambda: None)
    engine = engines.started(FAKE)
    engine.update_from_response({"prompt_tokens": 150_000})
    assert engine.should_compress(150_000)
    assert 3 == len(engine.compress(large()))
    commit(engine)
    assert 1 == engine.compression_count
    ours = engines.started("compressor")
    rows = large()
    assert rows is ours.compress(rows)
    assert ours._last_compress_aborted


def test_a_decision_that_never_comes(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is bounded, whatever happens to the dataspace."""
    engine = engines.started("compressor", deadline=0.01)
    facts(f.Serving)
    runtime = running()
    assert runtime is not None
    rows = large()
    with monkeypatch.context() as patched:
        patched.setattr(calls, "SPARE", 0.0)
        patched.setattr(calls, "NAP", 0.001)
        patched.setattr(runtime, "soon", lambda *_args: None)
        assert rows is engine.compress(rows)
    assert "no decision in time" in engine._last_summary_error


def test_cheap_calls_wait_for_nobody(engines: Engines) -> None:
    """While the dataspace's thread is busy, what the host asks is answered all the same."""
    engine = engines.started("compressor")
    facts(f.Serving)
    runtime = running()
    assert runtime is not None
    go = threading.Event()
    runtime.soon(lambda _desk: go.wait(30))
    engine.update_from_response({"prompt_tokens": 150_000})
    assert engine.should_compress(150_000)
    assert not engine.should_defer_preflight_to_real_usage(150_000)
    assert 150_000 == engine.last_prompt_tokens
    engine.on_session_end("s1", [])
    engine.on_session_start("s1", boundary_reason="compression")
    assert engine.get_status()
    go.set()
    assert [150_000] == [reading.prompt for reading in facts(f.Usage, engine)]
