"""The compressor as an engine: the pure functions of this package, asked by the run loop."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import evolve

from dataspace import Facet, where
from engines.engine import blocking, serve
from engines.facts import Asked, Serving, SkillRequired
from engines.loop.policy import kind_of
from engines.messages import Messages
from engines.skills.revise import added_tokens
from engines.transcript import estimate_tokens

from .compact import finish
from .limits import Limits
from .plan import MOST_RESERVED, Plan, plan_compaction
from .prose import accept_prose, prompt_for
from .redact import redact

__all__ = ["Summarise", "compressor"]

Summarise = Callable[[str], Awaitable[Any]]
"""What writes prose: an async function from a prompt to a text."""

WITHOUT_PROSE = 10.0
"""Seconds that are plenty for all but the prose."""

_LONG = 200_000  # tokens from which the work is done in a thread, lest everybody else waits for it
_log = logging.getLogger(__name__)


def compressor(
    limits: Limits | None = None,
    *,
    summarise: Summarise | None = None,
    prompt_tokens: int = 8_000,
    seconds: float = 60.0,
    sid: str | None = None,
) -> Callable[[Facet], None]:
    """Return the boot function of a compressor.

    Its `limits` are shares of the threshold that a question names (the one in `limits` counts where it names none).  A
    `summarise` adds prose, asked once with a prompt of at most `prompt_tokens` and given `seconds`, or less where the
    loop grants less; what goes wrong with it is logged and costs the prose, never the compaction.  Without it the engine needs no event loop.
    """
    given = limits or Limits(threshold=100_000)

    def planned(me: Facet, asked: Asked) -> Plan | None:
        limits = evolve(given, threshold=asked.threshold) if asked.threshold > 0 else given
        reserve = _reserve(me, asked, int(limits.threshold * limits.result * MOST_RESERVED))
        return plan_compaction(asked.messages, limits, focus=asked.focus, tokens=asked.tokens or None, reserve=reserve)

    def work(me: Facet, asked: Asked) -> Messages | None:
        plan = planned(me, asked)
        return None if plan is None else finish(plan)

    async def work_with_prose(me: Facet, asked: Asked, summarise: Summarise) -> Messages | None:
        plan = planned(me, asked)
        if plan is None:
            return None
        granted = (
            seconds if asked.seconds is None else min(seconds, asked.seconds - min(WITHOUT_PROSE, asked.seconds / 2))
        )
        prose = await _prose(plan, summarise, prompt_tokens, granted)
        if estimate_tokens(plan.messages) < _LONG:
            return finish(plan, prose)
        return await blocking(me, asked, finish, plan, prose)

    def boot(me: Facet) -> None:
        if summarise is None:
            serve(me, work, sid=sid, seconds=WITHOUT_PROSE)
            return
        writer = summarise

        async def ask(me: Facet, asked: Asked) -> Messages | None:
            return await work_with_prose(me, asked, writer)

        serve(me, ask, sid=sid, seconds=seconds + WITHOUT_PROSE)

    return boot


def _reserve(me: Facet, asked: Asked, most: int) -> int:
    """What a reviser, if one serves, is going to say about skills, and to put back of those that the task needs."""
    revisers = [one for one in me.facts(where(Serving, role="reviser")) if kind_of(one.engine) != "snapshotter"]
    if not any(serving.sid in {None, asked.sid} for serving in revisers):  # a snapshotter has a look, and adds nothing
        return 0
    return added_tokens(asked.messages, [fact.name for fact in me.facts(where(SkillRequired, sid=asked.sid))], most)


async def _prose(plan: Plan, summarise: Summarise, most: int, seconds: float) -> str:
    """Ask the summariser once; nothing where there is nothing to ask or the answer is of no use."""
    import trio  # noqa: PLC0415 - a compressor without a summariser runs without an event loop

    prompt = prompt_for(plan, most)
    if prompt is None:
        return ""
    said: Any = None
    try:
        with trio.fail_after(seconds):
            said = await summarise(prompt)
    except Exception as error:  # noqa: BLE001 - whatever a summariser raises, the summary stands without it
        _log.warning("the summariser failed, the summary goes without prose: %s", _told(error))
        return ""
    prose = accept_prose(said, prompt)
    if not prose:
        _log.warning("the summariser's answer is of no use, the summary goes without prose")
    return prose


def _told(error: Exception) -> str:
    """What an error says, without secrets; one that cannot even say it is named."""
    try:
        said = f": {redact(str(error))}"
    except Exception:  # noqa: BLE001 - whatever its own `__str__` raises
        said = ""
    return type(error).__name__ + said
