"""The snapshotter: what a successor needs, on disk before the context is lost."""

from .actor import snapshotter
from .errors import CorruptSnapshotError, NewerSnapshotError, SnapshotError, UnknownSnapshotError
from .listing import Entry
from .snapshot import Snapshot
from .store import FOLDER, SnapshotStore
from .telling import restored

__all__ = [
    "FOLDER",
    "CorruptSnapshotError",
    "Entry",
    "NewerSnapshotError",
    "Snapshot",
    "SnapshotError",
    "SnapshotStore",
    "UnknownSnapshotError",
    "restored",
    "snapshotter",
]
