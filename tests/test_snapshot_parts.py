"""What a snapshot is made of: plain JSON, a file of limited size, findings, what is known of a session."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import facts as f
from engines.messages import Messages
from engines.skills.wording import sections
from engines.snapshotter import CorruptSnapshotError, NewerSnapshotError, Snapshot, restored
from engines.snapshotter.collect import snapshot_of
from engines.snapshotter.findings import findings_in, findings_of_summary, plan_in, question_in
from engines.snapshotter.fit import LIMIT, cut_to, render
from engines.snapshotter.memory import Memory
from engines.snapshotter.plain import CUT, plain
from engines.snapshotter.snapshot import Snapshot as Read
from engines.snapshotter.snapshot import name_of
from engines.snapshotter.telling import shown
from engines.snapshotter.todo import next_of, todo_in
from engines.transcript import SUMMARY_KEY, estimate_text

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRET = "sk-test-AAAAbbbbCCCCdddd1234"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=40),
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text(st.characters(), max_size=8), inner, max_size=6)
    ),
    max_leaves=40,
)
ANYTHING = (
    JSON
    | st.binary(max_size=20)
    | st.sampled_from([object(), {1, 2}, {3: 4}, b"\xff", 10**5000, "x" * 60_000, ["y" * 300] * 200])
)


def parsed(text: str) -> Snapshot:
    """What a file says."""
    return Snapshot.read(json.loads(text))


# -- plain JSON -------------------------------------------------------------------------------------------------------


class Hostile:
    """Whatever is asked of it, it fails."""

    def __repr__(self) -> str:
        raise RuntimeError(SECRET)

    __str__ = __repr__


class HostileDict(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError(SECRET)


class HostileText(str):
    __slots__ = ()

    def __len__(self) -> int:
        raise RuntimeError(SECRET)

    __hash__ = None  # type: ignore[assignment]


def test_texts_that_are_more_than_texts() -> None:
    """A subclass of str is taken for what it is underneath, as a value and as a session's name."""
    assert ["text"] == plain([HostileText("text")])
    assert "text" == Snapshot(HostileText("text")).session_id


def test_what_is_no_json_is_named() -> None:
    """N16: anything can be saved; what JSON has no word for is named by its type, and nothing of it is said."""
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    made = plain(
        {
            "a": Hostile(),
            "b": HostileDict(x=1),
            "c": {1: 2.5},
            "d": float("nan"),
            "e": b"ab\xff",
            "f": 10**400,
            "g": cyclic,
            None: 1,
        }
    )
    assert "<Hostile>" == made["a"]
    assert "<HostileDict>" == made["b"]
    assert {"1": 2.5} == made["c"]
    assert "nan" == made["d"]
    assert "ab\\xff" == made["e"]
    assert "<a very large number>" == made["f"]
    assert CUT in json.dumps(made["g"])
    assert 1 == made["None"]
    assert json.loads(json.dumps(made)) == made


@pytest.mark.parametrize(
    "value",
    [
        f"API_KEY={SECRET}",
        {"args": {"headers": {"Authorization": f"Bearer {SECRET}"}}},
        {"task_state": {"api_key": "hunter2hunter2"}},
        {"password": "correct horse battery"},
        {"env": [{"name": "DB_PASSWORD", "value": "hunter2hunter2"}, {"key": "api_key", "value": "hunter2hunter2"}]},
        RuntimeError(SECRET),
        [f"raised: token={SECRET}"],
        {f"token={SECRET}": 1},
    ],
)
def test_secrets_leave_no_trace(value: Any) -> None:
    """M16: keys in results, headers, values beside telling names, error texts: none of them is in the file."""
    snapshot = Snapshot("s1", tool_calls=[value], key_findings=[value], task_state={"x": value}, lineage={"y": value})
    for text in (render(snapshot), restored(snapshot), shown(snapshot)):
        assert SECRET not in text
        assert "hunter2" not in text
        assert "correct horse" not in text


def test_numbers_beside_telling_names_stay() -> None:
    """What is no text is no secret: counts of tokens stay."""
    assert {"tokens": 123, "passed": 4, "key_findings": ["a plain sentence"]} == plain(
        {"tokens": 123, "passed": 4, "key_findings": ["a plain sentence"]}
    )


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "😀", "שלום", "a\u2028b", "nul\x00byte", "\x1b[31mred"])
def test_odd_unicode_comes_back(text: str) -> None:
    """N16: halves of letters become their escapes, everything else is as it was; nothing raises."""
    snapshot = Snapshot("s", key_findings=[text], profile=text, task_state={text: text})
    read = parsed(render(snapshot))
    assert snapshot == read
    assert [text.replace("\ud800", "\\ud800").replace("\udfff", "\\udfff")] == read.key_findings
    restored(read).encode()
    shown(read).encode()


def test_names_stay_apart() -> None:
    """N05: long names are cut, and different ones stay different; a name that was cut is cut no more."""
    names = ["x" * 400, "x" * 399 + "y", "x" * 160, "", "..", "a/b", "a\x00b", "\ud800", "\ud801"]
    made = [name_of(name) for name in names]
    assert len(names) == len(set(made))
    assert all(len(name) <= 160 for name in made)
    assert made == [name_of(name) for name in made]


# -- the format -------------------------------------------------------------------------------------------------------


def test_the_format() -> None:
    """The file has the fields of the format in their order, readable, and the time in UTC with its offset."""
    at = datetime(2026, 3, 1, 14, 0, tzinfo=timezone(timedelta(hours=2)))
    text = render(
        Snapshot(
            "s1",
            reason="compaction",
            timestamp=at,
            profile="fin",
            sequence=3,
            tool_calls=[{"tool": "ls"}],
            key_findings=["é"],
        )
    )
    found = json.loads(text)
    assert [
        *("session_id", "profile", "reason", "timestamp", "sequence"),
        *("tool_calls", "key_findings", "task_state", "lineage", "version"),
    ] == list(found)
    assert "2026-03-01T12:00:00+00:00" == found["timestamp"]
    assert "1.0.0" == found["version"]
    assert ' "tool_calls": [\n  {"tool": "ls"}\n ],\n' in text
    assert "é" in text


@pytest.mark.parametrize(
    "told",
    [
        {"reason": "because"},
        {"reason": ["session_end"]},
        {"timestamp": "yesterday"},
        {"timestamp": True},
        {"timestamp": 1e30},
        {"sequence": -1},
        {"sequence": True},
        {"sequence": "3"},
    ],
)
def test_what_is_not_of_the_format(told: dict[str, Any]) -> None:
    """It is refused with an error that says what is expected; in a file the same is corrupt."""
    with pytest.raises(ValueError, match="not"):
        Snapshot.of({"session_id": "s", **told})
    file = {
        "session_id": "s",
        "reason": "session_end",
        "timestamp": "2026-03-01",
        "tool_calls": [],
        "key_findings": [],
        **told,
    }
    with pytest.raises(CorruptSnapshotError):
        Snapshot.read(file)


def test_only_this_version_is_written() -> None:
    """A snapshot that is made is of the version that this release writes."""
    assert "1.0.0" == Snapshot("s", version="1.0.0").version
    with pytest.raises(ValueError, match="only read"):
        Snapshot("s", version="2.0.0")


def test_a_mapping_needs_a_session() -> None:
    """What is no mapping, or names no session, is no snapshot."""
    with pytest.raises(ValueError, match="session_id"):
        Snapshot.of({"reason": "session_end"})
    with pytest.raises(TypeError, match="mapping"):
        Snapshot.of([1])  # type: ignore[arg-type]


def test_files_of_the_plugin_before() -> None:
    """Its files have the same fields, no sequence and no lineage, and perhaps a time without a zone."""
    old = {
        "session_id": "20250301_a",
        "profile": "default",
        "reason": "session_reset",
        "timestamp": "2025-03-01T12:00:00",
        "tool_calls": [{"name": "terminal", "args": "ls", "result": "ok"}],
        "key_findings": ["It was the cache."],
        "task_state": {"goal": "mend it", "reset_reason": "unknown"},
        "version": "1.0.0",
    }
    read = Snapshot.read(old)
    assert (0, {}, "2025-03-01T12:00:00+00:00") == (read.sequence, read.lineage, read.timestamp)
    text = restored(read)
    for part in ("It was the cache.", "mend it", "terminal", "20250301_a", "when the session was reset"):
        assert part in text
    assert Snapshot.read({**old, "version": "0.9"}) == read
    assert Snapshot.read({**old, "timestamp": 1_740_830_400}).timestamp == read.timestamp


@pytest.mark.parametrize("version", ["1.0.1", "1.1", "2.0.0"])
def test_a_newer_file_says_so(version: str) -> None:
    """What a later release has written is not guessed at."""
    with pytest.raises(NewerSnapshotError, match="upgrade"):
        Snapshot.read({"session_id": "s", "version": version})


@pytest.mark.parametrize(
    "found",
    [None, [], 3, {}, {"session_id": 3}, {"session_id": "s", "version": "new"}, {"session_id": "s", "version": 2}],
)
def test_other_json_is_no_snapshot(found: Any) -> None:
    """JSON that is something else is corrupt, and not an error of ours."""
    with pytest.raises(CorruptSnapshotError):
        Snapshot.read(found)


# -- size -------------------------------------------------------------------------------------------------------------


def test_newest_fifty() -> None:
    """Of more than fifty entries the newest are kept."""
    made = json.loads(render(Snapshot("s", tool_calls=list(range(80)), key_findings=[f"f{n}" for n in range(60)])))
    assert list(range(30, 80)) == made["tool_calls"]
    assert [f"f{n}" for n in range(10, 60)] == made["key_findings"]


def test_oldest_go_first() -> None:
    """Where not everything has room, the oldest entries go, and what stays is whole."""
    calls = [{"tool": "t", "outcome": f"{n} " + "x" * 600} for n in range(50)]
    findings = [f"finding {n} " + "y" * 300 for n in range(50)]
    text = render(Snapshot("s", tool_calls=calls, key_findings=findings))
    made = json.loads(text)
    assert LIMIT - 900 < len(text) <= LIMIT
    assert calls[-len(made["tool_calls"]) :] == made["tool_calls"]
    assert findings[-len(made["key_findings"]) :] == made["key_findings"]
    assert len(made["tool_calls"]) > 3
    assert len(made["key_findings"]) > 5


def test_what_is_too_large_alone_is_cut() -> None:
    """One entry larger than a file, a giant state: cut, marked so, and the rest has room."""
    snapshot = Snapshot(
        "s",
        tool_calls=[{"tool": "a", "outcome": "small"}, {"tool": "b", "outcome": "z" * 50_000}],
        key_findings=["first", "w" * 30_000],
        task_state={"request": "r" * 9_000, "todo": [{"content": "c" * 500} for _ in range(40)], "next_step": "go on"},
        lineage={"children": ["k" * 200] * 50},
    )
    text = render(snapshot)
    made = json.loads(text)
    assert len(text.encode()) <= LIMIT
    assert {"tool": "a", "outcome": "small"} == made["tool_calls"][0]
    assert made["tool_calls"][1]["cut"] is True
    assert made["tool_calls"][1]["outcome"].endswith(CUT)
    assert made["key_findings"][1].endswith(CUT)
    assert "go on" == made["task_state"]["next_step"]
    assert made["task_state"]["cut"] is True
    assert CUT == made["task_state"]["todo"][0]
    assert {"content": "c" * 500} == made["task_state"]["todo"][-1]


def test_two_that_are_too_large_together() -> None:
    """One call and one finding that fit alone and not together: both are cut, and both are there."""
    made = json.loads(render(Snapshot("s", tool_calls=[{"outcome": "x" * 8_000}], key_findings=["y" * 8_000])))
    assert made["tool_calls"][0]["outcome"].endswith(CUT)
    assert made["key_findings"][0].endswith(CUT)
    assert 3_000 < len(made["key_findings"][0])


def test_cuts_of_any_kind() -> None:
    """What is escaped takes more room than it seems to; there is always a cut that fits."""
    assert len(json.dumps(cut_to("\x01" * 100, 60), ensure_ascii=False).encode()) <= 60
    assert [CUT, *range(94, 100)] == cut_to(list(range(100)), 36)
    assert CUT == cut_to(["z" * 300], 24)[0]
    assert {"cut": True} == cut_to({"k" * 300: "v" * 300}, 24)


@pytest.mark.slow
@given(st.lists(ANYTHING, max_size=8), st.lists(ANYTHING, max_size=8), ANYTHING, ANYTHING, st.text(st.characters()))
def test_anything_saves_under_the_limit(
    calls: list[Any], findings: list[Any], state: Any, lineage: Any, session: str
) -> None:
    """Huge, nested, odd, unserialisable: the file is within its limit, is read back, and can be told."""
    snapshot = Snapshot(session, tool_calls=calls, key_findings=findings, task_state=state, lineage=lineage)
    text = render(snapshot)
    assert len(text.encode()) <= LIMIT
    read = parsed(text)
    assert snapshot.session_id == read.session_id
    assert render(read) == render(parsed(render(read)))
    assert estimate_text(restored(read, 400)) <= 400
    shown(read)


@pytest.mark.slow
@given(JSON.map(plain), st.integers(24, 400))
def test_a_cut_keeps_to_its_size(value: Any, most: int) -> None:
    """Whatever is cut is JSON of at most that size, and what fits is not touched."""
    made = cut_to(value, most)
    size = len(json.dumps(value, ensure_ascii=False).encode())
    assert len(json.dumps(made, ensure_ascii=False).encode()) <= most
    assert made == value or size > most


# -- findings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("I found that the cache is stale. Let me clear it.", "I found that the cache is stale."),
        ("Reading file 3.", ""),
        ("Root cause: a lock that nobody releases.", "Root cause: a lock that nobody releases."),
        ("The build failed with ImportError in app.py.", "The build failed with ImportError in app.py."),
        ("- **Result**: 41 parcels\n- Next, I will count again", "Result: 41 parcels"),
        ("Shall I delete old.log?", ""),
        ("```\nerror: not this\n```\nOK.", ""),
        ("<think>The error is 5.</think>Yes.", ""),
        ("The next step is to look at depot 8 because of the frost.", ""),
        ("Operation interrupted: waiting for model response (0.3s elapsed).", ""),
    ],
)
def test_conclusions_are_found(text: str, found: str) -> None:
    """Sentences that conclude are findings; plans, questions, code, thoughts and announcements are not."""
    assert found == " ".join(findings_in(text))


def test_a_final_answer_has_a_finding() -> None:
    """Its most telling sentence, even if nothing in it looks like a conclusion; not a word of courtesy."""
    assert ("Everything sits where it was put.",) == findings_in("Everything sits where it was put.", final=True)
    assert () == findings_in("Done.", final=True)
    assert ("缓存已经过期了需要清理",) == findings_in("缓存已经过期了需要清理", final=True)


def test_few_of_many() -> None:
    """The most telling ones, in their order."""
    text = " ".join(f"The value {n} is wrong because of file_{n}.py." for n in range(9))
    assert 4 == len(findings_in(text))
    assert 200 >= max(map(len, findings_in("It failed because of " + "x y " * 400, most=1)))


def test_plans_and_questions() -> None:
    """The last thing announced is the next step; a question counts where it ends the answer."""
    assert "Next I will look at depot 8." == plan_in("It holds 7. Let me see. Next I will look at depot 8.")
    assert "" == plan_in("It holds 7.")
    assert "Which one do you mean?" == question_in("There are two. Which one do you mean?")
    assert "" == question_in("Why? Because it was full. So it is done now. And so it stays.")


def test_summaries_hold_findings() -> None:
    """Of a summary of the host's, the telling sentences; of ours, what was decided, met and noted."""
    from engines.compressor.summary import Item, Summary
    from engines.compressor.text import render as rendered

    foreign = "## Goal\nCount.\n## Done\nThe scale of depot 9 was off by 12 grams because of frost."
    assert ("The scale of depot 9 was off by 12 grams because of frost.",) == findings_of_summary(foreign)
    ours = rendered(
        Summary(
            1,
            4,
            requests=("Count",),
            decided=(Item("The lock is stale"),),
            errors=(Item("ImportError: x"),),
            notes=(Item("keep it"),),
        )
    )
    assert ("The lock is stale", "ImportError: x", "keep it") == findings_of_summary(f"before {ours}")


# -- to do ------------------------------------------------------------------------------------------------------------


def test_the_hosts_list() -> None:
    """The result has the whole list; a call may name a part of it."""
    result = json.dumps(
        {
            "todos": [
                {"id": "1", "content": "weigh", "status": "completed"},
                {"id": "2", "content": "stamp", "status": "pending"},
            ]
        }
    )
    todo = todo_in("todo", '{"todos": [{"id": "2", "content": "stamp"}], "merge": true}', result)
    assert [{"content": "weigh", "status": "completed"}, {"content": "stamp", "status": "pending"}] == todo
    assert "stamp" == next_of(todo or [])
    assert [{"content": "x", "status": "in_progress"}] == todo_in(
        "update_plan", '{"plan": [{"step": "x", "status": "in_progress"}, 3]}', "ok"
    )
    assert [] == todo_in("todo", "", '{"todos": []}')
    assert todo_in("todo", "no json", "[" * 5000) is None
    assert todo_in("todo", "x" * 200_000, "[3]") is None
    assert todo_in("terminal", "", result) is None
    assert "" == next_of([{"content": "weigh", "status": "completed"}])


# -- what is known ----------------------------------------------------------------------------------------------------


def called(n: int, text: str = "", tool: str = "read_file", **args: Any) -> list[dict[str, Any]]:
    """An assistant message with a call, and its result."""
    arguments = json.dumps(args or {"path": f"p{n}.txt"})
    function = {"name": tool, "arguments": arguments}
    return [
        {
            "role": "assistant",
            "content": text,
            "tool_calls": [{"id": f"call_{n}", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": f"call_{n}", "content": f"parcel {n}"},
    ]


def transcript(*rows: dict[str, Any]) -> f.Transcript:
    """A list as it is published."""
    return f.Transcript("s1", 1, messages=Messages.of(rows))


def taken(memory: Memory, session: f.Session | None = None, reason: str = "session_end") -> Snapshot:
    """The snapshot of what is known."""
    return snapshot_of(memory, session or f.Session("s1", host_session="h1"), reason, NOW)


def test_one_turn() -> None:
    """Request, tool calls with what they worked on and how they ended, findings, files, an open question."""
    memory = Memory("s1")
    memory.hear(f.TurnStarted("s1", "t1", text="Mend the build."), "at0")
    memory.hear(
        f.ToolCalled(
            "s1", "c1", "terminal", args='{"command": "make test"}', result="exit code 2\nImportError: app", status="ok"
        ),
        "at1",
    )
    memory.hear(
        f.ToolCalled(
            "s1", "c2", "write_file", args='{"path": "app.py", "content": "x"}', result="written", status="ok"
        ),
        "at2",
    )
    memory.hear(f.TurnEnded("s1", "t1", text="The import of app.py was wrong, and I fixed it. Shall I commit?"), "at3")
    made = taken(memory)
    assert ["make test", "app.py"] == [call["target"] for call in made.tool_calls]
    assert ["error", "ok"] == [call["status"] if "exit" not in call["outcome"] else "error" for call in made.tool_calls]
    assert "ImportError" in made.tool_calls[0]["outcome"]
    assert ["at1", "at2"] == [call["at"] for call in made.tool_calls]
    assert ["The import of app.py was wrong, and I fixed it."] == made.key_findings
    assert {
        "request": "Mend the build.",
        "in_flight": False,
        "files": ["app.py (edited)"],
        "open_questions": ["Shall I commit?"],
    } == made.task_state


def test_work_in_flight_has_its_next_step() -> None:
    """In the midst of a turn, or after one that was interrupted: marked, with what was announced, planned or begun."""
    memory = Memory("s1")
    memory.hear(f.TurnStarted("s1", "t1", text="Count."))
    assert "Begin with the request; nothing was done for it yet" == taken(memory).task_state["next_step"]
    memory.hear(transcript({"role": "user", "content": "Count."}, called(1)[0]))
    assert "read_file was called" in taken(memory).task_state["next_step"]
    memory.hear(f.ToolCalled("s1", "call_1", "read_file", args='{"path": "p1.txt"}', result="parcel 1"))
    assert "Go on after read_file p1.txt (parcel 1)" == taken(memory).task_state["next_step"]
    memory.hear(f.TurnEnded("s1", "t1", interrupted=True, text="Next I will read p2.txt."))
    state = taken(memory).task_state
    assert (True, "Next I will read p2.txt.") == (state["in_flight"], state["next_step"])
    memory.hear(f.ToolCalled("s1", "c9", "todo", result='{"todos": [{"content": "weigh", "status": "in_progress"}]}'))
    assert "weigh" == taken(memory).task_state["next_step"]


def test_what_was_done_for_an_earlier_request_is_no_beginning_of_this_one() -> None:
    """The next step goes on from a call only if that was made for the request at hand, by turns or by the list alone."""
    nothing = "Begin with the request; nothing was done for it yet"
    first = [{"role": "user", "content": "Count."}, *called(1), {"role": "assistant", "content": "One."}]
    second = [*first, {"role": "user", "content": "Weigh."}]

    told = Memory("s1")
    told.hear(f.TurnStarted("s1", "t1", text="Count."))
    told.hear(f.ToolCalled("s1", "call_1", "read_file", args='{"path": "p1.txt"}', result="parcel 1"))
    told.hear(f.TurnEnded("s1", "t1", text="One."))
    told.hear(f.TurnStarted("s1", "t2", text="Weigh."))
    resumed = Memory("s1")  # what came before is in the list only
    resumed.hear(f.TurnStarted("s1", "t1", text="Weigh."))
    listed = Memory("s1")
    listed.hear(transcript(*first))
    for memory in (told, resumed, listed):
        memory.hear(transcript(*second))
        assert nothing == taken(memory).task_state["next_step"]
        memory.hear(transcript(*second, *called(2)))
        assert "Go on after read_file p2.txt" in taken(memory).task_state["next_step"]
        memory.hear(transcript(*second[-1:], *called(2)))  # shorter now, and read from its beginning
        assert "Go on after read_file p2.txt" in taken(memory).task_state["next_step"]


def test_what_this_program_writes_into_texts_is_no_finding() -> None:
    """Not the note that the middle of a long answer was left out, and not the sections on skills in a summary."""
    long = "A long answer. " + "lorem parcels ipsum tariff " * 1_500 + "so far.\nThe scale is wrong by 12 grams."
    states = sections([("tea", "pruned"), ("cake", "available")], ["tea"])
    summary = f"## Goal\nCount the parcels.\n## Done\nDepot 9 failed twice.\n{states}\n"
    alone = {"role": "user", "content": f"[CONTEXT SUMMARY]: Handed over.\n{summary}", SUMMARY_KEY: True}
    merged = {"role": "assistant", "content": f"[PRIOR CONTEXT]\nIt is done.\n{summary}"}  # hosts do that at times
    memory = Memory("s1")
    memory.hear(f.TurnStarted("s1", "t1", text="Count."))
    memory.hear(f.TurnEnded("s1", "t1", text=long))
    memory.hear(transcript(alone, {"role": "assistant", "content": long}))
    memory.hear(transcript(merged, {"role": "user", "content": "Go on."}))
    found = "\n".join(taken(memory).key_findings)
    assert "The scale is wrong by 12 grams." in found
    assert "Depot 9 failed twice." in found
    for ours in ("left out", "pruned", "kept by the runtime", "skill_view", "available in"):
        assert ours not in found


def test_long_arguments_and_results_are_understood() -> None:
    """A file that was written at length is known by its path, and how a call with a long output ended by what it says."""
    page = "line\n" * 4_000
    calls = [
        ("write_file", {"content": page, "path": "long.md"}, {"bytes_written": len(page)}),
        ("terminal", {"command": "make test"}, {"output": page + "2 failed", "exit_code": 2, "error": None}),
        ("terminal", {"command": f"cat <<E\n{page}E"}, {"output": "", "matches": [page] * 3, "error": "no room"}),
        ("read_file", {"path": "error.log"}, {"content": f"{page}ValueError: quoted\n{page}", "total_lines": 8_001}),
        ("skill_view", {"name": "tea"}, {"success": True, "name": "tea", "content": "Warm the pot. " * 900}),
        ("search_files", {"pattern": "a"}, {f"key {n}" * 9: "x" * 99 for n in range(2_000)}),  # long in its keys
        ("search_files", {"pattern": "b"}, {f"key {n}" * 9: "x" * 99 for n in range(9_000)}),  # and too long to be read
    ]
    memory = Memory("s1")
    memory.hear(f.TurnStarted("s1", "t1", text="Go."))
    for n, (tool, args, result) in enumerate(calls):
        memory.hear(f.ToolCalled("s1", f"c{n}", tool, args=json.dumps(args), result=json.dumps(result)))
    made = taken(memory)
    told = [(call["target"], call["status"], call["outcome"]) for call in made.tool_calls]
    assert ("long.md", "ok", "done") == told[0]
    assert ("make test", "error") == told[1][:2]
    assert told[1][2].startswith("exit 2: ")
    assert "2 failed" in told[1][2]
    assert ("error", "no room") == told[2][1:]
    assert told[2][0].startswith("cat <<E")
    assert ("error.log", "ok", "tea", "ok") == (*told[3][:2], *told[4][:2])
    assert told[4][2].startswith("Warm the pot.")
    assert [("a", "ok"), ("b", "ok")] == [call[:2] for call in told[5:]]
    assert {"long.md (edited)", "error.log"} <= set(made.task_state["files"])


def test_without_turns_the_list_tells() -> None:
    """Where nobody tells of turns, the request is the last user message, and a list that waits is work in flight."""
    memory = Memory("s1")
    rows = [{"role": "user", "content": "Count."}, *called(1, "I found that p1 holds 7.")]
    memory.hear(transcript(*rows))
    state = taken(memory).task_state
    assert ("Count.", True) == (state["request"], state["in_flight"])
    memory.hear(
        transcript(
            *rows, {"role": "assistant", "content": "It holds 7 parcels."}, {"role": "user", "content": "Weigh."}
        )
    )
    state = taken(memory).task_state
    assert ("Weigh.", ["Count."]) == (state["request"], state["earlier_requests"])
    memory.hear(transcript(*rows, {"role": "assistant", "content": "Done now."}))
    assert not memory.working


def test_c23_originals_and_summary() -> None:
    """C23: fifty messages, a compaction, the whole list again: each call and finding once, the summary is no request."""
    from engines.compressor import Limits, compact

    rows: list[dict[str, Any]] = [{"role": "user", "content": "Count the parcels."}]
    for n in range(25):
        rows += called(n, f"I found that depot {n} holds {n * 37} parcels.")
        rows[-1]["content"] = f"parcel {n} " * 60
    rows.append({"role": "assistant", "content": "There are many."})
    memory = Memory("s1")
    memory.hear(transcript(*rows))
    before = (list(memory.calls), list(memory.findings))
    compacted = compact(Messages.of([*rows, {"role": "user", "content": "And the letters?"}]), Limits(threshold=4_000))
    assert compacted is not None
    memory.hear(f.Compressed("s1", 1, "compressor", messages=compacted))
    memory.hear(transcript(*rows))
    assert before[0] == memory.calls
    assert before[1] == memory.findings[: len(before[1])]
    assert len(memory.findings) == len(set(memory.findings))
    assert "COMPRESSED" not in memory.request
    assert not any("COMPRESSED" in finding for finding in memory.findings)


def test_c25_the_same_history_again() -> None:
    """C25: 1,662 messages published again change nothing; what was really done twice is there twice."""
    rows: list[dict[str, Any]] = [{"role": "user", "content": "ok"}, {"role": "user", "content": "ok"}]
    for n in range(830):
        rows += called(n, "", "terminal", command="make test")
    memory = Memory("s1")
    memory.hear(transcript(*rows))
    once = (list(memory.calls), list(memory.findings), memory.request)
    memory.hear(transcript(*rows))
    assert once == (memory.calls, memory.findings, memory.request)
    assert 50 == len(memory.calls)
    assert {"make test"} == {call["target"] for call in memory.calls}
    again = Memory("s1")
    again.hear(transcript(*rows))
    assert once == (again.calls, again.findings, again.request)


def test_calls_without_ids() -> None:
    """Older hosts give no ids: calls are told apart by their place, and a list shown again adds none."""
    rows: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    for _ in range(3):
        rows.append({"role": "assistant", "content": "", "function_call": {"name": "ls", "arguments": "{}"}})
        rows.append({"role": "function", "name": "ls", "content": "a b"})
    memory = Memory("s1")
    memory.hear(transcript(*rows))
    memory.hear(transcript({"role": "user", "content": "Other."}, *rows[1:]))
    assert 3 == len(memory.calls)


def test_a_call_that_is_heard_and_seen_is_one() -> None:
    """A host tells of a call, and shows it in its list: one entry, whichever comes first, however the arguments are spelled."""
    heard = f.ToolCalled("s1", "call_1", "read_file", args='{ "path":"p1.txt" }', result="parcel 1")
    seen = transcript({"role": "user", "content": "Go."}, *called(1))
    for first, second in ((heard, seen), (seen, heard)):
        memory = Memory("s1")
        memory.hear(first)
        memory.hear(second)
        assert 1 == len(memory.calls)
    memory.hear(f.ToolCalled("s1", "call_1", "read_file", args='{"path": "other.txt"}'))  # an id that is given again
    memory.hear(f.ToolCalled("s1", "", "read_file", args='{"path": "p1.txt"}'))
    memory.hear(f.ToolCalled("s1", "", "read_file", args='{"path": "p1.txt"}'))
    assert 4 == len(memory.calls)


def test_notes_skills_children() -> None:
    """Explicit notes are findings; required skills, children and other ids of the host are told."""
    memory = Memory("s1")
    memory.named("h0")
    memory.named("h1")
    memory.hear(f.TurnStarted("s1", "t1", text="Go."))
    memory.hear(f.Noted("s1", f"Use the second scale, key {SECRET}"))
    memory.hear(f.SkillRequired("s1", "t", "weighing"))
    memory.hear(f.Delegated("s1", "s2", task="count depot 3"))
    made = taken(memory, f.Session("s1", host_session="h1", parent="s0", ended="session_reset"), "session_reset")
    assert ["Use the second scale, key [redacted]"] == made.key_findings
    assert ["weighing"] == made.task_state["required_skills"]
    assert "session_reset" == made.task_state["reset_reason"]
    assert {
        "conversation": "s1",
        "parent": "s0",
        "earlier_sessions": ["h0"],
        "children": [{"session": "s2", "task": "count depot 3"}],
    } == made.lineage
    assert "h1" == made.session_id


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much comes, what is kept is the newest of it."""
    monkeypatch.setattr("engines.snapshotter.memory._KNOWN", 500)
    memory = Memory("s1")
    for n in range(600):
        memory.hear(f.ToolCalled("s1", f"c{n}", "write_file", args=json.dumps({"path": f"f{n}"}), result="x" * 100))
        memory.hear(f.Noted("s1", f"note {n}"))
    for n in range(60):
        memory.hear(f.TurnStarted("s1", f"t{n}", text=f"request {n} " + "y" * 300))
        memory.hear(f.SkillRequired("s1", "t", f"skill {n}"))
        memory.hear(f.Delegated("s1", f"child {n}"))
        memory.named(f"h{n}")
    assert (50, 50) == (len(memory.calls), len(memory.findings))
    assert "note 599" == memory.findings[-1]
    assert len(memory.files) <= 30
    assert max(len(memory.earlier), len(memory.skills), len(memory.children), len(memory.sessions)) <= 21
    assert len(memory._known) <= 500
    assert len(render(taken(memory)).encode()) <= LIMIT


def test_facts_of_others_say_nothing() -> None:
    """What has nothing to do with what a successor needs is passed over; a memory of nothing is empty."""
    memory = Memory("s1")
    memory.hear(f.Usage("s1", 1, prompt=5))
    memory.hear(f.Transcript("s1", 1))
    memory.hear(f.Compressed("s1", 1, "x"))
    assert memory.empty
    memory.hear(f.TurnStarted("s1", "t", text="Go."))
    assert not memory.empty


@given(st.lists(st.sampled_from(["user", "assistant", "tool", "call", "cut", "again"]), max_size=30), st.randoms())
def test_lists_shown_in_any_way(steps: list[str], random: Any) -> None:
    """However a list grows, is cut or shown again, a call is taken in once, and what is known is bounded JSON."""
    rows: list[dict[str, Any]] = []
    memory = Memory("s1")
    made = 0
    for step in steps:
        if step == "call":
            rows += called(made, f"I found that {made} is wrong.")
            made += 1
        elif step == "cut":
            rows = rows[random.randrange(len(rows) + 1) :]
        elif step != "again":
            rows.append(
                {"role": step, "content": f"{step} says {made}"}
                | ({"tool_call_id": "nobody"} if step == "tool" else {})
            )
        memory.hear(transcript(*rows))
    targets = [call["target"] for call in memory.calls]
    assert len(targets) == len(set(targets)) <= made
    assert Read.read(json.loads(render(taken(memory)))).tool_calls == memory.calls[-len(memory.calls) :]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "Ursache: Der Schl\u00fcssel wurde \u00fcberschrieben. Ich lese jetzt die Datei.",
            "Ursache: Der Schl\u00fcssel wurde \u00fcberschrieben.",
        ),
        (
            "\u539f\u56e0\u662f\u7aef\u53e38080\u88ab\u5360\u7528\u3002\u6211\u5c06\u91cd\u65b0\u542f\u52a8\u670d\u52a1\u3002",
            "\u539f\u56e0\u662f\u7aef\u53e38080\u88ab\u5360\u7528\u3002",
        ),
        (
            "\u539f\u56e0\uff1a\u30ed\u30c3\u30af\u304c\u89e3\u653e\u3055\u308c\u3066\u3044\u306a\u3044\u3002\u6b21\u306f\u3069\u3046\u3057\u307e\u3059\u304b\uff1f",
            "\u539f\u56e0\uff1a\u30ed\u30c3\u30af\u304c\u89e3\u653e\u3055\u308c\u3066\u3044\u306a\u3044\u3002",
        ),
        (
            "\u041f\u0440\u043e\u0432\u0435\u0440\u043a\u0430 test_login \u043f\u0430\u0434\u0430\u0435\u0442 \u0441 TimeoutError. \u0427\u0438\u0442\u0430\u044e \u0436\u0443\u0440\u043d\u0430\u043b.",
            "\u041f\u0440\u043e\u0432\u0435\u0440\u043a\u0430 test_login \u043f\u0430\u0434\u0430\u0435\u0442 \u0441 TimeoutError.",
        ),
    ],
)
def test_findings_in_other_languages(text: str, found: str) -> None:
    """A label, a number, a name, an error tell in any language and script; what is only announced does not."""
    assert (found,) == findings_in(text)


def test_questions_in_other_scripts() -> None:
    """Their marks of question are known; a question is no finding."""
    for text in ("\u7d9a\u3051\u307e\u3059\u304b\uff1f", "\u0647\u0644 \u0623\u062a\u0627\u0628\u0639\u061f"):
        assert text == question_in(text)
        assert () == findings_in(text, final=True)


# -- telling ----------------------------------------------------------------------------------------------------------


def test_what_the_model_is_told() -> None:
    """From where and when, that it is no request; the request and the next step whatever the budget, the newest of the rest."""
    snapshot = Snapshot(
        "h1",
        reason="compaction",
        timestamp=NOW,
        profile="fin",
        tool_calls=[
            {"tool": "terminal", "target": f"make {n}", "outcome": "exit 2", "status": "error"} for n in range(50)
        ],
        key_findings=[f"Finding {n} is worth a line of its own." for n in range(50)],
        task_state={
            "request": "Mend the build.",
            "in_flight": True,
            "next_step": "run make",
            "todo": [{"content": "a", "status": ""}, "b"],
        },
    )
    for budget in (200, 400, 2_000):
        text = restored(snapshot, budget)
        assert estimate_text(text) <= budget
        for part in (
            "session h1",
            "profile fin",
            "2026-03-01 12:00:00 UTC",
            "before a compaction",
            "no new request",
            "Mend the build.",
        ):
            assert part in text, (budget, part)
    for budget in (199, 10, 0, -1):
        with pytest.raises(ValueError, match="200 or more"):
            restored(snapshot, budget)
    text = restored(snapshot)
    assert "make 49 → exit 2 [error]" in text
    assert "Finding 49" in text
    assert "next step: run make" in text
    assert "[open] a" in text
    assert text.endswith("[End of the snapshot]")


def test_states_of_any_shape_are_told() -> None:
    """A state that is no mapping, calls that are no mappings: shown as they are."""
    text = shown(Snapshot("s", tool_calls=["ls", 3], task_state=["x"], key_findings=[{"what": "y"}, None]))
    for part in ("- ls", "- 3", '["x"]', '{"what": "y"}'):
        assert part in text


@given(st.text(max_size=400), st.text(max_size=400), ANYTHING, ANYTHING, st.sampled_from([200, 201, 260, 2_000]))
def test_whatever_it_holds_it_keeps_to_its_budget(name: str, profile: str, state: Any, item: Any, budget: int) -> None:
    """Names of any length and script among it: they are told in part."""
    snapshot = Snapshot(name * 3, profile=profile, task_state=state, tool_calls=[item] * 3, key_findings=[item])
    text = restored(snapshot, budget)
    assert estimate_text(text) <= budget
    assert "it is no new request" in text
    assert text.endswith("[End of the snapshot]")
