"""The real dataspace and the naive one, driven by the same scripts, tell and hold the same."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from attrs import field, frozen
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dataspace import CAPTURE, Crashed, Dataspace, Observe, Stopped, _index, _leaves, where
from dataspace._leaves import Leaf, Record
from dataspace.errors import NameTaken, TurnError

from . import space_model
from .space_model import Want

# -- what the scripts talk about ------------------------------------------------------------------------------------------


@frozen
class P:
    """A fact with an identity `x` and a reading `r`."""

    x: object
    r: int = field(default=0, eq=False, repr=False)


@frozen
class Q:
    """A fact that holds another."""

    p: object
    y: object


class Boom(Exception):
    """What scripts raise."""


ACTORS = ("a", "b", "c")
VALUES = (0, 0, 0, 1, 1, True, 1.0)

# The more often an instruction is named here, the more often it is drawn.
INSTRUCTIONS = (
    *(
        "publish",
        "publish",
        "publish",
        "publish",
        "publish",
        "retract",
        "retract",
        "replace",
        "replace",
        "send",
        "send",
    ),
    *("observe", "observe", "observe", "observe", "during", "during", "during", "remove_me", "boom", "stop_me"),
    *("stop_actor", "spawn", "later", "attempt", "at_stop", "at_crash", "through", "read"),
)


class Reader:
    """Reads a program from bytes, each of which is a choice; past their end all choices are the first.

    Hypothesis draws and shrinks bytes much faster than it would a tree of strategies.
    """

    def __init__(self, data: bytes) -> None:
        self.bytes = iter(data)

    def one(self, *options: Any) -> Any:
        return options[next(self.bytes, 0) % len(options)]

    def some(self, *options: Any) -> Any:
        """One of the options, or nothing as often as one of them."""
        return self.one(None, *options)

    def program(self, depth: int = 3) -> tuple[Any, ...]:
        """A few instructions, each its name and what it takes, which may be programs again."""
        return tuple([self.instruction(depth - 1) for _ in range(self.one(0, 1, 2, 3, 4))]) if depth else ()

    def instruction(self, depth: int) -> tuple[Any, ...]:
        name = self.one(*INSTRUCTIONS)
        take = getattr(self, f"take_{name}", None)
        return (name, *take(depth)) if take is not None else (name,)

    def pick(self) -> int:
        return next(self.bytes, 0)

    def p(self) -> P:
        return P(self.one(*VALUES), self.one(0, 1))

    def fact(self) -> Any:
        return Q(self.one(self.p(), *VALUES), self.one(0, 1)) if self.one(False, False, True) else self.p()

    def want(self) -> Want:
        kind = self.one("p", "p", "q", "q", "interest", "crash")
        if kind == "p":
            return self.p_want()
        if kind == "q":
            return self.parts(Q, p=self.some(self.p_want(), self.one(*VALUES), CAPTURE), y=self.some(0, 1, CAPTURE))
        if kind == "interest":
            return self.parts(Observe, pattern=self.some(CAPTURE), by=self.some("b", CAPTURE))
        return self.parts(Crashed, actor=self.some("a", CAPTURE))

    def p_want(self) -> Want:
        return self.parts(P, x=self.some(CAPTURE, self.one(*VALUES)), r=self.some(None, CAPTURE, 0, 1))

    def parts(self, cls: type, **parts: Any) -> Want:
        return Want(cls, tuple([(name, part) for name, part in parts.items() if part is not None]))

    # What each instruction takes

    def take_publish(self, depth: int) -> tuple[Any, ...]:
        return (self.fact(),)

    take_send = take_publish

    def take_retract(self, depth: int) -> tuple[Any, ...]:
        return (self.pick(),)

    def take_replace(self, depth: int) -> tuple[Any, ...]:
        return (self.pick(), self.fact())

    def take_observe(self, depth: int) -> tuple[Any, ...]:
        callbacks = [self.program(depth) if self.one(True, True, True, False) else None for _ in range(3)]
        return (self.want(), callbacks, self.one(False, False, True))

    def take_during(self, depth: int) -> tuple[Any, ...]:
        return (self.want(), self.program(depth))

    def take_stop_actor(self, depth: int) -> tuple[Any, ...]:
        return (self.one(*ACTORS, "s", "t"),)

    def take_spawn(self, depth: int) -> tuple[Any, ...]:
        return (self.one("s", "t"), self.program(depth))

    def take_later(self, depth: int) -> tuple[Any, ...]:
        return (self.pick(), self.program(depth))

    take_through = take_later

    def take_attempt(self, depth: int) -> tuple[Any, ...]:
        return (self.program(depth),)

    take_at_stop = take_attempt

    def take_read(self, depth: int) -> tuple[Any, ...]:
        return (self.want(),)


programs = st.binary(min_size=24, max_size=90).map(lambda data: Reader(data).program())
wants = st.binary(min_size=8, max_size=8).map(lambda data: Reader(data).want())


# -- one side ------------------------------------------------------------------------------------------------------------


def real_pattern(want: Want) -> Any:
    """The pattern of the real dataspace that means the same."""
    return where(
        want.cls, **{name: real_pattern(part) if isinstance(part, Want) else part for name, part in want.parts}
    )


def show(value: Any, *, whole: bool) -> str:
    """Exactly what was seen: types as well, and the readings of whole facts."""
    return f"{value!r}~{value.r}" if whole and type(value) is P else repr(value)


class Side:
    """Runs scripts on a dataspace, the real one or the model, and writes down all that can be seen."""

    def __init__(self, make: Callable[..., Any], pattern: Callable[[Want], Any]) -> None:
        self.log: list[str] = []
        self.ds = make(on_crash=lambda crash, error: self.log.append(f"crash {crash!r} {error!r}"))
        self.pattern = pattern
        self.facets = [self.ds.actor(name) for name in ACTORS]
        self.roots = dict(zip(ACTORS, self.facets, strict=True))
        self.handles: dict[int, Any] = {}
        self.labels = count()
        self.fuel = 0

    def outside(self, actor: int, program: Any, in_one_turn: bool) -> None:
        """What calling code does: turn by turn, or all in one turn.  Actors that are gone come back."""
        name = ACTORS[actor]
        self.fuel = 40
        if name not in self.actors():
            self.roots[name] = self.ds.actor(name)
            self.facets.append(self.roots[name])
        me = self.roots[name]
        try:
            if in_one_turn:
                with me.turn():
                    self.run(me, None, program)
            else:
                self.run(me, None, program)
        except Boom:
            self.log.append("outside: boom")

    def run(self, me: Any, own: int | None, program: Any) -> None:
        """Run a program as `me`; `own` is the label of the observation whose callback this is."""
        for name, *rest in program:
            if self.fuel <= 0:  # no script runs for ever
                return
            self.fuel -= 1
            try:
                getattr(self, f"do_{name}")(me, own, *rest)
            except (Stopped, TurnError, NameTaken) as error:
                self.log.append(f"{me.name} {name}: {type(error).__name__}")

    def live(self) -> dict[str, Any]:
        """The actors there are, by name."""
        raise NotImplementedError

    def actors(self) -> list[str]:
        return sorted(self.live())

    def callback(self, me: Any, label: int, kind: str, program: Any, whole: bool) -> Callable[..., None] | None:
        if program is None:
            return None

        def call(*args: Any) -> None:
            self.log.append(f"{me.name} #{label} {kind} {[show(arg, whole=whole) for arg in args]}")
            self.run(me, label, program)

        return call

    # instructions

    def do_publish(self, me: Any, own: int | None, fact: Any) -> None:
        label = next(self.labels)
        self.handles[label] = me.publish(fact)

    def do_retract(self, me: Any, own: int | None, pick: int) -> None:
        me.retract(self.pick(pick))

    def do_replace(self, me: Any, own: int | None, pick: int, fact: Any) -> None:
        label = next(self.labels)
        self.handles[label] = me.replace(self.pick(pick), fact)

    def do_send(self, me: Any, own: int | None, message: Any) -> None:
        me.send(message)

    def do_observe(self, me: Any, own: int | None, want: Want, callbacks: Any, once: bool) -> None:
        label, whole = next(self.labels), not space_model.captures(want)
        kinds = zip(("appeared", "vanished", "heard"), callbacks, strict=True)
        calls = [self.callback(me, label, kind, program, whole) for kind, program in kinds]
        self.handles[label] = me.observe(self.pattern(want), *calls, once=once)

    def do_during(self, me: Any, own: int | None, want: Want, program: Any) -> None:
        label, whole = next(self.labels), not space_model.captures(want)

        def body(facet: Any, *args: Any) -> None:
            self.log.append(f"{me.name} #{label} during {[show(arg, whole=whole) for arg in args]}")
            self.facets.append(facet)
            self.run(facet, label, program)

        self.handles[label] = me.during(self.pattern(want), body)

    def do_remove_me(self, me: Any, own: int | None) -> None:
        me.retract(self.handles.get(-1 if own is None else own))

    def do_boom(self, me: Any, own: int | None) -> None:
        raise Boom

    def do_stop_me(self, me: Any, own: int | None) -> None:
        me.stop()

    def do_stop_actor(self, me: Any, own: int | None, name: str) -> None:
        if name in self.roots:
            self.roots[name].stop()

    def do_spawn(self, me: Any, own: int | None, name: str, program: Any) -> None:
        def boot(root: Any) -> None:
            self.log.append(f"{name} boots")
            self.run(root, None, program)

        self.roots[name] = me.spawn(boot, name=name)
        self.facets.append(self.roots[name])

    def do_later(self, me: Any, own: int | None, pick: int, program: Any) -> None:
        facet = self.facets[pick % len(self.facets)]

        def call() -> None:
            self.log.append(f"{facet.name} later")
            self.run(facet, None, program)

        facet.later(call)

    def do_attempt(self, me: Any, own: int | None, program: Any) -> None:
        """A turn, or a savepoint in one, whose failure is forgiven."""
        try:
            with me.turn():
                self.run(me, own, program)
        except Boom:
            self.log.append(f"{me.name} forgives")

    def do_at_stop(self, me: Any, own: int | None, program: Any) -> None:
        def action(parent: Any) -> None:
            self.log.append(f"{me.name} at stop")
            self.run(parent, own, program)

        me.on_stop(action)

    def do_at_crash(self, me: Any, own: int | None) -> None:
        me.on_crash(lambda error: self.log.append(f"{me.name} at crash {error!r}"))

    def do_through(self, me: Any, own: int | None, pick: int, program: Any) -> None:
        """Act through some other lifetime: of another actor, or one that has stopped."""
        self.run(self.facets[pick % len(self.facets)], own, program)

    def do_read(self, me: Any, own: int | None, want: Want) -> None:
        self.log.append(f"{me.name} reads {self.facts(want)}")

    def pick(self, number: int) -> Any:
        return self.handles[sorted(self.handles)[number % len(self.handles)]] if self.handles else None

    def facts(self, want: Want) -> list[str]:
        return [show(fact, whole=True) for fact in self.ds.facts(self.pattern(want))]


class Real(Side):
    def live(self) -> dict[str, Any]:
        return dict(self.ds._actors)


class Naive(Side):
    def live(self) -> dict[str, Any]:
        return dict(self.ds.actors)


# -- both ----------------------------------------------------------------------------------------------------------------


class Spaces(RuleBasedStateMachine):
    """Both sides get each script; what they tell and what they hold is compared after each."""

    @initialize()
    def begin(self) -> None:
        # Small numbers, so that scripts reach what the index does when it holds many.
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(_leaves, "SMALL", 2)
        self.patch.setattr(_index, "IDLE_SHAPES", 2)
        self.real = Real(Dataspace, real_pattern)
        self.naive = Naive(space_model.Dataspace, lambda want: want)

    @rule(actor=st.integers(0, len(ACTORS) - 1), program=programs, in_one_turn=st.booleans())
    def script(self, actor: int, program: Any, in_one_turn: bool) -> None:
        self.both(lambda side: side.outside(actor, program, in_one_turn))

    @rule(want=wants)
    def read(self, want: Want) -> None:
        """What stands, read through the index, is what matches, the oldest first."""
        assert self.real.facts(want) == self.naive.facts(want)

    def both(self, do: Callable[[Side], None]) -> None:
        for side in (self.naive, self.real):
            side.log.clear()
            do(side)
        assert self.real.log == self.naive.log
        for cls in (P, Q, Observe, Crashed):
            assert self.real.facts(Want(cls)) == self.naive.facts(Want(cls))

    @invariant()
    def same_counts(self) -> None:
        statistics = self.real.ds.statistics()
        assert statistics.facts == len(self.naive.ds.standing)
        assert statistics.observers == len(self.naive.ds.observers)
        assert self.real.actors() == self.naive.actors()

    @invariant()
    def tidy_index(self) -> None:
        """No place in the index is empty, and only some shapes without observers are kept."""
        for index in self.real.ds._indexes.values():
            assert sum(1 for shape in index.shapes.values() if not shape.observers) <= _index.IDLE_SHAPES
            for shape in index.shapes.values():
                for slot in shape.table.values():
                    assert isinstance(slot, Record) or (isinstance(slot, Leaf) and (slot.facts or slot.groups()))

    def teardown(self) -> None:
        """When all have stopped, nothing is left but what tells of crashes."""
        if not hasattr(self, "real"):
            return
        try:
            self.let_all_go()
        finally:
            self.patch.undo()

    def let_all_go(self) -> None:
        """Stop all actors, on both sides."""
        for side in (self.naive, self.real):
            side.fuel = 0
        while names := self.real.actors():
            self.both(lambda side, name=names[0]: side.live()[name].root.stop())
        statistics = self.real.ds.statistics()
        crashes = len(self.real.facts(Want(Crashed)))
        assert (statistics.facts, statistics.observers, statistics.actors) == (crashes, 0, 0)
        for cls, index in self.real.ds._indexes.items():
            if cls is not Crashed:
                assert index.leaves() == 0


TestSpaces = Spaces.TestCase
TestSpaces.settings = settings.get_profile("machines")
TestSpaces.__doc__ = "The real dataspace and the naive one agree on every script."
