"""The loop under trio: a task that wakes it when a deadline, a pause or a retry is due, and waiting for a decision."""

from __future__ import annotations

import math

import trio

from dataspace import where
from engines.facts import Asked

from .actor import Loop
from .view import working

__all__ = ["keep_time", "settled"]


def keep_time(loop: Loop) -> None:
    """Have a task of the loop's actor look at the time.  A loop without a clock gets trio's.

    Another clock may stand still or lag behind; it must run as fast as trio's while it runs, or deadlines come late.
    """
    if loop.clock is None:
        loop.clock = trio.current_time
    loop.me.task(_keep_time, loop)


async def _keep_time(loop: Loop) -> None:
    assert loop.clock is not None
    changed = trio.Event()

    def wake() -> None:
        changed.set()

    loop.alarms.changed = wake
    while True:
        earliest = loop.alarms.earliest()
        rest = math.inf if earliest is None else max(0.0, earliest - loop.clock())
        with trio.move_on_after(rest):
            await changed.wait()
        changed = trio.Event()
        loop.tick()


async def settled(loop: Loop, sid: str) -> None:
    """Wait until nobody works on a question of this conversation: it is decided, offered, held back or has failed.

    Shadows are not waited for.  Raises `UnknownSessionError`, and what `me.changes` raises when the loop has crashed.
    """
    with loop.me.changes(where(Asked, sid=sid)) as changes:
        while working(loop.state(sid)) is not None:
            await anext(changes)
    await trio.lowlevel.checkpoint()
