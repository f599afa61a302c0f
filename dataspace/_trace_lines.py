"""Turns as JSON lines: a header that names format and version, then one turn a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import frozen

from ._turn_data import Action, Told, Turn
from .wire import Wire, WireError

__all__ = ["VERSION", "Opaque", "dump_turns", "load_turns"]

VERSION = 1
_FORMAT = "hermes-dataspace trace"
_KEYS = {"n", "cause", "actor", "at", "actions", "told"}


@frozen
class Opaque:
    """Stands in a trace that was read for a value which the vocabulary has no words for."""

    text: str


def dump_turns(turns: Iterable[Turn], wire: Wire) -> Iterator[str]:
    """The lines of a trace file, each with its line end."""
    yield json.dumps({"trace": _FORMAT, "version": VERSION}) + "\n"
    for turn in turns:
        yield (
            json.dumps(
                {
                    "n": turn.n,
                    "cause": turn.cause,
                    "actor": turn.actor,
                    "at": turn.at,
                    "actions": [[a.name, a.handle, _dump(a.what, wire)] for a in turn.actions],
                    "told": [[t.kind, list(t.to), [_dump(value, wire) for value in t.args]] for t in turn.told],
                }
            )
            + "\n"
        )


def load_turns(lines: Iterable[str], wire: Wire) -> Iterator[Turn]:
    """The turns in `lines`; raises `WireError`, whose path begins with the line, for what is no trace of this version."""
    numbered = enumerate(lines, 1)
    _check_header(next(numbered, (1, ""))[1])
    for number, line in numbered:
        if line.strip():
            try:
                yield _load_turn(_parse(line), wire)
            except WireError as error:
                raise error.inside(f"line {number}") from None


def _check_header(line: str) -> None:
    try:
        header = _parse(line)
    except WireError:
        header = None
    if not isinstance(header, dict) or header.get("trace") != _FORMAT:
        raise WireError("this is no trace: the first line does not say so", "$line 1")
    if header.get("version") != VERSION:
        raise WireError(f"version {header.get('version')!r} of the format cannot be read, {VERSION} can", "$line 1")


def _parse(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {error}") from None


def _dump(value: Any, wire: Wire) -> Any:
    try:
        return wire.dump_value(value)
    except WireError:
        return {"opaque": repr(value)}


def _load(data: Any, wire: Wire) -> Any:
    if isinstance(data, dict) and data.keys() == {"opaque"}:
        return Opaque(str(data["opaque"]))
    return wire.load_value(data)


def _load_turn(data: Any, wire: Wire) -> Turn:
    if not isinstance(data, dict) or data.keys() != _KEYS:
        raise WireError(f"a turn is an object with the keys {', '.join(sorted(_KEYS))}")
    try:
        actions = tuple([_load_action(item, wire) for item in data["actions"]])
        told = tuple([_load_told(item, wire) for item in data["told"]])
    except (TypeError, ValueError) as error:
        if isinstance(error, WireError):
            raise
        raise WireError(f"not a turn: {error}") from None
    return Turn(data["n"], data["cause"], data["actor"], actions, told, data["at"])


def _load_action(item: Any, wire: Wire) -> Action:
    name, handle, what = item
    return Action(name, _load(what, wire), handle)


def _load_told(item: Any, wire: Wire) -> Told:
    kind, to, args = item
    return Told(kind, tuple(to), tuple([_load(value, wire) for value in args]))
