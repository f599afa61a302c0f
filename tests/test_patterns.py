"""Patterns: what they mean, when two are equal, that the index agrees with them, and what they cost."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from dataspace import CAPTURE, Dataspace, Observe, Pattern, literal, where
from dataspace._index import IDLE_SHAPES
from dataspace._values import kind_of
from dataspace.errors import NotAFact, PatternError
from tests.space_talk import Fact, Holder, listen, make

# -- meaning ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "fact", "seen"),
    [
        (where(Fact), Fact(1), (Fact(1),)),
        (where(Fact, x=1), Fact(1), (Fact(1),)),
        (where(Fact, x=1), Fact(2), None),
        (where(Fact, x=1), Holder(1), None),
        (where(Fact, x=CAPTURE), Fact(1), (1,)),
        (where(Fact, r=CAPTURE, x=CAPTURE), Fact(1, r=2), (1, 2)),
        (where(Fact, r=2, x=CAPTURE), Fact(1, r=2), (1,)),
        (where(Fact, r=2, x=CAPTURE), Fact(1, r=3), None),
        (where(Holder, inner=Fact), Holder(Fact(1)), (Holder(Fact(1)),)),
        (where(Holder, inner=Fact), Holder(Fact), None),
        (where(Holder, inner=Fact), Holder(Holder(1)), None),
        (where(Holder, inner=literal(Fact)), Holder(Fact), (Holder(Fact),)),
        (where(Holder, inner=where(Fact, x=CAPTURE), y=CAPTURE), Holder(Fact(1), 2), (1, 2)),
        (
            where(Holder, inner=where(Holder, inner=where(Fact, x=1))),
            Holder(Holder(Fact(1))),
            (Holder(Holder(Fact(1))),),
        ),
        (where(Holder, inner=where(Holder, inner=where(Fact, x=1))), Holder(Holder(Fact(2))), None),
        (where(Holder, inner=where(Holder, inner=where(Fact, x=1))), Holder(Fact(1)), None),
        (where(Holder, inner=Fact(1)), Holder(Fact(1, r=9)), (Holder(Fact(1, r=9)),)),
        (
            where(Holder, inner=(1, "a", frozenset([Fact(2)]))),
            Holder((1, "a", frozenset([Fact(2, r=7)]))),
            (Holder((1, "a", frozenset([Fact(2)]))),),
        ),
        (where(Holder, inner=literal(where(Fact))), Holder(where(Fact)), (Holder(where(Fact)),)),
        (where(Holder, inner=literal(CAPTURE)), Holder(CAPTURE), (Holder(CAPTURE),)),
        (where(Holder, inner=literal(CAPTURE)), Holder(1), None),
        (
            where(Observe, pattern=literal(where(Fact, x=1))),
            Observe(where(Fact, x=1), "me"),
            (Observe(where(Fact, x=1), "me"),),
        ),
    ],
    ids=repr,
)
def test_a_pattern_and_the_index_say_the_same(pattern: Pattern[Any], fact: Any, seen: tuple[Any, ...] | None) -> None:
    """What a pattern matches and captures is what an observer hears, before and after, and what `facts` finds."""
    assert pattern.match(fact) == seen
    ds, _ = make()
    me, log = ds.actor("me"), []
    ear = ds.actor("ear")
    if not isinstance(fact, Observe):
        listen(ear, pattern, log, who="early")
    me.publish(fact)
    listen(ear, pattern, log, who="late")
    me.send(fact)
    expected = (
        []
        if seen is None
        else [("early", "+", *seen), ("late", "+", *seen), ("early", "!", *seen), ("late", "!", *seen)]
    )
    assert log == [entry for entry in expected if entry[0] == "late" or not isinstance(fact, Observe)]
    assert ds.facts(pattern) == (() if seen is None else (fact,))


def test_a_pattern_matches_exact_classes_only() -> None:
    """A subclass is another class: patterns of its parent do not match it, at the top or nested."""

    @frozen
    class Special(Fact):
        pass

    assert where(Fact).match(Special(1)) is None
    assert where(Special).match(Fact(1)) is None
    assert where(Holder, inner=Fact).match(Holder(Special(1))) is None


def test_a_field_that_does_not_exist_is_named_with_those_that_do() -> None:
    """A wrong field is refused when the pattern is made, and the error lists the right ones."""
    with pytest.raises(PatternError, match=r"Fact has no field 'y'; it has: x, r"):
        where(Fact, y=1)
    with pytest.raises(PatternError, match="no fact class"):
        where(int, real=1)
    with pytest.raises(PatternError, match="no fact class"):
        where(Fact(1))  # type: ignore[arg-type]


def test_a_class_without_fields_says_that_it_has_none() -> None:
    """The list of fields there are is never an empty one."""
    with pytest.raises(PatternError, match=r"Bare has no field 'x'; it has: none$"):
        where(attrs.make_class("Bare", [], frozen=True), x=1)


def test_literals_must_be_immutable_and_whole() -> None:
    """What could not be published is refused in a pattern by the name of its field; so is a capture hidden in a tuple."""
    with pytest.raises(NotAFact, match=r"Fact\.x is a list"):
        where(Fact, x=[])
    with pytest.raises(NotAFact, match=r"Holder\.inner\.x"):
        where(Holder, inner=Fact({}))
    with pytest.raises(NotAFact, match="not a number"):
        where(Fact, x=float("nan"))
    with pytest.raises(NotAFact):
        literal([])
    for hidden in (CAPTURE, where(Fact), literal(1)):
        for value in ((hidden,), (1, (hidden,)), frozenset([(hidden,)])):
            with pytest.raises(PatternError, match=r"Fact\.x.*literal"):
                where(Fact, x=value)
    assert where(Fact, x=literal((CAPTURE,))).match(Fact((CAPTURE,))) is not None


# -- equality --------------------------------------------------------------------------------------------------------------

EQUAL = [
    (where(Fact), Fact),
    (where(Holder, inner=where(Fact)), where(Holder, inner=Fact)),
    (where(Fact, x=1, r=2), where(Fact, r=2, x=1)),
    (where(Fact, x=1), where(Fact, x=literal(1))),
    (where(Holder, inner=Fact(1)), where(Holder, inner=where(Fact, x=1))),
    (where(Holder, inner=Fact(1, r=5)), where(Holder, inner=literal(Fact(1, r=6)))),
    (where(Holder, inner=Holder(Fact(1))), where(Holder, inner=where(Holder, inner=where(Fact, x=1), y=0))),
    (where(Holder, inner=(Fact(1, r=1),)), where(Holder, inner=(Fact(1, r=2),))),
]
DIFFERENT = [
    *(where(Fact), where(Holder), where(Fact, x=1), where(Fact, x=True), where(Fact, x=1.0), where(Fact, x="1")),
    *(
        where(Fact, r=1),
        where(Fact, x=1, r=1),
        where(Fact, x=CAPTURE),
        where(Fact, x=literal(CAPTURE)),
        where(Fact, x=(1,)),
    ),
    *(where(Fact, x=(True,)), where(Fact, x=Fact), where(Fact, x=literal(Fact)), where(Fact, x=literal(where(Fact)))),
    *(where(Fact, x=Fact(1)), where(Fact, x=Fact(True)), where(Fact, x="?"), where(Fact, x=None)),
]


@pytest.mark.parametrize(("one", "two"), EQUAL, ids=repr)
def test_patterns_that_mean_the_same_are_equal(one: Any, two: Any) -> None:
    """However it was written, a pattern equals what means the same, hashes like it, and shares its `Observe` fact."""
    assert one == two
    assert two == one
    assert hash(one) == hash(two)
    ds, _ = make()
    me = ds.actor("me")
    me.observe(one)
    me.observe(two)
    assert len(ds.facts(Observe)) == 1


def test_interest_is_filed_without_a_search_for_what_could_change() -> None:
    """A pattern stands for itself in the key of an `Observe` fact, which is made whenever somebody begins to observe."""
    pattern = where(Fact, x=CAPTURE)
    key = kind_of(Observe).key(Observe(pattern, "me"))
    assert key == (pattern, "me")
    assert key[0] is pattern


def test_patterns_that_mean_different_things_are_not_equal() -> None:
    """Classes, fields, literals with exact types, captures and quoted things all tell patterns apart."""
    for n, one in enumerate(DIFFERENT):
        assert [m for m, two in enumerate(DIFFERENT) if one == two] == [n]
    assert len(set(DIFFERENT)) == len(DIFFERENT)
    assert where(Fact) != "Fact"
    assert where(Fact, x=1) != Fact


def test_a_pattern_is_a_value() -> None:
    """Patterns survive copying and pickling, print as they are written, and may stand in facts."""
    pattern = where(Holder, y=CAPTURE, inner=where(Fact, x=(1, "a")))
    assert copy.copy(pattern) is pattern
    assert copy.deepcopy(pattern) is pattern
    assert repr(pattern) == "where(Holder, inner=where(Fact, x=(1, 'a')), y=CAPTURE)"
    assert repr(where(Fact, x=literal(Fact), r=literal(CAPTURE))).count("literal(") == 2
    assert pickle.loads(pickle.dumps(where(Fact, x=literal(1), r=CAPTURE))) == where(Fact, x=1, r=CAPTURE)


# -- the index against a scan ----------------------------------------------------------------------------------------------

leaves = st.sampled_from([0, 1, True, 1.0, "a", None, (1,), (True,)])
values = st.recursive(
    leaves, lambda inner: st.builds(Fact, inner, leaves) | st.builds(Holder, inner, inner), max_leaves=4
)
facts = st.builds(Fact, values, leaves) | st.builds(Holder, values, values)


@st.composite
def patterns(draw: st.DrawFn, depth: int = 2) -> Pattern[Any]:
    """A pattern over `Fact` and `Holder`, nested up to `depth`."""
    cls, names = draw(st.sampled_from([(Fact, ("x", "r")), (Holder, ("inner", "y"))]))
    part = st.just(CAPTURE) | leaves | values.map(literal)
    if depth:
        part |= patterns(depth - 1)
    return where(cls, **{name: draw(part) for name in names if draw(st.booleans())})


@given(st.lists(facts, max_size=6), st.lists(patterns(), min_size=1, max_size=5), st.data())
def test_the_index_finds_what_a_scan_finds(
    published: list[Any], wanted: list[Pattern[Any]], data: st.DataObject
) -> None:
    """For any facts and patterns: what `facts` gives and what observers hear is what `match` says of each fact."""
    ds, _ = make()
    me, ear = ds.actor("me"), ds.actor("ear")
    early = data.draw(st.integers(0, len(wanted)))
    logs: list[list[Any]] = [[] for _ in wanted]
    for n, pattern in enumerate(wanted[:early]):
        ear.observe(pattern, appeared=lambda *args, n=n: logs[n].append(args))
    first: dict[Any, Any] = {}
    for fact in published:
        me.publish(fact)
        first.setdefault(repr(where(Holder, inner=fact)), fact)  # a fact in a pattern shows its identity
    for n, pattern in enumerate(wanted[early:], start=early):
        ear.observe(pattern, appeared=lambda *args, n=n: logs[n].append(args))
    for pattern, log in zip(wanted, logs, strict=True):
        matching = [fact for fact in first.values() if pattern.match(fact) is not None]
        assert [repr(where(Holder, inner=fact)) for fact in ds.facts(pattern)] == [
            repr(where(Holder, inner=fact)) for fact in matching
        ]
        looks: dict[str, Any] = {}
        for fact in matching:
            seen = pattern.match(fact)
            looks.setdefault(repr(where(Holder, inner=literal(seen if pattern.captures else (fact,)))), seen)
        assert len(log) == (len(looks) if pattern.captures else len(matching))


# -- what is left behind ---------------------------------------------------------------------------------------------------


def test_patterns_that_are_gone_leave_nothing_behind() -> None:
    """Observers that come and go leave no place in the index, and shapes nobody uses are few, however many there were."""
    names = [f"f{n}" for n in range(12)]
    wide = frozen(type("Wide", (), {"__annotations__": dict.fromkeys(names, object), **dict.fromkeys(names, 0)}))
    ds, _ = make()
    me, ear = ds.actor("me"), ds.actor("ear")
    before = ds.statistics()
    for first in names:
        for second in names:
            ear.retract(ear.observe(where(wide, **{first: 1, second: 2})))
    assert ds.statistics() == before
    assert len(ds._indexes[wide].shapes) <= IDLE_SHAPES
    handle = me.publish(wide())
    assert ds.statistics().leaves <= IDLE_SHAPES
    me.retract(handle)
    assert ds.statistics() == before


def test_facts_without_the_path_of_a_pattern_take_no_place_beside_it() -> None:
    """Where a pattern looks into a nested fact, facts that hold none there are not filed under it."""
    ds, _ = make()
    me, ear = ds.actor("me"), ds.actor("ear")
    ear.observe(where(Holder, inner=where(Fact, x=1)))
    ear.observe(where(Holder, inner=where(Fact, x=1), y=2))
    before = ds.statistics().leaves
    for n in range(5):
        me.publish(Holder(n, 2))
    assert ds.statistics().leaves == before
    me.publish(Holder(Fact(5), 2))
    assert ds.statistics().leaves == before + 2


def test_patterns_that_are_gone_cost_nothing_however_many_there_were() -> None:
    """What a publish costs does not grow with the kinds of patterns that came and went before."""
    names = [f"f{n}" for n in range(12)]
    wide = frozen(type("Wide", (), {"__annotations__": dict.fromkeys(names, object), **dict.fromkeys(names, 0)}))
    ds, _ = make()
    me, ear = ds.actor("me"), ds.actor("ear")
    costs = []
    for others in (names[1:3], names[3:]):
        for first in names:
            for second in others:
                ear.retract(ear.observe(where(wide, **{first: 1, second: 2})))
        costs.append(calls(lambda: me.retract(me.publish(wide()))))
    few, many = costs
    assert many <= 1.05 * few


def test_many_facts_under_one_constant_come_and_go() -> None:
    """Past the size where the index changes how it keeps them, facts are found and heard, oldest first, and go one by one."""
    ds, _ = make()
    me, ear = ds.actor("me"), ds.actor("ear")
    before = ds.statistics()
    pattern = where(Holder, y=1)
    watching = ear.observe(pattern)
    handles = [me.publish(Holder(n, 1)) for n in range(30)]
    for n in range(0, 30, 3):
        me.retract(handles[n])
    me.publish(Holder(0, 1))
    left = [Holder(n, 1) for n in (*(n for n in range(30) if n % 3), 0)]
    log: list[Any] = []
    ear.retract(ear.observe(pattern, appeared=log.append))
    assert log == list(ds.facts(pattern)) == left
    ear.retract(watching)
    assert list(ds.facts(pattern)) == left
    for handle in list(me.handles):
        me.retract(handle)
    assert ds.facts(pattern) == ()
    assert ds.statistics() == before


def test_idle_shapes_do_not_push_out_those_in_use() -> None:
    """Shapes that are observed stay, whatever comes and goes beside them."""
    names = [f"f{n}" for n in range(12)]
    wide = frozen(type("Wide", (), {"__annotations__": dict.fromkeys(names, object), **dict.fromkeys(names, 0)}))
    ds, _ = make()
    me, ear, log = ds.actor("me"), ds.actor("ear"), []
    listen(ear, where(wide, f0=1), log)
    for name in names[1:]:
        ear.retract(ear.observe(where(wide, **{name: 1})))
    me.publish(wide(f0=1))
    assert log == [("+", wide(f0=1))]


# -- what it costs ---------------------------------------------------------------------------------------------------------

FEW, MANY = 10, 10_000


def calls(work: Callable[[], object]) -> int:
    """How many functions `work` calls, once it is warm."""
    work()
    count = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # a collection would call whatever the finalizers of other tests are
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


COSTS = {
    "flat": (lambda n: where(Fact, x=n), Fact(-1), where(Fact, x=-1)),
    "two constants": (lambda n: where(Holder, inner=n, y=1), Holder(-1, 1), where(Holder, inner=-1, y=1)),
    "nested": (
        lambda n: where(Holder, inner=where(Fact, x=n)),
        Holder(Fact(-1)),
        where(Holder, inner=where(Fact, x=-1)),
    ),
    "nested reading": (
        lambda n: where(Holder, inner=where(Fact, r=n + 1)),
        Holder(Fact(-1)),
        where(Holder, inner=where(Fact, r=0)),
    ),
    "captures": (lambda n: where(Holder, inner=n, y=CAPTURE), Holder(-1, 1), where(Holder, inner=-1, y=CAPTURE)),
    "quoted": (lambda n: where(Fact, x=literal((n, "a"))), Fact((-1, "a")), where(Fact, x=(-1, "a"))),
}


@pytest.mark.parametrize(("other", "fact", "wanted"), COSTS.values(), ids=COSTS.keys())
@pytest.mark.parametrize("message", [False, True], ids=["fact", "message"])
@pytest.mark.slow
def test_observers_that_do_not_match_cost_nothing(other: Any, fact: Any, wanted: Any, message: bool) -> None:
    """Publishing and retracting, or sending, calls as many functions beside 10 observers that do not match as beside 10,000."""
    counts = []
    for many in (FEW, MANY):
        ds, _ = make()
        me, ear = ds.actor("me"), ds.actor("ear")
        heard: list[Any] = []
        ear.observe(
            wanted,
            appeared=lambda *args, heard=heard: heard.append(args),
            heard=lambda *args, heard=heard: heard.append(args),
        )
        with ear.turn():
            for n in range(many):
                ear.observe(other(n), appeared=pytest.fail, heard=pytest.fail)
        counts.append(calls(partial(me.send, fact) if message else lambda me=me: me.retract(me.publish(fact))))
        assert len(heard) == 2
    few, many = counts
    assert abs(many - few) <= 0.05 * few


@pytest.mark.slow
def test_standing_facts_that_do_not_match_cost_nothing() -> None:
    """With a warm shape, an observer comes and goes and `facts` is asked at the same price beside 10 facts as beside 10,000."""
    counts = []
    for many in (FEW, MANY):
        ds, _ = make()
        me, ear = ds.actor("me"), ds.actor("ear")
        ear.observe(where(Fact, x=-1))
        with me.turn():
            for n in range(many):
                me.publish(Fact(n))
        seen: list[Any] = []

        def work(ds: Dataspace = ds, ear: Any = ear, seen: list[Any] = seen) -> None:
            ear.retract(ear.observe(where(Fact, x=5), appeared=seen.append))
            seen.extend(ds.facts(where(Fact, x=5)))

        counts.append(calls(work))
        assert seen == [Fact(5)] * 4
    few, many = counts
    assert abs(many - few) <= 0.05 * few


@pytest.mark.slow
def test_leaving_a_crowd_of_equal_observers_costs_what_leaving_a_few_does() -> None:
    """One of many equal observers goes without a look at the others."""
    counts = []
    for many in (FEW, MANY):
        ds, _ = make()
        ear = ds.actor("ear")
        with ear.turn():
            handles = [ear.observe(where(Fact, x=1)) for _ in range(many)]
        counts.append(calls(lambda handles=handles, ear=ear: ear.retract(handles.pop(5))))
    few, many = counts
    assert abs(many - few) <= 0.05 * few
