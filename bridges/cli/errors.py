"""What ends a command early, as one line on stderr that says what to do."""

from __future__ import annotations

import signal

__all__ = ["BadInput", "CommandError", "Interrupted", "ReaderGone", "RunFailed"]


class CommandError(Exception):
    """Base of all; `exit_code` is what the process ends with."""

    exit_code = 1


class BadInput(CommandError):
    """The user gave something that cannot be worked with; nothing has been done.

    `file` and `line` (from 1) say where, if it is in a file.
    """

    exit_code = 2

    def __init__(self, problem: str, *, file: str | None = None, line: int | None = None) -> None:
        where = "" if file is None else f"{file}: " if line is None else f"{file}, line {line}: "
        super().__init__(where + problem)
        self.problem = problem
        self.file = file
        self.line = line


class RunFailed(CommandError):
    """The input was good and the run was not."""


class ReaderGone(CommandError):
    """Whoever was reading has seen enough: nothing went wrong, and there is nobody to say anything to."""

    exit_code = 0


class Interrupted(CommandError):
    """Signal `number`, by default that of Ctrl-C, has ended the run; there is nothing to say."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__()
        self.exit_code = 128 + number
