"""What facts and observers weigh, the objects of the user not counted.

How facts share their constants makes a difference, so several ways are weighed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dataspace import CAPTURE, Facet, Pattern, where

from .measure import Memory, Row, weigh
from .scenes import Core, Note, Ping, Reading, ignore

__all__ = ["ROWS", "per_fact", "per_observer"]

COUNT = 10_000

ALONE = where(Reading, n=-1)
BY_SID = where(Reading, sid="nobody")
BY_BOTH = where(Reading, sid="nobody", n=-1)
SHARED = where(Reading, m=-1)


def per_fact(patterns: Sequence[Pattern[Any]], crowd: int = 1) -> float:
    """Bytes of a standing fact where each of `patterns` is a shape; as many as `crowd` facts have the same `m`."""
    facts = [Reading(f"s{n}", n + 1000, n // crowd) for n in range(COUNT)]
    core = Core()
    for pattern in patterns:
        core.watch(pattern)
    return weigh(lambda: [core.publisher.publish(fact) for fact in facts]) / COUNT


def _with_observers() -> float:
    """Bytes of a fact where each has an observer of its own already."""
    facts = [Reading(f"s{n}", n) for n in range(COUNT)]
    core = Core()
    for fact in facts:
        core.watch(where(Reading, sid=fact.sid))
    return weigh(lambda: [core.publisher.publish(fact) for fact in facts]) / COUNT


def _in_one_turn() -> float:
    """Bytes of a fact where one turn publishes all."""
    facts = [Reading(f"s{n}", n) for n in range(COUNT)]
    core = Core()
    core.watch(BY_SID)

    def publish() -> list[object]:
        with core.publisher.turn():
            return [core.publisher.publish(fact) for fact in facts]

    return weigh(publish) / COUNT


def per_observer(
    pattern: Callable[[int], Pattern[Any]], observe: Callable[[Facet, Pattern[Any]], object] | None = None
) -> float:
    """Bytes of an observer; `pattern` gives the pattern of the one with that number."""
    patterns = [pattern(number) for number in range(COUNT)]
    me = Core().observer
    watch = observe or (lambda me, pattern: me.observe(pattern, ignore))
    return weigh(lambda: [watch(me, each) for each in patterns]) / COUNT


def _body(_me: Facet, _fact: Any) -> None:
    pass


def _further(before: Sequence[Pattern[Any]], more: Pattern[Any], crowd: int = 1) -> float:
    return per_fact([*before, more], crowd) - per_fact(before, crowd)


def _fact(name: str, make: Callable[[], float]) -> Memory:
    return Memory(f"a standing fact, {name}", "without the fact", 400, make)


def _shape(name: str, make: Callable[[], float]) -> Memory:
    return Memory(f"per further shape, {name}", "", 100, make)


def _observer(name: str, pattern: Callable[[int], Pattern[Any]], observe: Any = None) -> Memory:
    return Memory(f"an observer, {name}", "without pattern", 700, lambda: per_observer(pattern, observe))


ROWS: list[Row] = [
    _fact("one shape", lambda: per_fact([ALONE])),
    _fact("pairs share a constant", lambda: per_fact([SHARED], 2)),
    _fact("tens share it", lambda: per_fact([SHARED], 11)),
    _fact("all share it", lambda: per_fact([SHARED], COUNT)),
    _fact("each has its observer", _with_observers),
    _fact("all in one turn", _in_one_turn),
    _shape("one field", lambda: _further([ALONE], BY_SID)),
    _shape("two fields", lambda: _further([ALONE, BY_SID], BY_BOTH)),
    _shape("pairs share a constant", lambda: _further([ALONE], SHARED, 2)),
    _observer("one literal", lambda n: where(Ping, n=n)),
    _observer("two literals", lambda n: where(Reading, sid="s", n=n)),
    _observer("with a capture", lambda n: where(Note, sid=CAPTURE, n=n)),
    _observer("`during`", lambda n: where(Ping, n=n), lambda me, pattern: me.during(pattern, _body)),
]
