"""Processes that save snapshots, and are killed while they do: `python -m tests.snapshot_child FOLDER`.

It has everything loaded and forks a child for every line on its standard input, a JSON object:

    {"what": "stop", "n": 7}     stops at once; when it is continued it saves snapshot 7
    {"what": "line", "n": 7, "at": 30}   kills itself at the 30th line of ours that is run while it saves
    {"what": "save", "n": 7, "many": 50}  saves snapshots 7 to 56

The pid is printed at once (`pid N`), and what became of the child at its end (`end STATUS`).
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

from engines import snapshotter as package
from engines.snapshotter import Snapshot, SnapshotStore

__all__ = ["made"]

START = datetime(2026, 1, 1, tzinfo=UTC)
OURS = tuple(str(Path(package.__file__).with_name(name)) for name in ("store.py", "listing.py", "files.py"))
ANYBODY = 0x59616D61, ctypes.c_ulong(-1)  # let whoever wants to trace this process


def made(n: int, profile: str = "default") -> Snapshot:
    """Snapshot `n`, later than all with smaller numbers."""
    return Snapshot(
        session_id=f"s{n % 7}",
        reason="session_end",
        timestamp=START + timedelta(seconds=n),
        profile=profile,
        sequence=n,
        tool_calls=[{"tool": "terminal", "target": f"make {at}", "outcome": "done"} for at in range(20)],
        key_findings=[f"Finding {at} of snapshot {n}" for at in range(20)],
        task_state={"request": f"request {n}", "n": n},
    )


def _kill_at(line: int) -> None:
    """Kill this process when so many lines of the store have been run."""
    seen = 0

    def trace(frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename not in OURS:
            return None
        if event == "line":
            seen += 1
            if seen == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def _child(store: SnapshotStore, asked: dict[str, Any]) -> None:
    n = asked["n"]
    if asked["what"] == "stop":
        ctypes.CDLL(None).prctl(*ANYBODY)
        os.kill(os.getpid(), signal.SIGSTOP)
    elif asked["what"] == "line":
        _kill_at(asked["at"])
    for more in range(asked.get("many", 1)):
        store.save(made(n + more))


def main(folder: str) -> None:
    """Fork for every line."""
    store = SnapshotStore(folder)
    store.save(made(0))  # whatever is loaded late is loaded now
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            try:
                _child(store, json.loads(line))
            except BaseException as error:  # noqa: BLE001 - a child must not go on as if it were its parent
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        print(f"pid {pid}", flush=True)
        print(f"end {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
