"""Facts and moments in the few words that a screen has room for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dataspace import Crashed
from engines import facts as f

from .moments import Moment
from .terminal import clean

__all__ = ["bar", "brief", "chart", "counted", "sentence"]

_LEVELS = {False: "▁▂▃▄▅▆▇█", True: "_.-~=+*#"}


def bar(value: int, threshold: int, width: int, *, ascii_only: bool = False) -> str:
    """A bar of `width` characters with a mark where the threshold is, at four fifths; readable without colour."""
    full, empty, mark = ("#", ".", "|") if ascii_only else ("█", "░", "┃")
    at = width * 4 // 5
    filled = min(width, value * at // threshold) if threshold else 0
    cells = [full if cell < filled else empty for cell in range(width)]
    if cells:
        cells[at] = mark
    return "".join(cells)


def chart(readings: list[tuple[int, int]], lines: int, threshold: int, width: int, *, ascii_only: bool = False) -> str:
    """The pressure over a file of `lines` lines in one row; what has not been read yet is left blank."""
    levels = _LEVELS[ascii_only]
    if width < 1:
        return ""
    highest = [0] * width
    for line, tokens in readings:
        column = min(width - 1, (line - 1) * width // max(lines, 1))
        highest[column] = max(highest[column], tokens)
    last = max((at for at, tokens in enumerate(highest) if tokens), default=-1)
    cells, level = [], 0
    for at, tokens in enumerate(highest):
        if at > last:
            break
        level = min(len(levels) - 1, tokens * (len(levels) - 1) // max(threshold, 1)) if tokens else level
        cells.append(levels[level])
    return "".join(cells)


def counted(number: int, noun: str) -> str:
    """A number and what it counts."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


# -- moments ----------------------------------------------------------------------------------------------------------

_SENTENCES: dict[str, Callable[[Moment], str]] = {
    "crossing": lambda m: f"crossing {m.get('ask')}: {m.get('tokens'):,} of {m.get('threshold'):,} tokens",
    "withdrawn": lambda m: f"question {m.get('ask')} withdrawn: the pressure fell",
    "asked": lambda m: f"asked {m.get('engine')}: {m.get('tokens'):,} tokens",
    "answered": lambda m: f"{m.get('engine')} answered: {m.get('tokens'):,} tokens",
    "declined": lambda m: f"{m.get('engine')} declined",
    "erred": lambda m: f"{m.get('engine')} failed: {m.get('reason')}",
    "compressed": lambda m: f"compressed by {m.get('by')}: {m.get('before'):,} → {m.get('after'):,}",
    "refused": lambda m: f"refused {m.get('by')}: {m.get('reason')}",
    "failed": lambda m: f"compaction {m.get('ask')} failed: {m.get('reason')}",
    "blocked": lambda m: f"held back: {m.get('reason')}",
    "serving": lambda m: f"{m.get('engine')} serves",
    "left": lambda m: f"{m.get('engine')} left",
    "crashed": lambda m: f"{m.get('engine')} crashed: {m.get('reason')}",
    "gave-up": lambda m: f"{m.get('engine')} given up after {m.get('crashes')} crashes",
}


def sentence(moment: Moment) -> str:
    """A moment in words."""
    told = _SENTENCES.get(moment.event)
    return clean(_swap(moment) if told is None else told(moment))


def _swap(moment: Moment) -> str:
    old, new, note = moment.get("old"), moment.get("new"), moment.get("note")
    done = f"swap: {old} → {new}" if old and new else f"plug {new}" if new else f"unplug {old}"
    return done + (f" ({note})" if note else "")


# -- facts ------------------------------------------------------------------------------------------------------------

_FACTS: dict[type, Callable[[Any], str]] = {
    f.Session: lambda x: f"{x.sid} {x.state}",
    f.Budget: lambda x: f"{x.threshold:,} of {x.context_length:,}",
    f.Usage: lambda x: f"#{x.seq}: {x.prompt:,} tokens" if x.prompt is not None else f"#{x.seq}",
    f.Transcript: lambda x: f"rev {x.rev}: {len(x.messages or ()):,} messages",
    f.ShouldCompress: lambda x: f"ask {x.ask}: {x.tokens:,} tokens",
    f.Asked: lambda x: f"ask {x.ask}, to {x.to}",
    f.Compressed: lambda x: f"ask {x.ask}, by {x.by}",
    f.CompactionFailed: lambda x: f"ask {x.ask}: {x.reason}",
    f.Blocked: lambda x: x.reason,
    f.Serving: lambda x: f"{x.engine}, {x.role}",
    Crashed: lambda x: f"{x.actor}: {x.reason}",
    f.GaveUp: lambda x: f"{x.engine}",
}


def brief(fact: Any) -> tuple[str, str]:
    """The name of a fact, and its particulars in a few words."""
    told = _FACTS.get(type(fact))
    return type(fact).__name__, clean(told(fact) if told is not None else "")
