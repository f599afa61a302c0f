"""What events say when they are made with no more than they need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engines.loop import events as e
from engines.messages import Messages

NOTHING = Messages.of(())


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (
            e.SessionStarted("s", threshold=1),
            e.SessionStarted(
                "s",
                at=None,
                context_length=0,
                threshold=1,
                messages=NOTHING,
                profile="",
                model="",
                platform="",
                parent=None,
                host_session=None,
            ),
        ),
        (e.SessionReset("s"), e.SessionReset("s", NOTHING, at=None)),
        (e.BudgetChanged("s", threshold=1), e.BudgetChanged("s", context_length=0, threshold=1, model=None)),
        (e.UsageRead("s"), e.UsageRead("s", {}, None)),
        (e.CompactionRequested("s"), e.CompactionRequested("s", "manual", None, None)),
        (e.ContextOpened("s", NOTHING), e.ContextOpened("s", NOTHING, "threshold", None, None, None)),
        (e.EngineBegan("s", "a"), e.EngineBegan("s", "a", "compressor")),
        (e.EngineCeased("s", "a"), e.EngineCeased("s", "a", "compressor")),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_is_left_out_is_unknown_or_usual(short: e.Event, long: e.Event) -> None:
    """Nothing is invented for what a host does not tell; a request is a manual one, an engine a compressor."""
    assert long == short


@pytest.mark.parametrize(
    "made",
    [
        lambda rows: e.SessionStarted("s", threshold=1, messages=rows),
        lambda rows: e.SessionReset("s", rows),
        lambda rows: e.MessagesAppended("s", rows),
        lambda rows: e.TranscriptReplaced("s", rows),
        lambda rows: e.ContextOpened("s", rows),
        lambda rows: e.AnswerVolunteered("s", "a", rows),
    ],
)
def test_messages_are_frozen_as_they_come(made: Callable[[list[Any]], Any]) -> None:
    """A host may hand over its own list and go on changing it: the event has it as it was."""
    rows = [{"role": "user", "content": "hi"}]
    event = made(rows)
    rows[0]["content"] = "changed"
    assert Messages is type(event.messages)
    assert ["hi"] == [row["content"] for row in event.messages]
