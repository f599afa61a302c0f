"""The unread part of a stream of changes.  Pure: `_runtime` adds the waiting."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ._paths import form
from ._pattern import Pattern
from ._tasks import Appeared, Change, Heard, Vanished

__all__ = ["Backlog"]


class Backlog:
    """Changes in the order in which they happened, without the facts that came and went unread.

    It is bounded by what stands and what was read: of one fact at most a `Vanished` and an `Appeared` are kept.
    """

    def __init__(self, pattern: Pattern[Any]) -> None:
        self._pattern = pattern
        self._unread: dict[int, Change] = {}
        self._appeared: dict[Hashable, int] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._unread)

    def appeared(self, *args: Any) -> None:
        """Told that something appeared."""
        self._appeared[self._key(args)] = self._add(Appeared, args)

    def vanished(self, *args: Any) -> None:
        """Told that something is gone; if nobody has read that it came, nobody needs to."""
        unread = self._appeared.pop(self._key(args), None)
        if unread is None:
            self._add(Vanished, args)
        else:
            del self._unread[unread]

    def heard(self, *args: Any) -> None:
        """Told of a message."""
        self._add(Heard, args)

    def take(self) -> Change:
        """The oldest change not read yet; `IndexError` if there is none."""
        if not self._unread:
            raise IndexError("all changes have been read")
        serial = next(iter(self._unread))
        change = self._unread.pop(serial)
        if isinstance(change, Appeared):
            args = (change.fact,) if change.captures is None else change.captures
            del self._appeared[self._key(args)]
        return change

    def _add(self, change: type[Appeared] | type[Vanished] | type[Heard], args: tuple[Any, ...]) -> int:
        self._serial += 1
        made = change(captures=args) if self._pattern.captures else change(*args)
        self._unread[self._serial] = made
        return self._serial

    def _key(self, args: tuple[Any, ...]) -> Hashable:
        return form(args) if self._pattern.captures else self._pattern.kind.key(args[0])
