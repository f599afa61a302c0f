"""`me.changes` under trio: a backlog and those who wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from ._changes import Backlog
from ._facet import Facet
from ._handles import Callbacks, Handle
from ._pattern import Pattern
from ._tasks import Change, Changes
from .errors import ActorCrashed, TurnError

__all__ = ["Stream"]


class Stream(Changes):
    """See `Facet.changes`."""

    def __init__(self, facet: Facet, pattern: Pattern[Any], streams: set[Stream]) -> None:
        self._facet = facet
        self._pattern = pattern
        self._streams = streams
        self._readers = trio.lowlevel.ParkingLot()
        self._handle: Handle | None = None
        self.unread = Backlog(pattern)

    def __enter__(self) -> Stream:
        if self._handle is not None:
            raise TurnError("changes can be entered once; ask me.changes for others")
        tell = self._tell
        unread = self.unread
        observer = Callbacks(self._facet, next(self._facet.ds._ages), self._pattern)
        observer.appeared, observer.vanished, observer.heard = (
            tell(unread.appeared),
            tell(unread.vanished),
            tell(unread.heard),
        )
        observer.gone = self._readers.unpark_all
        self._facet._may_act()
        self._handle = self._facet._begin(observer)
        self._streams.add(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._streams.discard(self)
        if self._handle is not None:
            self._facet.retract(self._handle)

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Change:
        if self._handle is None:
            raise TurnError("read changes within their block: with me.changes(pattern) as changes: ...")
        await trio.lowlevel.checkpoint_if_cancelled()
        waited = False
        try:
            while not self.unread:
                if not self._handle.standing:
                    await trio.lowlevel.checkpoint_if_cancelled()  # a task that ends with its actor need not hear it
                    raise self._end()
                await self._readers.park()
                waited = True
            # Taken before the next await: by then another reader may have read it, or the fact be gone again.
            return self.unread.take()
        finally:
            if not waited:
                await trio.lowlevel.cancel_shielded_checkpoint()

    def _end(self) -> Exception:
        """What ends the iteration."""
        error = self._facet.actor.error
        if error is None:
            return StopAsyncIteration()
        crashed = ActorCrashed(f"actor {self._facet.name} crashed: {type(error).__name__}")
        crashed.__cause__ = error
        return crashed

    def _tell(self, note: Callable[..., None]) -> Callable[..., None]:
        def call(*args: Any) -> None:
            note(*args)
            self._readers.unpark()

        return call
