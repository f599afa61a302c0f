"""One compaction of the compressor, beside that of hermes-agent's built-in one with an instant summariser.

Both see each text for the first time.  Within 20 ms, or within what the built-in takes, whichever is more.
"""

from __future__ import annotations

import copy
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from time import thread_time
from types import SimpleNamespace
from typing import Any
from unittest import mock

from engines.compressor import Limits, compact
from engines.messages import Messages
from engines.transcript import estimate_tokens

from .measure import Row, Slice, Times
from .transcripts import conversation, recorded

__all__ = ["ROWS"]

GRACE = 0.020
CONTEXT, THRESHOLD = 32_000, 20_000
ROUNDS = 6
SUMMARY = "## Goal\nMend the parser.\n\n## Completed Actions\n1. READ src/parser.py [tool: read_file]\n" * 20

Rows = list[dict[str, Any]]


def _forget() -> None:
    """Empty the caches of our modules: the texts of a session are new to it."""
    for name, module in list(sys.modules.items()):
        if name.startswith("engines."):
            for thing in vars(module).values():
                if callable(clear := getattr(thing, "cache_clear", None)):
                    clear()


def _ours(rows: Rows, earlier: Rows | None = None) -> Slice:
    """Compact `rows`, by an engine to which all is new but what it met when it compacted `earlier`."""

    def run(number: int) -> float:
        took = 0.0
        for _ in range(number):
            messages = Messages.of(rows)
            _forget()
            if earlier is not None:
                compact(Messages.of(earlier), Limits(THRESHOLD))
            start = thread_time()
            compact(messages, Limits(THRESHOLD))
            took += thread_time() - start
        return took

    return run


def _builtin(rows: Rows) -> Slice:
    """The built-in compressor; where hermes-agent is not installed, nothing, and 20 ms are what counts."""
    if find_spec("agent") is None or find_spec("agent.context_compressor") is None:
        return lambda _number: 0.0

    def run(number: int) -> float:
        with _instant() as compressor:
            took = 0.0
            for _ in range(number):
                fresh, mine = compressor("model", config_context_length=CONTEXT, quiet_mode=True), copy.deepcopy(rows)
                start = thread_time()
                fresh.compress(mine, current_tokens=THRESHOLD)
                took += thread_time() - start
            return took

    return run


@contextmanager
def _instant() -> Iterator[Any]:
    """The class of the built-in compressor, with a home of its own and a model that answers at once."""
    answer = SimpleNamespace(
        choices=[SimpleNamespace(message=SimpleNamespace(content=SUMMARY), finish_reason="stop")], usage=None
    )
    with tempfile.TemporaryDirectory() as home, mock.patch.dict(os.environ, {"HERMES_HOME": home}):
        from agent import context_compressor  # type: ignore[import-untyped]  # noqa: PLC0415 - reads HERMES_HOME

        with mock.patch.object(context_compressor, "call_llm", return_value=answer):
            yield context_compressor.ContextCompressor


def _until(rows: Rows, tokens: int) -> Rows:
    """The session up to where it holds so many tokens."""
    total = 0
    for number, row in enumerate(Messages.of(rows)):
        total += estimate_tokens(Messages.of([row]))
        if total >= tokens and row["role"] == "tool":
            return rows[: number + 1]
    return rows


def _row(name: str, rows: Callable[[], Rows]) -> Times:
    def make() -> tuple[Slice, Slice]:
        chosen = rows()
        return _ours(chosen), _builtin(chosen)

    return Times(name, "20 ms or built-in", 1.0, make, rounds=ROUNDS, grace=GRACE)


def _recorded() -> Rows:
    return recorded() or conversation()


def _again() -> tuple[Slice, Slice]:
    """The session goes on after a first compaction, to its threshold."""
    rows = _recorded()
    first = _until(rows, THRESHOLD)
    done = compact(Messages.of(first), Limits(THRESHOLD))
    assert done is not None
    following = _until([*done.thaw(), *rows[len(first) :]], THRESHOLD)
    return _ours(following, first), _builtin(following)


ROWS: list[Row] = [
    _row("a compaction, recorded, at threshold", lambda: _until(_recorded(), THRESHOLD)),
    Times("the next one, with a summary", "20 ms or built-in", 1.0, _again, rounds=ROUNDS, grace=GRACE),
    _row("a compaction, made up, at threshold", lambda: _until(conversation(), THRESHOLD)),
]
