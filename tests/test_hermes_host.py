"""The adapter in the real host: real agents, a scripted model, and what reached it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CHECKOUT
from tests.hermes_adapter import written
from tests.hermes_adapter.model import Model, Say

pytestmark = pytest.mark.hermes

Seen = dict[str, Any]
PREFIX = "[CONTEXT COMPACTION — REFERENCE ONLY]"
END = "--- END OF CONTEXT SUMMARY"
REQUEST = "And now the letters."


def environment(root: Path) -> dict[str, str]:
    """Nothing of the user's: home, keys, proxies."""
    return {
        "HOME": str(root),
        "HERMES_HOME": str(root / ".hermes"),
        "TMPDIR": str(root),
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": str(CHECKOUT),
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
    }


def play(root: Path, *names: str, module: str = "tests.hermes_adapter.scenes") -> Seen:
    """Play scenes in a process of their own."""
    out = root / "seen.json"
    done = subprocess.run(
        [sys.executable, "-m", module, str(root), str(out), *names],
        cwd=CHECKOUT,
        env=environment(root),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert 0 == done.returncode, done.stdout[-3000:] + done.stderr[-3000:]
    seen: Seen = json.loads(out.read_text(encoding="utf-8"))
    return seen


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """All scenes that can share a process."""
    return play(tmp_path_factory.mktemp("stage"))


def of(played: Seen, name: str) -> Seen:
    """What was seen in one scene."""
    seen: Seen = played[name]
    assert "error" not in seen, seen["error"]
    return seen


def summaries_in(rows: list[Seen]) -> list[Seen]:
    """Rows of a request that are, or hold, a summary."""
    return [row for row in rows if PREFIX in str(row.get("content"))]


def texts(rows: list[Seen]) -> list[Any]:
    """Role and content, without what differs from run to run."""
    return [(row["role"], row.get("content"), row.get("tool_calls")) for row in rows if row["role"] != "system"]


def kept(rows: list[Seen]) -> list[Any]:
    """What is said in rows, whoever writes them down: the host strips what it sends and writes arguments its own way."""
    return [
        (
            row["role"],
            str(row.get("content") or "").strip(),
            [
                (call["function"]["name"], json.loads(call["function"]["arguments"]))
                for call in row.get("tool_calls") or ()
            ],
        )
        for row in rows
        if row["role"] != "system"
    ]


# -- compactions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["in_place", "rotation", "recorded", "preflight", "overflow", "parallel_tools", "smaller_window"]
)
def test_a_compaction_reaches_the_model(played: Seen, name: str) -> None:
    """The summary that the built-in wrote, hosted, is in the next request, which breaks no rule; the turn ends well."""
    seen = of(played, name)
    assert (True, "done", "dataspace") == (seen["completed"], seen["said"], seen["engine"])
    assert [] == seen["problems"]
    assert [] == seen["warnings"]
    assert 1 == len(seen["summaries"])
    (summary,) = summaries_in(seen["turns"][-1])
    assert "the count stands at 1" in summary["content"]
    assert summary["content"].startswith(PREFIX)
    assert END in summary["content"]
    assert len(seen["turns"][-1]) < 40
    assert ["builtin"] == [by.partition("#")[0] for by in seen["by"]]
    assert 1 == seen["count"]


@pytest.mark.parametrize("name", ["in_place", "recorded"])
def test_the_model_is_sent_what_the_plain_host_sends(played: Seen, name: str) -> None:
    """With either guard a sound compaction of the built-in arrives as it would have without us."""
    ours, plain = of(played, name), of(played, "plain_host")
    assert "compressor" == plain["engine"]
    assert texts(plain["turns"][-1]) == texts(ours["turns"][-1])
    assert texts(plain["rows"]) == texts(ours["rows"])


COMPACTIONS = [
    *(
        "in_place",
        "rotation",
        "recorded",
        "preflight",
        "overflow",
        "parallel_tools",
        "smaller_window",
        "manual",
        "ours",
    ),
    *("ours_sums_up", "lossless", "cut_off"),
]


@pytest.mark.parametrize("name", COMPACTIONS)
def test_what_is_kept_is_what_was_sent(played: Seen, name: str) -> None:
    """The host's list, its store and the last request agree row by row; after that comes the answer."""
    seen = of(played, name)
    assert kept(seen["turns"][-1]) == kept(seen["rows"])[:-1]
    if name != "lossless":  # its list has neighbours that the host merges in the one it holds, and not in its store
        assert kept(seen["rows"]) == kept(seen["stored"])
    assert ("assistant", "done", []) == kept(seen["rows"])[-1]


def test_parallel_tools_keep_their_results(played: Seen) -> None:
    """Four calls at once, and a compaction right after them: all four results are in the next request, in order."""
    rows = of(played, "parallel_tools")["turns"][-1]
    called = next(row for row in reversed(rows) if row.get("tool_calls"))
    ids = [call["id"] for call in called["tool_calls"]]
    assert 4 == len(ids)
    assert ids == [row["tool_call_id"] for row in rows[-4:]]
    assert [f"parcel {at}" in row["content"] for at, row in enumerate(rows[-4:])] == [True] * 4


def test_rotation_goes_on_with_the_conversation(played: Seen) -> None:
    """Another id of the host, the same conversation: one session, active, under the new id."""
    seen = of(played, "rotation")
    assert "rotating" != seen["session"]
    assert [[seen["session"], "active"]] == seen["sessions"]
    assert [1] == seen["asked"]


def test_in_place_keeps_the_id(played: Seen) -> None:
    """The host says end and start for the same id; nothing ends."""
    seen = of(played, "in_place")
    assert [[seen["session"], "active"]] == seen["sessions"]


def test_the_current_request_survives(played: Seen) -> None:
    """The request at hand is a row of its own, as it was said, in everything that is sent."""
    for name in ("in_place", "rotation", "overflow", "preflight", "parallel_tools", "ours", "lossless"):
        for rows in of(played, name)["turns"]:
            assert [REQUEST] == [row["content"] for row in rows if row["content"] == REQUEST], name


def test_a_compaction_by_hand_has_its_focus(played: Seen) -> None:
    """/compress with a topic: the summary model is told it, and the compaction is the conversation's."""
    seen = of(played, "manual")
    assert "stamps" in seen["summaries"][0]
    assert ["builtin"] == [by.partition("#")[0] for by in seen["by"]]
    assert summaries_in(seen["turns"][-1])
    assert seen["completed"]


def test_the_host_and_the_fact_tell_the_same_sizes(played: Seen) -> None:
    """Both count the system prompt and the tools, before and after: what a compaction saves is not overstated."""
    seen = of(played, "sizes")
    before, after = seen["host"]
    assert before == seen["fact"][0]
    assert 500 < seen["beside"] < after < before / 2
    assert after == pytest.approx(seen["fact"][1], rel=0.1)


def test_no_usage_is_no_harm(played: Seen) -> None:
    """A provider that reports nothing: the turn goes on, nothing is compacted below the threshold (B03)."""
    seen = of(played, "no_usage")
    assert (True, [], 0) == (seen["completed"], seen["summaries"], seen["count"])
    assert 3 == len(seen["turns"])


@pytest.mark.parametrize("kind", ["builtin", "compressor"])
def test_a_deferred_preflight(played: Seen, kind: str) -> None:
    """B23: the host reads what it reads only when it defers, and goes on; the real reading ends the wait (B01)."""
    seen = of(played, "deferred")[kind]
    assert (True, "Well.", 0, False) == (seen["completed"], seen["said"], seen["count"], seen["waits"])
    assert [] == seen["summaries"]


def test_a_failing_summary_model_costs_nothing(played: Seen) -> None:
    """Aborted as the built-in aborts: one warning, every message kept, no second try in its cooldown (C14)."""
    seen = of(played, "failing_summary")
    assert 1 == len(seen["warnings"])
    assert "Compression aborted" in seen["warnings"][0]
    assert 1 == len(seen["summaries"])
    assert 0 == seen["count"]
    assert 61 < len(seen["rows"])
    assert seen["completed"]


def test_the_built_in_s_fallback_is_taken(played: Seen) -> None:
    """Where the built-in puts in a summary without a model, that is what the model gets."""
    seen = of(played, "fallback_summary")
    assert 1 == len(seen["warnings"])
    assert summaries_in(seen["turns"][-1])


def test_an_invisible_summary_is_refused(played: Seen) -> None:
    """Thoughts and nothing that can be seen: the host keeps its list and says so once."""
    seen = of(played, "empty_summary")
    assert [] == summaries_in(seen["turns"][-1])
    assert 1 == len(seen["warnings"])
    assert "the summary is empty" in seen["warnings"][0]
    assert (True, 0) == (seen["completed"], seen["count"])


# -- engines ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind"), [("somebody_s", written.BOOT), ("an_observer_s", written.NAME)])
def test_an_engine_written_after_the_guide_compacts(played: Seen, name: str, kind: str) -> None:
    """Named in the settings, or the engine of an observer: the model gets what it gave, and the status says who it was."""
    seen = of(played, name)
    assert (True, 1, []) == (seen["completed"], seen["count"], seen["problems"])
    assert [kind] == [by.partition("#")[0] for by in seen["by"]]
    assert written.NOTE in [row.get("content") for row in seen["turns"][-1]]
    (mine,) = [part for part in seen["status"].split("\n\n") if f"compressors: {kind} (in charge" in part]
    assert f"tokens, by {kind}" in mine


def test_without_a_compressor_nothing_is_compacted(played: Seen) -> None:
    """Facts decide: no engine, no compaction, whatever the pressure."""
    seen = of(played, "unplugged")
    assert ([], [], 0) == (seen["summaries"], seen["by"], seen["count"])
    assert [64, 66, 68] == [len(rows) for rows in seen["turns"]]
    assert [] == seen["warnings"]


def test_our_compressor_s_summary_reaches_the_model(played: Seen) -> None:
    """Ours plugged in: its summary, in the host's words, and no summary model was asked."""
    seen = of(played, "ours_sums_up")
    assert [] == seen["summaries"] == seen["problems"] == seen["warnings"]
    (summary,) = summaries_in(seen["turns"][-1])
    assert "[COMPRESSED SUMMARY: reference only]" in summary["content"]
    assert summary["content"].startswith(PREFIX)
    assert summary["content"].rstrip().endswith("not the summary above ---")
    assert ["compressor"] == [by.partition("#")[0] for by in seen["by"]]
    assert len(seen["turns"][-1]) < 400


def test_our_compressor_compacts_again(played: Seen) -> None:
    """A second crossing after the conversation has grown is a second question."""
    seen = of(played, "ours_again")
    assert ([2], 2, []) == (seen["asked"], seen["count"], seen["problems"])


def test_another_engine_stands_in(played: Seen) -> None:
    """The first engine fails, the next is asked in the same call; what the user reads holds no key."""
    seen = of(played, "ours_stands_in")
    assert ["compressor"] == [by.partition("#")[0] for by in seen["by"]]
    assert "sk-live" not in str(seen)


def test_a_real_engine_of_others(played: Seen) -> None:
    """lossless-hermes, hosted: three crossings, no problem reaches the model, its tool answers through us."""
    seen = of(played, "lossless")
    assert (3, [], []) == (seen["count"], seen["problems"], seen["warnings"])
    assert ["lossless-hermes"] == [by.partition("#")[0] for by in seen["by"]]
    answers = [row for rows in seen["turns"] for row in rows if row.get("name") == "lcm_grep" and row["role"] == "tool"]
    assert answers
    assert json.loads(answers[0]["content"])["results_count"] > 0


def test_it_hands_back_orphans_where_nobody_mends(tmp_path: Path) -> None:
    """The same engine in the host without us leaves a list that begins in the middle of a turn."""
    seen = of(play(tmp_path, "lossless_alone"), "lossless_alone")
    assert "lossless-hermes" == seen["engine"]
    assert "user" != seen["rows"][0]["role"]


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_new_begins_anew(played: Seen) -> None:
    """/new: the old conversation has ended and left nothing, the new one has the new id and none of the old text."""
    seen = of(played, "new_session")
    assert [["first", "ended"]] == seen["old"]
    assert [["second", "active"]] == seen["new"]
    assert (0, 0, True) == (seen["left"], seen["count"], seen["completed"])
    assert [{"role": "user", "content": "Something else."}] == seen["request"]


def test_a_smaller_window_is_a_smaller_budget(played: Seen) -> None:
    """A model switch: window and threshold are published, and the next turn is compacted before it is sent (B27)."""
    seen = of(played, "smaller_window")
    assert ([[200_000, 150_000]], [[64_000, 54_400]]) == (seen["wide"], seen["narrow"])


def test_a_threshold_lowered_for_the_summary_model_stays_lowered(played: Seen) -> None:
    """B26: it is a budget at once, and the next model's too; the built-in alone forgets it and outgrows its summary model."""
    alone, seen = of(played["small_summary_model"], "compressor"), of(played["small_summary_model"], "dataspace")
    assert [150_000, 100_000, 150_000] == alone["budgets"]
    assert 1 == alone["count"]  # the second crossing, at 120,000 of a summary model's 100,000, went by
    assert [150_000, 100_000, 100_000] == seen["budgets"]
    assert ([100_000], 2) == (seen["published"], seen["count"])
    assert "the count stands at 2" in summaries_in(seen["turns"][-1])[-1]["content"]
    assert ([], True) == (seen["problems"], seen["completed"])


def test_a_server_that_cuts_off_is_compacted_for(played: Seen) -> None:
    """B29: what it takes is the budget then; the conversation is compacted before the model loses more of it."""
    seen = of(played, "cut_off")
    assert ([[64_000, 34_809]], 1) == (seen["budget"], seen["count"])
    assert summaries_in(seen["turns"][-1])
    assert (True, "done", []) == (seen["completed"], seen["said"], seen["problems"])


def test_agents_beside_each_other(played: Seen) -> None:
    """B06: two agents at once under one session id, and a copy that ends it: each has its own facts, in one dataspace."""
    seen = of(played, "two_agents")
    assert [True, True] == seen["completed"]
    assert 2 == len(set(seen["sids"]))
    assert [1, 1] == [len(by) for by in seen["by"]]
    assert [64_000, 0, 0] == seen["copied"]
    assert seen["equal"]
    assert [64_000, 64_000] == seen["windows"]
    assert 1 == len(seen["threads"])


def test_the_review_fork_leaves_its_parent_alone(played: Seen) -> None:
    """The fork ends its parent's id; the parent's facts are the same before and after, and it goes on."""
    seen = of(played, "review_fork")
    assert (True, 1, True, ["active"]) == (seen["equal"], seen["forked"], seen["completed"], seen["state"])
    assert seen["reviewed"] > 2
    assert [] == seen["problems"]
    assert kept(seen["last"]) == kept(seen["rows"])[:-1]
    assert "Go on." == seen["last"][-1]["content"]


def test_delegated_children_end(played: Seen) -> None:
    """Two children at once: each a conversation of its own that ends, and the parent's facts stay as they are."""
    seen = of(played, "children")
    assert (2, ["ended", "ended"], ["active"]) == (seen["children"], seen["states"], seen["parent"])
    assert seen["equal"]
    assert seen["completed"]
    assert [] == seen["problems"]
    assert [[2, 4], [2, 4]] == seen["goals"]  # each was sent its task, then the result of its tool, and no other's
    assert "dispatched" in seen["told"][0]


def test_the_key_is_nowhere(played: Seen) -> None:
    """Not in a fact, not in the log at its most talkative, not in what an engine shows of itself."""
    seen = of(played, "secrets")
    assert seen["some"] > 1000
    assert (False, [], False) == (seen["facts"], seen["log"], seen["status"])
    assert [] == seen["errors"]


# -- being found ------------------------------------------------------------------------------------------------------


def test_the_plugin_as_a_directory(tmp_path: Path) -> None:
    """Copied into the home, it is found and does the same."""
    seen = of(play(tmp_path, "directory"), "directory")
    assert ({"dataspace": "user"}, "dataspace") == (seen["plugins"], seen["engine"])
    assert summaries_in(seen["turns"][-1])


def test_switched_off_there_is_only_the_built_in(tmp_path: Path) -> None:
    """`enabled: false`: the built-in compacts, and no dataspace is started."""
    seen = of(play(tmp_path, "switched_off"), "switched_off")
    assert (False, 1, []) == (seen["runtime"], seen["count"], seen["by"])
    assert summaries_in(seen["turns"][-1])


def test_discovery_starts_nothing(tmp_path: Path) -> None:
    """Registered twice there is one engine, no thread, no event loop."""
    seen = of(play(tmp_path, "discovery"), "discovery")
    assert (True, "dataspace", False, []) == (seen["same"], seen["name"], seen["trio"], seen["threads"])


def test_the_command_line_of_the_host(tmp_path: Path) -> None:
    """`hermes plugins list` names the plugin, `hermes chat -q` answers through it."""
    hermes = Path(sys.executable).with_name("hermes")
    home = tmp_path / ".hermes"
    home.mkdir()
    with Model([Say("Hello, Robin.")]) as model:
        window = {"provider": "custom", "base_url": model.url, "api_key": "none", "context_length": 64_000}
        config = {
            "model": {"default": "scripted", **window},
            "auxiliary": {"compression": {**window, "model": "summariser"}, "title_generation": {"enabled": False}},
            "context": {"engine": "dataspace"},
            "plugins": {"enabled": ["dataspace"]},
            "agent": {"environment_probe": False, "verify_on_stop": False},
            "security": {"allow_lazy_installs": False},
        }
        (home / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        environ = environment(tmp_path) | {"OPENAI_API_KEY": "none", "HERMES_LOG_LEVEL": "INFO"}
        run = {"cwd": tmp_path, "env": environ, "capture_output": True, "text": True, "timeout": 120}
        listed = subprocess.run([str(hermes), "plugins", "list"], stdin=subprocess.DEVNULL, check=False, **run)
        chatted = subprocess.run(
            [str(hermes), "chat", "-q", "Hello?", "--toolsets", "file"], stdin=subprocess.DEVNULL, check=False, **run
        )
    assert "dataspace" in listed.stdout
    assert "Hello, Robin." in chatted.stdout, chatted.stdout[-2000:] + chatted.stderr[-2000:]
    log = "".join(path.read_text(encoding="utf-8", errors="replace") for path in (home / "logs").glob("*.log"))
    assert "falling back to built-in" not in log
    assert "Hello?" == model.turns[0]["messages"][-1]["content"]
