"""What a snapshot costs: written, listed, and how long the event loop waits for a disk that is slow.

Wall-clock time where disks are waited for, processor time elsewhere; the best of many counts, as everywhere.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import trio

from dataspace import open_dataspace, where
from engines import facts as f
from engines.snapshotter import Snapshot, SnapshotStore, snapshotter
from engines.snapshotter.fit import render

from .measure import Row, Slice, Times

__all__ = ["ROWS"]

BEYOND = 0.020  # seconds that a save may take beyond a write of the same bytes
LIST = 0.200  # seconds for a list of a thousand
TURN = 0.050  # seconds that the loop may be away while a disk is slow: other programs want the processor, too
HEARD = 20e-6  # seconds of the loop's time that a tool call may take
SLOW = 0.25  # seconds that the slow disk takes


def _snapshot(at: int = 0) -> Snapshot:
    """Fifty calls and fifty findings, as they are; a little more than a file has room for."""
    call = {
        "tool": "terminal",
        "outcome": "exit 1: 3 failed, 40 passed in 12.41s",
        "status": "error",
        "at": "2026-03-01T12:00:00+00:00",
    }
    return Snapshot(
        f"session-{at}",
        timestamp=1_700_000_000 + at,
        tool_calls=[{**call, "target": f"make test-{n} in the folder of the project"} for n in range(50)],
        key_findings=[
            f"Finding {n}: it failed because module_{n}.py is imported before it is configured." for n in range(50)
        ],
        task_state={"request": "Mend the tests of the project.", "in_flight": True, "next_step": "run make test-50"},
    )


def _wall(fn: Any) -> Slice:
    def run(number: int) -> float:
        start = time.perf_counter()
        for _ in range(number):
            fn()
        return time.perf_counter() - start

    return run


def _save() -> tuple[Slice, Slice]:
    """A save among ten others, beside one write of the same bytes that is synced, and what is allowed beyond it."""
    folder = tempfile.TemporaryDirectory()
    store = SnapshotStore(Path(folder.name) / "snapshots")
    data = render(_snapshot()).encode()
    made = 0

    def save() -> None:
        nonlocal made
        made += 1
        store.save(_snapshot(made).as_json())
        assert folder

    def write() -> None:
        descriptor = os.open(Path(folder.name) / "plain", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(descriptor, data)
        os.fsync(descriptor)
        os.close(descriptor)

    plain = _wall(write)
    return _wall(save), lambda number: plain(number) + number * BEYOND


def _list() -> tuple[Slice, Slice]:
    folder = tempfile.TemporaryDirectory()
    store = SnapshotStore(Path(folder.name), keep=2_000)
    first = store.save(_snapshot())
    text = first.read_text(encoding="utf-8")
    for at in range(1, 1_000):
        first.with_name(f"other-{at}.json").write_text(text.replace("session-0", f"session-{at}"), encoding="utf-8")

    def names() -> None:
        assert len(store.list()) == 1_000, folder

    return _wall(names), lambda number: number * LIST


class _SlowStore(SnapshotStore):
    def save(self, *args: Any, **more: Any) -> Path:
        """Take as long as a disk that is overloaded."""
        time.sleep(SLOW)
        return super().save(*args, **more)


async def _longest_turn() -> float:
    """The longest that the loop was away from whoever wants to act, while a save goes on."""
    with tempfile.TemporaryDirectory() as folder:
        return await _longest_turn_in(Path(folder) / "snapshots")


async def _longest_turn_in(folder: Path) -> float:
    async with open_dataspace() as ds:
        await ds.spawn(snapshotter(lambda _session: _SlowStore(folder)), name="snapshotter")
        me = ds.actor("host")
        me.publish(f.Session("s1"))
        me.send(f.TurnStarted("s1", "t1", text="Go on."))
        me.publish(f.Asked("s1", 1, 1, "snapshotter", "reviser"))
        longest, last = 0.0, time.perf_counter()
        while not ds.facts(where(f.SnapshotSaved, sid="s1")):
            assert not ds.facts(f.SnapshotFailed)
            await trio.lowlevel.checkpoint()
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
        return longest


def _away() -> tuple[Slice, Slice]:
    return (lambda number: sum(trio.run(_longest_turn) for _ in range(number))), (lambda number: number * TURN)


async def _hearing(number: int) -> float:
    """Processor time of the loop's thread for so many tool calls, which others take in and nobody writes."""
    async with open_dataspace() as ds:
        await ds.spawn(snapshotter(lambda _session: None), name="snapshotter")
        me = ds.actor("host")
        me.publish(f.Session("s1"))
        start = time.thread_time()
        for n in range(number):
            me.send(f.ToolCalled("s1", f"c{n}", "terminal", args='{"command": "ls -l"}', result="a line " * 100))
            if not n % 10:
                await trio.lowlevel.checkpoint()
        return time.thread_time() - start


def _heard() -> tuple[Slice, Slice]:
    return (lambda number: trio.run(_hearing, number)), (lambda number: number * HEARD)


ROWS: list[Row] = [
    Times("a tool call, heard by the snapshotter", "20 µs of the loop", 1.0, _heard, rounds=10),
    Times("save a snapshot of 50 + 50 entries", "a synced write of it + 20 ms", 1.0, _save, rounds=30),
    Times("list 1,000 snapshots", "200 ms", 1.0, _list, rounds=8),
    Times("longest the loop is away, a disk that takes 250 ms", "50 ms", 1.0, _away, rounds=4),
]
