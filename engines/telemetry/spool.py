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
    `finish` is called when all that was put in is handled and somebody waits for it in `flush`, on the same thread.
    The thread ends when it has been idle for a while and `kept()` is false: an interpreter that ends gives no new one, so
    whoever is still to say something then keeps it.  All methods may be called from any thread.
    """

    def __init__(
        self,
        handle: Callable[[Sequence[T], Mapping[str, int]], tuple[int, bool]],
        *,
        whose: Callable[[T], str],
        name: str,
        limit: int = LIMIT,
        kept: Callable[[], bool] = lambda: False,
        finish: Callable[[], object] | None = None,
    ) -> None:
        self._handle = handle
        self._kept = kept
        self._finish = finish
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
        self._asked = self._finished = 0  # how often somebody has waited, and how much of that is done
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
            if not self._wake.is_set():
                self._rouse()

    def _rouse(self) -> None:
        self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the interpreter ends, or there are too many; the next item tries again
                self._thread = None
                self._wake.clear()

    def hurry(self) -> None:
        """Have what waits handled now rather than in a while; does not wait."""
        self._hurry.set()

    def flush(self, seconds: float) -> bool:
        """Wait until all that was put in by now is handled or lost, for at most so long; say whether it is."""
        end = monotonic() + seconds
        with self._lock:
            goal = self._put
            if self._finish is not None:
                self._asked += 1
            asked = self._asked
            if not self._over(goal, asked):
                self._hurry.set()  # once: where it fails, trying again and again helps nobody
                self._rouse()
            while not self._over(goal, asked):
                left = end - monotonic()
                if self._thread is None or left <= 0 or not self._idle.wait(left):
                    return self._over(goal, asked)
        return True

    def _over(self, goal: int, asked: int) -> bool:
        return self._handled + self._gone >= goal and self._finished >= asked

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
            self._complete()
            pause = 0.0 if done == len(batch) else min(2 * pause or _PAUSES[0], _PAUSES[1])

    def _awake(self) -> bool:
        """Wait for items; False when there have been none for so long that a thread is not worth keeping."""
        while not self._wake.wait(_IDLE):
            with self._lock:
                if not self._wake.is_set() and not self._kept():
                    self._thread = None
                    return False
        return True

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

    def _complete(self) -> None:
        """Where nothing waits any more, but somebody does: what is to be done last."""
        with self._lock:
            asked = self._finished if self._queue else self._asked
        if self._finish is None or asked == self._finished:
            return
        try:
            self._finish()
        except Exception:
            log.exception("%s: what was handled could not be finished", self._name)
        with self._lock:
            self._finished = asked
            self._idle.notify_all()


_spools: weakref.WeakSet[Spool[Any]] = weakref.WeakSet()


def _forget() -> None:
    """In a forked child the threads are not there, and what waits is the parent's to write."""
    for spool in list(_spools):
        spool._reset()


def _finish() -> None:
    """The interpreter ends: what waits is written, if that can be done soon."""
    end = monotonic() + AT_EXIT
    for spool in list(_spools):
        if spool.statistics().waiting:
            spool.flush(max(0.0, end - monotonic()))


atexit.register(_finish)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
