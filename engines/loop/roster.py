"""Who serves which conversation, and in which order they are asked."""

from __future__ import annotations

from engines.facts import Role, Serving

from .policy import Engines, Policy, kind_of

__all__ = ["Roster"]


class Roster:
    """The `Serving` facts that stand.

    Engines of a role are asked in the configured order of their kinds, those of other kinds after them, and among
    equals the newest first.
    """

    def __init__(self, policy: Policy) -> None:
        self._order = {
            "compressor": {kind: place for place, kind in enumerate(policy.compressors)},
            "reviser": {kind: place for place, kind in enumerate(policy.revisers)},
        }
        self._age = 0
        self._serving: dict[str | None, dict[Serving, int]] = {None: {}}
        self._engines: dict[str | None, Engines] = {None: Engines()}

    def add(self, serving: Serving) -> None:
        """An engine has begun to serve."""
        self._age += 1
        self._serving.setdefault(serving.sid, {})[serving] = self._age
        self._changed(serving.sid)

    def remove(self, serving: Serving) -> None:
        """An engine has ceased to serve."""
        those = self._serving.get(serving.sid, {})
        those.pop(serving, None)
        if not those and serving.sid is not None:
            self._serving.pop(serving.sid, None)
        self._changed(serving.sid)

    def of(self, sid: str) -> Engines:
        """Who serves conversation `sid`."""
        if sid not in self._serving:
            return self._engines[None]
        found = self._engines.get(sid)
        if found is None:
            found = self._engines[sid] = self._sort({**self._serving[None], **self._serving[sid]})
        return found

    def _changed(self, sid: str | None) -> None:
        if sid is None:
            self._engines = {None: self._sort(self._serving[None])}
        else:
            self._engines.pop(sid, None)

    def _sort(self, serving: dict[Serving, int]) -> Engines:
        seconds = {one.engine: one.seconds for one in serving if one.seconds is not None}
        compressors, revisers, shadows = (self._names(serving, role) for role in ("compressor", "reviser", "shadow"))
        return Engines(compressors, revisers, shadows, seconds)

    def _names(self, serving: dict[Serving, int], role: Role) -> tuple[str, ...]:
        order = self._order.get(role, {})
        those = [one for one in serving if one.role == role]
        those.sort(key=lambda one: (order.get(kind_of(one.engine), len(order)), -serving[one]))
        return tuple(dict.fromkeys(one.engine for one in those))
