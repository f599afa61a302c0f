"""The conversations of this process in the dataspace: facts that follow the cells, and the engines that serve them.

This is the loop's actor with one difference: a state is stepped in its cell, wherever that happens, and shown here.
Everything in this module runs on the dataspace's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from dataspace import Facet
from engines.facts import Serving
from engines.loop import Policy
from engines.loop.actor import Loop
from engines.loop.events import Event, SessionEnded
from engines.supervisor import supervised

from .cell import Cell, Waiter
from .crew import Crew
from .settings import Settings

__all__ = ["Desk"]

Boot = Callable[[Facet], object]


class Desk(Loop):
    """Shows cells, and runs what serves them."""

    def __init__(self, me: Facet) -> None:
        super().__init__(me, Policy(owned=False), clock=time.monotonic)
        self._cells: dict[str, Cell] = {}
        self._plugged: dict[str, list[Facet]] = {}
        self.crew = Crew(me)

    def adopt(self, cell: Cell, boots: dict[str, Boot], settings: Settings | None = None) -> None:
        """Show a conversation from now on, and plug in the engines that are to serve it, by actor name.

        The observers that its settings want are plugged in, too, where they are not yet.
        """
        if cell.sid in self._cells:
            return
        self._cells[cell.sid] = cell
        if settings is not None:
            self.crew.join(cell.sid, settings)
        cell.show_all()
        with self.me.turn():
            self._draw(cell)
        self._plugged[cell.sid] = [
            self.me.spawn(supervised(boot, name=name), name=f"supervisor of {name}") for name, boot in boots.items()
        ]
        self.me.later(lambda: self.me.later(partial(self._choose, cell)))  # they serve by then

    def draw(self, cell: Cell) -> None:
        """What has happened in a cell becomes facts."""
        self.me.later(partial(self._draw, cell))

    def open(self, cell: Cell, waiter: Waiter, event: Event) -> None:
        """A compress call: put its question to those who serve now."""

        def put() -> None:
            self._choose(cell)
            cell.happen(event)
            cell.opened(waiter)
            self._draw(cell)

        self.me.later(put)

    def finish(self, cell: Cell, reason: str = "") -> None:
        """Nobody can come for this conversation any more."""
        self.me.later(partial(cell.happen, SessionEnded(cell.sid, reason)))
        self.draw(cell)

    def unplug(self, sid: str) -> None:
        """Stop the engines that were plugged in for a conversation."""
        for facet in self._plugged.pop(sid, ()):
            facet.stop()

    # -- the loop's actor, with cells ---------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        cell = self._cells.get(event.sid)
        if cell is not None:
            self._choose(cell)
            cell.happen(event)
            self._draw(cell)

    def _began(self, serving: Serving) -> None:
        super()._began(serving)
        self._chosen(serving)

    def _ceased(self, serving: Serving) -> None:
        super()._ceased(serving)
        self._chosen(serving)

    def _chosen(self, serving: Serving) -> None:
        for cell in (*self._cells.values(),) if serving.sid is None else (self._cells.get(serving.sid),):
            if cell is not None:
                self._choose(cell)

    def _choose(self, cell: Cell) -> None:
        cell.choose(self._roster.of(cell.sid))

    def _draw(self, cell: Cell) -> None:
        """One state a turn, so that each can be seen."""
        with cell.lock:
            cell.posted = False
            shown = cell.shown.popleft() if cell.shown else None
            more = bool(cell.shown)
        if shown is None:
            return
        state = shown.state
        if self._states.get(cell.sid) is not state:
            self._show(state)
        for message in (*shown.refused, *shown.said):
            self.me.send(message)
        if not state.active:
            self._end(cell)
        elif more:
            self.me.later(partial(self._draw, cell))

    def _end(self, cell: Cell) -> None:
        if self._cells.pop(cell.sid, None) is not None:
            self._remember(cell.sid)
            self.unplug(cell.sid)
