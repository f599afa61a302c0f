"""Work that an asked engine does in a thread: no task of the event loop waits for it.

The question's lifetime is not the work's: when the question goes, the thread is left alone, what it brings is dropped,
and the engine is not asked about this conversation until it has returned.  Where there is a short way to the host, a
thread of the host's that has stepped a question begins the work itself, and has the answer from the thread of the work:
the facts follow, and what they ask for is begun only if nobody has.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Protocol

import trio

from dataspace import Facet, Handle, where
from engines.facts import Answered, Asked, Serving, Working
from engines.messages import Messages

__all__ = ["ShortWay", "serve_in_thread"]

Work = Callable[[Asked], Messages | None]
Unwrap = Callable[[], Messages | None]
log = logging.getLogger(__name__)


class ShortWay(Protocol):
    """Between an engine and who waits for it, past the dataspace's thread; called from any thread."""

    def opened(self, begin: Callable[[Asked], bool]) -> None:
        """`begin` begins the work; False: it was begun before, another one still runs, or the engine is gone."""

    def began(self) -> None:
        """A call is about to run."""

    def gave_up(self) -> None:
        """It does not, after all: who was to have it begun was interrupted."""

    def answered(self, answer: Answered, bring: Callable[[bool | None], None]) -> bool | None:
        """It has returned; does that count, or cannot it be told yet (None)?  `bring(counts)` has to be called on the dataspace's thread, before anything that follows."""


def serve_in_thread(me: Facet, work: Work, *, sid: str, seconds: float, way: ShortWay | None = None) -> None:
    """Answer what this compressor is asked about `sid` with `work(asked)`, in a thread and the asker's context variables.

    It is what `engines.serve` with `blocking` does, in two changes of threads, or with a short way in one.  `work` must
    not touch the dataspace; it returns messages, or None to decline, and what it raises is the answer to this one
    question and no more.
    """
    errands = _Errands(me, work, way)
    me.during(where(Asked, to=me.name, role="compressor", sid=sid), errands.asked)
    me.later(lambda: me.publish(Serving(me.name, "compressor", sid, seconds=seconds)))
    if way is not None:
        way.opened(errands.begin)


class _Errands:
    """The work of one engine for one conversation: one call at a time, each asking once."""

    def __init__(self, me: Facet, work: Work, way: ShortWay | None) -> None:
        self._me = me.actor.root  # the work outlives the question, so the question's lifetime cannot stand behind it
        self._work = work
        self._way = way
        self._lock = threading.Lock()
        self._begun = 0  # the number of the latest asking that was begun
        self._running = False
        self._working: Handle | None = None
        self._token = trio.lowlevel.current_trio_token()

    def begin(self, asked: Asked) -> bool:
        """Have a thread do it; on any thread.  If that is interrupted, a thread is at work already, or nobody was asked."""
        claim, before = threading.Lock(), self._begun
        mine = False
        try:
            with self._lock:
                if self._running or asked.n <= self._begun or not self._me.alive:
                    return False
                self._running, self._begun, mine = True, asked.n, True
            if self._way is not None:
                self._way.began()
            self._start(asked, claim)
        except BaseException:
            if mine and claim.acquire(blocking=False):  # no thread will do it any more
                self._running, self._begun = False, before
                if self._way is not None:
                    self._way.gave_up()
            raise
        return True

    def _start(self, asked: Asked, claim: threading.Lock) -> None:
        """Have a thread do what nobody has given up before it begins."""

        def work() -> Messages | None:
            if not claim.acquire(blocking=False):
                raise _GivenUpError
            with _named(f"{self._me.name} at work"):
                return self._work(asked)

        call = work if asked.context is None else partial(asked.context.copy().run, work)
        try:
            trio.lowlevel.start_thread_soon(call, partial(self._deliver, asked))
        except RuntimeError as error:  # there are no more threads to be had
            self._returned(asked, partial(_refuse, error))

    def asked(self, me: Facet, asked: Asked) -> None:
        """The question stands as a fact; on the dataspace's thread."""
        if asked.n > self._begun:
            self._working = self._me.publish(Working(self._me.name, asked.sid))
            if not self.begin(asked):  # a call runs of which nobody here has heard
                me.send(Answered(asked.sid, asked.ask, asked.n, self._me.name, error="it is still at work"))
        elif asked.n == self._begun and self._running and self._working is None:
            self._working = self._me.publish(Working(self._me.name, asked.sid))

    def _deliver(self, asked: Asked, result: Any) -> None:
        self._returned(asked, result.unwrap)

    def _returned(self, asked: Asked, unwrap: Unwrap) -> None:
        """Tell the answer; on the thread of the work."""
        answer, error = _answer(self._me, asked, unwrap)
        if isinstance(error, _GivenUpError):
            return
        self._running = False
        bring = partial(self._bring, asked, answer, error)
        with suppress(trio.RunFinishedError):
            if self._way is None:
                self._token.run_sync_soon(bring, None)
            elif self._way.answered(answer, bring) is False:
                self._lost(error)

    def _bring(self, asked: Asked, answer: Answered, error: BaseException | None, counts: bool | None) -> None:
        """On the dataspace's thread, in a turn of anybody or in none: the message follows.

        `counts` None: nobody has heard of it yet, so it counts if the question still stands.
        """
        me = self._me
        if counts is None:
            counts = me.alive and asked in me.facts(where(Asked, to=me.name, sid=asked.sid))
            if not counts:
                self._lost(error)
        if me.alive:  # otherwise its conversation is over
            me.later(partial(self._tell, answer if counts else None))

    def _lost(self, error: BaseException | None) -> None:
        """Nobody hears of it any more, so the log does."""
        if error is not None:
            log.error("%s failed in a thread nobody waits for any more", self._me.name, exc_info=error)

    def _tell(self, answer: Answered | None) -> None:
        """One turn: or what follows from the first ends the question before it has its answer."""
        if self._working is not None and not self._running:
            self._me.retract(self._working)
            self._working = None
        if answer is not None:
            self._me.send(answer)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """This thread's name in Python; to have the system know it as well takes longer than to begin the work."""
    thread = threading.current_thread()
    before, thread.name = thread.name, name
    try:
        yield
    finally:
        thread.name = before


class _GivenUpError(Exception):
    """Nobody wants it any more."""


def _refuse(error: BaseException) -> Messages | None:
    raise error


def _answer(me: Facet, asked: Asked, unwrap: Unwrap) -> tuple[Answered, BaseException | None]:
    """What the work has brought, or what it has ended with."""
    try:
        return Answered(asked.sid, asked.ask, asked.n, me.name, messages=unwrap()), None
    except BaseException as error:  # noqa: BLE001 - whatever ended the work, it is the answer to the question
        text = str(error)
        said = type(error).__name__ + (f": {text}" if text else "")
        return Answered(asked.sid, asked.ask, asked.n, me.name, error=said), error
