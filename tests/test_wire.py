"""`dataspace.wire`: what is dumped comes back equal, and whatever else comes is refused with the place where it is wrong."""

from __future__ import annotations

import datetime
import enum
import json
import math
from contextvars import copy_context
from typing import Annotated, Any, Literal, NewType, Optional, Union, get_args, get_origin

import attrs
import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypeAliasType

from dataspace import CAPTURE, Crashed, Observe, literal, where
from dataspace._values import canon
from dataspace.testing.strategies import facts, patterns
from dataspace.wire import Value, Wire, WireError
from engines.facts import FACTS, Answered, Asked, Budget, CompactionFailed, Serving, Usage
from engines.messages import Messages

Sid = NewType("Sid", str)
Home = NewType("Home", object)


@frozen
class Leaf:
    x: Any


@frozen
class Twig(Leaf):
    """A leaf, as far as annotations go."""

    y: int = 0


@frozen
class Node:
    """Everything that an annotation may say."""

    leaf: Leaf
    either: Leaf | Node | None
    many: tuple[int, ...]
    pair: tuple[str, float]
    some: frozenset[bytes]
    tuples: frozenset[tuple[int, ...]]
    kind: Literal["a", 1, True, b"\x00", None]
    maybe: Optional[bool] = None  # noqa: UP045 - both ways to write it
    old: Union[int, str] = 0  # noqa: UP007
    bare: tuple = ()  # type: ignore[type-arg]
    none: tuple[()] = ()
    bag: frozenset = frozenset()  # type: ignore[type-arg]
    sid: Sid = Sid("")
    noted: Annotated[int, "a number"] = 0
    reading: object = field(default=None, eq=False)
    _private: int = 1
    home: Home = field(default=None, eq=False, metadata={"wire": False})


@frozen
class Nothing:
    """A fact without fields."""


@frozen
class Picky:
    """A class that checks its fields in its own way."""

    n: int = field()

    @n.validator
    def _check(self, _attribute: Any, n: int) -> None:
        if n < 0:
            raise ZeroDivisionError("less than nothing")


VOCABULARY = (Leaf, Twig, Node, Nothing, Picky, Observe, Crashed)
WIRE = Wire(VOCABULARY)
MESSAGES = Value("messages", Messages, lambda messages: messages.thaw(), Messages.of)
ENGINES = Wire(FACTS, values=[MESSAGES])


def same(one: Any, other: Any) -> bool:
    """Equal type by type, readings included, and zero by its sign."""
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if attrs.has(type(one)):
        return all(same(getattr(one, a.name), getattr(other, a.name)) for a in attrs.fields(type(one)))
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, frozenset):
        return canon(one) == canon(other)
    return bool(one == other)


def through(wire: Wire, fact: Any) -> Any:
    """The fact after a journey as text."""
    return wire.load(json.loads(json.dumps(wire.dump(fact), allow_nan=False)))


# -- round trips ------------------------------------------------------------------------------------------------------

annotated = {Home: st.none()}
nodes = facts(Node, types=annotated)


@given(nodes | facts(Leaf, Twig, Nothing))
def test_facts_of_every_annotation_come_back_equal(fact: Any) -> None:
    """Nested facts, tuples, sets, bytes, infinity, literals, unions: equal type by type after a journey as text."""
    assert same(fact, through(WIRE, fact))


rows = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "tool"]), "content": st.none() | st.text(max_size=5)}),
    max_size=3,
)
messages = st.none() | rows.map(Messages.of)
engine_facts = facts(*FACTS.values(), fields={"messages": messages, "context": st.none()})


@given(engine_facts)
def test_every_fact_of_the_engines_comes_back_equal(fact: Any) -> None:
    """The whole vocabulary, with real message lists in it."""
    assert same(fact, through(ENGINES, fact))


def test_no_class_of_the_engines_is_left_out() -> None:
    """The round trip above draws every class."""
    for cls in FACTS.values():
        assert isinstance(through(ENGINES, _any_of(cls)), cls)


def _any_of(cls: type) -> Any:
    samples = {"str": "a", "int": 1, "float": 0.5, "tuple[str, ...]": ("a",), "Role": "shadow", "bool": True}
    attrs.resolve_types(cls)
    written = cls.__annotations__  # as in the source, where annotations are postponed
    required = [a for a in attrs.fields(cls) if a.default is attrs.NOTHING]
    return cls(*[get_args(a.type)[0] if get_origin(a.type) is Literal else samples[written[a.name]] for a in required])


@given(facts(Leaf))
def test_a_vocabulary_of_one_class(fact: Leaf) -> None:
    """One class is a vocabulary like any other, its name is written and asked for."""
    wire = Wire([Leaf])
    assert "Leaf" == wire.dump(fact)["fact"]
    assert same(fact, through(wire, fact))
    with pytest.raises(WireError, match="no fact is called"):
        wire.load({**wire.dump(fact), "fact": "Twig"})


@given(patterns(Leaf, Node, types=annotated))
def test_patterns_come_back_equal(pattern: Any) -> None:
    """Interest is a fact, and goes as text; one that cannot be read back is refused where it is written."""
    fact = Observe(pattern, "a")
    try:
        data = WIRE.dump(fact)
    except WireError as error:
        assert "$.pattern" == error.path  # noqa: PT017 - either way is right, depending on the pattern
    else:
        assert fact == WIRE.load(json.loads(json.dumps(data)))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3), lambda s: st.lists(s, max_size=3).map(tuple)
    )
)
def test_values_alone_come_back_equal(value: Any) -> None:
    """`dump_value` says of itself what it is."""
    assert same(value, WIRE.load_value(json.loads(json.dumps(WIRE.dump_value(value)))))


def test_what_it_looks_like() -> None:
    """The form is documented: a tag, all fields, one key for what JSON has no word for."""
    fact = Node(Twig(1), Leaf(None), (1, 2), ("a", math.inf), frozenset([b"\xff", b"\x00"]), frozenset([(1,)]), "a")
    assert {
        "fact": "Node",
        "leaf": {"fact": "Twig", "x": 1, "y": 0},
        "either": {"fact": "Leaf", "x": None},
        "many": [1, 2],
        "pair": ["a", {"float": "inf"}],
        "some": {"set": [{"bytes": "00"}, {"bytes": "ff"}]},
        "tuples": {"set": [[1]]},
        "kind": "a",
        "maybe": None,
        "old": 0,
        "bare": [],
        "none": [],
        "bag": {"set": []},
        "sid": "",
        "noted": 0,
        "reading": None,
        "_private": 1,
    } == WIRE.dump(fact)
    assert {"fact": "Observe", "pattern": {"pattern": "(leaf 1)"}, "by": "a"} == WIRE.dump(
        Observe(where(Leaf, x=1), "a")
    )


def test_the_context_of_an_asking_stays_at_home() -> None:
    """`Asked.context` may hold credentials: it is not written, not asked for, and not taken."""
    asked = Asked("s", 1, 1, "a", messages=Messages.of([{"role": "user", "content": "x"}]), context=copy_context())
    data = ENGINES.dump(asked)
    assert "context" not in data
    loaded = ENGINES.load(data)
    assert (asked, None, asked.messages) == (loaded, loaded.context, loaded.messages)
    with pytest.raises(WireError, match="does not know 'context'"):
        ENGINES.load({**data, "context": None})


# -- what is refused on the way out -----------------------------------------------------------------------------------


def other(name: str, **attributes: Any) -> type:
    """A fact class made on the spot."""
    return attrs.make_class(name, attributes, frozen=True)


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("fact", "path", "problem"),
    [
        (Budget("s", 1, 1), "$", "Budget is not in the vocabulary; it has: Crashed, Leaf,"),
        (Leaf(Budget("s", 1, 1)), "$.x", "a Budget has no JSON form"),
        (Leaf((1, (Colour.RED,))), "$.x[1][0]", "a Colour has no JSON form"),
        (Leaf(math.nan), "$.x", "nan has no JSON form"),
        (Leaf([1]), "$.x", "a list has no JSON form"),
        (Observe(where(Budget), "a"), "$.pattern", "there is no fact 'budget'"),
        (Observe(where(Leaf, x=literal(1j)), "a"), "$.pattern", "cannot be written as text"),
        (Observe(where(Leaf, x=literal(int)), "a"), "$.pattern", ""),
        (Observe(where(other("Leaf")), "a"), "$.pattern", "'(leaf)' would not be read as the same pattern"),
    ],
)
def test_what_has_no_json_form_is_refused(fact: Any, path: str, problem: str) -> None:
    """The error says where in the fact the value is."""
    with pytest.raises(WireError) as caught:
        WIRE.dump(fact)
    assert path == caught.value.path
    assert problem in caught.value.problem
    assert str(caught.value).startswith(f"{path}: ")


@frozen
class Bottomless:
    """A class that never comes to an end with its checks."""

    n: int = field()

    @n.validator
    def _check(self, attribute: Any, n: int) -> None:
        self._check(attribute, n)


def test_what_is_nested_too_deeply_is_refused() -> None:
    """In both directions, and not with the interpreter's own error."""
    with pytest.raises(WireError, match="nested too deeply"):
        Wire([Bottomless]).load({"fact": "Bottomless", "n": 1})
    value: Any = ()
    for _ in range(100_000):
        value = (value,)
    data: Any = []
    for _ in range(100_000):
        data = [data]
    for attempt in (
        lambda: WIRE.dump(Leaf(value)),
        lambda: WIRE.dump_value(value),
        lambda: WIRE.load({"fact": "Leaf", "x": data}),
        lambda: WIRE.load_value(data),
    ):
        with pytest.raises(WireError, match="nested too deeply"):
            attempt()


# -- what is refused on the way in ------------------------------------------------------------------------------------


def node(**changes: Any) -> dict[str, Any]:
    """A node as data, with some keys otherwise."""
    fact = Node(Leaf(0), None, (), ("", 0.0), frozenset(), frozenset(), "a")
    return {**WIRE.dump(fact), **changes}


LEAF = {"fact": "Leaf", "x": 0}


@pytest.mark.parametrize(
    ("data", "path", "problem"),
    [
        (None, "$", "a fact is an object, not null"),
        ([LEAF], "$", "a fact is an object, not a list of 1"),
        ("Leaf", "$", "a fact is an object, not a string ('Leaf')"),
        ({"x": 1}, "$", '"fact" is missing'),
        ({"fact": "Lief", "x": 1}, "$", "no fact is called a string ('Lief'); there is: Crashed, Leaf"),
        ({"fact": ["Leaf"], "x": 1}, "$", "no fact is called a list of 1"),
        ({"fact": None, "x": 1}, "$", "no fact is called null"),
        ({"fact": "Leaf"}, "$", "Leaf lacks 'x'; its fields are x"),
        ({**LEAF, "y": 1}, "$", "Leaf does not know 'y'; its fields are x"),
        ({"fact": "Leaf", "y": 1}, "$", "Leaf lacks 'x' and does not know 'y'"),
        ({"fact": "Nothing", "y": 1}, "$", "its fields are none"),
        ({"fact": "Leaf", "x": {}}, "$.x", "an object here has one key, of: bytes, fact, float, pattern, set"),
        ({"fact": "Leaf", "x": {"bytes": "00", "set": []}}, "$.x", "an object here has one key"),
        ({"fact": "Leaf", "x": {"dict": {}}}, "$.x", "an object here has one key"),
        ({"fact": "Leaf", "x": [0, {"fact": "Leaf"}]}, "$.x[1]", "Leaf lacks 'x'"),
        ({"fact": "Leaf", "x": {"bytes": "0"}}, "$.x.bytes", ""),
        ({"fact": "Leaf", "x": {"bytes": "00 ff"}}, "$.x.bytes", "two small hexadecimal digits each"),
        ({"fact": "Leaf", "x": {"bytes": "FF"}}, "$.x.bytes", "two small hexadecimal digits each"),
        ({"fact": "Leaf", "x": {"bytes": 7}}, "$.x.bytes", "a string is wanted here, not a whole number (7)"),
        ({"fact": "Leaf", "x": {"set": {}}}, "$.x.set", "a list is wanted here, not an object with nothing in it"),
        ({"fact": "Leaf", "x": {"set": [1, 1]}}, "$.x.set", "a set holds nothing twice"),
        ({"fact": "Leaf", "x": {"set": [1, True]}}, "$.x.set", "a set holds nothing twice"),
        ({"fact": "Leaf", "x": {"set": [1, {}]}}, "$.x.set[1]", "an object here has one key"),
        ({"fact": "Leaf", "x": {"float": "nan"}}, "$.x.float", '"inf" or "-inf" is wanted here'),
        ({"fact": "Leaf", "x": {"float": ["inf"]}}, "$.x.float", '"inf" or "-inf" is wanted here'),
        ({"fact": "Leaf", "x": {"pattern": "(leaf"}}, "$.x.pattern", "(column 6)"),
        ({"fact": "Leaf", "x": {"pattern": None}}, "$.x.pattern", "a string is wanted here, not null"),
        ({"fact": "Leaf", "x": math.nan}, "$.x", "nan is no JSON"),
        ({"fact": "Leaf", "x": math.inf}, "$.x", "inf is no JSON"),
        ({"fact": "Leaf", "x": (1, 2)}, "$.x", "is wanted here, not tuple"),
        ({"fact": "Leaf", "x": b""}, "$.x", "is wanted here, not bytes"),
        (node(many=["1"]), "$.many[0]", "a whole number is wanted here, not a string ('1')"),
        (node(many=[1, 7.9]), "$.many[1]", "a whole number is wanted here, not a number with a point (7.9)"),
        (node(many=[True]), "$.many[0]", "a whole number is wanted here, not true or false (True)"),
        (node(many={"set": [1]}), "$.many", "a list is wanted here, not an object of 1"),
        (node(pair=["a", 1]), "$.pair[1]", "a number with a point is wanted here, not a whole number (1)"),
        (node(pair=["a", math.inf]), "$.pair[1]", "inf is no JSON"),
        (node(pair=["a", {"bytes": ""}]), "$.pair[1]", 'this is written {"float": ...}'),
        (node(pair=["a"]), "$.pair", "2 items are wanted here, not 1"),
        (node(pair=[5, 1.0]), "$.pair[0]", "a string is wanted here, not a whole number (5)"),
        (node(some=["00"]), "$.some", 'this is written {"set": ...}, not a list of 1'),
        (node(some={"set": ["00"]}), "$.some.set[0]", 'this is written {"bytes": ...}, not a string'),
        (node(tuples={"set": [[1, "1"]]}), "$.tuples.set[0][1]", "a whole number is wanted here"),
        (node(kind="b"), "$.kind", "one of 'a', 1, True, b'\\x00', None is wanted here, not a string ('b')"),
        (node(kind=1.0), "$.kind", "is wanted here, not a number with a point (1.0)"),
        (node(kind=[1]), "$.kind", "is wanted here, not a list of 1"),
        (node(maybe=1), "$.maybe", "true or false is wanted here, not a whole number (1)"),
        (node(old=1.5), "$.old", "a whole number is wanted here, not a number with a point (1.5)"),
        (node(none=[1]), "$.none", "0 items are wanted here, not 1"),
        (node(sid=1), "$.sid", "a string is wanted here"),
        (node(noted="1"), "$.noted", "a whole number is wanted here"),
        (node(leaf={"fact": "Nothing"}), "$.leaf", "a Leaf is wanted here, not a Nothing"),
        (node(leaf=None), "$.leaf", "a fact is an object, not null"),
        (node(either=node(many=[0, "x"])), "$.either.many[1]", "a whole number is wanted here"),
        (node(either={"fact": "Leaf", "x": [{"fact": "Picky", "n": -1}]}), "$.either.x[0]", "Picky refuses: less than"),
        (node(many=[10**5000, "x"]), "$.many[1]", "a whole number is wanted here"),
        (node(sid=10**5000), "$.sid", "a string is wanted here, not a whole number of 16610 bits"),
        (node(sid={"a": "b" * 10**6}), "$.sid", "a string is wanted here, not an object of 1"),
        (node(many="x" * 10**6), "$.many", "a list is wanted here, not a string ('xxxxxx"),
    ],
)
def test_bad_data_gives_one_error_with_its_place(data: Any, path: str, problem: str) -> None:
    """Nothing is coerced, guessed or dropped: the error says where, what is wanted, and a little of what came."""
    with pytest.raises(WireError) as caught:
        WIRE.load(data)
    assert path == caught.value.path
    assert problem in caught.value.problem
    assert len(str(caught.value)) < 400
    assert caught.value.__cause__ is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["fact", "set", "bytes", "float", "pattern", "x", "n", "messages"]) | st.text(max_size=3),
            inner | st.sampled_from(["Leaf", "Node", "Picky", "inf", "00", "(leaf ?x)"]),
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(json_values)
def test_whatever_comes_gives_a_fact_or_a_wire_error(data: Any) -> None:
    """No other exception leaves `load` or `load_value`, and what they take is written as it came."""
    for wire in (WIRE, ENGINES):
        for load, dump in ((wire.load, wire.dump), (wire.load_value, wire.dump_value)):
            try:
                fact = load(data)
            except WireError:
                continue
            assert same(fact, load(dump(fact)))


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A fact as data, with one thing in it exchanged for something else."""
    data = draw(nodes.map(WIRE.dump) | engine_facts.map(ENGINES.dump))
    spot, key = data, draw(st.sampled_from(sorted(data)))
    while isinstance(spot[key], (list, dict)) and spot[key] and draw(st.booleans()):
        spot = spot[key]
        key = draw(st.sampled_from(sorted(spot) if isinstance(spot, dict) else range(len(spot))))
    spot[key] = draw(json_values)
    return data


@given(damaged())
def test_a_damaged_fact_gives_a_fact_or_a_wire_error(data: Any) -> None:
    """Nearly right is where things go wrong."""
    for wire in (WIRE, ENGINES):
        try:
            fact = wire.load(data)
        except WireError as error:
            assert error.path.startswith("$")  # noqa: PT017 - either may come
        else:
            assert same(fact, wire.load(wire.dump(fact)))


@pytest.mark.parametrize("cls", [Usage, Serving, CompactionFailed, Answered])
def test_the_engines_facts_are_not_coerced(cls: type) -> None:
    """Every field of every type: a number is no text, a text no number, a whole number none with a point."""
    data = ENGINES.dump(_any_of(cls))
    for a in attrs.fields(cls):
        if a.type is Any:
            continue
        for wrong in ([], {}, {"bytes": ""}, "1", 1, 1.0, True):
            if isinstance(wrong, str | int | float) and _may_hold(a.type, type(wrong)):
                continue
            with pytest.raises(WireError) as caught:
                ENGINES.load({**data, a.name: wrong})
            assert caught.value.path == f"$.{a.name}"


def _may_hold(annotation: Any, cls: type) -> bool:
    return cls in (annotation, *get_args(annotation))


# -- vocabularies -----------------------------------------------------------------------------------------------------


def test_a_value_type_of_ones_own() -> None:
    """Given with `values`, by annotation and where anything may stand; its errors of any kind are wire errors."""

    @frozen
    class When:
        day: datetime.date
        colour: Colour | None = None
        other: Any = None

    def load_colour(name: Any) -> Colour:
        return Colour[name]

    def dump_colour(colour: Colour) -> str:
        return colour.name

    wire = Wire(
        [When],
        values=[
            Value("date", datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
            Value("colour", Colour, dump_colour, load_colour),
        ],
    )
    fact = When(datetime.date(2026, 8, 1), Colour.RED, (datetime.date(2026, 8, 2),))
    data = wire.dump(fact)
    assert {"date": "2026-08-01"} == data["day"]
    assert same(fact, wire.load(data))
    for key, bad, path in (
        ("day", {"date": "August"}, "$.day.date"),
        ("day", {"date": 7}, "$.day.date"),
        ("day", "2026-08-01", "$.day"),
        ("colour", {"colour": "BLUE"}, "$.colour.colour"),
        ("colour", {"colour": []}, "$.colour.colour"),
    ):
        with pytest.raises(WireError) as caught:
            wire.load({**data, key: bad})
        assert path == caught.value.path


def test_a_value_that_its_own_codec_cannot_write_is_refused() -> None:
    """An error of `dump` is a wire error at its place."""

    def fail(_value: Any) -> Any:
        raise KeyError("lost")

    with pytest.raises(WireError, match=r"\$.x: 'lost'"):
        Wire([Leaf], values=[Value("complex", complex, fail, fail)]).dump(Leaf(1j))


def test_a_named_type_is_what_it_names() -> None:
    """What the `type` statement of newer Pythons makes is read as what it stands for, and as strictly."""

    @frozen
    class Counted:
        n: TypeAliasType("Count", int)  # type: ignore[valid-type]

    wire = Wire([Counted])
    assert Counted(7) == wire.load({"fact": "Counted", "n": 7})
    with pytest.raises(WireError, match=r"^\$\.n: a whole number is wanted here, not a string"):
        wire.load({"fact": "Counted", "n": "7"})


def test_an_annotation_without_a_json_form_is_refused_when_it_matters() -> None:
    """Facts of such a class can neither be written nor read, and the error says what to give."""

    @frozen
    class When:
        day: datetime.date
        items: list[int] = []  # noqa: RUF008 - what is wrong with it is the point

    with pytest.raises(WireError, match=r"\$.day: a date has no JSON form"):
        Wire([When]).dump(When(datetime.date(2026, 8, 1)))
    for data in ({"fact": "When", "day": "2026-08-01", "items": []}, {"fact": "When", "day": {}, "items": [1]}):
        with pytest.raises(WireError, match=r"\$.day: there is no JSON form for .*date.*values="):
            Wire([When]).load(data)


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        ([Leaf, other("Leaf")], "two classes of the vocabulary have the same name"),
        ([dict], "is not a fact class"),
        ([other("Tagged", fact=attrs.field(type=int))], 'has a field called "fact"'),
        ([other("Made", n=attrs.field(type=int, init=False))], "Made.n is not an argument of Made"),
        ([other("Home", n=attrs.field(type=int, metadata={"wire": False}))], "Home.n stays at home and has no default"),
        ([other("Torn", n=attrs.field(type="Missing"))], "annotations of Torn cannot be understood: name 'Missing'"),
    ],
)
def test_a_vocabulary_that_could_not_be_loaded_is_refused(vocabulary: list[type], message: str) -> None:
    """At once, and not when the first fact comes."""
    with pytest.raises(WireError, match=message):
        Wire(vocabulary)


@pytest.mark.parametrize(
    "values",
    [
        [Value("set", complex, str, complex)],
        [Value("b", bytes, bytes.hex, bytes.fromhex)],
        [Value("fact", complex, str, complex)],
    ],
)
def test_a_value_that_is_known_already_is_refused(values: list[Value]) -> None:
    """Names and classes of values are told apart."""
    with pytest.raises(WireError, match="two values have the same name or class"):
        Wire([Leaf], values=values)


def test_a_class_may_be_named_twice_and_given_by_name() -> None:
    """The same class twice is once; a mapping gives its values."""
    assert same(Leaf(1), through(Wire([Leaf, Leaf]), Leaf(1)))
    assert same(Leaf(1), through(Wire({"anything": Leaf}), Leaf(1)))


def test_captures_go_in_patterns() -> None:
    """Captures and what is quoted stay what they are."""
    for x in (CAPTURE, where(Twig, y=CAPTURE), literal(CAPTURE), literal(Leaf), literal(where(Leaf, x=CAPTURE))):
        fact = Observe(where(Leaf, x=x), "a")
        assert fact == through(WIRE, fact)
