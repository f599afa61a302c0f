"""The standard streams, in a state in which a command can write to them."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator

__all__ = ["usable_streams"]


class _Nowhere(io.TextIOBase):
    """Stands for a stream that was closed before the process began."""

    def write(self, text: str, /) -> int:
        return len(text)


@contextlib.contextmanager
def usable_streams() -> Iterator[None]:
    """Within, stdout and stderr can be written to: what they cannot spell is escaped, what is closed takes anything."""
    with contextlib.ExitStack() as stack:
        if sys.stdout is None or sys.stderr is None:
            _fill_descriptors()
        if sys.stdout is None:
            stack.enter_context(contextlib.redirect_stdout(_Nowhere()))
        if sys.stderr is None:
            stack.enter_context(contextlib.redirect_stderr(_Nowhere()))
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # what the terminal cannot spell must not end the run
                stream.reconfigure(errors="backslashreplace")
        try:
            yield
        finally:
            _finish_stdout()


def _fill_descriptors() -> None:
    """Put the null device where a standard descriptor is free, lest the next file be opened in its place."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def _finish_stdout() -> None:
    """Write what is left; where that cannot be, into nothing, rather than have the interpreter complain at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
