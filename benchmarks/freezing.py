"""Freezing a message list, beside `copy.deepcopy`, which is what hosts do to be safe."""

from __future__ import annotations

import copy
from typing import Any

from engines.messages import Messages

from .measure import Row, Slice, Times, each
from .transcripts import conversation

__all__ = ["ROWS"]


def _first() -> tuple[Slice, Slice]:
    rows = conversation()
    return each(lambda: Messages.of(rows)), each(lambda: copy.deepcopy(rows))


def _again() -> tuple[Slice, Slice]:
    rows = conversation()
    frozen: list[Any] = list(Messages.of(rows))
    return each(lambda: Messages.of([*frozen])), each(lambda: copy.deepcopy(rows))


def _one_more() -> tuple[Slice, Slice]:
    rows = conversation()
    frozen, new = Messages.of(rows), {"role": "user", "content": "Go on."}
    return each(lambda: Messages.of([*frozen, new])), each(lambda: copy.deepcopy(rows))


ROWS: list[Row] = [
    Times("freezing 250 messages (280 KB)", "copy.deepcopy", 0.6, _first),
    Times("freezing them again", "copy.deepcopy", 0.05, _again),
    Times("freezing them with a new one", "copy.deepcopy", 0.05, _one_more),
]
