"""The signals that ask a process to end: SIGTERM, and SIGHUP when its terminal goes away.

They are to end a command as Ctrl-C does, with everything put in order.  A second one ends it at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

__all__ = ["ENDING", "Stopped", "interrupted_by", "on_ending", "stop"]

ENDING = tuple(signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__)


class Stopped(BaseException):
    """Signal `number` has come; no `Exception`, so that nobody takes it for an error and goes on."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Handler:
    def __init__(self, act: Callable[[int], object]) -> None:
        self._act = act
        self.called = False

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        self.called = True
        for ending in ENDING:
            if isinstance(signal.getsignal(ending), _Handler):
                signal.signal(ending, signal.SIG_DFL)
        self._act(number)


def stop(number: int) -> NoReturn:
    """Raise `Stopped`."""
    raise Stopped(number)


@contextmanager
def on_ending(act: Callable[[int], object]) -> Iterator[None]:
    """Within, the first signal to end calls `act` with its number, in the main thread.

    A signal that is ignored (`nohup`) or that the calling program handles is left alone; in another thread all are.
    """
    handler, before = _Handler(act), {}
    if threading.current_thread() is threading.main_thread():
        before = {ending: signal.getsignal(ending) for ending in ENDING}
    taken = {at: old for at, old in before.items() if old is signal.SIG_DFL or isinstance(old, _Handler)}
    try:
        for ending in taken:
            signal.signal(ending, handler)
        yield
    finally:
        for ending, old in taken.items():
            if not handler.called:
                signal.signal(ending, old)


def interrupted_by(error: BaseException) -> int | None:
    """The number of the signal that `error` tells of, also inside groups and as a cause; None if it is another."""
    if isinstance(error, Stopped):
        return error.number
    if isinstance(error, KeyboardInterrupt):
        return signal.SIGINT
    inside = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    within = (*inside, error.__cause__) if error.__cause__ is not None else inside
    return next((number for one in within if (number := interrupted_by(one)) is not None), None)
