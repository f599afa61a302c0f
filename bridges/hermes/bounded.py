"""Calls of somebody else's code that come back in time, whatever that code does.

Nothing can stop a thread that sleeps or waits for a lock.  So such a call runs in a thread of its own, in a copy of
the caller's context variables, and the caller waits only so long.  One that is overdue goes on by itself; what is to
be done when it returns after all is done in its thread.

Threads are kept for the next call: calls made one after the other run in the same one.  A thread that has had nothing
to do for a while ends; all are daemons, so a call that never returns does not keep the process alive.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

__all__ = ["Done", "in_time"]

IDLE = 30.0
"""Seconds after which a thread without work ends."""
NAME = "hermes-dataspace-hosted"

log = logging.getLogger(__name__)


class Done:
    """What came of a call: `result`, or the `error` it raised; `overdue`: neither, for it still runs."""

    __slots__ = ("error", "overdue", "result")

    def __init__(self, result: Any = None, error: BaseException | None = None, *, overdue: bool = False) -> None:
        self.result = result
        self.error = error
        self.overdue = overdue


def in_time(
    call: Callable[[], Any],
    seconds: float,
    left: Callable[[], object] = lambda: None,
    late: Callable[[], object] = lambda: None,
) -> Done:
    """Make `call` in another thread and wait for it, at most so many seconds; an interrupt of this thread gets through.

    Whatever it raises comes back as `error`.  If this thread stops waiting before it returns, `left` is called here at
    that moment, and `late` there when it does return.
    """
    errand = _Errand(call, left, late)
    with _guard:
        worker = _idle.pop() if _idle else None
    (worker or _Worker()).give(errand)
    return errand.wait(seconds)


class _Errand:
    """One call."""

    __slots__ = ("_call", "_context", "_finished", "_gone", "_late", "_left", "_lock", "_over", "done")

    def __init__(self, call: Callable[[], Any], left: Callable[[], object], late: Callable[[], object]) -> None:
        self._call = call
        self._left = left
        self._late = late
        self._context = copy_context()
        self._gone = self._over = False
        self._lock = threading.Lock()
        self._finished = threading.Lock()
        self._finished.acquire()
        self.done = Done()

    def run(self, free: Callable[[], None]) -> None:
        """Make the call, on this thread; `free` says that the thread may be given something else."""
        try:
            self.done = Done(self._context.run(self._call))
        except BaseException as error:  # noqa: BLE001 - even an exit is the affair of who was called
            self.done = Done(error=error)
        with self._lock:
            self._over = True
            if not self._gone:
                free()  # before anybody is told, so that who calls next gets this thread again
                self._finished.release()
                return
        try:
            self._context.run(self._late)
        except BaseException:
            log.exception("what was to be done after a late call has failed")
        free()

    def wait(self, seconds: float) -> Done:
        """What has come of it by then."""
        try:
            if self._finished.acquire(timeout=seconds):
                return self.done
        finally:
            with self._lock:
                self._gone = not self._over
                if self._gone:
                    self._left()
        return Done(overdue=True) if self._gone else self.done


class _Worker:
    """A thread that does one errand after the other."""

    def __init__(self) -> None:
        self._errand: _Errand | None = None
        self._given = threading.Lock()
        self._given.acquire()
        threading.Thread(target=self._work, name=NAME, daemon=True).start()

    def give(self, errand: _Errand) -> None:
        """The next errand of a thread that has none."""
        self._errand = errand
        self._given.release()

    def _work(self) -> None:
        while True:
            if self._given.acquire(timeout=IDLE):
                errand, self._errand = self._errand, None
                if errand is not None:
                    errand.run(self._free)
                continue
            with _guard:
                if self in _idle:
                    _idle.remove(self)
                    return  # otherwise it has just been chosen, and is given something now

    def _free(self) -> None:
        with _guard:
            _idle.append(self)


_idle: list[_Worker] = []
_guard = threading.Lock()


def _forget() -> None:
    """As in a forked child: the threads are the parent's, and the lock may have been held by one that is not here."""
    global _guard  # noqa: PLW0603 - the one of this process
    _idle.clear()
    _guard = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
