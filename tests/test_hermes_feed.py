"""What observers hear of real agents, and what their aides say to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hermes_adapter.watcher import NAME
from tests.test_hermes_host import Seen, of, play

pytestmark = pytest.mark.hermes


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """All scenes, in one process."""
    return play(tmp_path_factory.mktemp("feed"), module="tests.hermes_adapter.feed_scenes")


def of_one(heard: list[Any], sid: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What was heard of one conversation, in order."""
    return ((kind, told) for kind, told in heard if told.get("sid") == sid)


BOTH = pytest.mark.parametrize("name", ["together", "together_without_compression"])


# -- turns, tools, children -------------------------------------------------------------------------------------------


@BOTH
def test_a_turn_is_told_from_its_request_to_its_answer(played: Seen, name: str) -> None:
    """Text in, every tool, text out, in this order, also where the host never asks its engine anything before."""
    seen = of(played, name)
    story = [(kind, told.get("tool"), told.get("text")) for kind, told in of_one(seen["heard"], seen["sid"])]
    assert ("TurnStarted", None, "And now the letters.") == story[2]
    assert ["read_file"] * 4 == [tool for _kind, tool, _text in story[3:7]]
    assert ["todo", None, "note_down", None, None, "delegate_task"] == [tool for _kind, tool, _text in story[7:13]]
    assert ("TurnEnded", None, seen["said"]) == story[-1]
    assert 1 == seen["turns_ended"]


@BOTH
def test_a_tool_is_told_whole(played: Seen, name: str) -> None:
    """Arguments as JSON and the result as the tool gave it, by the id of the call; parallel ones each once."""
    seen = of(played, name)
    called = {told["call_id"]: told for kind, told in of_one(seen["heard"], seen["sid"]) if kind == "ToolCalled"}
    assert 7 == len(called)
    for row in seen["results"]:
        told = called[row["tool_call_id"]]
        assert (row["name"], "ok") == (told["tool"], told["status"])
        assert isinstance(json.loads(told["args"]), dict)
        assert told["seconds"] >= 0
        if row["name"] == "read_file":
            assert row["content"] == told["result"]
    assert {"todos": [{"id": "1", "content": "count", "status": "pending"}]} == json.loads(
        called["call_0002_0"]["args"]
    )


@BOTH
def test_children_are_conversations_of_their_own(played: Seen, name: str) -> None:
    """Each is delegated with its task, knows its parent from the start, tells its own turn and tools, and ends."""
    seen = of(played, name)
    parent = seen["sid"]
    delegated = {told["child"]: told["task"] for kind, told in of_one(seen["heard"], parent) if kind == "Delegated"}
    assert {"Count the stamps.", "Count the strings."} == set(delegated.values())
    for child, task in delegated.items():
        story = list(of_one(seen["heard"], child))
        sessions = [told for kind, told in story if kind == "Session"]
        assert [("active", parent, None), ("ended", parent, "session_end")] == [
            (told["state"], told["parent"], told.get("ended")) for told in sessions
        ]
        assert [task] == [told["text"] for kind, told in story if kind == "TurnStarted"]
        assert ["read_file"] == [told["tool"] for kind, told in story if kind == "ToolCalled"]
        assert [True] == [told["completed"] for kind, told in story if kind == "TurnEnded"]


@BOTH
def test_a_review_beside_it_changes_nothing(played: Seen, name: str) -> None:
    """It bears its parent's session id; the parent's facts are byte-equal, and the review is told as its own."""
    seen = of(played, name)
    assert seen["equal"]
    *_rest, review = seen["made"]
    assert 4 == len(seen["made"])
    (begun,) = [told for kind, told in of_one(seen["heard"], review) if kind == "TurnStarted"]
    assert begun["text"].startswith("Review the conversation")
    assert begun["turn"].startswith("whole:")
    assert 1 == sum(kind == "TurnStarted" for kind, _told in of_one(seen["heard"], seen["sid"]))


@BOTH
def test_each_gets_its_own_context(played: Seen, name: str) -> None:
    """Parent, two children at once and the review: what goes with a user's message is of that conversation."""
    seen = of(played, name)
    sids = {"And": seen["sid"], "Review": seen["made"][-1]}
    sids |= {"Count": ""}  # two of them
    for asked, marks in seen["contexts"]:
        sid, word = marks[-1].removeprefix("<for:").removesuffix(">").split(":")
        assert word == asked.split()[0]
        assert sids[word] in {"", sid}
        assert sid in seen["made"]
    counted = {(asked, marks[-1]) for asked, marks in seen["contexts"] if asked.startswith("Count")}
    assert 2 == len(counted) == len({mark for _asked, mark in counted})


def test_one_engine_serves_the_whole_process(played: Seen) -> None:
    """It is started once, on the dataspace's thread, by the first conversation that wants it, and hears all others."""
    assert ["hermes-dataspace"] == of(played, "together")["boots"]
    assert [] == of(played, "together_without_compression")["boots"]


def test_a_session_says_who_and_where(played: Seen) -> None:
    """Provider, profile and home are in the first that is heard of it."""
    seen = of(played, "together")
    kind, told = seen["heard"][0]
    assert "Session" == kind
    assert ("custom", "default", seen["home"], "whole") == (
        told["provider"],
        told["profile"],
        told["home"],
        told["host_session"],
    )


# -- order, ends ------------------------------------------------------------------------------------------------------


def test_facts_come_in_the_order_in_which_it_happened(played: Seen) -> None:
    """Tools before the compaction they led to, the transcript it was made from before it, the turn's end after it."""
    seen = of(played, "crossing")
    kinds = [kind for kind, _told in seen["heard"]]
    assert [
        *(
            "Session",
            "Transcript",
            "TurnStarted",
            "ToolCalled",
            "ShouldCompress",
            "ToolCalled",
            "Transcript",
            "Answered",
        ),
        *("Transcript", "Compressed", "TurnEnded"),
    ] == kinds


def test_an_aide_is_told_of_boundaries(played: Seen) -> None:
    """A compaction by rotation: another id of the host, then that it was taken over; the conversation goes on."""
    told = [name for (name,) in of(played, "crossing")["told"]]
    assert ["context", "veto", "tool_result", "veto", "tool_result", "rotated", "compacted", "turn_ended"] == told


def test_new_is_a_reset_and_the_end_an_end(played: Seen) -> None:
    """The last messages are known before it is over, for whoever keeps them; then why it is over."""
    seen = of(played, "anew")
    for sid, reason, list_of in (("first", "session_reset", "told"), ("second", "session_end", "last")):
        story = list(of_one(seen["heard"], seen[sid]))
        assert [0, 2] == [told["messages"] for kind, told in story if kind == "Transcript"]
        assert ("Transcript", "Noted", "Session") == tuple(kind for kind, _told in story[-3:])
        assert (reason, "ended") == (story[-1][1]["ended"], story[-1][1]["state"])
        assert ["ended", reason] == seen[list_of][-1]


def test_a_turn_that_fails_has_an_end(played: Seen) -> None:
    """The host tells of none when the provider refuses; it is told when the next one begins, as not completed."""
    started, ended, again, done = of(played, "refused")["heard"]
    assert ("TurnStarted", "TurnEnded", "TurnStarted", "TurnEnded") == (started[0], ended[0], again[0], done[0])
    assert started[1]["turn"] == ended[1]["turn"] != again[1]["turn"] == done[1]["turn"]
    assert (False, True) == (ended[1]["completed"], done[1]["completed"])


def test_one_thread_for_several_agents(played: Seen) -> None:
    """A helper under the same id, without compaction, and an agent with another engine: nobody gets another's context."""
    seen = of(played, "one_thread")
    agent, helper = seen["agent"], seen["helper"]
    assert [
        ["One please.", [f"<for:{agent}:One>"]],
        ["Two please.", []],
        ["Three please.", [f"<for:{helper}:Three>"]],
        ["Four please.", [f"<for:{agent}:One>", f"<for:{agent}:Four>"]],
    ] == seen["contexts"]
    started = [(told["sid"], told["text"]) for kind, told in seen["heard"] if kind == "TurnStarted"]
    assert [(agent, "One please."), (helper, "Three please."), (agent, "Four please.")] == started


# -- aides ------------------------------------------------------------------------------------------------------------


def test_an_aide_holds_a_tool_back(played: Seen) -> None:
    """The model reads why; the call is told as blocked."""
    seen = of(played, "held_back")
    held, read = seen["helps"]
    assert {"error": "not before Tuesday"} == json.loads(held)
    assert ["blocked", "ok"] == [told["status"] for _kind, told in seen["helps called"]]
    assert [held, read] == seen["helps sent"]


def test_an_aide_changes_what_the_model_sees(played: Seen) -> None:
    """Not what is told: there it is as the tool gave it."""
    seen = of(played, "held_back")
    assert seen["helps"][1].startswith("[looked over] {")
    assert seen["helps called"][1][1]["result"] == seen["helps"][1].removeprefix("[looked over] ")


def test_an_aide_that_fails_costs_nothing(played: Seen) -> None:
    """Whatever it raises, wherever: the turn is as without it."""
    seen = of(played, "held_back")
    assert seen["fails completed"]
    assert ["ok", "ok"] == [told["status"] for _kind, told in seen["fails called"]]
    assert sorted(told["result"] for _kind, told in seen["fails called"]) == sorted(seen["fails"])
    assert seen["fails"] == seen["fails sent"]


def test_requests_are_shown_while_somebody_wants_them(played: Seen) -> None:
    """The hook costs the host milliseconds with every request: it is registered for the three that are wanted, then goes."""
    seen = of(played, "requests")
    assert [2, 4, 6] == seen["sizes"]
    assert [False] * 3 == seen["there"][:3]
    assert [True, True, False] == seen["there"][3:6]
    assert not seen["there"][-1]


# -- settings and engines that change ---------------------------------------------------------------------------------


def test_settings_change_under_a_live_agent(played: Seen) -> None:
    """D12: threshold, guard, engine and observers count from the next crossing on; counters and conversation are kept."""
    seen = of(played, "changed_settings")
    assert [[160_000] * 2, [150_000] * 2] == seen["budgets"]
    assert "record" == seen["guard"]
    assert [1, 140_000] == seen["kept"]
    assert ("builtin", "compressor") == tuple(by.partition("#")[0] for by in (*seen["first"], *seen["then"]))
    assert [2] == seen["asks"]
    assert 1 == seen["summaries"]
    assert ["compressor"] == [name.partition("#")[0] for name in seen["serving"]]
    assert (True, True, 2) == (seen["same"], seen["completed"], seen["status"]["compression_count"])
    assert ["Three."] == seen["heard"]
    assert ([NAME], "repair") == (seen["status"]["observers"], seen["status"]["guard"])


def test_engines_change_by_a_command(played: Seen) -> None:
    """The next crossing is the new one's, the count goes on, and an observer that is unplugged hears nothing more."""
    seen = of(played, "swapped")
    assert ("builtin", "compressor") == tuple(by.partition("#")[0] for by in (*seen["by"], *seen["then"]))
    swap, engines, unplug = seen["said"]
    assert swap.startswith("compressor serves now, builtin is unplugged.")
    assert "compressor#" in engines
    assert f"{NAME} is unplugged." == unplug
    assert 2 == seen["count"]
    assert ["And now the letters."] == seen["heard"]
    assert [["ended", ""]] == seen["told"]


def test_the_command_in_the_host(played: Seen) -> None:
    """Where others may read along, and on a loop's thread, there is nothing of anybody's, and nothing is changed."""
    seen = of(played, "in_the_host")
    assert seen["outside"] == seen["shared"]
    private = ("private-session", "secret wish", "hermes-")
    for raw, text in seen["shared"].items():
        assert not [word for word in private if word in text and raw != "help"]
    assert "config.yaml" in seen["shared"]["unplug builtin"]
    terminal = seen["terminal"]
    assert "private-session" in terminal[""]
    assert "host_session='private-session'" in terminal["facts session"]
    assert terminal["unplug builtin"].startswith("builtin is unplugged")
    assert "/dataspace swap OLD NEW" in terminal["help"]


def test_no_secret_is_shown(played: Seen) -> None:
    """Neither in what the command says nor in the log."""
    from tests.hermes_adapter.stage import KEY

    assert KEY not in json.dumps(played)
