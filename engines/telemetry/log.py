"""The episodic log: JSON lines, as a portable brain keeps them, which several programs append to and rewrite."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from os import PathLike
from threading import Lock
from typing import Any
from weakref import WeakSet

from attrs import frozen

from engines.compressor.redact import redact_all

from .entry import Entry, Redact, complete, moment
from .kinds import LOCAL_LEAST
from .locked import LockedFile, locked
from .place import Commit, expanded, run_id
from .profile import resolve_profile
from .stamps import AHEAD, Stamps

__all__ = ["EpisodicLog", "Line"]


def _now() -> datetime:
    return datetime.now(UTC)


@frozen
class Line:
    """A complete entry on its way into a log: when it happened, and whose it is."""

    entry: Entry
    at: datetime | None = None
    profile: str | None = None


class EpisodicLog:
    """One log file.  Any thread may append, beside other processes and tools that rewrite the file under its lock.

    `least` is the importance below which telemetry leaves an entry out; `append` itself leaves nothing out.  `redact`
    takes secrets out of texts, `env` says what the run and the profile are called, `clock` what time it is (in UTC).
    A path that begins with `~` is in the user's real home.  Folders that are missing are made, with a `root` only while
    that directory is there: a home that is gone is not made anew.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        least: float = LOCAL_LEAST,
        redact: Redact = redact_all,
        env: Mapping[str, str] | None = None,
        clock: Callable[[], datetime] = _now,
        root: str | PathLike[str] | None = None,
    ) -> None:
        self.path = expanded(path)
        self._root = None if root is None else expanded(root)
        self.least = least
        self.redact = redact
        self._env = os.environ if env is None else env
        self._clock = clock
        self._lock = Lock()
        self._stamps = Stamps()
        self._left: tuple[int, int, int] | None = None  # the file as we left it: device, inode, size
        self._commit = Commit(self.path)
        _logs.add(self)

    def append(self, entry: Any) -> Entry:
        """Append one entry and return it as it was written.

        `entry` is a mapping of the schema, of which any key may be missing; or what a tool hook gets; or either as JSON
        text.  What is none of these is written as a `hook:malformed_payload` failure.  Waits for the file's lock.
        Raises `OSError` where the file cannot be written to.
        """
        return self.append_all([entry])[0]

    def append_all(self, entries: Iterable[Any]) -> list[Entry]:
        """Append several under one lock, one write each; else like `append`."""
        lines = [Line(complete(entry, self.redact)) for entry in entries]
        written, error = self.write(lines)
        if error is not None:
            raise error
        return written

    def write(self, lines: Sequence[Line]) -> tuple[list[Entry], OSError | None]:
        """Append complete entries under one lock; returns those that are in the file, and what kept the rest out."""
        written: list[Entry] = []
        if not lines:
            return written, None
        with self._lock:
            sha, run = self._commit.sha(), run_id(self._env)
            try:
                with locked(self.path, self._root) as file:
                    now = self._clock()  # the lock may have been long in coming
                    self._catch_up(file, now)
                    try:
                        for line in lines:
                            entry = self._sealed(line, now, run, sha)
                            file.write(json.dumps(entry).encode("ascii") + b"\n")
                            written.append(entry)
                    finally:
                        self._left = (file.state.st_dev, file.state.st_ino, file.size())
            except OSError as error:
                return written, error
        return written, None

    def _catch_up(self, file: LockedFile, now: datetime) -> None:
        """See what others have written last."""
        if self._left != (file.state.st_dev, file.state.st_ino, file.state.st_size):
            try:
                last = json.loads(file.last_line() or b"{}")
            except (ValueError, RecursionError):
                last = {}
            self._stamps.after(last.get("timestamp") if isinstance(last, dict) else None, now)
            file.mend()

    def _sealed(self, line: Line, now: datetime, run: str, sha: str) -> Entry:
        """The entry with its timestamp and its source."""
        entry, given = line.entry, line.entry.get("source") or {}
        profile = line.profile or resolve_profile(self._env)
        source = {"skill": entry["skill"], "profile": profile, "run_id": run, "commit_sha": sha}
        source |= {
            name: str(value) if name in source else value
            for name, value in given.items()
            if value or name not in source
        }
        told = moment(entry.get("timestamp"))
        if told is not None and told > now + AHEAD:
            told = None  # nothing has happened then, and all that comes after it would have to be later
        at = line.at or told or now
        return {"timestamp": "", **entry} | {"timestamp": self._stamps.next(at), "source": source}


_logs: WeakSet[EpisodicLog] = WeakSet()


def _forget() -> None:
    """In a forked child nobody is writing, whoever was in the parent."""
    for log in list(_logs):
        log._lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
