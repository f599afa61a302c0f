"""The episodic log: whose entries, what an entry is, timestamps, secrets, and several writers of one file."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.telemetry import EpisodicLog, NoBrainError, brain_log, local_log, resolve_profile
from engines.telemetry.entry import MALFORMED, complete, malformed, moment, shortened, tool_entry
from engines.telemetry.locked import locked, read_whole
from engines.telemetry.log import Line
from engines.telemetry.place import expanded, logs_in, real_home
from engines.telemetry.stamps import Stamps
from engines.telemetry.tools import arguments, ends_of, failed, outcome, snake
from tests.conftest import CHECKOUT

KEYS = set(
    "timestamp skill action result detail pain_score importance reflection confidence source evidence_ids".split()
)
HOOK = "tool_input tool_response result status error extra is_error exit_code hook_event_name".split()
ODD = (
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers(-(2**1100), 2**1100)
    | st.text()
    | st.dictionaries(st.text(), st.text())
)
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def lines(path: Path) -> list[dict[str, Any]]:
    """Every line of a log, each of which must parse."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log that does not exist yet, in a directory that does not either."""
    return tmp_path / "memory" / "log.jsonl"


# -- profiles ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "home", "profile"),
    [
        ({}, None, "default"),
        ({"AGENT_PROFILE": "Ops Team/1 "}, "/h/.hermes/profiles/fin", "Ops Team/1 "),
        ({}, "/h/.hermes/profiles/fin", "fin"),
        ({}, "/h/.hermes", "default"),
        ({"HERMES_HOME": "/h/.hermes/profiles/fin/"}, None, "fin"),
        ({"HERMES_HOME": "/h/.hermes/profiles/fin"}, Path("/h/.hermes/profiles/law"), "law"),
        ({"AGENT_PROFILE": " "}, "", "default"),
        ({}, "/profiles/robin/.hermes", "default"),
        ({}, "C:\\Users\\robin\\hermes\\profiles\\fin", "fin"),
        ({}, "/h/.hermes/profiles/a\\b", "a\\b"),
    ],
)
def test_t01_the_documented_cases(env: dict[str, str], home: str | None, profile: str) -> None:
    """T01: `AGENT_PROFILE` as it is given, else the name under profiles/, else default."""
    assert profile == resolve_profile(env, home)


def test_the_environment_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless another is given."""
    monkeypatch.setenv("AGENT_PROFILE", "ops")
    assert "ops" == resolve_profile()
    assert "default" == resolve_profile({})


# -- entries ----------------------------------------------------------------------------------------------------------


def test_missing_keys_get_the_defaults_of_the_schema(path: Path) -> None:
    """An entry with an action only has all keys, the defaults of its outcome, and its source."""
    log = EpisodicLog(path, env={"AGENT_PROFILE": "fin", "AGENT_RUN_ID": "run-7"})
    fine, bad = log.append_all([{"action": "a", "skill": "s"}, {"action": "b", "result": "failure"}])
    assert KEYS == set(fine) == set(bad)
    assert ("success", 2, 5, 0.5, "", [], "") == tuple(
        fine[name]
        for name in ("result", "pain_score", "importance", "confidence", "reflection", "evidence_ids", "detail")
    )
    assert ("failure", 7, 5) == tuple(bad[name] for name in ("result", "pain_score", "importance"))
    assert {"skill": "s", "profile": "fin", "run_id": "run-7", "commit_sha": ""} == fine["source"]
    assert [fine, bad] == lines(path)


def test_what_is_given_stays(path: Path) -> None:
    """Values, keys beside the schema, a source of its own, and a timestamp, which is written in UTC."""
    given_ = {
        "action": "a",
        "pain_score": 9.5,
        "importance": 1,
        "confidence": 1,
        "evidence_ids": ["x"],
        "zone": [1, None],
    }
    entry = EpisodicLog(path).append(
        {**given_, "timestamp": "2026-05-01T14:00:00+02:00", "source": {"profile": "law", "commit_sha": "abc"}}
    )
    assert given_ == {name: entry[name] for name in given_}
    assert "2026-05-01T12:00:00.000000+00:00" == entry["timestamp"]
    assert ("law", "abc", f"pid-{os.getpid()}") == tuple(
        entry["source"][n] for n in ("profile", "commit_sha", "run_id")
    )


def test_long_values_are_cut() -> None:
    """An action has at most 200 characters, a detail 500."""
    entry = complete({"action": "a" * 300, "detail": "d" * 600, "reflection": "r" * 900})
    assert (200, 500, 900) == (len(entry["action"]), len(entry["detail"]), len(entry["reflection"]))


@pytest.mark.parametrize(
    "payload",
    [
        "", "   ", "not json", "{", "[]", "7", "null", b"\xff\xfe", {}, [], None, 7, {"zone": 1}, {1: 2}, {"action": 5},
        {"action": "a", "result": "maybe"}, {"action": "a", "pain_score": "much"}, {"action": "a", "importance": float("nan")},
        {"action": "a", "confidence": True}, {"action": "a", "evidence_ids": "x"}, {"action": "a", "source": "x"},
        {"tool_name": ""}, {"tool_name": "t", "tool_input": 7}, {"tool_name": "t", "tool_response": 7}, "[" * 100_000,
    ],
)  # fmt: skip
def test_a_malformed_payload_is_one_explicit_failure(path: Path, payload: Any) -> None:
    """Whatever is no entry becomes one that says so, with at most 200 characters of it, and nothing else is written."""
    EpisodicLog(path).append(payload)
    (entry,) = lines(path)
    assert (MALFORMED, "failure") == (entry["action"], entry["result"])
    assert len(entry["detail"]) <= 200
    assert KEYS == set(entry)


class Unspeakable:
    """What cannot be shown in any way."""

    def __repr__(self) -> str:
        raise RuntimeError("not to be shown")


def _deep(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(levels):
        made = {"a": made}
    return made


@pytest.mark.parametrize(
    "payload",
    [
        {"action": "a", "more": _deep(50_000)}, {"action": "a", "detail": _deep(50_000)}, {"tool_name": "t", "args": _deep(50_000)},
        {"action": "a", "importance": 10**400}, '{"action": "a", "pain_score": 1' + "0" * 400 + "}", {"action": "a", "more": 10**9_000},
        {"action": "a", "more": Unspeakable()}, {"action": "a", "detail": [Unspeakable()]}, Unspeakable(),
        {"tool_name": "t", "tool_response": {"a": Unspeakable()}},
    ],
)  # fmt: skip
def test_what_cannot_even_be_walked_is_an_entry_too(path: Path, payload: Any) -> None:
    """Neither depth, nor numbers without end, nor objects that raise keep an entry from being written, or the next one."""
    log = EpisodicLog(path)
    log.append(payload)
    log.append({"action": "next"})
    first, after = lines(path)
    assert {MALFORMED, "t", "a"} >= {first["action"]}
    assert len(first["detail"]) <= 500
    assert "next" == after["action"]


def test_a_malformed_payload_shows_no_secret() -> None:
    """What is shown of it has been through the redactor, also where that makes it longer."""
    assert "sk-abcdefghijkl" not in malformed("{" + "sk-abcdefghijkl " * 40)["detail"]
    assert 200 == len(malformed("x" * 10_000)["detail"])


@pytest.mark.parametrize("spelt", [str, lambda name: "".join(word.title() for word in name.split("_"))])
def test_camel_and_snake_case_read_alike(spelt: Callable[[str], str]) -> None:
    """A hook's payload says the same in either spelling, as a mapping or as text."""

    def camel(name: str) -> str:
        return spelt(name)[0].lower() + spelt(name)[1:]

    payload = {
        camel("tool_name"): "Edit",
        camel("tool_input"): {camel("file_path"): "/repo/a.py", camel("old_string"): "x"},
        camel("tool_response"): {"error": "no such file"},
    }
    for told in (payload, json.dumps(payload), json.dumps(payload).encode()):
        entry = complete(told)
        assert ("Edit", "Edit: /repo/a.py", "failure") == (entry["skill"], entry["action"], entry["result"])


@pytest.mark.parametrize(
    ("told", "result", "detail"),
    [
        ({"tool_response": "fine"}, "success", "fine"),
        ({"toolResult": [1, None]}, "success", "[1, null]"),
        ({"result": {"a": 7}, "status": "ok"}, "success", '{"a": 7}'),
        ({"status": "blocked"}, "failure", ""),
        ({"error": "boom"}, "failure", "boom"),
        ({"error": None, "tool_response": "fine"}, "success", "fine"),
        ({"is_error": True, "tool_response": "what it said"}, "failure", "what it said"),
        ({"success": False}, "failure", ""),
        ({"exitCode": 2, "result": "so far"}, "failure", "so far"),
        ({"hookEventName": "PostToolUseFailure", "tool_response": "no"}, "failure", "no"),
        ({"hook_event_name": "post_tool_call", "extra": {"result": "good", "status": "ok", "error_message": None}},
         "success", "good"),
        ({"hook_event_name": "post_tool_call", "extra": {"result": "bad", "status": "error"}}, "failure", "bad"),
        ({"hook_event_name": "post_tool_call", "extra": {"status": "error", "errorMessage": "why"}}, "failure", "why"),
    ],
)  # fmt: skip
def test_how_a_call_went_wherever_a_hook_says_it(told: dict[str, Any], result: str, detail: str) -> None:
    """In its answer, beside it, in the name of the event, or under `extra`, where this host's shell hooks have it."""
    entry = complete({"tool_name": "Edit", "tool_input": {"filePath": "a.py", "file_path": ""}, **told})
    assert ("Edit: a.py", result, detail) == (entry["action"], entry["result"], entry["detail"])


@pytest.mark.parametrize("event", ["PreToolUse", "pre_tool_call", "preToolUse"])
def test_before_a_call_nothing_has_happened(event: str) -> None:
    """What a hook is given then is no entry of a call that went well."""
    entry = complete({"hook_event_name": event, "tool_name": "Bash", "tool_input": {"command": "ls"}})
    assert (MALFORMED, "failure") == (entry["action"], entry["result"])


@pytest.mark.parametrize(
    "payload",
    [
        {"action": " \n"},
        {"action": "a", "pain_score": 2**1000},
        {"action": "a", "importance": -(10**400)},
        " ",
        "\ufeff",
    ],
)
def test_what_says_nothing_and_numbers_without_bounds_are_no_entry(payload: Any) -> None:
    """Blanks are no action, and a number that readers cannot hold is none."""
    assert MALFORMED == complete(payload)["action"]


def test_a_mapping_is_a_mapping(path: Path) -> None:
    """Of any kind, also as a tool's input; text may begin with a byte order mark; the four of a source are texts."""
    log = EpisodicLog(path, env={})
    assert (
        "T: a"
        == log.append(MappingProxyType({"ToolName": "T", "toolInput": MappingProxyType({"FILE": "a"})}))["action"]
    )
    assert "a" == log.append("\ufeff" + json.dumps({"action": "a"}))["action"]
    source = log.append({"action": "a", "source": {"profile": 7, "run_id": "", "commit_sha": None, "more": 1}})[
        "source"
    ]
    assert {"skill": "", "profile": "7", "run_id": f"pid-{os.getpid()}", "commit_sha": "", "more": 1} == source


@pytest.mark.parametrize(
    ("name", "snaked"),
    [
        ("filePath", "file_path"),
        ("file_path", "file_path"),
        ("URLPath", "url_path"),
        ("file-path", "file_path"),
        ("a1B", "a1_b"),
    ],
)
def test_names_in_one_spelling(name: str, snaked: str) -> None:
    """Humps and dashes become underscores."""
    assert snaked == snake(name)


@pytest.mark.parametrize(
    ("status", "result", "bad"),
    [
        ("ok", "fine", False), ("", "", False), ("error", "", True), ("blocked", "x", True), ("OK", "[1]", False),
        ("ok", '{"success": false}', True), ("ok", '{"error": "no"}', True), ("ok", '{"error": null}', False),
        ("ok", '{"exit_code": 1}', True), ("ok", '{"exitCode": 0}', False), ("", '{"is_error": true}', True),
        ("ok", '{"output": "\\"success\\": false"}', False), ("ok", "{not json", False), ("ok", '{"exit_code": false}', False),
        ("ok", '{"success": false, "o": "' + "x" * 3000 + '"}', True), ("ok", '{"error": "e", "o": "' + "x" * 3000 + '"}', True),
        ("ok", '{"output": "' + "x" * 3000 + '", "exit_code": 2, "error": null}', True),
        ("ok", '{"output": "' + "x" * 3000 + '", "exit_code": 0, "error": null}', False),
        ("ok", '{"output": "' + "x" * 3000 + '\\"exit_code\\": 2}"}', False),
    ],
)  # fmt: skip
def test_how_a_call_went(status: str, result: str, bad: bool) -> None:
    """By its status, or by what a result says of itself at its top, however long it is."""
    assert bad is failed(status, result)
    assert (outcome(status, result) == "ok") is not bad


def test_arguments_that_are_none() -> None:
    """No arguments are none; what is no object is not taken for one."""
    assert {} == arguments("") == arguments(None) == arguments(b" ")
    assert {"file_path": 1} == arguments('{"filePath": 1}')
    assert [None] * 4 == [arguments(args) for args in ("{", "[1]", 7, "7")]
    assert MALFORMED == tool_entry("t", "{", "ok", "x")["action"]


@pytest.mark.parametrize("order", [("path", "content"), ("content", "path")])
def test_long_arguments_keep_what_they_are_about(order: tuple[str, str]) -> None:
    """Of a file's whole content nothing waits, while its path does, wherever that stands."""
    values = {"path": "/repo/a \u00e9.py", "content": '"path": "no" ' * 5000}
    kept = ends_of(json.dumps({name: values[name] for name in order}))
    assert isinstance(kept, dict)
    assert ("/repo/a \u00e9.py", 1) == (kept["path"], len(kept))
    assert MALFORMED == tool_entry("t", ends_of('{"a": "' + "x" * 9000), "ok", "")["action"]


def test_a_failure_shows_both_ends_of_its_result() -> None:
    """How a long output begins and how it ends; of a success the beginning."""
    result = "first " + "x" * 20_000 + " last"
    bad, fine = (tool_entry("t", "", status, shortened(result)) for status in ("error", "ok"))
    assert bad["detail"].startswith("first ")
    assert bad["detail"].endswith(" last")
    assert len(bad["detail"]) <= 500
    assert result[:500] == fine["detail"]
    assert "t failed (error)" == bad["reflection"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
        max_leaves=8,
    )
    | st.binary()
    | st.fixed_dictionaries({"action": st.text()}, optional=dict.fromkeys(KEYS - {"action"}, ODD))
    | st.fixed_dictionaries({"tool_name": ODD}, optional=dict.fromkeys(HOOK, ODD))
)
def test_anything_at_all_becomes_an_entry(payload: Any) -> None:
    """Nothing that is given makes it raise, and what comes out is an entry and JSON."""
    entry = complete(payload)
    assert KEYS - {"timestamp", "source"} <= set(entry)
    assert entry["result"] in {"success", "failure"}
    assert len(entry["action"]) <= 200
    assert len(entry["detail"]) <= 500
    assert {int, float} >= {type(entry[name]) for name in ("pain_score", "importance", "confidence")}
    assert all(isinstance(one, str) for one in entry["evidence_ids"])
    json.dumps(entry, allow_nan=False).encode("ascii")


# -- secrets ----------------------------------------------------------------------------------------------------------


def test_secrets_are_taken_out_before_anything_is_cut(path: Path) -> None:
    """In every text, at any depth, and where the cut would have gone through the middle of one."""
    key = "sk-" + "a1B2" * 12
    told = {
        "action": f"curl -H 'Authorization: Bearer {key}'",
        "detail": "x" * 480 + " " + key,
        "reflection": f"used {key}",
    }
    EpisodicLog(path).append({**told, "more": {"deep": [key, {"k": key}]}, "evidence_ids": [key]})
    text = path.read_text(encoding="utf-8")
    assert "a1B2" not in text
    assert "[redacted]" in text


def test_beside_a_telling_name_any_value_is_a_secret(path: Path) -> None:
    """Also a short one and one deep inside, under names that the schema does not have; and in a name itself."""
    key = "sk-" + "a1B2" * 12
    told = {"password": "hunter2", "env": {"DB_PASSWORD": 'pa"ss9', "PATH": "/usr/bin"}, key: 1, "deep": {key: "x"}}
    entry = EpisodicLog(path).append({"action": "a", **told})
    text = json.dumps(entry)
    assert not any(secret in text for secret in ("hunter2", "ss9", "a1B2"))
    assert "/usr/bin" == entry["env"]["PATH"]


def test_no_part_of_a_tool_call_carries_a_secret() -> None:
    """Neither the name of a tool nor the end of a key whose beginning was left out."""
    key = "sk-" + "a1B2" * 12
    assert "a1B2" not in json.dumps(tool_entry(f"x {key}", "", "ok", ""))
    block = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *["MIIEabcd" * 8] * 90, "-----END RSA PRIVATE KEY-----"])
    entry = tool_entry("t", "", "error", shortened(f"{'z' * 2_400}{block} and then it failed"))
    assert "MIIE" not in json.dumps(entry)
    assert entry["detail"].endswith("and then it failed")
    assert 200 >= len(tool_entry("t" * 9_000, "", "ok", "")["skill"])


def test_a_redactor_of_ones_own(path: Path) -> None:
    """A host's own takes the place of ours."""
    log = EpisodicLog(path, redact=lambda texts: [text.replace("Robin", "R.") for text in texts])
    assert ["R. asked"] == [log.append({"action": "Robin asked"})["action"]]


# -- timestamps -------------------------------------------------------------------------------------------------------


def test_t12_many_entries_in_one_tick(path: Path) -> None:
    """T12: with the clock standing still 50 entries have 50 timestamps, growing, in UTC with an offset."""
    log = EpisodicLog(path, clock=lambda: NOON)
    for number in range(50):
        log.append({"action": f"a{number}" * 100, "detail": "d" * 1000})
    stamps = [entry["timestamp"] for entry in lines(path)]
    times = [datetime.fromisoformat(stamp) for stamp in stamps]
    assert sorted(set(stamps)) == stamps
    assert 50 == len(stamps)
    assert all(time.utcoffset() == timedelta(0) for time in times)
    for entry in lines(path):
        assert len(entry["action"]) <= 200
        assert len(entry["detail"]) <= 500
        assert entry["result"] in {"success", "failure"}
        assert {int, float} >= {type(entry["pain_score"]), type(entry["importance"])}


def test_a_timestamp_is_later_than_another_writers(path: Path) -> None:
    """Two logs of one file give no two entries one timestamp, though their clocks stand at the same instant."""
    logs = [EpisodicLog(path, clock=lambda: NOON) for _ in range(2)]
    for number in range(20):
        logs[number % 2].append({"action": "a"})
    stamps = [entry["timestamp"] for entry in lines(path)]
    assert sorted(set(stamps)) == stamps


@pytest.mark.parametrize(
    "last", ["2026-05-01T11:00:00", "yesterday", 7, None, "9999-12-31T23:59:59+00:00", "2026-05-01T13:00:00+00:00"]
)
def test_odd_timestamps_of_others_do_no_harm(path: Path, last: Any) -> None:
    """What is no timestamp, or lies far ahead, drags nothing after it."""
    path.parent.mkdir()
    path.write_text(json.dumps({"timestamp": last}) + "\n", encoding="utf-8")
    assert (
        NOON.isoformat(timespec="microseconds")
        == EpisodicLog(path, clock=lambda: NOON).append({"action": "a"})["timestamp"]
    )


@pytest.mark.parametrize("ahead", ["9999-12-31T23:59:59.999999+00:00", "2199-01-01T00:00:00+00:00"])
def test_an_entry_from_the_future_drags_nothing_after_it(path: Path, ahead: str) -> None:
    """What somebody says will happen is stamped with the time of writing, and so is what comes next."""
    log = EpisodicLog(path, clock=lambda: NOON)
    for told in ({"timestamp": ahead}, {}):
        stamp = log.append({"action": "a", **told})["timestamp"]
        assert datetime.fromisoformat(stamp) - NOON < timedelta(seconds=1)


def test_an_odd_timestamp_of_an_entry_is_replaced(path: Path) -> None:
    """One without an offset, or that is none, gives way to the time of writing."""
    log = EpisodicLog(path, clock=lambda: NOON)
    for odd in ("2020-01-01T00:00:00", "soon", 5, "0001-01-01T00:00:00+14:00"):
        assert moment(log.append({"action": "a", "timestamp": odd})["timestamp"]) >= NOON  # type: ignore[operator]


@given(st.lists(st.integers(-5, 5), max_size=30))
def test_timestamps_grow_whatever_the_clock_does(steps: list[int]) -> None:
    """A clock that goes back makes no timestamp go back."""
    stamps, at, given_ = Stamps(), NOON, []
    for step in steps:
        at += timedelta(microseconds=step)
        given_.append(stamps.next(at))
    assert sorted(set(given_)) == given_


# -- the file ---------------------------------------------------------------------------------------------------------


def test_a_line_that_somebody_left_unfinished_takes_none_of_ours_with_it(path: Path) -> None:
    """A writer that was killed in the midst of a line spoils that line only."""
    path.parent.mkdir()
    path.write_bytes(b'{"action": "whole"}\n{"action": "ha')
    EpisodicLog(path).append({"action": "ours"})
    text = path.read_text(encoding="utf-8").splitlines()
    assert ['{"action": "whole"}', '{"action": "ha'] == text[:2]
    assert "ours" == json.loads(text[2])["action"]
    assert 3 == len(text)


def test_the_last_line_is_found_however_long_it_is(path: Path) -> None:
    """Another writer's last entry is read whole on the way back from the end."""
    EpisodicLog(path, clock=lambda: NOON).append({"action": "a", "reflection": "r" * 300_000})
    with locked(path) as file:
        assert 300_000 < len(file.last_line()) < 301_000
    second = EpisodicLog(path, clock=lambda: NOON).append({"action": "b"})
    assert (NOON + timedelta(microseconds=1)).isoformat() == second["timestamp"]


def test_odd_characters_come_back_as_they_were(path: Path) -> None:
    """Half a surrogate pair, separators and emoji make no line unreadable."""
    odd = "\ud800 \u2028 \u202e \x00 🐦"
    EpisodicLog(path).append({"action": odd})
    assert [odd] == [entry["action"] for entry in lines(path)]


def test_a_log_in_a_brain_names_its_commit(tmp_path: Path) -> None:
    """`commit_sha` is what git says of the brain, and empty where it says nothing."""
    (tmp_path / ".agent" / "memory").mkdir(parents=True)
    plain = EpisodicLog(brain_log(tmp_path)).append({"action": "a"})
    git = ["git", "-C", str(tmp_path), "-c", "user.name=R", "-c", "user.email=r@example.org"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "Begin"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert ["", head] == [
        plain["source"]["commit_sha"],
        EpisodicLog(brain_log(tmp_path)).append({"action": "b"})["source"]["commit_sha"],
    ]


def test_where_logs_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A brain is found by its root or by what holds it; `~` is the user's real home whatever `$HOME` says."""
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    assert real_home() / "x" == expanded("~/x") != tmp_path / "elsewhere" / "x"
    assert tmp_path == expanded(tmp_path)
    with pytest.raises(NoBrainError, match="holds no portable brain"):
        brain_log(tmp_path)
    (tmp_path / ".agent" / "memory").mkdir(parents=True)
    expected = tmp_path / ".agent" / "memory" / "episodic" / "AGENT_LEARNINGS.jsonl"
    assert [expected] * 2 == [brain_log(tmp_path), brain_log(tmp_path / ".agent")]
    homes = [tmp_path, tmp_path / "profiles" / "fin", tmp_path / "profiles" / "law"]
    for home in homes[1:]:
        EpisodicLog(local_log(home)).append({"action": "a"})
    assert [local_log(home) for home in homes[1:]] == logs_in(tmp_path)


def test_only_the_owner_can_look(tmp_path: Path) -> None:
    """Whatever the umask leaves to others, the file and the folders that are made for it leave them nothing."""
    old = os.umask(0o022)
    try:
        log = EpisodicLog(local_log(tmp_path))
        log.append({"action": "a"})
    finally:
        os.umask(old)
    made = (log.path, log.path.parent, log.path.parent.parent)
    assert [0o600, 0o700, 0o700] == [path.stat().st_mode & 0o777 for path in made]


def test_a_home_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    """With a root nothing is made unless that is there; what is to be written waits for whoever tries again."""
    home = tmp_path / "home"
    log = EpisodicLog(local_log(home), root=home)
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            log.append({"action": "a"})
        assert not home.exists()
    home.mkdir()
    assert [log.append({"action": "b"})] == lines(log.path)


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    """In place of a log it holds nothing."""
    os.mkfifo(tmp_path / "log")
    assert b"" == read_whole(tmp_path / "log")


def test_a_line_without_end_is_not_read_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for the latest timestamp, at most so much of a file is read; the entry goes behind it all the same."""
    read: list[int] = []
    pread = os.pread

    def counted(fd: int, size: int, at: int) -> bytes:
        read.append(size)
        return pread(fd, size, at)

    path.parent.mkdir()
    path.write_bytes(b"x" * 20_000_000)
    monkeypatch.setattr(os, "pread", counted)
    EpisodicLog(path).append({"action": "a"})
    assert 5_000_000 > sum(read)
    assert "a" == json.loads(path.read_bytes().splitlines()[-1])["action"]


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    """An `OSError` for who appends; how far it came and why for who wants to go on."""
    log = EpisodicLog(tmp_path)  # a directory
    with pytest.raises(OSError, match="directory"):
        log.append({"action": "a"})
    written, error = log.write([Line(complete({"action": "a"}))])
    assert ([], True) == (written, isinstance(error, IsADirectoryError))
    assert ([], None) == log.write([])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    """What the system does not take is not said to be written."""
    (tmp_path / "log").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space"):
        EpisodicLog(tmp_path / "log").append({"action": "a"})


def test_half_a_line_is_taken_back(tmp_path: Path) -> None:
    """Where a line does not fit whole, nothing of it stays; the next one goes in."""
    import resource
    import signal

    path = tmp_path / "log"
    log = EpisodicLog(path)
    log.append({"action": "first"})
    before, limit = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limit[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            log.append({"action": "second"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert before == path.read_bytes()
    log.append({"action": "third"})
    assert ["first", "third"] == [entry["action"] for entry in lines(path)]


def test_a_file_that_goes_while_one_waits_for_its_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who gets the lock of a file that is gone, or is another one by now, takes the one that has its name."""
    log, flock, rounds = EpisodicLog(path), fcntl.flock, []

    def replaced(fd: int, operation: int) -> None:
        if operation == fcntl.LOCK_UN:
            return
        rounds.append(operation)
        if len(rounds) == 1:
            path.unlink()
        elif len(rounds) == 2:
            fresh = path.with_name("fresh")
            fresh.write_text('{"action": "theirs"}\n', encoding="utf-8")
            fresh.replace(path)
        flock(fd, operation)

    monkeypatch.setattr("engines.telemetry.locked.fcntl.flock", replaced)
    log.append({"action": "ours"})
    assert (3, ["theirs", "ours"]) == (len(rounds), [entry["action"] for entry in lines(path)])


def test_who_has_met_a_renaming_tool_waits_awake(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that has locked the new file whenever a sleeper is woken gets an entry all the same, in the first gap."""
    log, asked = EpisodicLog(path), []

    def ahead(fd: int, operation: int) -> None:
        if operation == fcntl.LOCK_UN:
            return
        asked.append(operation)
        if len(asked) == 6:
            return  # the gap between its renaming and its next lock
        fresh = path.with_name("fresh")
        fresh.write_text(f'{{"action": "theirs {len(asked)}"}}\n', encoding="utf-8")
        fresh.replace(path)
        if operation & fcntl.LOCK_NB:
            raise BlockingIOError

    monkeypatch.setattr("engines.telemetry.locked.fcntl.flock", ahead)
    log.append({"action": "ours"})
    assert [fcntl.LOCK_EX, *[fcntl.LOCK_EX | fcntl.LOCK_NB] * 5] == asked
    assert ["theirs 5", "ours"] == [entry["action"] for entry in lines(path)]


def test_nobody_stays_awake_for_a_file_that_is_not_replaced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has been held for a while by one and the same the system is left to say when it is free."""
    log, asked = EpisodicLog(path), []

    def held(fd: int, operation: int) -> None:
        if operation == fcntl.LOCK_UN:
            return
        asked.append(operation)
        if len(asked) == 1:
            path.unlink()
        elif operation & fcntl.LOCK_NB:
            raise BlockingIOError

    monkeypatch.setattr("engines.telemetry.locked.fcntl.flock", held)
    monkeypatch.setattr("engines.telemetry.locked._CALM", 0.002)
    log.append({"action": "ours"})
    assert (fcntl.LOCK_EX, fcntl.LOCK_EX) == (asked[0], asked[-1])
    assert {fcntl.LOCK_EX | fcntl.LOCK_NB} == set(asked[1:-1])
    assert ["ours"] == [entry["action"] for entry in lines(path)]


def test_a_file_that_is_replaced_for_ever_is_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an error, rather than to try for ever."""
    monkeypatch.setattr("engines.telemetry.locked.fcntl.flock", lambda _fd, _operation: path.unlink(missing_ok=True))
    monkeypatch.setattr("engines.telemetry.locked._PATIENCE", 0.05)
    with pytest.raises(OSError, match="again and again"):
        EpisodicLog(path).append({"action": "a"})


def test_a_system_without_locks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor with the calls that such a system lacks: threads of one process still take turns; reading works."""
    monkeypatch.setattr("engines.telemetry.locked.fcntl", None)
    for name in ("pread", "set_blocking"):
        monkeypatch.delattr(os, name)
    log = EpisodicLog(path)
    threads = [threading.Thread(target=lambda: [log.append({"action": "a"}) for _ in range(20)]) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 100 == len(lines(path)) == read_whole(path).count(b"\n")


# -- several writers --------------------------------------------------------------------------------------------------

WRITER = """
import sys
from engines.telemetry import EpisodicLog
path, number, count, size = sys.argv[1], *map(int, sys.argv[2:5])
log = EpisodicLog(path)
for at in range(count):
    log.append({"action": f"{number}-{at}", "reflection": "r" * (size if at % 10 == number else at)})
"""
REWRITER = """
import fcntl, os, sys, time
path, way, lead, pause = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
rounds = 0
while os.getppid() == lead and not os.path.exists(path + ".enough"):
    with open(path, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
            continue
        lines = file.read().splitlines(keepends=True)
        kept = sorted(lines, key=len) if way == "sort" else lines
        if way in {"rename", "lock and rename"}:
            with open(path + ".new", "wb") as fresh:
                if way == "lock and rename":
                    fcntl.flock(fresh, fcntl.LOCK_EX)
                fresh.writelines(kept)
                fresh.flush()
                os.replace(path + ".new", path)
        else:
            file.seek(0)
            file.truncate()
            file.writelines(kept)
            file.flush()
    rounds += 1
    if pause:
        time.sleep(pause)
print(rounds)
"""
BURNER = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    pass
"""


def written_by(
    path: Path, way: str, count: int, size: int, *, pause: float = 0.0, old: int = 0, busy: bool = False
) -> list[dict[str, Any]]:
    """What is in a file after six processes have appended to it while another one rewrote it again and again.

    The other one rests for `pause` seconds in between; `old` bytes are there before; `busy` has one more burn a core.
    """
    EpisodicLog(path).append_all(
        [{"action": "begin"}, *[{"action": "old", "reflection": "o" * 100_000}] * (old // 100_000)]
    )
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    run, lead = [sys.executable, "-c"], str(os.getpid())
    burners = [subprocess.Popen([*run, BURNER, lead])] if busy else []
    rewriter = subprocess.Popen([*run, REWRITER, str(path), way, lead, str(pause)], stdout=subprocess.PIPE, env=env)
    writers = [subprocess.Popen([*run, WRITER, str(path), str(n), str(count), str(size)], env=env) for n in range(6)]
    try:
        assert [0] * 6 == [writer.wait(300) for writer in writers]
    finally:
        path.with_name(path.name + ".enough").touch()
        rounds = rewriter.communicate(timeout=60)[0]
        for burner in burners:
            burner.kill()
            burner.wait()
    assert int(rounds) > 3
    return lines(path)


FORKED = """
import os, sys, threading
from datetime import UTC, datetime
from engines.telemetry import EpisodicLog
lead, inside, go = os.getpid(), threading.Event(), threading.Event()

def clock():
    if os.getpid() == lead:
        inside.set()
        assert go.wait(30)
    return datetime.now(UTC)

log = EpisodicLog(sys.argv[1], clock=clock)
thread = threading.Thread(target=log.append, args=({"action": "first"},))
thread.start()
assert inside.wait(30)  # it has the lock now
ours, theirs = os.pipe()
child = os.fork()
if child == 0:
    os.read(ours, 1)
    log.append({"action": "child"})
    os._exit(0)
go.set()
thread.join()
log.append({"action": "second"})
os.write(theirs, b"x")
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_process_that_forks_in_the_midst_of_writing_holds_nobody_up(path: Path) -> None:
    """The child has the open file and a copy of the lock of its parent's thread; both write on all the same."""
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    subprocess.run([sys.executable, "-c", FORKED, str(path)], check=True, timeout=60, env=env)
    assert ["first", "second", "child"] == [entry["action"] for entry in lines(path)]


@pytest.mark.parametrize("way", ["truncate", "rename"])
def test_t04_several_processes_and_a_tool_that_rewrites(tmp_path: Path, way: str) -> None:
    """T04: of 6 processes' entries of up to 300 KB every line parses and none is lost, however the file is rewritten."""
    found = written_by(tmp_path / "log", way, 12, 300_000)
    assert {"begin", *(f"{n}-{at}" for n in range(6) for at in range(12))} == {entry["action"] for entry in found}
    assert 73 == len(found)
    stamps = [entry["timestamp"] for entry in found]
    assert sorted(set(stamps)) == stamps


@pytest.mark.slow
@pytest.mark.parametrize("way", ["truncate", "rename", "lock and rename", "sort"])
def test_t04_at_length(tmp_path: Path, way: str) -> None:
    """T04: the same with 200 entries a process, on a busy machine, and whatever the tool does with what it rewrites."""
    found = written_by(tmp_path / "log", way, 200, 300_000, busy=True)
    assert 1201 == len(found) == len({entry["action"] for entry in found})


@pytest.mark.slow
@pytest.mark.parametrize(("pause", "old"), [(0.001, 0), (0.005, 0), (0.0, 30_000_000), (0.001, 30_000_000)])
@pytest.mark.parametrize("way", ["truncate", "rename"])
def test_t04_a_tool_that_rests_and_a_large_file(tmp_path: Path, way: str, pause: float, old: int) -> None:
    """T04: nor is any lost where the tool rests between rewrites, or where one of them takes long."""
    found = written_by(tmp_path / "log", way, 30, 300_000, pause=pause, old=old, busy=True)
    assert 181 + old // 100_000 == len(found)
    assert {"old"} >= {entry["action"] for entry in found} - {
        "begin",
        *(f"{n}-{at}" for n in range(6) for at in range(30)),
    }
