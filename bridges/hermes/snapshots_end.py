"""What snapshots have to do with ends: which are being written then, and who goes on from whom.

How they are waited for is `ends`'s.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engines.facts import Session
    from engines.snapshotter import Entry

__all__ = ["closed", "closing", "line_of_descent", "register_descent", "successor_of", "written"]

_MOST = 1000
_closing: dict[str, threading.Event] = {}
_successors: OrderedDict[str, str] = OrderedDict()
_lock = threading.Lock()
log = logging.getLogger(__name__)


# -- what is written at the end ---------------------------------------------------------------------------------------


def closing(sid: str) -> None:
    """A conversation is about to be over."""
    with _lock:
        _closing[sid] = threading.Event()
        while len(_closing) > _MOST:
            del _closing[next(iter(_closing))]


def closed(sid: str) -> None:
    """What there was to write for it has been written, or could not be."""
    with _lock:
        done = _closing.pop(sid, None)
    if done is not None:
        done.set()


def written(seconds: float) -> bool:
    """Wait until all that is closing is closed; False where that took too long."""
    end = time.monotonic() + seconds
    with _lock:
        waited_for = list(_closing.values())
    return all(done.wait(max(end - time.monotonic(), 0)) for done in waited_for)


# -- who goes on from whom --------------------------------------------------------------------------------------------


def successor_of(session: Session) -> Mapping[str, Any]:
    """What is added to the lineage of a snapshot: the session that its user has begun since, if the host has said."""
    found = _successors.get(session.host_session or "")
    return {} if found is None else {"next_session": found}


def line_of_descent(entries: Iterable[Entry], session: str) -> list[Entry]:
    """The snapshots of a session of the host, and of those that it goes on from, in their order."""
    entries = list(entries)
    mine = {session} - {""}
    while True:
        before = len(mine)
        mine |= {old for old, new in list(_successors.items()) if new in mine}
        for entry in entries:
            if entry.session_id in mine or entry.lineage.get("next_session") in mine:
                earlier = entry.lineage.get("earlier_sessions")
                mine |= {
                    entry.session_id,
                    *(name for name in (earlier if isinstance(earlier, list) else ()) if isinstance(name, str)),
                }
        if len(mine) == before:
            return [entry for entry in entries if entry.session_id in mine]


def register_descent(ctx: Any) -> None:
    """Register the hooks that tell who goes on from whom.

    Before those that tell conversations of their end: it stands in what is written then.
    """
    for name, hook in (("on_session_finalize", _finalized), ("on_session_reset", _reset)):
        try:
            ctx.register_hook(name, hook)
        except Exception as error:  # noqa: BLE001 - a host that does not know the hook
            log.debug("the hook %s was not taken: %r", name, error)


def _finalized(session_id: str = "", new_session_id: str = "", old_session_id: str = "", **_told: Any) -> None:
    _follows(old_session_id or session_id, new_session_id)


def _reset(session_id: str = "", new_session_id: str = "", old_session_id: str = "", **_told: Any) -> None:
    _follows(old_session_id, new_session_id or session_id)


def _follows(old: str, new: str) -> None:
    if old and new and old != new:
        with _lock:
            _successors[str(old)] = str(new)
            while len(_successors) > _MOST:
                _successors.popitem(last=False)
