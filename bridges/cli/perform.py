"""What every subcommand that replays does around the replay: choose a display, write files, say how it went."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from dataspace.trace import dump_turns
from engines.wire import vocabulary_wire

from .lines import Display, Lines, Silence
from .output import write_messages, write_whole
from .replay import Settings
from .result import problems, remarks, result_of
from .running import run
from .screen import Screen
from .session import Session, shown
from .terminal import ascii_json, tell

__all__ = ["display_for", "is_screen", "perform"]


def perform(
    session: Session,
    settings: Settings,
    *,
    out: Path | None = None,
    trace: Path | None = None,
    as_json: bool = False,
    pace: float = 0.0,
    closing: Sequence[str] = (),
) -> int:
    """Replay, show it, tell what went wrong on stderr; returns the exit code.

    `out` is written if all went well, `trace` also if the run failed.
    """
    display = display_for(as_json)
    try:
        pace = pace if isinstance(display, Screen) else 0.0
        outcome = run(session, settings, display, pace, traced=trace is not None)
        result = result_of(session, outcome.story, outcome.end)
        failures = problems(outcome.end)
        sentences = list(closing)
        if out is not None and not failures:
            write_messages(out, outcome.end.messages)
            sentences.append(f"{len(outcome.end.messages)} messages written to {shown(out)}")
        if trace is not None:
            write_whole(trace, "".join(dump_turns(outcome.turns, vocabulary_wire())))
            sentences.append(f"{len(outcome.turns)} turns written to {shown(trace)}")
        display.end(result, sentences)
    finally:
        display.close()
    for line in (*failures, *remarks(outcome.story, outcome.end)):
        tell(line)
    if as_json:
        _print_json(result)
    return 1 if failures else 0


def display_for(as_json: bool) -> Display:
    """The live view on a terminal that can show one, lines elsewhere; with `--json` stdout is for the object alone."""
    if as_json:
        return Screen(sys.stderr) if is_screen(sys.stderr) else Silence()
    return Screen(sys.stdout) if is_screen(sys.stdout) else Lines(sys.stdout)


def is_screen(stream: TextIO) -> bool:
    """Whether a live view makes sense there."""
    term = os.environ.get("TERM", "xterm" if os.name == "nt" else "")
    return stream.isatty() and term not in {"", "dumb", "unknown"}


def _print_json(result: Mapping[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):  # whoever wanted to read it is gone
        print(ascii_json(result), flush=True)
