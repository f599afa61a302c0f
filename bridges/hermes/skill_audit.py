"""Requests looked over before they are sent, so that the model is sent each text of a skill once, in its newest version.

The host asks a middleware, and copies each request for whoever is registered.  So one is registered while there is a turn that
wants this: where the transcript is to keep every text, and where an older version still stands in it.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Lock
from typing import Any

from .hooks import host_context
from .skill_forms import collapsed_request

__all__ = ["can_look_over", "look_over", "over"]

KIND = "llm_request"
MOST = 1000  # turns that are remembered: some never end

log = logging.getLogger(__name__)
_turns: OrderedDict[str, None] = OrderedDict()
_lock = Lock()


def can_look_over() -> bool:
    """Whether this host has requests looked over before they are sent."""
    return callable(getattr(host_context[0], "register_middleware", None))


def look_over(turn: str) -> None:
    """In this turn the model is sent each text once from now on."""
    host = host_context[0]
    with _lock:
        _turns[turn] = None
        while len(_turns) > MOST:
            _turns.popitem(last=False)
        if _look_over not in _registered(host).get(KIND, ()):  # or the host has forgotten it
            host.register_middleware(KIND, _look_over)


def over(turn: str) -> None:
    """The turn has ended; with the last one the host is spared its copies."""
    if turn not in _turns:
        return
    with _lock:
        _turns.pop(turn, None)
        there = _registered(host_context[0])
        if not _turns and _look_over in there.get(KIND, ()):  # the host has no way to say this
            there[KIND] = [each for each in there[KIND] if each is not _look_over]


def _registered(host: Any) -> dict[str, Any]:
    there = getattr(getattr(host, "_manager", None), "_middleware", None)
    return there if isinstance(there, dict) else {}


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
