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

from dataspace import Facet, where
from engines.facts import Answered, Asked, Serving, Working
from engines.messages import Messages

__all__ = ["serve_in_thread"]

Work = Callable[[Asked], Messages | None]
Hear = Callable[[Answered, Callable[[], None]], None]
"""Takes an answer on the thread of the work, and has what it is given called on the dataspace's thread, before
anything that is asked of that later."""
log = logging.getLogger(__name__)


def serve_in_thread(me: Facet, work: Work, *, sid: str, seconds: float, hear: Hear | None = None) -> None:
    """Answer what this compressor is asked about `sid` with `work(asked)`, in a thread and the asker's context variables.

    It is what `engines.serve` with `blocking` does, in two changes of threads.  `work` must not touch the dataspace; it
    returns messages, or None to decline, and what it raises is the answer to this one question and no more.  With `hear`
    whoever waits for the answer has it before the dataspace's thread has.
    """
    me.during(where(Asked, to=me.name, role="compressor", sid=sid), partial(_begin, work, hear))
    me.later(lambda: me.publish(Serving(me.name, "compressor", sid, seconds=seconds)))


def _begin(work: Work, hear: Hear | None, me: Facet, asked: Asked) -> None:
    engine = me.actor.root  # the work outlives the question, so the question's lifetime cannot stand behind it
    working = engine.publish(Working(me.name, asked.sid))
    call = partial(work, asked) if asked.context is None else partial(asked.context.copy().run, work, asked)
    token = trio.lowlevel.current_trio_token()

    def back(answer: Answered, error: BaseException | None) -> None:
        try:
            awaited = me.alive
            if engine.alive:  # otherwise its conversation is over
                with engine.turn():  # or what follows from the first ends the question before it has its answer
                    engine.retract(working)
                    if awaited:
                        me.send(answer)
            if not awaited and error is not None:
                log.error("%s failed in a thread nobody waits for any more", me.name, exc_info=error)
        except Exception:  # to the event loop it would be a bug of its own
            log.exception("the answer of %s was not taken", me.name)

    def deliver(result: Any) -> None:
        answer, error = _answer(me, asked, result.unwrap)
        with suppress(trio.RunFinishedError):
            if hear is not None and me.alive:
                hear(answer, partial(back, answer, None))  # an error is told by that, whatever becomes of the question
            else:
                token.run_sync_soon(back, answer, error)

    try:
        trio.lowlevel.start_thread_soon(call, deliver, f"{me.name} at work")
    except RuntimeError as error:  # there are no more threads to be had
        refusal = error

        def refuse() -> None:
            raise refusal

        back(*_answer(me, asked, refuse))


def _answer(me: Facet, asked: Asked, unwrap: Callable[[], Messages | None]) -> tuple[Answered, BaseException | None]:
    """What the work has brought, or what it has ended with."""
    try:
        return Answered(asked.sid, asked.ask, asked.n, me.name, messages=unwrap()), None
    except BaseException as error:  # noqa: BLE001 - whatever ended the work, it is the answer to the question
        text = str(error)
        said = type(error).__name__ + (f": {text}" if text else "")
        return Answered(asked.sid, asked.ask, asked.n, me.name, error=said), error
