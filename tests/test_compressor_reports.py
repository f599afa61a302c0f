"""Public bug reports about compaction, as inputs with the right answer; each test names its report."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from engines.compressor import Limits, compact, plan_compaction, prompt_for
from engines.compressor.outcome import PRUNED
from engines.compressor.text import parse
from engines.messages import Messages
from engines.skills.wording import PRUNED as MARK
from engines.transcript import (
    SUMMARY_END,
    SUMMARY_HEAD,
    SUMMARY_KEY,
    check,
    estimate_tokens,
    groups,
    is_bridge,
    is_summary,
    text_of,
)
from tests.test_transcript_check import A, S, U, call, result

KEY = "sk-test-AAAABBBBCCCCDDDD"


def step(name: str, size: int = 600, *, command: str = "make", text: str | None = None) -> list[dict[str, Any]]:
    """One tool call with a result of `size` characters."""
    function = {"name": "bash", "arguments": json.dumps({"command": f"{command} {name}"})}
    row = {
        "role": "assistant",
        "content": f"I run {command} for {name}.",
        "tool_calls": [{"id": name, "type": "function", "function": function}],
    }
    return [row, result(name, text if text is not None else f"{name}: built\n" + "x" * size)]


def long_chat(steps: int = 40, size: int = 600, last: str = "now finish it") -> list[dict[str, Any]]:
    """One request, many steps, another request."""
    rows = [S, U]
    for number in range(steps):
        rows += step(f"step{number}", size)
    return [*rows, A, {"role": "user", "content": last}]


def compacted(rows: list[Any], threshold: int, **more: Any) -> Messages:
    """Compact rows that have to be compacted, and check the answer."""
    after = compact(rows, Limits(threshold), **more)
    assert after is not None
    report = check(after, rows)
    assert report.ok, str(report)
    return after


def summary_of(rows: Messages) -> str:
    """The text of the one summary."""
    (row,) = [row for row in rows if is_summary(row)]
    return text_of(row)


@pytest.mark.parametrize("rows", [[], [S], [S, U], [S, U, A]])
def test_b20_a_small_or_empty_list_is_declined(rows: list[Any]) -> None:
    """B20: nothing to do is no answer at all, never an empty list."""
    assert compact(rows, Limits(10_000)) is None


def test_b20_what_cannot_shrink_is_declined() -> None:
    """B20, C12: system and user message alone exceed the budget; there is nothing to take away."""
    rows = [{"role": "system", "content": "s" * 9_000}, {"role": "user", "content": "u" * 9_000}]
    assert compact(rows, Limits(1_000)) is None


def test_b27_prose_longer_than_all_it_replaces_does_no_harm() -> None:
    """B27: whatever is handed in as prose, the result is smaller and within its budget."""
    rows = long_chat()
    after = compacted(rows, 8_000, prose="and then " * 50_000)
    assert estimate_tokens(after) <= 3_200


def test_b28_few_but_huge_messages() -> None:
    """B28: eight messages, one of 1.3 million characters: its pair stays valid, the small ones stay as they are."""
    rows = [S, U, *step("a", 1_300_000), *step("b", 50), A, {"role": "user", "content": "and?"}]
    after = compacted(rows, 100_000)
    assert estimate_tokens(after) <= 40_000
    small = [row for row in rows if len(str(row)) < 2_000]
    assert [row for row in after.thaw() if row in small] == small
    (pruned,) = [row for row in after if row.get("tool_call_id") == "a"]
    assert "1,300,009 chars" in pruned["content"]


@pytest.mark.parametrize("running", [False, True])
def test_b28_a_huge_result_at_the_very_end(running: bool) -> None:
    """B28: where the giant is the newest thing, its beginning and end stay; a call that still runs is untouched."""
    rows = [S, U, *step("a", 400_000)]
    if running:
        rows += [call("open")]
    after = compacted(rows, 10_000)
    assert estimate_tokens(after) <= 4_000
    if running:
        assert after[-1] == rows[-1]
    else:
        assert after[-1]["tool_call_id"] == "a"
        assert after[-1]["content"].startswith("a: built")
        assert "characters left out" in after[-1]["content"]
        assert after[-1]["content"].endswith("xxx")


def test_b28_a_huge_answer_at_the_very_end() -> None:
    """B28: a giant text of the assistant that is the newest message keeps beginning and end too."""
    after = compacted([S, U, {"role": "assistant", "content": "begin " + "z" * 200_000 + " end"}], 6_000)
    assert after[-1]["content"].startswith("begin")
    assert after[-1]["content"].endswith(" end")


def test_c12_a_tiny_window_never_grows() -> None:
    """C12: where a summary would be larger than what it replaces, nothing is done."""
    rows = [S, U, {"role": "assistant", "content": "word " * 60}, {"role": "user", "content": "and now?"}]
    after = compact(rows, Limits(150))
    assert after is None or estimate_tokens(after) < estimate_tokens(rows)


def test_c14_without_a_summariser_nothing_vanishes_behind_a_placeholder() -> None:
    """C14: 124 messages; user asks, tool names, commands and paths are still there."""
    rows = [S]
    for number in range(20):
        rows += [
            {"role": "user", "content": f"please repair src/part{number}/main.py"},
            *step(f"t{number}", 300, command=f"pytest src/part{number}"),
            A,
        ]
        rows += step(f"v{number}", 200) if number < 12 else []
    rows.append({"role": "user", "content": "all good?"})
    after = compacted(rows, 8_000)
    text = "\n".join(text_of(row) for row in after)
    for number in range(20):
        assert f"src/part{number}/main.py" in text
    assert "pytest src/part3 t3 → " in text
    assert "built" in text


def test_c17_a_window_without_user_messages_is_summarised_from_the_rest() -> None:
    """C17: one request, then sixty tool steps: what they did is in the summary and in a summariser's prompt."""
    rows = [S, U]
    for number in range(60):
        rows += step(f"step{number}", 300)
    after = compacted(rows, 6_000)
    assert "bash: make step" in summary_of(after)
    plan = plan_compaction(Messages.of(rows), Limits(6_000))
    assert plan is not None
    prompt = prompt_for(plan, 3_000)
    assert prompt is not None
    assert "step5: built" in prompt


def test_c18_nothing_but_summaries_and_status_does_not_loop() -> None:
    """C18: an earlier summary and synthetic messages: at most one try, then it is declined until something new comes."""
    first = compacted(long_chat(), 3_000)
    note = {"role": "user", "content": "[status] " + "tick " * 40, "_heartbeat_synthetic": True}
    rows: Any = [S, *[row for row in first if is_summary(row)], *[note] * 30]
    tries = 0
    while (after := compact(rows, Limits(3_000))) is not None:
        rows, tries = after, tries + 1
        assert tries < 3


def test_c23_a_summary_is_not_summarised_as_user_text() -> None:
    """C23: the second compaction updates the first one's summary; no summary is quoted in another."""
    first = compacted(long_chat(), 6_000)
    second = compacted([*first, A, *long_chat(40, last="third")[2:]], 6_000)
    text = summary_of(second)
    assert text.count(SUMMARY_HEAD) == text.count(SUMMARY_END) == 1
    assert parse(text).requests == ("do it", "now finish it")
    assert parse(text).compactions == 2
    assert parse(text).rows > parse(summary_of(first)).rows


@pytest.mark.parametrize("tail", range(1, 9))
def test_m01_m02_groups_are_kept_or_folded_whole(tail: int) -> None:
    """M01, M02: wherever the boundary falls, ten parallel results stay with their call or go with it."""
    ten = [f"c{n}" for n in range(10)]
    rows = [S, U, *step("old", 9_000), call(*ten), *[result(each, "r" * 200) for each in ten]]
    for number in range(tail):
        rows += step(f"t{number}", 200)
    after = compacted([*rows, A], 3_000)
    kept = [row["tool_call_id"] for row in after if row.get("tool_call_id") in ten]
    assert kept in ([], ten)
    assert not any(group.orphan or group.missing for group in groups(after))


@pytest.mark.parametrize(
    "last",
    [
        [{"role": "user", "content": "next"}],
        [{"role": "user", "content": "next"}, A],
        [{"role": "user", "content": "next"}, *step("z", 2_000)],
        [A, {"role": "user", "content": "next"}, A],
        step("z", 200),
        [A],
    ],
)
def test_m05_the_summary_collides_with_no_neighbour(last: list[Any]) -> None:
    """M05: whatever the tail begins with, roles alternate, and the summary is the user's side, marked."""
    after = compacted([*long_chat(30)[:-2], *last], 4_000)
    (summary,) = [row for row in after if is_summary(row)]
    assert summary["role"] == "user"
    roles = [row["role"] for row in after if row["role"] != "tool"]
    assert not [pair for pair in itertools.pairwise(roles) if pair == ("user", "user")]
    assert sum(map(is_bridge, after)) <= 1


def test_m06_the_request_at_hand_stays_word_for_word_after_the_summary() -> None:
    """M06: task A is done, user asks B, forty steps of B fill the tail: B still stands there, whole."""
    request = {"role": "user", "content": "B: " + "do exactly this. " * 30, "id": 7}
    rows = [S, {"role": "user", "content": "task A"}, *step("a"), A, request]
    for number in range(40):
        rows += step(f"b{number}", 500)
    after = compacted(rows, 8_000)
    places = [at for at, row in enumerate(after) if row == request]
    assert len(places) == 1
    assert next(at for at, row in enumerate(after) if is_summary(row)) < places[0]
    assert parse(summary_of(after)).requests == ("task A",)


def test_m09_a_summary_says_that_it_is_no_request() -> None:
    """M09: what was asked first is history; the summary says so, and that the latest message wins."""
    text = summary_of(compacted(long_chat(), 6_000))
    assert text.startswith(SUMMARY_HEAD)
    assert "background, not a request" in text
    assert "Answer the latest user message" in text


def test_m11_none_dict_and_missing_content() -> None:
    """M11: no exception, and what is kept is kept as it is."""
    odd = [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "n", "type": "function", "function": {"name": "f", "arguments": None}}],
        },
        {"role": "tool", "tool_call_id": "n", "content": {"text": "as a dict"}},
        {"role": "assistant", "tool_calls": None},
        {"role": "user", "content": {"text": "a dict too"}},
    ]
    after = compacted([*long_chat()[:-1], *odd], 6_000)
    assert list(after.thaw()[-4:]) == odd


def test_m12_lists_stay_lists() -> None:
    """M12: system blocks with cache control, parts with bare strings, tool content as a list."""
    system = {
        "role": "system",
        "content": [{"type": "text", "text": "be good", "cache_control": {"type": "ephemeral"}}],
    }
    parts = {"role": "user", "content": ["bare", {"type": "text", "text": "part"}]}
    tool = [call("l"), {"role": "tool", "tool_call_id": "l", "content": [{"type": "text", "text": "in a list"}]}]
    after = compacted([system, *long_chat()[1:-1], parts, *tool], 6_000)
    assert after[0] == system
    assert list(after.thaw()[-3:]) == [parts, *tool]


def test_m13_old_images_become_placeholders_and_new_ones_stay() -> None:
    """M13: images cost what they cost; old ones go first, the rest of their message stays."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_000_000}}
    old = {"role": "user", "content": [{"type": "text", "text": "see the first picture"}, image, image]}
    shot = [
        call("s"),
        {"role": "tool", "tool_call_id": "s", "content": [{"type": "text", "text": "screenshot"}, image]},
    ]
    new = {"role": "user", "content": [{"type": "text", "text": "and this"}, image]}
    rows = [S, old, *shot, A, new]
    assert compact(rows, Limits(20_000)) is None
    after = compacted(rows, 10_000)
    assert after[-1] == new
    text = json.dumps(after.thaw()[:-1])
    assert "see the first picture" in text
    assert text.count("[image left out]") == 3
    assert "base64" not in text


def test_m14_the_prompt_for_a_summariser_is_bounded() -> None:
    """M14: 200k tokens against a window of 8k, one message alone larger than it: the prompt fits, or there is none."""
    rows = [S, U, *step("huge", 500_000), *[row for n in range(300) for row in step(f"s{n}", 900)], A, U]
    plan = plan_compaction(Messages.of(rows), Limits(50_000))
    assert plan is not None
    for most in (500, 2_000, 8_000):
        prompt = prompt_for(plan, most)
        assert prompt is None or len(prompt) <= most * 4
    assert prompt_for(plan, 8_000) is not None
    assert prompt_for(plan, 100) is None


def test_m15_a_summary_is_told_by_key_and_by_text() -> None:
    """M15: the key begins with `_`, survives JSON, and where a host strips it the text alone is enough."""
    after = compacted(long_chat(), 6_000)
    (row,) = [row for row in json.loads(json.dumps(after.thaw())) if SUMMARY_KEY in row]
    assert SUMMARY_KEY.startswith("_")
    assert row[SUMMARY_KEY]["compactions"] == 1
    bare = {"role": row["role"], "content": row["content"]}
    assert is_summary(bare)
    again = compacted([S, bare, *long_chat(40, last="third")[1:]], 6_000)
    assert parse(summary_of(again)).compactions == 2


def test_m16_secrets_do_not_reach_a_summary_and_kept_rows_are_untouched() -> None:
    """M16: keys in results, arguments, requests and errors; whatever is kept stays as it was."""
    leaky = [
        {"role": "user", "content": f"use API_KEY={KEY} please"},
        *step("env", text=f"API_KEY={KEY}\nAuthorization: Bearer {KEY}\nValueError: bad token={KEY}\n" + "x" * 500),
        {"role": "assistant", "content": f"The key is {KEY} because it must be.", "tool_calls": [
            {"id": "h", "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": f'curl -H "Authorization: Bearer {KEY}" x'})}}]},
        result("h", f"password: {KEY}"),
    ]  # fmt: skip
    rows = [S, *leaky, *long_chat()[2:], *step("keep", text=f"kept {KEY}")]
    after = compacted(rows, 6_000)
    assert KEY not in summary_of(after)
    assert "[redacted]" in summary_of(after)
    assert after[-1] == rows[-1]
    plan = plan_compaction(Messages.of(rows), Limits(6_000))
    assert plan is not None
    assert KEY not in (prompt_for(plan, 8_000) or "")
    again = compacted([*after, A, *long_chat(40, last="third")[2:]], 6_000)
    assert KEY not in summary_of(again)


def test_s01_a_pruned_skill_names_itself_and_its_mark() -> None:
    """S01: in one line or in the summary, a skill whose text is gone says so."""
    body = json.dumps({"success": True, "name": "docker-management", "content": "# Docker\n" + "advice " * 1_500})
    load = {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "k",
                "type": "function",
                "function": {"name": "skill_view", "arguments": '{"name": "docker-management"}'},
            }
        ],
    }
    rows = [S, U, load, result("k", body), A, {"role": "user", "content": "go"}, *step("x", 30)]
    worn = compacted(rows, 4_000)
    (line,) = [row["content"] for row in worn if row.get("tool_call_id") == "k"]
    assert line.startswith("[skill_view] name=docker-management (")
    assert line.endswith(MARK)
    folded = compacted([*rows[:4], *long_chat()[2:]], 4_000)
    assert f"docker-management {PRUNED}" in summary_of(folded)


@pytest.mark.parametrize(
    "text", ['{"success": false, "error": "no such skill"}', "plain text", '{"success": false, "content": "x"}']
)
def test_s04_a_failed_load_loads_nothing(text: str) -> None:
    """S04: only a load that says it succeeded is a skill."""
    load = {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "k", "type": "function", "function": {"name": "skill_view", "arguments": '{"name": "x"}'}}
        ],
    }
    after = compacted([S, U, load, result("k", text), *long_chat()[2:]], 4_000)
    assert PRUNED not in summary_of(after)


def test_s13_a_linked_file_is_not_the_skill() -> None:
    """S13: a file of a skill is named as that file; a body cut off by the host still counts as loaded."""
    arguments = '{"name": "x", "file_path": "references/api.md"}'
    load = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "k", "type": "function", "function": {"name": "skill_view", "arguments": arguments}}],
    }
    whole = json.dumps({"success": True, "name": "x", "file": "references/api.md", "content": "text " * 300})
    for text in (whole, whole[:900] + "\n[Truncated: tool response was 1,600 chars.]"):
        after = compacted([S, U, load, result("k", text), *long_chat()[2:]], 4_000)
        assert f"x file=references/api.md {PRUNED}" in summary_of(after)
