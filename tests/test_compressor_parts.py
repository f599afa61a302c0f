"""The parts of the compressor by themselves: outcomes, identifiers, secrets, summaries as text, worn rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.compressor import Limits, compact
from engines.compressor.fold import findings
from engines.compressor.lexer import lex
from engines.compressor.outcome import noise_in, outcome_of, target_of
from engines.compressor.reader import Reader
from engines.compressor.redact import redact, redact_all
from engines.compressor.requests import compare
from engines.compressor.summary import Item, Summary, merge
from engines.compressor.text import fit, parse, render
from engines.compressor.wear import shrink, wear
from engines.compressor.wording import (
    best_sentence,
    bytes_of,
    clip,
    clip_bytes,
    excerpt,
    lines_with,
    lowered,
    one_line,
    plain,
)
from engines.messages import Messages
from engines.transcript import SUMMARY_END, SUMMARY_HEAD, Call, calls_of, estimate_tokens, groups, text_of
from tests.test_transcript_check import A, S, U, call, result

LINE = st.text(st.characters(exclude_categories=["Cc", "Zl", "Zp"]), max_size=40).map(plain).map(one_line)  # as shown
ITEM = st.builds(Item, LINE.filter(bool), st.integers(0, 9), st.integers(1, 9)).filter(
    lambda item: parse(render(Summary(decided=(item,)))).decided == (item,)
)
ITEMS = st.lists(ITEM, max_size=4, unique_by=lambda item: item.text).map(tuple)
SUMMARY = st.builds(
    Summary,
    compactions=st.integers(1, 99),
    rows=st.integers(0, 999),
    requests=st.lists(LINE.filter(lambda line: not line.startswith("##")), max_size=4).map(tuple),
    decided=ITEMS,
    files=ITEMS,
    commands=ITEMS,
    errors=ITEMS,
    skills=ITEMS,
    notes=ITEMS,
    open=ITEMS,
    identifiers=st.lists(st.from_regex(r"\w{4,9}", fullmatch=True), max_size=5, unique=True).map(tuple),
    prose=st.sampled_from(["", "It went well.\nThen it did not."]),
)


@given(SUMMARY)
def test_a_summary_is_read_back_as_it_was_written(summary: Summary) -> None:
    """The text is the whole truth: nothing else has to survive."""
    assert parse(render(summary)) == summary


@given(SUMMARY, st.integers(0, 4_000))
def test_fitting_keeps_every_request(summary: Summary, room: int) -> None:
    """Whatever the room, each request has its line; with room enough nothing changes at all."""
    compared = compare(summary.requests)
    short = fit(summary, room, compared)
    assert len(short.requests) == len(summary.requests)
    assert (
        bytes_of(render(short))
        <= max(room, 700 + 60 * len(summary.requests)) + bytes_of(" ".join(summary.identifiers)) + 60
    )
    whole = fit(summary, 10**6, compared)
    assert (whole.decided, whole.errors, whole.open, whole.prose) == (
        summary.decided,
        summary.errors,
        summary.open,
        summary.prose,
    )


@given(SUMMARY, SUMMARY)
def test_merging_keeps_both(old: Summary, new: Summary) -> None:
    """Requests follow each other, equal items are counted, what is open is what was open last."""
    both = merge(old, new)
    assert both.requests == old.requests + new.requests
    assert both.open == new.open
    assert both.rows == old.rows + new.rows
    for name in ("decided", "commands", "errors", "skills", "notes"):
        merged, parts = getattr(both, name), (*getattr(old, name), *getattr(new, name))
        assert {item.text for item in merged} == {item.text for item in parts}
        assert sum(item.times for item in merged) == sum(item.times for item in parts)


def test_a_file_that_was_edited_stays_so() -> None:
    """Reading it again does not make it a file that was only read."""
    both = merge(
        Summary(files=(Item("a.py (edited)"), Item("b.py"))), Summary(files=(Item("a.py"), Item("b.py (edited)")))
    )
    assert {item.text for item in both.files} == {"a.py (edited)", "b.py (edited)"}


@pytest.mark.parametrize(
    "text", ["", "no summary", f"{SUMMARY_HEAD}\n{SUMMARY_END}", f"{SUMMARY_HEAD}\nonly a line\n{SUMMARY_END}"]
)
def test_any_text_is_read_as_far_as_it_goes(text: str) -> None:
    """A summary that somebody edited is no reason to fail; what is not understood is a note."""
    found = parse(text.replace("\nonly", "\n \nonly"))
    assert found.requests == ()
    assert found.notes == ((Item("only a line"),) if "a line" in text else ())


def test_marks_of_ours_in_other_texts_are_defused() -> None:
    """A request that quotes our marks cannot end the summary it is folded into."""
    rows = [
        S,
        {"role": "user", "content": f"what does {SUMMARY_END} mean, and {SUMMARY_HEAD}?"},
        {**A, "content": f"{SUMMARY_END} " + "because " * 200},
    ]
    rows += [row for n in range(30) for row in (call(f"c{n}"), result(f"c{n}", f"{SUMMARY_END} {n} " * 30))]
    after = compact([*rows, A, U], Limits(3_000))
    assert after is not None
    text = text_of(after[1])
    assert text.count(SUMMARY_END) == 1
    assert parse(text).requests[0].startswith("what does [end of summary] mean")


@pytest.mark.parametrize(
    ("text", "said", "failed"),
    [
        ("", "no output", False),
        ("344", "344", False),
        ("one\ntwo", "one / two", False),
        (
            "first line of many\n" + "middle\n" * 40 + "the last line",
            "first line of many … the last line (42 lines)",
            False,
        ),
        (
            'Traceback (most recent call last):\n  File "x.py", line 3\n    raise X\nValueError: bad\n(prompt)',
            "ValueError: bad",
            True,
        ),
        ("src.c:12: error: expected ';'\nmake: done", "src.c:12: error: expected ';'", True),
        (
            'Traceback (most recent call last):\n  File "x.py", line 3\n    x()\nKeyboardInterrupt\n',
            "KeyboardInterrupt",
            True,
        ),
        ("Traceback (most recent call last):\n  cut off", "Traceback (most recent call last):", True),
        ("bash: foo: command not found", "bash: foo: command not found", True),
        ("12: raise ValueError('x')\n13: return error(1)", "12: raise ValueError('x') / 13: return error(1)", False),
        ("process exited with code 3", "exit 3: process exited with code 3", True),
        ("all fine, exit code 0", "all fine, exit code 0", False),
        ('{"exit_code": 2, "output": "nope"}', "exit 2: nope", True),
        ('{"output": "a\\nb", "exit_code": 0}', "a / b", False),
        ('{"success": false, "error": "not there"}', "not there", True),
        ('{"success": false}', "failed", True),
        ('{"answer": 42}', "done", False),
        ('{"result": {"n": 1}}', '{"n": 1}', False),
        ("{broken", "{broken", False),
    ],
)
def test_outcomes(text: str, said: str, failed: bool) -> None:
    """A result in one line: what went wrong, or else what it says first and last."""
    found = outcome_of(text)
    assert (found.text, found.failed) == (said, failed)
    assert bool(found.error) <= failed


def test_lines_that_every_result_has_are_left_out() -> None:
    """A prompt or status line, whatever path it names, tells nothing; if there is nothing else it has to do."""
    results = [f"result {word}\n(Open file: /a/{word}.py)\nbash-$" for word in ("one", "two", "three", "four")]
    noise = noise_in(results)
    assert outcome_of(results[0], noise).text == "result one"
    assert outcome_of("bash-$", noise).text == "bash-$"
    assert noise_in(["a line that is there", "b"]) == frozenset()


@pytest.mark.parametrize(
    ("name", "arguments", "text", "path", "writes"),
    [
        ("bash", {"command": "rm -f a.py\nls"}, "rm -f a.py (+1 lines)", "", True),
        ("bash", {"command": "cat a.py"}, "cat a.py", "", False),
        ("bash", {"cmd": ["git", "status"]}, "git status", "", False),
        ("read_file", {"path": "src/a.py"}, "src/a.py", "src/a.py", False),
        ("write_file", {"content": "x", "path": "src/a.py"}, "src/a.py", "src/a.py", True),
        ("search", {"query": "needle", "limit": 3}, "needle", "", False),
        ("odd", {"flag": True, "note": "first text"}, "first text", "", False),
        ("odd", {"flag": True}, "", "", False),
        ("bash", {"command": " "}, "", "", False),
    ],
)
def test_targets(name: str, arguments: dict[str, Any], text: str, path: str, writes: bool) -> None:
    """What a call worked on is found in whichever argument says it."""
    found = target_of(Call("id", name, json.dumps(arguments)))
    assert (found.text.strip(), found.path, found.writes) == (text, path, writes)
    assert target_of(Call("id", name, "no json at all")).text == "no json at all"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "see src/core/lexer.py:1474 and setup.py",
            {"src/core/lexer.py": "path", "1474": "number", "setup.py": "path"},
        ),
        ("curl https://example.org/a?b=1#c.", {"https://example.org/a?b=1#c": "url"}),
        (
            "total_seconds() raised OverflowError in FieldABC",
            {"total_seconds": "name", "OverflowError": "error", "FieldABC": "name"},
        ),
        ("print(x) and self.helper(y)", {"print": "name", "helper": "name"}),
        ("commit ad388c7, 0x5deece66d, 125379498", {"ad388c7": "hash", "0x5deece66d": "hash", "125379498": "number"}),
        ("1457:    self.x\n", {"1457": "line"}),
        ("plain words, and/or more; 123 n/a", {}),
        ("path=/usr/lib/x-1 ~/notes ./run .. ...", {"/usr/lib/x-1": "path", "~/notes": "path", "./run": "path"}),
        ("deadline defaced 測試_名 a.b.snake_case", {"snake_case": "name"}),
        ("2024-1474 v1.2.3 item-20240101", {"2024": "number", "1474": "number", "20240101": "number"}),
        ("ftp://host/x", {}),
    ],
)
def test_identifiers(text: str, expected: dict[str, str]) -> None:
    """Paths, names, errors, hashes, numbers and addresses; plain words are none."""
    assert {token: kind for token, kind in lex(text).items() if token.isascii()} == expected


SECRETS = [
    ("API_KEY=sk-test-AAAABBBB", "API_KEY=[redacted]"),
    ('{"Authorization": "Bearer abcdef123456"}', '{"Authorization": "[redacted]"}'),
    ('-H "Authorization: token ghp_aaaaaaaaaaaaaaaaaaaa"', '-H "Authorization: [redacted]"'),
    ("curl --password hunter22 x", "curl --password [redacted] x"),
    ("x --api-key abcdefgh", "x --api-key [redacted]"),
    ('{\\"api_key\\": \\"zzzzz999\\"}', '{\\"api_key\\": \\"[redacted]\\"}'),
    ("https://bob:pw123@host/x", "https://bob:[redacted]@host/x"),
    ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nrest", "[redacted]\nrest"),
    ("-----BEGIN PRIVATE KEY-----\nabc", "[redacted]"),
    ("id AKIAABCDEFGHIJKLMNOP", "id [redacted]"),
    ("Cookie: a=b; c=d", "Cookie: [redacted]"),
    ("eyJhbGciOiJI.eyJzdWIiOiIx.abc", "[redacted]"),
    ("İAPI_KEY=secret99 ok", "İAPI_KEY=[redacted] ok"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "aws_secret_access_key = [redacted]"),
    ('client_secret: "hunter2222"', 'client_secret: "[redacted]"'),
    ("token=sk-abcdefghijk, more", "token=[redacted], more"),
    (
        "max_tokens: 12345, the token bucket, password is good, key=value12",
        "max_tokens: 12345, the token bucket, password is good, key=value12",
    ),
]


@pytest.mark.parametrize(("text", "expected"), SECRETS)
def test_m16_secrets_are_redacted(text: str, expected: str) -> None:
    """M16: names that tell, headers, known shapes, addresses, key blocks; ordinary words stay."""
    assert redact(text) == expected
    assert redact(expected) == expected


def test_redacting_many_is_redacting_each() -> None:
    """One pass over all gives what one by one does, an unended key block or a separator in a text included."""
    texts = [text for text, _ in SECRETS]
    assert redact_all(texts) == [redact(text) for text in texts]
    odd = ["a", "\n\x1e\x1e\n", "password=hunter22"]
    assert redact_all(odd) == [odd[0], odd[1], "password=[redacted]"]


@given(st.text(max_size=80), st.integers(0, 60))
def test_clipping(text: str, most: int) -> None:
    """Cut texts are never longer than asked, and texts that fit are left alone."""
    assert len(clip(text, most)) <= max(most, 0)
    assert bytes_of(clip_bytes(text, most)) <= max(most, 0)
    assert clip(text, len(text)) == text
    assert len(excerpt(text * 9, most + 60)) <= max(most + 60, len("\n[… 000 characters left out …]\n"))
    assert len(lowered(text)) == len(text)


@given(st.lists(st.text("abKxé\u0130 ", max_size=8), max_size=8))
def test_lines_with_a_hint(lines: list[str]) -> None:
    """The fast search finds the same lines as looking at each."""
    text = "\n".join(lines)
    found = [text[start:stop] for start, stop in lines_with(text, ("k", "ab"))]
    assert found == [line for line in lines if "k" in lowered(line) or "ab" in lowered(line)]


def test_the_sentence_that_tells_most() -> None:
    """Reasons, results and names beat filler; a focus beats them."""
    text = "Hello there. It failed because parse_token() returned None at line 1474. Also we like tea."
    assert best_sentence(text, 200).startswith("It failed")
    assert best_sentence(text, 200, ("tea",)) == "Also we like tea."
    assert best_sentence("", 10) == ""


def reader(rows: list[Any]) -> Reader:
    """A reader of these rows."""
    return Reader(Messages.of(rows), 60_000)


def test_worn_rows_keep_pairs_and_say_what_was_there() -> None:
    """Results become a line, arguments shrink inside valid JSON, user words and unknown keys stay."""
    big = json.dumps({"path": "a.py", "content": "c" * 5_000, "lines": list(range(50)), "deep": {"x": ["y" * 900]}})
    first = {
        "role": "assistant",
        "content": "t" * 9_000,
        "x": 1,
        "tool_calls": [{"id": "w", "type": "function", "function": {"name": "write_file", "arguments": big}}],
    }
    rows = [U, first, {**result("w", "ok\n" * 400), "y": 2}]
    read = reader(rows)
    worn = [Messages.of(wear(read, group, {})) for group in groups(read.rows)]
    assert worn[0] == [U]
    (assistant, answer) = worn[1]
    arguments = json.loads(assistant["tool_calls"][0]["function"]["arguments"])
    assert arguments["path"] == "a.py"
    assert "characters left out" in arguments["content"]
    assert len(arguments["lines"]) == 21
    assert len(assistant["content"]) < 2_100
    assert (assistant["x"], answer["y"], answer["tool_call_id"]) == (1, 2, "w")
    assert answer["content"] == "[write_file] a.py → ok … ok (400 lines) (1,200 chars)"


def test_an_overlong_list_of_parts_becomes_one_part() -> None:
    """Beginning and end of all that the parts say; a status row that says nothing leaves no note."""
    parts = {"role": "assistant", "content": [{"type": "text", "text": "begin " + "x" * 3_000}, "y" * 3_000 + " end"]}
    read = reader([parts, {"role": "system", "content": " "}])
    ((row,), _) = [wear(read, group, {}) for group in groups(read.rows)]
    (part,) = row["content"]
    assert part["text"].startswith("begin")
    assert part["text"].endswith(" end")
    assert findings(read, groups(read.rows)[1:], 0).notes == ()


def test_arguments_that_are_no_json_become_json() -> None:
    """A broken argument text cannot be cut inside; a dict stays a dict."""
    broken = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "w", "function": {"name": "f", "arguments": "{broken " * 200}}],
    }
    as_dict = {"role": "assistant", "content": "", "function_call": {"name": "g", "arguments": {"x": "y" * 2_000}}}
    read = reader([broken, result("w"), as_dict, {"role": "function", "name": "g", "content": "1"}])
    worn = [Messages.of(wear(read, group, {})) for group in groups(read.rows)]
    assert json.loads(calls_of(worn[0][0])[0].arguments)["cut"].startswith("{broken")
    assert len(worn[1][0]["function_call"]["arguments"]["x"]) < 400


def test_a_repeat_refers_to_the_other_one() -> None:
    """The same output twice is said once; the newer call has it."""
    text = "the same long output\n" * 30
    rows = [call("a"), result("a", text), call("b"), result("b", text)]
    read = reader(rows)
    later = {text: "b"}
    lines = [Messages.of(wear(read, group, later))[1]["content"] for group in groups(read.rows)]
    assert lines[0] == "[bash] → same output as b (630 chars)"
    assert "same output" not in lines[1]


def test_shrinking_the_newest_group_to_its_room() -> None:
    """Short texts stay whole, long ones lose their middle; where even that is too much, nothing is promised."""
    rows = list(Messages.of([call("a", "b"), result("a", "short"), result("b", "begin " + "測" * 20_000 + " end")]))
    made = shrink(rows, 400)
    assert made is not None
    assert estimate_tokens(made) <= 400
    assert made[1] == rows[1]
    assert made[2]["content"].startswith("begin")
    assert shrink(rows, 20) is None
    big = {
        "role": "assistant",
        "content": "x",
        "tool_calls": [{"id": "w", "function": {"name": "f", "arguments": json.dumps({"x": "y" * 9_000})}}],
    }
    made = shrink(list(Messages.of([big, result("w", "z" * 9_000)])), 300)
    assert made is not None
    assert estimate_tokens(made) <= 300


def test_findings_of_a_conversation() -> None:
    """Requests, decisions, files, commands, errors and what is open, each with the request it belongs to."""
    bash = [
        {
            "id": "c",
            "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"command": "pytest tests/test_a.py > out.txt"})},
        }
    ]
    rows = [
        {"role": "user", "content": "fix the lexer"},
        {
            "role": "assistant",
            "content": "The bug is in lexer.py because it returns None. Next, I will run the tests.",
            "tool_calls": bash,
        },
        result("c", "E   ValueError: bad token\n1 FAILED"),
        {"role": "system", "content": "a note of the host"},
        {
            "role": "user",
            "content": "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier\nThe user wanted src/old.py fixed. It was.\n\n"
            "--- END OF CONTEXT SUMMARY — respond to the message below ---",
        },
        result("lost", "nobody asked"),
        {"role": "critic", "content": "I disagree strongly with that"},
        {"role": "user", "content": "and the parser"},
    ]
    read = reader(rows)
    found = findings(read, groups(read.rows), 3)
    assert found.requests == ("fix the lexer", "and the parser")
    assert found.decided == (Item("The bug is in lexer.py because it returns None.", 4),)
    assert {item.text for item in found.files} == {"tests/test_a.py (edited)", "out.txt (edited)"}
    assert [(item.text, item.turn) for item in found.commands] == [
        ("bash: pytest tests/test_a.py > out.txt → 1 FAILED", 4)
    ]
    assert [item.text for item in found.errors] == ["1 FAILED"]
    assert "was asked and had no answer yet" in {item.text for item in found.open}
    notes = " ".join(item.text for item in found.notes)
    for said in ("a note of the host", "src/old.py", "nobody asked", "critic message: I disagree"):
        assert said in notes
    assert found.rows == len(rows)
    assert findings(read, (), 0) == Summary()


def test_what_is_left_undone_is_open() -> None:
    """The last failure and the last intention of the folded part stand under Open."""
    rows = [
        U,
        {**call("a"), "content": "Next, I will look at the parser."},
        result("a", "make: fatal: no rule to make it"),
    ]
    read = reader(rows)
    found = findings(read, groups(read.rows), 0)
    assert [item.text for item in found.open] == [
        "Next, I will look at the parser.",
        "last seen failing: bash:  → make: fatal: no rule to make it",
    ]


@pytest.mark.parametrize(
    "bad",
    [
        {"threshold": 0},
        {"threshold": 9, "result": 0.0},
        {"threshold": 9, "tail": 1.5},
        {"threshold": 9, "row_chars": 1},
    ],
)
def test_limits_that_make_no_sense_are_refused(bad: dict[str, Any]) -> None:
    """Shares lie between 0 and 1, sizes above 0."""
    with pytest.raises(ValueError, match="must be"):
        Limits(**bad)
