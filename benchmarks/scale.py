"""What does not concern an operation costs it nothing: ten thousand others beside one, or none."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import thread_time

from .measure import Calls, Row, Slice, Times, each
from .scenes import BYSTANDERS, Operation, leave, message_with, observe_again, publish_with, query

__all__ = ["MANY", "ROWS"]

MANY = 10_000
BATCH = 100
IN_TIME, IN_CALLS = 1.2, 1.05


def _timed(scene: Callable[[int], Operation], few: int, many: int) -> Callable[[], tuple[Slice, Slice]]:
    return lambda: (each(scene(many)), each(scene(few)))


def _counted(scene: Callable[[int], Operation]) -> Callable[[], tuple[Operation, Operation]]:
    return lambda: (scene(MANY), scene(0))


def _bystanders() -> list[Row]:
    rows: list[Row] = []
    for kind in BYSTANDERS:
        for verb, scene in (("publish+retract", publish_with), ("message", message_with)):
            name = f"{verb}, {MANY:,} others ({kind})"
            this = partial(scene, kind)
            rows += [
                Times(name, "none of them", IN_TIME, _timed(this, 0, MANY)),
                Calls(name, "none of them", IN_CALLS, _counted(this)),
            ]
    return rows


def _leaving(observers: int) -> Slice:
    add, remove = leave(observers, BATCH)

    def run(number: int) -> float:
        took, batches = 0.0, -(-number // BATCH)
        for _ in range(batches):
            add()
            start = thread_time()
            remove()
            took += thread_time() - start
        return took / batches / BATCH * number

    return run


ROWS: list[Row] = [
    *_bystanders(),
    Times(f"add+remove an observer, {MANY:,} facts", "one fact", 2, _timed(observe_again, 1, MANY)),
    Times(f"remove one of {MANY:,} equal observers", "only ones", 2, lambda: (_leaving(MANY), _leaving(0))),
    Times(f"ds.facts(where(...)), {MANY:,} facts", "100 facts", 2, _timed(query, 100, MANY)),
]
