"""The scripted server: what it answers, and what it counts."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.hermes.server import Call, Reply, ScriptedServer, tokens

QUESTION = {"model": "any", "messages": [{"role": "user", "content": "what is there?"}], "tools": [{"name": "look"}]}


def ask(url: str, request: dict[str, Any] | None) -> tuple[int, str]:
    """Post a request, or get where there is none; status and body."""
    data = None if request is None else json.dumps(request).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, data), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_replies_come_in_the_order_of_the_script() -> None:
    """Each request gets the next reply, whole, with the ids of its calls made from its number."""
    with ScriptedServer([Reply("first", (Call("look", {"at": "a"}),)), Reply("second")]) as server:
        first, second = (json.loads(ask(f"{server.url}/chat/completions", QUESTION)[1]) for _ in range(2))
    (call,) = first["choices"][0]["message"]["tool_calls"]
    assert ("call_0001_0", {"name": "look", "arguments": '{"at": "a"}'}) == (call["id"], call["function"])
    assert ["tool_calls", "stop"] == [first["choices"][0]["finish_reason"], second["choices"][0]["finish_reason"]]
    assert {"role": "assistant", "content": "second"} == second["choices"][0]["message"]
    assert [QUESTION, QUESTION] == server.requests


def test_usage_is_reckoned_from_the_request() -> None:
    """A longer request costs more, a token for four characters of messages and tools."""
    longer = QUESTION | {"messages": [*QUESTION["messages"], {"role": "user", "content": "x" * 4000}]}
    with ScriptedServer([Reply("yes"), Reply("yes")]) as server:
        for request in (QUESTION, longer):
            ask(f"{server.url}/chat/completions", request)
    short, long = server.usages
    assert tokens([QUESTION["messages"], QUESTION["tools"]]) == short["prompt_tokens"]
    assert 1000 <= long["prompt_tokens"] - short["prompt_tokens"] <= 1020
    assert long["total_tokens"] == long["prompt_tokens"] + long["completion_tokens"]
    assert short["completion_tokens"] == long["completion_tokens"]


def test_a_stream_carries_the_same_reply() -> None:
    """Pieces of a stream put together are the reply, with the usage in the last of them."""
    reply = Reply("look", (Call("read", {"path": "a"}), Call("read", {"path": "b"})))
    with ScriptedServer([reply]) as server:
        status, body = ask(f"{server.url}/chat/completions", QUESTION | {"stream": True})
    *lines, last = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    chunks = [json.loads(line) for line in lines]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert (200, "[DONE]") == (status, last)
    assert "look" == "".join(delta.get("content", "") for delta in deltas)
    assert [(0, '{"path": "a"}'), (1, '{"path": "b"}')] == [
        (call["index"], call["function"]["arguments"]) for delta in deltas for call in delta.get("tool_calls", ())
    ]
    assert server.usages == [chunks[-1]["usage"]]


def test_a_script_that_has_ended_says_so() -> None:
    """A request too many is refused with its number, and is kept all the same."""
    with ScriptedServer([]) as server:
        status, body = ask(f"{server.url}/chat/completions", QUESTION)
    assert (400, "the script has no reply for request 1") == (status, json.loads(body)["error"]["message"])
    assert ([QUESTION], []) == (server.requests, server.usages)


@pytest.mark.parametrize("request_body", [None, {"name": "scripted"}])
def test_probes_find_nothing(request_body: dict[str, Any] | None) -> None:
    """What a host asks to find out which server this is gets a 404 and takes no reply."""
    with ScriptedServer([Reply("kept")]) as server:
        status, _ = ask(f"{server.url}/models", request_body)
    assert (404, []) == (status, server.requests)


def test_a_neutral_form_is_what_is_kept_and_counted() -> None:
    """A recorder's rewriting comes before everything, so that usage does not depend on the machine."""
    with ScriptedServer([Reply("yes")], lambda text: text.replace("what is there?", "?")) as server:
        ask(f"{server.url}/chat/completions", QUESTION)
    assert "?" == server.requests[0]["messages"][0]["content"]
    assert tokens([server.requests[0]["messages"], QUESTION["tools"]]) == server.usages[0]["prompt_tokens"]
