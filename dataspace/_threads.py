"""Other threads: work in threads that may be abandoned, and the entrance for threads that want something here.

No error gets lost on the way: it is raised where somebody waits, or else logged.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from ._tasks import is_async
from .errors import Stopped, TurnError

if TYPE_CHECKING:
    from ._trio import TrioRuntime

__all__ = ["Entrance", "Work"]

T = TypeVar("T")
log = logging.getLogger("dataspace")


class Work:
    """A function that runs in a worker thread, and may be abandoned there."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], context: Context | None) -> None:
        self._call: Callable[[], Any] = (
            partial(fn, *args) if context is None else partial(context.copy().run, fn, *args)
        )
        self._name = getattr(fn, "__qualname__", str(fn))
        self._lock = threading.Lock()
        self._abandoned = False
        self._error: BaseException | None = None

    def run(self) -> Any:
        try:
            return self._call()
        except BaseException as error:
            with self._lock:
                self._error = error
                late = self._abandoned
            if late:
                self._log(error)
                return None
            raise

    def abandon(self, raised: BaseException) -> None:
        """Nobody waits any more, because of `raised`; an error met before or later is logged, unless it is just that."""
        with self._lock:
            self._abandoned = True
            error = self._error
        if error is not None and error is not raised:
            self._log(error)

    def _log(self, error: BaseException) -> None:
        log.error("%s failed in a thread nobody waits for any more", self._name, exc_info=error)


class Entrance:
    """Where other threads come in; made on the dataspace's thread."""

    def __init__(self, runtime: TrioRuntime, nursery: trio.Nursery) -> None:
        self._runtime = runtime
        self._nursery = nursery
        self._thread = threading.get_ident()
        self._token = trio.lowlevel.current_trio_token()

    def from_thread(self, fn: Callable[..., T], args: tuple[Any, ...]) -> T:
        self._check("from_thread", fn)
        try:
            return trio.from_thread.run_sync(self._visit, fn, args, trio_token=self._token)
        except trio.RunFinishedError:
            raise Stopped("the dataspace is closed") from None

    def from_thread_soon(self, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._check("from_thread_soon", fn)

        def call() -> None:
            try:
                self._visit(fn, args)
            except Exception:
                log.exception("what a thread asked for failed: %s", getattr(fn, "__qualname__", fn))
            except BaseException as error:  # noqa: BLE001 - the end of the program; to trio it would be a bug of its own
                self._nursery.start_soon(_raise, error)

        try:
            # In the context variables of the caller, as it is for those who wait.
            self._token.run_sync_soon(copy_context().run, call)
        except trio.RunFinishedError:
            raise Stopped("the dataspace is closed") from None

    def _check(self, name: str, fn: Callable[..., object]) -> None:
        if not callable(fn) or is_async(fn):
            raise TypeError(f"{name} takes a synchronous function, not {fn!r}; async work goes into me.task")
        if self._runtime.closed:
            raise Stopped("the dataspace is closed")
        if threading.get_ident() == self._thread:
            raise TurnError(f"{name} is for other threads than the dataspace's; here, just call the function")

    def _visit(self, fn: Callable[..., T], args: tuple[Any, ...]) -> T:
        self._runtime.check_open()
        try:
            return fn(*args)
        finally:
            if self._runtime.drop_turn():
                raise TurnError("a turn was left open, and is discarded; use `with me.turn():`")


async def _raise(error: BaseException) -> None:
    # Only a task can end the nursery.
    raise error
