"""Engines, observers and plugins that do what nobody expects, for tests without the host.  `KEY` is in all that they say."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

from bridges.hermes.aides import Aide
from dataspace import Facet, where
from engines.engine import serve
from engines.facts import ShouldCompress
from tests.hermes_adapter.fakes import Fake, Rows

__all__ = ["KEY", "OLD_KEY"]

KEY, OLD_KEY = "hunter2hunter2", "swordfish-swordfish"
"""The key that the host gives, and the one that it gave before: neither looks like one."""


# -- engines that are not made ----------------------------------------------------------------------------------------


class ExitsInCopy(Fake):
    def __deepcopy__(self, memo: Any) -> Any:
        sys.exit(f"no licence for {KEY}")


class InterruptedInMaking(Fake):
    def __init__(self) -> None:
        raise KeyboardInterrupt(KEY)


class CancelledInMaking(Fake):
    def __init__(self) -> None:
        raise asyncio.CancelledError(KEY)


# -- engines that are hard to write down ------------------------------------------------------------------------------


class HoldsItself(Fake):
    """What is in its attributes has no end, and some of it is there twice."""

    def __init__(self) -> None:
        super().__init__()
        self.loop: list[Any] = [self.notes]
        self.loop.append(self.loop)
        self.book: dict[str, Any] = {"notes": self.notes, "who": {1}}
        self.book["book"] = self.book


class Busy(Fake):
    """A thread of its own goes on changing what is in its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[int, int] = {}
        self.over = threading.Event()
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        at = 0
        while not self.over.is_set():
            at += 1
            self.cache[at] = at
            self.cache.pop(at - 1000, None)


# -- engines that talk ------------------------------------------------------------------------------------------------


class Talks(Fake):
    """Says the keys wherever it can."""

    def compress(self, messages: Rows, **_more: Any) -> Any:  # type: ignore[override]
        self._last_summary_error = f"used up: {OLD_KEY}, {KEY}"
        if Fake.plan is not None:
            return Fake.plan(self, messages, {})
        raise ValueError(f"{OLD_KEY} was refused, and so was {KEY}")

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        raise OSError(f"cannot ask with {KEY}")

    def get_status(self) -> dict[str, Any]:
        return {
            "api_key": KEY,
            "at": f"https://host/?key={KEY}",
            "all": [{"key": KEY, "api_key": 1}],
            "last": (OLD_KEY,),
        }


class Leaky(list[Any]):
    """A list that says a key to whoever looks into it."""

    def __iter__(self) -> Any:
        raise ValueError(f"not without {KEY}")


# -- engines of the dataspace that leave ------------------------------------------------------------------------------


def exits_in_boot(_me: Facet) -> None:
    sys.exit("boot")


def exits_in_work(me: Facet) -> None:
    serve(me, lambda _me, _asked: sys.exit("work"))


def exits_in_a_callback(me: Facet) -> None:
    me.observe(where(ShouldCompress), appeared=lambda _fact: sys.exit("callback"))


async def exits_in_a_task(_me: Facet) -> None:
    sys.exit("task")


# -- parts of observers -----------------------------------------------------------------------------------------------


def generated(_settings: Any) -> Any:
    """Tools that end in an error."""
    yield {"name": "one", "description": "", "parameters": {}}
    raise ValueError("no more tools")


class Leaves(Aide):
    """Every part of it ends the program."""


def _leaves(name: str) -> Callable[..., Any]:
    def part(_self: Any, *_args: Any) -> Any:
        sys.exit(name)

    return part


for _name in [name for name in vars(Aide) if not name.startswith("_")]:
    setattr(Leaves, _name, _leaves(_name))
