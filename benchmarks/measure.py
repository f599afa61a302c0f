"""How a row is measured: in turns with its reference, many times, judged by the best of both.

Times are processor time of this thread, so what else the machine does is not charged.  Noise only ever adds, so the best
of many short slices is what the work costs; the median is shown beside it.  Garbage collection stays on, as it is in use.
A row that misses its budget is measured again, up to three times: a busy machine makes one measurement slow, a slow
program all of them.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import repeat
from statistics import median
from time import thread_time
from typing import Any, ClassVar, Literal

from attrs import field, frozen

__all__ = ["Calls", "Memory", "Result", "Row", "Slice", "Surplus", "Times", "calls", "each", "settle", "weigh"]

SLICE = 0.001
"""Seconds that one slice is to take, where an operation is not longer."""
RETRIES = 3

Slice = Callable[[int], float]
"""Does something so many times and returns how many seconds that took; what it does around it is not counted."""
Unit = Literal["s", "B", "calls"]


@frozen
class Result:
    """What a row measured.  `ratio` is what is judged: ours to the reference, or to the budget where there is none."""

    name: str
    beside: str
    unit: Unit
    best: float
    median: float
    beside_best: float | None
    beside_median: float | None
    ratio: float
    budget: float

    @property
    def met(self) -> bool:
        """Is it within its budget?"""
        return self.ratio <= self.budget


@frozen
class Row(ABC):
    """A line of the table: what is measured, beside what, and what it may be at most."""

    name: str
    beside: str
    budget: float
    varies: ClassVar[bool] = False

    @abstractmethod
    def measure(self) -> Result:
        """Measure it once."""


def settle(row: Row) -> Result:
    """Measure a row; where times vary, the best of up to four attempts if the first one misses."""
    result = row.measure()
    for _ in range(RETRIES if row.varies else 0):
        if result.met:
            break
        result = min(result, row.measure(), key=lambda result: result.ratio)
    return result


# -- time -------------------------------------------------------------------------------------------------------------


def each(fn: Callable[[], object]) -> Slice:
    """The slice that calls `fn` again and again."""

    def run(number: int) -> float:
        times = repeat(None, number)
        start = thread_time()
        for _ in times:
            fn()
        return thread_time() - start

    return run


@frozen
class Times(Row):
    """Time of one operation, at most `budget` times that of the reference.

    `make` builds both anew for every measurement.  With `grace`, so many seconds are fine whatever the reference takes.
    """

    make: Callable[[], tuple[Slice, Slice]]
    rounds: int = field(default=60, kw_only=True)
    grace: float = field(default=0.0, kw_only=True)
    varies: ClassVar[bool] = True

    def measure(self) -> Result:
        """Take slices of both in turns."""
        ours, theirs = self.make()
        number, beside_number = _number(ours), _number(theirs)
        gc.collect()
        mine, others = [], []
        for _ in range(self.rounds):
            mine.append(ours(number) / number)
            others.append(theirs(beside_number) / beside_number)
        best, beside = min(mine), min(others)
        ratio = best / max(beside, self.grace)
        return Result(self.name, self.beside, "s", best, median(mine), beside, median(others), ratio, self.budget)


@frozen
class Surplus(Row):
    """What one operation takes more than that of the reference on the clock, at most `allowance` seconds.

    `make` builds both, as functions that do it once and return how many seconds it took.  What is judged is the
    difference at `quantile` (the median), as a share of the allowance.
    """

    make: Callable[[], tuple[Callable[[], float], Callable[[], float]]]
    allowance: float = field(kw_only=True)
    quantile: float = field(default=0.5, kw_only=True)
    rounds: int = field(default=60, kw_only=True)
    varies: ClassVar[bool] = True

    def measure(self) -> Result:
        """Do both in turns."""
        ours, theirs = self.make()
        ours()
        theirs()
        gc.collect()
        mine, others = [], []
        for _ in range(self.rounds):
            mine.append(ours())
            others.append(theirs())
        mine.sort()
        others.sort()
        at = min(int(self.rounds * self.quantile), self.rounds - 1)
        ratio = (mine[at] - others[at]) / self.allowance
        return Result(self.name, self.beside, "s", mine[0], mine[at], others[0], others[at], ratio, self.budget)


def _number(run: Slice) -> int:
    """How many operations fill a slice; warms up on the way."""
    number = 1
    while (took := run(number)) < SLICE / 4 and number < 1_000_000:
        number *= 4
    return max(1, round(number * SLICE / took)) if took > 0 else number


# -- calls ------------------------------------------------------------------------------------------------------------


def calls(fn: Callable[[], object]) -> int:
    """How many functions `fn` calls, built-in ones among them."""
    counted = -1  # what ends the counting is a call itself

    def note(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal counted
        counted += event in {"call", "c_call"}

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()  # a finalizer in between would be counted
    sys.setprofile(note)
    try:
        fn()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return counted


@frozen
class Calls(Row):
    """Function calls of one operation, at most `budget` times those of the reference."""

    make: Callable[[], tuple[Callable[[], object], Callable[[], object]]]

    def measure(self) -> Result:
        """Count both once, after a first time that does not count."""
        ours, theirs = self.make()
        ours()
        theirs()
        mine, others = calls(ours), calls(theirs)
        return Result(self.name, self.beside, "calls", mine, mine, others, others, mine / others, self.budget)


# -- memory -----------------------------------------------------------------------------------------------------------


def weigh(make: Callable[[], object]) -> int:
    """How many bytes what `make` returns and has caused to be kept takes up."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = make()
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
        del kept
    finally:
        tracemalloc.stop()
    return after - before


@frozen
class Memory(Row):
    """Bytes of one of many; `beside` says what is not counted."""

    make: Callable[[], float]

    def measure(self) -> Result:
        """Weigh once: memory does not vary."""
        size = self.make()
        return Result(self.name, self.beside, "B", size, size, None, None, size, self.budget)
