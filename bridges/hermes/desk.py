"""The conversations of this process in the dataspace: facts that follow the cells, and the engines that serve them.

This is the loop's actor with one difference: a state is stepped in its cell, wherever that happens, and shown here.
Everything in this module runs on the dataspace's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from attrs import evolve

from dataspace import Facet
from engines.facts import Serving
from engines.loop import Policy
from engines.loop.actor import Loop
from engines.loop.events import AnswerHeard, EngineBegan, EngineBusy, EngineCeased, EngineFree, Event, SessionEnded

from .cell import Cell
from .crew import Crew
from .pending import Deed, Waiter
from .plugs import Boot, Plugs
from .settings import Settings

__all__ = ["Desk"]

SLICE = 10
"""So many states are shown in a row: while they are, a thread of the host may be waiting for the interpreter."""


class Desk(Loop):
    """Shows cells, and runs what serves them."""

    def __init__(self, me: Facet) -> None:
        super().__init__(me, Policy(owned=False), clock=time.monotonic)
        self._cells: dict[str, Cell] = {}
        self._fresh: set[str] = (
            set()
        )  # conversations whose engines do not serve yet: those that are to are taken for it
        self.plugs = Plugs(me)
        self._heard: dict[Serving, Serving] = {}  # what serves one conversation only, though it says for all
        self.crew = Crew(me)
        self.at_once: Callable[..., None] | None = None
        """Has `fn(desk, *args)` called as soon as this thread has done what it does now; set by who runs it."""
        self.in_a_while: Callable[..., None] | None = None
        """The same, once the host's threads have had the interpreter for themselves for a moment."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The conversations that go on, oldest first."""
        return tuple(self._cells.values())

    def adopt(self, cell: Cell, boots: dict[str, Boot], settings: Settings | None = None) -> None:
        """Show a conversation from now on, and plug in the engines that are to serve it, by actor name.

        The observers that its settings want are plugged in, too, where they are not yet.
        """
        if cell.sid in self._cells:
            return
        self._cells[cell.sid] = cell
        self._fresh.add(cell.sid)
        if settings is not None:
            self.crew.join(cell.sid, settings)
        cell.show_all()
        with self.me.turn():
            self._draw(cell)
        self.plugs.begin(cell.sid, boots)
        self.me.later(lambda: self.me.later(partial(self._settled, cell)))  # they serve by then

    def draw(self, cell: Cell) -> None:
        """What has happened in a cell becomes facts; of very much only a part now, and the rest in a while."""
        self.me.later(partial(self._draw, cell, SLICE))

    def catch_up(self) -> None:
        """What has happened in all cells becomes facts, all of it."""
        for cell in list(self._cells.values()):
            if cell.shown:
                self.me.later(partial(self._draw, cell))

    def open(self, cell: Cell, waiter: Waiter, event: Event) -> None:
        """A compress call: put its question to those who serve now."""

        def put() -> None:
            self._choose(cell)
            with cell.lock:
                if cell.waiter is waiter:  # otherwise nobody waits any more: its thread was interrupted meanwhile
                    cell.happen(event, quiet=True)
                    cell.opened(waiter)
            self._draw(cell)

        self.me.later(put)

    def finish(self, cell: Cell, reason: str = "") -> None:
        """Nobody can come for this conversation any more."""
        self.me.later(partial(cell.happen, SessionEnded(cell.sid, reason)))
        self.draw(cell)

    def unplug(self, sid: str) -> None:
        """Stop the engines that were plugged in for a conversation."""
        self.plugs.end(sid)

    def change(self, cell: Cell, come: dict[str, Boot], gone: tuple[str, ...], done: Callable[[], object]) -> None:
        """Change the engines of a conversation: `gone` go when `come` serve, and then `done` is called."""

        def settled() -> None:
            self.me.later(partial(self._choose, cell))
            done()

        self.plugs.change(cell.sid, come, gone, settled)

    # -- the loop's actor, with cells ---------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        cell = self._cells.get(event.sid)
        if cell is not None:
            if isinstance(event, EngineBegan | EngineCeased):
                self._choose(cell)
            if not self._known(cell, event):
                cell.happen(event, quiet=True)
            if cell.awaited() and self.at_once is not None:
                self.at_once(_draw_now, cell)  # the host's thread first: it needs the interpreter
            else:
                self._draw(cell)

    def _known(self, cell: Cell, event: Event) -> bool:
        """Whether the cell has been told of it on another thread: the fact or message here only follows."""
        if isinstance(event, AnswerHeard):
            return cell.follows(event.answer)
        return isinstance(event, EngineBusy | EngineFree) and event.engine in cell.begins

    def _began(self, serving: Serving) -> None:
        sid = self.plugs.sid_of(serving)
        if sid != serving.sid:
            said, serving = serving, evolve(serving, sid=sid)
            self._heard[said] = serving
        super()._began(serving)
        self._chosen(serving)

    def _ceased(self, serving: Serving) -> None:
        serving = self._heard.pop(serving, serving)
        super()._ceased(serving)
        self._chosen(serving)

    def _chosen(self, serving: Serving) -> None:
        for cell in (*self._cells.values(),) if serving.sid is None else (self._cells.get(serving.sid),):
            if cell is not None:
                self._choose(cell)

    def _settled(self, cell: Cell) -> None:
        self._fresh.discard(cell.sid)
        self._choose(cell)

    def _choose(self, cell: Cell) -> None:
        if cell.sid not in self._fresh:
            cell.choose(self._roster.of(cell.sid))

    def _draw(self, cell: Cell, left: int | None = None) -> None:
        """One state a turn, so that each can be seen; so many at most before the host has its turn (None: all)."""
        with cell.lock:
            cell.posted = False
            cell.catch_up()
            shown = cell.shown.popleft() if cell.shown else None
            more = bool(cell.shown)
        if shown is None or cell.sid not in self._cells:
            return  # nothing is told of a conversation after its end
        state = shown.state
        if self._states.get(cell.sid) is not state:
            self._show(state)
        for message in shown.said:
            if type(message) is Deed:
                message.do()
            else:
                self.me.send(message() if type(message) is partial else message)
        if not state.active:
            self._end(cell)
        elif more and left == 1 and self.in_a_while is not None:
            self.in_a_while(_draw_now, cell)
        elif more:
            self.me.later(partial(self._draw, cell, None if left is None else left - 1))

    def _end(self, cell: Cell) -> None:
        self._fresh.discard(cell.sid)
        if self._cells.pop(cell.sid, None) is not None:
            self._remember(cell.sid)
            self.unplug(cell.sid)


def _draw_now(desk: Desk, cell: Cell) -> None:
    desk.draw(cell)
