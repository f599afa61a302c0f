"""What a host would say while a recorded session goes on: turns that begin and end, tools that answer.

A recording holds messages only, so a turn is what lies between two requests of the user, and how a tool went is read off
its result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from engines.facts import ToolCalled, TurnEnded, TurnStarted
from engines.transcript import call_id, calls_of, is_real_user, text_of

from .session import Line

__all__ = ["Happenings"]


class Happenings:
    """Fed the lines of one session in order; what it yields is to be sent before the line's message is there."""

    def __init__(self, sid: str) -> None:
        self._sid = sid
        self._turn: str | None = None
        self._answer = ""
        self._calls: dict[str, tuple[str, str]] = {}

    def of(self, line: Line) -> Iterator[object]:
        """What happens with this line."""
        row = line.row
        if line.role == "user" and is_real_user(row):
            yield from self.end()
            self._turn = f"line-{line.number}"
            yield TurnStarted(self._sid, self._turn, text=text_of(row))
        elif line.role == "assistant":
            self._answer = text_of(row) or self._answer
            self._calls.update({call.id: (call.name, call.arguments) for call in calls_of(row)})
        elif line.role == "tool":
            name = call_id(row) or ""
            tool, args = self._calls.pop(
                name, ("", "")
            )  # a file with a result nobody called is refused when it is read
            result = text_of(row)
            status = "error" if _failed(result) else "ok"
            yield ToolCalled(self._sid, name, tool, args=args, status=status, result=result)

    def end(self) -> Iterator[object]:
        """The turn that goes on, if one does, is over."""
        if self._turn is not None:
            yield TurnEnded(self._sid, self._turn, text=self._answer)
        self._turn, self._answer = None, ""
        self._calls.clear()


def _failed(result: str) -> bool:
    """Whether a result says of itself that the tool failed, as tools that answer in JSON do."""
    if not result.lstrip().startswith("{"):
        return False
    try:
        told = json.loads(result)
    except (ValueError, RecursionError):
        return False
    return isinstance(told, Mapping) and (told.get("success") is False or bool(told.get("error")))
