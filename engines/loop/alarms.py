"""When which conversation wants to be shown the time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

__all__ = ["Alarms"]


class Alarms:
    """One time for each conversation that wants one; `changed` is called when the earliest may be another one."""

    def __init__(self) -> None:
        self.changed: Callable[[], object] = lambda: None
        self._at: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []  # may hold times that are no longer wanted

    def set(self, sid: str, at: float | None) -> None:
        """Let `at` be the time for `sid`; None: it wants none."""
        old = self._at.get(sid)
        if at == old:
            return
        if at is None:
            del self._at[sid]
            return
        self._at[sid] = at
        heappush(self._heap, (at, sid))
        if self._heap[0] == (at, sid):
            self.changed()

    def earliest(self) -> float | None:
        """The next time, or None."""
        heap = self._heap
        while heap and self._at.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def due(self, at: float) -> tuple[str, ...]:
        """Take out those whose time has come, earliest first."""
        found = []
        while (earliest := self.earliest()) is not None and earliest <= at:
            sid = heappop(self._heap)[1]
            del self._at[sid]
            found.append(sid)
        return tuple(found)
