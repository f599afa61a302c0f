"""What is told of the snapshots of a conversation, as facts: the latest of each kind stands."""

from __future__ import annotations

from dataspace import Facet, Handle, where
from engines import facts as f

from ..compressor.redact import redact

__all__ = ["Notices", "said"]

Notice = f.SnapshotSaved | f.SnapshotFailed | f.SnapshotFound


class Notices:
    """Tells, as `me`, what was found, saved or not saved."""

    def __init__(self, me: Facet) -> None:
        self._me = me
        self._told: dict[tuple[str, bool], Handle] = {}

    def tell(self, notice: Notice) -> None:
        """The latest of a conversation stands, as long as the conversation is known."""
        kind = (notice.sid, isinstance(notice, f.SnapshotFound))
        old = self._told.pop(kind, None)
        made = self._me.publish(notice) if old is None else self._me.replace(old, notice)
        if self._me.facts(where(f.Session, sid=notice.sid)):
            self._told[kind] = made
        else:  # it was forgotten meanwhile: seen once, and gone
            self._me.retract(made)

    def forget(self, sid: str) -> None:
        """A conversation is known no longer."""
        for found in (False, True):
            told = self._told.pop((sid, found), None)
            if told is not None:
                self._me.retract(told)


def said(error: Exception) -> str:
    """What went wrong, for people: the system's words where there are some, never a secret."""
    text = str((error.strerror if isinstance(error, OSError) else None) or error)
    return f"{type(error).__name__}: {redact(text)}" if text else type(error).__name__
