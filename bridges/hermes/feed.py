"""What one agent's turns, tools and children become in the dataspace, and what its aides say to them.

All of it goes through the conversation's cell, so that it arrives in the order in which it happened, among everything
else that has happened in this conversation.  Nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from engines.facts import Delegated, ToolCalled, TurnEnded, TurnStarted
from engines.loop.events import SessionDescribed

from .aides import Aides, Call, Standing, TurnBegun
from .cell import Cell
from .hooks import claim_turn, json_text, need_hooks, watch_requests
from .lifecycle import Sessions
from .observers import wanted
from .turns import Turn

__all__ = ["Feed"]


class Feed(Sessions):
    """Turns, tools and delegated work of one agent."""

    def turn_started(self, turn: Turn) -> str | None:
        """A turn of this agent begins; returns what is to go with the user's message."""
        cell = turn.cell = self.begun()
        if cell is None:
            return None
        self.turn = turn.turn
        cell.say(TurnStarted(cell.sid, turn.turn, text=turn.text))
        aides = self.aides
        if aides is None:
            return None
        watch_requests(aides.wants_requests())
        return aides.context(TurnBegun(turn.turn, turn.text, turn.first))

    def take_turn(self) -> None:
        """If a turn was begun on this thread and is nobody's yet, it is ours; for a word with it, it is too late."""
        turn = claim_turn(self, self.host_id)
        if turn is not None:
            cell = turn.cell = self.begun()
            self.turn = turn.turn
            if cell is not None:
                cell.say(TurnStarted(cell.sid, turn.turn, text=turn.text))

    def turn_ended(self, turn: str, *, completed: bool, interrupted: bool, text: str = "") -> None:
        """A turn is over; what it was offered and did not take is dropped."""
        self.drop_offer()
        cell = self.cell
        if cell is not None:
            cell.say(TurnEnded(cell.sid, turn, completed=completed, interrupted=interrupted, text=text))
        if self.aides is not None:
            self.aides.turn_ended(turn)
        self.turn = None

    def tool_called(self, turn: Turn, call: Call) -> None:
        """A tool has answered in one of this agent's turns."""
        cell = turn.cell
        if cell is not None and cell is self.cell:  # a late one of a conversation that is over is nobody's
            args = json_text(call.args)
            told = {"args": args, "status": call.status, "result": call.result, "seconds": call.seconds}
            cell.say(ToolCalled(cell.sid, call.call_id, call.tool, **told))

    def delegated(self, turn: Turn, child: Any, task: str) -> None:
        """This agent has handed work to the agent of another seat."""
        cell, theirs = turn.cell, child.begun()
        if cell is None or cell is not self.cell or theirs is None:
            return
        theirs.happen(SessionDescribed(theirs.sid, parent=cell.sid))
        cell.say(Delegated(cell.sid, theirs.sid, task=task))

    # -- aides --------------------------------------------------------------------------------------------------------

    def _new_cell(self) -> Cell:
        cell = super()._new_cell()
        self.aides = self._aides(cell)
        return cell

    def _aides(self, cell: Cell) -> Aides | None:
        """What answers at once in this conversation; None: nothing does."""
        session = cell.state.session
        standing = Standing(
            sid=cell.sid,
            host_session=session.host_session or "",
            home=session.home or "",
            profile=session.profile,
            model=session.model,
            platform=session.platform,
            settings=self.settings,
            say=partial(_say, cell),
            soon=self._soon,
        )
        made = [aide for aide in (one.aide(standing) for one in wanted(self.settings.observers)) if aide is not None]
        if not made:
            return None
        aides = Aides(made)
        need_hooks(aides.hooks)
        return aides

    def _soon(self, fn: Callable[..., Any], *args: Any) -> None:
        runtime = self.runtime
        if runtime is not None:
            runtime.soon(fn, *args)


def _say(cell: Cell, message: object) -> None:
    if cell.state.active:
        cell.say(message)
