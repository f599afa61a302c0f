"""The loop without an event loop."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from dataspace import CAPTURE, Crashed, where
from engines import ctx_dataspace, observe, un_observe
from engines.facts import Compressed, Refused, ShouldCompress, Transcript
from engines.loop.actor import UnknownSessionError
from engines.shim import Context
from engines.transcript import check as check_transcript

SHORT = [{"role": "user", "content": "short"}]
LONG = [{"role": "user", "content": "please " * 50}, {"role": "assistant", "content": "yes"}]


def crossed(ctx: Context, sid: str = "s1", messages: Any = LONG) -> Context:
    """A conversation over its threshold."""
    ctx.session_start(sid, threshold=100, messages=messages)
    ctx.response(sid, {"prompt_tokens": 100})
    return ctx


@pytest.mark.shared
def test_the_reference_vector(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reference script runs unchanged and prints OK."""
    runpy.run_path(str(shared / "acceptance" / "seed_vector.py"), run_name="__main__")
    assert "OK\n" == capsys.readouterr().out


def test_the_first_answer_counts() -> None:
    """D10: two observers answer one question; the second is refused with a reason, under its own name."""
    ctx = ctx_dataspace()
    refused: list[tuple[str, str]] = []

    def first(sid: str) -> None:
        ctx.compressed(sid, SHORT)

    def second(sid: str) -> None:
        ctx.compressed(sid, LONG)

    observe(ctx, "(should-compress ?sid)", first)
    observe(ctx, where(ShouldCompress, sid=CAPTURE), second)
    observe(ctx, where(Refused, by=CAPTURE, reason=CAPTURE), lambda by, reason: refused.append((by, reason)))
    crossed(ctx)
    assert SHORT == ctx.messages("s1")
    assert [("second", "no question stands")] == refused
    assert ["first"] == [fact.by for fact in ctx.facts(Compressed)]


def test_an_answer_comes_in_a_later_turn() -> None:
    """While an observer's function runs, nothing of what it asked for has happened yet."""
    ctx = ctx_dataspace()
    seen: list[Any] = []

    def answer(sid: str) -> None:
        ctx.compressed(sid, SHORT)
        seen.append(ctx.messages(sid))

    observe(ctx, "(should-compress ?)", answer)
    crossed(ctx)
    assert [LONG] == seen
    assert SHORT == ctx.messages("s1")


def test_anybody_may_answer() -> None:
    """Outside of observers the caller answers; with no question standing that is refused."""
    ctx = crossed(ctx_dataspace())
    reasons: list[str] = []
    observe(ctx, "(refused #:reason ?)", reasons.append)
    ctx.compressed("s1", SHORT)
    ctx.compressed("s1", LONG)
    assert SHORT == ctx.messages("s1")
    assert ["no question stands"] == reasons
    assert ["caller"] == [fact.by for fact in ctx.facts("(compressed s1)")]


def test_messages_are_copies() -> None:
    """What is handed out can be changed without harm; what is handed in is frozen when it comes."""
    ctx = ctx_dataspace()
    mine = [{"role": "user", "content": "x"}]
    ctx.session_start("s1", threshold=100, messages=mine)
    mine[0]["content"] = "changed"
    ctx.messages("s1")[0]["content"] = "changed"
    ctx.append("s1", {"role": "assistant", "content": "y"}, {"role": "user", "content": "z"})
    assert ["x", "y", "z"] == [row["content"] for row in ctx.messages("s1")]
    assert [2] == [fact.rev for fact in ctx.facts(Transcript)]


def test_a_failing_observer_harms_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    """Its error is shown and stands as a fact; the others are served, it hears no more, and the loop goes on."""
    ctx = ctx_dataspace()
    log: list[str] = []

    def failing(sid: str) -> None:
        log.append("failing")
        raise RuntimeError("no thanks")

    broken = observe(ctx, "(should-compress ?sid)", failing)
    observe(ctx, "(should-compress ?sid)", lambda sid: ctx.compressed(sid, SHORT))
    crossed(ctx)
    crossed(ctx, "s2")
    assert ["failing"] == log
    assert SHORT == ctx.messages("s1") == ctx.messages("s2")
    assert [("failing", "RuntimeError: no thanks")] == [(fact.actor, fact.reason) for fact in ctx.facts(Crashed)]
    assert ctx.facts("(crashed failing)")
    assert "RuntimeError: no thanks" in capfd.readouterr().err
    un_observe(broken)


def test_functions_get_captures_or_nothing() -> None:
    """In field order; none where the pattern captures nothing, a class included."""
    ctx = ctx_dataspace()
    seen: list[tuple[Any, ...]] = []
    for pattern in (
        "(budget ?sid ?length ?threshold)",
        "(budget s1)",
        where(ShouldCompress, ask=CAPTURE),
        ShouldCompress,
    ):
        observe(ctx, pattern, lambda *args: seen.append(args))
    crossed(ctx)
    assert [("s1", 0, 100), (), (1,), ()] == seen


def test_an_observer_may_plug_and_unplug_others() -> None:
    """Within an observer's function too; who is gone hears nothing, not even what was under way."""
    ctx = ctx_dataspace()
    log: list[str] = []

    def switch(sid: str) -> None:
        un_observe(other)
        observe(ctx, "(should-compress ?sid)", lambda sid: log.append(f"new {sid}"))
        un_observe(me)

    me = observe(ctx, "(should-compress ?sid)", switch)
    other = observe(ctx, "(should-compress ?sid)", lambda sid: log.append(f"old {sid}"))
    crossed(ctx)
    assert log[-1:] == ["new s1"]
    crossed(ctx, "s2")
    assert log[-1:] == ["new s2"]
    assert 1 == sum(entry.startswith("new s2") for entry in log)
    un_observe(me)


def test_observers_of_one_session_hear_its_end_and_go() -> None:
    """Also when it is ended from within an observer's function; those of all sessions stay."""
    ctx = ctx_dataspace()
    log: list[str] = []
    for sid in ("s1", "s2"):
        observe(ctx, f"(session {sid} ended)", lambda sid=sid: log.append(f"{sid} ended"))
        observe(ctx, f"(should-compress {sid})", lambda sid=sid: log.append(f"{sid} crossed"))
    observe(ctx, "(should-compress ?sid)", lambda sid: log.append(f"all {sid}"))
    observe(ctx, "(compressed ?sid)", ctx.session_end)
    for sid in ("s1", "s2"):
        crossed(ctx, sid)
    ctx.session_end("s1")
    ctx.compressed("s2", SHORT)
    assert ["s1 crossed", "all s1", "s2 crossed", "all s2", "s1 ended", "s2 ended"] == log
    for sid in ("s1", "s2"):
        crossed(ctx, sid)
        ctx.session_end(sid)
    assert ["all s1", "all s2"] == log[6:]


def test_an_ended_session_does_not_keep_its_crashed_observers() -> None:
    """Whoever is gone already is only forgotten."""
    ctx = ctx_dataspace()
    gone = observe(ctx, "(should-compress s1)", lambda: None)
    ctx.session_start("s1", threshold=100)
    un_observe(gone)
    ctx.session_end("s1")
    assert {} == ctx._observers


def test_names_tell_observers_apart() -> None:
    """By their functions; equal names are numbered, nameless ones are observers."""
    ctx = ctx_dataspace()

    def engine(sid: str) -> None: ...

    class Callable:
        def __call__(self, sid: str) -> None: ...

    handles = [observe(ctx, "(session ?)", fn) for fn in (engine, engine, lambda _sid: None, Callable())]
    assert ["engine", "engine#2", "observer", "observer#2"] == [handle.name for handle in handles]


@pytest.mark.parametrize("check", [True, check_transcript])
def test_answers_are_checked_on_request(check: Any) -> None:
    """With a check an answer that has errors or faults is refused with what is wrong; the next one may be taken."""
    ctx = crossed(ctx_dataspace(check=check))
    reasons: list[str] = []
    observe(ctx, "(refused #:reason ?)", reasons.append)
    ctx.compressed("s1", [{"role": "tool", "tool_call_id": "1", "content": "orphan"}])
    assert LONG == ctx.messages("s1")
    assert 1 == len(reasons)
    assert ctx.facts("(should-compress s1 1)")
    ctx.compressed("s1", [LONG[0]])
    assert [LONG[0]] == ctx.messages("s1")


def test_a_check_may_be_any_judge() -> None:
    """What is false refuses."""
    ctx = crossed(ctx_dataspace(check=lambda answer, before: len(answer) < len(before)))
    ctx.compressed("s1", LONG)
    assert ctx.facts(ShouldCompress)
    ctx.compressed("s1", SHORT)
    assert not ctx.facts(ShouldCompress)


def test_mistakes_are_told() -> None:
    """Unknown sessions, bad patterns, bad budgets and functions that do not fit: one clear error each."""
    ctx = ctx_dataspace()
    for call in (lambda: ctx.response("s9", {}), lambda: ctx.messages("s9"), lambda: ctx.compressed("s9", SHORT)):
        with pytest.raises(UnknownSessionError, match="s9"):
            call()
    with pytest.raises(ValueError, match="should-compress"):
        observe(ctx, "(should-compres ?sid)", print)
    with pytest.raises(ValueError, match=r"200 .* 100"):
        ctx.session_start("s1", threshold=200, context_length=100)
    with pytest.raises(TypeError, match="messages"):
        ctx.session_start("s1", threshold=200, messages=["text"])

    async def later(sid: str) -> None: ...

    for fn in (later, "text"):
        with pytest.raises(TypeError, match="synchronous"):
            observe(ctx, "(session ?sid)", fn)  # type: ignore[arg-type]
    assert () == ctx.facts("(session _)")
