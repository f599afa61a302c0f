"""Facts: R6 to R11."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import uuid
from pathlib import PurePosixPath
from typing import Any

import attrs
import pytest
from attrs import define, field, frozen
from hypothesis import given
from hypothesis import strategies as st

from dataspace import CAPTURE, Crashed, Observe, immutable, literal, where
from dataspace.errors import NotAFact, PatternError
from tests.space_talk import Boom, Fact, Holder, listen, make

NAN = float("nan")


# -- R6: counted inside, a set outside -------------------------------------------------------------------------------------


def test_r06_two_owners_one_appearance_one_disappearance() -> None:
    """Equal facts of several owners are one fact: it appears with the first and goes with the last, whoever that is."""
    ds, _ = make()
    a, b, log = ds.actor("a"), ds.actor("b"), []
    listen(ds.actor("ear"), Fact, log)
    first = a.publish(Fact(1))
    second, third = b.publish(Fact(1)), a.publish(Fact(1))
    assert log == [("+", Fact(1))]
    assert ds.facts(Fact) == (Fact(1),)
    a.retract(first)
    a.retract(third)
    assert log == [("+", Fact(1))]
    b.retract(second)
    assert log == [("+", Fact(1)), ("-", Fact(1))]
    assert ds.facts(Fact) == ()


def test_r06_the_end_of_an_owner_is_not_the_end_of_the_fact() -> None:
    """A fact outlives the stop and the crash of owners while one is left."""
    ds, _ = make()
    a, b, c, log = ds.actor("a"), ds.actor("b"), ds.actor("c"), []
    listen(ds.actor("ear"), Fact, log)
    a.publish(Fact(1))
    b.publish(Fact(1))
    c.publish(Fact(1))
    c.observe(Holder, heard=lambda _: 1 / 0)
    a.stop()
    ds.actor("me").send(Holder(0))
    assert log == [("+", Fact(1))]
    b.stop()
    assert log == [("+", Fact(1)), ("-", Fact(1))]


def test_r06_a_spike_is_heard_both_ways() -> None:
    """A fact published and retracted in one turn appears and vanishes: a `during` that began on it also ends."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    listen(ds.actor("ear"), Fact, log)
    worker = ds.actor("worker")
    worker.during(Fact, lambda facet, fact: facet.publish(Holder(fact.x)))
    listen(ds.actor("ear 2"), Holder, log)
    with me.turn():
        me.retract(me.publish(Fact(1)))
    assert log == [("+", Fact(1)), ("-", Fact(1)), ("+", Holder(1)), ("-", Holder(1))]
    assert ds.facts(Holder) == ()


def test_r06_retracting_before_publishing_an_equal_fact_flickers() -> None:
    """Retract, then publish an equal fact: it goes and comes again, even within one turn; a `during` starts anew."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    handle = me.publish(Fact(1))
    worker = ds.actor("worker")

    def body(facet: Any, fact: Fact) -> None:
        log.append("begin")
        facet.on_stop(lambda parent: log.append("end"))

    worker.during(Fact, body)
    listen(ds.actor("ear"), Fact, log)
    log.clear()
    with me.turn():
        me.retract(handle)
        me.publish(Fact(1))
    assert log == ["end", ("-", Fact(1)), "begin", ("+", Fact(1))]


# -- R7: replace ----------------------------------------------------------------------------------------------------------


def test_r07_replace_publishes_then_retracts() -> None:
    """`replace` shows the new fact before the old one goes; at no instant there is neither."""
    ds, _ = make()
    me, log, seen = ds.actor("me"), [], []
    handle = me.publish(Fact(1))
    listen(ds.actor("ear"), Fact, log)
    ds.actor("eye").observe(Fact, vanished=lambda _: seen.append(ds.facts(Fact)))
    handle = me.replace(handle, Fact(2))
    assert log == [("+", Fact(1)), ("+", Fact(2)), ("-", Fact(1))]
    assert seen == [(Fact(2),)]
    me.retract(handle)
    assert ds.facts(Fact) == ()


def test_r07_replacing_by_an_equal_fact_is_silent() -> None:
    """Nobody hears of a replacement by an equal fact; the new handle is the one that counts, and new readings show."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    old = me.publish(Fact(1, r=10))
    listen(ds.actor("ear"), Fact, log)
    log.clear()
    new = me.replace(old, Fact(1, r=20))
    assert log == []
    assert not old.standing
    assert [fact.r for fact in ds.facts(Fact)] == [20]
    me.retract(old)
    assert log == []
    me.retract(new)
    assert log == [("-", Fact(1))]


def test_r07_replace_of_nothing_publishes() -> None:
    """With None, or a handle that is gone or another actor's, `replace` only publishes."""
    ds, _ = make()
    me, other = ds.actor("me"), ds.actor("other")
    first = me.replace(None, Fact(1))
    gone = me.publish(Fact("gone"))
    me.retract(gone)
    me.replace(gone, Fact(2))
    theirs = other.publish(Fact("theirs"))
    me.replace(theirs, Fact(3))
    assert ds.facts(Fact) == (Fact(1), Fact(2), Fact("theirs"), Fact(3))
    assert theirs.standing
    assert first.standing


def test_r07_a_refused_replacement_loses_nothing() -> None:
    """If the new fact is refused the old one stands, and nobody heard anything."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    handle = me.publish(Fact(1))
    listen(ds.actor("ear"), Fact, log)
    with pytest.raises(NotAFact):
        me.replace(handle, Fact({}))
    assert handle.standing
    assert log == [("+", Fact(1))]


def test_r07_a_chain_of_updates_shows_each_value() -> None:
    """A balance that is replaced step by step is seen at each step, and somebody can end on one of them."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    watcher = ds.actor("watcher")
    watcher.observe(where(Fact, x=CAPTURE), appeared=lambda x: watcher.stop() if x == 70 else log.append(x))
    handle = None
    for balance in (0, 100, 70, 60):
        handle = me.replace(handle, Fact(balance))
    assert log == [0, 100]
    assert not watcher.alive


# -- R8: handles that are gone ---------------------------------------------------------------------------------------------


def test_r08_retracting_what_is_gone_does_nothing() -> None:
    """Retracting None, twice, in one turn twice, or after the end of the lifetime does nothing, and nobody hears of it."""
    ds, _ = make()
    me, other, log = ds.actor("me"), ds.actor("other"), []
    a, b = me.publish(Fact(1)), me.publish(Fact(1))
    observation = other.observe(Fact)
    listen(ds.actor("ear"), Fact, log)
    log.clear()
    me.retract(None)
    me.retract(a)
    me.retract(a)
    with me.turn():
        me.retract(a)
    assert log == []
    with me.turn():
        me.retract(b)
        me.retract(b)
    assert log == [("-", Fact(1))]
    other.retract(observation)
    other.retract(observation)
    assert ds.statistics().observers == 1
    c = me.publish(Fact(2))
    me.stop()
    me.retract(c)
    other.retract(c)
    assert log[1:] == [("+", Fact(2)), ("-", Fact(2))]


def test_r08_a_handle_of_another_actor_is_not_mine_to_retract() -> None:
    """Retracting the handle of another actor does nothing; it is not even an error within that actor's turn."""
    ds, _ = make()
    me, other = ds.actor("me"), ds.actor("other")
    handle, observation = other.publish(Fact(1)), other.observe(Fact)
    me.retract(handle)
    me.retract(observation)
    with me.turn():
        me.retract(handle)
    assert ds.facts(Fact) == (Fact(1),)
    assert ds.statistics().observers == 1


def test_r08_what_is_no_handle_is_an_error() -> None:
    """Passing something that is no handle at all is a mistake, and said to be one."""
    ds, _ = make()
    me = ds.actor("me")
    me.publish(Fact(1))
    with pytest.raises(TypeError, match="handle"):
        me.retract(Fact(1))  # type: ignore[arg-type]


def test_r08_a_handle_is_a_block() -> None:
    """As a context manager a handle is let go of at the end of the block, also when that raises or it is gone already."""
    ds, _ = make()
    me = ds.actor("me")

    def block() -> None:
        with me.publish(Fact(1)), me.observe(Fact) as observation:
            assert ds.facts(Fact) == (Fact(1),)
            me.retract(observation)
            raise Boom

    with pytest.raises(Boom):
        block()
    assert ds.facts(Fact) == ()
    assert ds.statistics().observers == 0


# -- R9: what may be published ---------------------------------------------------------------------------------------------


@define
class Mutable:
    x: int


@frozen(eq=False)
class ById:
    x: int


class Plain:
    pass


class Text(str):
    __slots__ = ()


class Child(Fact):
    """Not decorated, so it would have attributes nobody looks at."""


class Unhashable:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Uncomparable:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not today")

    def __hash__(self) -> int:
        return 1


immutable(Unhashable)
immutable(Uncomparable)

REFUSED = {
    "list": [],
    "dict": {},
    "set": set(),
    "bytearray": bytearray(),
    "object": Plain(),
    "mutable attrs": Mutable(1),
    "attrs by identity": ById(1),
    "subclass of str": Text("x"),
    "subclass of a fact": Child(1),
    "generator": (x for x in ()),
    "NaN": NAN,
    "complex NaN": complex(0, NAN),
    "Decimal NaN": decimal.Decimal("NaN"),
    "signalling NaN": decimal.Decimal("sNaN"),
    "not hashable": Unhashable(),
    "not comparable": Uncomparable(),
    "exception": ValueError("x"),
}


@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize(
    ("wrap", "path"),
    [
        (Fact, "Fact.x"),
        (lambda value: Fact(0, r=value), "Fact.r"),
        (lambda value: Holder(Holder(0, value)), "Holder.inner.y"),
        (lambda value: Holder((0, ("a", value))), "Holder.inner[1][1]"),
        (lambda value: Holder((Fact(value),)), "Holder.inner[0].x"),
    ],
    ids=["field", "reading", "nested", "tuple", "fact in tuple"],
)
def test_r09_what_may_change_is_refused_by_the_name_of_its_field(value: Any, wrap: Any, path: str) -> None:
    """Whatever is not immutable is refused, published or sent, as itself or within; the error names the way to it."""
    if isinstance(value, Unhashable) and path == "Fact.r":
        return  # the next test's
    ds, _ = make()
    me = ds.actor("me")
    before = ds.statistics()
    for act in (me.publish, me.send):
        with pytest.raises(NotAFact, match=r"\w") as refusal:
            act(wrap(value))
        assert str(refusal.value).startswith((path + " ", path + ","))
        assert isinstance(refusal.value, TypeError)
    assert ds.statistics() == before
    assert me.handles == {}


def test_r09_a_reading_need_not_be_hashed() -> None:
    """Readings are not looked up, so a value that cannot be hashed may be one; a literal of it is refused."""
    ds, _ = make()
    me, seen = ds.actor("me"), []
    me.observe(where(Fact, r=1), seen.append)
    me.retract(me.publish(Fact(0, r=Unhashable())))
    assert () == ds.facts(Fact)
    assert not seen
    with pytest.raises(NotAFact, match="cannot be hashed"):
        where(Fact, r=Unhashable())


def test_r09_in_a_set_the_field_is_named() -> None:
    """What is refused inside a frozenset is refused by the name of the field that holds the set."""
    ds, _ = make()
    with pytest.raises(NotAFact, match=r"an item of Fact\.x is a Plain"):
        ds.actor("me").publish(Fact(frozenset([Plain()])))


@pytest.mark.parametrize("value", [3, "text", None, (1,), Fact, Mutable(1), ById(1), Child(1), [], Plain()], ids=repr)
def test_r09_what_is_no_fact_is_refused(value: Any) -> None:
    """Only instances of frozen attrs classes, compared by value, are facts; the error says what to make of it."""
    ds, _ = make()
    me = ds.actor("me")
    for act in (me.publish, me.send):
        with pytest.raises(NotAFact, match=r"@attrs\.frozen|give an instance"):
            act(value)


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ([], "a tuple"),
        (set(), "a frozenset"),
        ({}, "a frozen attrs class"),
        (Mutable(1), "@attrs.frozen"),
        (Plain(), "immutable"),
    ],
    ids=["list", "set", "dict", "mutable attrs", "object"],
)
def test_r09_the_refusal_says_what_to_do(value: Any, advice: str) -> None:
    """The error names what to use instead."""
    ds, _ = make()
    with pytest.raises(NotAFact, match=advice):
        ds.actor("me").publish(Fact(value))


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


ALLOWED = [
    *(None, True, 0, 1.5, math.inf, "", b"", 2j, (), (1, ("a",)), frozenset({1}), range(3), int, Fact, len),
    *(Fact(1), Fact((Fact(2),)), Colour.RED, Level.LOW, decimal.Decimal("1.5"), uuid.UUID(int=1), PurePosixPath("/a")),
    *(datetime.date(2026, 1, 1), datetime.timedelta(1), where(Fact, x=1), CAPTURE, Crashed("a", "b", 1), 10**5000),
]


@pytest.mark.parametrize("value", ALLOWED, ids=lambda value: type(value).__name__)
def test_r09_immutable_values_are_published_and_found_again(value: Any) -> None:
    """Every immutable value can be published, stands, matches a literal of itself, and goes."""
    ds, _ = make()
    me = ds.actor("me")
    handle = me.publish(Fact(value))
    assert ds.facts(Fact) == (Fact(value),)
    assert ds.facts(where(Fact, x=literal(value))) == (Fact(value),)
    me.retract(handle)
    assert ds.facts(Fact) == ()


def test_r09_value_types_can_be_registered() -> None:
    """A class declared `immutable` may be published: it is compared by its own `==`, and its exact type counts."""

    class Money:
        def __init__(self, cents: int) -> None:
            self.cents = cents

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Money) and self.cents == other.cents

        def __hash__(self) -> int:
            return hash(self.cents)

    ds, _ = make()
    me, log = ds.actor("me"), []
    with pytest.raises(NotAFact, match=r"Fact\.x is a .*Money.*dataspace\.immutable"):
        me.publish(Fact(Money(5)))
    assert immutable(Money) is Money
    listen(ds.actor("ear"), where(Fact, x=Money(5)), log)
    me.publish(Fact(Money(5)))
    me.publish(Fact(Money(5)))
    me.publish(Fact(Money(6)))
    assert log == [("+", Fact(Money(5)))]
    assert len(ds.facts(Fact)) == 2


def test_r09_what_is_nested_too_deeply_is_refused() -> None:
    """A value too deep to be walked is refused as any other, in facts and in patterns."""
    deep: Any = ()
    for _ in range(5000):
        deep = (deep,)
    ds, _ = make()
    with pytest.raises(NotAFact, match="too deeply"):
        ds.actor("me").publish(Fact(deep))
    with pytest.raises(NotAFact, match="too deeply"):
        literal(deep)
    with pytest.raises(PatternError, match="too deeply"):
        where(Fact, x=deep)


def test_r09_a_fact_without_fields_is_a_fact() -> None:
    """A class without fields has one instance, as facts go; one with readings only as well."""

    @frozen
    class Empty:
        pass

    @frozen
    class Gauge:
        value: float = field(eq=False)

    ds, _ = make()
    me, log = ds.actor("me"), []
    listen(ds.actor("ear"), Empty, log)
    listen(ds.actor("ear 2"), Gauge, log)
    me.publish(Empty())
    me.publish(Empty())
    me.publish(Gauge(1.0))
    me.publish(Gauge(2.0))
    assert log == [("+", Empty()), ("+", Gauge(1.0))]
    with pytest.raises(NotAFact, match=r"Gauge\.value"):
        me.publish(Gauge(NAN))


# -- R10: what is the same -------------------------------------------------------------------------------------------------

TWINS = (True, 1, 1.0)


@pytest.mark.parametrize(
    "wrap",
    [
        Fact,
        lambda value: Fact((value,)),
        lambda value: Fact(((0, value), "x")),
        lambda value: Fact(frozenset([value])),
        lambda value: Fact(frozenset([(value,)])),
        lambda value: Holder(Fact(value)),
        lambda value: Holder((Fact(value),)),
        lambda value: Holder(Holder(Fact((value,)))),
    ],
    ids=["field", "tuple", "deep tuple", "frozenset", "tuple in frozenset", "fact", "fact in tuple", "deep"],
)
def test_r10_true_one_and_one_point_zero_are_three_values(wrap: Any) -> None:
    """`True`, `1` and `1.0` make three facts, and a literal of one matches it alone, at any depth."""
    ds, _ = make()
    me = ds.actor("me")
    logs: dict[type, list[Any]] = {type(value): [] for value in TWINS}
    field_name = attrs.fields(type(wrap(0)))[0].name
    for value in TWINS:
        pattern = where(type(wrap(0)), **{field_name: literal(getattr(wrap(value), field_name))})
        listen(ds.actor(repr(value)), pattern, logs[type(value)])
    handles = [me.publish(wrap(value)) for value in TWINS]
    assert len(ds.facts(type(wrap(0)))) == 3
    assert [[repr(fact) for _, fact in log] for log in logs.values()] == [[repr(wrap(value))] for value in TWINS]
    for handle in handles:
        me.retract(handle)
    assert [len(log) for log in logs.values()] == [2, 2, 2]


def test_r10_messages_tell_types_apart_too() -> None:
    """A message with `True` is not heard by who waits for `1`."""
    ds, _ = make()
    log: list[Any] = []
    for value in TWINS:
        listen(ds.actor(repr(value)), where(Fact, x=value), log, who=repr(value))
    ds.actor("me").send(Fact(1))
    assert log == [("1", "!", Fact(1))]


def test_r10_enums_are_not_their_values() -> None:
    """An enum's member is its own value, an `IntEnum`'s too; text, bytes and symbols of other kinds are apart."""
    ds, _ = make()
    me = ds.actor("me")
    for value in (1, Level.LOW, Colour.RED, "1", b"1", decimal.Decimal(1), (1,), frozenset([1]), None):
        me.publish(Fact(value))
    assert len(ds.facts(Fact)) == 9
    assert ds.facts(where(Fact, x=Level.LOW)) == (Fact(Level.LOW),)


def test_r10_facts_of_different_classes_are_different() -> None:
    """Two classes of the same name and fields, or a subclass, make different facts, and are different inside others."""

    def another() -> type:
        @frozen
        class Fact:
            x: object

        return Fact

    @frozen
    class Special(Fact):
        pass

    other = another()
    ds, _ = make()
    me = ds.actor("me")
    for cls in (Fact, other, Special):
        me.publish(cls(1))
        me.publish(Holder(cls(1)))
    assert [len(ds.facts(cls)) for cls in (Fact, other, Special, Holder)] == [1, 1, 1, 3]
    assert ds.facts(where(Holder, inner=Fact)) == (Holder(Fact(1)),)
    assert ds.facts(where(Holder, inner=Special(1))) == (Holder(Special(1)),)


def test_r10_a_fact_is_not_the_tuple_of_its_fields() -> None:
    """Values of different make never coincide, however they are built: facts, tuples, classes, patterns."""
    ds, _ = make()
    me = ds.actor("me")
    values = [
        *(Fact(1), (Fact, 1), (1,), ((1,),), (tuple, 1), (bool, True), True, (int, 1), Fact, (type, Fact), where(Fact)),
        *(where(Fact, x=1), literal(1).value, frozenset([1]), (frozenset, 1)),
    ]
    for value in values:
        me.publish(Holder(value))
    assert len(ds.facts(Holder)) == len(values)
    for value in values:
        assert ds.facts(where(Holder, inner=literal(value))) == (Holder(value),)


plain = st.sampled_from([0, 1, -1, True, False, 1.0, 0.0, -1.0, "", "1", b"", b"1", None])
nested = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.frozensets(inner, max_size=2)
        | st.builds(Fact, inner, st.integers(0, 1))
    ),
    max_leaves=6,
)


def shape(value: Any) -> Any:
    """A value with the type of each part beside it, readings left out; what "the same" means, told another way."""
    if isinstance(value, Fact):
        return ("Fact", shape(value.x))
    if isinstance(value, tuple):
        return ("tuple", [shape(item) for item in value])
    if isinstance(value, frozenset):
        return ("set", sorted((shape(item) for item in value), key=repr))
    return (type(value).__name__, repr(value))


@given(st.lists(nested, min_size=2, max_size=6))
def test_r10_sameness_is_equality_with_exact_types(values: list[Any]) -> None:
    """Of any values, as many facts stand as there are different ones by exact types, and each literal finds its own."""
    ds, _ = make()
    me = ds.actor("me")
    for value in values:
        me.publish(Fact(value))
    assert len(ds.facts(Fact)) == len({repr(shape(value)) for value in values})
    for value in values:
        (found,) = ds.facts(where(Fact, x=literal(value)))
        assert shape(found.x) == shape(value)


def test_r10_readings_make_no_second_fact() -> None:
    """Fields declared `eq=False` are not part of what a fact is, also inside other facts; what is shown is the newest."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    ds.actor("ear").observe(Fact, appeared=lambda f: log.append(("+", f.r)), vanished=lambda f: log.append(("-", f.r)))
    a, b = me.publish(Fact(1, r=1)), me.publish(Fact(1, r=2))
    assert [fact.r for fact in ds.facts(Fact)] == [2]
    me.retract(b)
    me.retract(a)
    assert log == [("+", 1), ("-", 2)]
    me.publish(Holder(Fact(1, r=1)))
    me.publish(Holder(Fact(1, r=2)))
    assert len(ds.facts(Holder)) == 1
    assert len(ds.facts(where(Holder, inner=Fact(1, r=3)))) == 1


# -- R11: messages ---------------------------------------------------------------------------------------------------------


def test_r11_messages_reach_who_listens_now_and_are_not_kept() -> None:
    """A message is heard by the observers of that moment, matched like a fact; it never stands and is not told later."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    listen(ds.actor("one"), where(Fact, x=1), log, who="one")
    listen(ds.actor("view"), where(Fact, x=CAPTURE), log, who="view")
    listen(ds.actor("two"), where(Fact, x=2), log, who="two")
    with me.turn():
        me.send(Fact(1))
        me.send(Fact(1))
    assert log == [("one", "!", Fact(1)), ("view", "!", 1)] * 2
    assert ds.facts(Fact) == ()
    listen(ds.actor("late"), Fact, log, who="late")
    assert len(log) == 4
    assert ds.statistics().facts == len(ds.facts(Observe)) == 4


def test_r11_a_message_nobody_hears_is_no_error() -> None:
    """Sending where nobody listens does nothing."""
    ds, _ = make()
    ds.actor("me").send(Fact(1))
    assert ds.statistics().facts == 0


def test_r11_the_moment_is_the_commit() -> None:
    """Within one turn: who is observed before the message hears it, who comes after it does not, who left does not."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    leaving = listen(me, Fact, log, who="leaving")
    with me.turn():
        listen(me, Fact, log, who="before")
        me.retract(leaving)
        me.send(Fact(1))
        listen(me, Fact, log, who="after")
    assert log == [("before", "!", Fact(1))]


def test_r11_a_message_equal_to_a_standing_fact_is_still_heard() -> None:
    """Messages do not merge with facts or with each other, with captures or without."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    me.publish(Fact(1))
    listen(ds.actor("ear"), where(Fact, x=CAPTURE), log)
    me.send(Fact(1))
    me.send(Fact(1, r=5))
    assert log == [("+", 1), ("!", 1), ("!", 1)]
    assert [fact.r for fact in ds.facts(Fact)] == [0]
    assert len(ds.facts(Observe)) == 1
