"""Scenes played by real agents, in a process of their own: `python -m tests.hermes_adapter.scenes ROOT OUT [NAME…]`.

OUT is a JSON object: for each scene what was seen, or its error.  What it should have been is in the tests.
"""

from __future__ import annotations

import copy
import gc
import json
import logging
import shutil
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bridges.hermes
from bridges.hermes.runtime import running
from engines import facts as f
from tests.hermes.host import _loopback_only
from tests.hermes_adapter import written
from tests.hermes_adapter.model import OVERFLOW, Call, Model, Refusal, Say
from tests.hermes_adapter.stage import KEY, Stage, history, problems, threads

__all__ = ["SCENES", "main"]

Seen = dict[str, Any]
SCENES: dict[str, Callable[[Stage], Seen]] = {}
REQUEST = "And now the letters."


def scene(play: Callable[[Stage], Seen]) -> Callable[[Stage], Seen]:
    """Register a scene under its name."""
    SCENES[play.__name__] = play
    return play


def reading(stage: Stage, prompt: int, number: int = 1) -> Say:
    """The model reads files, so many at once, and reports a prompt of that size."""
    calls = tuple(Call("read_file", {"path": str(stage.root / f"p{at}.txt")}) for at in range(number))
    return Say("Reading.", calls, prompt)


def talk(agent: Any, rows: list[dict[str, Any]] | None = None, request: str = REQUEST) -> Seen:
    """One turn."""
    result = agent.run_conversation(
        request, conversation_history=history() if rows is None else rows, task_id=agent.task
    )
    return {"completed": result["completed"], "said": result["final_response"], "rows": result["messages"]}


def view(stage: Stage, agent: Any, model: Model, result: Seen) -> Seen:
    """What is worth looking at after a turn."""
    engine = agent.context_compressor
    compressed = stage.compressed(agent) if engine.name == "dataspace" and engine.seat.cell else []
    return {
        "completed": result["completed"],
        "said": result["said"],
        "rows": result["rows"],
        "stored": stage.db.get_messages_as_conversation(agent.session_id) if stage.db is not None else [],
        "turns": [request["messages"] for request in model.turns],
        "summaries": [request["messages"][0]["content"] for request in model.summaries],
        "problems": [found for request in model.turns for found in problems(request)],
        "by": [fact.by for fact in compressed],
        "count": engine.compression_count,
        "session": agent.session_id,
        "warnings": agent.warnings,
        "engine": engine.name,
    }


def play(stage: Stage, script: list[Any], dataspace: Any = None, rows: Any = None, **more: Any) -> Seen:
    """One turn of a new agent, with a script and settings."""
    compression = more.pop("compression", None)
    model_options = {name: more.pop(name) for name in ("summarise", "decide") if name in more}
    with Model(script, **model_options) as model:
        stage.configure(model.url, dataspace, compression=compression)
        agent = stage.agent(model.url, **more)
        seen = view(stage, agent, model, talk(agent, rows))
        if agent.context_compressor.name == "dataspace" and agent.context_compressor.seat.cell:
            seen["sessions"] = [
                (fact.host_session, fact.state) for fact in stage.facts(f.Session, sid=stage.sid(agent))
            ]
            seen["asked"] = [fact.ask for fact in stage.compressed(agent)]
        return seen


# -- compactions ------------------------------------------------------------------------------------------------------


@scene
def in_place(stage: Stage) -> Seen:
    return play(stage, [reading(stage, 60_000)])


@scene
def rotation(stage: Stage) -> Seen:
    return play(stage, [reading(stage, 60_000)], compression={"in_place": False}, session="rotating")


@scene
def recorded(stage: Stage) -> Seen:
    return play(stage, [reading(stage, 60_000)], {"guard": "record"})


@scene
def plain_host(stage: Stage) -> Seen:
    """The same with the host's own compressor, for comparison."""
    with Model([reading(stage, 60_000)]) as model:
        stage.configure(model.url, engine="compressor")
        agent = stage.agent(model.url)
        return view(stage, agent, model, talk(agent))


@scene
def preflight(stage: Stage) -> Seen:
    return play(stage, [], rows=history(40, 8000))


@scene
def overflow(stage: Stage) -> Seen:
    return play(stage, [OVERFLOW])


@scene
def parallel_tools(stage: Stage) -> Seen:
    return play(stage, [reading(stage, 60_000, 4)])


@scene
def no_usage(stage: Stage) -> Seen:
    return play(stage, [reading(stage, 0), reading(stage, 0)])


@scene
def deferred(stage: Stage) -> Seen:
    """A turn that begins above the threshold by estimate, right after a compaction: the host waits for a real reading."""
    seen: Seen = {}
    for kind in ("builtin", "compressor"):
        with Model([Say("Well.", prompt=30_000)]) as model:
            stage.configure(model.url, {"engines": [kind]})
            agent = stage.agent(model.url)
            agent.context_compressor.awaiting_real_usage_after_compression = True
            agent.context_compressor.last_prompt_tokens = -1
            seen[kind] = view(stage, agent, model, talk(agent, history(40, 8000)))
            seen[kind]["waits"] = agent.context_compressor.awaiting_real_usage_after_compression
    return seen


@scene
def manual(stage: Stage) -> Seen:
    with Model() as model:
        stage.configure(model.url)
        agent = stage.agent(model.url)
        first = talk(agent)
        rows, _prompt = agent._compress_context(first["rows"], "", approx_tokens=9000, focus_topic="stamps", force=True)
        again = talk(agent, rows, "Go on.")
        seen = view(stage, agent, model, again)
        seen["reason"] = [fact.ask for fact in stage.compressed(agent)]
        seen["verify"] = agent.context_compressor._verify_compaction_cleared_threshold
        return seen


@scene
def sizes(stage: Stage) -> Seen:
    """What the host tells of a compaction by hand, and what the fact tells."""
    from agent.model_metadata import estimate_request_tokens_rough

    with Model() as model:
        stage.configure(model.url, {"engines": ["compressor"]})
        agent = stage.agent(model.url)
        rows = talk(agent, history(24, 5000))["rows"]

        def size(those: list[dict[str, Any]]) -> int:
            told = {"system_prompt": agent._cached_system_prompt, "tools": agent.tools or None}
            return int(estimate_request_tokens_rough(those, **told))

        before = size(rows)
        after, _prompt = agent._compress_context(rows, agent._cached_system_prompt, approx_tokens=before, force=True)
        (done,) = stage.compressed(agent)
        return {"host": [before, size(after)], "fact": [done.tokens_before, done.tokens_after], "beside": size([])}


@scene
def failing_summary(stage: Stage) -> Seen:
    return play(
        stage, [reading(stage, 60_000), reading(stage, 60_000)], summarise=lambda _r, _n: Refusal(401, "no such key")
    )


@scene
def fallback_summary(stage: Stage) -> Seen:
    return play(stage, [reading(stage, 60_000)], summarise=lambda _r, _n: Refusal(422, "not today"))


@scene
def empty_summary(stage: Stage) -> Seen:
    return play(stage, [reading(stage, 60_000)], summarise=lambda _r, _n: "<think>what shall I say</think>\u200b")


# -- engines ----------------------------------------------------------------------------------------------------------


@scene
def unplugged(stage: Stage) -> Seen:
    return play(stage, [reading(stage, 60_000), reading(stage, 61_000)], {"engines": []})


@scene
def ours(stage: Stage) -> Seen:
    return play(stage, [reading(stage, 60_000)], {"engines": ["compressor"]}, rows=history(40, 5000))


@scene
def ours_sums_up(stage: Stage) -> Seen:
    """So many messages that some have to go, with our compressor."""
    return play(stage, [reading(stage, 60_000)], {"engines": ["compressor"]}, rows=history(400, 450))


@scene
def ours_again(stage: Stage) -> Seen:
    """Two crossings with our compressor: the first summary is taken up in the second."""
    look = []
    for at in range(8):
        path = stage.root / f"long{at}.txt"
        path.write_text(f"a long line of parcels {at}\n" * 900, encoding="utf-8")
        look.append(Say("Reading on.", (Call("read_file", {"path": str(path)}),), 20_000 + 1_000 * at))
    long = [reading(stage, 60_000), *look, reading(stage, 60_000)]
    return play(stage, long, {"engines": ["compressor"]}, rows=history(40, 5000))


@scene
def ours_stands_in(stage: Stage) -> Seen:
    return play(
        stage,
        [reading(stage, 60_000)],
        {"engines": ["tests.hermes_adapter.bad:Raises", "compressor"]},
        rows=history(40, 5000),
    )


@scene
def somebody_s(stage: Stage) -> Seen:
    """An engine of the dataspace that somebody has written after the guide, and what `/dataspace` says of it."""
    from bridges.hermes.command import answer

    seen = play(stage, [reading(stage, 60_000)], {"engines": [written.BOOT, "compressor"]})
    seen["status"] = answer("status", acts=True)
    return seen


@scene
def an_observer_s(stage: Stage) -> Seen:
    """No engine is named, and that of an observer serves as a compressor."""
    from bridges.hermes.command import answer

    seen = play(stage, [reading(stage, 60_000)], {"engines": [], "observers": [written.NAME]})
    seen["status"] = answer("status", acts=True)
    answer(f"unplug {written.NAME}", acts=True)  # it serves every conversation of the process
    return seen


@scene
def lossless(stage: Stage) -> Seen:
    grep = Say("Looking it up.", (Call("lcm_grep", {"query": "parcel"}),), 20_000)
    crossing = [reading(stage, 60_000, 2), reading(stage, 20_000), reading(stage, 20_000)]
    return play(stage, [*crossing, *crossing, grep, *crossing], {"engines": ["lossless-hermes"]})


@scene
def lossless_alone(stage: Stage) -> Seen:
    """The same engine in the host without us, for comparison."""
    with Model([reading(stage, 60_000, 2), reading(stage, 20_000)]) as model:
        stage.configure(model.url, engine="lossless-hermes", plugins=("lossless-hermes",))
        from hermes_cli.plugins import discover_plugins

        discover_plugins(force=True)
        agent = stage.agent(model.url)
        seen = view(stage, agent, model, talk(agent))
        stage.configure(model.url)
        discover_plugins(force=True)
        return seen


# -- sessions ---------------------------------------------------------------------------------------------------------


@scene
def new_session(stage: Stage) -> Seen:
    """What the CLI does for /new."""
    from hermes_cli.plugins import invoke_hook

    with Model([reading(stage, 60_000)]) as model:
        stage.configure(model.url)
        agent = stage.agent(model.url, session="first")
        rows = talk(agent)["rows"]
        old = stage.sid(agent)
        agent.context_compressor.on_session_end("first", rows)
        invoke_hook("on_session_finalize", session_id="first", platform="cli", reason="new_session")
        agent.session_id = "second"
        agent.reset_session_state()
        result = talk(agent, [], "Something else.")
        new = stage.sid(agent)
        return {
            "old": [(fact.host_session, fact.state) for fact in stage.facts(f.Session, sid=old)],
            "left": len(stage.facts(f.Compressed, sid=old)) + len(stage.facts(f.Usage, sid=old)),
            "new": [(fact.host_session, fact.state) for fact in stage.facts(f.Session, sid=new)],
            "count": agent.context_compressor.compression_count,
            "request": model.turns[-1]["messages"][1:],
            "completed": result["completed"],
        }


@scene
def smaller_window(stage: Stage) -> Seen:
    with Model([Say("Well.", prompt=90_000)]) as model:
        stage.configure(model.url)
        config = json.loads((stage.home / "config.yaml").read_text())
        config["model"]["context_length"] = 200_000
        (stage.home / "config.yaml").write_text(json.dumps(config))
        agent = stage.agent(model.url)
        rows = talk(agent, history(40, 8000))["rows"]
        wide = [(fact.context_length, fact.threshold) for fact in stage.facts(f.Budget, sid=stage.sid(agent))]
        agent.context_compressor.update_model(
            model="scripted-small",
            context_length=64_000,
            base_url=model.url,
            api_key=KEY,
            provider="custom",
            api_mode="",
        )
        narrow = [(fact.context_length, fact.threshold) for fact in stage.facts(f.Budget, sid=stage.sid(agent))]
        seen = view(stage, agent, model, talk(agent, rows, "Go on."))
        return seen | {"wide": wide, "narrow": narrow}


@scene
def small_summary_model(stage: Stage) -> Seen:
    """The summary model holds less than the threshold; the host lowers that, and then the user switches models."""
    seen: Seen = {}
    for engine in ("dataspace", "compressor"):
        with Model([reading(stage, 160_000), Say("Well.", prompt=30_000), reading(stage, 120_000)]) as model:
            stage.configure(model.url, engine=engine)
            config = json.loads((stage.home / "config.yaml").read_text())
            config["model"]["context_length"] = 200_000
            config["auxiliary"]["compression"]["context_length"] = 100_000
            (stage.home / "config.yaml").write_text(json.dumps(config))
            agent = stage.agent(model.url)
            compressor = agent.context_compressor
            budgets = [compressor.threshold_tokens]
            rows = talk(agent, history(40, 8000))["rows"]
            budgets.append(compressor.threshold_tokens)
            compressor.update_model(
                model="scripted-too",
                context_length=200_000,
                base_url=model.url,
                api_key=KEY,
                provider="custom",
                api_mode="",
            )
            budgets.append(compressor.threshold_tokens)
            published = [] if engine == "compressor" else stage.facts(f.Budget, sid=stage.sid(agent))
            result = talk(agent, [*rows, *history(20, 4000)[1:]], "Go on.")
            seen[engine] = view(stage, agent, model, result)
            seen[engine] |= {"budgets": budgets, "published": [fact.threshold for fact in published]}
    return seen


@scene
def cut_off(stage: Stage) -> Seen:
    """A server that takes 41,000 tokens and no more, whatever it is sent, and does not say so."""
    long = stage.root / "long.txt"
    long.write_text("a long line of parcels and letters\n" * 400, encoding="utf-8")

    def decide(request: dict[str, Any]) -> Say:
        if any("[CONTEXT COMPACTION" in str(row.get("content")) for row in request["messages"]):
            return Say("done", prompt=20_000)
        at = sum(row["role"] == "tool" for row in request["messages"])
        lines = {"path": str(long), "offset": 1 + at}  # the host does not read the same lines again and again
        return Say("Reading on.", (Call("read_file", lines),), 40_950 + at % 3)

    with Model(decide=decide) as model:
        stage.configure(model.url)
        agent = stage.agent(model.url)
        seen = view(stage, agent, model, talk(agent, history(24, 5000)))
        seen["budget"] = [(fact.context_length, fact.threshold) for fact in stage.facts(f.Budget, sid=stage.sid(agent))]
        return seen


@scene
def two_agents(stage: Stage) -> Seen:
    """Two agents at once in one process, one session id, and a copy of one of their engines."""
    with Model() as model:
        stage.configure(model.url)
        model.decide = lambda request: (
            reading(stage, 60_000) if request["messages"][-1].get("content") == REQUEST else None
        )
        agents = [stage.agent(model.url, session="shared", stored=False) for _ in range(2)]
        results: list[Seen] = []
        workers = [threading.Thread(target=lambda one=one: results.append(talk(one))) for one in agents]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        parent = agents[0].context_compressor
        before = everything(stage, agents[0])
        child = copy.deepcopy(parent)
        copied = (child.context_length, child.compression_count, child.last_prompt_tokens)
        child.update_model(model="small", context_length=80_000, api_key=KEY)
        child.on_session_start("shared", platform="cli")
        child.update_from_response({"prompt_tokens": 79_000})
        child.on_session_end("shared", [])
        stage.facts(f.Session)
        after = everything(stage, agents[0])
        del child
        gc.collect()
        return {
            "completed": [result["completed"] for result in results],
            "by": [[fact.by for fact in stage.compressed(agent)] for agent in agents],
            "sids": [stage.sid(agent) for agent in agents],
            "copied": copied,
            "equal": before == after == everything(stage, agents[0]),
            "windows": [agent.context_compressor.context_length for agent in agents],
            "threads": [name for name in threads() if name == "hermes-dataspace"],
        }


@scene
def review_fork(stage: Stage) -> Seen:
    with Model([reading(stage, 60_000)]) as model:
        stage.configure(model.url)
        agent = stage.agent(model.url, session="parent")
        rows = talk(agent)["rows"]
        before = everything(stage, agent)
        others = {fact.sid for fact in stage.facts(f.Session)}
        agent._spawn_background_review(copy.deepcopy(rows), review_skills=True)
        for thread in threading.enumerate():
            if thread.name == "bg-review":
                thread.join(60)
        reviewed = len(model.turns)
        after = everything(stage, agent)
        again = talk(agent, rows, "Go on.")
        return {
            "equal": before == after,
            "reviewed": reviewed,
            "forked": len({fact.sid for fact in stage.facts(f.Session)} - others),
            "completed": again["completed"],
            "state": [fact.state for fact in stage.facts(f.Session, sid=stage.sid(agent))],
            "problems": [found for request in model.turns for found in problems(request)],
            "last": model.turns[-1]["messages"][1:],
            "rows": again["rows"],
        }


@scene
def children(stage: Stage) -> Seen:
    """Two delegated children at once; each crosses its threshold."""
    tasks = [{"goal": "Count the stamps."}, {"goal": "Count the strings."}]

    def decide(request: dict[str, Any]) -> Say | None:
        last = request["messages"][-1]
        if last.get("content") == REQUEST:
            return Say("I delegate.", (Call("delegate_task", {"tasks": tasks}),), 20_000)
        if last["role"] == "user" and "Count the" in str(last.get("content")):
            return reading(stage, 60_000)
        return None

    with Model(decide=decide) as model:
        stage.configure(model.url)
        agent = stage.agent(model.url, session="delegating", enabled_toolsets=["file", "delegation", "context_engine"])
        known = {fact.sid for fact in stage.facts(f.Session)}
        result = talk(agent, [])
        sid = stage.sid(agent)
        known.add(sid)
        before = everything(stage, agent)
        sessions: list[Any] = []
        for _ in range(300):  # the host lets children run on by themselves
            sessions = [fact for fact in stage.facts(f.Session) if fact.sid not in known]
            if len(sessions) == 2 and all(fact.state == "ended" for fact in sessions):
                break
            threading.Event().wait(0.1)
        return {
            "completed": result["completed"],
            "children": len(sessions),
            "equal": before == everything(stage, agent),
            "summaries": len(model.summaries),
            "states": [fact.state for fact in sessions],
            "parent": [fact.state for fact in stage.facts(f.Session, sid=sid)],
            "usage": [fact.prompt for fact in stage.facts(f.Usage, sid=sid)],
            "turns": len(model.turns),
            "problems": [found for request in model.turns for found in problems(request)],
            "goals": [
                [
                    len(request["messages"])
                    for request in model.turns
                    if task["goal"] in str(request["messages"][1]["content"])
                ]
                for task in tasks
            ],
            "told": [str(row.get("content")) for row in result["rows"] if row["role"] == "tool"],
        }


def everything(stage: Stage, agent: Any) -> str:
    """Every fact of an agent's conversation, as text."""
    sid = stage.sid(agent)
    found = []
    for cls in f.FACTS.values():
        if cls not in f.MESSAGES and hasattr(cls, "__attrs_attrs__"):
            names = {attribute.name for attribute in cls.__attrs_attrs__}
            if "sid" in names:
                found.extend(stage.facts(cls, sid=sid))
    return repr(found)


# -- a process of its own for each of these -----------------------------------------------------------------------------


@scene
def directory(stage: Stage) -> Seen:
    """The plugin as a directory in the home, where the package has no entry point."""
    shutil.copytree(Path(bridges.hermes.__file__).parent / "directory", stage.home / "plugins" / "dataspace")
    with Model([reading(stage, 60_000)]) as model:
        stage.configure(model.url)
        from hermes_cli.plugins import PluginManager, get_plugin_manager

        PluginManager._scan_entry_points = lambda _self: []
        agent = stage.agent(model.url)
        seen = view(stage, agent, model, talk(agent))
        seen["plugins"] = {
            name: one.manifest.source for name, one in get_plugin_manager()._plugins.items() if "dataspace" in name
        }
        return seen


@scene
def switched_off(stage: Stage) -> Seen:
    """The kill switch, in the configuration: no thread, no event loop, and the built-in does as ever."""
    with Model([reading(stage, 60_000)]) as model:
        stage.configure(model.url, {"enabled": False})
        agent = stage.agent(model.url)
        seen = view(stage, agent, model, talk(agent))
        seen["runtime"] = running() is not None
        return seen


@scene
def discovery(stage: Stage) -> Seen:
    """Discovery alone, twice: nothing is started, and there is one engine."""
    from hermes_cli.plugins import discover_plugins, get_plugin_context_engine

    stage.configure("http://127.0.0.1:9/v1")
    discover_plugins(force=True)
    first = get_plugin_context_engine()
    discover_plugins(force=True)
    second = get_plugin_context_engine()
    return {
        "same": first is second,
        "name": first.name,
        "trio": "trio" in sys.modules,
        "loop": "engines.loop" in sys.modules,
        "threads": [name for name in threads() if "dataspace" in name],
    }


# -- secrets ----------------------------------------------------------------------------------------------------------


class Heard(logging.Handler):
    """Keeps what is logged, tracebacks among it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


def secrets(stage: Stage, heard: Heard) -> Seen:
    """Where the key can be seen: facts, the log, an engine's own account of itself."""
    shown = repr([stage.facts(cls) for cls in f.FACTS.values() if cls not in f.MESSAGES])
    with Model() as model:
        stage.configure(model.url)
        engine = stage.agent(model.url).context_compressor
        own = f"{engine!r} {engine.get_status()}"
    return {
        "facts": KEY in shown,
        "some": len(shown),
        "log": [text for text in heard.texts if KEY in text],
        "status": KEY in own,
        "errors": [text for text in heard.texts if "Traceback" in text],
    }


COMMON = [name for name in SCENES if name not in {"directory", "switched_off", "discovery", "lossless_alone"}]
"""Scenes that can share a process."""


def main(root: str, out: str, *names: str) -> None:
    """Play the scenes."""
    sys.addaudithook(_loopback_only)
    heard = Heard()
    for name in ("bridges", "engines", "dataspace"):
        logging.getLogger(name).addHandler(heard)
        logging.getLogger(name).setLevel(logging.DEBUG)
    stage = Stage(Path(root).resolve())
    for at in range(10):
        (stage.root / f"p{at}.txt").write_text(f"parcel {at}\n", encoding="utf-8")
    seen: Seen = {}
    for name in names or COMMON:
        try:
            seen[name] = SCENES[name](stage)
        except BaseException:  # noqa: BLE001 - the test shows it
            seen[name] = {"error": traceback.format_exc()}
    if not names:
        seen["secrets"] = secrets(stage, heard)
    Path(out).write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
