"""Ten thousand live conversations in one process: what a response costs, what a conversation weighs.

Engines of all roles serve, as they would; the responses go round all conversations.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

from dataspace import Dataspace, Facet
from engines import Loop, Messages, serve
from engines.facts import Asked
from engines.loop.events import SessionStarted, UsageRead

from .measure import Memory, Row, Slice, Times, each, weigh

__all__ = ["FEW", "MANY", "ROWS", "hall", "respond"]

FEW, MANY = 10, 10_000
ROLES = ("compressor", "reviser", "shadow")
THRESHOLD = 100_000
MESSAGES = Messages.of([{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello."}])


def _work(_me: Facet, _asked: Asked) -> Messages:
    return MESSAGES


def _boot(me: Facet, role: Any) -> None:
    serve(me, _work, role=role)


def hall() -> Loop:
    """A loop without conversations, and engines that serve."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), clock=lambda: 0.0)
    for role in ROLES:
        ds.spawn(_boot, role, name=role)
    return loop


def begin(loop: Loop, sessions: int) -> Loop:
    """So many conversations more, each with a reading."""
    for n in range(sessions):
        loop.feed(SessionStarted(f"s{n}", threshold=THRESHOLD, messages=MESSAGES))
        loop.feed(UsageRead(f"s{n}", {"prompt_tokens": 500, "completion_tokens": 50, "total_tokens": 550}))
    return loop


def respond(sessions: int) -> Callable[[], None]:
    """A response in one of so many conversations after the other."""
    loop = begin(hall(), sessions)
    sids = cycle([f"s{n}" for n in range(sessions)])
    usage = {"prompt_tokens": 700, "completion_tokens": 70, "total_tokens": 770}
    return lambda: loop.feed(UsageRead(next(sids), usage))


def _responses() -> tuple[Slice, Slice]:
    return each(respond(MANY)), each(respond(FEW))


def _weight() -> float:
    loop = hall()
    return weigh(lambda: begin(loop, MANY)) / MANY


ROWS: list[Row] = [
    Times(f"a response, {MANY:,} live sessions", f"{FEW} sessions", 1.5, _responses),
    Memory("a live session", "without messages", 6 * 1024, _weight),
]
