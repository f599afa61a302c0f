"""The engines that are plugged into a replay, each under a supervisor of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dataspace import Crashed, Facet, where
from engines.facts import GaveUp, Serving
from engines.supervisor import Patience, supervised
from engines.swap import SwapError, swap

from .errors import RunFailed
from .kinds import Kinds, boot_of

if TYPE_CHECKING:
    from dataspace._runtime import AsyncDataspace

__all__ = ["Rack"]

_AT_ONCE = Patience(pause_first=0.0, pause_last=0.0)  # there is no time to wait for in a recording


class Rack:
    """Plugs engines of `kinds` into a dataspace and unplugs them; all by name."""

    def __init__(self, ds: AsyncDataspace, kinds: Kinds) -> None:
        self._ds = ds
        self._kinds = kinds
        self._plugged: dict[str, Facet] = {}

    def __contains__(self, name: object) -> bool:
        """Whether the engine is plugged and has not been given up."""
        return name in self._plugged and name not in self._given_up()

    async def change(self, old: str | None, new: str | None) -> None:
        """Plug `new`, and when it serves unplug `old`; what is so already is left as it is.

        Raises `RunFailed` if `new` does not come to serve; `old` is still there then.
        """
        if new is not None and new not in self:
            await self._plug(new, old)
        elif old in self._plugged:
            await swap(self._ds, self._plugged.pop(old), None)

    def restarting(self) -> tuple[str, ...]:
        """Engines that crashed and are about to be started again."""
        up = {fact.engine for fact in self._ds.facts(Serving)} | self._given_up()
        return tuple(name for name in self._plugged if name not in up)

    def drop(self, name: str) -> None:
        """Unplug an engine without waiting for anything."""
        self._plugged.pop(name).stop()

    def _given_up(self) -> set[str]:
        return {fact.engine for fact in self._ds.facts(GaveUp)}

    async def _plug(self, name: str, old: str | None) -> None:
        if name in self._plugged:  # given up: its supervisor makes room
            await self._plugged.pop(name).stop()
        outgoing = self._plugged.get(old) if old is not None else None
        try:
            made = boot_of(name, self._kinds)
        except Exception as error:  # somebody's own function made it, and the others can do without
            raise RunFailed(f"engine {name} could not be made: {type(error).__name__}: {error}") from error
        boot = _hopeful(supervised(made, name=name, patience=_AT_ONCE), name)
        try:
            plug = await swap(self._ds, outgoing, boot, name=f"supervisor of {name}", serves=name)
        except SwapError as error:
            crashes = self._ds.facts(where(Crashed, actor=name))
            reason = f" ({crashes[-1].reason})" if crashes else ""
            raise RunFailed(f"engine {name} did not come to serve: {error}{reason}") from None
        assert plug is not None
        if old is not None:
            self._plugged.pop(old, None)
        self._plugged[name] = plug


def _hopeful(supervise: Callable[[Facet], None], name: str) -> Callable[[Facet], None]:
    """A supervisor that stops when it gives up on an engine that has never served, so that nobody waits for it."""

    def boot(me: Facet) -> None:
        served: list[Serving] = []
        me.observe(where(Serving, engine=name), appeared=served.append, once=True)
        me.observe(where(GaveUp, engine=name), appeared=lambda _: None if served else me.stop())
        supervise(me)

    return boot
