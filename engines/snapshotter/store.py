"""Snapshots in a folder: whole files, the newest of each profile, shared by threads and processes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import CorruptSnapshotError, NewerSnapshotError, SnapshotError, UnknownSnapshotError
from .files import make_private, remove, sweep, write_file
from .fit import render
from .listing import Entry, Shelf, supersedes
from .snapshot import Snapshot

__all__ = ["FOLDER", "SnapshotStore"]

FOLDER = Path("context-bridge", "snapshots")
"""Where snapshots are, below the home of a profile."""

LOCK = ".lock"
_PATIENCE = 30.0  # seconds to wait for others who write
_POLL = 0.01


class SnapshotStore:
    """The snapshots of `profile` in `directory`, the `keep` newest of them.

    Every method blocks, may be called from any thread, and raises `OSError` where the disk fails and `SnapshotError` for
    what is wrong with a snapshot.  What changes files takes a lock that other processes honour.
    """

    def __init__(self, directory: str | os.PathLike[str], profile: str = "default", keep: int = 10) -> None:
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise ValueError(f"keep is a whole number from 1 on, not {keep!r}")
        self.directory = Path(directory)
        self.keep = keep
        self._shelf = Shelf.of(self.directory, profile)

    @property
    def profile(self) -> str:
        """The profile's name, as it stands in the files."""
        return self._shelf.profile

    def __repr__(self) -> str:
        return f"SnapshotStore({str(self.directory)!r}, {self.profile!r}, keep={self.keep})"

    def save(self, snapshot: Snapshot | Mapping[str, Any], *, instead: bool = False) -> Path:
        """Write a snapshot, durably, and remove what is older than the `keep` newest; returns the path of its file.

        Raises `ValueError` for a mapping that is not of the format, or one of another profile.  With `instead` it takes the
        place of those that the same conversation (`lineage["conversation"]`) saved earlier for the same reason; with
        `lineage["helper_of"]` also of all others of that conversation, and of earlier helpers of the same one.
        """
        made = snapshot if isinstance(snapshot, Snapshot) else Snapshot.of(snapshot, self.profile)
        if made.profile != self.profile:
            raise ValueError(f"this snapshot is of profile {made.profile!r}, and the store is that of {self.profile!r}")
        data = render(made).encode()
        path = self._shelf.path_of(self._shelf.id_of(made))
        with self._locked():
            sweep(self.directory)
            write_file(path, data)
            kept = []
            for entry in self._shelf.entries():
                if instead and supersedes(made, entry):
                    remove(entry.path)
                elif not entry.problem:
                    kept.append(entry)
            for entry in kept[self.keep :]:
                remove(entry.path)
        return path

    def list(self) -> list[Entry]:
        """Return what is there, the newest first, what cannot be loaded last; a folder that is not there is empty."""
        self._check_links()
        return self._shelf.entries()

    def load(self, id: str) -> Snapshot:  # noqa: A002 - as it is called in the list
        """Read a snapshot; raises `UnknownSnapshotError`, `CorruptSnapshotError` or `NewerSnapshotError`."""
        self._check_links()
        try:
            found = self._shelf.snapshot(id) if id in self._shelf.ids() else None
        except NewerSnapshotError as error:
            raise NewerSnapshotError(f"snapshot {id} cannot be read: {error}") from None
        except CorruptSnapshotError as error:
            raise CorruptSnapshotError(f"snapshot {id} is corrupt and cannot be restored: {error}") from None
        if found is None:
            where = f"of profile {self.profile!r} in {self.directory}"
            raise UnknownSnapshotError(f"there is no snapshot {str(id)[:80]!r} {where}")
        return found

    def clear(self, id: str | None = None) -> int:  # noqa: A002
        """Remove one snapshot, or (None) all that are listed; returns how many, 0 for an id that is not listed."""
        self._check_links()
        if not os.path.lexists(self.directory):
            return 0
        with self._locked():
            sweep(self.directory)
            if id is None:
                return sum(self._removed(entry) for entry in self._shelf.entries())
            entry = self._shelf.entry(id) if id in self._shelf.ids() else None
            return 0 if entry is None else int(remove(entry.path))

    # -- inside -------------------------------------------------------------------------------------------------------

    @staticmethod
    def _removed(entry: Entry) -> bool:
        try:
            return remove(entry.path)
        except OSError:
            if entry.corrupt:  # such as a folder that is not empty, in place of a file: whoever made it may want it
                return False
            raise

    def _check_links(self) -> None:
        """Raise `SnapshotError` where a link stands for the folder, or for the one between it and a home."""
        whole = self.directory.parts[-len(FOLDER.parts) :] == FOLDER.parts
        for folder in (self.directory, self.directory.parent) if whole else (self.directory,):
            if folder.is_symlink():
                raise SnapshotError(f"{folder} is a link, which snapshots do not follow; remove it")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            import filelock  # noqa: PLC0415 - part of an extra, which may be missing
        except ModuleNotFoundError:
            raise SnapshotError("filelock is missing; in a checkout: pip install '.[hermes]'") from None
        self._check_links()
        make_private(self.directory)
        lock = self.directory / LOCK
        if lock.is_symlink():  # somebody's trap, from when the folder was open
            remove(lock)
        try:
            with filelock.FileLock(lock, mode=0o600).acquire(timeout=_PATIENCE, poll_interval=_POLL):
                yield
        except filelock.Timeout:
            raise SnapshotError(f"others have held the lock of {self.directory} for {_PATIENCE:g} s") from None
