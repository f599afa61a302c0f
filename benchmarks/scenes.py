"""Scenes: a dataspace with something in it, and the operation on it that is measured.

Benchmarks time them and tests count their calls, so both speak of the same thing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import frozen

from dataspace import Dataspace, Facet, Pattern, where

__all__ = [
    "BYSTANDERS",
    "PING",
    "READING",
    "Core",
    "Envelope",
    "Note",
    "Other",
    "Ping",
    "Pong",
    "Reading",
    "ignore",
    "leave",
    "message_to",
    "message_with",
    "observe_again",
    "publish_during",
    "publish_with",
    "query",
]

Operation = Callable[[], object]


@frozen
class Ping:
    """The least of facts."""

    n: int


@frozen
class Reading:
    """A fact with several fields."""

    sid: str
    n: int
    m: int = 0


@frozen
class Pong:
    """What follows from a `Ping`."""

    n: int


@frozen
class Note:
    """A fact within another."""

    sid: str
    n: int


@frozen
class Other:
    """A fact that might be there instead."""

    sid: str
    n: int


@frozen
class Envelope:
    """A fact that holds one."""

    to: str
    note: Note | Other


def ignore(_seen: object) -> None:
    """A callback that does nothing."""


class Core:
    """A dataspace with one actor that publishes and one that observes."""

    def __init__(self) -> None:
        self.ds = Dataspace()
        self.publisher: Facet = self.ds.actor("publisher")
        self.observer: Facet = self.ds.actor("observer")

    def watch(self, pattern: Pattern[Any] | type) -> None:
        """One more observer of everything that matches."""
        self.observer.observe(pattern, ignore, ignore, ignore)


# -- observers that do not match --------------------------------------------------------------------------------------

PING = Ping(7)
READING = Reading("s0", 7)
LETTER = Envelope("s0", Note("s0", 7))

BYSTANDERS: dict[str, tuple[Any, Pattern[Any], Callable[[int], Pattern[Any]]]] = {
    "literals": (PING, where(Ping, n=7), lambda i: where(Ping, n=i)),
    "two literals": (READING, where(Reading, sid="s0", n=7), lambda i: where(Reading, sid="s0", n=i)),
    "nested pattern": (
        LETTER,
        where(Envelope, note=where(Note, n=7)),
        lambda i: where(Envelope, note=where(Note, n=i)),
    ),
    "nested fact": (LETTER, where(Envelope, note=Note("s0", 7)), lambda i: where(Envelope, note=Note("s0", i))),
    "nested, other class": (
        LETTER,
        where(Envelope, note=where(Note, n=7)),
        lambda i: where(Envelope, note=where(Other, n=i)),
    ),
    "nested class": (LETTER, where(Envelope, note=Note), lambda _: where(Envelope, note=Other)),
}
"""By kind: a fact, the pattern that matches it, and those that do not (numbers from 1,000 on)."""


def _crowd(kind: str, bystanders: int) -> tuple[Core, Any]:
    """One observer that matches a fact, and others that do not; they have one pattern of their shape at least."""
    fact, matching, others = BYSTANDERS[kind]
    core = Core()
    core.watch(matching)
    for i in range(1000, 1000 + max(1, bystanders)):
        core.watch(others(i))
    return core, fact


def publish_with(kind: str, bystanders: int, *, turns: bool = False) -> Operation:
    """Publish and retract a fact with one matching observer; with `turns` each in a turn of its own that says so."""
    core, fact = _crowd(kind, bystanders)
    me = core.publisher

    def implicit() -> None:
        me.retract(me.publish(fact))

    def explicit() -> None:
        with me.turn():
            handle = me.publish(fact)
        with me.turn():
            me.retract(handle)

    return explicit if turns else implicit


def message_with(kind: str, bystanders: int) -> Operation:
    """Send a message to one matching observer."""
    core, message = _crowd(kind, bystanders)
    return lambda: core.publisher.send(message)


def message_to(receivers: int) -> Operation:
    """Send a message that so many observers hear."""
    core = Core()
    for _ in range(receivers):
        core.watch(Ping)
    return lambda: core.publisher.send(PING)


def publish_during() -> Operation:
    """Publish and retract a fact whose `during` publishes one."""
    core = Core()
    core.observer.during(where(Ping, n=7), lambda me, ping: me.publish(Pong(ping.n)))
    return lambda: core.publisher.retract(core.publisher.publish(PING))


# -- observers that come and go ---------------------------------------------------------------------------------------


def _full(facts: int) -> Core:
    core = Core()
    with core.publisher.turn():
        for n in range(facts):
            core.publisher.publish(Reading(f"s{n}", n))
    return core


def observe_again(facts: int) -> Operation:
    """Add an observer that one of so many standing facts matches, and remove it; the index knows its shape already."""
    core = _full(facts)
    me, pattern = core.observer, where(Reading, sid="s0")

    def operate() -> None:
        me.retract(me.observe(pattern, ignore))

    operate()
    return operate


def leave(observers: int, batch: int) -> tuple[Operation, Operation]:
    """How to add `batch` observers and how to remove as many: the oldest of so many equal ones, or each the only one."""
    core = Core()
    me = core.observer
    patterns = [where(Ping, n=7 if observers else n) for n in range(batch)]
    handles = deque([me.observe(patterns[0], ignore) for _ in range(observers)])

    def add() -> None:
        handles.extend([me.observe(pattern, ignore) for pattern in patterns])

    def remove() -> None:
        for _ in range(batch):
            me.retract(handles.popleft())

    return add, remove


def query(facts: int) -> Operation:
    """Look up one fact by a field that the index knows."""
    core = _full(facts)
    core.watch(where(Reading, sid="nobody"))
    pattern = where(Reading, sid="s50")
    assert core.ds.facts(pattern) == (Reading("s50", 50),)
    return lambda: core.ds.facts(pattern)
