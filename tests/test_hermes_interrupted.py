"""Ctrl-C at any moment of a compress call: nothing of that call remains, and the next one is answered by the same engine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import bridges.hermes
from engines import facts as f
from tests.hermes_adapter.desk import FAKE, Engines, commit, conversation, facts
from tests.hermes_adapter.fixtures import engines

__all__ = ["engines"]

HERE = str(Path(bridges.hermes.__file__).parent)
LEFT = (f.Asked, f.ShouldCompress, f.Working)


class Moments:
    """Counts the moments at which an interrupt can reach the adapter on this thread, and interrupts at one of them.

    The interpreter looks for signals where a function begins and where a call has returned, so never between the two
    ends of a `with` and what they do.
    """

    def __init__(self, last: int) -> None:
        self._left = last

    def __call__(self, frame: FrameType, event: str, _arg: Any) -> None:
        here = frame if event in {"c_return", "call"} else frame.f_back
        if event == "c_call" or here is None or not here.f_code.co_filename.startswith(HERE):
            return
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt(f"{event} {frame.f_code.co_qualname}, {here.f_code.co_qualname} {here.f_lineno}")


@contextmanager
def interrupt(last: int) -> Iterator[None]:
    """Have this thread interrupted at that moment."""
    before = sys.getprofile()
    sys.setprofile(Moments(last))
    try:
        yield
    finally:
        sys.setprofile(before)


def left(engine: Any) -> list[str]:
    """What stands of a question, once the host has gone on and all threads have come back."""
    engine.update_from_response({"prompt_tokens": 1_000})
    found: list[Any] = []
    for _ in range(200):
        found = [fact for cls in LEFT for fact in facts(cls, engine)]
        if not found:
            break
    return [str(fact)[:200] for fact in found]


def interrupted_at(engine: Any, moment: int) -> str | None:
    """Where the call was interrupted; None where it has fewer moments than that."""
    rows = conversation(30, 9000)
    with interrupt(moment):
        try:
            engine.compress(rows, current_tokens=150_000, force=True)
        except KeyboardInterrupt as error:
            return str(error)
    return None


def scan(engine: Any, step: int) -> list[str]:
    """Interrupt one call after the other, each so many moments later; what was wrong then, and where."""
    (name,) = engine.seat.cell.names.values()
    assert engine.compress(conversation(30, 9000), current_tokens=150_000, force=True), engine._last_summary_error
    wrong: list[str] = []
    at = 1
    while (where := interrupted_at(engine, at)) is not None:
        at += step
        if found := left(engine):
            wrong.append(f"{where}: {found}")
        rows = conversation(30, 9000)
        if engine.compress(rows, current_tokens=150_000, force=True) is rows:
            wrong.append(f"{where}: {engine._last_summary_error}")
            continue
        commit(engine)
        if [name] != [fact.by for fact in facts(f.Compressed, engine)]:
            wrong.append(f"{where}: by another one")
    assert at > 90  # or nothing was looked at
    return wrong


@pytest.mark.parametrize(("kind", "step"), [(FAKE, 1), ("compressor", 5)])
def test_nothing_remains_of_a_call_that_was_interrupted(engines: Engines, kind: str, step: int) -> None:
    """Between two steps of what belongs together, for instance, when it is over but for its last words."""
    assert [] == scan(engines.started(kind, deadline=20), step)
