"""Shows states in a dataspace: what is published is brought up to date with what a state says stands.

Whoever runs `step`, the actor here or a host on its own thread, shows the result through this.
"""

from __future__ import annotations

from typing import Any

from dataspace import Facet, Handle
from engines.facts import Asked

__all__ = ["Mirror"]


class Mirror:
    """What `me` publishes for each conversation.

    A fact that follows another of its kind replaces it without an instant in between; only an asking is withdrawn
    before the next one is published.
    """

    def __init__(self, me: Facet) -> None:
        self._me = me
        self._shown: dict[str, tuple[tuple[Any, ...], tuple[Handle, ...]]] = {}

    def show(self, sid: str, facts: tuple[Any, ...]) -> None:
        """Have exactly `facts` stand for `sid`; call it within a turn of `me`."""
        me = self._me
        old, handles = self._shown.get(sid, ((), ()))
        gone = {id(fact): handle for fact, handle in zip(old, handles, strict=True)}
        kept = [gone.pop(id(fact), None) for fact in facts]
        for fact in old:
            if type(fact) is Asked and id(fact) in gone:
                me.retract(gone.pop(id(fact)))
        shown = tuple([handle or me.publish(fact) for fact, handle in zip(facts, kept, strict=True)])
        for handle in gone.values():
            me.retract(handle)
        if facts:
            self._shown[sid] = (facts, shown)
        else:
            self._shown.pop(sid, None)
