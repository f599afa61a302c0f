"""The one dataspace of this process, in a daemon thread of its own.

It is started by the first conversation that needs it and never waited for: what is asked of it before it runs is done
in order once it does.  The host may end the process at any moment (`os._exit`), so nothing here has to be closed.  A
child process that was forked has no such thread; it starts one of its own when it needs one.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from .desk import Desk

__all__ = ["Runtime", "current_runtime", "running", "shut_down"]

MOST_STARTS = 3
"""How often a runtime that has died is replaced in one process."""

BATCH = 20
"""How many calls are done in a row."""

PAUSE = 0.001
"""Seconds from the bell to the work: by then the host's call has returned, and no longer needs the interpreter."""

LEISURE = 0.02
"""The same where an engine is at work, and both threads need the interpreter until it has asked its model."""

T = TypeVar("T")
Call = tuple[Callable[..., object], tuple[Any, ...]] | None
log = logging.getLogger(__name__)


class Runtime:
    """The thread, the dataspace in it, and the way in.

    What is asked for is put in a line.  A worker thread listens for the bell: to wake the event loop is a system call
    that lets go of the interpreter, and the host's thread would have to wait for its turn to get it back.  Who is about
    to wait anyway wakes the loop itself (`at_once`), which saves the way through that thread.
    """

    def __init__(self) -> None:
        self.dead = False
        self.desk: Desk | None = None
        self._calls: deque[Call] = deque()
        self._bell: SimpleQueue[float] = SimpleQueue()
        self._rung = self._ended = False
        self._token: Any = None
        self._ident = 0
        self._thread = threading.Thread(target=self._run, name="hermes-dataspace", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether what is asked of it will be done: the thread runs, and the actor of the desk has not crashed."""
        desk = self.desk
        return not self.dead and (desk is None or desk.me.alive)

    def soon(self, fn: Callable[..., object], *args: Any) -> None:
        """Have `fn(desk, *args)` run on the dataspace's thread, in the order of these calls; never waits, never raises."""
        if threading.get_ident() == self._ident:
            fn(self.desk, *args)
        elif not self.dead:
            self._calls.append((fn, args))
            self._ring()

    def in_a_while(self, fn: Callable[..., object], *args: Any) -> None:
        """Like `soon`, also on the dataspace's thread: not now, but after a pause."""
        self._calls.append((fn, args))
        self._ring()

    def at_leisure(self, fn: Callable[..., object], *args: Any) -> None:
        """Like `soon`, where the host's thread waits for something else: a short wait is over by then."""
        self._calls.append((fn, args))
        self._ring(LEISURE)

    def at_once(self, fn: Callable[..., object], *args: Any) -> None:
        """Like `soon`, by somebody who waits for it; on the dataspace's thread: as soon as it has done what it does now."""
        self._calls.append((fn, args))
        token = self._token
        if token is None:
            self._ring()
            return
        try:
            token.run_sync_soon(self._drain, idempotent=True)
        except RuntimeError:  # it has ended, which whoever waits is about to see
            log.debug("the dataspace has ended before it could do %r", fn)

    def ask(self, fn: Callable[..., T], *args: Any, seconds: float = 30.0) -> T:
        """Run `fn(desk, *args)` on the dataspace's thread and wait; raises what it raises, or `TimeoutError`."""
        results: list[T] = []
        errors: list[BaseException] = []
        done = threading.Event()

        def call(desk: Desk) -> None:
            try:
                desk.catch_up()
                results.append(fn(desk, *args))
            except Exception as error:  # noqa: BLE001 - it is raised where somebody waits
                errors.append(error)
            finally:
                done.set()

        if threading.get_ident() == self._ident:
            call(cast("Desk", self.desk))
        else:
            self.at_once(call)
        if not done.wait(seconds):
            raise TimeoutError(f"the dataspace did not answer within {seconds:g} s")
        if errors:
            raise errors[0]
        return results[0]

    def stop(self) -> None:
        """End it, and wait until it has ended; no process has to, a test may want to."""
        self._calls.append(None)
        self._ring()
        self._thread.join()

    def _ring(self, pause: float = PAUSE) -> None:
        if not self._rung:
            self._rung = True
            self._bell.put(pause)

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            import trio  # noqa: PLC0415 - in its own thread, so that nobody waits for it

            trio.run(self._live)
            log.debug("the dataspace was stopped")
        except BaseException:
            log.exception("the dataspace has ended; it is started again, or engines are called directly from now on")
        finally:
            self.dead = True

    async def _live(self) -> None:
        import trio  # noqa: PLC0415

        from dataspace import open_dataspace  # noqa: PLC0415
        from engines.loop.timer import keep_time  # noqa: PLC0415

        from .desk import Desk  # noqa: PLC0415

        limiter = trio.CapacityLimiter(1)
        async with open_dataspace(guest=True) as ds:
            self.desk = Desk(ds.actor("loop"))
            keep_time(self.desk)
            self.desk.at_once, self.desk.in_a_while = self.at_once, self.in_a_while
            self._ident = threading.get_ident()
            self._token = trio.lowlevel.current_trio_token()
            while not self._ended:
                await trio.to_thread.run_sync(self._listen, abandon_on_cancel=True, limiter=limiter)
                self._rung = False  # before the line is looked at: what comes from now on rings again
                self._drain()

    def _listen(self) -> None:
        """Wait for the bell, in a thread of its own."""
        time.sleep(self._bell.get())

    def _drain(self) -> None:
        """Do what is asked for, in order; a long line in pieces, so that others have their turn."""
        for _ in range(BATCH):
            if not self._calls or self._ended:
                break
            call = self._calls.popleft()
            if call is None:
                self._end()
            else:
                self._perform(call)
        else:
            self._ring()
        if not self.alive and not self._ended:  # a dataspace in which nobody shows conversations is of no use
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._bell.put(0)

    def _perform(self, call: tuple[Callable[..., object], tuple[Any, ...]]) -> None:
        try:
            call[0](self.desk, *call[1])
        except Exception:
            log.exception("what was asked of the dataspace has failed")


_current: Runtime | None = None
_starts = 0
_guard = threading.Lock()


def current_runtime() -> Runtime | None:
    """The runtime of this process, started if there is none; None where it has died too often."""
    global _current, _starts  # noqa: PLW0603 - one a process is the point of it
    found = _current
    if found is not None and found.alive:
        return found
    with _guard:
        if _current is not None and _current.alive:
            return _current
        if _current is not None and not _current.dead:
            _current.soon(lambda _desk: None)  # it has crashed, and sees so when it is woken
        if _starts >= MOST_STARTS:
            return None
        _starts += 1
        _current = Runtime()
        return _current


def shut_down() -> None:
    """Stop what runs; the next conversation starts anew."""
    found = _current
    if found is not None and found.alive:
        found.stop()
    _forget()


def running() -> Runtime | None:
    """The runtime if it has been started; starts nothing."""
    return _current


def _forget() -> None:
    """As in a forked child: the thread is the parent's, and the lock may have been held by a thread that is not here."""
    global _current, _starts, _guard
    if _current is not None:
        _current.dead = True
    _current, _starts, _guard = None, 0, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
