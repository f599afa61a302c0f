"""The named weaknesses of the host's compressor, one by one: by itself it is unsound, and behind the adapter it is not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engines.facts import Compressed
from engines.transcript import check
from tests.bisim.hermes_pair import Pair, pairing
from tests.bisim.hermes_script import Setup
from tests.bisim.hermes_seen import built_in, unsound
from tests.bisim.hermes_side import Report, Rows, Side
from tests.bisim.hermes_sound import NAMES, PLATEAU, RULE, weaknesses
from tests.bisim.hermes_summary import USELESS
from tests.hermes_adapter.desk import Engines, facts
from tests.hermes_adapter.fixtures import engines

__all__ = ["engines"]

pytestmark = pytest.mark.hermes
PAGE = "page 7 " * 500
TALK = [
    {"role": "user", "content": "Count the parcels."},
    *(
        row
        for at in range(40)
        for row in (
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": f"c{at}", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
                "_db_persisted": True,
            },
            {"role": "tool", "tool_call_id": f"c{at}", "content": f"page {at} " * (40 + 20 * at)},
        )
    ),
    {"role": "assistant", "content": "Forty."},
    {"role": "user", "content": "And the letters?"},
]
"""A conversation with tools, its last request at the end."""


@pytest.fixture
def pair(engines: Engines) -> Iterator[Pair]:
    """Both sides, and their summary model."""
    logging.disable(logging.CRITICAL)
    with pairing(engines) as made:
        yield made
    logging.disable(logging.NOTSET)


def user(text: Any = "Count the parcels.", **more: Any) -> dict[str, Any]:
    """What the user says."""
    return {"role": "user", "content": text, **more}


def said(text: str = "Well.") -> dict[str, Any]:
    """What the model says."""
    return {"role": "assistant", "content": text}


def calls(*names: str) -> dict[str, Any]:
    """A message with calls."""
    told = [{"id": name, "type": "function", "function": {"name": "read", "arguments": "{}"}} for name in names]
    return {"role": "assistant", "content": "", "tool_calls": told}


def rounds(*names: str) -> Rows:
    """A message with calls, and all their results."""
    return [calls(*names), *({"role": "tool", "tool_call_id": name, "content": PAGE} for name in names)]


def both(pair: Pair, *steps: Callable[[Side], Any], mood: str = "good") -> tuple[Side, Side]:
    """The two sides after the same steps; what was reported is of the last one."""
    mine, other = pair.left(Setup()), pair.right(Setup(), "repair")
    for side in (mine, other):
        for step in steps:
            pair.model.mood = mood
            side.report = Report()
            step(side)
    return mine, other


def holding(rows: Rows, compacted: int = 0) -> Callable[[Side], None]:
    """A conversation that has been compacted so often already."""

    def hold(side: Side) -> None:
        side.append(rows)
        built_in(side).compression_count = compacted

    return hold


def overflow(side: Side) -> None:
    """The provider has refused a prompt."""
    side.compact(60_000)


def by_hand(side: Side) -> None:
    """The user has asked for it."""
    side.compact(60_000, force=True)


def met(side: Side) -> set[str]:
    """What was unsound in the last step of the left."""
    engine = side.engine
    verifies = bool(engine._verify_compaction_cleared_threshold)
    return weaknesses(side.report, engine._ineffective_compression_count, verifies=verifies)


PICTURE: Any = [
    {"type": "text", "text": "Look."},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVB"}},
]
LISTS: dict[str, tuple[str, Rows, int]] = {
    "a request and the calls of one message, nothing else": ("raises", [user(), *rounds(*"abcdef")], 0),
    "a call without a function": (
        "raises",
        [*TALK[:9], {**calls("n"), "tool_calls": [{"id": "n", "function": None}]}, *TALK[9:]],
        0,
    ),
    "a role that nobody knows": (
        RULE,
        [user(), said(), user("On."), *rounds("a"), *rounds("b"), {"role": "wizard", "content": "?"}],
        0,
    ),
    "a summary at the beginning that is the model's": (RULE, TALK, 1),
    "a result that has lost its call": (
        "orphans a result",
        [{"role": "tool", "tool_call_id": "z", "content": PAGE}, {"role": "tool", "content": PAGE}, *TALK],
        0,
    ),
    "calls that are at work": ("cuts off an open call", [*TALK, said(), *rounds("x", "y")[:2]], 0),
    "a request behind what is protected": (
        "merges or loses the request",
        [user("Hello."), said(), *rounds("a")[:1], *rounds("a")[1:], user(), said(), *rounds(*"bcdef")],
        0,
    ),
    "a short list": ("grows the list", [user(), *(row for at in range(9) for row in (said(f"{at}"), user("On.")))], 0),
}


@pytest.mark.parametrize("what", LISTS)
def test_lists_that_it_cannot_deal_with(pair: Pair, what: str) -> None:
    """Raised, against a rule, orphaned, cut off, lost or grown: mended or refused, and the list it was made of is whole."""
    name, rows, compacted = LISTS[what]
    mine, other = both(pair, holding(rows, compacted), overflow)
    assert name in met(mine), (met(mine), mine.report.raised)
    assert [] == unsound(other)
    assert other.report.taken or (other.report.aborted and other.rows == rows)


@pytest.mark.parametrize("mood", USELESS)
def test_a_summary_that_says_nothing(pair: Pair, mood: str) -> None:
    """The left puts it in the place of the conversation; the right keeps the list, says so, and is as before."""
    mine, other = both(pair, holding(TALK), overflow, mood=mood)
    assert {f"takes a summary: {mood}"} <= met(mine)
    assert len(mine.rows) < len(TALK)
    assert [] == unsound(other)
    assert (TALK, True, 0) == (other.rows, other.engine._last_compress_aborted, other.engine.compression_count)
    assert other.engine._previous_summary is None
    assert "summary" in other.engine._last_summary_error


@pytest.mark.parametrize("mood", ["empty", "nothing"])
def test_a_summary_that_is_empty(pair: Pair, mood: str) -> None:
    """The built-in notices this one itself and puts in what it has without a model; so it does on the right."""
    mine, other = both(pair, holding(TALK), overflow, mood=mood)
    assert mine.rows == other.rows
    assert len(other.rows) < len(TALK)
    assert other.report.fallback


@pytest.mark.parametrize("size", ["nothing to do", "above the threshold"])
def test_a_compaction_by_hand_is_a_strike(pair: Pair, size: str) -> None:
    """On the left, so that two of them hold automatic compaction back; on the right they do not."""
    rows = TALK if size == "above the threshold" else TALK[:3]
    once = [by_hand, lambda side: side.usage({"prompt_tokens": 60_000}), lambda side: side.append(rows[3:])]
    mine, other = both(pair, holding(rows), *once, *once)
    assert 0 == other.engine._ineffective_compression_count
    assert other.engine.should_compress(60_000)
    assert not mine.engine.should_compress(60_000)
    mine, other = both(pair, holding(rows), by_hand)
    assert {"counts a compaction by hand as a strike"} == met(mine)
    assert [] == unsound(other)


def test_a_late_pass_is_counted_for_the_next_session(pair: Pair) -> None:
    """While the summary is written the user begins anew: the old conversation turns up in the new one, on the left."""
    mine, other = both(pair, holding(TALK), lambda side: side.compact(60_000, meanwhile=Side.reset))
    assert {"goes on in another session"} <= met(mine)
    assert (True, 1) == (bool(mine.rows), mine.engine.compression_count)
    assert [] == unsound(other)
    assert ([], 0, None) == (other.rows, other.engine.compression_count, other.engine._previous_summary)
    other.append(TALK)
    other.usage({"prompt_tokens": 60_000})
    assert other.asks(60_000) == (False, False, True)  # nor does its failure make the new session wait
    assert other.report.taken


@pytest.mark.parametrize("begun", ["anew", "as another"])
def test_a_late_failure_is_not_noted_down_for_the_next_session(pair: Pair, begun: str) -> None:
    """B17: in the host's store, too, a failed summary pauses the session that it was for, and no other."""
    begin: Callable[[Side], Any] = Side.reset if begun == "anew" else lambda side: side.start(other=True)
    for guard in ("repair", "record"):
        other = pair.right(Setup(stored=True), guard)
        other.append(TALK)
        pair.model.mood = "no network"
        other.compact(60_000, meanwhile=begin)
        assert other.store is not None
        assert "s1" == other.session
        assert "s1" not in other.store.cooldowns
        assert other.engine.get_active_compression_failure_cooldown() is None


# -- found since ------------------------------------------------------------------------------------------------------


ALL_IN_ONE: dict[str, Rows] = {
    "all answered": [user("Hello."), user(), said("I look."), *rounds(*"abcdef")],
    "one at work": [user("Hello."), user(), said("I look."), *rounds(*"abcdef")[:-1]],
}


@pytest.mark.parametrize("calls", ALL_IN_ONE)
def test_with_no_tail_left_there_is_no_summary(pair: Pair, calls: str) -> None:
    """Behind what is protected one message with many calls: the left drops it and puts nothing in its place.

    The summary was written, so the right puts it in.  A call that is at work it keeps; here that is all there is, so the
    list would not be smaller, and is kept as it is.
    """
    rows = ALL_IN_ONE[calls]
    mine, other = both(pair, holding(rows), overflow)
    assert {"drops rows and puts in no summary"} <= met(mine)
    assert rows[:3] == mine.report.done
    assert [] == unsound(other)
    if calls == "one at work":
        assert (rows, True) == (other.rows, other.report.aborted)
        return
    assert other.report.taken
    assert check(other.rows, rows).ok
    assert rows[:3] == other.rows[:3]
    assert 1 == sum("pages were read" in str(row["content"]) for row in other.rows)


def test_with_no_tail_and_no_summary_it_is_refused(pair: Pair) -> None:
    """Where the summary model fails there is nothing to put in: the list is kept."""
    rows = ALL_IN_ONE["all answered"]
    mine, other = both(pair, holding(rows), overflow, mood="fails")
    assert {"drops rows and puts in no summary"} <= met(mine)
    assert rows[:3] == mine.rows
    assert [] == unsound(other)
    assert (rows, True) == (other.rows, other.report.aborted)
    assert "nothing sums them up" in other.engine._last_summary_error


def test_what_the_host_drops_is_counted(pair: Pair) -> None:
    """C01: a result that is never adopted, and the list it was made of again.

    The left has counted it, so it protects the beginning no more, though nothing was compacted; the right has not.
    """
    dropped = [lambda side: side.compact(60_000, drop=True), overflow]
    mine, other = both(pair, holding(TALK), dropped[0])
    assert {"counts what the host has dropped"} <= met(mine)
    assert [] == unsound(other)
    mine, other = both(pair, holding(TALK), *dropped)
    assert (2, 1) == (mine.engine.compression_count, other.engine.compression_count)
    assert [False, True] == [side.rows[0] == TALK[0] for side in (mine, other)]
    assert 1 == len(facts(Compressed, other.engine))


def test_a_report_without_a_prompt_is_misread(pair: Pair) -> None:
    """B04: a provider that tells cached input apart has no `prompt_tokens`; the left takes the context for empty."""
    report = {"input_tokens": 3, "cache_read_tokens": 60_000, "output_tokens": 50}
    mine, other = both(pair, lambda side: side.usage(report))
    assert {"misreads a report"} == met(mine)
    assert (0, 60_003) == (mine.engine.last_prompt_tokens, other.engine.last_prompt_tokens)
    assert not mine.engine.should_compress(None)
    assert other.engine.should_compress(None)


def test_a_report_of_nothing_raises(pair: Pair) -> None:
    """B03: the left raises, for which the host throws the response away, and its reading is no number from then on."""
    nothing = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"))
    mine, other = both(pair, lambda side: side.usage(nothing))
    assert {"raises"} == met(mine)
    assert (None, 0) == (mine.engine.last_prompt_tokens, other.engine.last_prompt_tokens)
    assert [] == unsound(other)


def test_a_threshold_that_the_host_has_set_is_forgotten(pair: Pair) -> None:
    """B26: lowered for a small summary model, and back with the next switch, on the left; the host does it only once."""
    mine, other = both(pair, lambda side: side.lower(32_000), lambda side: side.switch("n", 200_000))
    assert {"forgets the threshold that the host has set"} == met(mine)
    assert (150_000, 100_000) == (mine.engine.threshold_tokens, other.engine.threshold_tokens)
    assert [] == unsound(other)


def test_a_size_that_is_never_reported(pair: Pair) -> None:
    """B29: the provider cuts off what it is sent, and the left waits for a reading that cannot come."""

    def turn(estimate: int) -> Callable[[Side], Any]:
        return lambda side: (side.asks(estimate), side.usage({"prompt_tokens": 30_000}))

    mine, other = both(pair, holding(TALK), turn(36_000), turn(44_000), turn(50_000))
    assert {PLATEAU} == met(mine)
    assert (54_400, 25_500) == (mine.engine.threshold_tokens, other.engine.threshold_tokens)
    assert [] == unsound(other)


def test_every_weakness_has_a_test() -> None:
    """No name is without a test of this file."""
    text = Path(__file__).read_text("utf-8")
    by_constant = {RULE, PLATEAU, *(f"takes a summary: {mood}" for mood in USELESS)}
    assert [] == [name for name in NAMES if name not in by_constant and f'"{name}"' not in text]


def test_what_is_no_reading_makes_no_plateau(pair: Pair) -> None:
    """Responses without usage repeat no size, and another model begins anew: the threshold stays."""

    def turn(estimate: int, report: dict[str, Any]) -> Callable[[Side], Any]:
        return lambda side: (side.asks(estimate), side.usage(report))

    said = {"prompt_tokens": 30_000}
    for steps in (
        [turn(36_000, said), turn(44_000, {}), turn(48_000, {}), turn(50_000, said)],
        [turn(36_000, said), turn(44_000, said), lambda side: side.switch("n", 64_000), turn(50_000, said)],
    ):
        mine, other = both(pair, holding(TALK), *steps)
        assert mine.engine.threshold_tokens == other.engine.threshold_tokens == 54_400


def test_a_threshold_set_while_a_summary_is_written_stays(pair: Pair) -> None:
    """B26: another thread switches the model meanwhile; what comes of the call has the threshold that the host has set."""
    switch: Callable[[Side], Any] = lambda side: side.switch("wide", 200_000)  # noqa: E731 - it is given a name to be read
    _mine, other = both(
        pair, holding(TALK), lambda side: side.lower(32_000), lambda side: side.compact(60_000, meanwhile=switch)
    )
    assert other.report.taken
    assert 100_000 == other.engine.threshold_tokens


def test_a_switch_while_a_compaction_by_hand_finds_nothing(pair: Pair) -> None:
    """The strikes that it cleared do not come back."""
    strike: Callable[[Side], Any] = lambda side: side.compact(60_000)  # noqa: E731 - as above
    mine, other = both(pair, holding(TALK[:3]), strike, by_hand)
    assert (2, 1) == (mine.engine._ineffective_compression_count, other.engine._ineffective_compression_count)
