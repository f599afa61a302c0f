"""Work in threads that may be abandoned: its error is returned, or else logged."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any

__all__ = ["Work"]

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
