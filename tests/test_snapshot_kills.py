"""Snapshots when processes die in the midst of a save, and when many save at once."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from engines.snapshotter import SnapshotStore
from tests.conftest import CHECKOUT
from tests.snapshot_child import made

pytestmark = pytest.mark.slow

CHECK = """
import sys
from engines.snapshotter import SnapshotStore
from pathlib import Path
folder = Path(sys.argv[1])
store = SnapshotStore(folder)
entries = store.list()
assert not [entry for entry in entries if entry.problem], entries
print([store.load(entry.id).task_state["n"] for entry in entries])
print(sorted(path.name for path in folder.iterdir() if path.suffix != ".json"))
"""


class Parent:
    """A process that forks children which save; `kills` counts those that were killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kills = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.snapshot_child", str(folder)],
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.communicate(timeout=60)

    def fork(self, **asked: Any) -> int:
        """Fork a child; returns its pid."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(self._line().removeprefix("pid "))

    def end(self) -> int:
        """How the child ended; negative for a signal."""
        status = int(self._line().removeprefix("end "))
        self.kills += status == -signal.SIGKILL
        return status

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def traced(self, n: int, *options: str) -> str:
        """Save snapshot `n` under strace; what strace has written."""
        pid = self.fork(what="stop", n=n)
        wait_until_stopped(pid)
        out = self.folder.with_name("trace")
        command = ["strace", "-p", str(pid), "-o", str(out), *options]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None
            said = tracer.stderr.readline()
            if "attached" not in said:
                os.kill(pid, signal.SIGKILL)
                self.end()
                pytest.skip(f"strace cannot attach here: {said.strip()}")
            os.kill(pid, signal.SIGCONT)
            tracer.wait(30)
        return out.read_text(encoding="utf-8", errors="replace")


def wait_until_stopped(pid: int) -> None:
    """Wait until a process has stopped itself; it is about to."""
    for _ in range(10_000):
        if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T":
            return
        time.sleep(0.001)
    raise AssertionError(f"process {pid} does not stop")


def numbers(folder: Path) -> list[int]:
    """The snapshots that are there, the newest first; fails if one is not whole."""
    store = SnapshotStore(folder)
    entries = store.list()
    assert [] == [entry.problem for entry in entries if entry.problem]
    return [entry.sequence for entry in entries]


def check_elsewhere(folder: Path, expected: list[int]) -> None:
    """Another process finds exactly these, whole, and nothing that was left over."""
    done = subprocess.run(
        [sys.executable, "-c", CHECK, str(folder)], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr
    assert f"{expected}\n['.lock']\n" == done.stdout


def after_a_kill(folder: Path, before: list[int], n: int) -> list[int]:
    """A save that was killed has changed nothing, or is done; what was there is whole and, but for the oldest, there.

    The next save tidies up after it; returns what is there then.
    """
    found = numbers(folder)
    assert found[0] in {n, before[0]}
    assert set(before[:9]) <= set(found)
    assert set(found) <= {n, *before}
    SnapshotStore(folder).save(made(n + 1))
    after = numbers(folder)
    assert [n + 1, *found][:10] == after
    assert [".lock"] == [path.name for path in folder.iterdir() if path.suffix != ".json"]
    return after


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the snapshots are."""
    return tmp_path / "snapshots"


def all_at_once(folder: Path, first: int) -> None:
    """N18, N10: ten threads here and four processes save at once, two of them the same ids; exactly the newest ten are left."""
    errors: list[BaseException] = []

    def save(thread: int) -> None:
        try:
            store = SnapshotStore(folder)
            for at in range(10):
                store.save(made(first + thread * 10 + at))
        except BaseException as error:  # noqa: BLE001 - shown by the test
            errors.append(error)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(10)]
    parents = [Parent(folder) for _ in range(4)]
    for number, parent in enumerate(parents):
        parent.fork(what="save", n=first + 100 + max(number - 1, 0) * 50, many=50)  # two of them the same
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [0] * 4 == [parent.end() for parent in parents]
    for parent in parents:
        with parent:
            pass
    assert [] == errors
    check_elsewhere(folder, list(range(first + 249, first + 239, -1)))


def points(trace: str) -> Iterator[tuple[str, int]]:
    """The system calls of a trace, each with which of its kind it is."""
    seen: Counter[str] = Counter()
    for line in trace.splitlines():
        call = re.match(r"(\w+)\(", line)
        if call is not None and call[1] not in {"exit_group", "restart_syscall", "kill"}:
            seen[call[1]] += 1
            yield call[1], seen[call[1]]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_killed_at_every_system_call(folder: Path) -> None:
    """N07: killed by SIGKILL at every system call of a save, two hundred or more, then many at once: every file is whole."""
    with Parent(folder) as parent:
        SnapshotStore(folder).clear()
        for n in range(1, 11):
            SnapshotStore(folder).save(made(n))
        whole = list(points(parent.traced(11)))
        assert 0 == parent.end()
        n, before = 12, numbers(folder)
        while parent.kills < 200:
            for call, at in whole:
                parent.traced(n, "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={at}")
                parent.end()
                before = after_a_kill(folder, before, n)
                n += 2
        assert parent.kills >= max(200, len(whole) * 9 // 10)
    all_at_once(folder, n)


def test_killed_at_every_line(folder: Path) -> None:
    """The same where nothing can be traced: killed at line after line of ours that a save runs."""
    with Parent(folder) as parent:
        SnapshotStore(folder).clear()
        for n in range(1, 11):
            SnapshotStore(folder).save(made(n))
        at, n, ended, before = 1, 11, 1, numbers(folder)
        while ended != 0:
            parent.fork(what="line", n=n, at=at)
            ended = parent.end()
            before = after_a_kill(folder, before, n)
            n, at = n + 2, at + (1 if at < 40 else 2)
        assert parent.kills >= 200
    all_at_once(folder, n)


def test_readers_see_whole_files(folder: Path) -> None:
    """N07: whoever reads while 200 saves go on sees what was there or what is there now, never a part."""
    with Parent(folder) as parent:
        parent.fork(what="save", n=1, many=200)
        seen: set[int] = set()
        while 201 not in seen and max(seen, default=0) < 200:
            seen |= set(numbers(folder))
        assert 0 == parent.end()
    check_elsewhere(folder, list(range(200, 190, -1)))
