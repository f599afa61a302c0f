"""How an engine serves: it is asked, works while the question stands, and answers.

An engine is an actor whose boot function calls `serve`.  What it is told and what it may do in a question is all in
`Asked`; who asks, in which order and for how long, is the loop's business.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from types import CoroutineType
from typing import Any, TypeVar, get_args

from dataspace import Facet, where
from dataspace._tasks import is_async
from engines.context import AskerContext
from engines.facts import Answered, Asked, Role, Serving, Working
from engines.messages import Messages

__all__ = ["announce", "blocking", "is_async", "serve"]

T = TypeVar("T")
Work = Callable[[Facet, Asked], Any]


def serve(
    me: Facet, work: Work, *, role: Role = "compressor", sid: str | None = None, seconds: float | None = None
) -> None:
    """Answer what this actor is asked, with `work(me, asked)`; call it last in the boot function.

    `work` is a function or an async function (which needs a dataspace under trio).  What it publishes through its `me`
    goes with the question, and so does the work itself.  It returns messages, or None to decline; an exception is the
    answer to this one question and no more.  It runs in a copy of the asker's context variables, if there are any.
    The engine is said to be `Serving` once it has heard of what stood when it came.  `sid` None: for everybody.
    `seconds` is how long an answer may take it; what the loop grants is in `asked.seconds`.
    """
    if role not in get_args(Role):
        raise ValueError(f"role is one of {', '.join(get_args(Role))}, not {role!r}")
    if not callable(work):
        raise TypeError(f"serve takes the function that does the work, not {work!r}")
    pattern = where(Asked, to=me.name, role=role) if sid is None else where(Asked, to=me.name, role=role, sid=sid)
    me.during(pattern, _asynchronous(work) if is_async(work) else _synchronous(work))
    announce(me, role, sid=sid, seconds=seconds)


def announce(me: Facet, role: Role = "observer", *, sid: str | None = None, seconds: float | None = None) -> None:
    """Say that this actor is `Serving`, once it has handled what stood when it came; call it last in the boot function.

    `serve` does so too; this alone is for engines that are asked nothing.
    """
    me.later(lambda: me.publish(Serving(me.name, role, sid, seconds=seconds)))


async def blocking(me: Facet, asked: Asked, fn: Callable[..., T], *args: Any) -> T:
    """Run `fn(*args)` in a worker thread, in the asker's context variables; it must not touch the dataspace.

    When the question goes the thread is left alone, and the engine is not asked about this conversation until it has
    returned.
    """
    import trio  # noqa: PLC0415 - engines without an event loop never come here

    token = trio.lowlevel.current_trio_token()
    engine = me.actor.root  # the call outlives the question, so the question's lifetime cannot stand behind it
    working = engine.publish(Working(me.name, asked.sid))

    def call() -> T:
        try:
            return fn(*args)
        finally:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(engine.retract, working)

    result = await me.blocking(call, context=_variables(asked))
    engine.retract(working)
    return result


def _synchronous(work: Work) -> Callable[[Facet, Asked], None]:
    def body(me: Facet, asked: Asked) -> None:
        try:
            with me.turn():  # of work that fails nothing remains
                result = _run(work, me, asked)
                answer = _answer(me, asked, result)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong in the work is the answer to the question
            answer = _failure(me, asked, error)
        me.send(answer)

    return body


def _asynchronous(work: Callable[[Facet, Asked], Awaitable[Any]]) -> Callable[[Facet, Asked], Awaitable[None]]:
    async def run(me: Facet, asked: Asked) -> None:
        try:
            answer = _answer(me, asked, await work(me, asked))
        except Exception as error:
            if not me.alive:
                raise  # the question is gone, and the error is the runtime's to show
            answer = _failure(me, asked, error)
        me.send(answer)

    async def body(me: Facet, asked: Asked) -> None:
        variables = _variables(asked)
        if variables is None:
            await run(me, asked)
        else:
            me.task(run, me, asked, context=variables)

    return body


def _variables(asked: Asked) -> Context | None:
    wrapped: AskerContext | None = asked.context
    return None if wrapped is None else wrapped.copy()


def _run(work: Work, me: Facet, asked: Asked) -> Any:
    variables = _variables(asked)
    return work(me, asked) if variables is None else variables.run(work, me, asked)


def _answer(me: Facet, asked: Asked, result: Any) -> Answered:
    if type(result) is CoroutineType:
        result.close()
        raise TypeError("the work returned a coroutine; give serve the async function itself")
    messages = None if result is None else Messages.of(result)
    return Answered(asked.sid, asked.ask, asked.n, me.name, messages=messages)


def _failure(me: Facet, asked: Asked, error: Exception) -> Answered:
    text = str(error)
    return Answered(asked.sid, asked.ask, asked.n, me.name, error=type(error).__name__ + (f": {text}" if text else ""))
