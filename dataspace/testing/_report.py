"""What an exploration says: how much was seen, and the schedule that fails as a program that replays it."""

from __future__ import annotations

import ast
import re
from functools import partial
from types import FunctionType
from typing import Any

from attrs import frozen

from ._scenario import Scenario
from ._search import start

__all__ = ["Failure", "Report", "ScheduleFailed"]


class ScheduleFailed(AssertionError):
    """A schedule fails; the message holds it as a program, the cause is what it fails with."""


@frozen
class Failure:
    """A schedule under which a scenario fails, and what it fails with."""

    scenario: Scenario
    schedule: tuple[str, ...]
    error: BaseException

    def script(self) -> str:
        """A program that replays the schedule, with a word on each step."""
        setup, name = _source(self.scenario)
        lines = [
            f"# {_one_line(f'{type(self.error).__name__}: {self.error}', 110)}",
            *sorted(["from dataspace.testing import replay", *setup], key=lambda line: "functools" not in line),
            "",
            "replay(",
            f"    {name},",
            "    [",
            *[
                f"        {_quoted(option)},{comment}"
                for option, comment in zip(self.schedule, self._comments(), strict=True)
            ],
            "    ],",
            ")",
        ]
        return "\n".join(lines) + "\n"

    def _comments(self) -> list[str]:
        width = max(map(len, self.schedule), default=0)
        comments: list[str] = []
        try:
            run = start(self.scenario)
            for option in self.schedule:
                comments.append(run.describe(option))
                run.take(option, check=False)
        except Exception:  # noqa: BLE001 - it fails, that is known; what was said until then is what there is to say
            comments += [""] * (len(self.schedule) - len(comments))
        pad = [" " * (width - len(option)) for option in self.schedule]
        room = 105 - width
        return [f"{p}  # {_one_line(c, room)}" if c else "" for p, c in zip(pad, comments, strict=True)]


@frozen
class Report:
    """What was explored.

    `schedules` is the number of different schedules covered when the search was exhaustive, else of those drawn;
    `states` of the different states met (0 if they were not told apart), `runs` and `steps` say what it cost.
    """

    schedules: int
    states: int
    runs: int
    steps: int
    exhaustive: bool
    failure: Failure | None = None

    def check(self) -> Report:
        """The report itself; raises `ScheduleFailed` if there is a failure."""
        if self.failure is not None:
            error = self.failure.error
            raise ScheduleFailed(
                f"{type(error).__name__}: {error}\nafter {self}; this replays it:\n\n{self.failure.script()}"
            ) from error
        return self

    def __str__(self) -> str:
        """In a line: `120 schedules (all), 33 states, 61 runs, 96 steps`."""
        how = "all" if self.exhaustive else "drawn" if self.failure is None else "the last one fails"
        return f"{self.schedules:,} schedules ({how}), {self.states:,} states, {self.runs:,} runs, {self.steps:,} steps"


def _source(value: Any) -> tuple[list[str], str]:
    """The lines that bring a scenario, or what it is given, and the expression for it."""
    if isinstance(value, partial):
        parts = [("", value.func), *[("", arg) for arg in value.args]]
        parts += [(f"{key}=", arg) for key, arg in value.keywords.items()]
        setup, words = ["from functools import partial"], []
        for key, part in parts:
            lines, text = _source(part)
            setup += [line for line in lines if line not in setup]
            words.append(key + text)
        return setup, f"partial({', '.join(words)})"
    if isinstance(value, (FunctionType, type)):
        name = value.__qualname__
        if name.isidentifier():
            return [f"from {value.__module__} import {name}"], name
    elif _reads_back(text := repr(value)):
        return [], text
    name = re.sub(r"\W+", "_", getattr(value, "__qualname__", type(value).__qualname__).rpartition(".")[2]).strip("_")
    return [f"# {_one_line(repr(value), 60)} cannot be imported: bring it as `{name}`"], name


def _reads_back(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text in ("frozenset()", "set()")
    return True


def _quoted(option: str) -> str:
    return f'"{option}"' if option.isprintable() and not set(option) & set('"\\') else repr(option)


def _one_line(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."
