"""What the tests of the dataspace's rules share: two classes of facts, observers that write down, crashes that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import field, frozen

from dataspace import Crashed, Dataspace, Facet, Handle

__all__ = ["Boom", "Crashes", "Fact", "Holder", "failing_turn", "listen", "make"]


class Boom(Exception):
    """What fails in these tests."""


@frozen
class Fact:
    """A fact with an identity, `x`, and a reading, `r`."""

    x: object
    r: int = field(default=0, eq=False)


@frozen
class Holder:
    """A fact that may hold another."""

    inner: object
    y: object = 0


class Crashes(list[tuple[Crashed, BaseException]]):
    """An `on_crash` that keeps what it is told."""

    def __call__(self, crash: Crashed, error: BaseException) -> None:
        self.append((crash, error))

    @property
    def actors(self) -> list[str]:
        return [crash.actor for crash, _ in self]


def make(**options: Any) -> tuple[Dataspace, Crashes]:
    """A dataspace, and the list of what crashes in it."""
    crashes = Crashes()
    return Dataspace(on_crash=crashes, **options), crashes


@contextmanager
def failing_turn(me: Facet) -> Iterator[None]:
    """A turn of `me`, or a savepoint, that raises at its end."""
    with pytest.raises(Boom), me.turn():
        yield
        raise Boom


def listen(me: Facet, pattern: Any, log: list[Any], *, who: str = "", once: bool = False) -> Handle:
    """Observe and write down: `("+", fact)`, `("-", fact)`, `("!", message)`; with `who`, that comes first."""
    before = (who,) if who else ()

    def note(sign: str) -> Any:
        return lambda *args: log.append((*before, sign, *args))

    return me.observe(pattern, appeared=note("+"), vanished=note("-"), heard=note("!"), once=once)
