"""Conversations to measure on: made up, the same every time, of the size of a long coding session; or recorded."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

__all__ = ["conversation", "recorded"]

RECORDING = Path(__file__).resolve().parent.parent / "bridges" / "cli" / "demo.jsonl"
MESSAGES, CHARACTERS = 250, 280_000
TURN = 30  # messages from one request to the next
WORDS = "the parser returns None because tokens of nested groups are read twice so tests fail when run alone".split()
TOOLS = ("terminal", "read_file", "patch", "search_files")


def recorded() -> list[dict[str, Any]] | None:
    """The session that the project has recorded; None where the checkout has none."""
    if not RECORDING.is_file():
        return None
    return [json.loads(line) for line in RECORDING.read_text(encoding="utf-8").splitlines()]


def conversation(messages: int = MESSAGES, characters: int = CHARACTERS, seed: int = 1) -> list[dict[str, Any]]:
    """A coding session: a system message, requests, tool calls in pairs with their results; about as long as asked."""
    dice = random.Random(seed)
    rows: list[dict[str, Any]] = [{"role": "system", "content": "You are a coding agent. " + _prose(dice, 60)}]
    spare = max(200, characters * 2 // messages - 540)  # for a result; the rest of a pair takes about 540
    while len(rows) < messages:
        if len(rows) % TURN == 1:
            rows.append({"role": "user", "content": f"Please mend {_path(dice)}: {_prose(dice, 40)}"})
        else:
            rows += _call(dice, len(rows), int(spare * dice.uniform(0.4, 1.6)))
    return rows[:messages] if rows[messages - 1]["role"] != "assistant" else [*rows[: messages - 1], _answer(dice)]


def _call(dice: random.Random, number: int, size: int) -> list[dict[str, Any]]:
    tool, path, call = dice.choice(TOOLS), _path(dice), f"call_{number:06}"
    arguments = {"command": f"pytest -q {path}::test_{number}"} if tool == "terminal" else {"path": path, "limit": 400}
    asked = {"id": call, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
    lines, length = [], 0
    while length < size:
        lines.append(_line(dice, path))
        length += len(lines[-1]) + 1
    answer = json.dumps({"output": "\n".join(lines), "exit_code": dice.choice((0, 0, 1))})
    usage = {"prompt_tokens": number * 280, "completion_tokens": 60}
    return [
        {"role": "assistant", "content": _prose(dice, 14), "tool_calls": [asked], "usage": usage},
        {"role": "tool", "tool_call_id": call, "content": answer},
    ]


def _line(dice: random.Random, path: str) -> str:
    kind = dice.random()
    if kind < 0.2:
        return f'  File "/home/user/project/{path}", line {dice.randint(10, 2000)}, in {_name(dice)}'
    if kind < 0.3:
        return f"{dice.choice(('ValueError', 'KeyError', 'ParseError'))}: {_prose(dice, 6)} {dice.getrandbits(40):x}"
    if kind < 0.65:
        return f"    {_name(dice)} = self.{_name(dice)}({_name(dice)}, {dice.randint(0, 99999)})"
    return _prose(dice, 12)


def _answer(dice: random.Random) -> dict[str, Any]:
    return {"role": "assistant", "content": _prose(dice, 30)}


def _prose(dice: random.Random, words: int) -> str:
    return " ".join(dice.choices(WORDS, k=words)).capitalize() + "."


def _name(dice: random.Random) -> str:
    return f"{dice.choice(WORDS)}_{dice.choice(WORDS)}".lower()


def _path(dice: random.Random) -> str:
    return f"src/{dice.choice(WORDS).lower()}/{_name(dice)}_{dice.randint(0, 40)}.py"
