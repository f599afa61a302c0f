"""Whether who is asked listens at all.

Interest is a fact: an engine that serves, but does not observe what it is asked, would never answer.  Where there is
an event loop its deadline would tell; without one, this does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dataspace import Facet, Handle, Observe, where
from engines.facts import Asked, Serving

__all__ = ["Attention"]


class Attention:
    """Watches the engine that is asked, for each conversation; `lost(asked)` is called when it does not listen."""

    def __init__(self, me: Facet, lost: Callable[[Asked], object]) -> None:
        self._me = me
        self._lost = lost
        self._watched: dict[str, tuple[Asked, Handle]] = {}

    def watch(self, sid: str, asked: Asked | None) -> None:
        """Have `asked` be what is watched for `sid`; call it within a turn."""
        before = self._watched.get(sid)
        if before is not None:
            if before[0] is asked:
                return
            del self._watched[sid]
            self._me.retract(before[1])
        if asked is not None:
            check = partial(self._check, asked)
            handle = self._me.observe(where(Observe, by=asked.to), vanished=lambda _interest: check())
            self._watched[sid] = (asked, handle)
            self._me.later(check)  # the asking stands by then

    def _check(self, asked: Asked) -> None:
        watched = self._watched.get(asked.sid)
        if watched is None or watched[0] is not asked:
            return
        me = self._me
        if not me.facts(where(Serving, engine=asked.to)):
            return  # it is gone altogether, which is about to be heard
        if not any(interest.pattern.match(asked) for interest in me.facts(where(Observe, by=asked.to))):
            self._lost(asked)
