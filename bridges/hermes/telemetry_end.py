"""The last words of a session: what is to be written then is waited for, a little.

The host may end its process as soon as it has said that a session is over.  So whoever says it waits until what there is
to write is on disk, two seconds at most, and never on a thread that runs an event loop.  Nothing here loads the engine.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from .hooks import seats
from .runtime import running

__all__ = ["register_end", "settle", "take_over", "watch_exit"]

PATIENCE = 2.0
"""Seconds that the end of a session waits for its entries."""

_flushes: list[Callable[[float], bool]] = []  # that of this process's engine, once there is one
_watching: list[bool] = []
_lock = threading.Lock()
log = logging.getLogger(__name__)


def take_over(flush: Callable[[float], bool]) -> None:
    """The engine of this process is another one: `flush(seconds)` waits for it."""
    _flushes[:] = [flush]


def settle(seconds: float = PATIENCE) -> bool:
    """Wait until all that has happened is written; False where that took too long, or nobody is there to do it."""
    runtime = running()
    if runtime is None or not runtime.alive or _runs_a_loop():
        return False
    end = time.monotonic() + seconds
    try:
        runtime.ask(lambda _desk: None, seconds=seconds)  # what was said before has been heard then
    except TimeoutError:
        return False
    return all(flush(max(0.0, end - time.monotonic())) for flush in list(_flushes))  # the engine is there by now


def register_end(ctx: Any) -> None:
    """Register the hook of ends; after those that tell conversations of them."""
    try:
        ctx.register_hook("on_session_finalize", _finalized)
    except Exception as error:  # noqa: BLE001 - a host that does not know the hook
        log.debug("the hook on_session_finalize was not taken: %r", error)


def watch_exit() -> None:
    """From now on the end of the process is the end of what goes on in it."""
    with _lock:
        if not _watching:
            _watching.append(True)
            atexit.register(_exit)


def _finalized(**_told: Any) -> None:
    settle()


def _exit() -> None:
    for seat in seats():
        try:
            seat.leave()
        except Exception:
            log.exception("the end of a session could not be told")
    settle()


def _runs_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
