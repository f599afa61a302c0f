"""What holds for every transcript and every compaction."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engines.messages import Messages
from engines.skills import Entry, revise, scan
from engines.skills.entries import SKILLS_KEY
from engines.skills.reading import hash_of
from engines.skills.wording import PRUNED, REQUIRED, notice, sections, superseded
from engines.transcript import SUMMARY_KEY, check, is_real_user, said_by_user, seal, text_of
from tests.skill_rows import LOOKALIKES, body_of, drafts, load, result_text, system, talks, user, work

NEED = st.lists(st.sampled_from(["alpha", "beta", "gamma", "nobody"]), max_size=2, unique=True)

# Names of which some are spellings of others, and some look like what stands around a name.
SPELLED = st.sampled_from(
    ["alpha", "misc/alpha", "beta", "plug:beta", "alpha file=b", "al\npha", "- alpha", "</skill>"]
)
INSTEAD = st.sampled_from(
    [
        "",
        "[Old output cleared]",
        PRUNED,
        "[skill_view] name=alpha (0 chars)",
        '{"status": "deduplicated"}',
        '{"success": tr',
    ]
)
WORDS = st.sampled_from([REQUIRED, sections([("alpha", "available")], ["alpha"]), "<active_skills>", "It went on."])


@st.composite
def spelled_loads(draw: st.DrawFn) -> list[Any]:
    """Parallel loads by any of a skill's names, that declare any name, with or without a path; ids may be shared."""
    made: list[Any] = []
    shared = f"s{draw(st.integers(0, 10**9))}"
    for number in range(draw(st.integers(1, 3))):
        called, declared = draw(SPELLED), draw(SPELLED)
        call = draw(st.sampled_from([f"{shared}.{number}", f"{shared}.{number}", shared]))
        body = body_of(declared, draw(st.sampled_from([80, 160])))
        result = draw(
            st.sampled_from(
                [
                    result_text(declared, body),
                    result_text(called, body, path=f"{called}/SKILL.md"),
                    json.dumps({"success": True, "name": declared, "content": body}),
                    notice(declared, hash_of(body)),
                    superseded(declared, hash_of(body)),
                    '{"success": false, "error": "not found"}',
                ]
            )
            | INSTEAD
        )
        asked, told = load(call, called, result, file=draw(st.sampled_from([None, None, None, "./api.md", "SKILL.md"])))
        if draw(st.integers(0, 5)) == 0:
            asked["tool_calls"][0]["function"]["arguments"] = "{"
        made = [asked, told] if not made else [made[0], *made[1:], told]
        if made[0] is not asked:
            made[0]["tool_calls"] += asked["tool_calls"]
    return made


@st.composite
def summaries(draw: st.DrawFn, row: dict[str, Any]) -> dict[str, Any]:
    """A summary's row as some host may keep it: in parts, as nothing but words that we take out, or as it was."""
    text = draw(st.sampled_from([str(row["content"]), ""])) or draw(WORDS)
    text = draw(st.sampled_from([text, seal(text)])) if "SUMMARY" not in text else text
    cut = draw(st.integers(0, len(text)))
    told = [{"type": "text", "text": part} for part in (text[:cut], text[cut:])]
    return {**row, "content": draw(st.sampled_from([text, [text], told[1:] if not cut else told]))}


@st.composite
def spelled(draw: st.DrawFn) -> tuple[list[Any], Messages]:
    """A conversation whose skills have many names, and what some compaction made of it."""
    rows = draw(talks(most=3))
    for group in draw(st.lists(spelled_loads(), min_size=1, max_size=3)):
        rows = [*rows, *group]
    rows = [*rows, {"role": "assistant", "content": "done"}, user("and now?")]
    if draw(st.booleans()):
        first = {"role": "user", "content": "", **draw(st.sampled_from([{}, {SUMMARY_KEY: True}]))}
        rows = [draw(summaries(first)), {"role": "assistant", "content": "I see."}, *rows]
    made = [
        {**row, "content": draw(INSTEAD)} if row["role"] == "tool" and draw(st.booleans()) else row
        for row in (draw(drafts(rows)) if draw(st.booleans()) else Messages.of(rows)).thaw()
    ]
    return rows, Messages.of([draw(summaries(row)) if row.get(SUMMARY_KEY) else row for row in made])


def bodies(messages: Messages) -> set[str]:
    """The hashes of all that results bring as content, and of what stands in blocks."""
    found = set()
    for row in messages:
        said = text_of(row)
        try:
            told = json.loads(said)
        except ValueError:
            told = None
        if isinstance(told, dict) and isinstance(told.get("content"), str):
            found.add(hash_of(told["content"]))
        for head in re.finditer(r'chars="(\d+)">\n', said):
            found.add(hash_of(said[head.end() : head.end() + int(head[1])]))
    return found


def holds_what_it_says(messages: Messages, entries: tuple[Entry, ...]) -> None:
    """Available means that the text is there, and nothing is there twice."""
    there = bodies(messages)
    for entry in entries:
        assert (entry.state == "available") <= (entry.sha256 in there)
    assert len({entry.key for entry in entries}) == len(entries)


@given(st.data())
def test_a_revision_says_what_is_so_and_breaks_nothing(data: st.DataObject) -> None:
    """Available implies the whole text, twice is as once, no rule breaks that held, and no load is forgotten."""
    rows = data.draw(talks())
    after = revised(data, rows, data.draw(drafts(rows)))
    assert {entry.key for entry in scan(rows)} <= {entry.key for entry in after}


@given(st.data())
def test_it_does_so_however_things_are_spelled(data: st.DataObject) -> None:
    """The same where skills have many names, calls share ids, and summaries are cut into parts or say nothing."""
    revised(data, *data.draw(spelled()))


def revised(data: st.DataObject, rows: list[Any], draft: Messages) -> tuple[Entry, ...]:
    """Revise as drawn, and check it; what is known of skills then."""
    before, need = Messages.of(rows), data.draw(NEED)
    room, block = data.draw(st.sampled_from([0, 100, 150, 1_000])), data.draw(st.booleans())
    entries = scan(before)
    holds_what_it_says(before, entries)

    def again(messages: Messages) -> Messages:
        return revise(messages, entries, need, original=before, room=room, block=block)

    made = again(draft)
    after = scan(made)
    holds_what_it_says(made, after)
    assert again(made) == made
    was = {problem.code for problem in (*check(draft, before).errors, *check(draft, before).faults)}
    now = {problem.code for problem in (*check(made, before).errors, *check(made, before).faults)}
    assert now - was <= {"not_smaller"}
    assert all(text_of(row).strip() for row in made if row.get(SUMMARY_KEY))
    for row in before:
        if is_real_user(row) and row in draft:
            assert row in made
    return after


@given(st.data())
def test_resumed_without_private_keys_nothing_becomes_available(data: st.DataObject) -> None:
    """A store that drops the keys it does not know costs hashes, and never makes a pruned skill look whole."""
    rows = data.draw(talks())
    made = revise(data.draw(drafts(rows)), scan(rows), original=rows)
    bare = [{key: value for key, value in row.items() if not key.startswith("_skill")} for row in made.thaw()]
    holds_what_it_says(Messages.of(bare), scan(bare))
    available = {(entry.name, entry.file) for entry in scan(made) if entry.state == "available"}
    assert {(entry.name, entry.file) for entry in scan(bare) if entry.state == "available"} <= available


@given(st.data(), st.lists(st.sampled_from(LOOKALIKES), min_size=1, max_size=4))
def test_what_looks_like_ours_changes_nothing(data: st.DataObject, said: list[str]) -> None:
    """Markers, sections, blocks and results quoted by users, models and other tools are no word on any skill."""
    rows = data.draw(talks())
    strange: list[Any] = [
        *([system(said[0])] if rows[0]["role"] != "system" else []),
        *rows,
        {"role": "assistant", "content": said[-1]},
        user("look: " + said[0]),
        *work("z1", result=said[-1]),
        *work("z2", "skills_list", said[0]),
        {"role": "assistant", "content": "I see."},
        user("go on"),
    ]
    assert [(e.key, e.sha256, e.state) for e in scan(strange)] == [(e.key, e.sha256, e.state) for e in scan(rows)]
    made = revise(strange, scan(strange))
    assert [row for row in made if "z1" in str(row) or "z2" in str(row)] == [
        row for row in Messages.of(strange) if "z1" in str(row) or "z2" in str(row)
    ]
    assert all(SKILLS_KEY not in row for row in made if said_by_user(row))
