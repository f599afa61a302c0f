"""Revisions of what is spelled oddly: other names, several names, texts in parts, rows with nothing else in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engines.messages import Messages
from engines.skills import Entry, revise, scan
from engines.skills.entries import Known
from engines.skills.reading import hash_of
from engines.skills.revise import spent_tokens
from engines.skills.wording import LOADED, PRUNED, REQUIRED, notice, sections
from engines.transcript import SUMMARY_KEY, check, seal, split_summary, text_of
from tests.skill_rows import body_of, load, result_text, system, turn, user

ALPHA = body_of("alpha")
SEALED = seal("It went on.\n" + sections([("alpha", "available")], ["alpha"]))


def plain(name: str, body: str) -> str:
    """A result that declares a name and no path."""
    return json.dumps({"success": True, "name": name, "content": body})


def shortened(rows: list[Any], *calls: str, to: str = "[Old output cleared]") -> Messages:
    """The rows with other texts in place of the results of these calls."""
    return Messages.of([{**row, "content": to} if row.get("tool_call_id") in calls else row for row in rows])


def revised(rows: list[Any], draft: Any, required: tuple[str, ...] = (), **more: Any) -> Messages:
    """A revision that is as good done twice, and breaks no rule."""
    entries = scan(rows)
    made = revise(draft, entries, required, original=rows, **more)
    assert made == revise(made, entries, required, original=rows, **more)
    was, now = check(draft, rows), check(made, rows)
    codes = {problem.code for problem in (*was.errors, *was.faults)} | {"not_smaller"}
    assert {problem.code for problem in (*now.errors, *now.faults)} <= codes
    return made


NEWER = plain("alpha", ALPHA + "newer\n")
SPELLED: dict[str, list[Any]] = {
    "another skill's name": [*load("k1", "beta", notice("alpha", hash_of(ALPHA))), *load("k2", "beta"), *load("k3", "alpha", NEWER)],
    "another skill's name and no path": [*load("k1", "alpha"), *load("k2", "beta", plain("alpha", ALPHA)), *load("k3", "beta")],
    "two spellings": [*load("k1", "misc/alpha", plain("alpha", ALPHA)), *load("k2", "alpha", NEWER)],
    "two spellings, one path": [*load("k1", "misc/alpha"), *load("k2", "alpha", NEWER), *load("k3", "misc/alpha", NEWER)],
    "a name like a label": [*load("k1", "alpha file=b", plain("alpha file=b", ALPHA)), *load("k2", "- alpha")],
    "a name over two lines": [*load("k1", "al\npha", plain("al\npha", ALPHA)), *load("k2", "alpha")],
    "a file and its skill's path": [
        *load("k1", "alpha", result_text("alpha", ALPHA), file="api.md"),
        *load("k2", "alpha", plain("alpha", ALPHA), file="./api.md"),
        *load("k3", "alpha", NEWER),
    ],
    "a notice and no hash": [*load("k1", "alpha"), *load("k2", "alpha", '{"status": "deduplicated"}')],
}  # fmt: skip


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("lost", [(), ("k1",), ("k2",), ("k3",), ("k1", "k2"), ("k2", "k3"), ("k1", "k2", "k3")])
@pytest.mark.parametrize("case", SPELLED)
def test_what_a_row_is_about_stays_what_it_was(case: str, lost: tuple[str, ...], block: bool) -> None:
    """A row that was rewritten is about the skill that the result in it was about, whatever that was called."""
    rows = [system(), user("go"), *SPELLED[case], user("on")]
    for to in ("[Old output cleared]", "", f"[skill_view] name=alpha (9 chars) {PRUNED}"):
        for room in (0, 10_000):
            revised(rows, shortened(rows, *lost, to=to), ("alpha",), room=room, block=block)
    gone = [entry.key for entry in scan(rows)][:1]
    revised(rows, Messages.of(rows), evict=gone, block=block)


def test_results_of_one_call_id_are_told_apart() -> None:
    """Calls that share an id are answered in their order, also where nothing readable is left."""
    rows = [user("go"), *load("dup", "alpha"), *load("dup", "beta")]
    rows[1]["tool_calls"] += rows[3]["tool_calls"]
    rows = [rows[0], rows[1], rows[2], rows[4]]
    made = revised(rows, shortened(rows, "dup"))
    assert [
        f"[skill_view] name={name} (" in text_of(row) for name, row in zip(["alpha", "beta"], made[-2:], strict=True)
    ]
    assert {"alpha", "beta"} == {entry.name for entry in scan(made)}


def test_a_load_that_failed_stays_failed() -> None:
    """What a compaction puts in its place makes no skill of it, not even a notice."""
    rows = [user("go"), *load("k1", "alpha", '{"success": false, "error": "not found"}')]
    for to in ("[skill_view] name=alpha (9 chars)", '{"status": "deduplicated"}', notice("alpha", "")):
        assert not scan(revised(rows, shortened(rows, "k1", to=to)))


def test_a_row_of_nothing_has_a_size_once() -> None:
    """The marker for an empty result says 0 characters, also when it is read again."""
    rows = [user("go"), *load("k1", "alpha", '{"success": true, "na')]
    made = revised(rows, shortened(rows, "k1", to=""))
    assert f"[skill_view] name=alpha (0 chars) {PRUNED}" == text_of(made[-1])


def test_the_room_is_given_once() -> None:
    """Texts put back take the same room when it is done again, so that no other one comes in their wake."""
    rows = [user("go"), *load("k1", "alpha"), *load("k2", "beta"), user("on")]
    draft = shortened(rows, "k1", "k2")
    need = ("alpha", "beta")
    room = spent_tokens(rows, scan(rows), need, rows)
    for share in sorted({*range(0, room, 45), room // 2 - 1, room // 2, room - 1, room + 1}):
        made = revised(rows, draft, need, room=share)
        assert spent_tokens(made, scan(rows), need, rows) <= share
        revised(rows, draft, need, room=share, block=True)
    assert {"available"} == {entry.state for entry in scan(revised(rows, draft, need, room=room))}


def test_what_a_user_brought_is_not_gathered() -> None:
    """A user's words stay, so a text in them needs no second copy in the block."""
    said = f'[IMPORTANT: The user has invoked the "alpha" skill, x]\n\n{ALPHA}'
    rows = [user(said), *load("k1", "alpha", plain("alpha", ALPHA)), user("on")]
    draft = [{"role": "user", "content": seal("It went on."), SUMMARY_KEY: True}, *load("k0", "beta"), *rows]
    assert "<active_skills>" not in text_of(revised(rows, shortened(draft, "k0"), ("alpha",), block=True)[0])


@pytest.mark.parametrize("key", [{}, {SUMMARY_KEY: True}])
@pytest.mark.parametrize("cut", [10, 60, len(SEALED) // 2, len(SEALED) - 5])
@pytest.mark.parametrize("as_text", [False, True])
def test_a_summary_in_two_parts_stays_one(key: dict[str, Any], cut: int, as_text: bool) -> None:
    """A host may cut a text into parts; the seal over them holds after the revision, and what stands beside it too."""
    cut = SEALED.rindex("\n", 0, cut) if "\n" in SEALED[:cut] else SEALED.index("\n")
    halves: list[Any] = [SEALED[:cut], SEALED[cut + 1 :]]
    parts = halves if as_text else [{"type": "text", "text": half} for half in halves]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    beside = [image] if key else []  # without its key a summary is known again only where nothing else is
    rows = [{"role": "user", "content": [*parts, *beside], **key}, *load("k1", "alpha"), user("on")]
    made = revised(rows, shortened(rows, "k1"))
    before, summary, _after = split_summary(text_of(made[0]))
    assert ("", True) == (before, "- alpha: pruned" in summary)
    assert (1, beside) == (text_of(made[0]).count(LOADED), made.thaw()[0]["content"][1:])


def test_what_follows_a_summary_in_its_row_is_left_alone() -> None:
    """Merged into a user's message by a host, the summary is revised and the message is not."""
    parts = [{"type": "text", "text": said} for said in (SEALED, "What now?")]
    rows = [{"role": "user", "content": parts}, *load("k1", "alpha"), *turn(1)]
    made = revised(rows, shortened(rows, "k1"))
    assert "What now?" == made[0]["content"][1]["text"]
    assert "- alpha: pruned" in made[0]["content"][0]["text"]


@pytest.mark.parametrize("said", [REQUIRED, f"{LOADED}\n- alpha: available in current context", "<active_skills>\n</active_skills>", sections([], [])])  # fmt: skip
@pytest.mark.parametrize("in_parts", [False, True])
def test_no_row_is_left_empty(said: str, in_parts: bool) -> None:
    """A summary that says nothing but what we take out still says that it is one."""
    content = [{"type": "text", "text": said}] if in_parts else said
    rows = [user("go"), {"role": "assistant", "content": content, SUMMARY_KEY: True}, user("on")]
    for draft in (rows, [*rows, *load("k1", "alpha", "[skill_view] name=alpha (9 chars)")]):
        made = revised(draft, draft)
        assert text_of(made[1]).strip()
        assert said not in text_of(made[1]).replace(LOADED, "").split("\n\n")


def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many skills bear a name: the one that was called by it is meant, and none where that may be several."""

    def one(number: int, called: str) -> Entry:
        return Entry("s", f"{number}", None, f"c{number}/s/SKILL.md", "available", called=called)

    known = Known(one(number, f"c{number}/s") for number in range(50))
    for way in ("values", "items", "__iter__"):
        monkeypatch.setattr(Known, way, None)
    asked = Entry("s", None, None, None, "pruned", called="c7/s")
    assert ("c7/s/SKILL.md", "7") == (known.same(asked).path, known.same(asked).sha256)
    several = Entry("s", None, None, None, "pruned", called="s")
    assert several is known.same(several)
    linked = Entry("s", None, "api.md", None, "pruned", called="c9/s")
    assert "c9/s/SKILL.md" == known.same(linked).path
    assert Entry("t", None, "api.md", None, "pruned") == known.same(Entry("t", None, "api.md", None, "pruned"))


NAMES = [
    "навык", "技能 スキル", 'a "quoted" one', "it's", "x (12 chars)", "x (y.md)", "[SKILL_PRUNED: x]", "n file=f", "- a", "  spaced  ",
    "a: pruned — reload before use if required by active task", "a" * 400, "plug:beta", "cat/x", "a\tb\nc", "{}", "\u2028x",
    '<skill name="a">', "</active_skills>", "[SUMMARY", "a\u0301",
]  # fmt: skip


@pytest.mark.parametrize("block", [False, True], ids=["rows", "block"])
@pytest.mark.parametrize("name", NAMES)
def test_a_name_with_anything_in_it_stays_one_skill(name: str, block: bool) -> None:
    """Over two compactions of any kind, the second of which takes its rows too; never a second skill, made of parts of the name."""
    rows = [user("go"), *load("k1", name, result_text(name, body_of("odd"), path=f"m/{name}/SKILL.md"))]
    rows = [*rows, {"role": "assistant", "content": "done"}, user("next")]
    (one,) = scan(rows)
    plain_marker = f"[skill_view] name={name} (1,234 chars)"
    host = "[CONTEXT COMPACTION — REFERENCE ONLY] It was.\n\n--- END OF CONTEXT SUMMARY"
    for draft in (
        [user("go"), {"role": "assistant", "content": "done"}, user("next")],
        shortened(rows, "k1", to=plain_marker),
        shortened(rows, "k1", to=text_of(rows[2])[:50]),
        [{"role": "user", "content": host, SUMMARY_KEY: True}, *rows[1:]],
    ):
        made = revise(draft, [one], [name], original=rows, block=block)
        assert made == revise(made, [one], [name], original=rows, block=block)
        assert [one.key] == [entry.key for entry in scan(made)]
        bare = [row for row in made.thaw() if row["role"] != "tool" and "tool_calls" not in row]
        again = revise(bare, scan(made), [name], original=made)
        assert [(one.key, one.sha256, "pruned")] == [(entry.key, entry.sha256, entry.state) for entry in scan(again)]
        if " file=" not in name:
            stored = [
                {key: value for key, value in row.items() if not key.startswith("_skill")} for row in again.thaw()
            ]
            assert [None] == [entry.file for entry in scan(stored)]
