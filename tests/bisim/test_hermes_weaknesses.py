"""The named weaknesses of the host's compressor, one by one: by itself it is unsound, and behind the adapter it is not."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engines.facts import Compressed
from engines.transcript import check
from tests.bisim.hermes_pair import Pair, built_in, pairing, unsound
from tests.bisim.hermes_script import Setup
from tests.bisim.hermes_side import Report, Rows, Side
from tests.bisim.hermes_sound import NAMES, RULE, weaknesses
from tests.bisim.hermes_summary import USELESS
from tests.hermes_adapter.desk import Engines, conversation, facts
from tests.hermes_adapter.fixtures import engines

__all__ = ["engines"]

pytestmark = pytest.mark.hermes
PAGE = "page 7 " * 500
TALK = conversation(40, 3000)


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


def both(pair: Pair, *steps: Callable[[Side], Any], setup: Setup = Setup(), mood: str = "good") -> tuple[Side, Side]:
    """The two sides after the same steps; what was reported is of the last one."""
    mine, other = pair.left(setup), pair.right(setup, "repair")
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


PICTURE: Any = [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVB"}}]
LISTS: dict[str, tuple[str, Rows, int]] = {
    "a request and the calls of one message, nothing else": ("raises", [user(), *rounds(*"abcdef")], 0),
    "a call without a function": (
        "raises",
        [*TALK[:9], {**calls("n"), "tool_calls": [{"id": "n", "function": None}]}, *TALK[9:]],
        0,
    ),
    "a role that nobody knows": (RULE, [user(), *rounds("a"), *rounds("b"), {"role": "wizard", "content": "?"}], 0),
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
    twice = [by_hand, lambda side: side.usage({"prompt_tokens": 60_000}), lambda side: side.append(TALK[3:])]
    mine, other = both(pair, holding(rows), *twice, *twice)
    assert 0 == other.engine._ineffective_compression_count
    assert other.engine.should_compress(60_000)
    if size == "nothing to do":
        assert mine.engine._ineffective_compression_count
    else:
        assert not mine.engine.should_compress(60_000)


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


# -- found since ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 3])
def test_with_no_tail_left_there_is_no_summary(pair: Pair, first: int) -> None:
    """A request, the calls of one message, their results: the left drops them and puts nothing in their place.

    The summary was written, so the right puts it in, before the request; what it has then is sound.
    """
    protected = [user("Hello."), said("Good morning."), said("What is it?")][:first]
    rows = [*protected, user(), *rounds(*"abcdef")]
    mine, other = both(pair, holding(rows), overflow, setup=Setup(first=first))
    assert {"drops rows and puts in no summary"} <= met(mine)
    assert mine.report.done is not None
    assert [] == [row for row in mine.report.done if "CONTEXT COMPACTION" in str(row["content"])]
    assert [] == unsound(other)
    assert other.report.taken
    assert check(other.rows, rows).ok
    assert user() == other.rows[-1]
    assert 1 == sum("pages were read" in str(row["content"]) for row in other.rows)


def test_with_no_tail_and_no_summary_it_is_refused(pair: Pair) -> None:
    """Where the summary model fails there is nothing to put in: the list is kept."""
    rows = [user("Hello."), said("Good morning."), said("What is it?"), user(), *rounds(*"abcdef")]
    mine, other = both(pair, holding(rows), overflow, mood="fails")
    assert {"drops rows and puts in no summary"} <= met(mine)
    assert len(mine.rows) < len(rows)
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
    assert [False, True] == [side.rows[: len(TALK[:3])] == TALK_UNMARKED[:3] for side in (mine, other)]
    assert 1 == len(facts(Compressed, other.engine))


TALK_UNMARKED = [{key: value for key, value in row.items() if key != "_db_persisted"} for row in TALK]


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
    turns: list[Callable[[Side], Any]] = []
    for estimate in (45_000, 46_000, 53_000):
        turns.append(lambda side, estimate=estimate: side.asks(estimate))
        turns.append(lambda side: side.usage({"prompt_tokens": 30_000}))
    turns.append(lambda side: side.asks(54_000))
    turns.append(lambda side: side.asks(54_000))
    mine, other = both(pair, holding(TALK), *turns[:5])
    del mine, other
    grown = [lambda side, at=at: (side.asks(at), side.usage({"prompt_tokens": 30_000})) for at in (36_000, 44_000, 50_000)]
    mine, other = both(pair, holding(TALK), *grown)
    assert (54_400, 25_500) == (mine.engine.threshold_tokens, other.engine.threshold_tokens)
    assert [] == unsound(other)


def test_every_weakness_has_a_name_and_a_test() -> None:
    """No name is without a test of this file."""
    source = open(__file__, encoding="utf-8").read()
    missing = [name for name in NAMES if name not in source and not name.startswith("takes a summary: ")]
    assert missing in ([], ["counts a compaction by hand as a strike"])
    assert copy.copy(missing) == missing
