"""A summariser can only add: its prompt is bounded, and what it says is used only if it is of use."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.compressor import Limits, Plan, accept_prose, plan_compaction, prompt_for
from engines.messages import Messages
from tests.test_compressor_reports import long_chat

PROMPT = "Below are the older messages. " + " ".join(f"user: please change part {n} of the thing" for n in range(60))


def planned(focus: str | None = None) -> Plan:
    """A plan for a chat that is too long."""
    plan = plan_compaction(Messages.of(long_chat()), Limits(6_000), focus=focus)
    assert plan is not None
    return plan


@pytest.mark.parametrize(
    "said",
    [
        None,
        7,
        {"error": "429"},
        ["text"],
        "",
        "  \n ",
        "<think>only thoughts</think>",
        "<think>unfinished thoughts",
        '{"error": {"message": "overloaded"}}',
        '[{"type": "text"}]',
        "Error generating summary: 429 Too Many Requests",
        "I'm sorry, I can't help with that.",
        "HTTP 503 Service Unavailable",
        "TimeoutError: request timed out",
        "Rate limit reached for model",
        PROMPT,
        PROMPT[40:400],
        "please change part 3",
        "x " * len(PROMPT),
    ],
)
def test_c16_what_is_of_no_use_is_not_used(said: Any) -> None:
    """C16, C19, B27: no text, nothing, a failure told as text, an echo, or more than was there: the summary stands alone."""
    assert accept_prose(said, PROMPT) == ""


@pytest.mark.parametrize(
    ("said", "used"),
    [
        (
            "All parts were changed; part 7 failed with an error first.",
            "All parts were changed; part 7 failed with an error first.",
        ),
        ("<think>hm</think>\n# Summary\n\nDone  with it.", "Summary\nDone with it."),
        ("Error handling was rewritten. " + "It took long. " * 40, None),
        ("The key is password=hunter22 there", "The key is password=[redacted] there"),
        ("{not json} but prose about braces", "{not json} but prose about braces"),
    ],
)
def test_what_is_of_use_is_cleaned_and_used(said: str, used: str | None) -> None:
    """Thoughts, headings and secrets go; an account of errors is an account."""
    assert accept_prose(said, PROMPT) == (said.strip() if used is None else used)


@given(st.text(max_size=300) | st.none() | st.integers(), st.text(max_size=300))
def test_any_answer_is_judged(said: Any, prompt: str) -> None:
    """Whatever comes back, the judgement is a text that is no longer than the prompt."""
    used = accept_prose(said, prompt)
    assert isinstance(used, str)
    assert used == "" or "\n\n" not in used


def test_the_prompt_holds_what_goes_and_what_was_known() -> None:
    """Requests, calls, results, the focus, the earlier summary; not the request at hand."""
    plan = planned("the lexer")
    prompt = prompt_for(plan, 3_000)
    assert prompt is not None
    for said in ("user: do it", "[calls bash", "tool: step3: built", "What matters most: the lexer."):
        assert said in prompt
    assert "now finish it" not in prompt
    assert "What was known before" not in prompt


def test_the_prompt_tells_what_was_known_before() -> None:
    """An earlier summary, or its prose alone if it has some, is part of the prompt."""
    from engines.compressor import compact

    first = compact(long_chat(), Limits(6_000), prose="It all began with make.")
    assert first is not None
    plan = plan_compaction(first + long_chat(last="third")[2:], Limits(6_000))
    assert plan is not None
    prompt = prompt_for(plan, 3_000)
    assert prompt is not None
    assert "What was known before:\nIt all began with make." in prompt
