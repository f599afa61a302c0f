"""An observer of somebody else's: its engine notes down all that it hears, its aides do as they are told.

Settings name it as `tests.hermes_adapter.watcher`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bridges.hermes.aides import Aide, Call, Standing, TurnBegun
from bridges.hermes.settings import Settings
from dataspace import Facet
from engines import facts as f
from engines.facts import Noted, Serving

__all__ = ["ASKED", "HEARD", "MADE", "NAME", "PLAN", "Watcher", "aide", "boot", "forget", "show", "status", "tools"]

NAME = "tests.hermes_adapter.watcher"
HEARD: list[Any] = []
"""Facts as they appear, and messages, of conversations that want this observer; in the order in which they came."""
MADE: list[Watcher] = []
ASKED: list[str] = []
PLAN: dict[str, Callable[..., Any]] = {}
"""What the aides do, by the name of the method; nothing where there is nothing."""


class Watcher(Aide):
    """Notes down what it is told, and does what `PLAN` says."""

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.told: list[tuple[Any, ...]] = []

    def _do(self, name: str, *args: Any) -> Any:
        self.told.append((name, *args))
        plan = PLAN.get(name)
        return None if plan is None else plan(self, *args)

    def tool_result(self, call: Call) -> str | None:
        answer: str | None = self._do("tool_result", call)
        return answer

    def veto(self, tool: str, args: Mapping[str, Any], call_id: str) -> str | None:
        answer: str | None = self._do("veto", tool, args, call_id)
        return answer

    def context(self, turn: TurnBegun) -> str | None:
        answer: str | None = self._do("context", turn)
        return answer

    def wants_requests(self) -> bool:
        return bool(PLAN.get("wants_requests", lambda _aide: False)(self))

    def request(self, messages: Sequence[Mapping[str, Any]]) -> None:
        self._do("request", len(messages))

    def handle_tool_call(self, name: str, args: Mapping[str, Any], messages: Sequence[Any]) -> Any:
        self.standing.say(Noted(self.standing.sid, str(args.get("text")), by=NAME))
        answer = self._do("handle_tool_call", name, args)
        return {"noted": self.standing.host_session} if answer is None else answer

    def turn_ended(self, turn: str) -> None:
        self._do("turn_ended", turn)

    def compacted(self) -> None:
        self._do("compacted")

    def rotated(self, host_session: str) -> None:
        self._do("rotated", host_session)

    def changed(self, settings: Settings) -> None:
        self._do("changed", settings.observers)

    def ended(self, reason: str) -> None:
        self._do("ended", reason)
        self.standing.say(Noted(self.standing.sid, "the last word", by=NAME))


def aide(standing: Standing) -> Aide:
    """One for each conversation."""
    made = Watcher(standing)
    MADE.append(made)
    return made


def boot(settings: Settings, of: Callable[[str], Settings | None]) -> Callable[[Facet], None]:
    """One for the process."""
    ASKED.append(threading.current_thread().name)

    def watch(me: Facet) -> None:
        def heard(fact: Any) -> None:
            if of(fact.sid) is not None:
                HEARD.append(fact)

        for cls in f.FACTS.values():
            if cls in f.MESSAGES:
                me.observe(cls, heard=heard)
            elif cls in {f.Session, f.Transcript, f.ShouldCompress, f.Compressed}:
                me.observe(cls, appeared=heard)
        me.publish(Serving(me.name, "observer"))

    return watch


def tools(settings: Settings) -> list[dict[str, Any]]:
    """One tool."""
    text = {"type": "object", "properties": {"text": {"type": "string"}}}
    return [{"name": "note_down", "description": "Note something down.", "parameters": text}]


def status(me: Facet) -> list[str]:
    """A line of its own."""
    return [f"watcher: {len(HEARD)} heard"]


def show(me: Facet, text: str) -> str:
    """A view of its own."""
    return f"watcher shows {text!r}"


def forget() -> None:
    """As if nothing had been."""
    HEARD.clear()
    MADE.clear()
    ASKED.clear()
    PLAN.clear()
