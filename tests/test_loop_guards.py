"""When automatic compaction is held back, and that it never is where somebody waits."""

from __future__ import annotations

import pytest

from engines.loop import events as e
from engines.loop import wake
from engines.loop.policy import compactable
from tests.loop_driver import Driver, rows


def compact(d: Driver, *, prompt: int = 120) -> Driver:
    """One crossing, answered; then more messages come."""
    d.append("more").reading(prompt)
    assert d.to is not None
    return d.answer("short")


def test_two_futile_compactions_block_until_there_is_relief() -> None:
    """C08: after two compactions that left the prompt above the threshold, no third until a reading below it."""
    d = Driver("a")
    compact(compact(d)).append("more").reading(120)
    assert (None, None) == (d.question, d.to)
    assert d.blocked is not None
    assert "left the prompt above the threshold" in d.blocked.reason
    blocked = d.blocked
    assert blocked is d.append("more").reading(130).blocked
    assert d.reading(40).blocked is None
    assert d.append("more").reading(95).question is None
    assert "a" == d.reading(120).to


@pytest.mark.parametrize(
    "relief",
    [
        lambda d: d.do(e.CompactionRequested, "manual").answer("short"),
        lambda d: d.do(e.BudgetChanged, threshold=100, model="other"),
        lambda d: d.do(e.SessionReset),
        lambda d: d.do(e.SessionStarted, threshold=100),
    ],
    ids=["manual", "model", "reset", "new session"],
)
def test_what_else_ends_the_block(relief: object) -> None:
    """C08: a manual compaction, a new model, a new session end the block as well."""
    assert callable(relief)
    d = Driver("a")
    compact(compact(d)).append("more").reading(120)
    assert d.blocked is not None
    relief(d)
    assert d.blocked is None
    if d.to is None:
        assert d.append("more").reading(120).to == "a"


def test_a_useful_compaction_is_no_futile_one() -> None:
    """Only compactions in a row count, and each is judged once, by the first real reading after it."""
    d = Driver("a")
    compact(d)
    compact(d)
    assert 1 == d.state.guard.futile
    d.reading(50)
    compact(d)
    d.append("more").reading(110)
    assert d.state.guard.futile == 1
    d.answer("short").do(e.UsageRead, {"completion_tokens": 1, "prompt_tokens": None}, 200)  # an estimate
    assert d.state.guard.futile == 1
    assert d.reading(120).state.guard.futile == 1  # the wait for a judgement was over


def test_no_usage_does_not_charge_a_compaction() -> None:
    """B03: a report without numbers ends the wait; the reading after it does not count against the compaction."""
    d = Driver("a", owned=False, guards=False)
    d.reading(100).do(e.ContextOpened, rows("u1")).answer("short").do(e.OfferCommitted)
    assert d.state.guard.awaiting
    d.do(e.UsageRead, {})
    assert not d.state.guard.awaiting
    assert 0 == d.do(e.UsageRead, {}).reading(100).state.guard.futile


def test_no_second_try_while_nothing_has_grown() -> None:
    """C09, C18: one try that nobody could use, then quiet with a reason, until something compactable comes."""
    d = Driver("a").reading(100)
    d.answer()
    for _ in range(20):
        d.append("", role="assistant").append("status", role="system").reading(120)
        assert d.to is None
    assert d.blocked is not None
    assert "Nothing that could be compacted" in d.blocked.reason
    assert 1 == d.state.n
    d.append("a new request", role="user").reading(100)
    assert "a" == d.to
    assert d.blocked is None


def test_growth_is_seen_by_the_pressure_too() -> None:
    """Where messages are not shown, a tenth of the threshold more than the lowest reading since is growth."""
    d = Driver("a", owned=False).reading(100)
    d.do(e.ContextOpened, rows("u1", "u2")).answer("u1").do(e.OfferCommitted).do(e.ContextReleased)
    assert d.reading(100).blocked is not None
    assert d.reading(109).question is None
    assert d.reading(110).question is not None
    d = Driver("a", owned=False).reading(100)
    d.do(e.ContextOpened, rows("u1", "u2")).answer("u1").do(e.OfferCommitted).do(e.ContextReleased)
    d.reading(95).reading(90)
    assert d.reading(100).question is not None


def test_replaced_messages_count_as_growth_where_they_differ() -> None:
    """A list that only lost rows has not grown; one with other rows has."""
    d = Driver("a").reading(100)
    d.answer().do(e.TranscriptReplaced, rows("u1", "u2"))
    assert d.reading(100).blocked is not None
    d.do(e.TranscriptReplaced, rows("u1", "v2"))
    assert "a" == d.reading(100).to


def test_an_engine_that_begins_has_not_tried_yet() -> None:
    """What others could not compact is asked of a newcomer all the same."""
    d = Driver("a").reading(100)
    assert d.answer().reading(100).blocked is not None
    assert "b" == d.serve("b").to
    assert d.blocked is None


def test_no_more_than_six_in_ten_minutes() -> None:
    """C10: effective compactions are counted too; six within ten minutes, then a pause that says until when."""
    d = Driver("a")
    done = 0
    for minute in range(30):
        d.at = 60.0 * minute
        d.append("a huge result", role="tool").reading(110)
        if d.to is not None:
            d.answer("short").reading(30)
            done += 1
            times = d.state.guard.recent
            assert len([time for time in times if time > d.at - 600]) <= 6
        else:
            assert d.blocked is not None
            assert "6 compactions within 10 minutes" in d.blocked.reason
            assert d.blocked.until == wake(d.state)
    assert 18 == done


def test_the_pause_ends_by_itself() -> None:
    """When the time has come, what is still above the threshold is asked about."""
    d = Driver("a")
    for minute in range(6):
        d.at = 60.0 * minute
        compact(d).reading(30)
    d.append("more").reading(110)
    assert d.blocked is not None
    assert 600.0 == d.blocked.until
    assert d.do(e.TimePassed, at=599.0).to is None
    assert "a" == d.do(e.TimePassed, at=600.0).to
    assert d.blocked is None


def test_a_pause_ends_although_no_reading_is_known() -> None:
    """What was held back before any reading after a compaction is not held back past its time, and asks for no other."""
    d = Driver("a")
    for minute in range(6):
        d.at = 60.0 * minute
        compact(d)
        if minute < 5:
            d.reading(30)
    d.append("more").do(e.CompactionRequested, "ahead")
    assert d.state.pressure is None
    assert d.blocked is not None
    assert 600.0 == wake(d.state)
    assert d.do(e.TimePassed, at=600.0).blocked is None
    assert wake(d.state) is None


def test_without_times_nothing_is_too_often() -> None:
    """A replay without recorded times has no guard that counts time."""
    d = Driver("a")
    for _ in range(20):
        compact(d).reading(30)
    assert 20 == d.state.asks


@pytest.mark.parametrize("reason", ["manual", "overflow"])
def test_who_waits_is_always_tried_for(reason: str) -> None:
    """Guards never bear on an answer somebody waits for."""
    d = Driver("a")
    compact(compact(d)).append("more").reading(120)
    assert d.blocked is not None
    assert d.do(e.CompactionRequested, "ahead").to is None
    assert "a" == d.do(e.CompactionRequested, reason).to
    assert d.blocked is None


def test_a_standing_question_is_held_back_too() -> None:
    """Another try for a question that stands is automatic like the first: the guards bear on it."""
    d = Driver("a")
    d.at = 0.0
    d.reading(100).answer()
    assert d.failed is not None
    assert d.do(e.TimePassed, at=30.0).to is None
    assert d.blocked is not None
    d.at = 40.0
    assert d.append("more").reading(100).to == "a"


def test_the_guards_can_be_off() -> None:
    """Without guards every crossing is asked about."""
    d = Driver("a", guards=False)
    for _ in range(10):
        d.reading(120).answer("short")
    assert 10 == d.state.asks


@pytest.mark.parametrize(
    ("row", "can"),
    [
        ({"role": "user", "content": "please"}, True),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}, True),
        ({"role": "tool", "content": "out", "tool_call_id": "1"}, True),
        ({"role": "assistant", "content": ""}, False),
        ({"role": "system", "content": "you are"}, False),
        ({"role": "user", "content": "summary", "_compressed_summary": True}, False),
        ({"role": "user", "content": "todo", "_todo_snapshot_synthetic": True}, False),
        ({"content": "no role"}, False),
    ],
)
def test_what_counts_as_growth(row: dict[str, object], can: bool) -> None:
    """C18: what somebody said or a tool returned can be compacted; summaries, status and system rows cannot."""
    assert can == compactable(row)
