"""What a file, an engine or an argument holds reaches a terminal as text, on one line, and never as an order to it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from bridges.cli import main, setting
from bridges.cli.lines import Lines
from bridges.cli.moments import Moment, plain
from bridges.cli.picture import Picture, Summary
from bridges.cli.replay import Settings
from bridges.cli.session import Session, shown
from bridges.cli.story import Story
from bridges.cli.terminal import ascii_json, clean, one_line, tell
from dataspace import Facet
from engines.facts import Answered, CompactionFailed
from tests.replay_driver import jsonl, rows

ORDERS = "\x1b]0;pwned\x07\x1b[31m\x9b2J\x7f\x85\u202e\u2066\u200f\u2028\u061c"
UNSAFE = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *"\u061c\u200e\u200f\u2028\u2029",
          *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}  # fmt: skip
CASES: dict[str, Callable[[str], list[str]]] = {
    "key": lambda orders: [json.dumps({"role": "user", "content": "", orders: 1}).replace(": 1}", ": 1e999}")],
    "usage key": lambda orders: [json.dumps({"role": "assistant", "content": "", "usage": {f"{orders}_tokens": -1}})],
    "role": lambda orders: [json.dumps({"role": orders})],
    "result id": lambda orders: [json.dumps({"role": "tool", "tool_call_id": orders, "content": ""})],
}


def ordered(text: str) -> set[str]:
    """The characters of a text that a terminal would obey; line feeds are meant."""
    return UNSAFE & set(text) - {"\n"}


@pytest.mark.parametrize("case", CASES)
def test_an_error_about_a_line_gives_no_orders(tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    """Keys and values of the file stand in it as text, and it is one line."""
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join(CASES[case](ORDERS)), encoding="utf-8")
    assert 2 == main(["replay", str(bad)])
    out, err = capsys.readouterr()
    assert (set(), "", 1) == (ordered(err), out, err.count("\n"))
    assert "pwned" in err


@pytest.mark.parametrize(
    "args",
    [
        [f"no{ORDERS}file.jsonl"],
        ["good.jsonl", "--out", f"{ORDERS}/out"],
        ["good.jsonl", "--swap", ORDERS],
        ["good.jsonl", "--engine", ORDERS],
        ["good.jsonl", "--threshold", ORDERS],
        ["good.jsonl", f"--{ORDERS}"],
    ],
    ids=lambda args: args[1][:8] if len(args) > 1 else "file",
)
def test_an_error_about_an_argument_gives_no_orders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, args: list[str]
) -> None:
    """Whoever pasted it sees what it was."""
    monkeypatch.chdir(tmp_path)
    Path("good.jsonl").write_bytes(jsonl(rows(1)))
    assert 2 == main(["replay", *args])
    out, err = capsys.readouterr()
    assert (set(), "", 1) == (ordered(err), out, err.count("\n"))


@pytest.mark.parametrize("long", ["r" * 100_000, "ä\x1b" * 50_000])
def test_an_error_is_never_longer_than_a_few_hundred_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], long: str
) -> None:
    """The middle is left out: the beginning says where, the end what to do."""
    bad = tmp_path / "bad.jsonl"
    for case in CASES.values():
        bad.write_text("\n".join(case(long)), encoding="utf-8")
        assert 2 == main(["replay", str(bad)])
        err = capsys.readouterr().err
        assert len(err) < 450
        assert "bad.jsonl, line 1" in err
        assert err.endswith((
            "; correct the line or take it out\n", "system, tool, user\n", "the line out\n"
        ))  # fmt: skip


def _orders(_me: Facet) -> None:
    raise RuntimeError(ORDERS * 1000)


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_what_an_engine_says_gives_no_orders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, extra: list[str]
) -> None:
    """Its reasons are told on both streams, at a length that can be read."""
    monkeypatch.setattr(setting, "KINDS", {**setting.KINDS, "rude": lambda: _orders})
    good = tmp_path / "good.jsonl"
    good.write_bytes(jsonl(rows(9)))
    limits = ["--context-length", "1000", "--threshold", "300"]
    assert 1 == main(["replay", str(good), *limits, "--swap", "c1:compressor=rude", *extra])
    out, err = capsys.readouterr()
    assert (set(), set()) == (ordered(out), ordered(err))
    assert "pwned" in err
    assert all(len(line) < 450 for line in err.splitlines())
    assert extra or all(len(line) < 3000 for line in out.splitlines())  # as JSON a character may take six


def test_closing_sentences_on_a_pipe_give_no_orders() -> None:
    """They may hold the name of a file."""
    stream = io.StringIO()
    result = {
        "messages": 1,
        "tokens": {},
        **dict.fromkeys(("crossings", "compactions", "refused", "failed", "crashes"), 0),
    }
    Lines(stream).end(result, [f"written to {ORDERS}"])
    assert set() == ordered(stream.getvalue())


def test_the_live_view_gives_no_orders_but_its_own() -> None:
    """Names, reasons and facts are text in it; square brackets in a name are no markup."""
    story = Story(lambda: 0.0)
    told = [
        *story.take("appeared", CompactionFailed("s", ORDERS)),
        *story.take("heard", Answered("s", 1, 1, ORDERS, error=ORDERS)),
    ]
    session = Session(f"[red]{ORDERS}", (), 0)
    done = {"ask": 1, "by": ORDERS, "tokens_before": 2, "tokens_after": 1, "seconds": 0.0}
    result = {"results": [done], "tokens": {"before": 2, "after": 1, "peak": 2}}
    console = Console(file=io.StringIO(), width=160, height=40, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(Picture(story, session, Settings(1000, 300), told))
        console.print(Summary(result, [ORDERS]))
    text = capture.get()
    assert set() == ordered(text)
    assert text.count("pwned") >= 5
    assert "[red]" in text


def test_a_path_is_shown_with_a_mark_for_each_order() -> None:
    """Of either set of control characters, and of those that turn a line round."""
    assert "a?b?c?d" == shown(Path("a\nb\x9bc\u202ed"))


@given(st.text() | st.text(st.sampled_from([*sorted(UNSAFE), "a", " ", "é"])))
def test_any_text_is_made_safe(text: str) -> None:
    """Nothing that acts is left, everything else is; JSON and event lines are printable ASCII."""
    kept = "".join(char for char in text if char not in UNSAFE and char != " ")
    assert kept == clean(text).replace(" ", "")
    assert len(text) == len(clean(text, "?"))
    for made in (clean(text), clean(text, "?"), one_line(text)):
        assert not UNSAFE & set(made)
    for made in (ascii_json({text: text}), plain(Moment("erred", 1, (("reason", text),)))):
        assert made.isascii()
        assert made.isprintable()
    assert {text: text} == json.loads(ascii_json({text: text}))


@given(st.text(max_size=1000), st.integers(20, 500))
def test_one_line_keeps_both_ends(text: str, longest: int) -> None:
    """It is no longer than it may be; a short one is left whole."""
    line, whole = one_line(text, longest), one_line(text, 10_000)
    assert len(line) <= longest
    head, cut, tail = line.partition(" ... ") if line != whole else (line, "", "")
    assert whole.startswith(head)
    assert whole.endswith(tail) if cut else line == whole


def test_who_cannot_be_told_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk behind stderr ends nothing."""

    class Full(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    tell("something")
