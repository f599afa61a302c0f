"""Rows that a list shares with the one it was made from: recognised, compared by identity, and judged the same."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engines.messages import Messages
from engines.transcript import Changed, check, groups
from engines.transcript.groups import open_calls, torn
from engines.transcript.tokens import at_most, estimate_row
from tests.transcripts import transcripts

Rows = list[dict[str, Any]]


@st.composite
def compacted(draw: st.DrawFn) -> tuple[Rows, Rows]:
    """A conversation, and what is left of it: a part in the middle gone or summed up, some rows changed."""
    before = draw(transcripts())
    start, stop = sorted((draw(st.integers(0, len(before))), draw(st.integers(0, len(before)))))
    summary = draw(st.sampled_from([[], [{"role": "user", "content": "In short."}]]))
    after = copy.deepcopy([*before[:start], *summary, *before[stop:]])
    for row in after:
        if draw(st.integers(0, 4)) == 0:
            row["content"] = "[old]"
    return before, after


@given(compacted())
def test_what_was_kept_is_the_very_same_row(pair: tuple[Rows, Rows]) -> None:
    """The value is what it would be anyway; at equal distances from both ends equal rows are one object."""
    before, after = Messages.of(pair[0]), pair[1]
    found = Messages.of(after, like=before)
    assert Messages.of(after) == found
    assert after == found.thaw()
    for at, (old, new) in enumerate(zip(before, found, strict=False)):
        if old != new:
            break
        assert old is new, at


def test_the_end_is_recognised_as_the_start_is() -> None:
    """Where the middle was summed up, and rows on both sides of it were shortened."""
    rows = [{"role": "user", "content": f"{at}"} for at in range(9)]
    after: Rows = [rows[0], {"role": "user", "content": "-"}, rows[2], {"role": "user", "content": "In short."}]
    after += [rows[6], {"role": "user", "content": "-"}, rows[8]]
    before = Messages.of(rows)
    found = Messages.of(copy.deepcopy(after), like=before)
    assert [0, None, 2, None, 6, None, 8] == [
        next((at for at, old in enumerate(before) if old is row), None) for row in found
    ]


def test_equal_is_not_enough() -> None:
    """A number of another type, another kind of list or fewer keys make another row."""
    before = Messages.of([{"role": "user", "n": 1, "l": [1, {"a": None}]}])
    for changed in ({"role": "user", "n": True, "l": [1, {"a": None}]}, {"role": "user", "n": 1, "l": [1, {"a": 0}]}):
        assert Messages.of([changed], like=before)[0] is not before[0]
    same = {"role": "user", "n": 1, "l": [1, {"a": None}]}
    assert Messages.of([same], like=before)[0] is before[0]
    assert Messages.of([{"role": "user", "n": 1}], like=before).thaw() == [{"role": "user", "n": 1}]
    assert Messages.of(iter([same]), like=before) == before


@given(compacted())
def test_shared_rows_change_no_judgement(pair: tuple[Rows, Rows]) -> None:
    """A report on lists that share rows is the one on lists that do not."""
    before = Messages.of(pair[0])
    assert check(pair[1], copy.deepcopy(pair[0])) == check(Messages.of(pair[1], like=before), before)


@given(compacted())
def test_what_has_changed(pair: tuple[Rows, Rows]) -> None:
    """`put` and `gone` are what the lists do not share, in their order."""
    before = Messages.of(pair[0])
    after = Messages.of(pair[1], like=before)
    changed = Changed.between(after, before)
    assert [row for row in after if not any(row is old for old in before)] == list(changed.put)
    assert [row for row in before if not any(row is new for new in after)] == list(changed.gone)


@given(transcripts())
def test_groups_that_are_not_whole(rows: Rows) -> None:
    """Looking only for those finds what cutting the whole list finds; the open one is found from the end."""
    found = groups(rows)
    wrong = [(group.start, group.missing) for group in found if group.orphan or (group.missing and not group.open)]
    assert wrong == torn(rows)
    assert open_calls(rows) == (found[-1].missing if found and found[-1].open else ())


@given(transcripts(), st.text(st.characters()))
def test_what_a_row_takes_at_most(rows: Rows, text: str) -> None:
    """The quick bound is one, whatever the alphabet: else a list that grows could pass for a smaller one."""
    for row in [*rows, {"role": "user", "content": text}, {"role": "tool", "tool_call_id": text, "content": text}]:
        assert estimate_row(row) <= at_most(row)


def test_without_a_key() -> None:
    """The other values are shared, the row itself is as it was; one that has no such key stays."""
    row = Messages.of([{"role": "user", "content": [{"type": "text", "text": "Hi"}], "_mark": {"a": 1}}])[0]
    bare = row.without("_mark")
    assert {"role": "user", "content": ({"type": "text", "text": "Hi"},)} == bare
    assert bare["content"] is row["content"]
    assert "_mark" in row
    assert bare.without("_mark") is bare
    assert {"role": "user", "_mark": {"a": 1}} == Messages.of([row.without("content")]).thaw()[0]


def test_what_is_shared_is_not_estimated() -> None:
    """A row that is in both lists weighs nothing when they are compared, so nobody works out what it takes."""
    rows = [{"role": ("user", "assistant")[at % 2], "content": f"{at} " * 50} for at in range(20)]
    before = Messages.of(rows)
    after = Messages.of([*copy.deepcopy(rows[:4]), *copy.deepcopy(rows[12:])], like=before)
    assert check(after, before).ok
    assert [row for row in after if hasattr(row, "memo")] == []
