"""Scenes with engines that misbehave, in a process of their own: `python -m tests.hermes_adapter.bad_scenes ROOT OUT NAME…`.

NAME is a class in `bad`.  Each plays ten turns of a real agent that cross the threshold.
"""

from __future__ import annotations

import copy
import faulthandler
import json
import logging
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from bridges.hermes.runtime import running
from tests.hermes.host import _loopback_only
from tests.hermes_adapter.model import Call, Model, Say
from tests.hermes_adapter.stage import Stage, history, problems, threads

__all__ = ["TURNS", "main"]

TURNS = 10
Seen = dict[str, Any]
_shift = [0.0]


class Heard(logging.Handler):
    """Keeps what the project logs from a warning on."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append((record.levelname, self.format(record)))


def an_hour_later() -> None:
    """Pauses after a failure are over; the loop's timer is told, for its clock has jumped."""
    _shift[0] += 3600.0
    runtime = running()
    if runtime is not None:
        runtime.ask(lambda desk: (desk.tick(), desk.alarms.changed()))


def ten_crossings(stage: Stage, name: str, heard: Heard) -> Seen:
    """Ten turns of one agent with this engine, each above the threshold once."""
    from tests.hermes_adapter import bad

    tool = (
        Call("look", {})
        if name == "Hangs_handle_tool_call"
        else Call("read_file", {"path": str(stage.root / "p0.txt")})
    )
    turns = iter(range(1000))

    def decide(request: dict[str, Any]) -> Say:
        if request["messages"][-1]["role"] == "user":
            return Say("Reading.", (tool,), 60_000 + next(turns))
        return Say("done", prompt=20_000)

    with Model(decide=decide) as model:
        stage.configure(model.url, {"engines": [f"tests.hermes_adapter.bad:{name}"], "deadline": 3, "patience": 1})
        before = len(threads())
        heard.texts.clear()
        agent = stage.agent(model.url)
        rows: list[dict[str, Any]] = history()
        expected = copy.deepcopy(rows)
        completed = []
        for at in range(TURNS):
            an_hour_later()
            request = f"Request {at}."
            result = agent.run_conversation(request, conversation_history=rows, task_id=f"{name}-{at}")
            rows = result["messages"]
            completed.append((result["completed"], result["final_response"]))
        # A last look at what the host asks outside of turns, as the gateway and the CLI do.
        engine = agent.context_compressor
        engine.has_content_to_compress(rows)
        status = engine.get_status()
        engine.on_session_end(agent.session_id, rows)
        engine.on_session_reset()
        return {
            "completed": completed,
            "problems": [found for request in model.turns for found in problems(request)],
            "kept": [(row["role"], row.get("content")) for row in rows[: len(expected)]]
            == [(row["role"], row.get("content")) for row in expected],
            "requests": [row["content"] for row in rows if str(row.get("content")).startswith("Request ")],
            "sent": [
                request["messages"][-1]["content"]
                for request in model.turns
                if request["messages"][-1]["role"] == "user"
            ],
            "rows": len(rows),
            "warnings": agent.warnings,
            "log": heard.texts[:],
            "threads": len(threads()) - before,
            "calls": bad.CALLS[name],
            "window": [engine.context_length, type(engine.threshold_tokens).__name__],
            "count": engine.compression_count,
            "status": sorted(status),
        }


def main(root: str, out: str, *names: str) -> None:
    """Play the scenes."""
    sys.addaudithook(_loopback_only)
    faulthandler.dump_traceback_later(580, exit=True)
    real = time.monotonic
    time.monotonic = lambda: real() + _shift[0]
    heard = Heard()
    for name in ("bridges", "engines", "dataspace"):
        logging.getLogger(name).addHandler(heard)
    stage = Stage(Path(root).resolve())
    (stage.root / "p0.txt").write_text("parcel 0\n", encoding="utf-8")
    seen: Seen = {}
    for name in names:
        try:
            seen[name] = ten_crossings(stage, name, heard)
        except BaseException:  # noqa: BLE001 - the test shows it
            seen[name] = {"error": traceback.format_exc()}
    seen["threads"] = sorted(thread.name for thread in threading.enumerate())
    Path(out).write_text(json.dumps(seen), encoding="utf-8")
    from tests.hermes_adapter import bad

    bad.let_go()


if __name__ == "__main__":
    main(*sys.argv[1:])
