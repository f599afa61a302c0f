"""A bounded queue with a thread behind it: whoever puts something in never waits for what is done with it.

A disk that stalls stalls the thread.  Meanwhile at most `limit` items wait, those in the thread's hands among them; then
the oldest in the queue go, counted exactly, and whoever takes the next batch is told how many were lost.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Generic, TypeVar

from attrs import frozen

__all__ = ["AT_EXIT", "LIMIT", "Spool", "SpoolStatistics"]

LIMIT = 100_000
"""How many items wait at most."""

AT_EXIT = 2.0
"""Seconds that the end of the process waits for what is still to be written."""

_BATCH = 1_000  # items that are handled at a time
_LINGER = 0.1  # seconds in which items gather, so that a batch is worth its lock
_IDLE = 5.0  # seconds without an item after which the thread ends
_PAUSES = (0.5, 30.0)  # seconds after a failure: the first and the longest

T = TypeVar("T")
log = logging.getLogger(__name__)


@frozen
class SpoolStatistics:
    """Counts since the start; `waiting` and `lost` make up the difference between what was put in and handled."""

    put: int
    handled: int
    waiting: int
    lost: int


class Spool(Generic[T]):
    """Hands batches to `handle(items, lost)` in a daemon thread, which the first item starts.

    `lost` counts items that went, by `whose(item)`.  `handle` returns how many of the items are done, from the first on,
    and whether it has passed on what it was told of losses; the rest is tried again after a pause that doubles.
    The thread ends when it has been idle for a while.  All methods may be called from any thread.
    """

    def __init__(
        self,
        handle: Callable[[Sequence[T], Mapping[str, int]], tuple[int, bool]],
        *,
        whose: Callable[[T], str],
        name: str,
        limit: int = LIMIT,
    ) -> None:
        self._handle = handle
        self._whose = whose
        self._name = name
        self._limit = limit
        self._batch = max(1, min(_BATCH, limit // 2))
        self._reset()
        _spools.add(self)

    def _reset(self) -> None:
        self._queue: deque[T] = deque()
        self._lost: Counter[str] = Counter()
        self._in_hand = self._put = self._handled = self._gone = 0
        self._lock = threading.Lock()
        self._wake = threading.Event()  # something is there
        self._hurry = threading.Event()  # somebody waits for it to be done
        self._idle = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None

    def put(self, item: T) -> None:
        """Queue an item; never waits for the thread, and never fails."""
        with self._lock:
            self._put += 1
            self._queue.append(item)
            if len(self._queue) + self._in_hand > self._limit and len(self._queue) > 1:
                self._lost[self._whose(self._queue.popleft())] += 1
                self._gone += 1
            if self._wake.is_set():
                return
            self._wake.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def hurry(self) -> None:
        """Have what waits handled now rather than in a while; does not wait."""
        self._hurry.set()

    def flush(self, seconds: float) -> bool:
        """Wait until all that was put in by now is handled or lost, for at most so long; say whether it is."""
        end = monotonic() + seconds
        with self._lock:
            goal = self._put
            if self._handled + self._gone < goal:
                self._hurry.set()  # once: where it fails, trying again and again helps nobody
            while self._handled + self._gone < goal:
                left = end - monotonic()
                if left <= 0 or not self._idle.wait(left):
                    return self._handled + self._gone >= goal
        return True

    def statistics(self) -> SpoolStatistics:
        """How many items came, were handled, wait and were lost."""
        with self._lock:
            return SpoolStatistics(self._put, self._handled, len(self._queue) + self._in_hand, self._gone)

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = 0.0
        while self._awake():
            self._hurry.wait(pause or _LINGER)
            batch, lost = self._take()
            done = self._try(batch, lost)
            pause = 0.0 if done == len(batch) else min(2 * pause or _PAUSES[0], _PAUSES[1])

    def _awake(self) -> bool:
        """Wait for items; False when there have been none for so long that a thread is not worth keeping."""
        if self._wake.wait(_IDLE):
            return True
        with self._lock:
            if not self._wake.is_set():
                self._thread = None
            return self._wake.is_set()

    def _take(self) -> tuple[list[T], Counter[str]]:
        with self._lock:
            batch = [self._queue.popleft() for _ in range(min(self._batch, len(self._queue)))]
            self._in_hand = len(batch)
            lost, self._lost = self._lost, Counter()
            return batch, lost

    def _try(self, batch: list[T], lost: Counter[str]) -> int:
        """Handle a batch, and put back what is not done; returns how much is."""
        try:
            done, told = self._handle(batch, lost)
            spoilt = 0
        except Exception:
            log.exception("%s: %d items could not be handled, and are lost", self._name, len(batch))
            done, told, spoilt = 0, False, len(batch)  # it would fail again
        with self._lock:
            self._handled += done
            self._gone += spoilt
            self._in_hand = 0
            if not told:
                self._lost.update(lost)
            self._lost.update(self._whose(item) for item in batch[:spoilt])
            self._queue.extendleft(reversed(batch[done + spoilt :]))
            if done + spoilt < len(batch):
                self._hurry.clear()  # who waits has had his try
            elif not self._queue:
                self._wake.clear()
                self._hurry.clear()
            self._idle.notify_all()
        return done + spoilt


_spools: weakref.WeakSet[Spool[Any]] = weakref.WeakSet()


def _forget() -> None:
    """In a forked child the threads are not there, and what waits is the parent's to write."""
    for spool in list(_spools):
        spool._reset()


def _finish() -> None:
    """The interpreter ends: what waits is written, if that can be done soon."""
    end = monotonic() + AT_EXIT
    for spool in list(_spools):
        spool.flush(max(0.0, end - monotonic()))


atexit.register(_finish)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
