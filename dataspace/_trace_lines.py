"""Turns as JSON lines: a header that names format and version, then one turn a line.

In version 2 a turn brings the parts of values that are new with it, and values name them by number (see
`_trace_parts`); in version 1 every value was written out.  Both can be read, the newer one is written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from attrs import frozen

from ._trace_parts import Reader, Writer
from ._turn_data import Action, Told, Turn
from ._wire_values import exact, inside, short, shown
from .wire import Wire, WireError

__all__ = ["VERSION", "Opaque", "dump_turns", "load_turns"]

T = TypeVar("T")

VERSION = 2
_WHOLE = 1  # the version in which values stand whole
_FORMAT = "hermes-dataspace trace"
_KEYS = ("n", "cause", "actor", "at", "actions", "told")
_ACTIONS = frozenset("publish retract observe unobserve send spawn later task stop crash note".split())
_KINDS = frozenset({"appeared", "vanished", "heard"})


@frozen
class Opaque:
    """Stands in a trace that was read for a value which the vocabulary has no words for."""

    text: str


def dump_turns(turns: Iterable[Turn], wire: Wire) -> Iterator[str]:
    """The lines of a trace file, each with its line end.

    Raises `WireError`, whose path begins with the line, for what could not be read back: a time that is no number.
    """
    yield _line({"trace": _FORMAT, "version": VERSION})
    writer = Writer(wire)
    for number, turn in enumerate(turns, 2):
        yield inside(f"line {number}", _dump_turn, turn, writer)


def load_turns(lines: Iterable[str], wire: Wire) -> Iterator[Turn]:
    """The turns in `lines`; raises `WireError`, whose path begins with the line, for what is no trace of a version that is known."""
    numbered = enumerate(lines, 1)
    whole = _version(next(numbered, (1, ""))[1]) == _WHOLE
    reader = Reader(wire)
    for number, line in numbered:
        if line.strip():
            yield inside(f"line {number}", _load_line, line, wire if whole else reader)


def _line(data: Any) -> str:
    try:
        return json.dumps(data, allow_nan=False) + "\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(f"this cannot be written as JSON: {error}") from None


def _dump_turn(turn: Turn, writer: Writer) -> str:
    data = {
        "n": turn.n,
        "cause": turn.cause,
        "actor": turn.actor,
        "at": inside(".at", _dump_time, turn.at),
        "actions": [[a.name, a.handle, _dump(a.what, writer)] for a in turn.actions],
        "told": [[t.kind, list(t.to), [_dump(value, writer) for value in t.args]] for t in turn.told],
    }
    parts = writer.new()
    return _line({**data, "parts": parts} if parts else data)


def _dump_time(at: Any) -> Any:
    if at is None or type(at) is int or (isinstance(at, float) and math.isfinite(at)):
        return at
    raise WireError(
        f"{short(at)} is no time; the clock given to recording(ds, clock=...) has to return seconds as a finite number,"
        " as time.monotonic does"
    )


def _version(line: str) -> int:
    try:
        header = _parse(line)
    except WireError:
        header = None
    if not isinstance(header, dict) or header.get("trace") != _FORMAT:
        raise WireError("this is no trace: the first line does not say so", "$line 1")
    version = header.get("version")
    if type(version) is not int or version not in {_WHOLE, VERSION}:
        raise WireError(f"version {shown(version)} of the format cannot be read, {_WHOLE} and {VERSION} can", "$line 1")
    return version


def _parse(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {error}") from None


def _dump(value: Any, writer: Writer) -> Any:
    if isinstance(value, Opaque):
        return {"opaque": value.text}
    try:
        return writer.dump(value)
    except WireError:
        return {"opaque": repr(value)}


def _load(data: Any, wire: Wire) -> Any:
    if isinstance(data, dict) and data.keys() == {"opaque"}:
        return Opaque(inside(".opaque", exact, data["opaque"], str))
    return wire.load_value(data)


def _load_line(line: str, by: Wire | Reader) -> Turn:
    data = _parse(line)
    if isinstance(by, Wire):
        return _load_turn(data, by)
    if isinstance(data, dict) and "parts" in data:
        inside(".parts", by.take, data.pop("parts"))
    return _load_turn(data, by.wire)


def _load_turn(data: Any, wire: Wire) -> Turn:
    if not isinstance(data, dict) or set(data) != set(_KEYS):
        raise WireError(f"a turn is an object with the keys {', '.join(_KEYS)}")
    return Turn(
        inside(".n", exact, data["n"], int),
        inside(".cause", _or_none, data["cause"], int),
        inside(".actor", exact, data["actor"], str),
        inside(".actions", _each, data["actions"], lambda item: _load_action(item, wire)),
        inside(".told", _each, data["told"], lambda item: _load_told(item, wire)),
        inside(".at", _load_time, data["at"]),
    )


def _load_time(data: Any) -> Any:
    if type(data) is float and not math.isfinite(data):
        raise WireError(f"a time is wanted here, not {data!r}")
    return data if type(data) is int else _or_none(data, float)


def _load_action(item: Any, wire: Wire) -> Action:
    name, handle, what = _three(item)
    return Action(
        inside("[0]", _one_of, _ACTIONS, name),
        inside("[2]", _load, what, wire),
        inside("[1]", _or_none, handle, int),
    )


def _load_told(item: Any, wire: Wire) -> Told:
    kind, to, args = _three(item)
    return Told(
        inside("[0]", _one_of, _KINDS, kind),
        inside("[1]", _each, to, lambda name: exact(name, str)),
        inside("[2]", _each, args, lambda value: _load(value, wire)),
    )


def _each(data: Any, load: Callable[[Any], T]) -> tuple[T, ...]:
    return tuple([inside(f"[{i}]", load, item) for i, item in enumerate(exact(data, list))])


def _three(data: Any) -> list[Any]:
    if type(data) is not list or len(data) != 3:
        raise WireError(f"a list of 3 is wanted here, not {shown(data)}")
    return data


def _or_none(data: Any, cls: type) -> Any:
    return None if data is None else exact(data, cls)


def _one_of(names: frozenset[str], data: Any) -> str:
    if type(data) is not str or data not in names:
        raise WireError(f"one of {', '.join(sorted(names))} is wanted here, not {shown(data)}")
    return data
