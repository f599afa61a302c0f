"""Context that survives in the real host: reset, killed, and brought back in the next process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CHECKOUT
from tests.hermes_adapter.model import Call, Model, Say

pytestmark = pytest.mark.hermes

Seen = dict[str, Any]
MARK = "[Restored from a snapshot"


def start(root: Path, url: str, *acts: str, **env: str) -> subprocess.Popen[bytes]:
    """A process of the host that plays these acts."""
    out = root / f"{acts[0]}.json"
    environment = {
        "HOME": str(root),
        "HERMES_HOME": str(root / ".hermes"),
        "TMPDIR": str(root),
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": str(CHECKOUT),
        "LC_ALL": "C.UTF-8",
        **env,
    }
    command = [sys.executable, "-m", "tests.hermes_adapter.bridge", str(root), url, str(out), *acts]
    return subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def play(root: Path, url: str, *acts: str, **env: str) -> Seen:
    """Play acts to the end; what was seen, by act."""
    process = start(root, url, *acts, **env)
    output, _ = process.communicate(timeout=300)
    assert 0 == process.returncode, output[-3000:]
    seen: Seen = json.loads((root / f"{acts[0]}.json").read_text(encoding="utf-8"))
    for name in acts:
        assert "error" not in seen[name], seen[name]["error"]
    return seen


def said_last(request: Seen) -> str:
    """The latest message of the user in a request, without what goes with it."""
    return [str(row["content"]) for row in request["messages"] if row["role"] == "user"][-1]


class Story:
    """What the model does in both processes that are to be survived."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.killed: list[int] = []
        self.process: subprocess.Popen[bytes] | None = None

    def decide(self, request: Seen) -> Say | None:
        last, number = said_last(request), sum(row["role"] == "tool" for row in request["messages"])
        if last.startswith("Count the parcels"):
            return self._count(number)
        if last.startswith("Weigh"):
            return Say("The scales of depot 9 are off by 12 grams because of the frost.")
        if last.startswith("Now stamp"):
            return self._stamp(request)
        if "USE-TOOL" in last and not number:
            return Say("I will look.", (Call("context_bridge", {"action": "restore"}),))
        return None

    def _count(self, number: int) -> Say:
        if not number:
            read = Call("read_file", {"path": str(self.root / "p7.txt")})
            return Say("I found that depot 7 lists 41 parcels. Next I will compare it with the ledger.", (read,))
        (self.root / "ready").touch()
        while not (self.root / "go").exists():
            time.sleep(0.01)  # another process makes it
        return Say("", (Call("read_file", {"path": str(self.root / "ledger.txt")}),))

    def _stamp(self, request: Seen) -> Say:
        if "[CONTEXT COMPACTION" in json.dumps(request["messages"]) and self.process is not None:
            self.process.send_signal(signal.SIGKILL)  # right after the compaction
            self.killed.append(1)
            return Say("Too late.")
        read = Call("read_file", {"path": str(self.root / "p7.txt")})
        return Say("Let me read the list of the stamps.", (read,), 60_000)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Model, Seen]]:
    """Two processes that were reset and killed, in one home."""
    root = tmp_path_factory.mktemp("bridge")
    story = Story(root)
    with Model(decide=story.decide) as model:
        seen = play(root, model.url, "interrupted")
        story.process = start(root, model.url, "killed")
        story.process.communicate(timeout=300)
        seen["killed"] = {"code": story.process.returncode, "requests": len(story.killed)}
        story.process = None
        cut = start(root, model.url, "cut")
        cut.communicate(timeout=300)
        seen["cut"] = {"code": cut.returncode}
        yield root, model, seen


def restored(told: tuple[Path, Model, Seen], session: str) -> tuple[Seen, list[Seen]]:
    """The next process, in which that session is restored; what was seen, and the requests that came meanwhile."""
    root, model, _seen = told
    before = len(model.turns)
    seen = play(root, model.url, "restored", RESTORE=session)["restored"]
    return seen, model.turns[before:]


def rows_with(requests: list[Seen], text: str) -> list[str]:
    """The rows that hold a text, as they were sent."""
    return [
        json.dumps(row, sort_keys=True)
        for request in requests
        for row in request["messages"]
        if text in json.dumps(row)
    ]


def check_once(requests: list[Seen]) -> str:
    """What was restored is in the user row of one turn, equal in every request, and in no other row; returns it."""
    rows = rows_with(requests, MARK)
    assert rows
    assert 1 == len(set(rows))
    row: Seen = json.loads(rows[0])
    assert "user" == row["role"]
    assert str(row["content"]).startswith("Go on, please.")
    for request in requests:
        texts = [str(one["content"]) for one in request["messages"] if one["role"] == "user"]
        assert sum(MARK in text for text in texts) == any(text.startswith("Go on, please.") for text in texts)
        if texts[0].startswith("Somebody else"):
            assert MARK not in json.dumps(request)
    assert any(said_last(request).startswith("Somebody else") for request in requests)
    return str(row["content"])


def test_a_reset_task_comes_back(told: tuple[Path, Model, Seen]) -> None:
    """A task interrupted by /new, the process gone at once: the next one brings back request, calls, findings, next step."""
    assert ["task-new session_reset"] == told[2]["interrupted"]["files"]
    assert told[2]["interrupted"]["interrupted"]
    seen, requests = restored(told, "task-new")
    assert "task-new" in seen["list"]
    assert "session_reset" in seen["list"]
    text = check_once(requests)
    for part in (
        "Count the parcels in depot 7",
        "read_file",
        "p7.txt",
        "depot 7 lists 41 parcels",
        "interrupted, not finished",
        "ledger",
    ):
        assert part in text, part
    assert "session task-new, profile default, saved 20" in text
    assert any(name in line for line in seen["status"] for name in ("task-kill", "task-new", "task-cut"))
    assert "list | restore [id]" in seen["help"]
    assert "there is no snapshot 'zzz'" in seen["wrong"]


def test_a_killed_task_comes_back(told: tuple[Path, Model, Seen]) -> None:
    """Killed right after a compaction: a finding stated only before it is there, with the request and what was next."""
    assert {"code": -signal.SIGKILL, "requests": 1} == told[2]["killed"]
    seen, requests = restored(told, "task-kill")
    assert "compaction" in next(line for line in seen["list"].splitlines() if "task-kill" in line)
    text = check_once(requests)
    for part in ("Now stamp the letters.", "scales of depot 9 are off by 12 grams", "read_file", "list of the stamps"):
        assert part in text, part


def test_a_task_that_is_cut_off_comes_back(told: tuple[Path, Model, Seen]) -> None:
    """Killed as `compress` returns, before the host can act on what it gave: a finding stated only before it is there."""
    assert {"code": -signal.SIGKILL} == told[2]["cut"]
    seen, requests = restored(told, "task-cut")
    assert "compaction" in next(line for line in seen["list"].splitlines() if "task-cut" in line)
    text = check_once(requests)
    for part in ("Now stamp the letters.", "scales of depot 9 are off by 12 grams", "read_file", "list of the stamps"):
        assert part in text, part


def test_a_disk_that_stalls(told: tuple[Path, Model, Seen]) -> None:
    """`compress` returns although the disk does not; what was to be written is written late; an interrupt gets through."""
    seen = play(told[0], told[1].url, "stalled_disk")["stalled_disk"]
    assert {"smaller": True, "began": True, "late": True, "interrupted": True} == {
        name: seen.get(name) for name in ("smaller", "began", "late", "interrupted")
    }
    assert seen["answers"]
    assert "stalled compaction" not in seen["files"]


@pytest.mark.slow
def test_before_there_is_an_agent(told: tuple[Path, Model, Seen]) -> None:
    """In a fresh process the command is for the first agent that begins a turn."""
    before = len(told[1].turns)
    seen = play(told[0], told[1].url, "unbound")["unbound"]
    assert "goes to the model with your next message" in seen["restore"]
    assert 1 == len(set(rows_with(told[1].turns[before:], MARK)))


@pytest.mark.slow
def test_who_is_meant_is_not_guessed(told: tuple[Path, Model, Seen]) -> None:
    """Two sessions: the command says that it cannot know; the model's tool brings it back for the session that asked."""
    before = len(told[1].turns)
    seen = play(told[0], told[1].url, "two_sessions")["two_sessions"]
    assert "2 sessions run here" in seen["restore"]
    requests = told[1].turns[before:]
    assert 1 == len(set(rows_with(requests, MARK)))
    assert all("USE-TOOL" in json.dumps(request) for request in requests if MARK in json.dumps(request))


@pytest.mark.slow
def test_turns_evict_nobody(told: tuple[Path, Model, Seen]) -> None:
    """N01: twenty-five turns write nothing; the end of the session one snapshot."""
    seen = play(told[0], told[1].url, "many_turns")["many_turns"]
    assert seen["before"] == seen["during"]
    assert ["busy session_reset", *seen["before"]][:10] == seen["after"]


@pytest.mark.slow
def test_a_disk_that_fails(told: tuple[Path, Model, Seen]) -> None:
    """N12: turns and /new go on, the failure is a fact, and the next boundary writes."""
    seen = play(told[0], told[1].url, "broken_disk")["broken_disk"]
    assert [True, True] == seen["completed"]
    assert seen["failed"]
    assert "no folder" in seen["failed"][0]
    assert "mended session_reset" == seen["files"][0]
