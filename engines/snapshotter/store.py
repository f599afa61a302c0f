"""Snapshots in a folder: whole files, the newest of each profile, shared by threads and processes.

A file is `ID.json`, and an id of ours is `DIGEST-PROFILE-SESSION`: a digest of what makes the snapshot one, a digest of the
profile, and what of the session's name can stand in a file name.  So no name that a host makes up becomes a path, and
profiles that share a folder tell their files apart without reading those of others.  Files with other names are
whose profile they say.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from .errors import CorruptSnapshotError, NewerSnapshotError, SnapshotError, UnknownSnapshotError
from .files import make_private, read_file, remove, sweep, write_file
from .fit import render
from .snapshot import Snapshot, moment_of, name_of

__all__ = ["FOLDER", "Entry", "SnapshotStore"]

FOLDER = Path("context-bridge", "snapshots")
"""Where snapshots are, below the home of a profile."""

_ENDING = ".json"
_LARGEST = 1_000_000  # bytes that are read of a file
_PATIENCE = 30.0  # seconds to wait for others who write
_OURS = re.compile(r"[0-9a-f]{12}-([0-9a-f]{8})-[A-Za-z0-9_-]{0,40}", re.ASCII)
_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")


@frozen
class Entry:
    """One file as it is listed; `problem` says what is wrong with a corrupt or a newer one, which cannot be loaded."""

    id: str
    session_id: str
    reason: str
    timestamp: str
    path: Path
    corrupt: bool = False
    problem: str = ""
    sequence: int = 0
    conversation: str = ""
    parent: str = ""


class SnapshotStore:
    """The snapshots of `profile` in `directory`, the `keep` newest of them.

    Every method blocks, may be called from any thread, and raises `OSError` where the disk fails and `SnapshotError` for
    what is wrong with a snapshot.  What changes files takes a lock that other processes honour.
    """

    def __init__(self, directory: str | os.PathLike[str], profile: str = "default", keep: int = 10) -> None:
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise ValueError(f"keep is a whole number from 1 on, not {keep!r}")
        self.directory = Path(directory)
        self.profile = name_of(profile)
        self.keep = keep
        self._tag = _digest(profile, size=4)

    def save(self, snapshot: Snapshot | Mapping[str, Any], *, instead: bool = False) -> Path:
        """Write a snapshot, durably, and remove what is older than the `keep` newest; returns the path of its file.

        Raises `ValueError` for a mapping that is not of the format, or one of another profile.  With `instead` it takes the
        place of those that the same conversation saved earlier for the same reason.
        """
        made = snapshot if isinstance(snapshot, Snapshot) else Snapshot.of(snapshot, self.profile)
        if made.profile != self.profile:
            raise ValueError(f"this is a snapshot of profile {made.profile!r}, and the store is that of {self.profile!r}")
        data = render(made).encode()
        path = self.directory / f"{self._id_of(made)}{_ENDING}"
        with self._locked():
            sweep(self.directory)
            write_file(path, data)
            kept = [entry for entry in self._entries() if not entry.problem]
            gone = kept[self.keep :]
            if instead:
                gone += [entry for entry in kept[: self.keep] if entry.path != path and _supersedes(made, entry)]
            for entry in gone:
                remove(entry.path)
        return path

    def list(self) -> list[Entry]:
        """Return what is there, the newest first and what cannot be read last; a folder that is not there is empty."""
        return self._entries()

    def load(self, id: str) -> Snapshot:  # noqa: A002 - the name by which it is listed
        """Read a snapshot; raises `UnknownSnapshotError`, `CorruptSnapshotError` or `NewerSnapshotError`."""
        path = self._path_of(id)
        if path is None:
            raise UnknownSnapshotError(f"there is no snapshot {id!r} of profile {self.profile!r} in {self.directory}")
        try:
            return self._read(path)
        except NewerSnapshotError as error:
            raise NewerSnapshotError(f"snapshot {id} cannot be read: {error}") from None
        except CorruptSnapshotError as error:
            raise CorruptSnapshotError(f"snapshot {id} is corrupt and cannot be restored: {error}; `clear {id}` removes it") from None

    def clear(self, id: str | None = None) -> int:  # noqa: A002
        """Remove one snapshot, or (None) all that are listed; returns how many.  `UnknownSnapshotError` for an unknown one."""
        if not self.directory.is_dir():
            if id is None:
                return 0
            raise UnknownSnapshotError(f"there is no snapshot {id!r}: {self.directory} is not there")
        with self._locked():
            sweep(self.directory)
            if id is None:
                return sum(remove(entry.path) for entry in self._entries())
            path = self._path_of(id)
            if path is None:
                raise UnknownSnapshotError(f"there is no snapshot {id!r} of profile {self.profile!r} in {self.directory}")
            return int(remove(path))

    # -- inside -------------------------------------------------------------------------------------------------------

    def _id_of(self, snapshot: Snapshot) -> str:
        lineage = json.dumps(snapshot.lineage, sort_keys=True)
        what = _digest(snapshot.session_id, snapshot.reason, snapshot.timestamp, str(snapshot.sequence), lineage, size=6)
        session = _UNSAFE.sub("-", snapshot.session_id)[:40].strip("-")
        return f"{what}-{self._tag}-{session}"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            import filelock  # noqa: PLC0415 - part of an extra, which may be missing
        except ModuleNotFoundError:
            raise SnapshotError("filelock is missing; pip install 'hermes-dataspace[hermes]'") from None
        make_private(self.directory)
        try:
            with filelock.FileLock(self.directory / ".lock", timeout=_PATIENCE, mode=0o600):
                yield
        except filelock.Timeout:
            raise SnapshotError(f"another process has held the lock of {self.directory} for {_PATIENCE:g} s") from None

    def _names(self) -> Iterator[str]:
        """The ids that may be ours, by the names of the files."""
        try:
            with os.scandir(self.directory) as found:
                names = [entry.name for entry in found]
        except FileNotFoundError:
            return
        for name in names:
            ours = _OURS.fullmatch(name.removesuffix(_ENDING))
            if name.endswith(_ENDING) and (ours is None or ours[1] == self._tag):
                yield name.removesuffix(_ENDING)

    def _path_of(self, id: str) -> Path | None:  # noqa: A002
        """The file of an id that is listed: looked up, not put together."""
        if id not in self._names():
            return None
        path = self.directory / f"{id}{_ENDING}"
        return None if self._entry(id, path) is None else path

    def _entries(self) -> list[Entry]:
        found = [entry for id_ in self._names() if (entry := self._entry(id_, self.directory / f"{id_}{_ENDING}"))]
        found.sort(key=_age, reverse=True)
        return found

    def _entry(self, id: str, path: Path) -> Entry | None:  # noqa: A002
        """How a file is listed; None if it is another profile's, or has just been removed."""
        try:
            data = _loaded(path)
            snapshot = self._checked(id, data)
        except FileNotFoundError:
            return None
        except NewerSnapshotError as error:
            told = {name: str(data.get(name, "")) for name in ("session_id", "reason", "timestamp")}
            return Entry(id, **told, path=path, problem=str(error)) if self._is_mine(id, data) else None
        except CorruptSnapshotError as error:
            return Entry(id, "", "", "", path, corrupt=True, problem=str(error))
        if snapshot is None:
            return None
        lineage = snapshot.lineage if isinstance(snapshot.lineage, dict) else {}
        return Entry(
            id,
            snapshot.session_id,
            snapshot.reason,
            snapshot.timestamp,
            path,
            sequence=snapshot.sequence,
            conversation=str(lineage.get("conversation") or ""),
            parent=str(lineage.get("parent") or ""),
        )
