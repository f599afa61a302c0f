"""Engines as somebody writes them after the guide, and an observer whose engine serves as a compressor.

Settings name them as `tests.hermes_adapter.written:boot` and so on; the observer as `tests.hermes_adapter.written`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from dataspace import Facet
from engines.engine import serve
from engines.facts import Asked
from tests.hermes_adapter.fakes import Fake

__all__ = [
    "BOOT",
    "FACTORY",
    "NAME",
    "NOTE",
    "ONE",
    "UNBOOTED",
    "Needy",
    "boot",
    "factory",
    "for_one",
    "nothing",
    "unbooted",
]

NAME = "tests.hermes_adapter.written"
BOOT, FACTORY, ONE, UNBOOTED = (f"{NAME}:{name}" for name in ("written", "factory", "for_one", "unbooted"))
NOTE = "They counted parcels."


def work(_me: Facet, asked: Asked) -> list[dict[str, Any]]:
    """The first row, which in Hermes is a request, a word on what happened, and all from the latest request on."""
    rows = asked.messages.thaw()
    latest = max(at for at, row in enumerate(rows) if row["role"] == "user")
    return [*rows[:1], {"role": "assistant", "content": NOTE}, *rows[latest:]]


def written(me: Facet) -> None:
    """A boot function; it serves everybody, as in the guide."""
    serve(me, work)


def factory() -> Callable[[Facet], None]:
    """Makes boot functions, each with a count of its own."""
    asked_so_far: list[int] = []

    def counting(me: Facet) -> None:
        def counted(me: Facet, asked: Asked) -> list[dict[str, Any]]:
            asked_so_far.append(asked.n)
            note = {"role": "assistant", "content": f"asked {len(asked_so_far)} times"}
            return [row if row.get("content") != NOTE else copy.copy(note) for row in work(me, asked)]

        serve(me, counted)

    return counting


async def for_one(me: Facet) -> None:
    """An asynchronous boot function that ends by itself: nobody serves then."""
    serve(me, work)


def boot(_settings: Any, _of: Any) -> Callable[[Facet], None]:
    """The observer's: its engine serves every conversation of the process."""
    return written


def unbooted() -> int:
    """Gives nothing that could serve."""
    return 7


nothing = 7


class Needy(Fake):
    """A context engine that cannot be made without being told something."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what
