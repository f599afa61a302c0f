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
from engines.transcript import check, said_by_user, text_of
from tests.skill_rows import LOOKALIKES, drafts, system, talks, user, work

NEED = st.lists(st.sampled_from(["alpha", "beta", "gamma", "nobody"]), max_size=2, unique=True)


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
    before, draft, need = Messages.of(rows), data.draw(drafts(rows)), data.draw(NEED)
    room, block = data.draw(st.sampled_from([0, 1_000])), data.draw(st.booleans())
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
    assert {entry.key for entry in entries} <= {entry.key for entry in after}
    for row in before:
        if said_by_user(row) and row in draft:
            assert row in made


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
