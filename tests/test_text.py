"""Patterns as text: what can be written reads back equal, and what cannot be read says where."""

from __future__ import annotations

import decimal
import math
from typing import Any

import pytest
from attrs import field, frozen
from hypothesis import example, given
from hypothesis import strategies as st

from dataspace import CAPTURE, Observe, Pattern, format_pattern, literal, parse_pattern, where
from dataspace._text import label_of
from dataspace.errors import PatternError


@frozen
class ShouldCompress:
    sid: object
    ask: object
    reason: object = field(default="", eq=False)


@frozen
class Usage2:
    sid: object


@frozen
class Nothing:
    pass


VOCABULARY = (ShouldCompress, Usage2, Nothing, Observe)


def read(text: str) -> Pattern[Any]:
    """The pattern that `text` is."""
    return parse_pattern(text, VOCABULARY)


# -- what texts mean -------------------------------------------------------------------------------------------------------

MEANINGS: dict[str, Any] = {
    "(should-compress)": ShouldCompress,
    "(should-compress ?sid)": where(ShouldCompress, sid=CAPTURE),
    "(should-compress _ ?)": where(ShouldCompress, ask=CAPTURE),
    "(should-compress s1 2)": where(ShouldCompress, sid="s1", ask=2),
    "(should-compress s1 #:reason manual)": where(ShouldCompress, sid="s1", reason="manual"),
    "(should-compress #:reason manual s1)": where(ShouldCompress, sid="s1", reason="manual"),
    "(should-compress #:ask _ #:sid ?x)": where(ShouldCompress, sid=CAPTURE),
    "  ( should-compress\n\t?sid ) ": where(ShouldCompress, sid=CAPTURE),
    "(usage2 (should-compress ?a 1))": where(Usage2, sid=where(ShouldCompress, sid=CAPTURE, ask=1)),
    "(usage2 (nothing))": where(Usage2, sid=Nothing),
    "(usage2 #t)": where(Usage2, sid=True),
    "(usage2 #f)": where(Usage2, sid=False),
    "(usage2 1)": where(Usage2, sid=1),
    "(usage2 1.0)": where(Usage2, sid=1.0),
    "(usage2 -1e3)": where(Usage2, sid=-1000.0),
    "(usage2 #nil)": where(Usage2, sid=None),
    "(usage2 #-inf)": where(Usage2, sid=-math.inf),
    '(usage2 "1")': where(Usage2, sid="1"),
    '(usage2 "?sid")': where(Usage2, sid="?sid"),
    r'(usage2 "a\"b\\c\n\u{1f600}")': where(Usage2, sid='a"b\\c\n😀'),
    r'(usage2 "\n\t\r\"\\\u{a}\u{00000a}")': where(Usage2, sid='\n\t\r"\\\n\n'),
    '(usage2 "two\nlines")': where(Usage2, sid="two\nlines"),
    '(usage2 #x"00fF")': where(Usage2, sid=b"\x00\xff"),
    "(usage2 [])": where(Usage2, sid=()),
    "(usage2 [1 [a #t] #{2}])": where(Usage2, sid=(1, ("a", True), frozenset([2]))),
    "(usage2 '(usage2 ?sid))": where(Usage2, sid=literal(where(Usage2, sid=CAPTURE))),
    "(observe '(usage2))": where(Observe, pattern=literal(where(Usage2))),
    "(usage2 'usage2)": where(Usage2, sid=literal(Usage2)),
    "(usage2 '?)": where(Usage2, sid=literal(CAPTURE)),
    "(usage2 a-b.c/d:e)": where(Usage2, sid="a-b.c/d:e"),
    "(usage2 naïve)": where(Usage2, sid="naïve"),
    "(usage2 1.2.3)": where(Usage2, sid="1.2.3"),
}


@pytest.mark.parametrize(("text", "pattern"), MEANINGS.items(), ids=MEANINGS.keys())
def test_what_a_text_means(text: str, pattern: Any) -> None:
    """Each form reads as the pattern it stands for, and what that prints reads back as the same."""
    assert read(text) == pattern
    assert read(format_pattern(read(text))) == pattern


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("ShouldCompress", "should-compress"),
        ("Usage", "usage"),
        ("HTTPError", "http-error"),
        ("Usage2", "usage2"),
        ("MyHTTP2Thing", "my-http2-thing"),
        ("A", "a"),
    ],
)
def test_labels_are_kebab_case(name: str, label: str) -> None:
    """The label of a class is its name in kebab-case."""
    assert label_of(type(name, (), {})) == label


def test_the_vocabulary_may_be_a_mapping_and_must_be_unambiguous() -> None:
    """A mapping's values are its classes; two classes that are written alike are refused, one named twice is not."""
    assert parse_pattern("(usage2)", {"any": Usage2}) == Usage2
    assert parse_pattern("(usage2)", [Usage2, Usage2]) == Usage2
    other = frozen(type("Usage2", (), {}))
    with pytest.raises(PatternError, match="two classes that are written usage2"):
        parse_pattern("(usage2)", [Usage2, other])


# -- what cannot be read ---------------------------------------------------------------------------------------------------

ERRORS = {
    "": ("a pattern is missing", 1),
    "   ": ("a pattern is missing", 4),
    "usage2": ("begins with", 1),
    "(": ("a label is missing", 2),
    "()": ("there is no fact", 2),
    "(usage2": ("the text ends where ')' is missing", 8),
    "(usage2 1": ("the text ends where ')' is missing", 10),
    "(usage3)": ("there is: usage2", 2),
    "(usage2 1 2)": ("usage2 has 1 fields, this is one more", 11),
    "(usage2 #:side 1)": ("no field 'side'; it has: sid", 9),
    "(usage2 1 #:sid 2)": ("given 'sid' twice", 11),
    "(usage2 #:sid)": ("a value is missing", 14),
    "(usage2 1) x": ("after the end", 12),
    "(usage2 1))": ("after the end", 11),
    "(usage2 ]": ("a value is missing", 9),
    '(usage2 "a': ("does not end", 9),
    r'(usage2 "ab\q")': ("no escape", 12),
    r'(usage2 "\u{110000}")': ("no escape", 10),
    '(usage2 #x"abc")': ("two digits", 9),
    "(usage2 #y)": ("is no value", 9),
    "(should-compress ?a ?a)": ("?a is there twice", 21),
    "(usage2 [?a])": ("is no value", 10),
    "(usage2 [_ (nothing)])": ("stands for a whole field only", 10),
    "(usage2 [1 (nothing)])": ("a value is missing", 12),
    "(usage2 'usage3)": ("there is no fact", 10),
    "(usage2 '": ("what is quoted is missing", 10),
    "(usage2 {1})": ("'{' has no meaning here", 9),
    f"(usage2 {'9' * 5000})": ("not a number", 9),
    "(usage2 " + "[" * 100: ("nested more than", 58),
    "(usage2 " * 100: ("nested more than", 401),
}


@pytest.mark.parametrize(("text", "expected"), ERRORS.items(), ids=[text[:24] or "empty" for text in ERRORS])
def test_what_cannot_be_read_says_what_and_where(text: str, expected: tuple[str, int]) -> None:
    """The error says what is wrong, and its column, from 1, is that of the word at fault."""
    message, column = expected
    with pytest.raises(PatternError) as caught:
        read(text)
    assert message in str(caught.value)
    assert caught.value.column == column
    assert f"(column {column})" in str(caught.value)


def test_values_without_text_are_refused() -> None:
    """A pattern that holds what has no text cannot be written; the error shows the value."""
    for value in (decimal.Decimal(1), 2j, (Usage2((decimal.Decimal(1),)),), (Usage2(1),)):
        with pytest.raises(PatternError, match="cannot be written as text"):
            format_pattern(where(Usage2, sid=literal(value)))
    deep: Any = ()
    for _ in range(60):
        deep = (deep,)
    for value in (deep, literal(deep), where(Usage2, sid=literal(deep))):
        with pytest.raises(PatternError, match="nested more than 50 deep"):
            format_pattern(where(Usage2, sid=value))
    with pytest.raises(PatternError, match="too many digits"):
        format_pattern(where(Usage2, sid=10**5000))


def test_what_can_be_read_can_be_written_to_the_last_level() -> None:
    """The deepest text that can be read is the deepest that can be written, of patterns, quoted ones and tuples alike."""
    for text in (
        "(usage2 " * 49 + "(nothing" + ")" * 50,
        "(usage2 " + "[" * 49 + "]" * 49 + ")",
        "(usage2 '" * 49 + "(nothing" + ")" * 50,
        "(should-compress (nothing) " * 49 + "(nothing" + ")" * 50,
        "(usage2 " + "[[] " * 48 + "[]" + "]" * 48 + ")",
    ):
        assert format_pattern(read(text)) == text
    for text in (
        "(usage2 " * 50 + "(nothing" + ")" * 51,
        "(usage2 " + "[" * 50 + "]" * 50 + ")",
        "(should-compress (nothing) " * 50 + "(nothing" + ")" * 51,  # what was closed before does not count
        "(usage2 " + "[[] " * 49 + "[]" + "]" * 49 + ")",
    ):
        with pytest.raises(PatternError, match="nested"):
            read(text)


def test_captures_get_the_names_of_their_fields_once_each() -> None:
    """Printed captures are called like their fields, numbered where a name is taken."""
    pattern = where(ShouldCompress, sid=CAPTURE, ask=where(Usage2, sid=where(Usage2, sid=CAPTURE)), reason=CAPTURE)
    assert format_pattern(pattern) == "(should-compress ?sid (usage2 (usage2 ?sid-2)) ?reason)"
    assert format_pattern(where(ShouldCompress, reason="manual")) == "(should-compress #:reason manual)"
    assert format_pattern(where(Nothing)) == "(nothing)"


# -- any pattern, any text -------------------------------------------------------------------------------------------------

atoms = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.text(st.sampled_from("ab-_?#'1.e+\"\\ "), max_size=6)
    | st.binary(max_size=8)
    | st.sampled_from(["_", "?", "'", "#t", "1", "inf", "#inf", "-", "", "s1", "should-compress"])
)
values = st.recursive(
    atoms,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=8,
)


@st.composite
def patterns(draw: st.DrawFn, depth: int = 3) -> Pattern[Any]:
    """Any pattern over the vocabulary whose literals have a text, quoted classes and patterns among them."""
    cls = draw(st.sampled_from(VOCABULARY))
    part: st.SearchStrategy[Any] = st.just(CAPTURE) | values.map(literal) | st.sampled_from(VOCABULARY)
    part |= st.sampled_from([*VOCABULARY, CAPTURE]).map(literal)
    if depth:
        part |= patterns(depth - 1) | patterns(depth - 1).map(literal)
        part |= st.lists(patterns(depth - 1) | st.just(CAPTURE), max_size=2).map(lambda items: literal(tuple(items)))
    names = [name for name in cls.__annotations__ if draw(st.booleans())]
    return where(cls, **{name: draw(part) for name in names})


@given(patterns())
def test_any_pattern_prints_and_reads_back_equal(pattern: Pattern[Any]) -> None:
    """The text of a pattern is read as an equal pattern, with the same captures, and prints the same again."""
    text = format_pattern(pattern)
    again = read(text)
    assert again == pattern
    assert again.captures == pattern.captures
    assert format_pattern(again) == text


words = st.sampled_from(
    [
        *(
            "(",
            ")",
            "[",
            "]",
            "#{",
            "}",
            "{",
            "'",
            '"',
            "\\",
            " ",
            "\n",
            "?",
            "?a",
            "_",
            "#",
            "#:",
            "#:sid",
            "#x",
            '#x"',
            "#t",
        ),
        *(
            "should-compress",
            "usage2",
            "nothing",
            "observe",
            "sid",
            "1",
            "-1.5e3",
            "1e999",
            '"text"',
            r"\u{",
            r'"\u{zz}"',
            "é",
        ),
    ]
)
texts = st.text() | st.lists(words, max_size=25).map("".join) | st.lists(words, max_size=25).map(" ".join)


def read_or_refused(text: str) -> None:
    """Read `text`: a pattern that prints and reads back, or an error whose column lies in the text or just behind it."""
    column: int | None = 1
    try:
        pattern = read(text)
    except PatternError as error:
        column = error.column
    else:
        assert read(format_pattern(pattern)) == pattern
    assert column in range(1, len(text) + 2)


@given(texts)
@example('(usage2 "\\')
@example('(usage2 #x"0")')
@example("(usage2 1e999)")
@example("(" * 200)
def test_any_text_is_read_or_refused_with_a_column_in_it(text: str) -> None:
    """Whatever the text: either a pattern that prints and reads back, or a `PatternError` whose column lies in the text."""
    read_or_refused(text)


@given(patterns(), st.data())
def test_a_damaged_text_is_read_or_refused_with_a_column_in_it(pattern: Pattern[Any], data: st.DataObject) -> None:
    """The same for texts that are nearly right: a piece cut out of a good one, or put into it."""
    text = format_pattern(pattern)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 4, len(text))))
    damaged = text[:start] + data.draw(words | st.just("")) + text[end:]
    read_or_refused(damaged)
