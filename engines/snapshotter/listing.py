"""What the files in a folder are called, whose they are, and how they are listed.

A file is `ID.json`, and an id of ours is `DIGEST-PROFILE-SESSION`: a digest of what makes the snapshot one, a digest of the
profile, and what of the session's name can stand in a file name.  So no name that a host makes up becomes a path, and
profiles that share a folder tell their files apart without reading those of others.  Files with other names are
whose profile they say; where that cannot be read, anybody's.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from .errors import CorruptSnapshotError, NewerSnapshotError
from .files import read_file
from .snapshot import Snapshot, head_of, moment_of, name_of

__all__ = ["ENDING", "Entry", "Shelf", "supersedes"]

ENDING = ".json"
_LARGEST = 1_000_000  # bytes that are read of a file
_OURS = re.compile(r"[0-9a-f]{12}-([0-9a-f]{8})-[A-Za-z0-9_-]{0,40}", re.ASCII)
_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")


@frozen
class Entry:
    """One file as it is listed.  `problem` says what is wrong with one that is corrupt, or newer than this release."""

    id: str
    session_id: str
    reason: str
    timestamp: str
    path: Path
    corrupt: bool = False
    problem: str = ""
    sequence: int = 0
    lineage: Mapping[str, Any] = field(factory=dict, repr=False)

    @property
    def parent(self) -> str:
        """The conversation that delegated to the one it is of; empty: none did."""
        return str(self.lineage.get("parent") or "")


@frozen
class Shelf:
    """The files of `profile` (a name as it is written; `tag` is its digest in ids) in a folder."""

    folder: Path
    profile: str
    tag: str

    @classmethod
    def of(cls, folder: Path, profile: str) -> Shelf:
        """The shelf of a profile, whatever its name is made of."""
        return cls(folder, name_of(profile), _digest(profile, size=4))

    def id_of(self, snapshot: Snapshot) -> str:
        """The id of a snapshot: the same one for the same boundary."""
        s = snapshot
        what = _digest(
            s.session_id, s.reason, s.timestamp, str(s.sequence), json.dumps(s.lineage, sort_keys=True), size=6
        )
        return f"{what}-{self.tag}-{_UNSAFE.sub('-', s.session_id)[:40].strip('-')}"

    def path_of(self, id_: str) -> Path:
        """Where the file of an id is that is `ids` of this shelf."""
        return self.folder / f"{id_}{ENDING}"

    def ids(self) -> Iterator[str]:
        """The ids of all files that may be this profile's, by their names; nothing where there is no folder."""
        try:
            with os.scandir(self.folder) as found:
                names = [entry.name for entry in found if entry.name.endswith(ENDING)]
        except FileNotFoundError:
            return
        for name in names:
            id_ = name.removesuffix(ENDING)
            ours = _OURS.fullmatch(id_)
            if ours is None or ours[1] == self.tag:
                yield id_

    def entries(self) -> list[Entry]:
        """All files of this profile, the newest first; those that cannot be loaded come last."""
        found = [entry for id_ in self.ids() if (entry := self.entry(id_)) is not None]
        found.sort(key=_age, reverse=True)
        return found

    def entry(self, id_: str) -> Entry | None:
        """One file as it is listed; None if it is another profile's, or not there any more."""
        path, found = self.path_of(id_), None
        try:
            found = _loaded(path)
            if not self._mine(id_, found):
                return None
            head = head_of(found)
        except FileNotFoundError:
            return None
        except NewerSnapshotError as error:
            session, reason, at = (_told(found, name) for name in ("session_id", "reason", "timestamp"))
            return Entry(id_, session, reason, at, path, problem=str(error))
        except CorruptSnapshotError as error:
            return Entry(id_, _told(found, "session_id"), "", "", path, corrupt=True, problem=str(error))
        what = (head.session_id, head.reason, head.timestamp, path)
        return Entry(id_, *what, sequence=head.sequence, lineage=head.lineage)

    def snapshot(self, id_: str) -> Snapshot | None:
        """What is in a file; None if it is another profile's, or not there.  Raises `SnapshotError` if it cannot be read."""
        try:
            found = _loaded(self.path_of(id_))
        except FileNotFoundError:
            return None
        return Snapshot.read(found) if self._mine(id_, found) else None

    def _mine(self, id_: str, found: Any) -> bool:
        """Whose a file is: its name tells, or what it says.  Raises `CorruptSnapshotError` where the two disagree."""
        said = found.get("profile", "default") if isinstance(found, dict) else None
        if not isinstance(said, str) or name_of(said) == self.profile:
            return True
        if _OURS.fullmatch(id_) is not None:
            raise CorruptSnapshotError(f"it says that it is of profile {said[:80]!r}")
        return False


def supersedes(snapshot: Snapshot, entry: Entry) -> bool:
    """Whether a snapshot takes the place of an earlier one: the same conversation, at a boundary of the same kind.

    The order is that of the boundaries: clocks are put back.  A helper that is done takes the place of all that it left
    before, and of those before it that were done for the same conversation.
    """
    if entry.problem or not isinstance(snapshot.lineage, dict):
        return False
    moment, helper = moment_of(entry.timestamp), snapshot.lineage.get("helper_of")
    if _alike(entry, snapshot, "conversation"):
        older = (entry.sequence, moment) < (snapshot.sequence, snapshot.moment)
        return older and (bool(helper) or entry.reason == snapshot.reason)
    return _alike(entry, snapshot, "helper_of") and moment < snapshot.moment


def _alike(entry: Entry, snapshot: Snapshot, name: str) -> bool:
    known = entry.lineage.get(name)
    return bool(known) and known == snapshot.lineage.get(name)


def _age(entry: Entry) -> tuple[Any, ...]:
    return (False, entry.id) if entry.problem else (True, moment_of(entry.timestamp), entry.sequence, entry.id)


def _loaded(path: Path) -> Any:
    """What is in a file; raises `FileNotFoundError` or `CorruptSnapshotError`."""
    try:
        return json.loads(read_file(path, _LARGEST))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CorruptSnapshotError(f"it cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise CorruptSnapshotError("it is not JSON") from None


def _told(found: Any, name: str) -> str:
    value = found.get(name) if isinstance(found, dict) else None
    return name_of(value) if isinstance(value, str) else ""


def _digest(*texts: str, size: int) -> str:
    whole = "\x1f".join(texts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(whole, digest_size=size).hexdigest()
