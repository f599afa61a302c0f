"""The engine: from facts to entries, sums that are exact, a queue that never makes anybody wait."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from dataspace import Dataspace, Facet, open_dataspace
from engines import facts as f
from engines.loop.actor import Loop
from engines.loop.events import SessionEnded, SessionStarted, UsageRead
from engines.loop.policy import Policy
from engines.telemetry import BRAIN_LEAST, KINDS, EpisodicLog, Telemetry, telemetry
from engines.telemetry.history import accounts, read_logs
from engines.telemetry.ledger import Ledger
from engines.telemetry.spool import Spool, _finish
from tests.conftest import CHECKOUT


def entries(path: Path) -> list[dict[str, Any]]:
    """The lines of a log."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


class Stage:
    """A dataspace without an event loop, a host in it, and the engine with one log for each profile."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        self.ds = Dataspace(on_crash=lambda _crash, _error: None)
        self.host = self.ds.actor("host")
        self.now = 1_000_000.0
        self.engine = Telemetry(self.log_for, env={}, clock=lambda: self.now, **options)
        self.actor = self.ds.spawn(self.engine.boot, name="telemetry")

    def log_for(self, session: f.Session) -> EpisodicLog:
        """The log of its profile."""
        return EpisodicLog(self.root / f"{session.profile or 'default'}.jsonl")

    def begin(self, sid: str = "s1", **told: Any) -> Any:
        """A session begins; `end` takes what comes back."""
        return self.host.publish(f.Session(sid, **{"profile": "fin", **told}))

    def end(self, handle: Any, sid: str = "s1", why: str = "session_reset") -> None:
        """Its real end."""
        self.host.replace(handle, f.Session(sid, "ended", ended=why))

    def written(self, profile: str = "fin") -> list[dict[str, Any]]:
        """What is in a profile's log once all that happened is written."""
        assert self.engine.flush(10)
        return entries(self.root / f"{profile}.jsonl")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A stage of one's own."""
    made = Stage(tmp_path)
    yield made
    made.engine.flush(10)


def told(entry: dict[str, Any]) -> dict[str, Any]:
    """The figures of an entry."""
    found: dict[str, Any] = json.loads(entry["detail"])
    return found


# -- what is written --------------------------------------------------------------------------------------------------


def test_every_kind_of_entry_with_its_weight(stage: Stage) -> None:
    """Each happening leaves its entry, with the importance, pain and outcome that the table gives it."""
    host, session = stage.host, stage.begin()
    happenings: list[tuple[str, str, Any]] = [
        ("usage", "context", f.Usage("s1", 1, prompt=10, completion=2)),
        ("tool", "read_file", f.ToolCalled("s1", "c1", "read_file", args='{"path": "a"}', status="ok", result="x")),
        ("tool-failed", "terminal", f.ToolCalled("s1", "c2", "terminal", args='{"command": "ls"}', status="error")),
        ("malformed", "hook", f.ToolCalled("s1", "c3", "terminal", args='{"command": "l')),
        ("compaction", "context", f.Compressed("s1", 1, "compressor", tokens_before=9, tokens_after=4, seconds=0.5)),
        ("refused", "context", f.Refused("s1", 2, "other", "too late")),
        ("compaction-failed", "context", f.CompactionFailed("s1", 3, reason="nobody could")),
        ("blocked", "context", f.Blocked("s1", "twice in vain")),
        ("skill-loaded", "tdd", f.SkillLoaded("s1", "tdd", "ab12", "deduplicated")),
        ("skill-pruned", "tdd", f.SkillPruned("s1", "tdd", "ab12", file="x.md")),
        ("skill-reloaded", "tdd", f.SkillLoaded("s1", "tdd", "ab12", "reloaded")),
        ("skill-too-large", "big", f.SkillTooLarge("s1", "big", "cd34", tokens=9, limit=5)),
        ("loop-invalid", "context", f.LoopInvalid("s1", 1, ("tdd",))),
        ("delegated", "delegation", f.Delegated("s1", "s2", task="count\nthe stamps")),
        ("note", "note", f.Noted("s1", "never push on a Friday", "model")),
        ("snapshot-failed", "snapshots", f.SnapshotFailed("s1", "reset", "disk full")),
        ("gave-up", "x", f.GaveUp("x", 5, "broken")),
    ]
    for _, _, fact in happenings:
        (host.send if type(fact) in f.MESSAGES else host.publish)(fact)
    stage.ds.spawn(lambda _me: 1 / 0, name="bad")
    stage.end(session)
    expected = [(kind, skill) for kind, skill, _ in happenings] + [("crash", "bad"), ("session", "session")]
    found = stage.written()
    assert [skill for _, skill in expected] == [entry["skill"] for entry in found]
    for (kind, _), entry in zip(expected, found, strict=True):
        weight = KINDS[kind]
        assert (weight.importance, weight.pain, weight.result) == (
            entry["importance"], entry["pain_score"], entry["result"],
        ), kind  # fmt: skip
        assert ["s1"] == entry["evidence_ids"][:1] or kind in {"gave-up", "crash"}
        assert "fin" == entry["source"]["profile"]
        assert entry["reflection"] or kind == "usage"
    assert {kind for kind, _ in expected} | {"dropped"} == set(KINDS)


def test_a_rollup_at_the_real_end_and_only_there(stage: Stage) -> None:
    """Its sums are those of all that happened; nothing is written while the session goes on."""
    session = stage.begin()
    stage.host.publish(f.Budget("s1", 100, 80))
    usage = None
    for at in range(1, 4):
        usage = stage.host.replace(usage, f.Usage("s1", at, prompt=10 * at, completion=1, cache_read=5, reasoning=2))
    stage.host.send(f.TurnStarted("s1", "t1"))
    stage.host.send(f.TurnEnded("s1", "t1"))
    stage.host.send(f.ToolCalled("s1", "c1", "x", status="error", seconds=1.25))
    stage.host.publish(f.Compressed("s1", 1, "c", tokens_before=90, tokens_after=30, seconds=2.0))
    assert not [entry for entry in stage.written() if entry["skill"] == "session"]
    stage.now += 60
    stage.end(session)
    rollup = stage.written()[-1]
    assert {
        "ended": "session_reset", "lasted": 60.0, "turns": 1, "responses": 3, "prompt": 60, "completion": 3, "cache_read": 15,
        "reasoning": 6, "peak": 30, "tools": 1, "tool_failures": 1, "tool_lost": 1.25, "failures": 1, "compactions": 1,
        "saved": 60, "waited": 2.0,
    } == told(rollup)  # fmt: skip
    assert {"prompt": 10, "threshold": 80, "context_length": 100, "completion": 1} == {
        name: told(stage.written()[0])[name] for name in ("prompt", "threshold", "context_length", "completion")
    }


def test_a_session_that_is_gone_has_ended_too(stage: Stage) -> None:
    """A loop that takes a session back without an end leaves a rollup that says so."""
    stage.host.retract(stage.begin())
    assert ["gone"] == [told(entry)["ended"] for entry in stage.written()]


def test_figures_stay_readable_however_large(stage: Stage) -> None:
    """A rollup with nothing that is 0, and an entry with a long reason full of quotes, are still JSON within 500 characters."""
    session = stage.begin()
    tally = stage.engine.ledger.tally("s1")
    assert tally is not None
    for name in tally.sums.__slots__:
        if not name.startswith("_"):
            setattr(tally.sums, name, 123_456_789)
    stage.host.send(f.Refused("s1", 1, "x", '"\n' * 2000))
    stage.end(session)
    refused, rollup = stage.written()
    assert {"ask": 1, "by": "x"}.items() <= told(refused).items()
    assert 123_456_789 == told(rollup)["prompt"]
    assert max(len(entry["detail"]) for entry in (refused, rollup)) <= 500


def test_secrets_do_not_reach_the_log(stage: Stage) -> None:
    """Neither from arguments nor from results, reasons and notes."""
    key, host = "sk-" + "a1B2" * 10, stage.host
    stage.begin()
    host.send(f.ToolCalled("s1", key, "terminal", args=json.dumps({"command": f"echo {key}"}), result=f"x {key}"))
    host.send(f.Noted("s1", f"the key is {key}"))
    host.send(f.Refused("s1", 1, "x", f"no {key}"))
    host.publish(f.CompactionFailed("s1", 1, reason=f"token={key}"))
    host.send(f.Delegated("s1", "s2", task=f"use {key}"))
    assert 5 == len(stage.written())
    assert "a1B2a1B2" not in json.dumps([{**entry, "evidence_ids": []} for entry in stage.written()])


def test_below_the_threshold_nothing_is_written(tmp_path: Path) -> None:
    """A brain gets what is worth remembering, the local log all; one session may have both."""
    logs = [EpisodicLog(tmp_path / "local"), EpisodicLog(tmp_path / "brain", least=BRAIN_LEAST)]
    ds, engine = Dataspace(), Telemetry(lambda _session: logs)
    ds.spawn(engine.boot, name="telemetry")
    host = ds.actor("host")
    host.publish(f.Session("s1"))
    host.publish(f.Usage("s1", 1, prompt=5))
    host.send(f.SkillLoaded("s1", "tdd", "ab", "loaded"))
    host.send(f.ToolCalled("s1", "c", "x"))
    assert engine.flush(10)
    assert (3, ["x"]) == (len(entries(tmp_path / "local")), [entry["action"] for entry in entries(tmp_path / "brain")])


def test_a_fact_nobody_introduced_makes_its_session(stage: Stage) -> None:
    """A tool call of a session that was never told of is written for the profile of the process."""
    stage.host.send(f.ToolCalled("s9", "c", "x"))
    stage.host.publish(f.Budget("s8", 1, 1))
    assert ["default"] == [entry["source"]["profile"] for entry in stage.written("default")]
    assert 1 == stage.engine.ledger.sessions()


def test_what_a_host_gives_that_is_no_text_costs_nobody_his_log(stage: Stage) -> None:
    """A missing result, arguments that are a number: the entry is made of what there is, and the engine lives."""
    odd: Any = {"args": 7, "result": None, "status": None}
    stage.host.send(f.ToolCalled("s1", "c1", "x", **odd))
    stage.host.send(f.ToolCalled("s1", "c2", "y", result=7))  # type: ignore[arg-type]
    stage.host.send(f.Delegated("s1", "s2", task=None))  # type: ignore[arg-type]
    assert ["hook:malformed_payload", "y", "delegated"] == [entry["action"] for entry in stage.written("default")]


def test_what_comes_after_the_end_is_not_counted(stage: Stage) -> None:
    """A late tool call does not bring an ended session back."""
    stage.end(stage.begin())
    stage.host.send(f.ToolCalled("s1", "c", "x"))
    assert (1, 0) == (len(stage.written()), stage.engine.ledger.sessions())


# -- whose it is ------------------------------------------------------------------------------------------------------


def test_two_profiles_interleaved_in_one_process(stage: Stage) -> None:
    """Every line is in its profile's log and names it, and a profile does not change in the midst of a session."""
    for sid, profile in (("a", "fin"), ("b", "law")):
        stage.begin(sid, profile=profile)
    for number in range(50):
        stage.host.send(f.ToolCalled("ab"[number % 2], f"c{number}", f"{'ab'[number % 2]}-{number}"))
    stage.begin("a", profile="law")  # somebody else says otherwise: it is the same session
    stage.host.send(f.ToolCalled("a", "c", "a-last"))
    for profile, sid, count in (("fin", "a", 26), ("law", "b", 25)):
        found = stage.written(profile)
        assert {(profile, sid)} == {(entry["source"]["profile"], entry["action"][0]) for entry in found}
        assert count == len(found)


@pytest.mark.parametrize(
    ("env", "home", "profile"),
    [
        ({}, None, "default"),
        ({"AGENT_PROFILE": "Ops"}, "/h/profiles/fin", "Ops"),
        ({}, "/h/profiles/fin", "fin"),
        ({}, "/h", "default"),
    ],
)
def test_t01_a_session_without_a_profile_gets_one(
    tmp_path: Path, env: dict[str, str], home: str | None, profile: str
) -> None:
    """T01: resolved at the start of the session, from its own home."""
    path = tmp_path / "log"
    ds, engine = Dataspace(), Telemetry(lambda _session: EpisodicLog(path), env=env)
    ds.spawn(engine.boot, name="telemetry")
    host = ds.actor("host")
    host.publish(f.Session("s1", home=home))
    env["AGENT_PROFILE"] = "another"  # what is settled is settled
    host.send(f.ToolCalled("s1", "c", "x"))
    assert engine.flush(10)
    assert [profile] == [entry["source"]["profile"] for entry in entries(path)]


def test_cron_and_flush_leave_nothing_unless_asked(tmp_path: Path) -> None:
    """Nor do their children; with `without` empty they are logged like others."""
    for options, count in (({}, 0), ({"without": frozenset()}, 3)):
        root = tmp_path / str(count)
        stage = Stage(root, **options)
        stage.begin("c", platform="cron")
        stage.begin("d", platform="flush")
        stage.begin("e", parent="c")
        for sid in "cde":
            stage.host.send(f.ToolCalled(sid, "k", "x"))
        assert count == len(stage.written())


def test_a_log_that_cannot_be_chosen_costs_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The engine lives on, and says once what went wrong."""

    def log_for(session: f.Session) -> EpisodicLog | None:
        if session.sid == "bad":
            raise RuntimeError("no disk")
        return None if session.sid == "none" else EpisodicLog(tmp_path / "log")

    ds, engine = Dataspace(), Telemetry(log_for)
    ds.spawn(engine.boot, name="telemetry")
    host = ds.actor("host")
    for sid in ("bad", "none", "good"):
        host.send(f.ToolCalled(sid, "c", sid))
    assert engine.flush(10)
    assert ["good"] == [entry["action"] for entry in entries(tmp_path / "log")]
    assert 1 == sum("no log could be chosen" in record.message for record in caplog.records)


# -- counted once -----------------------------------------------------------------------------------------------------


def test_t11_a_response_counts_once(stage: Stage) -> None:
    """T11: however often it is published, and also when a resumed session replays it, under any number."""
    session = stage.begin()
    for seq in (1, 2, 3):
        stage.host.publish(f.Usage("s1", seq, prompt=100, response_id="r1"))
    stage.end(session)
    again = stage.begin("s1-resumed")
    stage.host.publish(f.Usage("s1-resumed", 1, prompt=100, response_id="r1"))
    stage.host.publish(f.Usage("s1-resumed", 2, prompt=50, response_id="r2"))
    stage.end(again, "s1-resumed")
    rollups = [told(entry) for entry in stage.written() if entry["skill"] == "session"]
    assert [(1, 100), (1, 50)] == [(one["responses"], one["prompt"]) for one in rollups]
    assert 2 == sum(entry["action"] == "usage" for entry in stage.written())


def test_t10_the_providers_own_compaction_is_told_apart(tmp_path: Path) -> None:
    """T10: the pressure is 23k, and what the provider's own step has read is counted beside it."""
    ds, engine = Dataspace(), Telemetry(lambda _session: EpisodicLog(tmp_path / "log"))
    ds.spawn(engine.boot, name="telemetry")
    loop = Loop(ds.actor("loop"), Policy())
    loop.feed(SessionStarted("s1", context_length=200_000, threshold=150_000))
    usage = {"input_tokens": 23_000, "output_tokens": 10, "iterations": [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500}, {"type": "message", "input_tokens": 23_000, "output_tokens": 10},
    ]}  # fmt: skip
    loop.feed(UsageRead("s1", usage))
    loop.feed(SessionEnded("s1"))
    assert engine.flush(10)
    reading, rollup = (told(entry) for entry in entries(tmp_path / "log"))
    assert (23_000, 180_000) == (reading["prompt"], reading["side_prompt"])
    assert (23_000, 23_000, 180_000, 3_500) == tuple(
        rollup[n] for n in ("prompt", "peak", "side_prompt", "side_completion")
    )


def test_t09_two_calls_of_one_tool(stage: Stage) -> None:
    """T09: calls of one batch are told apart by their ids."""
    stage.begin()
    for call in ("c1", "c2"):
        stage.host.send(f.ToolCalled("s1", call, "skill_view", args='{"name": "tdd"}'))
    assert [["s1", "c1"], ["s1", "c2"]] == [entry["evidence_ids"] for entry in stage.written()]


def test_an_estimate_is_nothing_a_provider_has_counted(stage: Stage) -> None:
    """It is written, and shows in the peak, but in no sum of tokens."""
    session = stage.begin()
    stage.host.publish(f.Usage("s1", 1, prompt=500, estimated=True))
    stage.host.publish(f.Usage("s1", 2, prompt=100))
    stage.end(session)
    rollup = told(stage.written()[-1])
    assert (1, 100, 500) == tuple(rollup[name] for name in ("responses", "prompt", "peak"))
    assert told(stage.written()[0])["estimated"] is True


def test_an_engine_that_starts_again_counts_nothing_twice(stage: Stage) -> None:
    """What stands when it comes back has been heard; what went meanwhile and stands anew has not."""
    stage.begin()
    host = stage.host
    pruned = host.publish(f.SkillPruned("s1", "tdd", "ab"))
    host.publish(f.Compressed("s1", 1, "c"))
    host.publish(f.Usage("s1", 1, prompt=5))
    stage.ds.spawn(lambda _me: 1 / 0, name="bad")
    stage.actor.stop()
    host.retract(pruned)
    stage.ds.spawn(stage.engine.boot, name="telemetry")
    host.publish(f.SkillPruned("s1", "tdd", "ab"))
    actions = [entry["action"] for entry in stage.written()]
    assert ["skill tdd pruned", "compaction by c", "usage", "bad crashed", "skill tdd pruned"] == actions


def test_time_waited_where_the_loop_has_no_clock(stage: Stage) -> None:
    """A compaction that does not say how long it took is timed from when it was wanted; a failure from the first question."""
    session = stage.begin()
    host = stage.host
    host.publish(f.ShouldCompress("s1", 1))
    stage.now += 2
    host.publish(f.Asked("s1", 1, 1, "c"))
    stage.now += 3
    host.publish(f.Compressed("s1", 1, "c", tokens_before=9, tokens_after=1))
    host.publish(f.ShouldCompress("s1", 2))
    stage.now += 100
    host.publish(f.Asked("s1", 2, 2, "c"))
    host.publish(f.Asked("s1", 2, 3, "r", "reviser"))
    stage.now += 7
    host.publish(f.CompactionFailed("s1", 2))
    stage.end(session)
    assert 12.0 == told(stage.written()[-1])["waited"]


def test_a_clock_that_is_set_back_takes_no_time_away(stage: Stage) -> None:
    """Nor does a duration that is none: sums of time stay numbers, and never fall."""
    session = stage.begin()
    stage.host.publish(f.ShouldCompress("s1", 1))
    stage.now -= 500
    stage.host.publish(f.Compressed("s1", 1, "comp", tokens_before=9, tokens_after=5))
    stage.host.publish(f.Asked("s1", 2, 1, "comp"))
    stage.now -= 500
    stage.host.publish(f.CompactionFailed("s1", 2, reason="none could"))
    for seconds in (float("inf"), -5.0, 2.0):
        stage.host.send(f.ToolCalled("s1", f"c{seconds}", "t", status="error", seconds=seconds))
    stage.end(session)
    written = stage.written()
    assert sorted(entry["timestamp"] for entry in written) == [entry["timestamp"] for entry in written]
    sums = told(written[-1])
    assert [0, 2.0, 3, None] == [sums["lasted"], sums["tool_lost"], sums["tool_failures"], sums.get("waited")]


def test_a_long_name_of_a_call_is_cut(stage: Stage) -> None:
    """A tool's name, its status and its id may be anything; an entry of it stays short, and shows no secret."""
    key = "sk-" + "a1B2" * 12
    stage.begin()
    stage.host.send(f.ToolCalled("s1", "c" * 100_000, f"{key} {'t' * 100_000}", status="s" * 100_000))
    stage.host.send(f.SkillLoaded("s1", f"{key} {'n' * 100_000}", "0" * 64, "loaded"))
    for entry in stage.written():
        assert 25_000 > len(json.dumps(entry))
        assert "a1B2" not in json.dumps(entry)


def test_a_crash_is_told_once_to_each_profile(stage: Stage) -> None:
    """Also to one whose last session is over; and to nobody where there never was one."""
    stage.ds.spawn(lambda _me: 1 / 0, name="early")
    sessions = [stage.begin(sid, profile=profile) for sid, profile in (("a", "fin"), ("b", "fin"), ("c", "law"))]
    stage.ds.spawn(lambda _me: 1 / 0, name="both")
    for sid, session in zip("abc", sessions, strict=True):
        stage.end(session, sid)
    stage.ds.spawn(lambda _me: 1 / 0, name="late")
    for profile, expected in (("fin", ["both crashed"]), ("law", ["both crashed", "late crashed"])):
        assert expected == [entry["action"] for entry in stage.written(profile) if "crashed" in entry["action"]]


def test_who_leaves_no_log_hides_no_crash(tmp_path: Path) -> None:
    """A session of a scheduler, begun last, is no reason not to tell the others of its profile; each log once."""
    stage = Stage(tmp_path)
    logs = {sid: EpisodicLog(tmp_path / f"{sid}.log") for sid in ("a", "b")}
    stage.engine._log_for = lambda session: logs[session.sid]
    sessions = [stage.begin("a"), stage.begin("b"), stage.begin("c", platform="cron")]
    stage.ds.spawn(lambda _me: 1 / 0, name="both")
    for sid, session in zip("abc", sessions, strict=True):
        stage.end(session, sid)
    stage.ds.spawn(lambda _me: 1 / 0, name="late")
    assert stage.engine.flush(10)
    crashes = [[one["action"] for one in entries(log.path) if "crashed" in one["action"]] for log in logs.values()]
    assert [["both crashed"], ["both crashed", "late crashed"]] == crashes


# -- where it stands in nobody's way ----------------------------------------------------------------------------------


def test_the_engine_serves_as_an_observer(stage: Stage) -> None:
    """It is seen among the engines, and `telemetry` makes its boot function."""
    assert (f.Serving("telemetry", "observer"),) == stage.ds.facts(f.Serving)
    boot = telemetry(lambda _session: None)
    stage.ds.spawn(boot, name="telemetry#b")
    assert 2 == len(stage.ds.facts(f.Serving))


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A pipe in place of a log, and the end that nobody reads from yet."""
    path = tmp_path / "log"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    yield path, reader
    os.close(reader)


def drain(reader: int, engine: Telemetry) -> list[dict[str, Any]]:
    """Read until all that waits has come through."""
    found = bytearray()
    done = threading.Event()

    def flush() -> None:
        engine.flush(60)
        done.set()

    thread = threading.Thread(target=flush)
    thread.start()
    while True:
        over = done.is_set()
        try:
            found += os.read(reader, 1 << 20)
        except BlockingIOError:
            if over:
                break
            done.wait(0.01)
    thread.join()
    return [json.loads(line) for line in found.splitlines()]


def test_a_stalled_disk_keeps_nobody_waiting(pipe: tuple[Path, int]) -> None:
    """Sums stay exact, at most so many entries wait, the oldest go, and when it moves again an entry says how many."""
    path, reader = pipe
    ds, engine = Dataspace(), Telemetry(lambda _session: EpisodicLog(path), limit=400)
    ds.spawn(engine.boot, name="telemetry")
    host = ds.actor("host")
    session = host.publish(f.Session("s1"))
    total = 2_000
    for number in range(total):
        host.send(f.ToolCalled("s1", f"c{number}", "x", result="r" * 400))
    assert engine.flush(0.05) is False
    statistics = engine.statistics()[str(path)]
    assert (total, 400) == (statistics.put, statistics.waiting)
    assert total == statistics.handled + statistics.waiting + statistics.lost
    host.replace(session, f.Session("s1", "ended"))
    found = drain(reader, engine)
    dropped = [told(entry)["dropped"] for entry in found if entry["action"] == "telemetry:dropped"]
    calls = [entry["evidence_ids"][1] for entry in found if entry["skill"] == "x"]
    assert total == told(found[-1])["tools"]
    assert total == len(calls) + sum(dropped)
    assert sum(dropped) == engine.statistics()[str(path)].lost > 0
    assert f"c{total - 1}" == calls[-1]
    stamps = [entry["timestamp"] for entry in found]
    assert sorted(set(stamps)) == stamps


@pytest.mark.slow
def test_a_stalled_disk_at_length(pipe: tuple[Path, int]) -> None:
    """At the limit as it is: 100,000 wait and not one more."""
    path, reader = pipe
    ds, engine = Dataspace(), Telemetry(lambda _session: EpisodicLog(path))
    ds.spawn(engine.boot, name="telemetry")
    host = ds.actor("host")
    for number in range(130_000):
        host.send(f.ToolCalled("s1", f"c{number}", "x"))
    statistics = engine.statistics()[str(path)]
    assert (130_000, 100_000) == (statistics.put, statistics.waiting)
    found = drain(reader, engine)
    assert 130_000 == sum(told(one)["dropped"] if one["skill"] == "telemetry" else 1 for one in found)


def test_a_disk_that_fails_loses_nothing_that_still_fits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Entries wait until it can be written to again; it is said once that it cannot, and once that it can."""
    path = tmp_path / "log"
    path.mkdir()
    stage = Stage(tmp_path)
    stage.engine = Telemetry(lambda _session: EpisodicLog(path))
    stage.actor.stop()
    stage.ds.spawn(stage.engine.boot, name="telemetry#2")
    for number in range(3):
        stage.host.send(f.ToolCalled("s1", f"c{number}", "x"))
        assert stage.engine.flush(0.02) is False
    assert 3 == stage.engine.statistics()[str(path)].waiting
    path.rmdir()
    assert stage.engine.flush(10)
    assert 3 == len(entries(path))
    said = [record.message for record in caplog.records if record.name == "engines.telemetry.engine"]
    assert ["cannot be written to" in said[0], "is written to again" in said[1]] == [True, True]
    assert 2 == len(said)


def test_an_entry_that_cannot_be_made_costs_itself_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A redactor that raises leaves one explicit entry for each that it spoils."""

    def redact(texts: Any) -> list[str]:
        if any("bad" in text for text in texts):
            raise ValueError("no")
        return list(texts)

    ds, engine = Dataspace(), Telemetry(lambda _session: EpisodicLog(tmp_path / "log", redact=redact))
    ds.spawn(engine.boot, name="telemetry")
    host = ds.actor("host")
    for tool in ("good", "bad", "better"):
        host.send(f.ToolCalled("s1", "c", tool))
    assert engine.flush(10)
    assert ["good", "hook:malformed_payload", "better"] == [entry["action"] for entry in entries(tmp_path / "log")]
    assert "could not be made" in caplog.text


def test_t07_a_process_that_ends_at_once_loses_nothing(tmp_path: Path) -> None:
    """T07: start, one reading, end, and the process is over."""
    program = (
        "import sys\nfrom dataspace import Dataspace\nfrom engines import facts as f\n"
        "from engines.telemetry import EpisodicLog, telemetry\n"
        "ds = Dataspace()\nds.spawn(telemetry(lambda s: EpisodicLog(sys.argv[1])), name='t')\nhost = ds.actor('host')\n"
        "session = host.publish(f.Session('s1'))\nhost.publish(f.Usage('s1', 1, prompt=7))\n"
        "host.replace(session, f.Session('s1', 'ended'))\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "log")], cwd=CHECKOUT, check=True, timeout=60)
    assert ["usage", "session:ended"] == [entry["action"] for entry in entries(tmp_path / "log")]


def test_t07_an_exit_is_not_held_up_by_a_disk_that_stalls(tmp_path: Path) -> None:
    """T07: the wait at the end has a bound, whatever the disk does."""
    os.mkfifo(tmp_path / "log")  # which nobody reads
    program = (
        "import sys\nfrom engines.telemetry import spool\nspool.AT_EXIT = 0.2\n"
        "from dataspace import Dataspace\nfrom engines import facts as f\nfrom engines.telemetry import EpisodicLog, telemetry\n"
        "ds = Dataspace()\nds.spawn(telemetry(lambda s: EpisodicLog(sys.argv[1])), name='t')\n"
        "ds.actor('host').send(f.ToolCalled('s1', 'c', 'x'))\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "log")], cwd=CHECKOUT, check=True, timeout=60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_writes_nothing_of_its_parents(tmp_path: Path) -> None:
    """What waits when a process forks is written once."""
    program = (
        "import os, sys\nfrom engines.telemetry.spool import Spool\n"
        "from pathlib import Path\nout = Path(sys.argv[1])\n"
        "def handle(items, lost):\n    with out.open('a') as file: file.writelines(items)\n    return len(items), True\n"
        "spool = Spool(handle, whose=str, name='s')\nspool.put('parent\\n')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    spool.put('child\\n')\n    spool.flush(10)\n    os._exit(0)\n"
        "os.waitpid(pid, 0)\nspool.flush(10)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "out")], cwd=CHECKOUT, check=True, timeout=60)
    assert ["child", "parent"] == sorted((tmp_path / "out").read_text(encoding="utf-8").splitlines())


async def test_under_an_event_loop_what_waits_is_written_when_it_stops(tmp_path: Path) -> None:
    """Stopping the engine waits for its entries, off the event loop."""
    engine = Telemetry(lambda _session: EpisodicLog(tmp_path / "log"))
    async with open_dataspace() as ds:
        actor = await ds.spawn(engine.boot, name="telemetry")
        host: Facet = ds.actor("host")
        for number in range(50):
            host.send(f.ToolCalled("s1", f"c{number}", "x"))
        await actor.stop()
        assert 50 == len(entries(tmp_path / "log"))


@pytest.mark.slow
def test_memory_stays_flat(tmp_path: Path) -> None:
    """Once as much is remembered as ever will be, ten thousand further sessions leave nothing behind."""
    ledger = Ledger(lambda session: (session.profile, ()))

    def run(first: int, sessions: int = 10_500) -> None:
        for number in range(first, first + sessions):
            session = f.Session(f"s{number:07}", profile="fin")
            happenings = [session, f.Budget(session.sid, 100, 80), f.ShouldCompress(session.sid, 1)]
            happenings += [f.Usage(session.sid, at, prompt=at, response_id=f"{number:07}-{at}") for at in range(1, 6)]
            pruned = f.SkillPruned(session.sid, "tdd", "x")
            for fact in [*happenings, pruned, evolve(session, state="ended")]:
                list(ledger.appeared(fact, 1.0))
            for fact in [pruned, session]:
                list(ledger.vanished(fact, 1.0))

    tracemalloc.start()
    try:
        run(0)
        run(100_000)
        before = tracemalloc.get_traced_memory()[0]
        run(200_000)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0 == ledger.sessions()
    assert grown < 100_000


# -- the queue --------------------------------------------------------------------------------------------------------


class Gate:
    """A handler that waits for a permit before each batch, and then does as it is told."""

    def __init__(self) -> None:
        self.permits = threading.Semaphore(0)
        self.entered = threading.Semaphore(0)
        self.batches: list[tuple[list[int], dict[str, int]]] = []
        self.plan: list[Any] = []

    def __call__(self, items: Any, lost: Any) -> tuple[int, bool]:
        self.entered.release()
        assert self.permits.acquire(timeout=30)
        step = self.plan.pop(0) if self.plan else None
        if isinstance(step, Exception):
            raise step
        done, told_ = (len(items), True) if step is None else step
        self.batches.append((list(items)[:done], dict(lost) if told_ else {}))
        return done, told_

    def open(self, count: int = 1) -> None:
        """Let so many batches through."""
        for _ in range(count):
            self.permits.release()


def test_what_is_not_done_is_tried_again_and_losses_are_told_once() -> None:
    """A batch done in part goes on where it stopped; a loss that could not be told is told with the next one."""
    gate = Gate()
    gate.plan = [(1, False)]
    spool: Spool[int] = Spool(gate, whose=lambda item: f"w{item % 2}", name="test", limit=4)
    spool.put(0)
    assert gate.entered.acquire(timeout=30)  # 0 is in its hands
    for item in range(1, 8):
        spool.put(item)
    assert (8, 4, 4) == (spool.statistics().put, spool.statistics().waiting, spool.statistics().lost)
    gate.open(20)
    assert spool.flush(30)
    assert [0, 5, 6, 7] == [item for items, _ in gate.batches for item in items]
    assert [{"w0": 2, "w1": 2}] == [lost for _, lost in gate.batches if lost]


def test_a_handler_that_raises_loses_its_batch_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """The items are lost, logged and told of with the next batch, for they would fail again."""
    gate = Gate()
    gate.plan = [RuntimeError("no")]
    spool: Spool[int] = Spool(gate, whose=lambda _item: "w", name="test", limit=100)
    gate.open(5)
    spool.put(1)
    assert spool.flush(30)
    spool.put(2)
    assert spool.flush(30)
    assert [([2], {"w": 1})] == gate.batches
    assert "could not be handled" in caplog.text
    assert (2, 1, 0, 1) == tuple(getattr(spool.statistics(), n) for n in ("put", "handled", "waiting", "lost"))


def test_the_thread_goes_when_it_is_idle_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who never writes again keeps no thread."""
    monkeypatch.setattr("engines.telemetry.spool._IDLE", 0.01)
    gate = Gate()
    gate.open(10)
    spool: Spool[int] = Spool(gate, whose=str, name="comes and goes", limit=100)
    for item in range(2):
        spool.put(item)
        assert spool.flush(30)
        for thread in threading.enumerate():
            if thread.name == "comes and goes":
                thread.join(30)
        assert "comes and goes" not in {thread.name for thread in threading.enumerate()}
    assert [0, 1] == [item for items, _ in gate.batches for item in items]


def test_the_thread_stays_while_more_is_to_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter that ends gives no new one, so it is there as long as a session goes on, and goes with the last."""
    monkeypatch.setattr("engines.telemetry.spool._IDLE", 0.01)
    stage = Stage(tmp_path)
    session = stage.begin()
    stage.host.send(f.Noted("s1", "a", "x"))
    stage.written()
    (desk,) = stage.engine._desks.values()
    thread = desk.spool._thread
    assert thread is not None
    thread.join(0.1)  # ten times as long as it would take it to go
    assert thread.is_alive()
    stage.end(session)
    assert ["note", "session:ended"] == [
        entry["skill"] if entry["skill"] == "note" else entry["action"] for entry in stage.written()
    ]
    thread.join(30)
    assert not thread.is_alive()


def test_where_no_thread_can_be_had_nobody_waits_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is put in then waits for the next thread that there is, and a flush says at once that it is not done."""
    gate = Gate()
    gate.open(10)
    spool: Spool[int] = Spool(gate, whose=str, name="test", limit=100)

    def none(_thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as none_left:
        none_left.setattr(threading.Thread, "start", none)
        spool.put(1)
        spool.put(2)
        assert not spool.flush(1_000)
    assert 2 == spool.statistics().waiting
    spool.put(3)
    assert spool.flush(30)
    assert [1, 2, 3] == [item for items, _ in gate.batches for item in items]


def test_what_is_to_be_done_last_is_done_when_somebody_waits(caplog: pytest.LogCaptureFixture) -> None:
    """Once for those who wait, after all that was put in by then, also where nothing was; a failure is logged."""
    done: list[str] = []

    def handle(items: Any, _lost: Any) -> tuple[int, bool]:
        done.extend(items)
        return len(items), True

    def finish() -> None:
        done.append("finished")
        if len(done) == 3:
            raise OSError("no disk")

    spool: Spool[str] = Spool(handle, whose=str, name="test", finish=finish)
    assert spool.flush(30)
    spool.put("a")
    assert spool.flush(30)
    spool.put("b")
    assert spool.flush(30)
    assert ["finished", "a", "finished", "b", "finished"] == done
    assert "no disk" in caplog.text


@given(st.lists(st.sampled_from(["put", "go", "half"]), max_size=40), st.integers(2, 6))
def test_no_item_is_lost_unaccounted_for(steps: list[str], limit: int) -> None:
    """Whatever the disk does, all that came is handled, waits or is counted as lost, and what is handled is in order."""
    gate = Gate()
    spool: Spool[int] = Spool(gate, whose=lambda _item: "w", name="test", limit=limit)
    number = 0
    for step in steps:
        if step == "put":
            spool.put(number)
            number += 1
        else:
            gate.plan.append(None if step == "go" else (0, True))
            gate.open()
            spool.hurry()
    statistics = spool.statistics()
    assert statistics.put == number
    assert statistics.waiting <= limit
    assert number == statistics.handled + statistics.waiting + statistics.lost
    gate.plan = []
    gate.open(1_000)
    assert spool.flush(30)
    handled = [item for items, _ in gate.batches for item in items]
    assert sorted(handled) == handled
    assert number == len(handled) + spool.statistics().lost


def test_the_end_of_a_process_waits_for_all_queues() -> None:
    """What waits in any of them is handled by then."""
    gate = Gate()
    gate.open(5)
    spool: Spool[int] = Spool(gate, whose=str, name="test")
    spool.put(1)
    _finish()
    assert 1 == spool.statistics().handled


# -- and read again ---------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.sampled_from(["usage", "tool", "bad", "compaction", "failed", "refused", "skill", "pruned", "child"]),
        max_size=30,
    )
)
def test_entries_add_up_to_what_the_rollup_says(steps: list[str]) -> None:
    """A session without its end comes to the same sums as with it, but for what single entries do not tell."""
    import tempfile

    with tempfile.TemporaryDirectory() as root:
        stage = Stage(Path(root))
        session = stage.begin()
        for number, step in enumerate(steps, 1):
            fact = {
                "usage": f.Usage("s1", number, prompt=number, completion=1, cache_read=2, side_prompt=3),
                "tool": f.ToolCalled("s1", f"c{number}", "x", status="ok"),
                "bad": f.ToolCalled("s1", f"c{number}", "x", status="error"),
                "compaction": f.Compressed("s1", number, "c", tokens_before=9, tokens_after=4, seconds=0.5),
                "failed": f.CompactionFailed("s1", number),
                "refused": f.Refused("s1", number, "x", "y"),
                "skill": f.SkillLoaded("s1", "tdd", "ab", "deduplicated"),
                "pruned": f.SkillPruned("s1", f"k{number}", "ab"),
                "child": f.Delegated("s1", f"child{number}"),
            }[step]
            (stage.host.send if type(fact) in f.MESSAGES else stage.host.publish)(fact)
        stage.written()
        (before,) = accounts(read_logs([Path(root) / "fin.jsonl"])[0]) if steps else (None,)
        stage.end(session)
        stage.written()
        (after,) = accounts(read_logs([Path(root) / "fin.jsonl"])[0])
        assert (1, 0) == (after.sessions, after.open)
        if before is not None:
            assert (1, 1) == (before.sessions, before.open)
            assert before.sums == after.sums
