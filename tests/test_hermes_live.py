"""Settings that change under a live agent, and engines that are changed: D12, without the host."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridges.hermes import hooks, live, place
from bridges.hermes.command import answer
from bridges.hermes.runtime import running
from engines import facts as f
from tests.hermes_adapter import watcher
from tests.hermes_adapter.desk import FAKE, PLAIN, Engines, commit, conversation, facts, hosted
from tests.hermes_adapter.fakes import Fake
from tests.hermes_adapter.fixtures import engines
from tests.hermes_adapter.watcher import HEARD, MADE, NAME

__all__ = ["engines"]


@pytest.fixture
def changed(engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Changes the settings, as somebody does who writes the file."""
    path = tmp_path / "config.yaml"
    path.write_text("0")
    monkeypatch.setattr(live, "config_path", lambda: path)
    monkeypatch.setattr(live, "EVERY", 0.0)
    watcher.forget()
    times = iter(range(1, 100))

    def change(compression: dict[str, Any] | None = None, **settings: Any) -> None:
        engines.settings = {**engines.settings, **settings}
        engines.compression = engines.compression if compression is None else compression
        at = next(times)
        path.write_text(str(at))
        os.utime(path, (at, at))

    return change


def turn(engine: Any) -> None:
    """A turn begins and ends."""
    from bridges.hermes.turns import Turn

    begun = Turn("t", "s1")
    begun.belongs(engine.seat)
    engine.seat.turn_started(begun)
    engine.seat.turn_ended("t", completed=True, interrupted=False)


def serving(engine: Any) -> list[str]:
    """The kinds that serve a conversation, as facts."""
    return [fact.engine.partition("#")[0] for fact in facts(f.Serving, engine)]


def compacted(engine: Any) -> str:
    """Who makes the next compaction."""
    rows = conversation(60, 12_000)
    done = engine.compress(rows, current_tokens=150_000)
    assert done is not rows
    commit(engine)
    (fact,) = facts(f.Compressed, engine)
    return str(fact.by.partition("#")[0])


# -- the budget -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("found", [{}, {"context": None}, {"context": {"engine": "compressor"}}])
def test_a_file_that_does_not_choose_us_changes_nothing(
    engines: Engines, changed: Callable[..., None], monkeypatch: pytest.MonkeyPatch, found: dict[str, Any]
) -> None:
    """One that is just being written is empty for a moment: nobody is plugged in or out by that, and no observer starts."""
    engine = engines.started("compressor", observers=["skills"], deadline=7.0)
    before = engine.seat.settings
    with monkeypatch.context() as emptied:
        emptied.setattr(place, "host_config", lambda: found)
        changed()
        turn(engine)
        assert before is engine.seat.settings
        assert ("compressor",) == engine.seat.kinds
    changed(deadline=8.0)
    turn(engine)
    assert 8.0 == engine.seat.settings.deadline


def test_another_threshold_counts_from_the_next_turn(engines: Engines, changed: Callable[..., None]) -> None:
    """As a fact too; what was read and counted stays."""
    engines.compression = {"threshold": 0.8}
    engine = engines.started("compressor", window=600_000)
    engine.update_from_response({"prompt_tokens": 400_000})
    engine.compression_count = 2
    changed({"threshold": 0.6})
    assert 480_000 == engine.threshold_tokens
    turn(engine)
    assert (360_000, 400_000, 2) == (engine.threshold_tokens, engine.last_prompt_tokens, engine.compression_count)
    assert [360_000] == [fact.threshold for fact in facts(f.Budget, engine)]
    assert engine.should_compress(400_000)


def test_it_counts_before_a_verdict_too(engines: Engines, changed: Callable[..., None]) -> None:
    """The host asks before it tells that a turn begins."""
    engines.compression = {"threshold": 0.8}
    engine = engines.started("compressor", window=600_000)
    assert not engine.should_compress(400_000)
    changed({"threshold": 0.6})
    assert not engine.should_defer_preflight_to_real_usage(400_000)
    assert engine.should_compress(400_000)
    assert 360_000 == engine.threshold_tokens


def test_the_built_in_is_retuned(engines: Engines, changed: Callable[..., None]) -> None:
    """Only what follows from the configuration is another; what it has read and counted stays."""
    engines.compression = {"threshold": 0.8, "protect_last_n": 20}
    engine = engines.started("builtin", window=600_000)
    front = engine.seat.hosted["builtin"].front
    front._previous_summary, front._ineffective_compression_count, front.compression_count = "so far", 1, 3
    engine.update_from_response({"prompt_tokens": 300_000})
    before = dict(vars(front))
    changed({"threshold": 0.6, "protect_last_n": 10, "target_ratio": 0.3})
    turn(engine)
    different = {name for name, value in vars(front).items() if value != before[name]}
    assert {
        *("threshold_percent", "_configured_threshold_percent", "threshold_tokens"),
        *("protect_last_n", "summary_target_ratio", "tail_token_budget"),
    } == different
    assert (360_000, 10) == (engine.threshold_tokens, engine.protect_last_n)
    assert [360_000] == [fact.threshold for fact in facts(f.Budget, engine)]


@pytest.mark.parametrize("kind", ["builtin", "compressor"])
def test_what_the_host_has_lowered_is_not_raised(engines: Engines, changed: Callable[..., None], kind: str) -> None:
    """It did so for a small summary model; a still lower threshold counts."""
    engines.compression = {"threshold": 0.8}
    engine = engines.started(kind, window=600_000)
    engine.threshold_tokens, engine.threshold_percent = 300_000, 0.5
    changed({"threshold": 0.9})
    turn(engine)
    assert (300_000, 0.5) == (engine.threshold_tokens, engine.threshold_percent)
    changed({"threshold": 0.4})
    turn(engine)
    assert 240_000 == engine.threshold_tokens


# -- guard, deadline, the rest ----------------------------------------------------------------------------------------


def test_another_guard(engines: Engines, changed: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was refused is taken."""
    monkeypatch.setattr(Fake, "plan", lambda _self, rows, _told: [rows[0], rows[2], rows[-1]])
    engine = engines.started(FAKE, guard="repair")
    rows = conversation()
    assert "tool" not in [row["role"] for row in engine.compress(rows)[:2]]
    changed(guard="record")
    turn(engine)
    assert "record" == engine.get_status()["guard"]
    assert [rows[0]["content"], rows[2]["content"], rows[-1]["content"]] == [
        row["content"] for row in engine.compress(rows)
    ]


def test_another_deadline(engines: Engines, changed: Callable[..., None]) -> None:
    """The engine is started anew, and says so; the same instance serves, with what it knows."""
    engine = engines.started(FAKE, deadline=200)
    assert [200.0] == [fact.seconds for fact in facts(f.Serving, engine)]
    before = hosted()
    changed(deadline=100)
    turn(engine)
    assert FAKE == compacted(engine)
    assert [100.0] == [fact.seconds for fact in facts(f.Serving, engine)]
    assert (before, 1) == (hosted(), len(Fake.made))


def test_the_same_settings_change_nothing(engines: Engines, changed: Callable[..., None]) -> None:
    """Somebody has written something else into the file."""
    engine = engines.started(FAKE)
    seat = engine.seat
    settings = seat.settings
    changed()
    turn(engine)
    assert (settings, 1) == (seat.settings, len(Fake.made))
    assert settings is seat.settings


def test_an_untouched_file_is_not_read(engines: Engines, changed: Callable[..., None]) -> None:
    """It is looked at for its time and size only."""
    engine = engines.started("compressor")
    engines.settings = {"engines": [FAKE]}
    turn(engine)
    assert ("compressor",) == engine.seat.kinds


def test_it_is_not_looked_at_all_the_time(
    engines: Engines, changed: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once in a while, and before each compaction."""
    monkeypatch.setattr(live, "EVERY", 1000.0)
    engine = engines.started("compressor")
    changed(engines=[FAKE])
    turn(engine)
    assert ("compressor",) == engine.seat.kinds
    assert FAKE == compacted(engine)


def test_a_file_that_cannot_be_read_changes_nothing(
    engines: Engines, changed: Callable[..., None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was before goes on, and the log has the reason."""
    engine = engines.started("compressor")

    def broken() -> Any:
        raise OSError("half a file")

    changed(engines=[FAKE])
    monkeypatch.setattr(engine.seat, "configuration", broken)
    turn(engine)
    assert ("compressor",) == engine.seat.kinds
    assert "half a file" in caplog.text


def test_switching_off_waits_for_the_next_agent(
    engines: Engines, changed: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """A conversation that goes on is not torn out of the dataspace; the log says so."""
    engine = engines.started("compressor")
    changed(enabled=False)
    turn(engine)
    turn(engine)
    assert ["active"] == [fact.state for fact in facts(f.Session, engine)]
    assert 1 == sum("counts from the next agent on" in message for message in caplog.messages)


def test_without_a_host_there_is_nothing_to_keep_up_with(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can say where the file is."""

    def nowhere() -> Path:
        raise ImportError("no host")

    monkeypatch.setattr(live, "config_path", nowhere)
    engine = engines.started("compressor")
    turn(engine)
    assert ("compressor",) == engine.seat.kinds


# -- engines ----------------------------------------------------------------------------------------------------------


def test_other_engines_count_from_the_next_crossing(engines: Engines, changed: Callable[..., None]) -> None:
    """Both ways, and back; the conversation and its count go on, questions are numbered on."""
    engine = engines.started("compressor")
    sid = engine.seat.cell.sid
    assert "compressor" == compacted(engine)
    for at, kind in enumerate([FAKE, "compressor", FAKE], start=2):
        changed(engines=[kind])
        assert kind == compacted(engine)
        assert [at] == [fact.ask for fact in facts(f.Compressed, engine)]
        assert ([kind], at) == (serving(engine), engine.compression_count)
        assert [kind] == engine.get_status()["engines"]
    assert sid == engine.seat.cell.sid


def test_a_newcomer_knows_what_its_predecessor_knew(engines: Engines, changed: Callable[..., None]) -> None:
    """Model, session, readings and counters; it hears of what comes, and who has gone hears no more."""
    engine = engines.started(FAKE)
    old = hosted()
    engine.update_from_response({"prompt_tokens": 77_000})
    engine.last_compression_rough_tokens = 5
    engine.compression_count = 4
    changed(engines=[PLAIN])
    turn(engine)
    facts(f.Session)
    new = hosted()
    assert new is not old
    assert [("update_model", "m", 200_000), ("bind", "s1"), ("start", "s1", None)] == new.heard[:3]
    assert (77_000, 4) == (new.last_prompt_tokens, new.compression_count)
    assert (77_000, 4) == (engine.last_prompt_tokens, engine.compression_count)
    heard = len(old.heard)
    engine.update_from_response({"prompt_tokens": 78_000})
    assert ("usage", {"prompt_tokens": 78_000}) in new.heard
    assert heard == len(old.heard)


def test_the_order_can_be_changed(engines: Engines, changed: Callable[..., None]) -> None:
    """The first that serves is in charge."""
    engine = engines.started("compressor", FAKE)
    assert engine.seat.in_charge() is None
    changed(engines=[FAKE, "compressor"])
    turn(engine)
    assert FAKE == compacted(engine)
    assert 1 == len(Fake.made)


def test_what_cannot_be_had_is_left_out(
    engines: Engines, changed: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """If nothing is left, those that were there go on."""
    engine = engines.started("compressor")
    changed(engines=["nonesuch", FAKE])
    turn(engine)
    assert FAKE == compacted(engine)
    changed(engines=["nonesuch"])
    turn(engine)
    assert FAKE == compacted(engine)
    assert "none of the engines nonesuch can be had" in caplog.text


def test_nobody_may_compact(engines: Engines, changed: Callable[..., None]) -> None:
    """An empty list, as at the start."""
    engine = engines.started(FAKE)
    changed(engines=[])
    turn(engine)
    rows = conversation()
    assert engine.compress(rows) is rows
    assert [] == serving(engine)


def test_a_newcomer_that_never_serves(engines: Engines, changed: Callable[..., None], monkeypatch: Any) -> None:
    """Those that were there go on, and are asked."""
    engine = engines.started("compressor")
    monkeypatch.setattr(live, "SETTLING", 0.05)
    seat = engine.seat

    def boots(cell: Any, kinds: Any) -> dict[str, Any]:
        return {cell.names[kind]: lambda me: me.publish(f.Noted("x", me.name)) for kind in kinds}

    monkeypatch.setattr(seat, "boots", boots)
    changed(engines=[FAKE])
    assert "compressor" == compacted(engine)
    assert ["compressor"] == serving(engine)


def test_changes_that_overtake_each_other(engines: Engines) -> None:
    """The last one counts; nobody is left behind."""
    engine = engines.started("compressor")
    facts(f.Session)
    runtime = running()
    assert runtime is not None
    held, done = threading.Event(), [threading.Event() for _ in range(3)]
    runtime.soon(lambda _desk: held.wait(5))  # so that all three come at once
    for kinds, event in zip((("builtin",), (FAKE, "builtin"), (FAKE,)), done, strict=True):
        assert engine.seat.engage(kinds, event.set)
    held.set()
    assert all(event.wait(5) for event in done)
    assert FAKE == compacted(engine)
    assert [FAKE] == serving(engine)
    assert [FAKE] == list(engine.seat.hosted)


def test_engines_change_before_the_conversation_begins(engines: Engines) -> None:
    """There is nobody to be stopped yet."""
    engine = engines.bare("compressor")
    engine.update_model(model="m", context_length=200_000)
    assert engine.seat.engage((FAKE,))
    engine.on_session_start("s1", platform="cli")
    assert FAKE == compacted(engine)
    assert [FAKE] == serving(engine)


def test_a_conversation_that_ends_while_its_engines_change(engines: Engines) -> None:
    """Nothing is left of either."""
    engine = engines.started("compressor")
    facts(f.Session)
    sid = engine.seat.cell.sid
    runtime = running()
    assert runtime is not None
    held = threading.Event()
    runtime.soon(lambda _desk: held.wait(5))
    engine.on_session_reset()
    engine.seat.engage((FAKE,))
    held.set()
    assert [] == facts(f.Serving, sid=sid)
    engine.should_compress(5)
    assert [FAKE] == serving(engine)


def test_what_was_changed_by_hand_stays(engines: Engines, changed: Callable[..., None]) -> None:
    """Until the file says something else about that very setting."""
    engine = engines.started("compressor", observers=[NAME])
    facts(f.Session)
    for raw in (f"swap compressor {FAKE}", f"unplug {NAME}"):
        answer(raw, acts=True)
    changed(guard="record")
    turn(engine)
    facts(f.Session)
    assert ((FAKE,), (), "record") == (engine.seat.kinds, engine.seat.settings.observers, engine.seat.settings.guard)
    engines.started("compressor", session="s2", observers=[NAME])
    assert [] == facts(f.Serving, role="observer")
    changed(engines=["builtin"], observers=[NAME, "tests.hermes_adapter.desk"])
    turn(engine)
    facts(f.Session)
    assert ("builtin",) == engine.seat.kinds
    assert [NAME] == [fact.engine for fact in facts(f.Serving, role="observer")]


# -- observers --------------------------------------------------------------------------------------------------------


def test_observers_come_and_go(engines: Engines, changed: Callable[..., None]) -> None:
    """With their aides: who stays is told, who is not wanted any more hears nothing more."""
    engine = engines.started("compressor")
    changed(observers=[NAME])
    engine.seat.refresh()
    facts(f.Session)
    turn(engine)
    facts(f.Session)
    (made,) = MADE
    assert [("context",), ("turn_ended",)] == [entry[:1] for entry in made.told]
    assert {"Session", "Transcript", "TurnStarted", "TurnEnded"} == {type(fact).__name__ for fact in HEARD}
    changed(observers=[NAME, "tests.hermes_adapter.desk"])
    turn(engine)
    assert ("changed", (NAME, "tests.hermes_adapter.desk")) in made.told
    assert 1 == len(MADE)
    facts(f.Session)
    HEARD.clear()
    changed(observers=[])
    turn(engine)
    facts(f.Session)
    assert ("ended", "") == made.told[-1]
    assert [] == [fact for fact in HEARD if not isinstance(fact, f.Noted)]
    assert engine.seat.aides is None


def test_observers_change_before_a_conversation_begins(engines: Engines, changed: Callable[..., None]) -> None:
    """They are there when it does."""
    engine = engines.bare("compressor")
    engine.update_model(model="m", context_length=200_000)
    changed(observers=[NAME])
    engine.seat.refresh()
    assert [] == MADE
    engine.on_session_start("s1", platform="cli")
    assert 1 == len(MADE)


def test_another_agent_of_the_process_is_not_concerned(engines: Engines, changed: Callable[..., None]) -> None:
    """Each reads for itself, when its own turn begins."""
    one, other = engines.started("compressor"), engines.started("compressor", session="s2")
    changed(engines=[FAKE])
    turn(one)
    assert ((FAKE,), ("compressor",)) == (one.seat.kinds, other.seat.kinds)
    assert {one.seat, other.seat} <= set(hooks.seats())
