"""What one agent's turns, tools and children become in the dataspace, and what its aides say to them.

All of it goes through the conversation's cell, so that it arrives in the order in which it happened, among everything
else that has happened in this conversation.  Nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from engines.facts import Delegated, ToolCalled, TurnEnded, TurnStarted
from engines.loop.events import SessionDescribed

from .aides import Aide, Aides, Call, Standing, TurnBegun
from .cell import Cell
from .hooks import claim_turn, json_text, need_hooks, watch_requests
from .live import Live
from .observers import wanted
from .settings import Settings
from .turns import Turn

__all__ = ["Feed"]

_PLAIN = frozenset({str, int, float, bool, type(None)})


class Feed(Live):
    """Turns, tools and delegated work of one agent."""

    def turn_started(self, turn: Turn) -> str | None:
        """A turn of this agent begins; returns what is to go with the user's message."""
        self.refresh()
        cell = self._begin_turn(turn)
        if cell is None:
            return None
        aides = self.aides
        if aides is None:
            return None
        context = aides.context(TurnBegun(turn.turn, turn.text, turn.first))
        watch_requests(aides.wants_requests())  # a turn that begins may make them want some
        return context

    def take_turn(self) -> None:
        """If a turn was begun on this thread and is nobody's yet, it is ours; for a word with it, it is too late."""
        turn = claim_turn(self, self.host_id)
        if turn is not None:
            self._begin_turn(turn)

    def _begin_turn(self, turn: Turn) -> Cell | None:
        self._cut_short()
        cell = turn.cell = self.begun()
        self.turn = turn.turn
        if cell is not None:
            cell.say(partial(TurnStarted, cell.sid, turn.turn, text=turn.text))
        return cell

    def _cut_short(self) -> None:
        """A turn that the host has given up, as after an error of the provider, has an end of which nobody tells."""
        if self.turn is not None:
            self.turn_ended(self.turn, completed=False, interrupted=False)

    def _end(self, reason: str) -> None:
        self._cut_short()
        super()._end(reason)

    def turn_ended(self, turn: str, *, completed: bool, interrupted: bool, text: str = "") -> None:
        """A turn is over; what it was offered and did not take is dropped."""
        self.drop_offer()
        cell = self.cell
        if cell is not None:
            cell.say(partial(TurnEnded, cell.sid, turn, completed=completed, interrupted=interrupted, text=text))
        if self.aides is not None:
            self.aides.turn_ended(turn)
        self.turn = None

    def tool_called(self, turn: Turn, call: Call) -> None:
        """A tool has answered in one of this agent's turns."""
        cell = self.cell
        if cell is None or cell is not turn.cell:
            return  # a late one, of a conversation that is over
        args = call.args
        # What is plain through and through is copied and written out later, on nobody's time.
        plain = type(args) is dict and all(type(value) in _PLAIN for value in args.values())
        cell.say(partial(_called, cell.sid, call, dict(args) if plain else json_text(args)))

    def delegated(self, turn: Turn, child: Any, task: str) -> None:
        """This agent has handed work to the agent of another seat."""
        cell, theirs = self.cell, child.cell
        if cell is None or cell is not turn.cell or theirs is None:
            return
        theirs.happen(SessionDescribed(theirs.sid, parent=cell.sid))
        cell.say(Delegated(cell.sid, theirs.sid, task=task))

    # -- aides --------------------------------------------------------------------------------------------------------

    def _new_cell(self) -> Cell:
        cell = super()._new_cell()
        self.aides = self._aides(cell, {})
        return cell

    def observe_anew(self, before: Settings) -> None:
        """Other observers are wanted: aides that stay are told, those that are not wanted any more go."""
        super().observe_anew(before)
        if self.cell is None:
            return
        old = {} if self.aides is None else self.aides.named
        self.aides = self._aides(self.cell, old)
        new = {} if self.aides is None else self.aides.named
        Aides({name: aide for name, aide in old.items() if name not in new}).ended("")
        Aides({name: aide for name, aide in old.items() if name in new}).changed(self.settings)

    def _aides(self, cell: Cell, known: Mapping[str, Aide]) -> Aides | None:
        """What answers at once in this conversation, of whom some may be known already; None: nothing does."""
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
        named: dict[str, Aide] = {}
        tools: dict[str, str] = {}
        for one in wanted(self.settings.observers):
            aide = known.get(one.name) or one.aide(standing)
            if aide is not None:
                named[one.name] = aide
                tools.update({str(schema.get("name")): one.name for schema in one.tools(self.settings)})
        if not named:
            return None
        aides = Aides(named, tools)
        need_hooks(aides.hooks)
        return aides

    def _soon(self, fn: Callable[..., Any], *args: Any) -> None:
        runtime = self.runtime
        if runtime is not None:
            runtime.soon(fn, *args)


def _called(sid: str, call: Call, args: dict[str, Any] | str) -> ToolCalled:
    return ToolCalled(
        sid,
        call.call_id,
        call.tool,
        args=args if isinstance(args, str) else json_text(args),
        status=call.status,
        result=call.result,
        seconds=call.seconds,
    )


def _say(cell: Cell, message: object) -> None:
    if cell.state.active:
        cell.say(message)
