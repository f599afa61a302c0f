"""What can go wrong, by who can mend it.

All of them are `DataspaceError`; each also is the builtin that a caller would expect.
"""

from __future__ import annotations

__all__ = [
    "ActorCrashed",
    "DataspaceError",
    "NameTaken",
    "NotAFact",
    "PatternError",
    "RunawayError",
    "Stopped",
    "TurnError",
]


class DataspaceError(Exception):
    """Base of all errors of this package."""


class NotAFact(DataspaceError, TypeError):
    """A value was published or sent that could change later, or that has no identity."""


class PatternError(DataspaceError, ValueError):
    """A pattern names what does not exist, or its text cannot be read (then `column`, from 1, says where)."""

    def __init__(self, message: str, column: int | None = None) -> None:
        super().__init__(message if column is None else f"{message} (column {column})")
        self.column = column


class NameTaken(DataspaceError, ValueError):
    """A live actor has that name already."""


class TurnError(DataspaceError, RuntimeError):
    """An action at a wrong place: another actor's turn, another thread, after an await inside a turn."""


class Stopped(DataspaceError):
    """The lifetime that was to act has ended."""


class RunawayError(DataspaceError, RuntimeError):
    """One outside event caused more turns than the dataspace allows; the message shows the end of the chain."""


class ActorCrashed(DataspaceError):
    """Raised where somebody waits for an actor that crashed; its `__cause__` is the crash."""
