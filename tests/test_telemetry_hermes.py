"""Telemetry in the real host: the entries, spans and metrics that real agents leave, and its settings."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bridges.hermes import ends, telemetry
from bridges.hermes.aides import Standing
from bridges.hermes.blocks import read_block
from bridges.hermes.telemetry import Options, redacted
from engines.facts import Session
from engines.telemetry import BRAIN_LEAST, LOCAL_LEAST, local_log
from engines.telemetry.spool import SpoolStatistics
from tests.conftest import CHECKOUT
from tests.hermes_adapter.desk import Engines
from tests.hermes_adapter.fixtures import engines
from tests.test_hermes_host import environment

__all__ = ["engines"]  # a fixture

Seen = dict[str, Any]


def play(root: Path, *names: str) -> Seen:
    """Play scenes in a process of their own."""
    out = root / "seen.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.hermes_adapter.telemetry_scenes", str(root), str(out), *names],
        cwd=CHECKOUT, env=environment(root), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stdout[-3000:] + done.stderr[-3000:]
    seen: Seen = json.loads(out.read_text(encoding="utf-8"))
    assert not [name for name, scene in seen.items() if "error" in scene], seen
    return seen


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """All scenes that can share a process."""
    return play(tmp_path_factory.mktemp("telemetry"), "whole", "profiles", "apart")


def entries(path: Path) -> list[dict[str, Any]]:
    """The lines of a log."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def told(entry: dict[str, Any]) -> dict[str, Any]:
    """The figures of an entry."""
    found: dict[str, Any] = json.loads(entry["detail"])
    return found


# -- the real host ----------------------------------------------------------------------------------------------------


@pytest.mark.hermes
def test_a_session_leaves_its_entries(played: Seen) -> None:
    """Tool calls with their ids, the delegation, the compaction, and rollups of child and parent, when the hook returns."""
    seen = played["whole"]
    assert seen["completed"]
    mine = [entry for entry in seen["local"] if entry["evidence_ids"][0] == seen["sid"]]
    calls = [(entry["skill"], entry["evidence_ids"][1]) for entry in mine if len(entry["evidence_ids"]) == 2]
    assert 5 == len(set(calls))
    assert ["read_file", "read_file", "search_files", "delegate_task", "read_file"] == [tool for tool, _ in calls]
    compaction = next(entry for entry in mine if entry["action"].startswith("compaction by builtin"))
    assert told(compaction)["before"] == 60_000 > told(compaction)["after"]
    rollups = {entry["evidence_ids"][0]: told(entry) for entry in seen["local"] if entry["skill"] == "session"}
    child = told(next(entry for entry in mine if entry["action"] == "delegated"))["child"]
    assert {seen["sid"], child} == set(rollups)
    assert (1, 1, 5, 1) == tuple(rollups[seen["sid"]][name] for name in ("turns", "compactions", "tools", "delegated"))
    assert rollups[seen["sid"]]["saved"] == told(compaction)["before"] - told(compaction)["after"]


@pytest.mark.hermes
def test_the_brain_gets_what_is_worth_remembering(played: Seen) -> None:
    """The same entries less single readings, in the place where its own tools read."""
    seen = played["whole"]
    expected = [entry["action"] for entry in seen["local"] if entry["importance"] >= BRAIN_LEAST]
    assert expected == [entry["action"] for entry in seen["brain"]]
    assert "usage" not in expected


@pytest.mark.hermes
def test_no_key_is_anywhere(played: Seen) -> None:
    """The secret in a tool's arguments is in no log, no span and no metric."""
    seen = played["whole"]
    assert seen["key"] not in json.dumps([seen[name] for name in ("local", "brain", "spans", "metrics")])
    assert any("search_files: key=" in entry["action"] for entry in seen["local"])


@pytest.mark.hermes
def test_spans_have_their_names_and_parents(played: Seen) -> None:
    """Turn, tools, compaction; the child's turn within the turn that handed its task over; all of one trace."""
    spans = played["whole"]["spans"]
    outer = next(span for span in spans if span["name"] == "invoke_agent default" and span["parent_id"] is None)
    inner = [span for span in spans if span is not outer]
    assert {
        "execute_tool read_file": 3, "execute_tool search_files": 1, "execute_tool delegate_task": 1, "ctx.compaction": 1,
        "invoke_agent default": 1,
    } == Counter(span["name"] for span in inner)  # fmt: skip
    assert {outer["context"]["span_id"]} == {span["parent_id"] for span in inner}
    assert 1 == len({span["context"]["trace_id"] for span in spans})
    ids = [span["attributes"]["gen_ai.tool.call.id"] for span in spans if span["name"].startswith("execute_tool")]
    assert 5 == len(set(ids))


@pytest.mark.hermes
def test_input_tokens_agree_with_what_the_server_sent(played: Seen) -> None:
    """The metric holds what the provider reported, each response once, and no estimate."""
    seen = played["whole"]
    usage = [told(entry) for entry in seen["local"] if entry["action"] == "usage"]
    sent = [one for one in usage if not one.get("estimated")]
    assert seen["turns"] == len(sent)
    assert {20_000, 21_000, 22_000, 60_000, 11_000} <= {one["prompt"] for one in sent}
    metrics = {
        one["name"]: one
        for scope in seen["metrics"]["resource_metrics"]
        for one in scope["scope_metrics"][0]["metrics"]
    }
    points = {
        point["attributes"]["gen_ai.token.type"]: point
        for point in metrics["gen_ai.client.token.usage"]["data"]["data_points"]
    }
    assert (sum(one["prompt"] for one in sent), len(sent)) == (points["input"]["sum"], points["input"]["count"])
    assert 20 * len(sent) == points["output"]["sum"]
    assert {"ctx.compaction.duration", "ctx.compaction.tokens.saved"} <= set(metrics)


@pytest.mark.hermes
def test_two_profiles_interleaved_in_one_process(played: Seen) -> None:
    """T01: each has its log in its own home, and every line of it names that profile and no other's session."""
    seen = played["profiles"]
    for profile, sid in seen["sids"].items():
        assert {(profile, sid)} == {(entry["source"]["profile"], entry["evidence_ids"][0]) for entry in seen[profile]}
        assert 3 == sum(entry["skill"] == "read_file" for entry in seen[profile])
    assert {"default"} == {entry["source"]["profile"] for entry in seen["base"]}


@pytest.mark.hermes
def test_cron_leaves_nothing_unless_asked(played: Seen) -> None:
    """A session of the scheduler is not logged; with an empty `without` it is."""
    assert 0 == played["apart"]["cron"]
    assert played["apart"]["asked"] > 0


@pytest.mark.hermes
def test_t07_a_one_shot_process_loses_nothing(tmp_path: Path) -> None:
    """T07: a process that is over right after its only turn leaves readings, call and rollup."""
    play(tmp_path, "one_shot")
    log = tmp_path / ".hermes" / "dataspace" / "telemetry" / "episodic.jsonl"
    found = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert ["read_file", "session"] == [entry["skill"] for entry in found if entry["skill"] != "context"]
    assert 2 == sum(entry["action"] == "usage" and not told(entry).get("estimated") for entry in found)


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "options"),
    [
        ({}, Options()),
        ({"brain": "~/notes", "otel": False, "log": "no"}, Options(brain="~/notes", log=False)),
        ({"otel": "files", "content": True, "without": "cron"}, Options(otel="files", content=True, without=("cron",))),
        ({"brain": None, "without": []}, Options(without=())),
    ],
)
def test_the_block_of_settings(block: dict[str, Any], options: Options) -> None:
    """As it is written in config.yaml."""
    assert options == read_block(Options, block, "context.dataspace.telemetry")


def test_what_cannot_be_is_said_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """One line each, and the default stands in."""
    caplog.set_level(logging.WARNING)
    assert Options() == read_block(Options, {"otel": "maybe", "brain": 5}, "context.dataspace.telemetry.test")
    assert 2 == sum("is ignored" in record.message for record in caplog.records)


def test_logs_of_a_conversation(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its home's and the brain's, each with its threshold; a brain that is none is said once and costs itself only."""
    (tmp_path / ".agent" / "memory").mkdir(parents=True)
    session, both = Session("s1", home=str(tmp_path)), Options(brain=str(tmp_path))
    assert [LOCAL_LEAST, BRAIN_LEAST] == [log.least for log in telemetry._logs(session, both)]
    assert [] == telemetry._logs(Session("s1"), Options())
    assert [] == telemetry._logs(Session("s1", home=str(tmp_path), platform="cron"), Options())
    assert [] == telemetry._logs(Session("s1", home=str(tmp_path / "none")), Options())
    assert [] == telemetry._logs(session, Options(log=False))
    for _ in range(2):
        assert 1 == len(telemetry._logs(session, Options(brain=str(tmp_path / "none"))))
    assert 1 == sum("holds no portable brain" in record.message for record in caplog.records)
    (tmp_path / "late").mkdir()
    (late,) = telemetry._logs(Session("s3", home=str(tmp_path / "late")), Options())
    (tmp_path / "late").rmdir()
    with pytest.raises(OSError, match="not there"):
        late.append({"action": "a"})  # the home has gone since, and stays so
    assert not (tmp_path / "late").exists()
    telemetry._reviews.add("s2")
    try:
        assert [] == telemetry._logs(Session("s2", home=str(tmp_path)), Options())
    finally:
        telemetry._reviews.discard("s2")


def test_the_hosts_redactor_and_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """What either knows is taken out; without the host's ours is enough."""
    monkeypatch.setattr(telemetry, "redact", lambda text: text.replace("robin", "***"))
    assert ["*** has [redacted]"] == redacted(["robin has sk-abcdefghijkl"])

    def missing(text: str) -> str:
        raise ImportError("no host")

    monkeypatch.setattr(telemetry, "redact", missing)
    assert ["robin has [redacted]"] == redacted(["robin has sk-abcdefghijkl"])


def test_exporting_is_off_and_costs_the_exporter_where_it_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing by default; providers of the process; files in the home; and a home that cannot be written to is said."""
    assert telemetry._exporter(Options()) is None
    assert telemetry._exporter(Options(otel="process")) is not None
    monkeypatch.setattr(telemetry, "home", lambda: tmp_path)
    files = telemetry._exporter(Options(otel="files"))
    assert (tmp_path / "dataspace" / "telemetry" / "otel").is_dir()
    for provider in files._providers:  # type: ignore[union-attr]
        provider.shutdown()
    for gone in (Path("/dev/null"), tmp_path / "gone"):
        monkeypatch.setattr(telemetry, "home", lambda gone=gone: gone)
        assert telemetry._exporter(Options(otel="files")) is None
    assert not (tmp_path / "gone").exists()


def test_the_engine_behind_the_adapter(engines: Engines, tmp_path: Path) -> None:
    """A conversation is logged in its home, and once `settle` returns all that was said of it is written."""
    engine = engines.bare("compressor", observers=["telemetry"])
    engine.update_model(model="m", context_length=200_000, base_url="", api_key="", provider="p", api_mode="")
    engine.bind_session_state(session_db=None, session_id="s1")
    home = tmp_path / "profiles" / "fin"
    home.mkdir(parents=True)
    engine.on_session_start("s1", hermes_home=str(home), platform="cli", model="m")
    engine.update_from_response({"prompt_tokens": 700, "completion_tokens": 7, "total_tokens": 707})
    assert ends.settle(30)
    (entry,) = entries(local_log(home))
    assert ("usage", "fin", 700) == (entry["action"], entry["source"]["profile"], told(entry)["prompt"])
    assert [f"  {local_log(home)}: 1 entry written"] == telemetry.status(None)[1:]  # type: ignore[arg-type]
    ends._exit()
    assert ["usage", "session:ended"] == [entry["action"] for entry in entries(local_log(home))]
    ends._ended(session_id="s1")


def test_the_status_says_what_waits_and_what_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that does not keep up shows."""

    class Engine:
        def statistics(self) -> dict[str, SpoolStatistics]:
            return {"/a": SpoolStatistics(put=9, handled=4, waiting=3, lost=2)}

    monkeypatch.setattr(telemetry, "_engine", [Engine()])
    assert ["  /a: 4 entries written, 3 wait, 2 LOST while the disk stalled"] == telemetry.status(None)[1:]  # type: ignore[arg-type]


def test_a_review_is_known_by_its_thread() -> None:
    """Made on the thread of a review its conversation is noted, until it ends."""
    standing = Standing("r1", "s1", "", "", "", "", None, lambda _message: None, lambda *_args: None)  # type: ignore[arg-type]
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(telemetry.aide(standing)), name="bg-review")
    thread.start()
    thread.join()
    assert "r1" in telemetry._reviews
    made[0].ended("over")
    assert "r1" not in telemetry._reviews
