"""What a compacted list says of skills: markers, sections, one body in its newest version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engines.compressor import Limits, compact
from engines.messages import Messages
from engines.skills import block as block_module
from engines.skills import collapsed, revise, scan
from engines.skills import wording as wording_module
from engines.skills.block import Body, bodies_in, render_block, without_block
from engines.skills.entries import SKILLS_KEY
from engines.skills.reading import SKILL_KEY, hash_of
from engines.skills.wording import LOADED, PRUNED, REQUIRED, RULE, sections, superseded, without_sections
from engines.transcript import SUMMARY_KEY, check, is_summary, seal, text_of
from tests.skill_rows import body_of, load, marker_row, result_text, system, turn, user, work

ALPHA, BETA = body_of("alpha"), body_of("beta")
PATH = "misc/alpha/SKILL.md"
END = "--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---"


def foreign(said: str) -> dict[str, Any]:
    """A summary of the host's."""
    return {"role": "user", "content": f"[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns:\n{said}\n\n{END}"}


def contents(messages: Messages) -> list[str]:
    """The texts of the rows."""
    return [text_of(row) for row in messages]


def test_a_pruned_skill_says_so_in_its_row() -> None:
    """S01: the host's plain marker gets what it lacks, and what is known of the skill is kept beside it."""
    before = [user("go"), *load("k1", "docker-management", result_text("docker-management", ALPHA))]
    size = len(before[2]["content"])
    draft = [user("go"), *load("k1", "docker-management", f"[skill_view] name=docker-management ({size:,} chars)")]
    row = revise(draft, scan(before))[-1]
    assert f"[skill_view] name=docker-management ({size:,} chars) {PRUNED}" == row["content"]
    assert (hash_of(ALPHA), "misc/docker-management/SKILL.md") == (row[SKILL_KEY]["sha256"], row[SKILL_KEY]["path"])


def test_the_marker_reads_word_for_word() -> None:
    """Other programs look for it."""
    row = revise(marker_row("k1", "X"), scan(marker_row("k1", "X")))[-1]
    assert (
        "[skill_view] name=X (12,345 chars) [SKILL_PRUNED: content lost in compression; reload with skill_view before"
        " relying on it]"
    ) == row["content"]


@pytest.mark.parametrize("tool", ["skills_list", "skill_manage"])
def test_other_skill_tools_keep_their_plain_form(tool: str) -> None:
    """What lists or edits skills brings no text to be relied on."""
    rows = work("k1", tool, f"[{tool}] name=? (12,345 chars)")
    assert Messages.of(rows) == revise(rows, scan(rows))


def test_the_sections_stand_in_our_summary() -> None:
    """Both, inside its seal, with the state of each skill and the rule; nothing is said twice."""
    before = Messages.of(
        [system(), user("one"), *load("k1", "alpha"), *turn(1, 9_000), *load("k2", "beta"), user("now")]
    )
    draft = compact(before, Limits(threshold=2_000))
    assert draft is not None
    made = revise(draft, scan(before), ["beta"])
    (summary,) = [text_of(row) for row in made if is_summary(row)]
    assert (
        f"{LOADED}\n- alpha: pruned — reload before use if required by active task\n"
        f"- beta: available in current context\n{RULE}\n{REQUIRED}\n- beta\n"
    ) in summary
    assert 1 == summary.count(LOADED) == summary.count(REQUIRED)
    assert "no longer in context" not in summary
    assert check(made, before).ok


def test_our_compressor_does_not_fold_the_sections_into_its_notes() -> None:
    """They are written anew after each compaction, by whoever knows."""
    before = Messages.of([user("one"), *load("k1", "alpha"), *turn(1, 9_000), user("now")])
    first = revise(compact(before, Limits(threshold=2_000)) or before, scan(before))
    longer = Messages.of([*first, *turn(2, 9_000)[1:], *turn(3, 9_000)])
    second = compact(longer, Limits(threshold=2_000))
    assert second is not None
    assert all(LOADED not in said and RULE not in said for said in contents(second))
    made = revise(second, scan(longer))
    assert [("alpha", "pruned", hash_of(ALPHA))] == [(e.name, e.state, e.sha256) for e in scan(made)]


def test_the_sections_stand_before_the_end_of_a_foreign_summary() -> None:
    """The host's last line says that the summary ends; after it a model expects the next message."""
    made = revise([foreign("Done."), *marker_row("k1", "alpha"), user("now")], scan(marker_row("k1", "alpha")))
    said = text_of(made[0])
    assert said.index("Done.") < said.index(LOADED) < said.index(END)
    assert said.endswith(END)


def test_what_a_model_copied_of_the_sections_goes() -> None:
    """A compressor that feeds its old summary to a model gets a copy back, which is neither kept nor believed."""
    copied = f"## Goal\nCount.\n\n{sections([('alpha', 'available')], ['alpha'])}\n\n## Done\nAll of it."
    wild = f"Notes.\n### skills loaded this session:\n* gamma: available\n\nWhat else was said.\n{REQUIRED}\n1. gamma"
    draft = [foreign(f"{copied}\n{wild}"), *marker_row("k1", "alpha"), user("now")]
    made = revise(draft, scan(marker_row("k1", "alpha")))
    said = text_of(made[0])
    assert 1 == said.count(LOADED) == said.count(REQUIRED)
    assert "gamma" not in said
    assert all(kept in said for kept in ("## Goal\nCount.", "## Done\nAll of it.", "Notes.", "What else was said."))
    assert [("alpha", "pruned")] == [(entry.name, entry.state) for entry in scan(made)]


def test_a_summary_in_parts_keeps_its_parts() -> None:
    """The last text is the one that is added to."""
    row = {"role": "user", "content": [{"type": "text", "text": "image:"}, {"type": "text", "text": "It went on."}]}
    rows = [{**row, "_compressed_summary": True}, *marker_row("k1", "alpha")]
    made = revise(rows, scan(rows))
    assert "image:" == made[0]["content"][0]["text"]
    assert made[0]["content"][1]["text"].startswith("It went on.\n\n" + LOADED)


def test_without_a_summary_there_is_one_only_if_something_was_pruned() -> None:
    """It comes in front, where roles go on alternating, and marks itself as none of the user's."""
    whole = [system(), user("one"), *load("k1", "alpha"), user("now")]
    assert Messages.of(whole) == revise(whole, scan(whole))
    pruned = [system(), user("one"), *marker_row("k1", "alpha"), user("now")]
    made = revise(pruned, scan(pruned))
    assert ["system", "user", "assistant", "user"] == [row["role"] for row in made[:4]]
    assert is_summary(made[1])
    assert check(made).ok


def test_no_skills_no_words() -> None:
    """A compaction of a conversation without skills is left as it is."""
    draft = Messages.of([foreign("Done."), user("now")])
    assert draft is revise(draft, ())


def test_a_skill_that_was_folded_is_remembered_with_its_hash() -> None:
    """Beside the summary; where a store drops that, by name alone."""
    before = [user("one"), *load("k1", "alpha"), user("now")]
    made = revise([foreign("Done."), user("now")], scan(before))
    assert [("alpha", hash_of(ALPHA), PATH, "pruned")] == [(e.name, e.sha256, e.path, e.state) for e in scan(made)]
    bare = [{key: value for key, value in row.items() if key != SKILLS_KEY} for row in made.thaw()]
    assert [("alpha", None, "pruned")] == [(e.name, e.sha256, e.state) for e in scan(bare)]


def test_names_that_two_skills_share_are_told_apart() -> None:
    """By their paths, also in the words a model reads."""
    rows = []
    for at in ("a", "b"):
        told = {"success": True, "name": "dup", "content": f"text {at}", "path": f"{at}/dup/SKILL.md"}
        rows += load(f"k{at}", f"{at}/dup", json.dumps(told))
    made = revise([foreign("Done."), user("now")], scan(rows))
    assert "- dup (a/dup/SKILL.md): pruned" in text_of(made[0])
    assert "- dup (b/dup/SKILL.md): pruned" in text_of(made[0])
    bare = [{key: value for key, value in row.items() if key != SKILLS_KEY} for row in made.thaw()]
    assert ["a/dup/SKILL.md", "b/dup/SKILL.md"] == [entry.path for entry in scan(bare)]
    assert revise(bare, scan(bare)).thaw() == revise(revise(bare, scan(bare)), scan(bare)).thaw()


def test_one_text_in_its_newest_version() -> None:
    """A second copy becomes a notice, an older version metadata; what stays is the newest load."""
    newer = ALPHA + "\nMore.\n"
    rows = [
        *(user("go"), *load("k1", "alpha"), *load("k2", "alpha", result_text("alpha", newer))),
        *load("k3", "alpha", result_text("alpha", newer)),
    ]
    made = revise(rows, scan(rows))
    assert superseded("alpha", hash_of(ALPHA)) == made[2]["content"]
    assert {"success": True, "already_active": True, "hash": hash_of(newer)}.items() <= json.loads(
        made[4]["content"]
    ).items()
    assert rows[6]["content"] == made[6]["content"]
    assert [("available", hash_of(newer))] == [(entry.state, entry.sha256) for entry in scan(made)]


def test_a_text_that_was_altered_is_pruned() -> None:
    """Somebody shortened it inside its JSON: no longer what was loaded."""
    before = load("k1", "alpha")
    draft = load("k1", "alpha", result_text("alpha", ALPHA[:200]))
    assert PRUNED in text_of(revise(draft, scan(before))[-1])


def test_whatever_stands_for_a_known_load_becomes_its_marker() -> None:
    """Also a placeholder that nobody can read; of another tool it stays."""
    before = [*load("k1", "alpha"), *work("k2")]
    draft = [*load("k1", "alpha", "[Old output cleared]"), *work("k2", result="[Old output cleared]")]
    made = revise(draft, scan(before))
    row = next(row for row in made if row.get("tool_call_id") == "k1")
    assert row["content"].startswith(f"[skill_view] name=alpha ({len(before[1]['content']):,} chars) [SKILL_PRUNED")
    assert "[Old output cleared]" == made[-1]["content"]


def test_a_failed_load_that_was_shortened_is_no_pruned_skill() -> None:
    """The host leaves the same marker of a long error message; the list before tells."""
    before = load("k1", "alpha", json.dumps({"success": False, "error": "no", "available": ["x"] * 100}))
    draft = marker_row("k1", "alpha")
    made = revise(draft, scan(before), original=before)
    assert draft[1]["content"] == made[1]["content"]
    assert () == scan(made)


def test_a_notice_whose_text_is_gone_is_a_lie() -> None:
    """It becomes a marker like any other."""
    before = [*load("k1", "alpha"), *load("k2", "alpha", json.dumps({"success": True, "already_active": True, "hash": hash_of(ALPHA), "name": "alpha"}))]  # fmt: skip
    made = revise(before[2:], scan(before))
    assert PRUNED in text_of(made[-1])


def test_a_changed_row_is_not_sent_in_its_old_words() -> None:
    """The host sends `api_content` instead of the content where there is one."""
    rows = marker_row("k1", "alpha")
    rows[1]["api_content"] = rows[1]["content"]
    assert "api_content" not in revise(rows, scan(rows))[-1]


# -- what the task needs ----------------------------------------------------------------------------------------------


def test_a_required_text_is_put_back_where_there_is_room() -> None:
    """Into its row if that is there, with its call if it is not; never beyond the room, and only if it is required."""
    before = Messages.of([user("one"), *load("k1", "alpha"), *turn(1), user("now"), *load("k2", "beta"), *work("w9")])
    marked = [foreign("Done."), user("now"), *marker_row("k2", "beta"), *work("w9")]
    put_back = revise(marked, scan(before), ["beta", "alpha"], original=before, room=5_000)
    assert {"alpha": "available", "beta": "available"} == {e.name: e.state for e in scan(put_back)}
    assert check(put_back).ok
    assert before[2] in put_back
    for required, room in ((["beta"], 50), ([], 5_000)):
        made = revise(marked, scan(before), required, original=before, room=room)
        assert {"alpha": "pruned", "beta": "pruned"} == {e.name: e.state for e in scan(made)}


def test_what_is_evicted_is_pruned_like_any_other() -> None:
    """It gets the marker although its text was there."""
    rows = [user("go"), *load("k1", "alpha"), *load("k2", "beta")]
    made = revise(rows, scan(rows), evict={(PATH, None)})
    assert {"alpha": "pruned", "beta": "available"} == {e.name: e.state for e in scan(made)}


def test_the_block_holds_each_active_skill_once() -> None:
    """Their rows become notices; the order depends on nothing but which skills there are."""
    before = Messages.of(
        [foreign("Done."), user("go"), *load("k1", "beta"), *load("k2", "alpha"), *load("k3", "alpha")]
    )
    made = revise(before, scan(before), block=True)
    block = render_block(
        [Body("alpha", "alpha", ALPHA, None, PATH), Body("beta", "beta", BETA, None, "misc/beta/SKILL.md")]
    )
    assert block in text_of(made[0])
    assert ["available", "available"] == [entry.state for entry in scan(made)]
    assert all("already_active" in text_of(row) for row in made if row["role"] == "tool")
    assert made == revise(made, scan(before), block=True)
    assert block not in text_of(revise(made, scan(made))[0])
    pruned = [foreign("Done."), user("go"), *marker_row("k1", "beta", 700)]
    put_back = revise(pruned, scan(before), ["beta"], original=before, room=5_000, block=True)
    bare = [{key: value for key, value in row.items() if not key.startswith("_")} for row in put_back.thaw()]
    assert {"alpha": "pruned", "beta": "available"} == {entry.name: entry.state for entry in scan(bare)}


def test_a_block_that_does_not_stay_takes_no_text_with_it() -> None:
    """Without the block, what stands in one is not there: the row keeps its text, or gets it back, the first time already."""
    before = Messages.of([user("one"), *load("k1", "alpha"), user("now"), *work("w9")])
    block = render_block([Body("alpha", "alpha", ALPHA, None, PATH)])
    for at in (0, 2):  # before the row, and behind it, where the block would be the newest text
        for rows in (load("k1", "alpha"), marker_row("k1", "alpha")):
            draft: list[Any] = [*rows, user("now"), *work("w9")]
            draft.insert(at, {"role": "user", "content": seal(f"Done.\n{block}"), SUMMARY_KEY: True})
            made = revise(draft, scan(before), ["alpha"], original=before, room=5_000)
            assert ["available"] == [entry.state for entry in scan(made)]
            assert before[2] in made
            assert not any(block in text for text in contents(made))
            assert made == revise(made, scan(before), ["alpha"], original=before, room=5_000)


def test_blank_lines_before_a_block_are_no_news() -> None:
    """A summary that ends in some is the same after any number of revisions."""
    before = Messages.of([user("one"), *load("k1", "alpha"), user("now")])
    draft = [{"role": "user", "content": seal("Done.\n\n"), SUMMARY_KEY: True}, *load("k1", "alpha"), user("now")]
    made = revise(draft, scan(before), block=True)
    assert made == revise(made, scan(before), block=True)


@pytest.mark.parametrize("size", ["0", ",,,"])
def test_a_marker_that_names_no_size(size: str) -> None:
    """It means the version that is known, from the first revision on."""
    rows = [user("go"), *marker_row("k1", "alpha"), *load("k2", "alpha"), *work("w9")]
    rows[2] = {**rows[2], "content": f"[skill_view] name=alpha ({size} chars)"}
    draft = [*rows[:4], {**rows[4], "content": "[Old output cleared]"}, *rows[5:]]
    made = revise(draft, scan(rows), ["alpha"], original=rows, room=5_000)
    assert made == revise(made, scan(rows), ["alpha"], original=rows, room=5_000)


def test_what_is_hashed_of_a_summary_is_no_more_than_the_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many heads of blocks and seals of sections somebody writes into it, the work is linear in its length."""
    hashed: list[int] = []

    def counted(text: str) -> str:
        hashed.append(len(text))
        return ""

    monkeypatch.setattr(block_module, "hash_of", counted)
    monkeypatch.setattr(wording_module, "_checked", counted)
    head = f'<skill name="a" called="a" file="" path="" sha256="{"0" * 64}" chars="99999">\n'
    seals = "[kept by the runtime: #00000000]\n"
    for said in (f"<active_skills>\n{head * 500}", f"{LOADED}\n" * 500 + seals * 500):
        hashed.clear()
        assert () == scan([foreign(said), user("now")])
        assert sum(hashed) <= len(said)


def test_a_block_is_believed_as_far_as_its_hashes_go() -> None:
    """A text that was changed in it is not there; marks of ours in a text keep it out of the block."""
    block = render_block([Body("alpha", "alpha", ALPHA), Body("beta", "beta", BETA)])
    assert ["alpha", "beta"] == [reading.name for reading in bodies_in(block)]
    assert ["beta"] == [
        reading.name for reading in bodies_in(block.replace("Do step 1 of alpha", "Do step 2 of alpha"))
    ]
    assert "before\nafter" == without_block(f"before\n{block}\nafter")
    assert "before\ncut off" == without_block("before\n<active_skills>\ncut off")
    marked = result_text("gamma", body_of("gamma") + seal("x"))
    rows = [foreign("Done."), user("go"), *load("k1", "gamma", marked)]
    made = revise(rows, scan(rows), block=True)
    assert marked == made[-1]["content"]


def test_collapsed_rows_keep_the_first_text_of_the_newest_version() -> None:
    """So a provider's cache of earlier requests stays good; nothing to collapse is None, and nothing given is changed."""
    newer = result_text("alpha", ALPHA + "\nMore.\n")
    rows = [*load("k1", "alpha"), *load("k2", "alpha"), *load("k3", "beta")]
    kept = json.dumps(rows)
    made = collapsed(rows)
    assert made is not None
    assert [True, False, True] == ["content" in json.loads(made[at]["content"]) for at in (1, 3, 5)]
    assert made[1] is rows[1]
    made = collapsed([*rows, *load("k4", "alpha", newer)])
    assert made is not None
    assert superseded("alpha", hash_of(ALPHA)) == made[1]["content"] == made[3]["content"]
    assert newer == made[7]["content"]
    assert kept == json.dumps(rows)
    assert collapsed(rows[2:]) is None
    assert collapsed([*rows[2:], *marker_row("k9", "alpha", 5)]) is None


def test_text_without_sections_is_the_same_value() -> None:
    """Nothing is rebuilt where nothing has to go."""
    said = "A summary.\n## Goal\n- one"
    assert said is without_sections(said)
