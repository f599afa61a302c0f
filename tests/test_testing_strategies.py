"""`dataspace.testing.strategies`: facts that can be published, and patterns that mean what they say."""

from __future__ import annotations

from typing import Any, Literal, Optional, Union

import pytest
from attrs import field, frozen
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from dataspace import CAPTURE, Dataspace, Pattern, where
from dataspace._pattern import Literal as Literal_
from dataspace.testing.strategies import facts, matching, patterns, values
from engines.facts import FACTS, Asked
from engines.messages import Messages

QUICK = settings(phases=[Phase.generate], max_examples=5_000, derandomize=True, database=None)  # any example will do


@frozen
class Leaf:
    x: Any
    kind: Literal["a", "b", 3] = "a"


@frozen
class Node:
    """A class with everything that an annotation may say, itself among it."""

    leaf: Leaf
    either: Leaf | Node | None
    many: tuple[int, ...]
    pair: tuple[str, float]
    some: frozenset[bytes]
    maybe: Optional[bool] = None  # noqa: UP045 - both ways to write it
    old: Union[int, str] = 0  # noqa: UP007
    bare: tuple = ()  # type: ignore[type-arg]
    bag: frozenset = frozenset()  # type: ignore[type-arg]
    none: tuple[()] = ()
    reading: object = field(default=None, eq=False)
    _private: int = 1
    made: int = field(default=7, init=False)


@given(facts(Leaf, Node))
def test_any_fact_can_be_published(fact: Any) -> None:
    """What is drawn stands, and is found again."""
    ds = Dataspace()
    ds.actor("a").publish(fact)
    assert (fact,) == ds.facts(type(fact))


@given(st.data())
def test_a_matching_pattern_matches(data: st.DataObject) -> None:
    """`matching(fact)` draws patterns that the fact matches, through an observer as well."""
    fact = data.draw(facts(Leaf, Node))
    pattern = data.draw(matching(fact))
    assert pattern.match(fact) is not None
    ds = Dataspace()
    heard: list[tuple[Any, ...]] = []
    ds.actor("a").observe(pattern, heard=lambda *args: heard.append(args))
    ds.actor("b").send(fact)
    assert [pattern.match(fact)] == heard


@given(patterns(Leaf, Node), facts(Leaf, Node))
def test_any_pattern_is_one_that_can_be_observed(pattern: Pattern[Any], fact: Any) -> None:
    """An observer hears exactly what `match` says, and `facts` finds it."""
    ds = Dataspace()
    heard: list[tuple[Any, ...]] = []
    ds.actor("a").observe(pattern, appeared=lambda *args: heard.append(args))
    ds.actor("b").publish(fact)
    match = pattern.match(fact)
    assert ([] if match is None else [match]) == heard
    assert (() if match is None else (fact,)) == ds.facts(pattern)


@pytest.mark.parametrize(
    "wanted",
    [
        lambda p: p == where(Node),
        lambda p: p.parts.get("either") is CAPTURE,
        lambda p: isinstance(p.parts.get("leaf"), Pattern) and bool(p.parts["leaf"].captures),
        lambda p: isinstance(p.parts.get("either"), Pattern) and p.parts["either"].cls is Node,
        lambda p: "many" in p.parts and p.parts["many"] is not CAPTURE,
        lambda p: len(p.captures) > 2,
        lambda p: isinstance(p.parts.get("reading"), Literal_) and p.parts["reading"].value is CAPTURE,
        lambda p: isinstance(p.parts.get("reading"), Literal_) and p.parts["reading"].value is Node,
        lambda p: isinstance(p.parts.get("reading"), Literal_) and isinstance(p.parts["reading"].value, Pattern),
    ],
    ids=[
        *("any", "capture", "captures within", "a class of a union", "literal", "many captures"),
        *("a quoted capture", "a quoted class", "a quoted pattern"),
    ],
)
def test_every_kind_of_pattern_is_drawn(wanted: Any) -> None:
    """Bare, capturing, nested, through unions, with literals."""
    assert wanted(find(patterns(Node), wanted, settings=QUICK))


def test_values_that_are_equal_to_python_only_are_drawn() -> None:
    """R10 needs `True`, `1` and `1.0` to meet."""
    for cls in (bool, int, float):
        find(facts(Leaf), lambda leaf, cls=cls: type(leaf.x) is cls and leaf.x == 1, settings=QUICK)


@given(facts(*FACTS.values(), fields={"sid": st.just("s1")}, types={Any: st.just(Messages.of([]))}))
def test_fields_and_types_can_be_given(fact: Any) -> None:
    """A strategy of one's own for a field by name, or for an annotation."""
    assert "s1" == getattr(fact, "sid", "s1") or type(fact).__name__ == "Serving"
    if type(fact) is Asked:
        assert Messages.of([]) == fact.messages == fact.context


def test_an_annotation_that_says_too_little_is_refused() -> None:
    """What cannot be drawn is said at once, with what to do."""
    with pytest.raises(TypeError, match=r"no strategy for .*complex.*: give one with types="):
        values(complex)
