"""The short way between a thread of the host and a hosted engine: the dataspace's thread is told afterwards.

The state of a conversation is stepped wherever something happens, so a question can be put and an answer taken without
waking the event loop.  Its facts and messages follow in the same order, once nobody waits for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engines.facts import Answered, Asked
from engines.loop.events import EngineBusy, EngineFree

from .cell import Cell
from .runtime import Runtime

__all__ = ["Way"]


class Way:
    """The way to one engine of one conversation; called from any thread."""

    def __init__(self, cell: Cell, name: str, runtime: Runtime | None) -> None:
        self._cell = cell
        self._name = name
        self._runtime = runtime

    def opened(self, begin: Callable[[Asked], bool]) -> None:
        """From now on the engine can be asked this way."""
        self._cell.begins[self._name] = begin

    def began(self) -> None:
        """A call of it is about to run."""
        self._cell.happen(EngineBusy(self._cell.sid, self._name), quiet=True)

    def gave_up(self) -> None:
        """It does not run, after all."""
        self._cell.happen(EngineFree(self._cell.sid, self._name), quiet=True)

    def answered(self, answer: Answered, bring: Callable[[bool | None], None]) -> bool | None:
        """It has returned: that decides here, and is told there at once only if somebody waits for what follows."""
        counts = self._cell.answered(answer, bring)
        if self._runtime is not None:
            post = self._runtime.soon if self._cell.awaited() else self._runtime.at_once
            post(self._draw)
        return counts

    def _draw(self, desk: Any) -> None:
        desk.draw(self._cell)
