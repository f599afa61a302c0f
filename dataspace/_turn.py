"""`with me.turn():`, a turn or a savepoint."""

from __future__ import annotations

from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING

from ._state import State
from .errors import TurnError

if TYPE_CHECKING:
    from ._facet import Facet

__all__ = ["Turn"]

ALIVE = State.ALIVE


class Turn:
    """An open turn, or a savepoint in one; see `Facet.turn`."""

    __slots__ = ("facet", "mark")
    mark: int

    def __init__(self, facet: Facet) -> None:
        self.facet = facet

    def __enter__(self) -> Facet:
        facet = self.facet
        ds, actor = facet.ds, facet.actor
        if ds._thread != get_ident() or facet.state is not ALIVE or (ds._actor is not None and ds._actor is not actor):
            facet._may_act()
        if ds._actor is None:
            ds._actor, ds._actions, self.mark = actor, [], -1
        else:
            self.mark = len(ds._actions)
        return facet

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ds, actor = self.facet.ds, self.facet.actor
        if ds._actor is not actor:
            if ds._runtime is not None and self.mark < 0:
                ds._runtime.forgive()
            raise TurnError(f"the turn of {actor.name} was ended by an await inside it; nothing it did was kept")
        if self.mark >= 0:
            if kind is not None:
                ds._undo(ds._actions, self.mark)
            return
        actions, ds._actor = ds._actions, None
        if kind is not None:
            ds._undo(actions)
        elif actions:
            ds._commit(actor, actions, None)
            if ds._queue and not ds._draining:
                ds._drain()
