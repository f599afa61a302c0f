"""Reading session files: what is good is taken as it is, what is bad is refused with file, line and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.cli.errors import BadInput
from bridges.cli.session import parse_session, read_session
from engines.messages import thaw
from tests.replay_driver import attempt, jsonl, rows

USER = '{"role": "user", "content": "hello"}'


def assistant(**more: Any) -> str:
    """A line of the model."""
    return json.dumps({"role": "assistant", "content": "ok", **more})


def call(**function: Any) -> str:
    """A line with a tool call."""
    return assistant(
        tool_calls=[{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}", **function}}]
    )


BAD_SECOND_LINES = {
    "broken": ('{"role": "user", "content": ', "is not JSON at column"),
    "cut string": ('{"role": "user", "content": "hel', "is not JSON at column 29"),
    "no role": ('{"content": "hello"}', "has no role"),
    "unknown role": ('{"role": "robot", "content": "hello"}', 'the role "robot", which no provider knows'),
    "role of a wrong type": ('{"role": 7, "content": "hello"}', "the role 7"),
    "result without a call": (
        '{"role": "tool", "tool_call_id": "c9", "content": "x"}',
        'a tool result for "c9", which the assistant message before it did not call',
    ),
    "result without an id": ('{"role": "tool", "content": "x"}', "a tool result for null"),
    "surrogate": (r'{"role": "user", "content": "half \ud83d"}', r"holds \ud83d, half of a surrogate pair"),
    "surrogate in a key": (r'{"role": "user", "content": "", "\udc00": 1}', r"holds \udc00"),
    "array": ('[{"role": "user", "content": "hello"}]', "is a whole array; a session file holds one message"),
    "array over lines": ("[", "begins an array; a session file holds one message"),
    "wrapped": ('{"messages": []}', "holds a whole conversation; a session file holds one message"),
    "text": ('"hello"', "is a text, not an object"),
    "number": ("12", "is a bare value, not an object"),
    "null": ("null", "is a bare value, not an object"),
    "content": ('{"role": "user", "content": 7}', "content must be text, a list of parts or null, not 7"),
    "content part": ('{"role": "user", "content": ["a", 7]}', "content[1] must be an object or text, not 7"),
    "text of a part": ('{"role": "user", "content": [{"type": "text", "text": {}}]}', "content[0].text must be text, not an object"),
    "calls": (assistant(tool_calls={"id": "c1"}), "tool_calls must be a list, not an object"),
    "call": (assistant(tool_calls=["c1"]), 'tool_calls[0] must be an object, not "c1"'),
    "call id": (assistant(tool_calls=[{"id": 1, "function": {"name": "look"}}]), "tool_calls[0].id must be text, not 1"),
    "call function": (assistant(tool_calls=[{"id": "c1", "function": []}]), "tool_calls[0].function must be an object, not a list"),
    "call name": (assistant(tool_calls=[{"id": "c1", "function": {}}]), "tool_calls[0].function.name must be text"),
    "call name type": (call(name=7), "tool_calls[0].function.name must be text, not 7"),
    "call arguments": (call(arguments=[1]), "tool_calls[0].function.arguments must be text, not a list"),
    "older call": (assistant(function_call="look"), 'function_call must be an object, not "look"'),
    "result id": ('{"role": "tool", "tool_call_id": 1, "content": "x"}', "tool_call_id must be text, not 1"),
    "usage": (assistant(usage=[1]), "usage must be an object, not a list"),
    "usage count": (assistant(usage={"prompt_tokens": "many"}), 'usage.prompt_tokens must be a whole number of tokens, not "many"'),
    "usage below nought": (assistant(usage={"prompt_tokens": -1}), "usage.prompt_tokens must be a whole number of tokens, not -1"),
    "usage fraction": (assistant(usage={"prompt_tokens": 1.5}), "usage.prompt_tokens must be a whole number of tokens, not 1.5"),
    "usage flag": (assistant(usage={"prompt_tokens": True}), "usage.prompt_tokens must be a whole number of tokens, not true"),
    "not a number": ('{"role": "user", "content": "", "n": NaN}', "holds NaN, which JSON does not have"),
    "infinite": ('{"role": "user", "content": "", "n": 1e999}', "n is inf, which JSON does not have"),
    "deep": ('{"role": "user", "content": "", "n": ' + "[" * 150 + "]" * 150 + "}", "nested more than 100 deep"),
    "very deep": ('{"role": "user", "content": "", "n": ' + "[" * 200_000 + "]" * 200_000 + "}", "is nested too deeply"),
    "huge number": ('{"role": "user", "content": "", "n": ' + "9" * 5000 + "}", "is not JSON that can be read"),
    "two objects": (USER + USER, "is not JSON at column 37"),
    "long role": (json.dumps({"role": "r" * 500}), "has the role"),
    "long count": (assistant(usage={"prompt_tokens": "r" * 500}), "usage.prompt_tokens"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_SECOND_LINES)
def test_a_bad_line_is_named_and_said_what_to_do(case: str) -> None:
    """One line of text with file, line number, what is wrong, and after the semicolon what to do about it."""
    line, problem = BAD_SECOND_LINES[case]
    with pytest.raises(BadInput) as caught:
        parse_session(f"{USER}\n{line}\n{USER}\n".encode(), file="s.jsonl")
    text = str(caught.value)
    assert text.startswith("s.jsonl, line 2: ")
    assert problem in text
    assert "; " in text
    assert "\n" not in text
    assert len(text) < 300
    assert 2 == caught.value.line


def test_bytes_that_are_not_utf8_are_named_by_their_place() -> None:
    """The first bad byte of the line is counted from 1; also in a file that another encoding was used for."""
    with pytest.raises(BadInput, match=r"s.jsonl, line 2: byte 12 of the line is not UTF-8; save the file as UTF-8"):
        parse_session(USER.encode() + b'\n{"content":\xff}\n', file="s.jsonl")
    with pytest.raises(BadInput, match="line 1: byte 1 of the line is not UTF-8"):
        parse_session(USER.encode("utf-16"), file="s.jsonl")


@pytest.mark.parametrize("data", [b"", b"\n", b" \r\n\t\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n\n"])
def test_a_file_with_nothing_in_it_is_refused(data: bytes) -> None:
    """Blank lines and a byte order mark are nothing."""
    with pytest.raises(BadInput, match=r"s.jsonl: the file is empty; a session file holds one message"):
        parse_session(data, file="s.jsonl")


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """Missing, a directory, below a file, an impossible name: each is one sentence with the path."""
    with pytest.raises(BadInput, match=r"missing.jsonl: there is no such file"):
        read_session(tmp_path / "missing.jsonl")
    with pytest.raises(BadInput, match="is a directory"):
        read_session(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be read"):
        read_session(tmp_path / "file" / "below")
    with pytest.raises(BadInput, match="cannot be read"):
        read_session(tmp_path / "nul\0byte")


def test_a_name_with_line_ends_makes_no_two_lines_of_an_error(tmp_path: Path) -> None:
    """Control characters of a path are shown as question marks."""
    with pytest.raises(BadInput, match=r"a[?]b: there is no such file") as caught:
        read_session(tmp_path / "a\nb")
    assert "\n" not in str(caught.value)


def test_what_is_good_is_taken_as_it_is() -> None:
    """Parts, null content, unknown keys, dict arguments, older calls, developers: none of it is touched."""
    good: list[dict[str, Any]] = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "look"}, "there"], "mood": {"deep": [1, 2.5, None]}},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}]},
        {"role": "tool", "tool_call_id": "c", "content": {"type": "text", "text": "x"}},
        {"role": "assistant", "function_call": {"name": "g", "arguments": "{}"}},
        {"role": "function", "name": "g", "content": ""},
        {"role": "assistant", "content": "done", "tool_calls": None},
    ]  # fmt: skip
    assert good == [thaw(line.row) for line in parse_session(jsonl(good), file="s").lines]


def test_usage_is_taken_out_of_the_message() -> None:
    """It is about a response, no part of what is sent; null counts and unknown keys are let be."""
    usage = {"prompt_tokens": 7, "cached_tokens": None, "details": {"x": 1}}
    (line,) = parse_session(assistant(usage=usage).encode(), file="s").lines
    assert usage == line.usage
    assert {"role": "assistant", "content": "ok"} == thaw(line.row)


def test_a_line_separator_inside_a_text_is_no_line_end() -> None:
    """Only line feeds end lines, whatever else Unicode has."""
    text = "a\u2028b\x0bc\x85d"
    (line,) = parse_session(json.dumps({"role": "user", "content": text}, ensure_ascii=False).encode(), file="s").lines
    assert text == line.row["content"]


def test_a_surrogate_pair_is_a_character() -> None:
    """Escaped in halves, as JSON has it, it is read as what it means."""
    (line,) = parse_session(rb'{"role": "user", "content": "\ud83d\ude00"}', file="s").lines
    assert "\N{GRINNING FACE}" == line.row["content"]


@given(
    turns=st.integers(1, 4),
    bom=st.booleans(),
    end=st.sampled_from([b"\n", b"\r\n"]),
    blanks=st.lists(st.integers(0, 2), min_size=17, max_size=17),
    last=st.booleans(),
)
def test_marks_line_ends_and_blank_lines_change_nothing(
    turns: int, bom: bool, end: bytes, blanks: list[int], last: bool
) -> None:
    """The same messages are read; line numbers are those of the file."""
    messages = rows(turns)
    data, numbers, number = b"\xef\xbb\xbf" if bom else b"", [], 0
    for row, blank in zip(messages, blanks, strict=False):
        data += end * blank + json.dumps(row).encode() + end
        number += blank + 1
        numbers.append(number)
    session = parse_session(data if last else data.removesuffix(end), file="s")
    assert messages == session.messages
    assert numbers == [line.number for line in session.lines]
    assert number == session.length


@given(st.binary(max_size=60))
def test_any_bytes_are_a_session_or_bad_input(data: bytes) -> None:
    """Nothing else ever comes of reading."""
    session = attempt(parse_session, data, file="s")
    assert str(session).startswith("s") if isinstance(session, BadInput) else session.lines


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool", "function", "system"])},
        optional={"content": JSON, "tool_calls": JSON, "function_call": JSON, "usage": JSON, "tool_call_id": JSON},
    )
)
def test_any_object_is_a_message_or_bad_input(row: dict[str, Any]) -> None:
    """Whatever the types inside, the answer is a session or one sentence naming line 1."""
    session = attempt(parse_session, json.dumps(row).encode(), file="s")
    if isinstance(session, BadInput):
        assert 1 == session.line
    else:
        assert row["role"] == session.lines[0].role
