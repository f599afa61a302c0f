"""Ten thousand conversations in one process: what a response costs, and what a conversation weighs."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from typing import Any

import pytest

from dataspace import Dataspace, Facet
from engines import Loop, serve
from engines.loop import events as e
from tests.loop_driver import policy, rows

FEW, MANY = 10, 10_000


def live(count: int) -> Loop:
    """A loop with so many live conversations, each with a reading, and engines of all roles serving."""
    ds = Dataspace()
    loop = Loop(ds.actor("loop"), policy(), clock=lambda: 0.0)

    def boot(me: Facet, role: Any) -> None:
        serve(me, lambda _me, _asked: rows("short"), role=role)

    for role in ("compressor", "reviser", "shadow"):
        ds.spawn(boot, role, name=role)
    messages = rows("u1", "u2")
    for n in range(count):
        loop.feed(e.SessionStarted(f"s{n}", threshold=100, messages=messages))
        loop.feed(e.UsageRead(f"s{n}", {"prompt_tokens": 50}))
    return loop


def calls(loop: Loop, prompt: int, times: int = 50) -> int:
    """How many functions are called, built-in ones among them, by so many responses of one conversation."""
    counted = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal counted
        counted += event in {"call", "c_call"}

    event = e.UsageRead("s1", {"prompt_tokens": prompt})
    more = e.MessagesAppended("s1", rows("more"))
    gc.disable()
    sys.setprofile(note)
    try:
        for _ in range(times):
            loop.feed(event)
            loop.feed(more)
    finally:
        sys.setprofile(None)
        gc.enable()
    return counted


def bytes_per_session(count: int = MANY) -> float:
    """What a live conversation with a reading takes in memory, its messages not counted."""
    live(FEW)  # whatever is made once is there before the measurement
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        loop = live(count)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert count == len(tuple(loop.sids()))
    return taken / count


@pytest.mark.slow
@pytest.mark.parametrize("prompt", [50, 120], ids=["below", "crossing"])
def test_a_response_costs_the_same_with_ten_thousand_conversations(prompt: int) -> None:
    """A response, and a whole compaction, makes as many calls with 10,000 live conversations as with 10."""
    few, many = calls(live(FEW), prompt), calls(live(MANY), prompt)
    assert few > 50
    assert abs(many - few) <= 0.05 * few


@pytest.mark.slow
def test_a_conversation_is_light() -> None:
    """A live conversation takes at most 6 KB beside its messages."""
    assert bytes_per_session(2000) <= 6 * 1024
