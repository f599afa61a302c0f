"""Processes of the host that are reset, killed and begun anew: `python -m tests.hermes_adapter.bridge ROOT URL OUT ACT…`.

The model is in the test's process, so it outlives these.  OUT is a JSON object: for each act what was seen.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hermes.host import _loopback_only
from tests.hermes_adapter.stage import Stage, history

__all__ = ["main"]

Seen = dict[str, Any]
ACTS: dict[str, Callable[[Stage, str], Any]] = {}


def act(play: Callable[[Stage, str], Any]) -> Callable[[Stage, str], Any]:
    """Register an act under its name."""
    ACTS[play.__name__] = play
    return play


def command(text: str) -> str:
    """What the host's terminal does with `/context-bridge …`."""
    from hermes_cli.plugins import get_plugin_command_handler, resolve_plugin_command_result

    handler = get_plugin_command_handler("context-bridge")
    assert handler is not None
    return str(resolve_plugin_command_result(handler(text)))


def boundary(agent: Any, rows: list[Any], new: str) -> None:
    """What the host's terminal does at /new."""
    from hermes_cli.plugins import invoke_hook

    old = agent.session_id
    if rows:
        agent.context_compressor.on_session_end(old, rows)
    invoke_hook("on_session_finalize", session_id=old, platform="cli", reason="session_boundary")
    agent.session_id = new
    agent.reset_session_state()
    agent.context_compressor.bind_session_state(None, new)
    invoke_hook("on_session_reset", session_id=new, platform="cli", reason="new_session")


def turn(agent: Any, text: str, rows: list[Any] | None = None) -> Seen:
    """One turn."""
    result = agent.run_conversation(text, conversation_history=rows or [], task_id=agent.task)
    return {
        "completed": result["completed"],
        "interrupted": bool(result.get("interrupted")),
        "said": result["final_response"],
        "rows": result["messages"],
    }


@act
def interrupted(stage: Stage, url: str) -> Seen:
    """A task with tool calls; the user types /new while it goes on, and the process is gone at once."""
    agent = stage.agent(url, session="task-new")
    seen: list[Seen] = []
    thread = threading.Thread(target=lambda: seen.append(turn(agent, "Count the parcels in depot 7, please.")))
    (stage.root / "ready").unlink(missing_ok=True)
    thread.start()
    while not (stage.root / "ready").exists():  # the model's second answer is on its way
        thread.join(0.02)
    agent.interrupt()
    (stage.root / "go").touch()
    thread.join()
    boundary(agent, seen[0]["rows"], "task-after")
    return {
        "completed": seen[0]["completed"],
        "interrupted": seen[0]["interrupted"],
        "rows": seen[0]["rows"],
        "files": listed(stage),
    }


@act
def killed(stage: Stage, url: str) -> Seen:
    """A task that is compacted in its midst; the test kills this process at the request after that."""
    agent = stage.agent(url, session="task-kill")
    first = turn(agent, "Weigh the letters, please.")
    rows = [*first["rows"], *history(30)]
    turn(agent, "Now stamp the letters.", rows)
    return {"survived": True}


@act
def cut(stage: Stage, url: str) -> Seen:
    """The same task, but this process kills itself at the very moment at which `compress` returns to the host."""
    agent = stage.agent(url, session="task-cut")
    first = turn(agent, "Weigh the letters, please.")
    engine = type(agent.context_compressor)
    real = engine.compress

    def compress(self: Any, messages: Any, *args: Any, **told: Any) -> Any:
        done = real(self, messages, *args, **told)
        if done is not messages:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    engine.compress = compress
    turn(agent, "Now stamp the letters.", [*first["rows"], *history(30)])
    return {"survived": True}


@act
def stalled_disk(stage: Stage, url: str) -> Seen:
    """A disk that does not answer while the host compacts: it is not waited for long, and an interrupt not at all."""
    from bridges.hermes.runtime import running
    from engines import facts as f
    from engines.snapshotter import SnapshotStore, actor

    began, free = threading.Event(), threading.Event()
    real = SnapshotStore.save

    def save(self: SnapshotStore, *args: Any, **more: Any) -> Any:
        began.set()
        assert free.wait(60)
        return real(self, *args, **more)

    def interrupt() -> None:
        assert began.wait(60)
        signal.raise_signal(signal.SIGINT)

    SnapshotStore.save = save  # type: ignore[method-assign]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    agent = stage.agent(url, session="stalled")
    engine, rows, seen = agent.context_compressor, history(30), Seen()
    actor._PATIENCE = 3_600  # the loop's own bound is what counts
    done = engine.compress(rows, current_tokens=60_000)  # it returns, although nobody lets the disk go
    seen["smaller"] = len(done) < len(rows)
    runtime = running()
    assert runtime is not None
    seen["answers"] = runtime.ask(lambda desk: len(desk.me.facts(f.Session)), seconds=20)
    seen["began"], seen["files"] = began.is_set(), listed(stage)
    free.set()
    engine.awaiting_real_usage_after_compression = True
    seen["late"] = waited(stage, "stalled compaction")
    began.clear()
    free.clear()
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        stage.agent(url, session="hasty").context_compressor.compress(rows, current_tokens=60_000)
    except KeyboardInterrupt:
        seen["interrupted"] = True
    free.set()
    return seen


def waited(stage: Stage, wanted: str) -> bool:
    """Whether a snapshot comes to be there."""
    for _ in range(600):
        if wanted in listed(stage):
            return True
        threading.Event().wait(0.05)
    return False


@act
def restored(stage: Stage, url: str) -> Seen:
    """The next process: what is there, one brought back, two turns of that session, and another session beside it."""
    agent = stage.agent(url, session="after")
    seen: Seen = {"list": command("list"), "help": command("frobnicate now"), "wrong": command("restore zzz")}
    entries = [line.split() for line in seen["list"].splitlines() if line.lstrip()[:1].isdigit()]
    seen["shown"] = command("show 1")
    number = next(line[0].rstrip(".") for line in entries if line[-1] == os.environ["RESTORE"])
    seen["restore"] = command(f"restore {number}")
    beside = stage.agent(url, session="beside")
    others = threading.Thread(target=lambda: turn(beside, "Somebody else asks."))
    others.start()
    one = turn(agent, "Go on, please.")
    two = turn(agent, "And then?", one["rows"])
    others.join()
    seen["rows"] = two["rows"]
    seen["status"] = stage.status()
    return seen


@act
def unbound(stage: Stage, url: str) -> Seen:
    """The command comes before there is an agent; it is for the first that begins a turn."""
    seen: Seen = {"restore": command("restore")}
    agent = stage.agent(url, session="late")
    turn(agent, "Go on, please.")
    return seen


@act
def many_turns(stage: Stage, url: str) -> Seen:
    """Turns and nothing else: nothing is written, nobody's snapshot goes."""
    before = listed(stage)
    agent = stage.agent(url, session="busy")
    for number in range(25):
        turn(agent, f"Question {number}: what is next?")
    seen: Seen = {"before": before, "during": listed(stage)}
    boundary(agent, [], "busy-after")
    return {**seen, "after": listed(stage)}


@act
def two_sessions(stage: Stage, url: str) -> Seen:
    """Two agents in front of nobody knows whom: the command does not guess, the tool knows its own."""
    agents = [stage.agent(url, session=name) for name in ("one", "two")]
    seen: Seen = {"restore": command("restore")}
    turn(agents[0], "USE-TOOL: what did we know?")
    turn(agents[1], "Nothing, thank you.")
    return seen


@act
def broken_disk(stage: Stage, url: str) -> Seen:
    """A file where the folder should be: the turn and /new go on; once it is gone, the next boundary writes."""
    from engines import facts as f

    folder = stage.home / "context-bridge" / "snapshots"
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = folder.rename(folder.with_name("aside")) if folder.exists() else None
    folder.write_text("in the way", encoding="utf-8")
    agent = stage.agent(url, session="broken")
    one = turn(agent, "What is the finding?")
    boundary(agent, one["rows"], "mended")
    failed = [fact.error for fact in stage.facts(f.SnapshotFailed)]
    folder.unlink()
    if aside is not None:
        aside.rename(folder)
    two = turn(agent, "And now?")
    boundary(agent, two["rows"], "later")
    return {"completed": [one["completed"], two["completed"]], "failed": failed, "files": listed(stage)}


def listed(stage: Stage) -> list[str]:
    """The sessions of the snapshots that are there, the newest first."""
    from engines.snapshotter import FOLDER, SnapshotStore

    return [f"{entry.session_id} {entry.reason}" for entry in SnapshotStore(stage.home / FOLDER).list()]


class _Stage(Stage):
    def status(self) -> list[str]:
        """What `/dataspace status` says of snapshots."""
        from bridges.hermes.runtime import running
        from bridges.hermes.snapshots import status

        runtime = running()
        return [] if runtime is None else list(runtime.ask(lambda desk: status(desk.me)))


def main(root: str, url: str, out: str, *acts: str) -> None:
    """Play the acts."""
    sys.addaudithook(_loopback_only)
    logging.basicConfig(filename=f"{out}.log", level=logging.INFO)
    stage = _Stage(Path(root).resolve())
    (stage.root / "p7.txt").write_text("parcels: 29 of 41\n", encoding="utf-8")
    stage.configure(url)
    seen: Seen = {}
    for name in acts:
        try:
            seen[name] = ACTS[name](stage, url)
        except BaseException:  # noqa: BLE001 - the test shows it
            seen[name] = {"error": traceback.format_exc()}
        Path(out).write_text(json.dumps(seen), encoding="utf-8")
    if "interrupted" in acts:
        os._exit(0)  # without so much as a goodbye


if __name__ == "__main__":
    main(*sys.argv[1:])
