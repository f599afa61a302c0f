"""What is to be taken in of a session, and what is to be written of it, in order, and off the event loop's thread."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from attrs import Factory, define, field

from dataspace import Pattern, where
from engines.facts import Session

from .memory import Memory

__all__ = ["Known", "take_in"]

_MANY = 20  # facts that wait before somebody takes them in without being asked
log = logging.getLogger("engines.snapshotter")
Piece = Callable[[], object]


@define(eq=False)
class Known:
    """One session: its memory, what waits to be taken into it, and what waits to be done with it.

    The memory is touched by one job at a time, in a worker thread; all else belongs to the dataspace's thread.
    """

    memory: Memory
    sessions: Pattern[Session] = field(
        default=Factory(lambda self: where(Session, sid=self.memory.sid), takes_self=True), init=False, repr=False
    )
    """What finds the `Session` of this conversation."""
    running: bool = False
    _named: str = ""
    _waiting: list[Piece] = field(factory=list)
    _jobs: deque[Callable[[], Awaitable[object]]] = field(factory=deque)

    def named(self, host_session: str | None) -> None:
        """The host calls it so from now on."""
        if host_session and host_session != self._named:
            self._named = host_session
            self.put(lambda: self.memory.named(host_session))

    def put(self, *pieces: Piece) -> None:
        """Have these taken in before whatever is done next."""
        self._waiting.extend(pieces)

    @property
    def full(self) -> bool:
        """Whether so much waits that it should be taken in now."""
        return len(self._waiting) >= _MANY

    def intake(self) -> Piece:
        """What takes in all that waits; nothing waits then."""
        pieces, self._waiting = self._waiting, []

        def take() -> None:  # not a partial: whoever names what runs in a thread would write all of it out
            take_in(pieces)

        return take

    def add(self, job: Callable[[], Awaitable[object]]) -> bool:
        """Have a job done after those before it; True: nobody is at it, so `run` is to be run."""
        self._jobs.append(job)
        started, self.running = not self.running, True
        return started

    async def run(self) -> None:
        """Do the jobs, one after the other."""
        try:
            while self._jobs:
                await self._jobs.popleft()()
        finally:
            self.running = False


def take_in(pieces: Iterable[Piece]) -> None:
    """Take facts into a memory; what cannot be taken in is left out, and the rest is kept."""
    for piece in pieces:
        try:
            piece()
        except Exception:
            log.exception("a fact cannot be taken into a snapshot")
