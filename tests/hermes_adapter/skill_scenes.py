"""Scenes of skills in real agents: `python -m tests.hermes_adapter.skill_scenes ROOT OUT [NAME…]`."""

from __future__ import annotations

import copy
import json
import os
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
    return {**play(stage, script, {"keep": 0, **options}), "body": body}


@scene
def lost(stage: Stage) -> Seen:
    """The built-in compressor prunes what the task needs."""
    return losing(stage)


def main(root: str, out: str, *names: str) -> None:
    """Play the scenes."""
    scenes.SCENES.clear()
    scenes.SCENES.update(SCENES)
    scenes.main(root, out, *(names or SCENES))


if __name__ == "__main__":
    main(*sys.argv[1:])
