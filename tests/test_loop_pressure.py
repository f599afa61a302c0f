"""Reading usage, and the question that follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from engines.facts import Budget, Session, Usage
from engines.loop import Policy
from engines.loop import events as e
from engines.loop.pressure import read_usage
from tests.loop_driver import SID, Driver, rows

READINGS: dict[str, tuple[dict[str, Any], int | None]] = {
    "B02: what the model wrote is no pressure": (
        {"prompt_tokens": 85_000, "completion_tokens": 20_000, "total_tokens": 105_000, "reasoning_tokens": 20_000},
        85_000,
    ),
    "B04: cached input counts where there is no prompt": (
        {"input_tokens": 3, "cache_read_tokens": 17_700, "cache_write_tokens": 0, "output_tokens": 50},
        17_703,
    ),
    "cached input counts once": ({"prompt_tokens": 100, "cache_read_tokens": 90, "input_tokens": 10}, 100),
    "another spelling of cached input": (
        {"input_tokens": 1, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 100},
        111,
    ),
    "each part may be missing": ({"cache_read_tokens": 10}, 10),
    "all parts may be missing but what was written": ({"cache_write_tokens": 10}, 10),
    "B03: nothing": ({}, None),
    "B03: None is absent": ({"prompt_tokens": None, "completion_tokens": None, "total_tokens": None}, None),
    "None is absent, the parts are not": ({"prompt_tokens": None, "input_tokens": 5}, 5),
    "zero is a number": ({"prompt_tokens": 0}, 0),
    "what is no count is absent": ({"prompt_tokens": "12", "input_tokens": True, "cache_read_tokens": -1}, None),
    "T10: steps inside the response are not summed": (
        {"input_tokens": 23_000, "iterations": [{"input_tokens": 180_000}, {"input_tokens": 23_000}]},
        23_000,
    ),
}


@pytest.mark.parametrize(("usage", "prompt"), READINGS.values(), ids=READINGS.keys())
def test_the_pressure_is_what_the_prompt_held(usage: dict[str, Any], prompt: int | None) -> None:
    """Pressure is the prompt as the provider tells it; what it leaves out is absent."""
    reading = read_usage(SID, 1, usage)
    assert prompt == (None if reading is None else reading.prompt)


def test_a_reading_keeps_all_counts() -> None:
    """Counts that are no pressure are published with the reading."""
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14, "reasoning_tokens": 3, "response_id": "r"}
    reading = read_usage(SID, 4, usage)
    assert reading is not None
    assert (4, 9, 5, 14, 3, None, False, "r") == (
        reading.seq,
        reading.prompt,
        reading.completion,
        reading.total,
        reading.reasoning,
        reading.cache_read,
        reading.estimated,
        reading.response_id,
    )


@pytest.mark.parametrize(
    ("steps", "beside"),
    [
        ([{"input_tokens": 180, "output_tokens": 7}, {"input_tokens": 23, "output_tokens": 5}], (180, 7)),
        ([{"input_tokens": 180}, "no step"], (157, 0)),
        ([{}], (None, None)),
        ([], (None, None)),
        ("none", (None, None)),
        (None, (None, None)),
    ],
)
def test_what_the_provider_did_beside_is_no_pressure(steps: Any, beside: tuple[int | None, int | None]) -> None:
    """T10: steps of the provider's own are told by themselves, less what the report counts already."""
    reading = read_usage(SID, 1, {"input_tokens": 23, "output_tokens": 5, "iterations": steps})
    assert reading is not None
    assert (23, 5, *beside) == (reading.prompt, reading.completion, reading.side_prompt, reading.side_completion)


def test_nobody_wakes_below_the_threshold_and_once_at_it() -> None:
    """D13: a thousand readings below raise nothing; the crossing raises one question, however long it lasts."""
    d = Driver("a", owned=False)
    for prompt in range(1000):
        d.reading(prompt % 100)
    assert d.question is None
    d.reading(100)
    first = d.question
    assert first is not None
    assert 1 == first.ask
    for prompt in (101, 150, 99, 85, 120):
        d.reading(prompt)
    assert d.question is first


@pytest.mark.parametrize(("prompt", "stands"), [(99, True), (80, True), (79, False)])
def test_the_low_mark_withdraws(prompt: int, stands: bool) -> None:
    """A question that pressure raised stands down to 80 % of the threshold; the next crossing is a new one."""
    d = Driver("a", owned=False).reading(100).reading(prompt)
    assert stands == (d.question is not None)
    d.reading(100)
    assert d.question is not None
    assert (1 if stands else 2) == d.question.ask


def test_falling_pressure_calls_the_engine_off() -> None:
    """When the question goes, so does the asking, and the answer comes too late."""
    d = Driver("a").reading(100)
    asked = d.asked
    d.reading(10)
    assert d.to is None
    d.answer("late", asked=asked)
    assert ["late or not asked for"] == [refused.reason for refused in d.said]
    assert ["u1", "u2", "u3"] == d.texts


def test_falling_pressure_does_not_touch_what_somebody_waits_for() -> None:
    """A manual question is not withdrawn by a reading, nor is one that a call of the host has taken up."""
    assert Driver("a").do(e.CompactionRequested, "manual").reading(1).to == "a"
    d = Driver("a", owned=False).reading(100).do(e.ContextOpened, rows("u1"))
    assert "a" == d.reading(1).to


def test_missing_usage_overwrites_nothing() -> None:
    """B03: reports without numbers keep the reading and the pressure, and end the wait for a judgement unjudged."""
    d = Driver("a", owned=False).reading(90)
    before = d.fact(Usage)
    for usage in ({}, {"prompt_tokens": None, "completion_tokens": None}):
        d.do(e.UsageRead, usage)
    assert before is d.fact(Usage)
    assert 90 == d.state.pressure
    d.do(e.UsageRead, {"completion_tokens": 7})
    assert (None, 7, 90) == (d.fact(Usage).prompt, d.fact(Usage).completion, d.state.pressure)
    assert d.do(e.PressureGiven, 100).question is not None


def test_missing_usage_is_estimated_where_the_loop_keeps_the_context() -> None:
    """B03: a provider that never reports usage does not keep compaction from happening."""
    d = Driver("a", messages=rows(*"abcdefgh")).do(e.UsageRead, {"completion_tokens": 3})
    usage = d.fact(Usage)
    assert (80, True, 3) == (usage.prompt, usage.estimated, usage.completion)
    d.append("i", "j")
    assert d.question is None
    d.do(e.UsageRead, {})
    assert d.question is not None
    assert "a" == d.to


def test_an_estimate_handed_in_stands_in() -> None:
    """The edge may estimate; its number is used where the provider gives none."""
    d = Driver("a", owned=False).do(e.UsageRead, {}, 120)
    assert (120, True) == (d.fact(Usage).prompt, d.fact(Usage).estimated)
    d.do(e.UsageRead, {"prompt_tokens": 50}, 120)
    assert (50, False) == (d.fact(Usage).prompt, d.fact(Usage).estimated)


def test_one_response_told_twice_is_one_reading() -> None:
    """T11: the same response id does not count as another reading."""
    d = Driver("a", owned=False)
    for _ in range(3):
        d.do(e.UsageRead, {"prompt_tokens": 50, "response_id": "r1"})
    assert 1 == d.fact(Usage).seq
    assert 2 == d.do(e.UsageRead, {"prompt_tokens": 50, "response_id": "r2"}).fact(Usage).seq


def test_a_new_budget_is_weighed_at_once() -> None:
    """D12: a lower threshold raises the question, a higher one withdraws it; nothing is restarted."""
    d = Driver("a", owned=False).reading(90)
    d.do(e.BudgetChanged, context_length=200, threshold=80)
    assert d.question is not None
    assert Budget(SID, 200, 80) == d.fact(Budget)
    assert 80 == d.question.threshold
    same = d.fact(Budget)
    assert same is d.do(e.BudgetChanged, context_length=200, threshold=80).fact(Budget)
    assert d.do(e.BudgetChanged, threshold=1000).question is None
    assert 1 == d.fact(Usage).seq


@pytest.mark.parametrize(
    ("told", "error", "words"),
    [
        ({"threshold": 200, "context_length": 100}, ValueError, ("200", "100")),
        ({"threshold": 2, "context_length": 1}, ValueError, ("2", "1")),
        ({"threshold": 0}, ValueError, ("0",)),
        ({"threshold": 1, "context_length": -1}, ValueError, ("-1",)),
        ({"threshold": "10"}, TypeError, ("threshold", "'10'")),
        ({"threshold": 10, "context_length": True}, TypeError, ("context_length", "True")),
    ],
)
def test_a_budget_that_cannot_be_is_refused(
    told: dict[str, Any], error: type[Exception], words: tuple[str, ...]
) -> None:
    """The error names the numbers."""
    for kind in (e.SessionStarted, e.BudgetChanged):
        with pytest.raises(error) as caught:
            kind(SID, **told)
        assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(("length", "threshold"), [(0, 1), (0, 10**9), (1, 1), (200, 200)])
def test_a_threshold_may_be_all_there_is(length: int, threshold: int) -> None:
    """From one token to the whole context, where its length is known (0: it is not)."""
    for kind in (e.SessionStarted, e.BudgetChanged):
        assert threshold == kind(SID, context_length=length, threshold=threshold).threshold


def test_what_is_no_usage_is_refused() -> None:
    """Usage is a mapping; the error says what came instead."""
    with pytest.raises(TypeError, match="usage must be a mapping"):
        e.UsageRead(SID, 120)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tokens"):
        e.PressureGiven(SID, None)  # type: ignore[arg-type]


def test_a_session_may_get_another_name_and_another_model() -> None:
    """Rotation changes only the host's name for it; a new model is told too."""
    d = Driver("a").do(e.SessionRotated, "host-2").do(e.BudgetChanged, threshold=100, model="big")
    session = d.fact(Session)
    assert (SID, "active", "host-2", "big") == (session.sid, session.state, session.host_session, session.model)


def test_readings_are_numbered_one_by_one() -> None:
    """Whatever a report says, or does not, the reading that stands after it has the next number."""
    d = Driver("a")
    seqs = []
    for report in ({}, {"prompt_tokens": 10}, {"completion_tokens": 1}, {}, {"prompt_tokens": 20}):
        d.do(e.UsageRead, report)
        seqs.append(d.fact(Usage).seq)
    assert [1, 2, 3, 4, 5] == seqs


@pytest.mark.parametrize(
    "wrong",
    [
        {"deadline": -1},
        {"deadline": 0},
        {"deadline": float("nan")},
        {"deadline": "soon"},
        {"deadlines": {"lcm": 0.0}},
        {"reviser_deadline": -0.1},
        {"retry_first": 0},
        {"retry_last": None},
        {"often_within": True},
        {"often_most": 0},
        {"futile_most": 1.5},
    ],
)
def test_a_policy_that_nobody_could_follow_is_refused(wrong: dict[str, Any]) -> None:
    """Times are above 0 and counts from 1; the error names the field."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Policy(**wrong)
    assert float("inf") == Policy(deadline=float("inf")).deadline


def test_a_count_that_is_none_is_missing() -> None:
    """Providers report all sorts of things: nothing is lost for that, and the estimate stands in."""
    d = Driver("a", messages=rows("u1"))
    d.do(e.UsageRead, {"prompt_tokens": "many", "completion_tokens": 7}, estimate=50)
    usage = d.fact(Usage)
    assert (50, True, 7) == (usage.prompt, usage.estimated, usage.completion)
