"""Skills in the real host, end to end: what the model was sent, and which tool calls were let through.

The nine criteria of the pruning proposal and the five of the registry proposal are named P1 to P9 and R1 to R5.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from engines.skills import scan
from engines.skills.reading import hash_of
from engines.skills.wording import LOADED, PRUNED, REQUIRED, RULE
from tests.test_hermes_host import Seen, of, play

pytestmark = pytest.mark.hermes
MODULE = "tests.hermes_adapter.skill_scenes"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """The scenes of every day, in one process."""
    names = ("lost", "kept", "plain", "stubborn", "resumed", "beside", "commanded", "changing", "repeated", "audited")
    return play(tmp_path_factory.mktemp("skills"), *names, "repeated_without", "repeated_alone", module=MODULE)


@pytest.fixture(scope="module")
def more(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """The others."""
    names = ("lost_ours", "lost_rotation", "kept_in_block", "warned", "block_off", "gone_file", "ten", "partial")
    return play(tmp_path_factory.mktemp("more"), *names, "failing", "two_sessions", "evicting", module=MODULE)


def results(rows: list[Seen], tool: str) -> list[str]:
    """What a tool returned, in order."""
    calls = {call["id"]: call["function"]["name"] for row in rows for call in row.get("tool_calls") or ()}
    return [row["content"] for row in rows if row["role"] == "tool" and calls.get(row["tool_call_id"]) == tool]


def texts(request: list[Seen]) -> str:
    """All that the model was sent in one request, but for its instructions."""
    return "\n".join(str(row.get("content")) for row in request if row["role"] != "system")


def skill_tokens(request: list[Seen]) -> int:
    """What the results of `skill_view` take in a request, at a token for four characters."""
    return sum(map(len, results(request, "skill_view"))) // 4


# -- a loss, and the way back -----------------------------------------------------------------------------------------


def check_way_back(seen: Seen) -> None:
    """Marker, section, block, reload, block in the batch, and only then the work."""
    assert seen["completed"]
    assert [] == seen["problems"]
    lost = next(at for at, request in enumerate(seen["sent"]) if PRUNED in texts(request))
    said = texts(seen["sent"][lost])
    # P1, P6, P8: the row says so, the summary lists it in the runtime's words, and nothing of the text is there.
    assert (
        f"{LOADED}\n- alpha: pruned — reload before use if required by active task\n{RULE}\n{REQUIRED}\n- alpha" in said
    )
    assert seen["body"] not in said
    assert ["SkillPruned alpha", "SkillRequired alpha", "LoopInvalid ('alpha',)"] == seen["stood"][lost]
    # P2, P3, P9: no work on what is lost; reloaded, and after a turn that has seen it the work goes on.
    assert ["late.out"] == seen["written"]
    early, batch, late = results(seen["rows"], "write_file")
    assert "Reload first" in early and "skill_view(name='alpha')" in early  # noqa: PT018 - one sentence
    assert "was not run" in batch
    assert "bytes_written" in late
    assert seen["stood"][lost + 2] == ["SkillAvailable alpha", "SkillRequired alpha", "LoopInvalid ('alpha',)"]
    assert seen["stood"][lost + 3] == ["SkillAvailable alpha", "SkillRequired alpha"]
    assert seen["body"] in json.loads(results(seen["rows"], "skill_view")[-1])["content"]


def test_p1_p2_p3_p9_a_task_goes_on_only_with_its_skill(played: Seen) -> None:
    """S07: with the built-in compressor in charge."""
    check_way_back(of(played, "lost"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lost_ours", "lost_rotation"])
def test_the_same_with_our_compressor_and_with_rotation(more: Seen, name: str) -> None:
    """Whoever compacts, and whatever the session is called afterwards."""
    check_way_back(of(more, name))


def test_what_the_task_needs_is_kept(played: Seen) -> None:
    """Where there is room nothing is lost, and nothing is held back."""
    seen = of(played, "kept")
    assert (1, True, []) == (seen["compactions"], seen["completed"], seen["problems"])
    assert all(PRUNED not in texts(request) for request in seen["sent"])
    assert all("LoopInvalid" not in " ".join(stood) for stood in seen["stood"])
    assert ["batch.out", "early.out", "late.out"] == seen["written"]
    assert "available in current context" in texts(seen["sent"][-1])


def test_p4_in_plain_conversation_nothing_is_reloaded(played: Seen) -> None:
    """The rule goes with the user's message while something is pruned; the model is told to do nothing."""
    seen = of(played, "plain")
    assert (True, []) == (seen["completed"], seen["problems"])
    assert 1 == len(results(seen["rows"], "skill_view"))
    assert all("LoopInvalid" not in " ".join(stood) for stood in seen["stood"][-2:])
    (asked,) = [row["content"] for row in seen["sent"][-1] if row["role"] == "user" and "How late" in row["content"]]
    assert f"[Skills pruned from context: alpha. {RULE}]" in asked


def test_a_tool_is_held_back_three_times_at_most(played: Seen) -> None:
    """All that one answer wants counts once; then tools run, with a warning beside the first result."""
    seen = of(played, "stubborn")
    assert ["try3.out", "try4.out", "try5.out"] == seen["written"]
    tries = results(seen["rows"], "write_file")
    assert [True] * 6 + [False] * 3 == ["was not run" in said for said in tries]
    assert [False] * 6 + [True, False, False] == ["[Skills: The text of alpha" in said for said in tries]
    assert any(fact.startswith("LoopInvalid") and "ask=1" in fact for fact in seen["stands"])


def test_s14_a_new_process_goes_on_from_the_transcript(played: Seen) -> None:
    """S14: what was pruned is known, what the task is said to need is asked for once, and then it goes on."""
    seen = of(played, "resumed")
    assert "SkillPruned alpha" in seen["stood"][0]
    assert [True, False, False] == ["was not run" in said for said in results(seen["rows"], "write_file")[-3:]]
    assert ["late.out", "later.out"] == seen["written"]


def test_nobody_else_is_held_back_for_a_parent(played: Seen) -> None:
    """A child, another agent under the same session id and the review fork do as they like; for the parent it stands."""
    seen = of(played, "beside")
    assert seen["before"] == seen["after"]
    assert any(fact.startswith("LoopInvalid") for fact in seen["after"])
    assert ["child.out", "helper.out"] == seen["written"]
    assert "was not run" in results(seen["rows"], "write_file")[-1]
    assert "skill_manage" in seen["fork_calls"]
    assert all("was not run" not in row["content"] for row in seen["fork"])


def test_a_users_command_brings_the_text_once(played: Seen) -> None:
    """The skill is in the user's message; loading it brings a notice."""
    seen = of(played, "commanded")
    (told,) = map(json.loads, results(seen["rows"], "skill_view"))
    assert told["already_active"] is True
    assert seen["body"].strip() in texts(seen["sent"][-1])
    assert ["SkillAvailable alpha", "SkillRequired alpha"] == seen["stood"][0]


# -- once only --------------------------------------------------------------------------------------------------------


def test_r1_s16_a_skill_of_ten_thousand_characters_twenty_times(played: Seen) -> None:
    """S02, S16: one body in what the model is sent, and at least nine tenths fewer skill tokens than without us."""
    seen, without = of(played, "repeated"), of(played, "repeated_without")
    last = results(seen["sent"][-1], "skill_view")
    assert 20 == len(last)
    assert 1 == sum(seen["body"] in str(json.loads(said).get("content")) for said in last)
    assert ["already_active"] * 19 == [key for said in last for key in json.loads(said) if key == "already_active"]
    ours, theirs = skill_tokens(seen["sent"][-1]), skill_tokens(without["sent"][-1])
    assert 20 * len(seen["body"]) // 4 < theirs
    assert ours <= 0.1 * theirs, f"{ours} tokens of skills with us, {theirs} without"


def test_r5_off_is_as_without_us(played: Seen) -> None:
    """Without the observer the host's built-in sends byte for byte what it sends by itself."""
    ours, alone = of(played, "repeated_without"), of(played, "repeated_alone")
    assert [_plain(request) for request in alone["sent"]] == [_plain(request) for request in ours["sent"]]


def _plain(request: list[Seen]) -> list[Any]:
    return [(row["role"], row.get("content"), row.get("tool_calls")) for row in request if row["role"] != "system"]


def test_r2_r3_only_the_newest_version_counts(played: Seen) -> None:
    """Freshness by hash: a change is delivered, under its hash, and from then on the older text is metadata."""
    seen = of(played, "changing")
    assert seen["first"] == json.loads(results(seen["sent"][1], "skill_view")[0])["content"]
    told = [json.loads(said) for said in results(seen["sent"][4], "skill_view")]
    assert (True, None) == (told[0]["superseded"], told[0].get("content"))
    assert (True, hash_of(seen["second"])) == (told[1]["updated_active_context"], told[1]["hash"])
    assert seen["second"] == told[1]["content"]
    assert told[2]["already_active"] is True  # by its category and name, the same skill
    assert "The API of alpha" in told[3]["content"]
    after = {(entry.file, entry.state) for entry in scan(seen["sent"][-1])}
    assert {(None, "available"), ("references/api.md", "available")} == after
    assert 1 <= seen["compactions"]
    assert seen["first"] not in "".join(results(seen["sent"][-1], "skill_view"))


def test_r4_the_transcript_can_keep_every_text(played: Seen) -> None:
    """What the host keeps is whole, what the model is sent has each text once, in its newest version."""
    seen = of(played, "audited")
    kept = [json.loads(said).get("content") for said in results(seen["rows"], "skill_view")]
    assert [seen["first"], seen["first"], seen["second"], seen["second"]] == kept
    second = [json.loads(said) for said in results(seen["sent"][2], "skill_view")]
    assert [seen["first"], None] == [told.get("content") for told in second]
    last = [json.loads(said) for said in results(seen["sent"][-1], "skill_view")]
    assert [None, None, seen["second"], None] == [told.get("content") for told in last]
    assert [True, True] == [last[0]["superseded"], last[3]["already_active"]]
    assert ["SkillAvailable alpha", "SkillRequired alpha"] == seen["stood"][-1]


# -- the others -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_kept_texts_can_stand_in_one_block(more: Seen) -> None:
    """One entry a skill in the summary; its row is a notice; the model sees the text once."""
    seen = of(more, "kept_in_block")
    said = texts(seen["sent"][-1])
    assert (1, 1) == (said.count("<active_skills>"), said.count(seen["body"]))
    assert [] == seen["problems"]
    assert all("LoopInvalid" not in " ".join(stood) for stood in seen["stood"])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "said"), [("warned", 1), ("block_off", 0)])
def test_other_modes_hold_nothing_back(more: Seen, name: str, said: int) -> None:
    """`warn` says it once beside a result, `off` says nothing; the tools run."""
    seen = of(more, name)
    assert ["batch.out", "early.out", "late.out"] == seen["written"]
    assert said == sum("[Skills: The text of alpha" in row for row in results(seen["rows"], "write_file"))


@pytest.mark.slow
def test_nobody_waits_for_a_skill_whose_file_is_gone(more: Seen) -> None:
    """It cannot be loaded, so nothing is held back; it stays known as pruned."""
    seen = of(more, "gone_file")
    assert ["early.out"] == seen["written"]
    assert ["SkillPruned", "SkillRequired"] == [fact.partition("(")[0] for fact in seen["stands"]]


@pytest.mark.slow
def test_p5_no_uncontrolled_loop_over_ten_compactions(more: Seen) -> None:
    """One reload and one tool held back for each loss, one section in each request, and the work gets done."""
    seen = of(more, "ten")
    assert 10 <= seen["compactions"]
    assert [f"done{number}.out" for number in range(10)] == seen["written"]
    assert all(texts(request).count(LOADED) <= 1 for request in seen["sent"])
    assert all(texts(request).count(seen["body"]) <= 1 for request in seen["sent"])


@pytest.mark.slow
def test_p7_a_part_is_pruned(more: Seen) -> None:
    """The host puts a huge result elsewhere: the hook saw it whole, the model does not, and nobody has to wait for it."""
    seen = of(more, "partial")
    assert "<persisted-output>" in results(seen["rows"], "skill_view")[0]
    assert "SkillPruned huge" in seen["stood"][1]
    assert all("SkillAvailable" not in " ".join(stood) for stood in seen["stood"])
    assert ["a.out"] == seen["written"]
    assert any(fact.startswith("SkillTooLarge") for fact in seen["stands"])


@pytest.mark.slow
def test_s04_a_failed_load_is_none(more: Seen) -> None:
    """S04: the retry brings the text."""
    failed, loaded = map(json.loads, results(of(more, "failing")["rows"], "skill_view"))
    assert (False, True) == (failed["success"], "content" in loaded)


@pytest.mark.slow
def test_s05_sessions_load_for_themselves(more: Seen) -> None:
    """S05: the second session gets the body, too."""
    seen = of(more, "two_sessions")
    for name in ("first", "second"):
        (told,) = map(json.loads, results(seen[name]["rows"], "skill_view"))
        assert "content" in told


@pytest.mark.slow
def test_a_budget_lets_go_of_what_was_used_longest_ago(more: Seen) -> None:
    """Pinned ones stay; what goes is marked like any other."""
    seen = of(more, "evicting")
    states = {word.split()[1]: word.split()[0] for word in seen["stood"][-1] if "Required" not in word}
    assert ("SkillAvailable", "SkillPruned") == (states["one"], states["two"])
    assert "yes" in next(line for line in seen["shown"].splitlines() if seen["sid"] in line and " one " in line)
    assert f"name=two ({len(results(seen['sent'][4], 'skill_view')[1]):,} chars) {PRUNED}" in texts(seen["sent"][-1])
