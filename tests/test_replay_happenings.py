"""What a replay says of turns and tools, and to whom its session belongs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bridges.cli.belongings import belongings
from bridges.cli.errors import BadInput
from bridges.cli.replay import Replay, Settings
from dataspace import Facet, open_dataspace
from engines.facts import Session, ToolCalled, Transcript, TurnEnded, TurnStarted
from tests.replay_driver import KINDS, session


def call(name: str, /, tool: str = "look", **args: Any) -> dict[str, Any]:
    """A row in which the model calls one tool."""
    function = {"name": tool, "arguments": json.dumps(args)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": name, "type": "function", "function": function}]}


def result(name: str, content: str) -> dict[str, Any]:
    """The tool's answer."""
    return {"role": "tool", "tool_call_id": name, "content": content}


ROWS = [
    {"role": "system", "content": "be good"},
    {"role": "user", "content": "look at it"},
    call("c1", path="a.py"),
    result("c1", "def f(): pass"),
    call("c2", tool="skill_view", name="x"),
    result("c2", '{"success": false, "error": "no such skill"}'),
    {"role": "assistant", "content": "it is a function"},
    {"role": "user", "content": "thanks"},
    {"role": "assistant", "content": "you are welcome"},
]


async def told(rows: list[dict[str, Any]], **settings: Any) -> list[Any]:
    """All that an observer hears of turns, tools and transcripts while rows are replayed."""
    heard: list[Any] = []

    def watch(me: Facet) -> None:
        for cls in (TurnStarted, TurnEnded, ToolCalled):
            me.observe(cls, heard=heard.append)
        me.observe(Transcript, appeared=lambda fact: heard.append(len(fact.messages)))
        me.observe(Session, appeared=heard.append)

    async with open_dataspace() as ds:
        await ds.spawn(watch, name="watch")
        options = {"context_length": 100_000, "threshold": 90_000, "engines": ("keeper",), "kinds": KINDS, **settings}
        await Replay(ds, session(rows), Settings(**options)).run()
    return heard


async def test_turns_and_tools_are_told_before_their_message_is_there() -> None:
    """A turn lies between two requests; a tool call comes with its arguments and its result, whole."""
    heard = [fact for fact in await told(ROWS) if not isinstance(fact, Session | int)]
    assert [type(fact).__name__ for fact in heard] == [
        "TurnStarted", "ToolCalled", "ToolCalled", "TurnEnded", "TurnStarted", "TurnEnded"
    ]  # fmt: skip
    first, looked, failed, over, second, end = heard
    assert (first.text, over.text, first.turn) == ("look at it", "it is a function", over.turn)
    assert (second.text, end.text) == ("thanks", "you are welcome")
    assert (looked.call_id, looked.tool, json.loads(looked.args)) == ("c1", "look", {"path": "a.py"})
    assert (looked.status, looked.result) == ("ok", "def f(): pass")
    assert (failed.tool, failed.status) == ("skill_view", "error")


async def test_a_tool_is_told_of_before_its_row() -> None:
    """As in a host: who hears of a call and then sees the transcript sees the row appear."""
    heard = await told(ROWS)
    at = next(n for n, fact in enumerate(heard) if isinstance(fact, ToolCalled))
    before = [fact for fact in heard[:at] if isinstance(fact, int)]
    after = [fact for fact in heard[at:] if isinstance(fact, int)]
    assert before[-1] == 3
    assert after[0] == 4


async def test_a_session_without_a_user_has_no_turn() -> None:
    """There is nothing that began one."""
    heard = await told([{"role": "system", "content": "x"}, {"role": "assistant", "content": "hello"}])
    assert not [fact for fact in heard if isinstance(fact, TurnStarted | TurnEnded)]


async def test_home_and_profile_are_on_the_session(tmp_path: Path) -> None:
    """Engines learn from the fact where they keep things, and for whom."""
    heard = await told(ROWS, home=tmp_path, profile="fin")
    known = next(fact for fact in heard if isinstance(fact, Session))
    assert (known.home, known.profile) == (str(tmp_path), "fin")


def test_a_home_is_made_for_its_owner_only(tmp_path: Path) -> None:
    """It will hold what was said."""
    told = belongings(None, str(tmp_path / "new"))
    assert told["home"].is_dir()
    assert told["home"].stat().st_mode & 0o777 == 0o700


def test_the_profile_is_found_as_in_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment first, then the name of the home, else the default one; what is given wins."""
    monkeypatch.delenv("AGENT_PROFILE", raising=False)
    monkeypatch.delenv("HERMES_HOME", raising=False)
    (tmp_path / "profiles").mkdir()
    home = str(tmp_path / "profiles" / "fin")
    assert belongings(None, home)["profile"] == "fin"
    assert belongings(None, str(tmp_path))["profile"] == "default"
    assert belongings("legal", home)["profile"] == "legal"
    monkeypatch.setenv("AGENT_PROFILE", "ops")
    assert belongings(None, home)["profile"] == "ops"


@pytest.mark.parametrize("home", ["", "file", "file/deeper", "nul\0"])
def test_a_home_that_cannot_be_is_refused_in_one_line(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each says what to do."""
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("x")
    with pytest.raises(BadInput, match="--home"):
        belongings(None, home)


def test_an_empty_profile_is_refused() -> None:
    """It would be nobody's."""
    with pytest.raises(BadInput, match="--profile"):
        belongings(" ", None)


async def test_what_is_kept_of_a_session_is_there_when_the_replay_is_over(tmp_path: Path) -> None:
    """The snapshot of the end and the log are written below the home, and read back."""
    from bridges.cli.kinds import KINDS as OURS
    from engines.snapshotter import FOLDER, SnapshotStore
    from engines.telemetry import local_log

    options = {"home": tmp_path, "profile": "fin", "kinds": OURS, "engines": ("compressor", "snapshotter", "telemetry")}
    await told(ROWS, **options)
    store = SnapshotStore(tmp_path / FOLDER, "fin")
    (entry,) = store.list()
    assert (entry.reason, entry.corrupt) == ("session_end", False)
    assert [call["tool"] for call in store.load(entry.id).tool_calls] == ["look", "skill_view"]
    lines = [json.loads(line) for line in local_log(tmp_path).read_text().splitlines()]
    assert {line["source"]["profile"] for line in lines} == {"fin"}


async def test_without_a_home_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same engines run, and leave no file."""
    from bridges.cli.kinds import KINDS as OURS

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    await told(ROWS, kinds=OURS, engines=("compressor", "snapshotter", "telemetry"))
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240 - a file system of the test
