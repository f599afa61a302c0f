"""What values in a trace share: each part is written once, and a value as the numbers of its parts.

A conversation that grows by a message is a value of its own at every step, in what was done and again in what was told.
Written out each time, a trace would grow with the square of the conversation.  So a turn brings the parts that no turn
before it had, under `parts`, and a value names runs of parts: `{"messages": [[0, 57], [61, 2]]}` are 57 parts from
number 0 on and two from number 61 on.  Numbers are given in the order of the file, from 0, for each kind of value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from attrs import evolve

from ._wire_values import Value, WireError, exact, guarded, inside, shown
from .wire import Wire

__all__ = ["Reader", "Writer"]

Runs = tuple[tuple[int, int], ...]

PARTS, VALUES = 50_000, 1_000
"""So many are remembered to find them fast; what is forgotten is slower to find, and then is another object when read."""


class Writer:
    """Gives a wire that writes values by their parts, and tells which parts are new."""

    def __init__(self, wire: Wire) -> None:
        self._tables = {value.name: _Written(value.name) for value in wire.shared}
        self.wire = wire.replaced([evolve(value, dump=self._tables[value.name].runs) for value in wire.shared])

    def new(self) -> dict[str, list[Any]]:
        """The parts that were first used since this was called last, by the name of the kind of value."""
        return {name: taken for name, table in self._tables.items() if (taken := table.take())}

    def dump(self, value: Any) -> Any:
        """What the wire gives; where it fails, no part counts as written for it."""
        before = [(table, table.count) for table in self._tables.values()]
        try:
            return self.wire.dump_value(value)
        except WireError:
            for table, count in before:
                table.back_to(count)
            raise


class _Written:
    """The parts of one kind that were written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._numbers: dict[str, int] = {}  # by their text: equal values that are written differently are two parts
        self._new: list[Any] = []
        self._parts: dict[int, tuple[Any, int]] = {}  # by identity, with what has it, so that it stays theirs
        self._values: dict[int, tuple[Any, Runs]] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._numbers)

    def runs(self, value: Iterable[Any]) -> Runs:
        """The numbers of its parts."""
        known = self._values.get(id(value))
        if known is not None:
            return known[1]
        runs: list[tuple[int, int]] = []
        for number in map(self._number, value):
            if runs and sum(runs[-1]) == number:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((number, 1))
        found = tuple(runs)
        _keep(self._values, id(value), (value, found), VALUES)
        return found

    def take(self) -> list[Any]:
        """Those that are new."""
        taken, self._new = self._new, []
        return taken

    def back_to(self, count: int) -> None:
        """Forget the newest, until so many are left; they were not taken yet."""
        gone = self.count - count
        if gone:
            del self._new[-gone:]
            self._numbers = {text: number for text, number in self._numbers.items() if number < count}
            self._parts.clear()
            self._values.clear()

    def _number(self, part: Any) -> int:
        known = self._parts.get(id(part))
        if known is not None:
            return known[1]
        try:
            text = json.dumps(part, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise WireError(f"this cannot be written as JSON: {error}") from None
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._numbers)
            self._new.append(part)
        _keep(self._parts, id(part), (part, number), PARTS)
        return number


class Reader:
    """Takes the parts as they come, and gives a wire that reads values made of them."""

    def __init__(self, wire: Wire) -> None:
        self._tables = {value.name: _Read(value) for value in wire.shared}
        self.wire = wire.replaced([evolve(value, load=self._tables[value.name].value) for value in wire.shared])

    def take(self, data: Any) -> None:
        """The parts that a turn brings; raises `WireError`."""
        for name, parts in exact(data, dict).items():
            table = self._tables.get(name)
            if table is None:
                known = ", ".join(sorted(self._tables)) or "none"
                raise WireError(f"the vocabulary has no values with parts that are called {name!r}; it has: {known}")
            inside(f".{name}", table.take, parts)


class _Read:
    """The parts of one kind that were read."""

    def __init__(self, value: Value) -> None:
        self._load, self._part = value.load, value.part
        self._parts: list[Any] = []
        self._values: dict[Runs, Any] = {}

    def take(self, parts: Any) -> None:
        """More of them."""
        assert self._part is not None
        for at, part in enumerate(exact(parts, list)):
            self._parts.append(inside(f"[{at}]", guarded, self._part, part))

    def value(self, data: Any) -> Any:
        """The value that has these; the same one as before where they are the same."""
        runs = tuple([inside(f"[{at}]", self._run, run) for at, run in enumerate(exact(data, list))])
        found = self._values.get(runs)
        if found is None:
            parts = [part for first, length in runs for part in self._parts[first : first + length]]
            found = self._load(parts)
            _keep(self._values, runs, found, VALUES)
        return found

    def _run(self, run: Any) -> tuple[int, int]:
        if type(run) is not list or len(run) != 2 or not all(type(number) is int for number in run):
            raise WireError(f"the number of a part and how many are wanted here, not {shown(run)}")
        first, length = run
        if first < 0 or length < 1 or first + length > len(self._parts):
            raise WireError(f"there are {len(self._parts)} parts so far, and no {length} from number {first} on")
        return first, length


def _keep(known: dict[Any, Any], key: Any, what: Any, most: int) -> None:
    if len(known) >= most:
        known.clear()
    known[key] = what
