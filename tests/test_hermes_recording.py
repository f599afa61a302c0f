"""The recorded session, and the recorder that makes it with the real agent."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.hermes.host import _loopback_only
from tests.hermes.record import neutraliser, record
from tests.hermes.script import SESSION, SHORT
from tests.hermes.server import tokens

KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "usage"},
    "tool": {"role", "content", "tool_call_id"},
}


@pytest.fixture(scope="module")
def demo() -> list[dict[str, Any]]:
    """The rows of the demo's recording, found as an installed package finds it."""
    text = files("bridges").joinpath("cli", "demo.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def calls(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All tool calls of a session, in order."""
    return [call for row in rows for call in row.get("tool_calls", ())]


def assert_well_formed(rows: list[dict[str, Any]]) -> None:
    """The form of a recording: known keys, and each call answered once, at once, in order."""
    awaited: list[str] = []
    for row in rows:
        assert KEYS[row["role"]] == set(row) - {"tool_calls"}
        if row["role"] == "tool":
            assert awaited.pop(0) == row["tool_call_id"]
            continue
        assert [] == awaited
        if row["role"] == "assistant":
            usage = row["usage"]
            assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
            awaited = [call["id"] for call in row.get("tool_calls", ())]
            assert all(
                isinstance(json.loads(call["function"]["arguments"]), dict) for call in row.get("tool_calls", ())
            )
    assert [] == awaited


def test_the_demo_is_a_whole_session(demo: list[dict[str, Any]]) -> None:
    """The recording holds every request of the script, answered in words at the end of each."""
    assert_well_formed(demo)
    assert [turn.request for turn in SESSION] == [row["content"] for row in demo if row["role"] == "user"]
    replies = [reply for turn in SESSION for reply in turn.replies]
    assert [reply.text for reply in replies] == [row["content"] for row in demo if row["role"] == "assistant"]
    assert "assistant" == demo[-1]["role"]
    assert "tool_calls" not in demo[-1]


def test_the_demo_is_large_enough_to_need_compaction(demo: list[dict[str, Any]]) -> None:
    """At a threshold of 20,000 tokens it crosses twice even if a compaction kept as much as 40 % of it."""
    assert len(demo) >= 120
    assert tokens(demo) >= 45_000
    assert max(row["usage"]["prompt_tokens"] for row in demo if "usage" in row) >= 45_000


def test_usage_grows_with_the_conversation(demo: list[dict[str, Any]]) -> None:
    """Nothing was compacted while recording: every prompt is larger than the one before."""
    prompts = [row["usage"]["prompt_tokens"] for row in demo if "usage" in row]
    assert prompts == sorted(set(prompts))


def test_the_demo_loads_skills_and_one_of_them_again(demo: list[dict[str, Any]]) -> None:
    """Three skills are loaded, one of them twice, and each load brings its whole body."""
    results = {row["tool_call_id"]: row["content"] for row in demo if row["role"] == "tool"}
    loads = [call for call in calls(demo) if call["function"]["name"] == "skill_view"]
    loaded = Counter(json.loads(results[call["id"]])["name"] for call in loads)
    assert {"find-the-cause": 2, "test-first": 1, "release-notes": 1} == dict(loaded)
    assert all(json.loads(results[call["id"]])["content"].startswith("---\nname: ") for call in loads)


def test_the_demo_has_failures_in_it(demo: list[dict[str, Any]]) -> None:
    """Real work fails in between: a traceback, red tests, an exit code that is not 0."""
    text = "\n".join(row["content"] for row in demo if row["role"] == "tool")
    assert "Traceback (most recent call last)" in text
    assert re.search(r"\d+ failed, \d+ passed", text)
    assert '"exit_code": 1' in text


def test_the_demo_names_no_machine(demo: list[dict[str, Any]]) -> None:
    """Absolute paths are those of a world that does not exist; there are no addresses and no keys."""
    text = json.dumps(demo)
    roots = set(re.findall(r"(?<![\w.~/<-])/([a-z]+)/[\w.]", text))
    assert roots <= {"repo", "clean", "home", "tmp", "usr", "dev"}
    assert {"robin"} >= set(re.findall(r"/home/(\w+)", text))
    assert {"session"} >= set(re.findall(r"/tmp/(\w+)", text))
    assert not re.search(r"\b\d+\.\d+\.\d+\.\d+\b|sk-\w{8}|api_key", text)


@pytest.mark.parametrize(
    ("text", "neutral"),
    [
        ("/var/rec/repo/a.py:3", "/repo/a.py:3"),
        ('{"output": "first\\n/var/rec/repo/a.py"}', '{"output": "first\\n/repo/a.py"}'),
        ("a//var/rec/repo/a.py", "a//repo/a.py"),
        ("/var/rec/home/.hermes/skills", "/home/robin/.hermes/skills"),
        ("/var/rec/other", "/tmp/session/other"),
        ("/var/rec/repository", "/tmp/session/repository"),
        ("src/var/rec/repo", "src/var/rec/repo"),
        ("3 failed, 12 passed in 10.31s", "3 failed, 12 passed in 0.05s"),
        ("<object at 0x7fa2b41c9d50>", "<object at 0x7f0123456789>"),
    ],
)
def test_machine_and_moment_are_taken_out(text: str, neutral: str) -> None:
    """Paths, durations and addresses get neutral forms; what only looks like one stays."""
    assert neutral == neutraliser(Path("/var/rec"))(text)


@pytest.mark.hermes
def test_the_real_agent_records_a_session() -> None:
    """A short session of the real agent with its real tools has the form of a recording, the same one every time."""
    rows = record(SHORT)
    assert_well_formed(rows)
    assert ["system", "user", "assistant", "tool", "tool", "assistant", "user", "assistant", "tool", "assistant"] == [
        row["role"] for row in rows
    ]
    assert ["read_file", "terminal", "skill_view"] == [call["function"]["name"] for call in calls(rows)]
    project, tested, skill = (row["content"] for row in rows if row["role"] == "tool")
    assert '3|version = \\"0.3.2\\"' in project
    assert "11 passed" in json.loads(tested)["output"]
    assert "# Release notes" in json.loads(skill)["content"]
    assert "/home/robin/.hermes/skills/" in json.loads(skill)["skill_dir"]
    assert rows == record(SHORT)


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("socket.connect", (None, ("192.0.2.1", 443))),
        ("socket.connect", (None, ("2001:db8::1", 443, 0, 0))),
        ("socket.sendto", (None, ("192.0.2.1", 53))),
        ("socket.getaddrinfo", ("example.org", 443, 0, 0, 0)),
        ("socket.getaddrinfo", (b"example.org", 443, 0, 0, 0)),
    ],
)
def test_the_host_reaches_nothing_but_loopback(event: str, arguments: tuple[Any, ...]) -> None:
    """A connection or look-up that would leave the machine is refused before it is made."""
    with pytest.raises(ConnectionRefusedError, match="refused"):
        _loopback_only(event, arguments)


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("socket.connect", (None, ("127.0.0.1", 80))),
        ("socket.connect", (None, ("::1", 80, 0, 0))),
        ("socket.connect", (None, "/tmp/a-unix-socket")),
        ("socket.getaddrinfo", ("localhost", 80, 0, 0, 0)),
        ("socket.getaddrinfo", (None, 80, 0, 0, 0)),
        ("open", ("example.org", "r", 0)),
    ],
)
def test_the_host_reaches_loopback(event: str, arguments: tuple[Any, ...]) -> None:
    """What stays on the machine is let through."""
    _loopback_only(event, arguments)
