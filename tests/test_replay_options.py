"""Swaps, thresholds and the scale of a recording: what is decided before and while a replay runs, without running it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.cli.errors import BadInput
from bridges.cli.reckon import Scale, budget, reckon
from bridges.cli.swaps import Place, Swap, check_engine, check_swaps, parse_swap
from tests.replay_driver import attempt

KINDS = ("compressor", "skills")
NAMES = st.sampled_from(["compressor", "skills", "compressor#b", "skills#2", "compressor#a.b-c"])


@pytest.mark.parametrize(
    ("text", "swap"),
    [
        ("120:compressor=skills", Swap(Place(120), "compressor", "skills")),
        ("c2:compressor=compressor#b", Swap(Place(2, crossing=True), "compressor", "compressor#b")),
        ("c2:compressor=", Swap(Place(2, crossing=True), "compressor", None)),
        ("7:=compressor#b", Swap(Place(7), None, "compressor#b")),
    ],
)
def test_a_swap_is_read(text: str, swap: Swap) -> None:
    """AT is a line or a crossing; OLD or NEW may be left out."""
    assert swap == parse_swap(text, KINDS)


@given(number=st.integers(1, 10**9), crossing=st.booleans(), old=st.none() | NAMES, new=st.none() | NAMES)
def test_a_swap_reads_back_as_it_is_written(number: int, crossing: bool, old: str | None, new: str | None) -> None:
    """Writing and reading are inverse for every swap there can be."""
    swap = Swap(Place(number, crossing), old, new)
    if old == new:
        with pytest.raises(BadInput):
            parse_swap(str(swap), KINDS)
    else:
        assert swap == parse_swap(str(swap), KINDS)


@given(st.text(max_size=30) | st.from_regex(r"[c0-9:=#a-z]{0,20}", fullmatch=True))
def test_any_text_is_a_swap_or_bad_input(text: str) -> None:
    """What cannot be read is one sentence; what can is written back as it came, leading noughts apart."""
    swap = attempt(parse_swap, text, KINDS)
    if isinstance(swap, BadInput):
        assert "\n" not in str(swap)
    else:
        assert text.replace("c0", "c").lstrip("0").endswith(f"{swap.old or ''}={swap.new or ''}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "cannot be read; it is AT:OLD=NEW"),
        ("c2", "cannot be read"),
        ("c2:compressor", "cannot be read"),
        ("c2:a=b=c", "cannot be read"),
        (":compressor=skills", "AT is a line of the file"),
        ("x:compressor=skills", "AT is a line of the file (from 1) or cN for crossing N, not 'x'"),
        ("0:compressor=skills", "not '0'"),
        ("c0:compressor=skills", "not 'c0'"),
        ("-1:compressor=skills", "not '-1'"),
        ("c:compressor=skills", "not 'c'"),
        ("٣:compressor=skills", "AT is a line of the file"),
        ("c2:=", "names no engine"),
        ("c2:skills=skills", "names one engine twice; a second instance has a name like skills#b"),
        ("c2:compressor=nope", "there is no engine 'nope'; there are: compressor, skills"),
        ("c2:nope=compressor", "there is no engine 'nope'; there are: compressor, skills"),
        ("c2:compressor=compressor#", "there is no engine 'compressor#'"),
        ("c2:compressor= skills", "there is no engine ' skills'"),
    ],
)
def test_a_swap_that_cannot_be_meant_is_refused(text: str, problem: str) -> None:
    """The sentence shows what was given and says what it should be."""
    with pytest.raises(BadInput) as caught:
        parse_swap(text, KINDS)
    assert str(caught.value).startswith("--swap ")
    assert problem in str(caught.value)


def test_an_unknown_engine_is_answered_with_those_that_exist() -> None:
    """For `--engine` too."""
    with pytest.raises(BadInput, match="--engine: there is no engine 'x'; there are: compressor, skills"):
        check_engine("x", KINDS, "--engine")
    check_engine("compressor#2", KINDS, "--engine")


def test_swaps_are_held_against_the_file_and_the_engines() -> None:
    """A line beyond the end and an engine that is never plugged are refused before anything is done."""
    swaps = [parse_swap("9:compressor=skills", KINDS), parse_swap("c1:skills=compressor#b", KINDS)]
    check_swaps(swaps, ["compressor"], 9)
    with pytest.raises(BadInput, match="the file has 8 lines; choose one of them"):
        check_swaps(swaps, ["compressor"], 8)
    with pytest.raises(BadInput, match="skills is never plugged; those that are: compressor, compressor#b"):
        check_swaps(swaps[1:], ["compressor"], 9)


# -- thresholds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context_length", "threshold", "expected"),
    [
        (None, None, (128_000, 96_000)),
        (32_000, None, (32_000, 24_000)),
        (1, None, (1, 1)),
        (None, 20_000, (128_000, 20_000)),
        (None, 150_000, (150_000, 150_000)),
        (32_000, 20_000, (32_000, 20_000)),
        (32_000, 40_000, (32_000, 40_000)),
    ],
)
def test_what_is_left_out_of_the_budget_is_filled_in(
    context_length: int | None, threshold: int | None, expected: tuple[int, int]
) -> None:
    """Three quarters of the context length; 128,000 tokens, or as many as the threshold needs."""
    assert expected == budget(context_length, threshold)


# -- the scale --------------------------------------------------------------------------------------------------------

COUNTS = st.integers(1, 10**7)


@given(told=COUNTS, recorded=COUNTS)
def test_an_untouched_list_has_the_pressure_that_was_reported(told: int, recorded: int) -> None:
    """As long as nothing was compacted the provider's own figure is what counts, to the token."""
    usage, _ = reckon({"prompt_tokens": told}, recorded, recorded)
    assert told == usage["prompt_tokens"]


@given(told=COUNTS, recorded=COUNTS, live=st.integers(0, 10**7))
def test_pressure_is_in_proportion_to_the_estimate(told: int, recorded: int, live: int) -> None:
    """The estimate for the live list, times the report over the estimate for the recorded one, rounded."""
    usage, scale = reckon({"prompt_tokens": told, "completion_tokens": 3}, recorded, live)
    assert abs(usage["prompt_tokens"] * recorded - live * told) * 2 <= recorded
    assert Scale(told, recorded) == scale
    assert 3 == usage["completion_tokens"]


@pytest.mark.parametrize("usage", [None, {}, {"completion_tokens": 9}, {"prompt_tokens": None}, {"prompt_tokens": 0}])
def test_without_a_prompt_count_the_estimate_counts(usage: dict[str, int] | None) -> None:
    """It is marked as an estimate, so that it is not held against a compaction."""
    told, scale = reckon(usage, 500, 200)
    assert (200, True) == (told["prompt_tokens"], told["estimated"])
    assert Scale() == scale


def test_cached_input_counts_once() -> None:
    """Where a provider reports fresh and cached input apart, their sum is what the prompt held."""
    usage, scale = reckon({"input_tokens": 10, "cache_read_input_tokens": 90}, 50, 25)
    assert 50 == usage["prompt_tokens"]
    assert Scale(100, 50) == scale


def test_a_response_without_a_prompt_before_it_is_taken_at_its_word() -> None:
    """There is no recorded list to compare with."""
    usage, scale = reckon({"prompt_tokens": 70}, 0, 0)
    assert (70, Scale()) == (usage["prompt_tokens"], scale)
