"""The dataspace beside the least that could do the same: a dict of prebuilt facts and two callbacks."""

from __future__ import annotations

from collections.abc import Callable

import blinker

from .measure import Row, Slice, Times, each
from .scenes import PING, ignore, message_to, publish_during, publish_with

__all__ = ["ROWS", "floor"]

RECEIVERS = 1000


def floor() -> Slice:
    """Put a fact into a dict, tell somebody, take it out, tell somebody."""
    standing: dict[object, int] = {}
    fact, appeared, vanished = PING, ignore, ignore

    def operate() -> None:
        standing[fact] = 1
        appeared(fact)
        del standing[fact]
        vanished(fact)

    return each(operate)


def _above_floor(name: str, budget: float, operation: Callable[[], Callable[[], object]]) -> Times:
    return Times(name, "the floor: a dict", budget, lambda: (each(operation()), floor()))


def _receivers() -> tuple[Slice, Slice]:
    signal = blinker.Signal()
    heard = [lambda _message: None for _ in range(RECEIVERS)]  # kept: the signal refers to them weakly
    for receiver in heard:
        signal.connect(receiver)

    def send(_kept: object = heard) -> None:
        signal.send(PING)

    return each(message_to(RECEIVERS)), each(send)


ROWS: list[Row] = [
    _above_floor("publish+retract, one observer", 10, lambda: publish_with("literals", 0)),
    _above_floor("the same in two explicit turns", 18, lambda: publish_with("literals", 0, turns=True)),
    _above_floor("publish+retract, `during` publishes", 30, publish_during),
    Times(f"message to {RECEIVERS:,} observers", "blinker", 0.6, _receivers),
]
