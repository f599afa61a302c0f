"""Reading rows, counting tokens, grouping and mending."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from engines.messages import Messages
from engines.transcript import (
    IMAGE_TOKENS,
    SUMMARY_HEAD,
    bridge_neighbours,
    call_id,
    calls_of,
    check,
    drop_orphans,
    drop_unknown,
    estimate_row,
    estimate_text,
    estimate_tokens,
    groups,
    images_in,
    merge_neighbours,
    own_text,
    seal,
    split_summary,
    stub_missing,
    text_of,
)
from tests.test_transcript_check import A, S, U, call, result
from tests.transcripts import transcripts

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_000_000}}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        ({"text": "a dict"}, "a dict"),
        ([{"type": "text", "text": "one"}, "bare", IMAGE], "one\nbare\n[image]"),
        ([{"type": "tool_result", "content": [{"type": "text", "text": "inner"}]}], "inner"),
        ({"type": "custom", "value": 3}, '{"type": "custom", "value": 3}'),
        ({"file": {"data": "data:x;base64," + "A" * 400, "n": [1]}}, '{"file": {"data": "[file]", "n": [1]}}'),
        (12, "12"),
    ],
)
def test_m11_m12_text_of_any_content(content: Any, text: str) -> None:
    """M11, M12: content may be text, parts, bare strings in a list, a dict or None."""
    assert text_of({"content": content}) == text
    assert text_of(Messages.of([{"content": content}])[0]) == text
    assert text_of({}) == ""


def test_m13_an_image_has_a_flat_cost() -> None:
    """M13: a megabyte of image is no text, wherever it is; the parts of a message are summed."""
    for content in (
        [IMAGE],
        [{"type": "tool_result", "content": [IMAGE]}],
        IMAGE,
        [{"type": "file", "file": {"data": "A" * 9999}}],
    ):
        assert images_in(content) == 1
        assert IMAGE_TOKENS < estimate_row({"role": "user", "content": content}) < IMAGE_TOKENS + 40
    chat = [{"role": "user", "content": [{"type": "text", "text": "x" * 400}, "y" * 400, IMAGE, IMAGE]}, *[A] * 5]
    assert 2 * IMAGE_TOKENS + 200 <= estimate_tokens(chat) < 2 * IMAGE_TOKENS + 300
    assert images_in("data:image/png;base64," + "A" * 400) == 0  # text is text
    assert images_in([{"type": "text", "text": "data:" + "A" * 400}]) == 0


def test_the_estimate_follows_its_rule() -> None:
    """Bytes by four, four a row, eight a call; names, ids and arguments count, unknown keys do not."""
    assert estimate_text("abcde") == 2
    assert estimate_text("測試") == 2
    assert estimate_text("\ud800") == 1
    assert estimate_row({"role": "user", "content": "x" * 40}) == 14
    assert estimate_row({"role": "user", "content": "x" * 40, "usage": {"a": "y" * 999}}) == 14
    assert estimate_row(call("abcd")) == 4 + 8 + -(-len("abcdbash{}") // 4)
    assert estimate_row({"role": "tool", "tool_call_id": "abcd", "content": "abcd"}) == 6
    row = Messages.of([U])[0]
    assert estimate_row(row) == estimate_row(row) == estimate_row(U)


def test_calls_however_they_are_written() -> None:
    """M11: None, dict arguments, missing functions, the older form; a user row has no calls."""
    odd = {
        "role": "assistant",
        "tool_calls": [
            {"id": 7, "function": {"name": "f", "arguments": {"a": 1}}},
            "junk",
            {"name": "g", "arguments": None},
        ],
    }
    assert [tuple(each) for each in calls_of(odd)] == [("7", "f", '{"a": 1}'), ("", "g", "")]
    assert calls_of({"role": "assistant", "tool_calls": None}) == ()
    assert calls_of({"role": "user", "tool_calls": odd["tool_calls"]}) == ()
    legacy = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
    assert calls_of(legacy)[0].id == call_id({"role": "function", "name": "f"}) == "function:f"
    assert call_id({"role": "user"}) is None
    assert own_text(call("a", content="hi")) == "hi\nbash {}"
    assert own_text(U) == "do it"


def test_m02_groups_are_whole() -> None:
    """M01, M02: a call and all its results are one unit, however many and in whatever order; the rest stand alone."""
    ten = [f"c{n}" for n in range(10)]
    rows = Messages.of(
        [
            S,
            U,
            call(*ten),
            *map(result, reversed(ten)),
            call("x"),
            result("x"),
            result("lost"),
            A,
            call("o", "p"),
            result("o"),
        ]
    )
    found = groups(rows)
    assert [(g.start, g.stop) for g in found] == [(0, 1), (1, 2), (2, 13), (13, 15), (15, 16), (16, 17), (17, 19)]
    assert [g.orphan for g in found] == [False, False, False, False, True, False, False]
    assert found[-1].missing == ("p",)
    assert found[-1].open
    assert not groups([*rows, U])[-2].open


@given(transcripts())
def test_groups_cover_every_row_once(rows: list[dict[str, Any]]) -> None:
    """Nothing is in two groups or in none."""
    found = groups(rows)
    assert [at for group in found for at in range(group.start, group.stop)] == list(range(len(rows)))


@given(transcripts())
def test_mending_leaves_no_error_but_those_of_an_empty_list(rows: list[dict[str, Any]]) -> None:
    """Dropping and stubbing mends every pair and role; mending twice changes nothing more."""
    mended = stub_missing(drop_orphans(drop_unknown(Messages.of(rows))))
    assert [problem for problem in check(mended).errors if problem.code != "empty"] == []
    again = stub_missing(drop_orphans(drop_unknown(mended)))
    assert again is mended


@given(transcripts())
def test_bridging_leaves_no_collision_that_was_not_there(rows: list[dict[str, Any]]) -> None:
    """Without an excuse every collision is bridged; with the list itself as one, none is."""
    messages = Messages.of(rows)
    assert not [fault for fault in check(bridge_neighbours(messages)).faults if fault.code == "alternation"]
    assert bridge_neighbours(messages, messages) is messages


def test_mending_says_what_is_missing() -> None:
    """A stub answers its own call, in the form of the call."""
    mended = stub_missing(Messages.of([U, call("a", "b"), result("b"), A]))
    assert [row.get("tool_call_id") for row in mended] == [None, None, "b", "a", None]
    legacy = {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}}
    mended = stub_missing(Messages.of([U, legacy, U]))
    assert mended[2]["role"] == "function"
    assert mended[2]["name"] == "f"


def test_orphans_and_strangers_go_and_nothing_else() -> None:
    """Only results without a call, and rows of unknown roles, are dropped; a sound list is given back as it is."""
    messages = Messages.of([U, result("lost"), call("a"), result("a"), result("a"), {"role": "critic"}, A])
    assert drop_orphans(messages) == [U, call("a"), result("a"), {"role": "critic"}, A]
    assert drop_unknown(messages)[-1] == A
    assert len(drop_unknown(messages)) == len(messages) - 1
    sound = Messages.of([U, A])
    assert drop_orphans(sound) is sound


def test_merging_neighbours_keeps_every_word() -> None:
    """Texts join, lists of parts join; what must stay apart does."""
    old = {"role": "user", "content": "earlier"}
    both = merge_neighbours(
        Messages.of([S, old, {"role": "user", "content": ["a", {"type": "text", "text": "b"}]}, A, A, U])
    )
    assert both.thaw()[1]["content"] == [{"type": "text", "text": "earlier"}, "a", {"type": "text", "text": "b"}]
    assert both[2]["content"] == "done\n\ndone"
    assert len(both) == 4
    apart = Messages.of([S, old, U])  # the second is the request at hand
    assert merge_neighbours(apart) is apart
    assert merge_neighbours(
        Messages.of([old, {**old, "content": None}, S, {**old, "content": {"text": "x"}}, A, U])
    ).thaw()[0]["content"] == [
        {"type": "text", "text": "earlier"},
        {"text": "x"},
    ]
    calls = Messages.of([U, call("a"), A, U])
    assert merge_neighbours(calls) is calls


def test_a_list_that_began_with_the_user_begins_so_again() -> None:
    """What is left of a list may begin with the assistant; a bridge goes in front."""
    before = Messages.of([S, U, A, U])
    bridged = bridge_neighbours(Messages.of([S, A, U]), before)
    assert [row["role"] for row in bridged] == ["system", "user", "assistant", "user"]
    assert bridge_neighbours(Messages.of([S]), before) == [S]


def test_a_summary_is_found_inside_a_text() -> None:
    """Hosts merge rows; the marks say where our summary begins and ends."""
    ours = seal("inside")
    assert split_summary(f"before {ours} after") == ("before ", ours, " after")
    assert split_summary(f"{SUMMARY_HEAD} of {ours}") == (f"{SUMMARY_HEAD} of ", ours, "")
    altered = ours.replace("inside", "changed")
    assert split_summary(altered) == (altered, "", "")
    assert split_summary(f"{SUMMARY_HEAD} cut off") == (f"{SUMMARY_HEAD} cut off", "", "")
