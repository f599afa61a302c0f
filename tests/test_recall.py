"""The measure: what of a conversation is still found after it was compacted."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import engines.recall
from engines.recall import Figures, figures, identifiers, main, recall, requests_found
from engines.transcript import seal
from tests.test_transcript_check import A, S


def user(text: str) -> dict[str, Any]:
    """A user message."""
    return {"role": "user", "content": text}


def summary(text: str) -> dict[str, Any]:
    """A summary row, told by its text alone."""
    return user(seal(text))


RUN = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "c", "function": {"name": "bash", "arguments": '{"command": "pytest -q tests\\nls"}'}}],
}
OUT = {
    "role": "tool",
    "tool_call_id": "c",
    "content": "src/a.py:1474 ValueError in parse_token(x) at 0x7ffe12ab, commit deadbee1",
}
BEFORE = [S, user("look at src/a.py"), RUN, OUT, A, user("and src/b.py")]


def test_kinds_of_identifiers() -> None:
    """Paths, addresses, names, errors, numbers and hashes are found, plain words are not."""
    text = "See https://x.org/a/b?c=1. setup.py src/a.py /etc/passwd 1474 123 TimeDelta snake_case fn(x) KeyError ad388c7 facade defaced word and/or"
    assert identifiers(text) == {
        *(
            "https://x.org/a/b?c=1",
            "setup.py",
            "src/a.py",
            "/etc/passwd",
            "1474",
            "TimeDelta",
            "snake_case",
            "KeyError",
        ),
        *("ad388c7", "and/or"),
    }
    assert "call_it" in identifiers("call_it(x)")
    assert "callme" in identifiers("callme(x)")


def test_recall_counts_what_stands_in_removed_rows() -> None:
    """A row that stands unchanged is kept; the identifiers of all others are looked for, whole."""
    removed = {"src/a.py", "1474", "ValueError", "parse_token", "0x7ffe12ab", "deadbee1", "pytest -q tests"}
    after = [S, summary("src/a.py had a ValueError; 14741 is another number; ran pytest -q tests"), BEFORE[-1]]
    assert recall(BEFORE, after) == pytest.approx(3 / len(removed))
    assert recall(BEFORE, after, summary_only=True) == pytest.approx(3 / len(removed))
    assert recall(BEFORE, BEFORE) == 1.0


def test_what_a_kept_row_says_is_not_the_summary_s_merit() -> None:
    """By the summary alone: identifiers of removed rows that stand in no kept row, found in the summary row."""
    after = [S, summary("ValueError"), user("look at src/a.py"), BEFORE[-1]]
    assert recall(BEFORE, after) == pytest.approx(2 / 7)
    assert recall(BEFORE, after, summary_only=True) == pytest.approx(1 / 6)
    assert figures(BEFORE, after) == Figures(2, 2, 7, pytest.approx(2 / 7), 6, pytest.approx(1 / 6))  # type: ignore[arg-type]


def test_a_request_is_found_by_what_is_particular_to_it() -> None:
    """Words that others share do not count; where all are shared, three in a row do."""
    before = [
        user("please fix the parser and the lexer now"),
        user("please fix the server and the client now"),
        user("fix the lexer and the server please"),
    ]
    found = requests_found(before, [summary("fix the parser please"), before[2]])
    assert [(each.row, each.found) for each in found] == [(0, True), (1, False), (2, True)]
    assert found[0].by == "parser"
    assert requests_found([user("go on")], [summary("go on")])[0].found
    assert not requests_found([user("go on")], [summary("")])[0].found


def test_one_word_of_many_is_not_enough() -> None:
    """Three particular words, or all if there are fewer, have to be there."""
    before = [user("alpha beta gamma delta"), user("other words")]
    assert not requests_found(before, [summary("alpha beta")])[0].found
    assert requests_found(before, [summary("alpha beta delta")])[0].found


def test_arguments_that_are_no_json_are_read_as_text() -> None:
    """A call whose arguments are broken still says something; lists and numbers in arguments do too."""
    broken = {
        "role": "assistant",
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{src/broken.py"}}],
    }
    nested = {
        "role": "assistant",
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"a": ["x/y.py", 20231]}'}}],
    }
    assert recall([broken, nested], [summary("src/broken.py x/y.py")]) == pytest.approx(2 / 3)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two files in, the figures out."""
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    before.write_text("\n".join(map(json.dumps, BEFORE)) + "\n\n")
    after.write_text("\n".join(map(json.dumps, [S, summary("src/a.py"), BEFORE[-1]])))
    main([str(before), str(after)])
    out = capsys.readouterr().out
    assert "requests found: 1 of 2" in out
    assert "identifiers in removed rows: 7, found: 14.3%" in out
    assert "row 1: NOT FOUND" in out


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"{broken", ":1: not JSON"), (b"\xff", "codec"), (b'"text"', "must be a dict"), (None, "No such file")],
)
def test_files_that_cannot_be_read_are_named(
    tmp_path: Path, text: bytes | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on stderr, with the file's name in it, and exit code 2."""
    name = tmp_path / "x.jsonl"
    if text is not None:
        name.write_bytes(text)
    with pytest.raises(SystemExit) as caught:
        main([str(name), str(name)])
    said = capsys.readouterr().err
    assert caught.value.code == 2
    assert str(name) in said
    assert message in said
    assert said.count("\n") == 1
    with pytest.raises(SystemExit):
        main([])
    assert "usage" in capsys.readouterr().err


def test_a_number_that_ends_a_sentence_is_a_number() -> None:
    """The full stop after it is no part of it; a fraction is."""
    assert "48211" in identifiers("It failed at byte 48211.")
    assert identifiers("version 48211.5 of 3.48211") == frozenset()


def test_the_measure_and_the_compressor_do_not_know_each_other() -> None:
    """What is measured does not define the measure: neither imports the other's lexer."""
    folder = Path(engines.recall.__file__).parent
    for path in (folder / "recall.py", *(folder / "compressor").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            for name in names:
                assert ("compressor" if path.name == "recall.py" else "recall") not in name.split("."), path
