"""Text on its way to a terminal: whatever it was made from, it moves no cursor and turns no line round."""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from typing import Any

__all__ = ["NAME", "ascii_json", "clean", "one_line", "tell"]

NAME = "hermes-dataspace"
_LONGEST = 400  # characters of a line for people
# Control characters of either set, separators of lines, and what changes the direction of writing.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_UNSAFE_RUN = re.compile(f"{_UNSAFE.pattern}+")


def clean(text: str, instead: str | None = None) -> str:
    """A text without anything that acts on a terminal: a space for each run of that, or `instead` for each character."""
    return _UNSAFE_RUN.sub(" ", text) if instead is None else _UNSAFE.sub(instead, text)


def one_line(text: str, longest: int = _LONGEST) -> str:
    """A text for people on one line; of a long one the middle is left out, for the end says what to do."""
    line = " ".join(clean(text).split())
    if len(line) <= longest:
        return line
    last = longest // 2
    return f"{line[: longest - last - 5]} ... {line[-last:]}"


def ascii_json(value: Any) -> str:
    """A value as JSON in printable ASCII; the one control character that `json` lets through is escaped too."""
    return json.dumps(value).replace("\x7f", "\\u007f")


def tell(problem: str) -> None:
    """One line on stderr; if that cannot be written, there is nobody to tell it to."""
    with suppress(OSError):
        print(f"{NAME}: {one_line(problem)}", file=sys.stderr, flush=True)
