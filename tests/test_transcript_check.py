"""What is wrong with a message list, and whose fault it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from engines.messages import Messages
from engines.transcript import SUMMARY_HEAD, SUMMARY_KEY, bridge, check, is_real_user, seal
from tests.transcripts import transcripts

S = {"role": "system", "content": "be good"}
U = {"role": "user", "content": "do it"}
A = {"role": "assistant", "content": "done"}


def call(*ids: str, content: str | None = None) -> dict[str, Any]:
    """An assistant message with calls."""
    calls = [{"id": each, "type": "function", "function": {"name": "bash", "arguments": "{}"}} for each in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def result(call_id: str, text: str = "ok") -> dict[str, Any]:
    """A tool result."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def codes(problems: Any) -> list[tuple[str, int | None]]:
    """Codes and rows of some problems."""
    return [(problem.code, problem.row) for problem in problems]


@pytest.mark.parametrize(
    "rows",
    [
        [S, U, A],
        [U, call("a"), result("a"), A, U],
        [S, U, call("a", "b"), result("b"), result("a"), call("c"), result("c")],
        [S, U, call("a", "b"), result("a")],  # still open: the other tool runs
        [S, S, U, A],
        [S],
        [U, {"role": "assistant", "content": None, "tool_calls": None, "x": 1}],
        [
            U,
            {"role": "assistant", "function_call": {"name": "f", "arguments": {}}},
            {"role": "function", "name": "f", "content": "1"},
            A,
        ],
        [
            U,
            {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]},
            {"role": "tool", "content": "no ids anywhere"},
        ],
    ],
)
def test_sound_lists_have_no_problem(rows: list[dict[str, Any]]) -> None:
    """What every provider takes is not complained about."""
    assert check(rows).ok, str(check(rows))
    assert str(check(rows)) == "no problem"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], [("empty", None)]),
        ([U, {"role": "critic"}], [("unknown_role", 1)]),
        ([U, {"content": "who?"}], [("unknown_role", 1)]),
        ([U, A, result("a")], [("orphan_result", 2)]),
        ([U, call("a"), result("b"), A], [("missing_result", 1), ("orphan_result", 2)]),
        ([U, call("a"), result("a"), result("a"), A], [("orphan_result", 3)]),
        ([U, call("a", "b"), result("a"), A], [("missing_result", 1)]),
        ([U, call("a"), U, result("a")], [("missing_result", 1), ("orphan_result", 3)]),
        ([U, {"role": "user", "content": b"bytes"}], [("not_json", 1)]),
        ([U, "text"], [("not_json", 1)]),
    ],
)
def test_errors_are_what_nobody_survives(rows: list[Any], expected: list[tuple[str, int]]) -> None:
    """Each error has a stable code and the row where it is."""
    report = check(rows)
    assert codes(report.errors) == expected
    assert not report.ok
    for problem in report.errors:
        assert problem.text in str(report)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([S, U, U], [("alternation", 2)]),
        ([S, U, A, A], [("alternation", 3)]),
        ([S, U, S, U], [("alternation", 3)]),  # a system message between them separates nobody
        ([S, A, U], [("first_role", 1)]),
    ],
)
def test_roles_out_of_alternation_are_a_fault(rows: list[Any], expected: list[tuple[str, int]]) -> None:
    """Some providers take it, so it is no error."""
    report = check(rows)
    assert codes(report.faults) == expected
    assert report.errors == ()


def test_what_stood_side_by_side_before_is_not_charged() -> None:
    """An answer is not blamed for what its input had; a new collision of the same kind is its own."""
    before = [S, U, A, {**A, "content": "again"}, {**U, "content": "next"}, {**A, "content": "x" * 400}]
    assert check([S, U, A, {**A, "content": "again"}, {**U, "content": "next"}], before).ok
    report = check([S, U, A, {**A, "content": "new"}, {**U, "content": "next"}], before)
    assert codes(report.faults) == [("alternation", 3)]
    assert check([S, A, {**U, "content": "next"}], [S, A, {**U, "content": "next"}, {**A, "content": "x" * 90}]).ok


def test_shortened_calls_still_are_the_same_neighbours() -> None:
    """Two assistants in a row stay excused when the content of one was shortened but its calls were not."""
    before = [
        U,
        {**A, "content": "thinking"},
        call("a", content="y" * 300),
        result("a", "z" * 3000),
        {**U, "content": "now"},
    ]
    after = [U, {**A, "content": "thinking"}, call("a", content="y…"), result("a", "z"), {**U, "content": "now"}]
    assert check(after, before).ok


def test_an_answer_keeps_system_and_current_user_message() -> None:
    """Both are held against the input: changed, merged or gone is a fault, no user at all an error."""
    before = [S, U, A, {**U, "content": "now this"}, {**A, "content": "x" * 400}]
    assert codes(check([{**S, "content": "be bad"}, {**U, "content": "now this"}], before).faults) == [
        ("system_changed", 0)
    ]
    assert codes(check([S, {**U, "content": "summary; now this"}], before).faults) == [("current_user_changed", 1)]
    assert codes(check([S, U], before).faults) == [("current_user_changed", 1)]
    report = check([S, {"role": "user", "content": "made up", "_synthetic": True}], before)
    assert codes(report.errors) == [("no_user", None)]


def test_a_merged_summary_may_be_cut_out_of_the_current_message() -> None:
    """A host that merged our summary into the request is no reason to carry it there for ever."""
    old = seal("old things") + "\n\nplease go on"
    before = [S, {"role": "user", "content": old}, {**A, "content": "x" * 400}]
    assert check([S, {"role": "user", "content": "please go on"}], before).ok


def test_a_running_call_is_not_cut_off() -> None:
    """Calls that still wait at the end of the input wait at the end of the answer."""
    before = [S, U, {**A, "content": "x" * 900}, U, call("a", "b"), result("a")]
    assert check([S, U, call("a", "b"), result("a")], before).ok
    assert codes(check([S, U], before).faults) == [("open_call_cut", None)]


def test_an_answer_is_smaller() -> None:
    """As large as before is not smaller."""
    assert codes(check([S, U, A], [S, U, A]).faults) == [("not_smaller", None)]


def test_real_user_turns() -> None:
    """Summaries, bridges, marked rows of hosts and summaries of other engines are nobody's request."""
    assert is_real_user(U)
    assert is_real_user({**U, "_synthetic": False})
    assert not is_real_user(A)
    assert not is_real_user(bridge("user"))
    assert not is_real_user({**U, "_todo_snapshot_synthetic": True})
    assert not is_real_user({**U, SUMMARY_KEY: {"version": 1}})
    assert not is_real_user({"role": "user", "content": seal("x")})
    foreign = "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns"
    assert not is_real_user({"role": "user", "content": f"{foreign}\n\n--- END OF CONTEXT SUMMARY — respond below ---"})
    assert is_real_user({"role": "user", "content": foreign})
    assert is_real_user({"role": "user", "content": f"{SUMMARY_HEAD} is what they begin with"})
    assert is_real_user({"role": "user", "content": seal("x") + "\nand now fix it"})


@given(transcripts(), transcripts())
def test_any_two_lists_can_be_checked(rows: list[dict[str, Any]], before: list[dict[str, Any]]) -> None:
    """Whatever comes in, a report comes out, the same for frozen rows, and every row it names exists."""
    report = check(rows, before)
    assert report == check(Messages.of(rows), Messages.of(before))
    for problem in report.errors + report.faults:
        assert problem.row is None or 0 <= problem.row < max(len(rows), 1)
        assert str(problem).endswith(problem.text)
