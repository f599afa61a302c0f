"""A dataspace in which every actor has an inbox of its own, and somebody else says who reads next.

The usual dataspace has one queue.  What the rules promise is less: each receiver handles events in the order in which
they were committed (R4).  Here is everything that promise leaves open.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from .._actions import CALL, Cause
from .._crash import Crashed
from .._dataspace import Dataspace
from .._facet import Facet
from .._state import State

__all__ = ["Inboxes", "Letter"]


class Letter(NamedTuple):
    """One delivery to one observer, or a function to be run as a turn of an actor."""

    serial: int
    kind: str
    to: Any
    args: tuple[Any, ...]
    cause: Cause | None

    @property
    def live(self) -> bool:
        """Would anything be called?  What is addressed to a stopped lifetime is no turn."""
        return self.to.state is State.ALIVE


class Inboxes(Dataspace):
    """Works like any other dataspace until `hold` is called; from then on nothing is handled before `read` says so."""

    def __init__(self, on_crash: Callable[[Crashed, BaseException], object]) -> None:
        super().__init__(on_crash=on_crash)
        self._held = False
        self._serials = count(1)
        self._inboxes: dict[str, deque[Letter]] = {}
        self.onlookers: set[str] = set()

    def hold(self) -> None:
        """From now on deliveries wait in the inboxes of their actors."""
        self._held = True

    def prompt(self, name: str) -> Facet:
        """An actor that handles what it is told at once, always: it only looks on, and is no choice."""
        self.onlookers.add(name)
        return self.actor(name)

    def waiting(self) -> list[str]:
        """The actors that have something to handle, in the order in which the usual dataspace would go on."""
        heads = []
        for name, inbox in self._inboxes.items():
            while inbox and not inbox[0].live:
                inbox.popleft()
            if inbox:
                heads.append((inbox[0].serial, name))
        return [name for _, name in sorted(heads)]

    def inbox(self, name: str) -> list[Letter]:
        """What an actor is going to handle, next first."""
        return [letter for letter in self._inboxes.get(name, ()) if letter.live]

    def read(self, name: str) -> None:
        """Have an actor handle its next delivery: one callback, one turn."""
        self.waiting()
        self._left = self._max_turns
        _, kind, to, args, cause = self._inboxes[name].popleft()
        self._deliver(kind, (to,), args, cause)
        self._drain()

    def _drain(self) -> None:
        if not self._held:
            super()._drain()
        elif not self._draining:
            self._draining = True
            try:
                while self._queue:
                    self._sort(*self._queue.popleft())
            finally:
                self._draining = False

    def _sort(self, kind: str, observers: tuple[Any, ...], args: tuple[Any, ...], cause: Cause | None) -> None:
        for observer in observers:
            name = observer.facet.actor.name
            if name in self.onlookers:
                self._deliver(kind, (observer,), args, cause)
            elif kind is CALL or getattr(observer, kind) is not None:
                letter = Letter(next(self._serials), kind, observer, args, cause)
                self._inboxes.setdefault(name, deque()).append(letter)
