"""What a user has restored, on its way to that user's agent: it goes with the next turn, once, and to nobody else.

A command names no session.  In the host's terminal there is one agent in front of the user, and it is asked which; elsewhere
it is the only one that can be meant, or none.  An agent may not exist yet, or be between two conversations, so what waits is
kept for the agent and not for a conversation.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import Any
from weakref import ref

from attrs import frozen

from .hooks import host_context, seats

__all__ = ["LOCAL", "candidates", "keep_nothing_of", "room_in", "taken", "unkept", "wait"]

LOCAL = frozenset({"cli", "tui", "desktop"})
"""Platforms with one user, to whom all that is in the profile belongs; of one that is not told nobody knows that."""

_MOST = 1000
_SPILLED = 10_000  # characters from which the host does that, where nobody has set it
_BESIDE = 1_000  # characters that are left to others who have something to say with the same message
_lock = threading.Lock()


@frozen
class _Waiting:
    """A text, and whose it is: `seat` None is the first agent in this home that begins a turn."""

    text: str
    home: str
    seat: ref[Any] | None


_waiting: list[_Waiting] = []

unkept: dict[str, None] = {}
"""Conversations of helpers that bear their parent's name; nothing of them is kept."""


def keep_nothing_of(sid: str) -> None:
    """A conversation of such a helper has begun; the latest thousand are known."""
    unkept[sid] = None
    while len(unkept) > _MOST:
        unkept.pop(next(iter(unkept)), None)


def candidates() -> list[Any]:
    """The seats of agents that a command may be meant for: those in front of a user, not their helpers."""
    front = _in_front()
    if front is not None:
        return [front]
    return [seat for seat in seats() if _may_be_meant(seat)]


def wait(text: str, home: str, seat: Any = None) -> None:
    """Keep a text for an agent; what waited for it before is dropped."""
    with _lock:
        _waiting[:] = [one for one in _waiting if one.home != home or _seat_of(one) is not seat]
        _waiting.append(_Waiting(text, home, None if seat is None else ref(seat)))


def room_in(config: Mapping[str, Any]) -> int:
    """How many tokens can go with a message: what is longer the host puts into a file, and shows little of.

    `config` is the host's; what it counts are characters, of which a token of ours has no more than four.
    """
    from engines.snapshotter.telling import LEAST_TOKENS  # noqa: PLC0415 - register() does without

    hooks = config.get("hooks")
    told = hooks.get("output_spill") if isinstance(hooks, Mapping) else None
    told = told if isinstance(told, Mapping) else {}
    if told.get("enabled") is not None and not told["enabled"]:
        return sys.maxsize
    most = told.get("max_chars")
    room = most if type(most) is int and most > 0 else _SPILLED
    return max(LEAST_TOKENS, (room - _BESIDE) // 4)


def taken(sid: str, home: str) -> str | None:
    """What waits for the agent of a conversation that begins a turn; it is gone then."""
    if not _waiting:
        return None
    seat = next((one for one in seats() if one.cell is not None and one.cell.sid == sid), None)
    if seat is None or not _may_be_meant(seat):
        return None
    front = _in_front()
    with _lock:
        _waiting[:] = [one for one in _waiting if one.seat is None or one.seat() is not None]
        for one in _waiting:
            mine = _seat_of(one) is seat if one.seat is not None else one.home == home and front in {None, seat}
            if mine:
                _waiting.remove(one)
                return one.text
    return None


# -- inside -----------------------------------------------------------------------------------------------------------


def _seat_of(one: _Waiting) -> Any:
    return None if one.seat is None else one.seat()


def _may_be_meant(seat: Any) -> bool:
    """A helper has another platform, or a parent; a review in the background has neither, but no snapshots either."""
    if not seat.made or seat.alone or seat.session.get("parent") or seat.session.get("platform") not in LOCAL:
        return False
    return seat.cell is None or seat.cell.sid not in unkept


def _in_front() -> Any:
    """The seat of the agent in the host's terminal; None where there is no terminal, or no agent yet, or another engine."""
    terminal = getattr(getattr(host_context[0], "_manager", None), "_cli_ref", None)
    engine = getattr(getattr(terminal, "agent", None), "context_compressor", None)
    return getattr(engine, "seat", None)
