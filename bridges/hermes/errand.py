"""Work that an asked engine does in a thread: no task of the event loop waits for it.

The question's lifetime is not the work's: when the question goes, the thread is left alone, what it brings is dropped,
and the engine is not asked about this conversation until it has returned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import trio
from attrs import evolve

from dataspace import Facet, where
from engines.facts import Answered, Asked, Serving, Working
from engines.messages import Messages

__all__ = ["serve_in_thread"]

Work = Callable[[Asked], Messages | None]
log = logging.getLogger(__name__)


def serve_in_thread(me: Facet, work: Work, *, sid: str, seconds: float) -> None:
    """Answer what this compressor is asked about `sid` with `work(asked)`, in a thread and the asker's context variables.

    It is what `engines.serve` with `blocking` does, in two changes of threads.  `work` must not touch the dataspace; it
    returns messages, or None to decline, and what it raises is the answer to this one question and no more.
    """
    me.during(where(Asked, to=me.name, role="compressor", sid=sid), partial(_begin, work))
    me.later(lambda: me.publish(Serving(me.name, "compressor", sid, seconds=seconds)))


def _begin(work: Work, me: Facet, asked: Asked) -> None:
    engine = me.actor.root  # the work outlives the question, so the question's lifetime cannot stand behind it
    working = engine.publish(Working(me.name, asked.sid))
    call = partial(work, asked) if asked.context is None else partial(asked.context.copy().run, work, asked)
    token = trio.lowlevel.current_trio_token()

    def back(unwrap: Callable[[], Messages | None]) -> None:
        try:
            engine.retract(working)
            _answer(me, asked, unwrap)
        except Exception:  # to the event loop it would be a bug of its own
            log.exception("the answer of %s was not taken", me.name)

    def deliver(result: Any) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(back, result.unwrap)

    try:
        trio.lowlevel.start_thread_soon(call, deliver, f"{me.name} at work")
    except RuntimeError as error:  # there are no more threads to be had
        refusal = error

        def refuse() -> None:
            raise refusal

        back(refuse)


def _answer(me: Facet, asked: Asked, unwrap: Callable[[], Messages | None]) -> None:
    """Send what the work has brought, or why it has brought nothing; if the question has gone, only errors are told."""
    answer = Answered(asked.sid, asked.ask, asked.n, me.name)
    try:
        answer = evolve(answer, messages=unwrap())
    except BaseException as error:  # whatever ended the work, it is the answer to the question
        if not me.alive:
            log.error("%s failed in a thread nobody waits for any more", me.name, exc_info=error)
            return
        text = str(error)
        answer = evolve(answer, error=type(error).__name__ + (f": {text}" if text else ""))
    if me.alive:
        me.send(answer)
