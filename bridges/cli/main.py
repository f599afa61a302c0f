"""From the process's point of view: arguments in, an exit code out, and never a traceback for the user's mistake.

0: it went well. 1: the run failed. 2: bad input. 129, 130, 143: ended by SIGHUP, Ctrl-C, SIGTERM.
"""

from __future__ import annotations

from collections.abc import Sequence

from .errors import CommandError, Interrupted
from .signals import interrupted_by, on_ending, stop
from .streams import usable_streams
from .terminal import NAME, tell

__all__ = ["main"]

_EXTRA = frozenset({"click", "rich"})


def main(args: Sequence[str] | None = None) -> int:
    """Run the command with `args`, by default those of the process."""
    try:
        with usable_streams(), on_ending(stop):
            return _run(args)
    except BrokenPipeError:  # whoever was reading has seen enough
        return 0
    except BaseException as error:
        number = interrupted_by(error)
        if number is None:
            raise
        return Interrupted(number).exit_code


def _run(args: Sequence[str] | None) -> int:
    try:
        import click  # noqa: PLC0415 - part of an extra, which may be missing

        from .app import command  # noqa: PLC0415
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing not in _EXTRA:
            raise
        tell(f"{missing} is missing; in a checkout: pip install '.[cli]'")
        return 1
    try:
        return int(command.main(args=None if args is None else list(args), prog_name=NAME, standalone_mode=False) or 0)
    except CommandError as error:
        problem, code = str(error), error.exit_code
    except click.ClickException as error:
        at = getattr(error, "ctx", None)
        problem, code = f"{error.format_message().strip()} ({at.command_path if at else NAME} --help tells more)", 2
    except click.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        raise
    except OSError as error:
        problem, code = f"what there is to say could not be written: {error.strerror or error}", 1
    if problem:
        tell(problem)
    return code
