"""From the process's point of view: arguments in, an exit code out, and never a traceback for the user's mistake.

0: it went well. 1: the run failed. 2: bad input. 130: interrupted.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence

from .errors import CommandError, Interrupted

__all__ = ["main"]

_NAME = "hermes-dataspace"
_EXTRA = frozenset({"click", "rich"})


def main(args: Sequence[str] | None = None) -> int:
    """Run the command with `args`, by default those of the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what the terminal cannot spell must not end the run
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(args)
    except BrokenPipeError:  # whoever was reading has seen enough
        return 0
    except KeyboardInterrupt:
        return Interrupted.exit_code
    finally:
        _finish_stdout()


def _run(args: Sequence[str] | None) -> int:
    try:
        import click  # noqa: PLC0415 - part of an extra, which may be missing

        from .app import command  # noqa: PLC0415
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing not in _EXTRA:
            raise
        return _complain(f"{missing} is missing; pip install 'hermes-dataspace[cli]'", 1)
    try:
        return int(command.main(args=None if args is None else list(args), prog_name=_NAME, standalone_mode=False) or 0)
    except Interrupted as interrupted:
        return interrupted.exit_code
    except CommandError as error:
        return _complain(str(error), error.exit_code)
    except click.ClickException as error:
        return _complain(f"{error.format_message().strip()} ({_NAME} --help tells more)", 2)
    except click.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        raise
    except OSError as error:
        return _complain(f"what there is to say could not be written: {error.strerror or error}", 1)


def _complain(problem: str, code: int) -> int:
    with contextlib.suppress(OSError):
        print(f"{_NAME}: {' '.join(problem.split())}", file=sys.stderr, flush=True)
    return code


def _finish_stdout() -> None:
    """Write what is left; where that cannot be, into nothing, rather than have the interpreter complain at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
