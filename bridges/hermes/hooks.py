"""The hooks of the host: turns, tools, delegated work, and when a session is really over.

What a hook says goes to the seat of the turn it names (see `turns`), or to nobody.  No hook waits.  Those that cost the
host something merely by being there are registered when an aide needs them, and no sooner.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol
from weakref import WeakSet

from .aides import Call
from .turns import Turn, begin, claim, forget, turn_of

__all__ = ["claim_turn", "host_context", "known", "need_hooks", "register_hooks", "seats", "watch_requests"]

log = logging.getLogger(__name__)
_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode


class Guest(Protocol):
    """What a hook may tell an agent's seat."""

    def turn_started(self, turn: Turn) -> str | None:
        """A turn begins; returns what is to go with the user's message."""
        ...

    def turn_ended(self, turn: str, *, completed: bool, interrupted: bool, text: str = "") -> None:
        """A turn is over."""
        ...

    def tool_called(self, turn: Turn, call: Call) -> None:
        """A tool has answered."""
        ...

    def delegated(self, turn: Turn, child: Any, task: str) -> None:
        """Work was handed to the seat `child`."""
        ...

    def finalized(self, session_id: str, reason: str = "") -> None:
        """A session is over for good."""
        ...

    def stopped(self, session_id: str) -> None:
        """The agent of a session of its own is over."""
        ...


host_context: list[Any] = [None]
"""The plugin context that the host has given last."""

_live: WeakSet[Any] = WeakSet()
_lock = threading.Lock()
_registered: set[str] = set()
_needed: set[str] = set()


# -- registration -----------------------------------------------------------------------------------------------------


def register_hooks(ctx: Any) -> None:
    """Register what the host takes; a host without hooks does without."""
    host_context[0] = ctx
    with _lock:
        _registered.clear()  # the host has forgotten them
    for name in (*_ALWAYS, *_needed):
        _register(name)


def need_hooks(names: Iterable[str]) -> None:
    """From now on these are needed, too."""
    for name in names:
        if name not in _registered:
            _needed.add(name)
            _register(name)


def watch_requests(wanted: bool) -> None:
    """Whether anybody wants to see requests; the hook for them alone costs the host milliseconds each."""
    name = "pre_api_request"
    if wanted and name not in _registered:
        _register(name)
    elif not wanted and name in _registered and not any(_wants_requests(seat) for seat in seats()):
        _withdraw(name)


def _register(name: str) -> None:
    register = getattr(host_context[0], "register_hook", None)
    if not callable(register):
        return
    with _lock:
        if name in _registered:
            return
        _registered.add(name)
    try:
        register(name, _HOOKS[name])
    except Exception as error:  # noqa: BLE001 - a host that does not know the hook
        log.debug("the hook %s was not taken: %r", name, error)


def _withdraw(name: str) -> None:
    """The host has no way to say this; its list is replaced, so that whoever walks through it is not disturbed."""
    hooks = getattr(getattr(host_context[0], "_manager", None), "_hooks", None)
    if isinstance(hooks, dict) and _HOOKS[name] in hooks.get(name, ()):
        hooks[name] = [hook for hook in hooks[name] if hook is not _HOOKS[name]]
        with _lock:
            _registered.discard(name)


def known(seat: Any) -> None:
    """A seat that hooks may be meant for, as long as it exists."""
    with _lock:
        _live.add(seat)


def claim_turn(seat: Any, session: str) -> Turn | None:
    """The turn that was begun on this thread and belongs to nobody yet; it is this seat's from now on."""
    return claim(seat, session)


# -- turns ------------------------------------------------------------------------------------------------------------


def _turn_opened(
    turn_id: str = "", session_id: str = "", user_message: Any = "", is_first_turn: bool = False, **_told: Any
) -> dict[str, str] | None:
    if not turn_id:
        return None
    turn = Turn(turn_id, str(session_id or ""), _text(user_message), first=bool(is_first_turn))
    seat: Guest | None = begin(turn)
    context = None if seat is None else seat.turn_started(turn)
    return {"context": context} if context else None


def _answered(turn_id: str = "", assistant_response: Any = "", **_told: Any) -> None:
    turn = turn_of(turn_id)
    if turn is not None:
        turn.answer = _text(assistant_response)


def _turn_ended(turn_id: str = "", completed: bool = True, interrupted: bool = False, **_told: Any) -> None:
    forget()
    turn = turn_of(turn_id)
    seat: Guest | None = None if turn is None else turn.seat
    if turn is not None and seat is not None:
        seat.turn_ended(turn_id, completed=bool(completed), interrupted=bool(interrupted), text=turn.answer)


# -- tools ------------------------------------------------------------------------------------------------------------


def _tool_called(turn_id: str = "", **told: Any) -> None:
    turn = turn_of(turn_id)
    seat: Guest | None = None if turn is None else turn.seat
    if turn is not None and seat is not None:
        seat.tool_called(turn, _call(told))


def _tool_result(turn_id: str = "", **told: Any) -> str | None:
    aides = _aides(turn_id)
    if aides is None or not isinstance(told.get("result"), str):
        return None
    changed: str | None = aides.tool_result(_call(told))
    watch_requests(aides.wants_requests())
    return changed


def _tool_wanted(
    turn_id: str = "", tool_name: str = "", args: Any = None, tool_call_id: str = "", **_told: Any
) -> dict[str, str] | None:
    aides = _aides(turn_id)
    if aides is None:
        return None
    why = aides.veto(tool_name, args if isinstance(args, Mapping) else {}, tool_call_id)
    if not why:
        return None
    watch_requests(aides.wants_requests())  # a tool that is held back has no result, which would have asked that
    return {"action": "block", "message": why}


def _request(
    turn_id: str = "", request_messages: Any = (), conversation_history: Any = (), api_mode: str = "", **_told: Any
) -> None:
    aides = _aides(turn_id)
    if aides is not None:  # a provider with a form of its own gets the same messages in that form
        aides.request(request_messages if api_mode in {"", "chat_completions"} else conversation_history)
    watch_requests(False)


def _aides(turn_id: str) -> Any:
    """What answers at once in that turn, if it goes on in the conversation it began in."""
    turn = turn_of(turn_id)
    if turn is None:
        return None
    seat = turn.seat
    return seat.aides if seat is not None and seat.cell is turn.cell else None


# -- sessions ---------------------------------------------------------------------------------------------------------


def _finalized(session_id: str = "", reason: str = "", **_told: Any) -> None:
    if session_id:
        for seat in seats():
            seat.finalized(session_id, str(reason or ""))


def _child_started(parent_turn_id: str = "", child_session_id: str = "", child_goal: Any = "", **_told: Any) -> None:
    turn = turn_of(parent_turn_id)
    seat: Guest | None = None if turn is None else turn.seat
    if turn is None or seat is None or not child_session_id:
        return
    children = [one for one in seats() if one is not seat and one.host_id == child_session_id]
    if len(children) == 1:
        seat.delegated(turn, children[0], _text(child_goal))


def _child_stopped(child_session_id: str = "", parent_session_id: str = "", **_told: Any) -> None:
    """A delegated child is over; its agent never says so to its engine."""
    if child_session_id and child_session_id != parent_session_id:
        for seat in seats():
            seat.stopped(child_session_id)


# -- inside -----------------------------------------------------------------------------------------------------------


def _call(told: Mapping[str, Any]) -> Call:
    args, result, milliseconds = told.get("args"), told.get("result"), told.get("duration_ms")
    return Call(
        str(told.get("tool_name") or ""),
        args if type(args) is dict or isinstance(args, Mapping) else {},
        str(told.get("tool_call_id") or ""),
        result if isinstance(result, str) else _text(result),
        str(told.get("status") or ""),
        milliseconds / 1000 if isinstance(milliseconds, (int, float)) else None,
    )


def _text(value: Any) -> str:
    """What is said in a message's content, or in whatever else a host may give."""
    if isinstance(value, str) or value is None:
        return value or ""
    from engines.transcript import text_of  # noqa: PLC0415 - whoever has a turn has it already

    try:
        return text_of({"content": value}) if isinstance(value, list) else json_text(value)
    except (TypeError, ValueError, AttributeError):
        return str(value)


def json_text(value: Any) -> str:
    """A value as JSON, with what JSON cannot say as text."""
    return _encode(value)


def _wants_requests(seat: Any) -> bool:
    aides = seat.aides
    return aides is not None and aides.wants_requests()


def seats() -> list[Any]:
    """Every agent's seat that there is."""
    with _lock:
        return list(_live)


_HOOKS: dict[str, Callable[..., Any]] = {
    "pre_llm_call": _turn_opened,
    "post_llm_call": _answered,
    "on_session_end": _turn_ended,
    "post_tool_call": _tool_called,
    "on_session_finalize": _finalized,
    "subagent_start": _child_started,
    "subagent_stop": _child_stopped,
    "transform_tool_result": _tool_result,
    "pre_tool_call": _tool_wanted,
    "pre_api_request": _request,
}
_ALWAYS = tuple(_HOOKS)[:7]
