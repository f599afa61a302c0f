"""Where the host's transcript is to keep every text of a skill: only what the model is sent has each of them once.

The host asks a middleware before each request.  It is registered when the first conversation wants this, and does
nothing in turns of others.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Lock
from typing import Any

from .hooks import host_context
from .skill_forms import collapsed_request

__all__ = ["audit_turn", "can_audit"]

KIND = "llm_request"
MOST = 1000  # turns that are remembered: some never end

log = logging.getLogger(__name__)
_turns: OrderedDict[str, None] = OrderedDict()
_lock = Lock()


def can_audit() -> bool:
    """Whether this host has requests looked over before they are sent."""
    return callable(getattr(host_context[0], "register_middleware", None))


def audit_turn(turn: str) -> None:
    """In this turn the model is sent each text once."""
    with _lock:
        _turns[turn] = None
        while len(_turns) > MOST:
            _turns.popitem(last=False)
        host = host_context[0]
        there = getattr(getattr(host, "_manager", None), "_middleware", {})
        if _look_over not in there.get(KIND, ()):  # or the host has forgotten it
            host.register_middleware(KIND, _look_over)


def _look_over(request: Any = None, turn_id: str = "", **_told: Any) -> dict[str, Any] | None:
    """The request with each text once; None: it is as it should be, or not for us."""
    if turn_id not in _turns or not isinstance(request, dict):
        return None
    try:
        made = collapsed_request(request)
    except Exception:
        log.exception("a request could not be looked over; it goes out as it is")
        return None
    return None if made is None else {"request": made}
