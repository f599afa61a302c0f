"""Ten thousand live conversations in one process: what a response costs, what a conversation weighs.

Engines of all roles serve, as they would; the responses go round all conversations.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

from dataspace import Dataspace, Facet
from engines import Loop, Messages, Policy, serve
from engines.facts import Asked
from engines.loop.events import SessionStarted, TranscriptReplaced, UsageRead

from .measure import Memory, Row, Slice, Times, each, weigh

__all__ = ["FEW", "MANY", "ROWS", "begin", "cross", "hall", "respond"]

FEW, MANY = 10, 10_000
WEIGHED = 2_500  # enough for what each weighs, and quicker: counting bytes is slow
ROLES = ("compressor", "reviser", "shadow")
THRESHOLD = 1_000
TALK = [{"role": role, "content": "Hello again. " * 20} for _ in range(5) for role in ("user", "assistant")]
LONG = Messages.of([{"role": "system", "content": "Be kind."}, *TALK, {"role": "user", "content": "Go on."}])
SHORT = Messages.of([LONG[0], LONG[-1]])


def _work(_me: Facet, asked: Asked) -> Messages | None:
    return None if asked.role == "reviser" else SHORT


def _boot(me: Facet, role: Any) -> None:
    serve(me, _work, role=role)


def hall() -> Loop:
    """A loop without conversations, and engines that serve."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), Policy(guards=False), clock=lambda: 0.0)
    for role in ROLES:
        ds.spawn(_boot, role, name=role)
    return loop


def begin(loop: Loop, sessions: int) -> Loop:
    """So many conversations more, each with a reading."""
    for n in range(sessions):
        loop.feed(SessionStarted(f"s{n}", threshold=THRESHOLD, messages=LONG))
        loop.feed(UsageRead(f"s{n}", {"prompt_tokens": 500, "completion_tokens": 50, "total_tokens": 550}))
    return loop


def respond(sessions: int) -> Callable[[], None]:
    """A response in one of so many conversations after the other."""
    loop = begin(hall(), sessions)
    sids = cycle([f"s{n}" for n in range(sessions)])
    usage = {"prompt_tokens": 700, "completion_tokens": 70, "total_tokens": 770}
    return lambda: loop.feed(UsageRead(next(sids), usage))


def cross(sessions: int) -> Callable[[], None]:
    """A response that crosses the threshold in one of so many conversations after the other, and its compaction."""
    loop = begin(hall(), sessions)
    sids = cycle([f"s{n}" for n in range(sessions)])

    def operate() -> None:
        sid = next(sids)
        loop.feed(TranscriptReplaced(sid, LONG))
        loop.feed(UsageRead(sid, {"prompt_tokens": 2 * THRESHOLD}))
        assert len(loop.state(sid).messages) == len(SHORT)

    return operate


def _at_many(scene: Callable[[int], Callable[[], None]]) -> Callable[[], tuple[Slice, Slice]]:
    return lambda: (each(scene(MANY)), each(scene(FEW)))


def _weight() -> float:
    loop = hall()
    return weigh(lambda: begin(loop, WEIGHED)) / WEIGHED


ROWS: list[Row] = [
    Times(f"a response, {MANY:,} live sessions", f"{FEW} sessions", 1.5, _at_many(respond)),
    Times(f"a response that crosses, {MANY:,} live sessions", f"{FEW} sessions", 1.5, _at_many(cross)),
    Memory("a live session", "without messages", 6 * 1024, _weight),
]
