"""`--swap AT:OLD=NEW`: which engine makes room for which, and when."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from attrs import frozen

from .errors import BadInput

__all__ = ["Place", "Swap", "check_engine", "check_swaps", "parse_swap"]

_FORM = "it is AT:OLD=NEW, for example 120:compressor=compressor#b or c2:compressor="
_SWAP = re.compile(r"(?P<at>[^:]*):(?P<old>[^=]*)=(?P<new>[^=]*)")
_AT = re.compile(r"(?P<crossing>c?)(?P<number>[0-9]{1,12})", re.ASCII)
_ENGINE = re.compile(r"(?P<kind>[A-Za-z][\w-]*|(?P<own>[A-Za-z_][\w.]*:\w+))(#[\w.-]+)?", re.ASCII)


@frozen
class Place:
    """Just before a line of the file, or just before a crossing; both count from 1."""

    number: int
    crossing: bool = False

    def __str__(self) -> str:
        return f"c{self.number}" if self.crossing else str(self.number)


@frozen
class Swap:
    """Plug `new`, then unplug `old`; either may be missing, not both."""

    place: Place
    old: str | None
    new: str | None

    def __str__(self) -> str:
        return f"{self.place}:{self.old or ''}={self.new or ''}"


def parse_swap(text: str, kinds: Iterable[str]) -> Swap:
    """Read one `--swap`; raises `BadInput`, which lists the kinds of engines where one is unknown."""
    parts = _SWAP.fullmatch(text)
    if parts is None:
        raise BadInput(f"--swap {text!r} cannot be read; {_FORM}")
    at = _AT.fullmatch(parts["at"])
    if at is None or int(at["number"]) < 1:
        raise BadInput(f"--swap {text!r}: AT is a line of the file (from 1) or cN for crossing N, not {parts['at']!r}")
    old, new = parts["old"] or None, parts["new"] or None
    if old is None and new is None:
        raise BadInput(f"--swap {text!r} names no engine; {_FORM}")
    if old == new:
        raise BadInput(f"--swap {text!r} names one engine twice; a second instance has a name like {old}#b")
    for name in (old, new):
        if name is not None:
            check_engine(name, kinds, f"--swap {text!r}")
    return Swap(Place(int(at["number"]), bool(at["crossing"])), old, new)


def check_engine(name: str, kinds: Iterable[str], option: str) -> None:
    """Raise `BadInput` unless `name` is a kind of engine or `package.module:function`, or an instance of one (`kind#name`)."""
    kinds = sorted(kinds)
    parts = _ENGINE.fullmatch(name)
    if parts is None or (parts["own"] is None and parts["kind"] not in kinds):
        raise BadInput(
            f"{option}: there is no engine {name!r}; there are: {', '.join(kinds)} (a second instance: {kinds[0]}#b;"
            " one of your own: package.module:function)"
        )


def check_swaps(swaps: Sequence[Swap], engines: Sequence[str], length: int) -> None:
    """Raise `BadInput` for a line that the file does not have, or an engine that nobody ever plugs."""
    plugged = {*engines, *(swap.new for swap in swaps)}
    for swap in swaps:
        if not swap.place.crossing and swap.place.number > length:
            raise BadInput(f"--swap {str(swap)!r}: the file has {length} lines; choose one of them")
        if swap.old is not None and swap.old not in plugged:
            names = ", ".join(sorted(name for name in plugged if name))
            raise BadInput(f"--swap {str(swap)!r}: {swap.old} is never plugged; those that are: {names}")
