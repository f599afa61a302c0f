"""What can be wrong with a snapshot; each error says what to do."""

from __future__ import annotations

__all__ = ["CorruptSnapshotError", "NewerSnapshotError", "SnapshotError", "UnknownSnapshotError"]


class SnapshotError(Exception):
    """Base of all."""


class UnknownSnapshotError(SnapshotError, LookupError):
    """There is no snapshot of that id in this profile."""


class CorruptSnapshotError(SnapshotError, ValueError):
    """The file cannot be read, or what it holds is no snapshot."""


class NewerSnapshotError(SnapshotError, ValueError):
    """A later release of this program wrote it, in a format that this one does not know."""
