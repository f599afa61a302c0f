"""Scenes of skills in real agents: `python -m tests.hermes_adapter.skill_scenes ROOT OUT [NAME…]`."""

from __future__ import annotations

import copy
import json
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from bridges.hermes.command import answer
from engines import facts as f
from tests.hermes_adapter import scenes
from tests.hermes_adapter.model import Call, Model, Say
from tests.hermes_adapter.scenes import Seen, talk
from tests.hermes_adapter.stage import Stage, history, problems
from tests.skill_rows import body_of

SCENES: dict[str, Callable[[Stage], Seen]] = {}
TOOLSETS = ["file", "skills", "delegation", "context_engine"]
SMALL, FULL = None, 60_000  # prompts: as they are, far below the threshold, and above it
WATCHED = (f.SkillAvailable, f.SkillPruned, f.SkillRequired, f.LoopInvalid, f.SkillTooLarge)


def scene(play: Callable[[Stage], Seen]) -> Callable[[Stage], Seen]:
    """Register a scene under its name."""
    SCENES[play.__name__] = play
    return play


def skill(stage: Stage, name: str, body: str | None = None, size: int = 3_000) -> str:
    """Put a skill where the host finds it; returns its text."""
    body = body_of(name, size) if body is None else body
    folder = stage.home / "skills" / "misc" / name
    (folder / "references").mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(body, encoding="utf-8")
    (folder / "references" / "api.md").write_text(f"# The API of {name}\n", encoding="utf-8")
    return body


def view_of(name: str, file: str | None = None) -> Call:
    """A call that loads a skill."""
    return Call("skill_view", {"name": name, **({"file_path": file} if file else {})})


def loading(name: str, prompt: int | None = SMALL, **more: Any) -> Say:
    """The model loads a skill."""
    return Say(f"I load {name}.", (view_of(name, **more),), prompt)


def writing(stage: Stage, *names: str, prompt: int | None = SMALL, before: tuple[Call, ...] = ()) -> Say:
    """The model writes files, which acts on the world."""
    calls = tuple(Call("write_file", {"path": str(stage.root / name), "content": name}) for name in names)
    return Say("I write.", (*before, *calls), prompt)


class Reads:
    """Rounds of reading, each of a file of its own."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.count = 0

    def __call__(self, rounds: int, last: int | None = SMALL) -> Iterator[Say]:
        """So many rounds; the last one reports a prompt of that size."""
        for at in range(rounds):
            self.count += 1
            path = self.stage.root / f"read{self.count}.txt"
            path.write_text(f"parcel {self.count}\n" * 400, encoding="utf-8")
            prompt = last if at == rounds - 1 else SMALL
            yield Say(f"Reading {self.count}.", (Call("read_file", {"path": str(path)}),), prompt)


class Watch:
    """What stood in the dataspace when each request came."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.sid = ""
        self.stood: list[list[str]] = []

    def __call__(self, _request: dict[str, Any]) -> None:
        names = {f.SkillAvailable: "name", f.SkillPruned: "name", f.SkillRequired: "name", f.LoopInvalid: "skills"}
        facts = [fact for cls in names for fact in self.stage.facts(cls, sid=self.sid)] if self.sid else []
        self.stood.append([f"{type(fact).__name__} {getattr(fact, names[type(fact)])}" for fact in facts])


def play(
    stage: Stage,
    script: list[Say],
    options: dict[str, Any] | None = None,
    *,
    rows: list[dict[str, Any]] | None = None,
    requests: tuple[str, ...] = (scenes.REQUEST,),
    observers: tuple[str, ...] = ("skills",),
    meanwhile: Callable[[Any, int, Model], None] | None = None,
    **more: Any,
) -> Seen:
    """One agent, as many turns as there are requests."""
    watch = Watch(stage)
    dataspace: dict[str, Any] = {"observers": list(observers), "skills": options or {}, **more.pop("dataspace", {})}
    compression = more.pop("compression", None)
    with Model(script, decide=watch) as model:
        stage.configure(model.url, dataspace, compression=compression)
        agent = stage.agent(model.url, **{"enabled_toolsets": TOOLSETS, "max_iterations": 90, **more})
        watch.sid = stage.sid(agent)
        result: Seen = {"rows": history(4) if rows is None else rows}
        completed = []
        for at, request in enumerate(requests):
            if meanwhile is not None:
                meanwhile(agent, at, model)
            result = talk(agent, result["rows"], request)
            completed.append(result["completed"])
        return {
            "sid": watch.sid,
            "completed": all(completed),
            "said": result["said"],
            "rows": result["rows"],
            "sent": [request["messages"] for request in model.turns],
            "problems": [found for request in model.turns for found in problems(request)],
            "stood": watch.stood,
            "stands": facts(stage, watch.sid),
            "compactions": agent.context_compressor.compression_count,
            "shown": answer("skills", acts=True),
            "written": sorted(path.name for path in stage.root.glob("*.out")),
        }


def facts(stage: Stage, sid: str) -> list[str]:
    """What stands of skills, in words."""
    return sorted(str(fact) for cls in WATCHED for fact in stage.facts(cls, sid=sid))


def cleared(stage: Stage) -> None:
    """No skills, and nothing written."""
    shutil.rmtree(stage.home / "skills", ignore_errors=True)
    for path in stage.root.glob("*.out"):
        path.unlink()


# -- the task goes on after a loss ------------------------------------------------------------------------------------


def losing(stage: Stage, **options: Any) -> Seen:
    """A skill is loaded for a task and pruned in the middle of it; the model writes on, is told, reloads, and goes on."""
    cleared(stage)
    body = skill(stage, "alpha")
    reads = Reads(stage)
    script = [
        loading("alpha"),
        *reads(14, FULL),
        writing(stage, "early.out"),
        writing(stage, "batch.out", before=(view_of("alpha"),)),
        writing(stage, "late.out"),
        Say("All done."),
    ]
    more = {name: options.pop(name) for name in ("dataspace", "compression") if name in options}
    return {**play(stage, script, {"keep": 0, **options}, **more), "body": body}


@scene
def lost(stage: Stage) -> Seen:
    """The built-in compressor prunes what the task needs."""
    return losing(stage)


@scene
def lost_ours(stage: Stage) -> Seen:
    """Ours does."""
    return losing(stage, dataspace={"engines": ["compressor"]})


@scene
def lost_rotation(stage: Stage) -> Seen:
    """The host goes on under another id after a compaction."""
    return losing(stage, compression={"in_place": False})


@scene
def kept(stage: Stage) -> Seen:
    """There is room for the skill, so it stays."""
    return losing(stage, keep=0.9)


@scene
def kept_in_block(stage: Stage) -> Seen:
    """The same, in one block of the summary."""
    return losing(stage, keep=0.9, active_block=True)


@scene
def warned(stage: Stage) -> Seen:
    """Nothing is held back, but it is said."""
    return losing(stage, block="warn")


@scene
def block_off(stage: Stage) -> Seen:
    """YAML's `off`: nothing is held back or said."""
    return losing(stage, block=False)


@scene
def stubborn(stage: Stage) -> Seen:
    """The model never reloads: what three of its answers want is held back, the first wants four things; then no more."""
    cleared(stage)
    skill(stage, "alpha")
    reads = Reads(stage)
    tries = [writing(stage, *(f"batch{number}.out" for number in range(4)))]
    tries += [writing(stage, f"try{number}.out") for number in range(1, 6)]
    return play(stage, [loading("alpha"), *reads(14, FULL), *tries, Say("All done.")], {"keep": 0})


@scene
def gone_file(stage: Stage) -> Seen:
    """The skill's file is gone when its text is lost: nobody waits for it."""
    cleared(stage)
    skill(stage, "alpha")
    reads = Reads(stage)

    class Removing(list[Say]):
        def __iter__(self) -> Iterator[Say]:
            for at, said in enumerate(super().__iter__()):
                if at == 15:
                    shutil.rmtree(stage.home / "skills" / "misc" / "alpha")
                yield said

    script = Removing([loading("alpha"), *reads(14, FULL), writing(stage, "early.out"), Say("All done.")])
    return play(stage, script, {"keep": 0})


@scene
def plain(stage: Stage) -> Seen:
    """A skill of an earlier task is pruned while people just talk."""
    cleared(stage)
    skill(stage, "alpha")
    reads = Reads(stage)
    script = [loading("alpha"), *reads(14, FULL), Say("That was it."), Say("You are welcome."), Say("It is late.")]
    return play(stage, script, {"keep": 0}, requests=("Use alpha.", "Thank you.", "How late is it?"))


@scene
def ten(stage: Stage) -> Seen:
    """Ten compactions in one task, with a model that does as it is told."""
    cleared(stage)
    body = skill(stage, "alpha")
    reads = Reads(stage)
    script: list[Say] = [loading("alpha")]
    for number in range(10):
        script += [*reads(14, FULL), writing(stage, f"held{number}.out"), loading("alpha")]
        script += [writing(stage, f"done{number}.out")]
    return {**play(stage, [*script, Say("All done.")], {"keep": 0}, max_iterations=250), "body": body}


@scene
def partial(stage: Stage) -> Seen:
    """A skill so long that the host keeps only its beginning in context."""
    cleared(stage)
    body = skill(stage, "huge", size=200_000)
    script = [loading("huge"), loading("huge"), writing(stage, "a.out"), Say("All done.")]
    return {**play(stage, script, {"skill_tokens": 1_000}), "body": body}


# -- once only --------------------------------------------------------------------------------------------------------


def repeating(stage: Stage, *observers: str) -> Seen:
    """The same skill of ten thousand characters twenty times, twice of them in one batch under two names."""
    cleared(stage)
    body = skill(stage, "alpha", size=10_000)
    script = [Say("Twice.", (view_of("alpha"), view_of("misc/alpha")), SMALL), *(loading("alpha") for _ in range(18))]
    script.append(Say("All done."))
    off = {"enabled": False}  # no compaction: without us the texts alone fill the window
    return {**play(stage, script, observers=observers, rows=[], compression=off), "body": body}


@scene
def repeated(stage: Stage) -> Seen:
    """With the engine."""
    return repeating(stage, "skills")


@scene
def repeated_without(stage: Stage) -> Seen:
    """Without it."""
    return repeating(stage)


@scene
def repeated_alone(stage: Stage) -> Seen:
    """With nothing of ours: the host's own engine."""
    cleared(stage)
    skill(stage, "alpha", size=10_000)
    script = [Say("Twice.", (view_of("alpha"), view_of("misc/alpha")), SMALL), *(loading("alpha") for _ in range(18))]
    with Model([*script, Say("All done.")]) as model:
        stage.configure(model.url, engine="compressor", plugins=(), compression={"enabled": False})
        agent = stage.agent(model.url, enabled_toolsets=TOOLSETS, max_iterations=90)
        talk(agent, [])
        return {"sent": [request["messages"] for request in model.turns]}


@scene
def changing(stage: Stage) -> Seen:
    """A skill changes on disk between two loads, and one of its files is another thing."""
    cleared(stage)
    first = skill(stage, "alpha")
    second = first.replace("with care", "with great care")

    class Changing(list[Say]):
        def __iter__(self) -> Iterator[Say]:
            for at, said in enumerate(super().__iter__()):
                if at == 1:
                    skill(stage, "alpha", second)
                yield said

    reads = Reads(stage)
    script = Changing(
        [
            *(loading("alpha"), loading("alpha"), loading("misc/alpha")),
            Say("The file.", (view_of("alpha", "references/api.md"),), SMALL),
            *reads(6, FULL),
            Say("All done."),
        ]
    )
    return {**play(stage, script, rows=history(20)), "first": first, "second": second}


@scene
def failing(stage: Stage) -> Seen:
    """A load fails, then the skill is there."""
    cleared(stage)

    class Coming(list[Say]):
        def __iter__(self) -> Iterator[Say]:
            for at, said in enumerate(super().__iter__()):
                if at == 1:
                    skill(stage, "alpha")
                yield said

    return play(stage, Coming([loading("alpha"), loading("alpha"), Say("All done.")]), rows=[])


@scene
def audited(stage: Stage) -> Seen:
    """The transcript keeps every text, the model is sent each once, in its newest version."""
    cleared(stage)
    first = skill(stage, "alpha")
    second = first.replace("with care", "with great care")

    class Changing(list[Say]):
        def __iter__(self) -> Iterator[Say]:
            for at, said in enumerate(super().__iter__()):
                if at == 2:
                    skill(stage, "alpha", second)
                yield said

    script = Changing([*(loading("alpha") for _ in range(4)), Say("All done.")])
    return {**play(stage, script, {"audit": True}, rows=[]), "first": first, "second": second}


@scene
def two_sessions(stage: Stage) -> Seen:
    """Two sessions load the same skill."""
    cleared(stage)
    skill(stage, "alpha")
    first = play(stage, [loading("alpha"), Say("One.")], rows=[])
    second = play(stage, [loading("alpha"), Say("Two.")], rows=[])
    return {"first": first, "second": second}


@scene
def evicting(stage: Stage) -> Seen:
    """More skills than their budget allows: the ones used longest ago go, a pinned one stays."""
    cleared(stage)
    names = ("one", "two", "three", "four")
    for name in names:
        skill(stage, name, size=6_000)
    reads = Reads(stage)
    script = [*(loading(name) for name in names), Say("Loaded."), *reads(4, FULL), Say("All done.")]
    options = {"total_tokens": 3_500, "pinned": ["one"], "skill_tokens": 100}
    return play(stage, script, options, rows=history(6), requests=("Load them.", "Go on."))


# -- beside each other ------------------------------------------------------------------------------------------------


@scene
def beside(stage: Stage) -> Seen:
    """A parent stands blocked; its children, a second agent under its id and the review fork do as they like."""
    cleared(stage)
    skill(stage, "alpha")
    reads = Reads(stage)

    def decide(request: dict[str, Any]) -> Say | None:
        rows = request["messages"]
        last = rows[-1]
        if last["role"] == "user" and "CHILD" in str(last.get("content")):
            return writing(stage, "child.out")
        if (
            last["role"] == "user"
            and "REVIEW" not in str(last.get("content"))
            and "Review the conversation" in str(last.get("content"))
        ):
            return Say("I note.", (Call("skill_manage", {"action": "delete", "name": "nothing"}),), SMALL)
        return None

    script = [
        loading("alpha"),
        *reads(14, FULL),
        writing(stage, "parent1.out"),
        Say("I delegate.", (Call("delegate_task", {"tasks": [{"goal": "CHILD writes a file."}]}),), SMALL),
    ]
    dataspace = {"observers": ["skills"], "skills": {"keep": 0, "looking": ["delegate_task"]}}
    with Model(script, decide=decide) as model:
        stage.configure(model.url, dataspace)
        options = {"enabled_toolsets": TOOLSETS, "max_iterations": 90}
        agent = stage.agent(model.url, session="beside", **options)
        sid = stage.sid(agent)
        result = talk(agent, history(4))
        before = facts(stage, sid)
        child = [
            row for request in model.turns for row in request["messages"] if "child.out" in str(row.get("content"))
        ]
        helper = stage.agent(model.url, session="beside", **options)
        model.script = iter([writing(stage, "helper.out"), Say("Helped.")])
        helped = talk(helper, copy.deepcopy(result["rows"]), "Help out.")
        model.script = iter(())
        seen = len(model.turns)
        agent._spawn_background_review(copy.deepcopy(result["rows"]), review_skills=True)
        for thread in threading.enumerate():
            if thread.name == "bg-review":
                thread.join(60)
        return {
            "before": before,
            "after": facts(stage, sid),
            "child": child,
            "rows": result["rows"],
            "helped": [row for row in helped["rows"] if "helper.out" in str(row.get("content"))],
            "fork": [row for request in model.turns[seen:] for row in request["messages"] if row["role"] == "tool"][
                -1:
            ],
            "forked": len(model.turns) - seen,
            "fork_calls": [
                call["function"]["name"]
                for request in model.turns[seen:]
                for row in request["messages"][-3:]
                for call in row.get("tool_calls") or ()
            ],
            "written": sorted(path.name for path in stage.root.glob("*.out")),
        }


@scene
def resumed(stage: Stage) -> Seen:
    """A process ends after a compaction; another one goes on from the transcript, and the task needs the skill."""
    cleared(stage)
    skill(stage, "alpha")
    reads = Reads(stage)
    first = play(stage, [loading("alpha"), *reads(14, FULL), Say("Enough for today.")], {"keep": 0})
    stored = json.dumps(first["rows"]).replace('"call_0', '"first_0')  # the model counts its calls from one again
    rows = [{key: value for key, value in row.items() if not key.startswith("_")} for row in json.loads(stored)]
    script = [
        writing(stage, "early.out"),
        loading("alpha"),
        writing(stage, "late.out"),
        writing(stage, "later.out"),
        Say("All done."),
    ]

    def declare(agent: Any, _at: int, _model: Model) -> None:
        from bridges.hermes.runtime import running

        runtime = running()
        assert runtime is not None
        runtime.ask(lambda desk: desk.me.publish(f.SkillRequired(stage.sid(agent), "letters", "alpha")) and None)

    return play(stage, script, {"keep": 0}, rows=rows, requests=("Go on with the letters.",), meanwhile=declare)


@scene
def commanded(stage: Stage) -> Seen:
    """A user's command brings a skill along; loading it again brings no second text."""
    from agent.skill_commands import build_skill_invocation_message, scan_skill_commands

    cleared(stage)
    body = skill(stage, "alpha")
    scan_skill_commands()
    asked = build_skill_invocation_message("/alpha", "Count the letters.")
    seen = play(stage, [loading("alpha"), Say("All done.")], rows=[], requests=(asked,))
    return {**seen, "asked": asked, "body": body}


def main(root: str, out: str, *names: str) -> None:
    """Play the scenes."""
    scenes.SCENES.clear()
    scenes.SCENES.update(SCENES)
    scenes.main(root, out, *(names or SCENES))


if __name__ == "__main__":
    main(*sys.argv[1:])
