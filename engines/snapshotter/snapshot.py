"""A snapshot: what a successor needs to go on, as plain JSON.

    {"session_id": …, "profile": …, "reason": …, "timestamp": …, "sequence": …,
     "tool_calls": […], "key_findings": […], "task_state": {…}, "lineage": {…}, "version": "1.0.0"}

Whatever a snapshot is made from, it holds plain JSON without secrets from then on.  Files of earlier releases and of the
plugin that this format comes from lack `sequence` and `lineage`; they are read all the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import field, frozen

from .errors import CorruptSnapshotError, NewerSnapshotError
from .plain import plain, whole_letters

__all__ = ["REASONS", "VERSION", "Head", "Snapshot", "head_of", "moment_of", "name_of"]

VERSION = "1.0.0"
REASONS = ("session_end", "session_reset", "session_start", "compaction")
_LONGEST_NAME = 160  # characters of a session's or a profile's name
_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?", re.ASCII)


def name_of(text: Any) -> str:
    """Return the name of a session or profile as it is written: short, and different for different names."""
    whole = str.__str__(text) if isinstance(text, str) else str(plain(text))
    made = whole_letters(whole)
    if len(made) <= _LONGEST_NAME:
        return made
    digest = hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{made[: _LONGEST_NAME - 17]}~{digest}"


def moment_of(timestamp: Any) -> datetime:
    """Read a time: ISO 8601, or seconds since 1970; UTC where it names no zone.  Raises `ValueError`."""
    try:
        if isinstance(timestamp, datetime):
            moment = timestamp
        elif isinstance(timestamp, (int, float)) and not isinstance(timestamp, bool):
            moment = datetime.fromtimestamp(timestamp, UTC)
        else:
            moment = datetime.fromisoformat(str(timestamp))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        raise ValueError(f"timestamp is a time such as 2026-01-31T12:00:00+00:00, not {plain(timestamp)!r}") from None


def _timestamp(value: Any) -> str:
    return moment_of(datetime.now(UTC) if value is None else value).isoformat()


def _reason(value: Any) -> str:
    if not isinstance(value, str) or value not in REASONS:
        raise ValueError(f"reason is one of {', '.join(REASONS)}, not {plain(value)!r}")
    return str(value)


def _sequence(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise ValueError(f"sequence is a whole number from 0 on, not {plain(value)!r}")
    return int(value)


def _version(value: Any) -> str:
    if value != VERSION:
        raise ValueError(f"version is {VERSION}, not {plain(value)!r}: other versions are only read")
    return VERSION


def _entries(value: Any) -> list[Any]:
    """The entries of a list, oldest first; one that stands alone is a list of one."""
    if value is None:
        return []
    made = plain(value if isinstance(value, (list, tuple)) else [value])
    return made if isinstance(made, list) else [made]


def _state(value: Any) -> Any:
    return {} if value is None else plain(value)


@frozen
class Snapshot:
    """What one session knew at one boundary.  Equal by value; what it holds is plain JSON and not to be changed.

    `reason` is the boundary, `timestamp` when it was (UTC, ISO 8601 with offset), `sequence` counts the boundaries of the
    session.  `tool_calls` and `key_findings` are oldest first.
    """

    session_id: str = field(converter=name_of)
    reason: str = field(default="session_end", converter=_reason)
    timestamp: str = field(default=None, converter=_timestamp)
    profile: str = field(default="default", converter=name_of)
    sequence: int = field(default=0, converter=_sequence)
    tool_calls: list[Any] = field(factory=list, converter=_entries)
    key_findings: list[Any] = field(factory=list, converter=_entries)
    task_state: Any = field(factory=dict, converter=_state)
    lineage: Any = field(factory=dict, converter=_state)
    version: str = field(default=VERSION, converter=_version)

    @classmethod
    def of(cls, found: Mapping[str, Any], profile: str = "default") -> Snapshot:
        """Make a snapshot from a mapping of the format, as read or as somebody made it; raises `ValueError`.

        `profile` stands in where it names none, now where it tells no time.  Fields that are not of the format are left out.
        """
        if not isinstance(found, Mapping):
            raise TypeError(f"a snapshot is a Snapshot or a mapping, not {type(found).__name__}")
        if "session_id" not in found:
            raise ValueError("a snapshot names its session_id")
        told = {name: found[name] for name in _OPTIONAL if found.get(name) is not None}
        return cls(session_id=found["session_id"], **{"profile": profile, **told})

    @classmethod
    def read(cls, found: Any) -> Snapshot:
        """Make a snapshot from what stood in a file.

        Raises `NewerSnapshotError` or `CorruptSnapshotError`.
        """
        head_of(found)
        return cls.of(found)

    @property
    def moment(self) -> datetime:
        """When it was made."""
        return moment_of(self.timestamp)

    def as_json(self) -> dict[str, Any]:
        """The snapshot in the format of the files, its fields in their order."""
        return {name: getattr(self, name) for name in _FIELDS}


@frozen
class Head:
    """What a file says of itself, without what it holds: enough to list it and to tell which is newer."""

    session_id: str
    profile: str
    reason: str
    timestamp: str
    sequence: int
    lineage: Mapping[str, Any]


def head_of(found: Any) -> Head:
    """Check what stood in a file; raises `CorruptSnapshotError`, or `NewerSnapshotError`.  What passes can be read."""
    if not isinstance(found, dict):
        raise CorruptSnapshotError("it holds no JSON object")
    _check_version(found.get("version", VERSION))
    for name, kind in _SHAPES.items():
        if not isinstance(found.get(name), kind):
            raise CorruptSnapshotError(f"{name} is missing or of the wrong type")
    profile = found.get("profile", "default")
    if not isinstance(profile, str):
        raise CorruptSnapshotError("profile is of the wrong type")
    lineage = found.get("lineage")
    sequence = found.get("sequence")
    try:
        return Head(
            name_of(found["session_id"]),
            name_of(profile),
            _reason(found["reason"]),
            _timestamp(found["timestamp"]),
            _sequence(0 if sequence is None else sequence),
            lineage if isinstance(lineage, dict) else {},
        )
    except ValueError as error:
        raise CorruptSnapshotError(str(error)) from None


_FIELDS = (
    *("session_id", "profile", "reason", "timestamp", "sequence"),
    *("tool_calls", "key_findings", "task_state", "lineage", "version"),
)
_OPTIONAL = tuple(name for name in _FIELDS if name not in {"session_id", "version"})
_SHAPES: dict[str, Any] = {
    "session_id": str,
    "reason": str,
    "timestamp": (str, int, float),
    "tool_calls": list,
    "key_findings": list,
}


def _check_version(version: Any) -> None:
    match = _VERSION.match(version) if isinstance(version, str) else None
    if match is None:
        raise CorruptSnapshotError("version is none, such as 1.0.0")
    if tuple(int(part or 0) for part in match.groups()) > (1, 0, 0):
        raise NewerSnapshotError(
            f"it is of version {match[0]}, and this release reads up to {VERSION}; upgrade hermes-dataspace"
        )
