"""What real agents leave in logs, spans and metrics: `python -m tests.hermes_adapter.telemetry_scenes ROOT OUT`."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bridges.hermes.ends import settle
from engines import facts as f
from tests.hermes_adapter import scenes
from tests.hermes_adapter.model import Call, Model, Say
from tests.hermes_adapter.scenes import Seen, reading, talk
from tests.hermes_adapter.stage import KEY, Stage, history

SCENES: dict[str, Callable[[Stage], Seen]] = {}
TASKS = [{"goal": "Count the stamps."}]
TOOLSETS = ["file", "delegation", "context_engine"]
ONLY = ["telemetry"]


def scene(play: Callable[[Stage], Seen]) -> Callable[[Stage], Seen]:
    """Register a scene under its name."""
    SCENES[play.__name__] = play
    return play


def entries(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, each of which must parse."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def log_of(home: Path) -> list[dict[str, Any]]:
    """What is in the log of a home."""
    return entries(home / "dataspace" / "telemetry" / "episodic.jsonl")


def _ended(stage: Stage, sid: str, count: int) -> None:
    for _ in range(300):  # children run on by themselves
        if len([fact for fact in stage.facts(f.Session) if fact.parent == sid and fact.state == "ended"]) == count:
            return
        threading.Event().wait(0.1)


@scene
def whole(stage: Stage) -> Seen:
    """Tools (two of one kind at once, one that fails), a child, a compaction, then the real end."""
    from hermes_cli.plugins import invoke_hook
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(MeterProvider([reader]))
    (stage.root / "p0.txt").write_text("parcels\n", encoding="utf-8")
    (stage.root / "brain" / ".agent" / "memory").mkdir(parents=True)

    def decide(request: dict[str, Any]) -> Say | None:
        last = request["messages"][-1]
        asked = last["role"] == "user" and "Count the stamps" in str(last.get("content"))
        return Say("There are seven.", (), 11_000) if asked else None

    secret = Call("search_files", {"pattern": f"key={KEY}", "path": str(stage.root)})
    script = [
        reading(stage, 20_000, 2),
        Say("I look.", (secret,), 21_000),
        Say("I delegate.", (Call("delegate_task", {"tasks": TASKS}),), 22_000),
        reading(stage, 60_000),
    ]
    with Model(script, decide=decide) as model:
        block = {"brain": str(stage.root / "brain"), "otel": "process"}
        stage.configure(model.url, {"observers": ONLY, "telemetry": block})
        agent = stage.agent(model.url, session="whole", enabled_toolsets=TOOLSETS)
        sid = stage.sid(agent)
        result = talk(agent, history(30))
        _ended(stage, sid, 1)
        agent.context_compressor.on_session_end("whole", result["rows"])
        invoke_hook("on_session_finalize", session_id="whole", platform="cli", reason="shutdown")
        local = log_of(stage.home)  # at once: the hook has waited for it
        tracers.force_flush()
        return {
            "sid": sid,
            "completed": result["completed"],
            "local": local,
            "brain": entries(stage.root / "brain" / ".agent" / "memory" / "episodic" / "AGENT_LEARNINGS.jsonl"),
            "spans": [json.loads(span.to_json()) for span in spans.get_finished_spans()],
            "metrics": json.loads(reader.get_metrics_data().to_json()),
            "turns": len(model.turns),
            "key": KEY,
        }


@scene
def profiles(stage: Stage) -> Seen:
    """Two profiles in one process, a turn of each in turns, as a gateway has it."""
    from hermes_constants import reset_hermes_home_override, set_hermes_home_override

    homes = {name: stage.home / "profiles" / name for name in ("fin", "law")}
    with Model() as model:
        stage.configure(model.url, {"observers": ONLY})
        text = (stage.home / "config.yaml").read_text(encoding="utf-8")
        agents: dict[str, Any] = {}
        rows: dict[str, Any] = {name: [] for name in homes}
        for turn in range(3):
            for name, home in homes.items():
                home.mkdir(parents=True, exist_ok=True)
                (home / "config.yaml").write_text(text, encoding="utf-8")
                token = set_hermes_home_override(str(home))
                try:
                    if name not in agents:
                        agents[name] = stage.agent(model.url, session=f"s-{name}")
                    model.script = iter([reading(stage, 10_000 + turn)])
                    rows[name] = talk(agents[name], rows[name], f"Turn {turn} of {name}.")["rows"]
                finally:
                    reset_hermes_home_override(token)
        settle()
        sids = {name: stage.sid(agent) for name, agent in agents.items()}
        return {"sids": sids, "base": log_of(stage.home), **{name: log_of(home) for name, home in homes.items()}}


@scene
def apart(stage: Stage) -> Seen:
    """Sessions of cron and reviews in the background leave nothing, unless they are asked for."""
    with Model() as model:
        stage.configure(model.url, {"observers": ONLY})
        before = len(log_of(stage.home))
        talk(stage.agent(model.url, session="nightly", platform="cron"), [], "Tidy up.")
        settle()
        after = len(log_of(stage.home))
        stage.configure(model.url, {"observers": ONLY, "telemetry": {"without": []}})
        model.script = iter([reading(stage, 10_000)])
        talk(stage.agent(model.url, session="nightly-2", platform="cron"), [], "Tidy up.")
        settle()
        return {"cron": after - before, "asked": len(log_of(stage.home)) - after}


@scene
def one_shot(stage: Stage) -> Seen:
    """A process that ends at once after its only turn; what it leaves is looked at by the test."""
    with Model([reading(stage, 20_000)]) as model:
        stage.configure(model.url, {"observers": ONLY})
        talk(stage.agent(model.url, session="once"), [], "One.")
        return {}


def main(root: str, out: str, *names: str) -> None:
    """Play these scenes on the common stage."""
    os.environ.pop("HERMES_DATASPACE", None)
    os.environ.pop("AGENT_PROFILE", None)
    scenes.SCENES.update(SCENES)
    scenes.main(root, out, *(names or SCENES))


if __name__ == "__main__":
    main(*sys.argv[1:])
