"""Agents of a host as their engine's hooks see them: turns, tools and requests, without a model or a network.

The hooks, the attribution of turns and the skills observer are the real ones; the agents, and what the adapter keeps for each,
are not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from bridges.hermes import hooks, turns
from bridges.hermes.adapter import EngineMethods
from bridges.hermes.aides import Aides, Standing, TurnBegun
from bridges.hermes.settings import read_settings
from bridges.hermes.skill_observer import SkillAide
from engines.skills import Book
from tests.skill_rows import load

__all__ = ["LOOK", "Agent", "Host", "apart", "is_notice", "new_host"]

SETTINGS = read_settings({"context": {"dataspace": {"observers": ["skills"]}}})
LOOK = "pre_api_request"
"""The hook that is there only while somebody wants to see requests."""


class Host:
    """Calls hooks, as a plugin context of the host has them registered."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Callable[..., Any]]] = {}
        self._manager = self

    def register_hook(self, name: str, hook: Callable[..., Any]) -> None:
        """Take a hook."""
        self._hooks.setdefault(name, []).append(hook)

    def fire(self, name: str, **told: Any) -> Any:
        """What the hook of this name says; None where there is none."""
        said = None
        for hook in self._hooks.get(name, ()):
            said = hook(**told)
        return said


class _Seat:
    """What the adapter keeps for an agent, as far as hooks come to it."""

    def __init__(self, sid: str, host_id: str, aides: Aides) -> None:
        self.host_id = host_id
        self.cell = sid
        self.aides = aides

    def turn_started(self, turn: Any) -> str | None:
        """A turn of this agent begins."""
        turn.cell = self.cell
        context = self.aides.context(TurnBegun(turn.turn, turn.text, turn.first))
        hooks.watch_requests(self.aides.wants_requests())
        return context

    def turn_ended(self, turn: str, **_told: Any) -> None:
        """It is over."""
        self.aides.turn_ended(turn)


class Agent:
    """One agent of the host: its turns, its tools, its requests."""

    def __init__(self, book: Book, host: Host, sid: str, session: str) -> None:
        standing = Standing(sid, session, "", "default", "m", "cli", SETTINGS, lambda _m: None, lambda _f, *_a: None)
        self.aides = Aides({"skills": SkillAide(standing, book)})
        self.context_compressor = EngineMethods()
        self.seat = _Seat(sid, session, self.aides)
        self.context_compressor.__dict__["_seat"] = self.seat
        self.host, self.session = host, session
        self._current_turn_id = ""
        hooks.known(self.seat)
        hooks.need_hooks(self.aides.hooks)

    def turn(self, name: str, *, first: bool = False) -> str | None:
        """A turn begins; what is to go with the user's message."""
        self._current_turn_id = name
        return _conversation(self, name, first)

    def end(self) -> None:
        """The turn is over."""
        self.host.fire("on_session_end", turn_id=self._current_turn_id, session_id=self.session)

    def request(self, rows: list[Any]) -> None:
        """The model is sent these messages."""
        self.fire(LOOK, request_messages=rows, conversation_history=rows, api_mode="chat_completions")

    def held(self, tool: str, call: str) -> bool:
        """Whether a tool has to wait."""
        return self.fire("pre_tool_call", tool_name=tool, args={}, tool_call_id=call) is not None

    def result(self, tool: str, args: dict[str, str], call: str, result: str) -> str | None:
        """What takes the place of a tool's result."""
        told = {"tool_name": tool, "args": args, "tool_call_id": call, "result": result, "status": "ok"}
        said = self.fire("transform_tool_result", **told)
        return None if said is None else str(said)

    def loads(self, call: str) -> list[Any]:
        """The rows of a load; its text, or a notice in its place."""
        rows = load(call, "alpha")
        rows[1]["content"] = (
            self.result("skill_view", {"name": "alpha"}, call, rows[1]["content"]) or rows[1]["content"]
        )
        return rows

    def fire(self, name: str, **told: Any) -> Any:
        """Call a hook in the turn of this agent."""
        said = self.host.fire(name, turn_id=self._current_turn_id, session_id=self.session, **told)
        assert not self.aides._failed, "the aide has failed"
        return said


def _conversation(agent: Agent, text: str, first: bool) -> str | None:  # the hook looks for an agent in its callers
    told = agent.host.fire(
        "pre_llm_call", turn_id=text, session_id=agent.session, user_message=text, is_first_turn=first
    )
    return None if told is None else str(told["context"])


def is_notice(rows: list[Any]) -> bool:
    """Whether a load has brought a notice."""
    return "already_active" in json.loads(rows[1]["content"])


def new_host() -> Host:
    """A host that knows no agent; those of other runs are gone, though some are still in memory."""
    host = Host()
    hooks._live = WeakSet()
    hooks.register_hooks(host)
    turns._turns.clear()
    turns._open.clear()
    return host


@contextmanager
def apart() -> Iterator[None]:
    """The hooks of this process as they were, afterwards."""
    before = (hooks._live, hooks.host_context[0], set(hooks._registered), set(hooks._needed))
    try:
        yield
    finally:
        hooks._live, hooks.host_context[0] = before[:2]
        for kept, now in zip(before[2:], (hooks._registered, hooks._needed), strict=True):
            now.clear()
            now.update(kept)
        turns._turns.clear()
        turns._open.clear()
