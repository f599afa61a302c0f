"""The hooks of the host that say where a turn begins and ends, and when a session is really over.

A hook names a session, and several agents may bear the same session's id.  A turn is told apart by its own id: it is
opened on the thread it runs on, and the next engine call on that thread says whose it is.  What cannot be attributed
is dropped.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from typing import Any, Protocol
from weakref import WeakSet, ref

__all__ = ["claim_turn", "host_context", "known", "register_hooks"]

MOST = 1000  # turns and threads that are remembered: some never end

log = logging.getLogger(__name__)


class Guest(Protocol):
    """What a hook may tell an agent's seat."""

    def turn_ended(self, turn: str, *, completed: bool, interrupted: bool) -> None:
        """A turn is over."""
        ...

    def finalized(self, session_id: str) -> None:
        """A session is over for good."""
        ...

    def stopped(self, session_id: str) -> None:
        """The agent of a session of its own is over."""
        ...


host_context: list[Any] = [None]
"""The plugin context that the host has given last."""

_live: WeakSet[Any] = WeakSet()
_opened: OrderedDict[int, str] = OrderedDict()
_turns: OrderedDict[str, ref[Any]] = OrderedDict()
_lock = threading.Lock()


def register_hooks(ctx: Any) -> None:
    """Register what the host takes; a host without hooks does without."""
    host_context[0] = ctx
    register = getattr(ctx, "register_hook", None)
    if not callable(register):
        return
    for name, hook in (
        ("pre_llm_call", _turn_opened),
        ("on_session_end", _turn_ended),
        ("on_session_finalize", _finalized),
        ("subagent_stop", _child_stopped),
    ):
        try:
            register(name, hook)
        except Exception as error:  # noqa: BLE001 - a host that does not know the hook
            log.debug("the hook %s was not taken: %r", name, error)


def known(seat: Any) -> None:
    """A seat that hooks may be meant for, as long as it exists."""
    with _lock:
        _live.add(seat)


def claim_turn(seat: Guest) -> str | None:
    """The turn that was opened on this thread and belongs to nobody yet; it is this seat's from now on."""
    if not _opened:
        return None
    with _lock:
        turn = _opened.pop(threading.get_ident(), None)
        if turn is not None:
            _keep(_turns, turn, ref(seat))
    return turn


def _turn_opened(turn_id: str = "", **_told: Any) -> None:
    if turn_id:
        with _lock:
            _keep(_opened, threading.get_ident(), turn_id)


def _turn_ended(turn_id: str = "", completed: bool = True, interrupted: bool = False, **_told: Any) -> None:
    with _lock:
        _opened.pop(threading.get_ident(), None)
        whose = _turns.pop(turn_id, None)
    seat = None if whose is None else whose()
    if seat is not None:
        seat.turn_ended(turn_id, completed=bool(completed), interrupted=bool(interrupted))


def _finalized(session_id: str = "", **_told: Any) -> None:
    if session_id:
        for seat in _seats():
            seat.finalized(session_id)


def _child_stopped(child_session_id: str = "", parent_session_id: str = "", **_told: Any) -> None:
    """A delegated child is over; its agent never says so to its engine."""
    if child_session_id and child_session_id != parent_session_id:
        for seat in _seats():
            seat.stopped(child_session_id)


def _seats() -> list[Guest]:
    with _lock:
        return list(_live)


def _keep(store: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    store[key] = value
    while len(store) > MOST:
        store.popitem(last=False)
