"""Engines that misbehave, in the real host: ten turns above the threshold with each, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CHECKOUT
from tests.test_hermes_host import environment

pytestmark = [pytest.mark.hermes, pytest.mark.slow]

Seen = dict[str, Any]
TURNS = 10

AT_ONCE = [
    *("Raises", "RaisesDifferently", "Unspeakable", "Rubbish", "Text", "Nothing", "Empty", "Mutates", "Exits", "Huge"),
    *("Liar", "RaisesEverywhere", "Generates", "Misshapen"),
]
"""They come back at once, with something that cannot be used."""
NEVER = ["Sleeps", "Locks", "DeadThread", "Endless"]
"""They do not come back from a compaction."""
HANGS = [
    *("update_from_response", "should_compress", "should_defer_preflight_to_real_usage"),
    *("get_active_compression_failure_cooldown", "_automatic_compression_blocked", "on_session_start"),
    *("bind_session_state", "update_model", "get_tool_schemas", "attribute", "handle_tool_call"),
]
"""They do not come back from what the host asks between compactions, from the first time on."""
HANGS_LATER = ["has_content_to_compress", "on_session_reset", "record_completed_compaction"]
"""They hang where the host does not go within these turns, or only with an engine that says it wants to be told."""


def play(root: Path, *names: str) -> Seen:
    """Play the scenes in a process of their own."""
    out = root / "seen.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.hermes_adapter.bad_scenes", str(root), str(out), *names],
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


GROUPS = [
    *(AT_ONCE[:6], AT_ONCE[6:], [*NEVER, "Orphans"]),
    *(
        [f"Hangs_{name}" for name in names]
        for names in (HANGS[:6], HANGS[6:], [*HANGS_LATER, "on_session_end", "making"])
    ),
    ["Exits_making"],
]
"""Those that share a process, each through its ten turns: some ten seconds for all of a group."""


class Played:
    """Plays a group when somebody wants to know of one in it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen: dict[int, Seen] = {}

    def group(self, at: int) -> Seen:
        """All that was seen of a group."""
        if at not in self._seen:
            root = self._root / str(at)
            root.mkdir()
            self._seen[at] = play(root, *GROUPS[at])
        return self._seen[at]

    def of(self, name: str) -> Seen:
        """What was seen with one engine; whatever it is, this holds."""
        seen: Seen = self.group(next(at for at, names in enumerate(GROUPS) if name in names))[name]
        assert "error" not in seen, seen["error"]
        assert [[True, "done"]] * TURNS == seen["completed"]
        assert [] == seen["problems"]
        assert [f"Request {at}." for at in range(TURNS)] == seen["sent"]
        assert [] == [text for level, text in seen["log"] if level in {"ERROR", "CRITICAL"}]
        assert "sk-live" not in str(seen)
        assert [64_000, "int"] == seen["window"]
        return seen


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The stage of this module."""
    return Played(tmp_path_factory.mktemp("bad"))


def untouched(seen: Seen) -> None:
    """No message was lost or changed, and nothing was compacted."""
    assert seen["kept"]
    assert [f"Request {at}." for at in range(TURNS)] == seen["requests"]
    assert (62 + 4 * TURNS, 0) == (seen["rows"], seen["count"])


@pytest.mark.parametrize("name", AT_ONCE)
def test_what_cannot_be_used_costs_one_warning(played: Played, name: str) -> None:
    """Asked ten times, it gives nothing usable ten times: the turns end, nothing is lost, the user is told once."""
    seen = played.of(name)
    untouched(seen)
    assert TURNS == seen["calls"]
    assert 1 == len(seen["warnings"])
    assert f"bad:{name}#" in seen["warnings"][0]
    assert "No messages were dropped" in seen["warnings"][0]


@pytest.mark.parametrize("name", NEVER)
def test_a_compaction_that_never_ends_costs_one_warning(played: Played, name: str) -> None:
    """It is left behind at its deadline and not called again while it hangs; the user is told once."""
    seen = played.of(name)
    untouched(seen)
    assert 1 == seen["calls"]
    assert 1 == len(seen["warnings"])
    assert f"bad:{name}#" in seen["warnings"][0]
    assert "did not answer within 3 s" in seen["warnings"][0]


def test_orphans_are_mended(played: Played) -> None:
    """Results without their calls: none of them reaches the model, and the log names once what had to be mended."""
    seen = played.of("Orphans")
    assert TURNS == seen["calls"]
    assert [] == seen["warnings"]
    (told,) = [text for _level, text in seen["log"] if "was mended" in text]
    assert "the result 'old_0' has no call before it" in told
    assert f"Request {TURNS - 1}." in seen["requests"]


@pytest.mark.parametrize("name", HANGS)
def test_a_hanging_call_hangs_no_turn(played: Played, name: str) -> None:
    """Whatever the host calls, the call never returns and the turn goes on; at the next crossing the user is told, once."""
    seen = played.of(f"Hangs_{name}")
    untouched(seen)
    assert 0 == seen["calls"]  # it might wait for what the hanging call holds
    assert 1 == len(seen["warnings"])
    what = "last_prompt_tokens" if name == "attribute" else name
    assert f"it has not returned from {what}" in seen["warnings"][0]
    assert 1 == len([text for _level, text in seen["log"] if "did not return from" in text])


@pytest.mark.parametrize("name", HANGS_LATER)
def test_a_call_that_hangs_after_all_turns(played: Played, name: str) -> None:
    """An engine is as good as any other until the call in which it hangs."""
    seen = played.of(f"Hangs_{name}")
    assert ([], TURNS) == (seen["warnings"], seen["calls"])


def test_an_engine_that_hangs_at_a_boundary(played: Played) -> None:
    """The host tells of an end at each compaction: the first was taken over and stays so, the next ones fail."""
    seen = played.of("Hangs_on_session_end")
    assert (1, 1) == (seen["calls"], len(seen["warnings"]))
    assert [f"Request {at}." for at in range(TURNS)] == seen["requests"]


def test_an_engine_that_is_never_made(played: Played) -> None:
    """The agent starts all the same, with the host's own compressor instead."""
    seen = played.of("Hangs_making")
    assert [] == seen["warnings"]
    assert ["could not be made within", "builtin stands in"] == [
        words for words in ("could not be made within", "builtin stands in") if words in str(seen["log"])
    ]


def test_an_engine_that_exits_when_it_is_made(played: Played) -> None:
    """So does the program, if nobody stops it: the agent starts with the host's own compressor instead."""
    seen = played.of("Exits_making")
    assert [] == seen["warnings"]
    assert "cannot be made: SystemExit: 3" in str(seen["log"])
    assert "builtin stands in" in str(seen["log"])


@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_threads_stay_bounded(played: Played, group: int) -> None:
    """A call that never returns costs its one thread, and ten turns with it cost no more than one."""
    threads = played.group(group)["threads"]
    stuck = [name for name in threads if "at work" in name or name == "hermes-dataspace-hosted"]
    hang = sum(name in NEVER or name.startswith("Hangs_") for name in GROUPS[group])
    assert len(stuck) <= hang + 1
    assert len(threads) <= hang + 10
