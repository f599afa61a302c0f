"""What it costs to know about skills: a scan, a look at a request, the word to a tool."""

from __future__ import annotations

import json
from typing import Any

from engines.skills import Book, scan
from engines.skills import events as e

from .measure import Row, Slice, Times, each
from .transcripts import conversation, recorded

__all__ = ["ROWS"]

SCAN, LOOK, WORD = 0.010, 0.010, 0.000_050  # seconds
LOADS = 5


def _session() -> list[dict[str, Any]]:
    """The recorded session, or one like it; with skills either way."""
    rows = recorded()
    if rows is not None:
        return rows
    made = conversation()
    for number in range(LOADS):
        arguments = json.dumps({"name": f"skill-{number}"})
        call = {"id": f"k{number}", "type": "function", "function": {"name": "skill_view", "arguments": arguments}}
        told = {
            "success": True,
            "name": f"skill-{number}",
            "path": f"skill-{number}/SKILL.md",
            "content": "step\n" * 2_000,
        }
        made += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"k{number}", "content": json.dumps(told)},
        ]
    return made


def _scan() -> tuple[Slice, Slice]:
    rows = _session()
    return each(lambda: scan(rows)), lambda number: number * SCAN


def _linear() -> tuple[Slice, Slice]:
    rows = _session()
    many = rows * 8
    once = each(lambda: scan(rows))
    return each(lambda: scan(many)), lambda number: once(8 * number)


def _look() -> tuple[Slice, Slice]:
    book = Book()
    book.open("s", hosted=True)
    rows = _session()
    return each(lambda: book.step("s", e.Seen(rows, sent=True))), lambda number: number * LOOK


def _word() -> tuple[Slice, Slice]:
    book = Book()
    book.open("s", hosted=True)
    book.step("s", e.Seen(_session(), sent=True))

    def hooks() -> None:
        book.step("s", e.ToolAsked("terminal"))
        book.step("s", e.ToolDone("terminal", tell=True))

    return each(hooks), lambda number: number * WORD


ROWS: list[Row] = [
    Times("scan the long session for skills", "10 ms", 1.0, _scan, rounds=10),
    Times("scan eight such sessions in one list", "eight scans of one", 1.2, _linear, rounds=10),
    Times("look at a request of that length", "10 ms", 1.0, _look, rounds=10),
    Times("both hooks of a tool", "50 µs", 1.0, _word, rounds=10),
]
