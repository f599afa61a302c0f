"""Whose turn it is.

A hook names a session, and several agents may bear the same session's id: the review that runs in the background, a
helper of the gateway.  A turn is told apart by its own id.  When it begins, the host calls the hook from a function that
has the agent at hand, so the agent is looked for there (in the frames of this thread; nothing in the hook's arguments
names it), and taken only if this is the turn it says it is in.  Where none is found the turn stays open on its thread, and the next call of an engine there that bears the same session's id is
taken for its owner's.  What belongs to nobody is nobody's.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any
from weakref import ref

from .adapter import EngineMethods

if TYPE_CHECKING:
    from .cell import Cell

__all__ = ["Turn", "begin", "claim", "delegator", "forget", "turn_of"]

MOST = 1000  # turns and threads that are remembered: some never end
DEPTH = 20  # frames: the host calls through a handful of its functions
NOBODY: Any = object()

_open: OrderedDict[int, Turn] = OrderedDict()
_turns: OrderedDict[str, Turn] = OrderedDict()
_lock = threading.Lock()


class Turn:
    """One turn of an agent; `cell` is the conversation it belongs to, None until that is known."""

    __slots__ = ("_seat", "answer", "cell", "first", "session", "text", "turn")

    def __init__(self, turn: str, session: str = "", text: str = "", *, first: bool = False) -> None:
        self.turn = turn
        self.session = session
        self.text = text
        self.first = first
        self.answer = ""
        self.cell: Cell | None = None
        self._seat: ref[Any] | None = None

    @property
    def seat(self) -> Any:
        """The seat whose turn it is, or None: nobody's, or its agent is gone."""
        return None if self._seat is None else self._seat()

    def belongs(self, seat: Any) -> None:
        """It is this seat's from now on."""
        self._seat = ref(seat)


def begin(turn: Turn) -> Any:
    """A turn begins on this thread; returns the seat whose it is, or None: nobody's so far."""
    owner = _caller(turn.turn)
    with _lock:
        _open.pop(threading.get_ident(), None)
        if owner is NOBODY:
            return None
        if owner is None:
            _keep(_open, threading.get_ident(), turn)
            return None
        turn.belongs(owner)
        _keep(_turns, turn.turn, turn)
    return owner


def claim(seat: Any, session: str) -> Turn | None:
    """The turn of this session that was begun on this thread and is nobody's yet; it is the seat's from now on."""
    if not _open:
        return None
    with _lock:
        turn = _open.get(threading.get_ident())
        if turn is None or turn.session not in {"", session}:
            return None
        del _open[threading.get_ident()]
        turn.belongs(seat)
        _keep(_turns, turn.turn, turn)
    return turn


def turn_of(turn: str) -> Turn | None:
    """The turn of that id, if it is somebody's; also for a while after its end, for tools may end later."""
    return _turns.get(turn)


def delegator() -> Any:
    """The seat of the agent that is making another one on this thread, to hand work to it; None: nobody does."""
    for agent in _callers("parent_agent"):
        engine = getattr(agent, "context_compressor", None)
        if isinstance(engine, EngineMethods):
            return engine.seat
    return None


def forget() -> None:
    """The turn on this thread is over, whoever's it was."""
    if _open:
        with _lock:
            _open.pop(threading.get_ident(), None)


def _caller(turn: str) -> Any:
    """The seat of the agent that calls; `NOBODY` where that agent has another engine, None where there is no agent."""
    frame: FrameType | None = sys._getframe(3)  # of whoever called the hook that began it
    for _ in range(DEPTH):
        if frame is None:
            return None
        if "agent" in frame.f_code.co_varnames:
            agent = frame.f_locals.get("agent")
            if getattr(agent, "_current_turn_id", None) == turn:
                engine = getattr(agent, "context_compressor", None)
                return engine.seat if isinstance(engine, EngineMethods) else NOBODY
        frame = frame.f_back
    return None


def _callers(name: str) -> Iterator[Any]:
    """What the functions that led here call by this name, the latest first."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(DEPTH):
        if frame is None:
            return
        if name in frame.f_code.co_varnames:
            yield frame.f_locals.get(name)
        frame = frame.f_back


def _keep(store: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    store[key] = value
    if len(store) > MOST:
        store.popitem(last=False)
