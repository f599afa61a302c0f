"""Scenes of what real agents do, and what observers hear of it: `python -m tests.hermes_adapter.feed_scenes ROOT OUT`."""

from __future__ import annotations

import copy
import json
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bridges.hermes import hooks, live
from bridges.hermes.command import answer
from engines import facts as f
from tests.hermes_adapter import scenes
from tests.hermes_adapter.model import Call, Model, Refusal, Say
from tests.hermes_adapter.scenes import Seen, everything, reading, talk
from tests.hermes_adapter.stage import Stage, history
from tests.hermes_adapter.watcher import ASKED, HEARD, MADE, NAME, PLAN, forget

SCENES: dict[str, Callable[[Stage], Seen]] = {}
WATCHED = {"observers": [NAME]}
TODO = Call("todo", {"todos": [{"id": "1", "content": "count", "status": "pending"}]})
TASKS = [{"goal": "Count the stamps."}, {"goal": "Count the strings."}]
TOOLSETS = ["file", "todo", "delegation", "context_engine"]


def scene(play: Callable[[Stage], Seen]) -> Callable[[Stage], Seen]:
    """Register a scene under its name; it begins with nothing heard."""

    def fresh(stage: Stage) -> Seen:
        forget()
        return play(stage)

    SCENES[play.__name__] = fresh
    return play


def heard(stage: Stage, *kinds: type) -> list[Any]:
    """What the observer has heard by now, as lists."""
    stage.facts(f.Session)
    return [_plain(fact) for fact in HEARD if not kinds or isinstance(fact, kinds)]


def _plain(fact: Any) -> list[Any]:
    told = {name.name: getattr(fact, name.name) for name in fact.__attrs_attrs__}
    if "messages" in told:
        told["messages"] = None if told["messages"] is None else len(told["messages"])
    return [type(fact).__name__, {name: value for name, value in told.items() if value not in ("", None)}]


def told(sid: str) -> list[Any]:
    """What the aide of a conversation has been told."""
    return [
        [name, *(arg if isinstance(arg, (str, int)) else type(arg).__name__ for arg in args)]
        for one in MADE
        if one.standing.sid == sid
        for name, *args in one.told
    ]


def joined(name: str) -> None:
    """Wait for threads of that name."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(60)


def contexts(model: Model) -> list[tuple[str, list[str]]]:
    """For each request: what the user asked last, and whose contexts are in it."""
    found = []
    for request in model.turns:
        asked = [row["content"] for row in request["messages"] if row["role"] == "user"]
        marks = [word for text in asked for word in str(text).split() if word.startswith("<for:")]
        found.append((str(asked[-1]).splitlines()[0], marks))
    return found


def _mark(aide: Any, turn: Any) -> str:
    return f"<for:{aide.standing.sid}:{turn.text.split()[0]}>"


def whole(stage: Stage, compression: dict[str, Any] | None = None) -> Seen:
    """Parallel tools, agent tools, an observer's tool, two children at once, and the review fork."""

    def decide(request: dict[str, Any]) -> Say | None:
        last = request["messages"][-1]
        if last["role"] == "user" and "Count the" in str(last.get("content")):
            return reading(stage, 20_000)
        return None

    note = Call("note_down", {"text": "seven"})
    script = [
        reading(stage, 20_000, 4),
        Say("I plan.", (TODO,), 20_000),
        Say("I note.", (note,), 20_000),
        Say("I delegate.", (Call("delegate_task", {"tasks": TASKS}),), 20_000),
    ]
    PLAN["context"] = _mark
    with Model(script, decide=decide) as model:
        stage.configure(model.url, WATCHED, compression=compression)
        agent = stage.agent(model.url, session="whole", enabled_toolsets=TOOLSETS)
        sid = stage.sid(agent)
        result = talk(agent, [])
        for _ in range(300):  # children run on by themselves
            ended = [fact for fact in stage.facts(f.Session) if fact.parent == sid and fact.state == "ended"]
            if len(ended) == 2:
                break
            threading.Event().wait(0.1)
        before = everything(stage, agent)
        agent._spawn_background_review(copy.deepcopy(result["rows"]), review_skills=True)
        joined("bg-review")
        after = everything(stage, agent)
        return {
            "sid": sid,
            "completed": result["completed"],
            "said": result["said"],
            "heard": heard(stage),
            "equal": before == after,
            "contexts": contexts(model),
            "results": [row for row in result["rows"] if row["role"] == "tool"],
            "made": [one.standing.sid for one in MADE],
            "turns_ended": [entry[0] for entry in told(sid)].count("turn_ended"),
            "boots": list(ASKED),
            "home": str(stage.home),
        }


@scene
def together(stage: Stage) -> Seen:
    """All of it, as ever."""
    return whole(stage)


@scene
def together_without_compression(stage: Stage) -> Seen:
    """The same where the host never asks its engine whether to compact."""
    return whole(stage, {"enabled": False})


@scene
def crossing(stage: Stage) -> Seen:
    """A turn in which a compaction happens."""
    with Model([reading(stage, 20_000), reading(stage, 60_000)]) as model:
        stage.configure(model.url, WATCHED, compression={"in_place": False})
        agent = stage.agent(model.url, session="crossing")
        sid = stage.sid(agent)
        talk(agent)
        return {"heard": heard(stage), "told": [entry[:1] for entry in told(sid)], "session": agent.session_id}


@scene
def one_thread(stage: Stage) -> Seen:
    """An agent and a helper under the same session id take turns on one thread; so does one with another engine."""
    PLAN["context"] = _mark
    with Model() as model, ThreadPoolExecutor(1) as pool:
        stage.configure(model.url, WATCHED)
        agent = stage.agent(model.url, session="shared")
        helper = stage.agent(model.url, session="shared")
        helper.compression_enabled = False
        stage.configure(model.url, WATCHED, engine="compressor")
        stranger = stage.agent(model.url, session="shared")
        rows = pool.submit(talk, agent, [], "One please.").result()["rows"]
        pool.submit(talk, stranger, [], "Two please.").result()
        pool.submit(talk, helper, [], "Three please.").result()
        pool.submit(talk, agent, rows, "Four please.").result()
        return {
            "agent": stage.sid(agent),
            "helper": stage.sid(helper),
            "stranger": stranger.context_compressor.name,
            "contexts": contexts(model),
            "heard": heard(stage, f.TurnStarted, f.TurnEnded),
        }


@scene
def anew(stage: Stage) -> Seen:
    """What the CLI does for /new, and for its own end."""
    from hermes_cli.plugins import invoke_hook

    with Model() as model:
        stage.configure(model.url, WATCHED)
        agent = stage.agent(model.url, session="first")
        rows = talk(agent, [], "One.")["rows"]
        first = stage.sid(agent)
        agent.context_compressor.on_session_end("first", rows)
        invoke_hook("on_session_finalize", session_id="first", platform="cli", reason="session_boundary")
        agent.session_id = "second"
        agent.reset_session_state()
        rows = talk(agent, [], "Two.")["rows"]
        second = stage.sid(agent)
        invoke_hook("on_session_finalize", session_id="second", platform="cli", reason="shutdown")
        agent.shutdown_memory_provider(rows)
        return {"first": first, "second": second, "heard": heard(stage), "told": told(first), "last": told(second)}


@scene
def held_back(stage: Stage) -> Seen:
    """An aide holds one tool back and puts its word into the result of another; another one fails in all it does."""
    PLAN["veto"] = lambda _aide, tool, _args, _id: "not before Tuesday" if tool == "search_files" else None
    PLAN["tool_result"] = lambda _aide, call: f"[looked over] {call.result}"

    def fails(*_args: Any) -> None:
        raise RuntimeError("no")

    find = Call("search_files", {"pattern": "parcel", "path": str(stage.root)})
    read = Call("read_file", {"path": str(stage.root / "p1.txt")})
    seen: Seen = {}
    for name in ("helps", "fails"):
        with Model([Say("Looking.", (find, read), 20_000)]) as model:
            stage.configure(model.url, WATCHED)
            agent = stage.agent(model.url)
            result = talk(agent, [])
            seen[name] = [str(row["content"]) for row in result["rows"] if row["role"] == "tool"]
            seen[f"{name} sent"] = [str(row["content"]) for row in model.turns[-1]["messages"] if row["role"] == "tool"]
            seen[f"{name} completed"] = result["completed"]
        seen[f"{name} called"] = heard(stage, f.ToolCalled)
        HEARD.clear()
        PLAN.update(dict.fromkeys(("veto", "tool_result", "context", "turn_ended", "ended"), fails))
    return seen


@scene
def requests(stage: Stage) -> Seen:
    """Requests are shown while somebody wants them; the hook is there no longer than that."""
    from hermes_cli.plugins import get_plugin_manager

    there: list[bool] = []
    with Model([reading(stage, 20_000), reading(stage, 20_000), reading(stage, 20_000)]) as model:
        stage.configure(model.url, WATCHED)
        agent = stage.agent(model.url)
        hook = hooks._HOOKS["pre_api_request"]

        def note(_aide: Any, *_args: Any) -> None:
            there.append(hook in get_plugin_manager()._hooks.get("pre_api_request", ()))

        PLAN["veto"] = note
        talk(agent, [], "Nobody wants them.")
        asked = [3]
        PLAN["wants_requests"] = lambda _aide: asked[0] > 0

        def shown(_aide: Any, _count: int) -> None:
            asked[0] -= 1

        PLAN["request"] = shown
        model.script = iter([reading(stage, 20_000)] * 4)
        talk(agent, [], "Somebody wants three.")
        note(None)
        sizes = [entry[1] for entry in told(stage.sid(agent)) if entry[0] == "request"]
        return {"there": there, "sizes": sizes, "sent": [len(request["messages"]) for request in model.turns]}


@scene
def refused(stage: Stage) -> Seen:
    """A turn that the provider refuses has an end."""
    with Model([Refusal(401, "no such key")] * 20) as model:
        stage.configure(model.url, WATCHED)
        agent = stage.agent(model.url)
        talk(agent, [], "One.")
        model.script = iter(())
        talk(agent, [], "Two.")
        return {"heard": heard(stage, f.TurnStarted, f.TurnEnded)}


@scene
def changed_settings(stage: Stage) -> Seen:
    """D12: threshold, engine, guard and observers change in the file while an agent lives."""

    def configure(dataspace: Any, threshold: float) -> None:
        stage.configure(model.url, dataspace, compression={"threshold": threshold})
        path = stage.home / "config.yaml"
        config = json.loads(path.read_text(encoding="utf-8"))
        config["model"]["context_length"] = 200_000
        path.write_text(json.dumps(config), encoding="utf-8")

    def budget() -> list[Any]:
        return [engine.threshold_tokens, *(fact.threshold for fact in stage.facts(f.Budget, sid=sid))]

    live.EVERY = 0.0  # turns follow each other faster than anybody writes
    with Model([reading(stage, 165_000)]) as model:
        configure({"observers": []}, 0.8)
        agent = stage.agent(model.url)
        engine, sid = agent.context_compressor, stage.sid(agent)
        rows = talk(agent, history(), "One.")["rows"]
        seen: Seen = {"first": [fact.by for fact in stage.compressed(agent)], "budgets": [budget()]}
        configure({"observers": [], "guard": "record"}, 0.75)
        model.script = iter([Say("Two.", prompt=140_000)])
        rows = talk(agent, rows, "Two.")["rows"]
        seen["guard"] = engine.get_status()["guard"]
        seen["budgets"].append(budget())
        seen["kept"] = [engine.compression_count, engine.last_prompt_tokens]
        configure({**WATCHED, "engines": ["compressor"]}, 0.75)
        model.script = iter([reading(stage, 155_000)])
        last = talk(agent, [*history(150, 5000), *rows], "Three.")
        return seen | {
            "then": [fact.by for fact in stage.compressed(agent)],
            "asks": [fact.ask for fact in stage.compressed(agent)],
            "serving": [fact.engine for fact in stage.facts(f.Serving, sid=sid)],
            "same": sid == stage.sid(agent),
            "summaries": len(model.summaries),
            "heard": [fact.text for fact in HEARD if isinstance(fact, f.TurnStarted)],
            "told": told(sid)[0],
            "completed": last["completed"],
            "status": engine.get_status(),
        }


@scene
def swapped(stage: Stage) -> Seen:
    """Engines change by the command, in the session; the next crossing is the new one's."""
    with Model([reading(stage, 60_000)]) as model:
        stage.configure(model.url, WATCHED)
        agent = stage.agent(model.url)
        rows = talk(agent)["rows"]
        by = [fact.by for fact in stage.compressed(agent)]
        said = [answer(raw, acts=True) for raw in ("swap builtin compressor", "engines", f"unplug {NAME}")]
        model.script = iter([reading(stage, 61_000)])
        talk(agent, [*history(60, 2000), *rows], "Go on.")
        return {
            "by": by,
            "then": [fact.by for fact in stage.compressed(agent)],
            "said": said,
            "count": agent.context_compressor.compression_count,
            "heard": [fact.text for fact in HEARD if isinstance(fact, f.TurnStarted)],
            "told": [entry for entry in told(stage.sid(agent)) if entry[0] == "ended"],
        }


@scene
def in_the_host(stage: Stage) -> Seen:
    """The host knows the command, and calls it as its terminal and as its gateway do."""
    import asyncio

    from hermes_cli.plugins import get_plugin_command_handler, get_plugin_manager, resolve_plugin_command_result

    with Model() as model:
        stage.configure(model.url, WATCHED)
        agent = stage.agent(model.url, session="private-session")
        talk(agent, [], "My secret wish.")
        run = get_plugin_command_handler("dataspace")
        words = ("", "engines", "facts", "facts session", "skills", "unplug builtin", "help")
        outside = {raw: resolve_plugin_command_result(run(raw)) for raw in words}

        async def gateway() -> dict[str, str]:
            return {raw: await run(raw) for raw in words}

        shared = asyncio.run(gateway())
        get_plugin_manager()._cli_ref = object()
        try:
            terminal = {raw: resolve_plugin_command_result(run(raw)) for raw in words}
        finally:
            get_plugin_manager()._cli_ref = None
        return {"outside": outside, "shared": shared, "terminal": terminal}


def main(root: str, out: str, *names: str) -> None:
    """Play these scenes on the common stage."""
    os.environ.pop("HERMES_DATASPACE", None)
    scenes.SCENES.update(SCENES)
    scenes.main(root, out, *(names or SCENES))


if __name__ == "__main__":
    main(*sys.argv[1:])
