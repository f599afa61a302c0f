"""Summaries that a host merged into other messages, and lists that several compactions of several engines went over."""

from __future__ import annotations

from typing import Any

import pytest

from engines.compressor import Limits, compact
from engines.compressor.text import parse
from engines.messages import Messages
from engines.transcript import SUMMARY_HEAD, SUMMARY_KEY, check, current_user, is_summary, text_of
from tests.test_compressor_reports import compacted, long_chat, summary_of
from tests.test_transcript_check import A, S

FIRST = compacted(long_chat(last="the second request"), 6_000)
OLD = summary_of(FIRST)


@pytest.mark.parametrize(
    "content",
    [
        f"{OLD}\n\nand now the third",
        [{"type": "text", "text": f"{OLD}\n\nand now the third"}],
        [OLD, {"type": "text", "text": "and now the third"}],
        {"text": f"{OLD}\n\nand now the third"},
    ],
)
def test_a_merged_summary_is_updated_and_the_request_freed(content: Any) -> None:
    """What a host put into one message with the request at hand comes apart: one summary, one request."""
    rows = [S, {"role": "user", "content": content}, *long_chat()[2:-1]]
    after = compact(rows, Limits(6_000))
    assert after is not None
    assert check(after, rows).errors == ()
    assert sum(map(is_summary, after)) == 1
    at = current_user(after)
    assert at is not None
    assert text_of(after[at]).strip() == "and now the third"
    assert parse(summary_of(after)).requests == ("do it",)
    assert parse(summary_of(after)).compactions == 2
    assert str([text_of(row) for row in after]).count(SUMMARY_HEAD) == 1


def test_a_summary_merged_into_an_answer_is_found_too() -> None:
    """It may stand before an assistant's own words."""
    rows = [S, {"role": "assistant", "content": f"{OLD} I will go on."}, *long_chat(last="third")[1:]]
    after = compacted(rows, 6_000)
    assert parse(summary_of(after)).compactions == 2
    assert SUMMARY_HEAD not in str([text_of(row) for row in after if not is_summary(row)])


def test_several_summaries_become_one() -> None:
    """A list with two of them, as after an import, ends with one that knows both."""
    other = compacted([S, {"role": "user", "content": "another start"}, *long_chat(last="x")[2:]], 6_000)
    rows = [
        S,
        *[row for row in FIRST if is_summary(row)],
        A,
        *[row for row in other if is_summary(row)],
        A,
        *long_chat(last="third")[1:],
    ]
    after = compacted(rows, 6_000)
    assert parse(summary_of(after)).requests == ("do it", "another start", "do it")


def test_a_note_of_the_host_does_not_become_the_system_message() -> None:
    """A system row in the middle stays one, also where everything before it was folded, once or twice."""
    note = {"role": "system", "content": "a note of the host"}
    rows: list[Any] = [*long_chat()[1:-1], note, {"role": "user", "content": "x " * 900}, A]
    first = compacted(rows, 5_000)
    assert note in list(first)
    assert is_summary(first[0])
    second = compacted([*first, *long_chat(last="third")[2:]], 5_000)
    assert is_summary(second[0])


def test_a_marker_that_somebody_broke_does_no_harm() -> None:
    """The key says that it is a summary; whatever else is in it may be missing or junk."""
    for mark in (True, {"version": 99}, {"seen": "junk"}, "yes"):
        rows = [S, {"role": "user", "content": OLD, SUMMARY_KEY: mark}, A, *long_chat(last="third")[1:]]
        assert parse(summary_of(compacted(rows, 6_000))).compactions == 2


def test_the_summary_of_the_built_in_compressor_becomes_notes() -> None:
    """Swapping engines in a session: what the other one knew is carried over as far as it tells most."""
    foreign = "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted.\n## Goal\nThe parser in src/core/parse.py must accept tabs.\n"
    end = "\n\n--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---"
    rows = [S, {"role": "user", "content": foreign + "Filler line here.\n" * 40 + end}, *long_chat()[2:]]
    after = compacted(rows, 6_000)
    assert "src/core/parse.py must accept tabs" in summary_of(after)
    assert parse(summary_of(after)).requests == ()


def test_prose_survives_until_there_is_newer_prose() -> None:
    """A summariser that fails later does not cost what it said before."""
    first = compacted(long_chat(), 6_000, prose="It began with make.")
    second = compacted([*first, A, *long_chat(last="third")[2:]], 6_000)
    assert "It began with make." in summary_of(second)
    third = compacted([*second, A, *long_chat(last="fourth")[2:]], 6_000, prose="Then came more.")
    assert "Then came more." in summary_of(third)
    assert "It began" not in summary_of(third)


def test_what_a_provider_counts_makes_the_budget_smaller() -> None:
    """Where the provider counts more than we estimate, less is kept; where it counts less, no more than before."""
    rows = Messages.of(long_chat())
    normal = compacted(list(rows), 6_000)
    counted = compacted(list(rows), 6_000, tokens=12_000)
    assert len(str(counted.thaw())) < len(str(normal.thaw()))
    assert compacted(list(rows), 6_000, tokens=10) == normal
