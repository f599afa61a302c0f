"""Timestamps that can stand for an entry: UTC with its offset, each later than the one before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from .entry import moment

__all__ = ["AHEAD", "Stamps"]

AHEAD = timedelta(minutes=1)
"""How far ahead of our clock another writer's timestamp may be and still be waited out."""

_TICK = timedelta(microseconds=1)


class Stamps:
    """Gives the entries of one file their timestamps."""

    def __init__(self) -> None:
        self._last = datetime.min.replace(tzinfo=UTC)

    def after(self, text: object, now: datetime) -> None:
        """Another writer's latest timestamp, which the next one is to be later than.

        One that is no timestamp is passed over, and so is one far in the future, which would drag all others after it.
        """
        at = moment(text)
        if at is not None and at <= now + AHEAD:
            self._last = max(self._last, at)

    def next(self, at: datetime) -> str:
        """The timestamp for what happened at `at`: that instant, or the first microsecond that is free after it."""
        self._last = max(at, self._last + _TICK)
        return self._last.isoformat(timespec="microseconds")
