"""Requests in the forms of all providers, made by the host's own converters, with each text of a skill once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.hermes.skill_forms import collapsed_request
from engines.skills import collapsed
from tests.skill_rows import body_of, load, result_text, talks, user, work

anthropic = pytest.importorskip("agent.anthropic_adapter")
bedrock = pytest.importorskip("agent.bedrock_adapter")
codex = pytest.importorskip("agent.codex_responses_adapter")

pytestmark = pytest.mark.hermes


def as_anthropic(rows: list[Any], *, oauth: bool = False) -> dict[str, Any]:
    """What Anthropic is sent."""
    told = anthropic.build_anthropic_kwargs("claude-sonnet-4", rows, [], 1000, None, is_oauth=oauth)
    return dict(told)


def as_oauth(rows: list[Any]) -> dict[str, Any]:
    """The same where tools have other names."""
    return as_anthropic(rows, oauth=True)


def as_bedrock(rows: list[Any]) -> dict[str, Any]:
    """What Bedrock is sent."""
    return dict(bedrock.build_converse_kwargs(model="m", messages=rows))


def as_codex(rows: list[Any]) -> dict[str, Any]:
    """What the Responses API is sent."""
    return {"model": "m", "input": codex._chat_messages_to_responses_input(rows)}


def as_chat(rows: list[Any]) -> dict[str, Any]:
    """What everybody else is sent."""
    return {"model": "m", "messages": rows}


FORMS = pytest.mark.parametrize("form", [as_chat, as_anthropic, as_oauth, as_bedrock, as_codex])


def parallel(*groups: list[Any]) -> list[Any]:
    """Calls made in one message."""
    calls = [call for group in groups for call in group[0]["tool_calls"]]
    return [{**groups[0][0], "tool_calls": calls}, *(group[1] for group in groups)]


@FORMS
def test_each_text_once_in_every_form(form: Any) -> None:
    """Parallel loads, a changed body, other tools' results and a linked file: only what repeats is a notice."""
    changed = result_text("alpha", body_of("alpha") + "changed\n")
    rows = [
        user("go"),
        *parallel(load("k1", "alpha"), work("w1"), load("k2", "alpha")),
        *load("k3", "alpha", file="references/api.md"),
        *load("k4", "alpha", changed),
        user("more"),
        *load("k5", "alpha", changed),
        {"role": "assistant", "content": "done"},
        user("and now?"),
    ]
    made = collapsed_request(form(rows))
    assert made == form(collapsed(rows))
    said = json.dumps(made, ensure_ascii=False)
    assert (2, 2) == (said.count("superseded"), said.count("already_active") + said.count("Do step 1 of alpha with"))
    assert made is not None
    assert collapsed_request(made) is None


@FORMS
@given(st.data())
def test_what_is_collapsed_and_then_sent_is_as_sent_and_then_collapsed(form: Any, data: st.DataObject) -> None:
    """For every conversation: the form a provider takes changes nothing about what it is sent of skills."""
    rows = data.draw(talks(most=6))
    before = json.loads(json.dumps(rows))
    expected = collapsed(rows)
    made = collapsed_request(form(rows))
    assert made == (None if expected is None else form(expected))
    assert rows == before


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"messages": None},
        {"input": "a text"},
        {"input": [None, 5, {"type": "function_call"}, {"type": "function_call_output", "output": [{"image": 1}]}]},
        {"messages": [{"role": "user", "content": [None, {"type": "tool_result", "content": None}, {"toolUse": {}}]}]},
        {"messages": [{"role": "assistant"}, {"content": 5}]},
    ],
)
def test_what_says_nothing_of_skills_is_left_alone(request_: dict[str, Any]) -> None:
    """Whatever is there instead."""
    assert collapsed_request(request_) is None
