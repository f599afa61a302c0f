"""Aides: what answers the host at once, for one conversation of one agent, on the host's threads.

An engine in the dataspace is told and asked; it cannot put a word into a tool's result or hold a tool back while the
host waits for microseconds.  An aide can.  Each is made with its conversation and ends with it; an observer brings it
along (see `observers`).  Whatever an aide raises is logged and costs nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from attrs import frozen

if TYPE_CHECKING:
    from .settings import Settings

__all__ = ["Aide", "Aides", "Call", "Standing", "TurnBegun"]

log = logging.getLogger(__name__)


@frozen
class Standing:
    """Where an aide stands: its conversation, and how to reach the dataspace from there.

    `home` and `profile` are the conversation's, which are others than the process's in a gateway.  `say(message)` sends
    a message of the vocabulary after all that has happened so far; `soon(fn, *args)` has `fn(desk, *args)` called on the
    dataspace's thread, in the order of these calls.  Neither waits.
    """

    sid: str
    host_session: str
    home: str
    profile: str
    model: str
    platform: str
    settings: Settings
    say: Callable[[object], None]
    soon: Callable[..., None]


class Call(NamedTuple):
    """A tool has answered: `args` as the tool got them, `result` as the model is to see it."""

    tool: str
    args: Mapping[str, Any]
    call_id: str
    result: str
    status: str
    seconds: float | None = None


class TurnBegun(NamedTuple):
    """A turn begins: its id, what the user asked, and whether the session is a new one."""

    turn: str
    text: str
    first: bool = False


class Aide:
    """What an observer does at once.  Override what is needed; what is not overridden costs nothing.

    `tool_result` and `veto` come on tool threads, several at a time; all others on the thread that runs the turn or on
    that of a command.  All of them are waited for, so they take microseconds and do no I/O.
    """

    def tool_result(self, call: Call) -> str | None:
        """Another text for the model to see in place of the result; None: the result."""
        return None

    def veto(self, tool: str, args: Mapping[str, Any], call_id: str) -> str | None:
        """Why this call is not to be made, for the model to read; None: it may be."""
        return None

    def context(self, turn: TurnBegun) -> str | None:
        """A text to go with the user's message of this turn; None: nothing."""
        return None

    def wants_requests(self) -> bool:
        """Whether the next requests are to be shown; asked again and again, for showing them costs milliseconds."""
        return False

    def request(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """The messages of a request that is about to be sent; they are not to be changed."""

    def handle_tool_call(self, name: str, args: Mapping[str, Any], messages: Sequence[Any]) -> Any:
        """Answer a call of one of the observer's tools, in JSON text or in something that JSON can say."""
        raise NotImplementedError(f"there is no tool {name}")

    def turn_ended(self, turn: str) -> None:
        """A turn is over."""

    def compacted(self) -> None:
        """The host has taken a compaction over: what the model saw before may be gone."""

    def rotated(self, host_session: str) -> None:
        """The conversation goes on under another id of the host."""

    def changed(self, settings: Settings) -> None:
        """Other settings count from now on."""

    def ended(self, reason: str) -> None:
        """The conversation is over, because of `reason`: `session_reset`, `session_end`; nothing comes after it.

        Without a reason: the conversation goes on, and its settings do not want this observer any more.
        """


class Aides:
    """All aides of one conversation, by the names of their observers, as one.  Nothing here raises.

    `tools` says by whose aide a tool is answered.
    """

    def __init__(self, named: Mapping[str, Aide], tools: Mapping[str, str] | None = None) -> None:
        self.named = dict(named)
        aides = tuple(self.named.values())
        self._tools = {tool: self.named[name] for tool, name in (tools or {}).items() if name in self.named}
        self._over = {name: tuple(getattr(aide, name) for aide in aides if _overrides(aide, name)) for name in _PARTS}
        self._failed: set[tuple[int, str]] = set()

    @property
    def hooks(self) -> tuple[str, ...]:
        """The hooks of the host that are needed for these, beyond those that are always there."""
        return tuple(hook for name, hook in _HOOKS.items() if self._over[name])

    def tool_result(self, call: Call) -> str | None:
        """The text that takes the place of a result; each sees what the one before it has made of it."""
        changed = None
        for tool_result in self._over["tool_result"]:
            text = self._safe(tool_result, call)
            if isinstance(text, str):
                changed = text
                call = call._replace(result=text)
        return changed

    def veto(self, tool: str, args: Mapping[str, Any], call_id: str) -> str | None:
        """The first objection."""
        for veto in self._over["veto"]:
            why = self._safe(veto, tool, args, call_id)
            if isinstance(why, str) and why:
                return why
        return None

    def context(self, turn: TurnBegun) -> str | None:
        """All that is to go with the user's message."""
        said = [text for context in self._over["context"] if (text := self._safe(context, turn)) is not None]
        return "\n\n".join(text for text in said if isinstance(text, str) and text.strip()) or None if said else None

    def wants_requests(self) -> bool:
        """Whether any of them wants to be shown requests."""
        return True in [self._safe(wants) is True for wants in self._over["wants_requests"]]

    def request(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Show a request to those that want it."""
        for request in self._over["request"]:
            if self._safe(request.__self__.wants_requests) is True:
                self._safe(request, messages)

    def handle_tool_call(self, name: str, args: Any, messages: Any) -> str | None:
        """The answer of whose tool it is, always JSON text; None: it is nobody's."""
        aide = self._tools.get(name)
        if aide is None:
            return None
        failed = object()
        told = (args if isinstance(args, Mapping) else {}, messages if isinstance(messages, Sequence) else ())
        answer = self._safe(aide.handle_tool_call, name, *told, otherwise=failed)
        if answer is failed:
            return json.dumps({"error": f"{name} has failed"})
        return answer if isinstance(answer, str) else json.dumps(answer, default=str)

    def turn_ended(self, turn: str) -> None:
        """A turn is over."""
        self._tell("turn_ended", turn)

    def compacted(self) -> None:
        """The host has taken a compaction over."""
        self._tell("compacted")

    def rotated(self, host_session: str) -> None:
        """Another id of the host."""
        self._tell("rotated", host_session)

    def changed(self, settings: Settings) -> None:
        """Other settings count from now on."""
        self._tell("changed", settings)

    def ended(self, reason: str) -> None:
        """The conversation is over."""
        self._tell("ended", reason)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _tell(self, name: str, *args: Any) -> None:
        for part in self._over[name]:
            self._safe(part, *args)

    def _safe(self, part: Callable[..., Any], *args: Any, otherwise: Any = None) -> Any:
        try:
            return part(*args)
        except KeyboardInterrupt:
            raise  # it is the user's, on a thread of the host
        except BaseException:  # the traceback once: some of these come with every tool
            aide, name = getattr(part, "__self__", None), getattr(part, "__name__", "a part")
            first = (id(aide), name) not in self._failed
            self._failed.add((id(aide), name))
            log.log(
                logging.ERROR if first else logging.DEBUG, "%s failed in %s", type(aide).__name__, name, exc_info=True
            )
            return otherwise


_HOOKS = {"tool_result": "transform_tool_result", "veto": "pre_tool_call"}
_PARTS = [name for name in vars(Aide) if not name.startswith("_")]


def _overrides(aide: Aide, name: str) -> bool:
    return getattr(type(aide), name) is not getattr(Aide, name)
