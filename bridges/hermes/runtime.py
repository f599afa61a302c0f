"""The one dataspace of this process, in a daemon thread of its own.

It is started by the first conversation that needs it and never waited for: what is asked of it before it runs is done
in order once it does.  The host may end the process at any moment (`os._exit`), so nothing here has to be closed.  A
child process that was forked has no such thread; it starts one of its own when it needs one.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import trio

    from dataspace._runtime import AsyncDataspace

    from .desk import Desk

__all__ = ["Runtime", "current_runtime", "running", "shut_down"]

MOST_STARTS = 3
"""How often a runtime that has died is replaced in one process."""

T = TypeVar("T")
log = logging.getLogger(__name__)


class Runtime:
    """The thread, the dataspace in it, and the way in."""

    def __init__(self) -> None:
        self.dead = False
        self.ds: AsyncDataspace | None = None
        self.desk: Desk | None = None
        self._lock = threading.RLock()  # a finaliser may come in while its thread is in here
        self._ident = 0
        self._scope: trio.CancelScope | None = None
        self._waiting: deque[tuple[Callable[..., object], tuple[Any, ...]]] | None = deque()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hermes-dataspace", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether what is asked of it will be done."""
        return not self.dead and self._thread.is_alive()

    def soon(self, fn: Callable[..., object], *args: Any) -> None:
        """Have `fn(desk, *args)` run on the dataspace's thread, in the order of these calls; never waits, never raises."""
        if threading.get_ident() == self._ident:
            fn(self.desk, *args)
            return
        with self._lock:
            if self._waiting is not None:
                self._waiting.append((fn, args))
                return
        if self.dead or self.ds is None:
            return
        try:
            self.ds.from_thread_soon(fn, self.desk, *args)
        except Exception:
            log.exception("the dataspace could not be told what happened")

    def ask(self, fn: Callable[..., T], *args: Any, seconds: float = 30.0) -> T:
        """Run `fn(desk, *args)` on the dataspace's thread and wait; raises `TimeoutError` if it does not come up."""
        if not self._ready.wait(seconds) or self.ds is None:
            raise TimeoutError(f"the dataspace did not come up within {seconds:g} s")
        return self.ds.from_thread(fn, self.desk, *args)

    def stop(self) -> None:
        """End it, and wait until it has ended; no process has to, a test may want to."""
        self.soon(lambda _desk: self._scope.cancel() if self._scope is not None else None)
        self._thread.join()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            import trio  # noqa: PLC0415 - in its own thread, so that nobody waits for it

            trio.run(self._live)
            log.debug("the dataspace was stopped")
        except BaseException:
            log.exception("the dataspace has ended; engines are called directly from now on, or it is started again")
        finally:
            with self._lock:
                self.dead = True
                self._waiting = None
            self._ready.set()

    async def _live(self) -> None:
        import trio  # noqa: PLC0415

        from dataspace import open_dataspace  # noqa: PLC0415
        from engines.loop.timer import keep_time  # noqa: PLC0415

        from .desk import Desk  # noqa: PLC0415

        self._scope = trio.CancelScope()
        async with open_dataspace() as ds:
            desk = Desk(ds.actor("loop"))
            keep_time(desk)
            self.ds, self.desk, self._ident = ds, desk, threading.get_ident()
            while (call := self._next_waiting()) is not None:
                try:
                    call[0](desk, *call[1])
                except Exception:
                    log.exception("what was asked of the dataspace before it ran has failed")
            self._ready.set()
            with self._scope:
                await trio.sleep_forever()

    def _next_waiting(self) -> tuple[Callable[..., object], tuple[Any, ...]] | None:
        """What came first; when there is nothing left, whoever comes from now on goes straight in."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._waiting = None
            return None


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
    _current, _starts, _guard = None, 0, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
