"""The compressor as an engine, in the synchronous dataspace and under trio."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio

from dataspace import Dataspace, open_dataspace
from engines.compressor import Limits, compact, compressor
from engines.facts import Answered, Asked, Serving
from engines.messages import Messages
from engines.transcript import check, estimate_tokens, is_summary, text_of
from tests.test_compressor_reports import long_chat

CHAT = Messages.of(long_chat())


def asked(messages: Messages = CHAT, **told: Any) -> Asked:
    """A question to the compressor."""
    return Asked("s", 1, 1, "compressor", messages=messages, **told)


def answer_of(boot: Any, question: Asked) -> Answered:
    """What it answers in a dataspace without an event loop."""
    ds = Dataspace()
    ds.spawn(boot, name="compressor")
    me = ds.actor("asker")
    answers: list[Answered] = []
    me.observe(Answered, heard=answers.append)
    assert Serving("compressor", "compressor") in ds.facts(Serving)
    me.publish(question)
    (answer,) = answers
    return answer


def test_it_answers_like_the_pure_function() -> None:
    """Without a summariser no event loop is needed; threshold, focus and reading come with the question."""
    answer = answer_of(compressor(), asked(threshold=6_000, tokens=9_000, focus="step7"))
    assert answer.error is None
    assert answer.messages == compact(CHAT, Limits(6_000), focus="step7", tokens=9_000)


def test_it_declines_what_is_small() -> None:
    """Nothing worth doing is an answer too, and no failure."""
    answer = answer_of(compressor(), asked(threshold=10**6))
    assert (answer.messages, answer.error) == (None, None)


def test_its_limits_are_shares_of_the_threshold_asked_for() -> None:
    """A question without a threshold is answered for the one in the limits."""
    limits = Limits(6_000, result=0.3)
    assert answer_of(compressor(limits), asked()).messages == compact(CHAT, limits)
    smaller = answer_of(compressor(limits), asked(threshold=9_000)).messages
    assert estimate_tokens(smaller) <= 2_700


async def said_by(summarise: Any, messages: Messages = CHAT, **more: Any) -> Answered:
    """What it answers under trio, with a summariser."""
    async with open_dataspace() as ds:
        await ds.spawn(compressor(summarise=summarise, **more), name="compressor")
        me = ds.actor("asker")
        answers: list[Answered] = []
        done = trio.Event()
        me.observe(Answered, heard=lambda answer: (answers.append(answer), done.set()))
        with me.publish(asked(messages, threshold=6_000)):
            await done.wait()
        return answers[0]


async def test_prose_stands_beside_the_deterministic_part(autojump_clock: trio.testing.MockClock) -> None:
    """C17: the summariser is asked once, with what goes; what it says is in the summary, and nothing else is missing."""
    prompts = []

    async def summarise(prompt: str) -> str:
        await trio.sleep(1)
        prompts.append(prompt)
        return "Every step was built in turn."

    answer = await said_by(summarise)
    assert len(prompts) == 1
    assert "step3: built" in prompts[0]
    text = "".join(text_of(row) for row in answer.messages if is_summary(row))
    assert "## In words\nEvery step was built in turn." in text
    assert "bash: make step" in text
    assert check(answer.messages, CHAT).ok


@pytest.mark.parametrize("how", ["raises", "hangs", "empty", "error text", "object", "echo"])
async def test_c14_c19_without_useful_prose_the_deterministic_part_stands_alone(
    how: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """C14, C16, C19: one attempt, a bounded time, then the same answer as without a summariser; the log says why."""
    calls = []

    async def summarise(prompt: str) -> Any:
        calls.append(prompt)
        if how == "raises":
            raise OSError("no route, api_key=hunter2222")
        if how == "hangs":
            await trio.sleep_forever()
        return {"empty": "", "error text": "Error generating summary: 429", "object": {"error": 1}, "echo": prompt}[how]

    with caplog.at_level(logging.WARNING):
        answer = await said_by(summarise, seconds=5)
    assert answer.error is None
    assert answer.messages == compact(CHAT, Limits(6_000))
    assert len(calls) == 1
    assert "without prose" in caplog.text
    assert "hunter2222" not in caplog.text


async def test_where_there_is_no_room_to_ask_nobody_is_asked() -> None:
    """M14: a summariser whose window holds nothing is left alone; a small list is declined before anybody is asked."""

    async def never(_prompt: str) -> str:
        raise AssertionError("asked")

    assert (await said_by(never, prompt_tokens=100)).messages == compact(CHAT, Limits(6_000))
    assert (await said_by(never, CHAT[:3])).messages is None


async def test_a_long_list_is_worked_on_in_a_thread() -> None:
    """Nobody waits for the compaction of a million characters."""
    long = Messages.of(long_chat(steps=400, size=2_000))

    async def summarise(_prompt: str) -> str:
        return "Many steps were built."

    answer = await said_by(summarise, long)
    assert answer.error is None
    assert check(answer.messages, long).ok
