"""A summary that was written and left out of the answer is put in, or the answer is of no use."""

from __future__ import annotations

from typing import Any

import pytest

from bridges.hermes.guard import judge
from bridges.hermes.summed import new_summaries, put_in
from bridges.hermes.wording import Wording
from engines.messages import Messages
from engines.transcript import Changed, check

W = Wording()
Rows = list[dict[str, Any]]


def user(text: str = "Count the parcels.") -> dict[str, Any]:
    """What the user says."""
    return {"role": "user", "content": text}


def said(text: str = "I look.") -> dict[str, Any]:
    """What the model says."""
    return {"role": "assistant", "content": text}


def summary(text: str) -> dict[str, Any]:
    """A summary as the host writes it."""
    return {**user(f"{W.prefix}\n{text}\n\n{W.end}"), "_compressed_summary": True}


PAGES = [{"role": "tool", "tool_call_id": name, "content": "page " * 400} for name in "ab"]
CALLS = [{"id": name, "type": "function", "function": {"name": "read", "arguments": "{}"}} for name in "ab"]
BEFORE: Rows = [user(), said(), {**said(""), "tool_calls": CALLS}, *PAGES]


def summed_up(answer: Rows | Messages, wrote: str = "Two pages.", before: Rows = BEFORE) -> Messages | None:
    """What becomes of an answer."""
    rows, was = Messages.of(answer), Messages.of(before)
    return rows if new_summaries(Changed.between(rows, was).put, was, W) else put_in(rows, W, wrote)


def test_it_is_put_in_at_the_end() -> None:
    """As a row of the host's, of the role that the one before it leaves."""
    done = summed_up([user(), said()])
    assert done is not None
    assert summary("Two pages.") == done[-1]
    assert check(done, BEFORE).ok
    done = summed_up([user()])
    assert done is not None
    assert "assistant" == done[-1]["role"]
    done = summed_up([{"role": "system", "content": "You count."}])
    assert done is not None
    assert "user" == done[-1]["role"]


@pytest.mark.parametrize(
    "row",
    [
        summary("Two pages."),
        summary("Something else, but new."),
        user(f"{W.prior}\nNow.\n\n{W.delimiter}\n\n{W.prefix}\nTwo pages.\n\n{W.end}"),
        said("In my own way: Two pages."),
    ],
    ids=["as written", "another", "merged", "in other words"],
)
def test_what_holds_it_is_left_alone(row: dict[str, Any]) -> None:
    """The very same value comes back."""
    answer = Messages.of([user(), said(), row])
    assert summed_up(answer) is answer


def test_an_earlier_summary_is_none_of_this_one() -> None:
    """That one was there before says nothing of what is left out now; unless it says the very same."""
    before = [summary("One page."), *BEFORE[1:]]
    done = summed_up([summary("One page."), said()], before=before)
    assert done is not None
    assert ["One page" in str(row) for row in done] == [True, False, False]
    assert 2 == len(summed_up([summary("Two pages."), said()], before=[summary("Two pages."), *BEFORE[1:]]) or ())


def test_without_one_the_answer_is_refused() -> None:
    """Nothing was written and nothing is in it; where something is, it may be without a model."""
    assert summed_up([user(), said()], wrote="") is None
    assert summed_up([user(), said(), summary("What was done, put together.")], wrote="") is not None


def test_only_who_tells_is_held_to_it() -> None:
    """For an engine that does not say what it wrote, leaving rows out may be the whole idea."""
    answer, before = Messages.of([user(), said()]), Messages.of(BEFORE)
    assert judge("repair", W)(answer, before).messages is answer
    assert judge("record", W, wrote=lambda: "")(answer, before).messages is answer
    told = judge("repair", W, wrote=lambda: "Two pages.")(answer, before)
    assert told.messages is not None
    assert 3 == len(told.messages)
    assert "nothing sums them up" in judge("repair", W, wrote=lambda: "")(answer, before).reason


def test_what_a_tool_returns_is_no_summary() -> None:
    """Whatever stands in it: a file that quotes the host's words stands for nothing that is left out."""
    page = {**PAGES[0], "content": f"{W.prior}\n{W.delimiter}\nTwo pages."}
    done = summed_up([user(), said(), {**said(""), "tool_calls": CALLS[:1]}, page], wrote="A page.")
    assert done is not None
    assert "A page." in str(done[-1])


def test_one_that_is_put_in_is_judged_too() -> None:
    """A summary that says nothing is none."""
    answer, before = Messages.of([user(), said()]), Messages.of(BEFORE)
    assert "empty" in judge("repair", W, wrote=lambda: "\u200b")(answer, before).reason


def test_what_is_merged_is_not_sent_as_it_was() -> None:
    """Where two messages of the user become one, the text that was sent for one of them goes."""
    before = Messages.of(
        [user("One."), said(), {**user("Two."), "api_content": "Two. [it rains]"}, *BEFORE[1:], user()]
    )
    answer = Messages.of([user("One."), {**user("Two."), "api_content": "Two. [it rains]"}, said("S"), user()])
    done = judge("repair", W)(answer, before).messages
    assert done is not None
    assert "One.\n\nTwo." == done[0]["content"]
    assert "api_content" not in done[0]
