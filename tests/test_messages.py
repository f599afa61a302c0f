"""Messages: frozen once, shared, never changed."""

from __future__ import annotations

import copy
import json
import pickle
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.messages import Messages, NotJSONError, Row, thaw
from tests.transcripts import transcripts

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=4)


@given(st.lists(OBJECTS, max_size=5))
def test_thawing_gives_back_what_was_frozen(rows: list[dict[str, Any]]) -> None:
    """Freezing loses nothing, not even the types of numbers; the input is a stranger afterwards."""
    before = copy.deepcopy(rows)
    messages = Messages.of(rows)
    assert repr(messages.thaw()) == repr(before)
    assert messages == rows
    assert json.dumps(list(messages)) == json.dumps(before)


@given(transcripts(most=6))
def test_changing_the_input_or_a_thawed_copy_changes_nothing(rows: list[dict[str, Any]]) -> None:
    """Neither the dicts that were frozen nor those that were thawed share anything that can change."""
    messages = Messages.of(rows)
    before = repr(messages.thaw())
    for copied in (rows, messages.thaw()):
        for row in copied:
            for value in list(row.values()):
                if isinstance(value, list):
                    value.append("changed")
            row["role"] = "changed"
    assert repr(messages.thaw()) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row.__setitem__("role", "x"),
        lambda row: row.__delitem__("role"),
        lambda row: row.update(role="x"),
        lambda row: row.pop("role"),
        lambda row: row.popitem(),
        lambda row: row.setdefault("new", 1),
        lambda row: row.clear(),
        lambda row: row.__ior__({"role": "x"}),
        lambda row: row["tool_calls"][0].update(id="x"),
    ],
)
def test_whatever_would_change_a_row_is_refused(change: Any) -> None:
    """Rows read like dicts; every way to write to one, at any depth, says what to do instead."""
    messages = Messages.of([{"role": "assistant", "tool_calls": [{"id": "a"}]}])
    with pytest.raises(TypeError, match="thaw"):
        change(messages[0])
    assert messages == [{"role": "assistant", "tool_calls": [{"id": "a"}]}]


@pytest.mark.parametrize(("one", "other"), [(True, 1), (1, 1.0), (0, False), (1.0, True), ("1", 1), (None, False)])
def test_exact_types_are_told_apart_at_any_depth(one: Any, other: Any) -> None:
    """R10: `True`, `1` and `1.0` are different values."""
    for shape in (lambda x: {"x": x}, lambda x: {"x": [x]}, lambda x: {"x": {"y": [[x]]}}):
        assert Messages.of([shape(one)]) != Messages.of([shape(other)])
        assert Messages.of([shape(one)]) == Messages.of([shape(one)])
        assert hash(Messages.of([shape(one)])) == hash(Messages.of([shape(one)]))


def test_a_list_of_dicts_compares_equal_but_other_things_do_not() -> None:
    """Comparing with a plain list is allowed; with anything else, order and length count."""
    messages = Messages.of([{"role": "user"}, {"role": "assistant"}])
    assert messages == [{"role": "user"}, {"role": "assistant"}]
    assert [{"role": "user"}, {"role": "assistant"}] == messages
    assert messages != [{"role": "assistant"}, {"role": "user"}]
    assert messages != messages[:1]
    assert messages != "user"
    assert messages[0] != {"role": "user", "more": 1}
    assert messages[0] != {"rule": "user"}
    assert messages[0] != ["role"]
    assert Messages.of([{"x": [1]}]) != Messages.of([{"x": {"1": 1}}])
    assert Messages.of([{"x": [1]}]) != Messages.of([{"x": [1, 2]}])


@pytest.mark.parametrize(
    ("rows", "path", "row"),
    [
        ([{}, {"content": [{"image": b"x"}]}], "messages[1].content[0].image must be plain JSON, not bytes", 1),
        ([{"a": {1: 2}}], "messages[0].a has the key 1; keys must be text", 0),
        ([{"a": float("nan")}], "messages[0].a is nan, which JSON does not have", 0),
        ([{"a": [1, {"b": {1, 2}}]}], "messages[0].a[1].b must be plain JSON, not set", 0),
        ([{"a": 1}, "text"], "messages[1] must be a dict, not str", 1),
        ("text", "messages must be a list of dicts, not str", None),
        ({"role": "user"}, "messages must be a list of dicts, not dict", None),
        (7, "messages must be a list of dicts, not int", None),
    ],
)
def test_what_is_not_json_is_refused_with_its_path(rows: Any, path: str, row: int | None) -> None:
    """One error says where and what."""
    with pytest.raises(NotJSONError) as caught:
        Messages.of(rows)
    assert str(caught.value) == path
    assert caught.value.row == row
    assert str(pickle.loads(pickle.dumps(caught.value))) == path


def test_what_holds_itself_is_refused() -> None:
    """A list inside itself, or one nested without end, ends in the same error."""
    loop: dict[str, Any] = {}
    loop["x"] = [loop]
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    for rows in ([loop], [{"x": deep}]):
        with pytest.raises(NotJSONError, match="nested more than 100 deep, or holds itself"):
            Messages.of(rows)


def test_subclasses_of_scalars_become_what_they_are() -> None:
    """An enum that is a string is a string on any wire, so it is one here."""

    class Role(str, Enum):  # noqa: UP042 - what hosts have; str() of it is not its value
        USER = "user"

    class Count(int):
        pass

    frozen = Messages.of([{"role": Role.USER, "n": Count(3), "t": (1, 2)}])
    assert type(frozen[0]["role"]) is str
    assert type(frozen[0]["n"]) is int
    assert frozen.thaw() == [{"role": "user", "n": 3, "t": [1, 2]}]


def test_frozen_rows_are_shared() -> None:
    """Slices, sums and new lists take over rows that are frozen already."""
    messages = Messages.of([{"role": "user"}, {"role": "assistant"}])
    assert Messages.of(messages) is messages
    assert messages[1:][0] is messages[1]
    tool, system = [{"role": "tool"}], [{"role": "system"}]
    assert (messages + tool)[0] is messages[0]
    assert (system + messages)[1] is messages[0]
    assert Messages.of([*messages, {"role": "tool"}])[1] is messages[1]
    assert list(reversed(messages)) == [messages[1], messages[0]]
    assert len(messages + messages) == 4


def test_copying_is_free_and_pickling_works() -> None:
    """Nobody can change it, so a copy is the value itself; over a process border it is an equal one."""
    messages = Messages.of([{"role": "user", "content": [{"text": "x"}]}])
    assert copy.copy(messages) is messages
    assert copy.deepcopy(messages) is messages
    assert copy.copy(messages[0]) is copy.deepcopy(messages[0]) is messages[0]
    there = pickle.loads(pickle.dumps(messages))
    assert there == messages
    assert isinstance(there[0], Row)
    row = pickle.loads(pickle.dumps(messages[0]))
    assert row == messages[0]
    assert hash(row) == hash(messages[0])


def test_rows_come_from_messages_only() -> None:
    """There is one way to make a row, so every row was checked."""
    with pytest.raises(TypeError, match=r"Messages\.of"):
        Row(role="user")


def test_it_tells_what_it_is() -> None:
    """A long list names its first roles."""
    assert repr(Messages.of([{"role": "user"}] * 2)) == "<Messages 2: user, user>"
    assert repr(Messages.of([{"role": "user"}] * 8)).endswith("…>")


def test_thaw_leaves_atoms_alone() -> None:
    """What cannot change needs no copy."""
    assert thaw("x") == "x"
    assert thaw(None) is None


def test_many_rows_cost_little_the_second_time() -> None:
    """A list of frozen rows is taken over row by row, without looking inside."""
    messages = Messages.of([{"role": "user", "content": [str(n)]} for n in range(100)])
    again = Messages.of(list(messages))
    assert all(one is other for one, other in zip(messages, again, strict=True))
