"""What holds of every compaction, whatever the transcript."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engines.compressor import Limits, compact
from engines.compressor.text import SMALLEST, parse
from engines.messages import Messages
from engines.transcript import (
    check,
    current_user,
    estimate_row,
    estimate_text,
    estimate_tokens,
    groups,
    is_real_user,
    is_summary,
    system_rows,
    text_of,
)
from tests.transcripts import transcripts

THRESHOLDS = st.sampled_from([400, 1_000, 3_000, 6_000, 10_000])


def least(messages: Messages) -> int:
    """The tokens that cannot be saved: system, current user message, running calls, a summary of the barest kind."""
    request, found = current_user(messages), groups(messages)
    requests = sum(row.get("role") == "user" for row in messages)
    requests += sum(len(parse(text_of(row)).requests) for row in messages if is_summary(row))
    fixed = estimate_tokens(messages[: system_rows(messages)])
    fixed += 0 if request is None else estimate_row(messages[request])
    fixed += estimate_tokens(messages[found[-1].start :]) if found and found[-1].open else 0
    return fixed + (SMALLEST + 60 * requests) // 4 + 60


def assert_sound(before: Messages, after: Messages, threshold: int) -> None:
    """What every answer has to be."""
    report = check(after, before)
    assert report.ok, str(report)
    assert estimate_tokens(after) < estimate_tokens(before)
    assert sum(map(is_summary, after)) <= 1
    assert after[: system_rows(before)] == before[: system_rows(before)]
    request = current_user(before)
    assert request is None or before[request] in list(after)
    budget = int(threshold * 0.4)
    assert estimate_tokens(after) <= budget or least(before) > budget


@given(transcripts(), THRESHOLDS)
def test_a_compaction_is_sound_smaller_deterministic_and_leaves_its_input_alone(
    rows: list[dict[str, Any]], threshold: int
) -> None:
    """No error or fault that the input lacks, within the budget where that can be, the same every time."""
    before = copy.deepcopy(rows)
    messages = Messages.of(rows)
    after = compact(rows, Limits(threshold))
    assert rows == before
    assert after == compact(messages, Limits(threshold))
    assert after is None or isinstance(after, Messages)
    if after is not None:
        assert_sound(messages, after, threshold)


@pytest.mark.slow
@given(transcripts(most=12), st.lists(transcripts(most=10), min_size=1, max_size=4), THRESHOLDS)
def test_no_request_is_ever_lost(
    first: list[dict[str, Any]], later: list[list[dict[str, Any]]], threshold: int
) -> None:
    """After any number of compactions every request there ever was is in the list or told apart in the one summary."""
    live = Messages.of(first)
    asked = [row for row in live if is_real_user(row)]
    done = 0
    for rows in later:
        added = Messages.of([row for row in rows if row.get("role") not in {"system", "developer"}])
        asked += [row for row in added if is_real_user(row)]
        before = live + added
        after = compact(before, Limits(threshold))
        if after is not None:
            assert_sound(before, after, threshold)
            done += 1
        live = before if after is None else after
    assume(done)
    summaries = [parse(text_of(row)) for row in live if is_summary(row)]
    folded = summaries[0].requests if summaries else ()
    kept = [row for row in live if is_real_user(row)]
    assert len(folded) + len(kept) == len(asked)
    assert [text_of(row) for row in asked[len(folded) :]] == [
        text_of(row).replace("[image left out]", "[image]") for row in kept
    ]
    texts = Counter(" ".join(text_of(row).split()) for row in asked[: len(folded)])
    told = Counter(text for text in folded if not text.startswith("same as r"))
    assert all(times <= max(texts.values()) for times in told.values())


@pytest.mark.slow
@given(transcripts(), THRESHOLDS)
def test_compacting_what_was_compacted_declines_or_shrinks(rows: list[dict[str, Any]], threshold: int) -> None:
    """A second go is refused, or saves something again; it never grows, and ends."""
    live, sizes = Messages.of(rows), []
    while (after := compact(live, Limits(threshold))) is not None:
        sizes.append(estimate_tokens(after))
        live = after
        assert len(sizes) < 20
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.slow
@given(transcripts(), st.text(max_size=40), st.integers(1, 10**7))
def test_focus_and_readings_do_not_break_it(rows: list[dict[str, Any]], focus: str, tokens: int) -> None:
    """Whatever the focus is and whatever the provider counted."""
    messages = Messages.of(rows)
    after = compact(messages, Limits(2_000), focus=focus, tokens=tokens)
    if after is not None:
        assert check(after, messages).ok


@pytest.mark.slow
@given(st.text(max_size=400).filter(str.strip), transcripts(most=8))
def test_prose_never_makes_it_unsound(prose: str, rows: list[dict[str, Any]]) -> None:
    """What a summariser wrote is text like any other, marks of ours included."""
    messages = Messages.of([*rows, {"role": "assistant", "content": "x " * 2000}])
    after = compact(messages, Limits(1_500), prose=prose)
    if after is not None:
        assert check(after, messages).ok
        assert estimate_text("".join(text_of(row) for row in after if is_summary(row))) <= 600
