"""What the replay itself publishes beside the loop's facts, for whoever wants to show or count."""

from __future__ import annotations

from attrs import frozen

from .reckon import Scale

__all__ = ["Position", "Swapped"]


@frozen
class Position:
    """The replay has come to line `line` of the file, message `message` (from 1); `scale` is that of the last response."""

    line: int
    message: int
    role: str = ""
    scale: Scale = Scale()


@frozen
class Swapped:
    """(message) A swap is due at `place`: `new` comes, then `old` goes; `note` tells of what is so already, or fails."""

    place: str
    old: str | None
    new: str | None
    note: str | None = None
