"""Numbers on the command line, with errors that say what a number should look like."""

from __future__ import annotations

import re

import click

__all__ = ["seconds", "tokens"]

_LONGEST_PAUSE = 60.0  # seconds; with a longer one nobody would think that something goes on


def tokens(given: str | int) -> int:
    """A whole number from 1; raises `click.BadParameter`."""
    text = str(given)
    if not re.fullmatch(r"[0-9]{1,12}", text, re.ASCII) or int(text) < 1:
        raise click.BadParameter(f"{text!r} is not a whole number of tokens from 1, such as 32000")
    return int(text)


def seconds(given: str | float) -> float:
    """A pause; raises `click.BadParameter`."""
    try:
        pause = float(given)
    except ValueError:
        pause = -1.0
    if not 0.0 <= pause <= _LONGEST_PAUSE:  # which a NaN is not either
        raise click.BadParameter(
            f"{str(given)!r} is not a number of seconds from 0 to {_LONGEST_PAUSE:g}, such as 0.05"
        )
    return pause
