"""Ends: what is to be written then is waited for, a little.

The host may end its process as soon as it has said that a session is over.  So whoever says it waits until what observers
have to write is on disk, two seconds at most, and never on a thread that runs an event loop.  Nothing here loads an
engine: an observer that writes says how it is waited for, with `wait_for`.
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

__all__ = ["PATIENCE", "register_ends", "settle", "wait_for", "watch_exit"]

PATIENCE = 2.0
"""Seconds that the end of a session waits for what is written then."""

_waits: dict[str, Callable[[float], bool]] = {}  # of each observer that writes, by its name
_watching: list[bool] = []
_lock = threading.Lock()
log = logging.getLogger(__name__)


def wait_for(name: str, written: Callable[[float], bool]) -> None:
    """Have ends wait for the observer `name`, too.

    `written(seconds)` waits until all is on disk that it has heard of, so long at most, and says whether it is; the latest
    of a name counts.
    """
    with _lock:
        _waits[name] = written


def watch_exit() -> None:
    """From now on the end of the process is the end of what goes on in it."""
    with _lock:
        if not _watching:
            _watching.append(True)
            atexit.register(_exit)


def settle(seconds: float | None = None) -> bool:
    """Wait until all that has happened is written; False where that took too long, or nobody is there to do it.

    `seconds` None: as long as the end of a session waits.
    """
    runtime = running()
    if runtime is None or not runtime.alive or _runs_a_loop():
        return False
    end = time.monotonic() + (PATIENCE if seconds is None else seconds)
    try:
        runtime.ask(lambda _desk: None, seconds=end - time.monotonic())  # what was said before has been heard then
    except TimeoutError:
        return False
    with _lock:
        waits = list(_waits.values())  # an engine that was on its way is there by now
    done = [written(max(0.0, end - time.monotonic())) for written in waits]  # all of them, though one is late
    return all(done)


def register_ends(ctx: Any) -> None:
    """Register the hooks of ends; after those that tell conversations of them."""
    for name in ("on_session_finalize", "on_session_reset"):
        try:
            ctx.register_hook(name, _ended)
        except Exception as error:  # noqa: BLE001 - a host that does not know the hook
            log.debug("the hook %s was not taken: %r", name, error)


def _ended(**_told: Any) -> None:
    settle()


def _exit() -> None:
    for seat in seats():
        try:
            seat.leave()
        except Exception:
            log.exception("the end of a session could not be told")
    if running() is not None and not settle():
        log.warning("the process ends before all that was to be written of its sessions is on disk")


def _runs_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
