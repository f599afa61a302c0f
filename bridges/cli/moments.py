"""What happens in a replay, one record for each thing that is worth a line.

    crossing line=57 ask=1 tokens=20160 threshold=20000

The first word says what happened, the rest is `key=value`; texts are JSON strings where they are not plain words.
This form is documented in `docs/reference/command.md` and does not change without a note.
"""

from __future__ import annotations

import re
from typing import Any

from attrs import frozen

from .terminal import ascii_json

__all__ = ["Moment", "plain"]

_PLAIN = re.compile(r"[\w./#:+-]+", re.ASCII)


@frozen
class Moment:
    """Something that happened before or at line `line` of the file (0: before the first); `told` are its particulars."""

    event: str
    line: int
    told: tuple[tuple[str, Any], ...] = ()

    def get(self, key: str, default: Any = None) -> Any:
        """One particular by name."""
        return dict(self.told).get(key, default)


def plain(moment: Moment) -> str:
    """One line of plain text, ASCII only."""
    parts = [moment.event, f"line={moment.line}"]
    parts += [f"{key}={_value(value)}" for key, value in moment.told if value is not None]
    return " ".join(parts)


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    return text if _PLAIN.fullmatch(text) else ascii_json(text)
