"""Which skills a message list holds: every form in which a host keeps them, and nothing that only looks like one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engines.messages import Messages
from engines.skills import Entry, scan
from engines.skills.reading import SKILL_KEY, hash_of
from engines.skills.wording import PRUNED, marker, notice, read_marker, superseded, updated
from tests.skill_rows import body_of, load, marker_row, result_text, user, work

ALPHA = body_of("alpha")
PATH = "misc/alpha/SKILL.md"
PERSISTED = (
    "<persisted-output>\nThis tool result was too large (12,345 characters, 12.1 KB).\nFull output saved to: /tmp/k.txt\n"
    f"Use it.\n\nPreview (first 100 chars):\n{result_text('alpha', ALPHA)[:100]}\n...\n</persisted-output>"
)


def states(rows: list[Any]) -> list[tuple[str, str | None, str]]:
    """Name, file and state of every entry."""
    return [(entry.name, entry.file, entry.state) for entry in scan(rows)]


def only(rows: list[Any]) -> Entry:
    """The one entry there is."""
    (entry,) = scan(rows)
    return entry


def test_a_whole_skill_is_available_with_its_hash_and_path() -> None:
    """The hash is that of the text, not of the result around it; plain dicts and `Messages` read the same."""
    rows = load("k1", "alpha")
    assert Entry("alpha", hash_of(ALPHA), None, PATH, "available") == only(rows)
    assert scan(rows) == scan(Messages.of(rows))


def test_s01_a_marker_of_the_host_is_a_pruned_skill() -> None:
    """S01: what host 0.19 leaves of a skill that was pruned does not look loaded."""
    rows = marker_row("k1", "docker-management")
    assert Entry("docker-management", None, None, None, "pruned") == only(rows)


def test_a_row_that_only_begins_like_a_marker_is_none() -> None:
    """A marker is a line; what is longer than any is not searched for one, however it is made."""
    assert read_marker(f"[skill_view] name=alpha {'file= ( ' * 200}(5 chars)") is not None
    assert read_marker(f"[skill_view] name=alpha {'file= ( ' * 100_000}(5 chars)") is None


def test_s01_the_whole_text_elsewhere_makes_it_available() -> None:
    """S01: where the text stands in full in another row, before or after, the skill is there."""
    whole = load("k1", "alpha")
    size = len(whole[1]["content"])
    assert "available" == only([*marker_row("k2", "alpha", size), *whole]).state
    assert "available" == only([*whole, *marker_row("k2", "alpha", size)]).state
    assert "pruned" == only([*whole, *marker_row("k2", "alpha", size + 7)]).state


@pytest.mark.parametrize(
    "said",
    [
        f"[skill_view] name=alpha (12,345 chars) {PRUNED}",
        "[skill_view] name=alpha (12,345 chars) [SKILL_PRUNED: content lost in compression; reload with skill_view(name='alpha')]",
        "[Duplicate tool output — same content as a more recent call]",
        result_text("alpha", ALPHA)[:300],
        result_text("alpha", ALPHA)[:300] + "\n\n[Truncated: tool response was 12,345 chars. Full output could not be saved to sandbox.]",
        PERSISTED,
    ],
)  # fmt: skip
def test_whatever_is_less_than_the_whole_text_is_pruned(said: str) -> None:
    """Markers of this and newer hosts, duplicates, and results that were cut off or put elsewhere."""
    assert [("alpha", None, "pruned")] == states(load("k1", "alpha", said))


@pytest.mark.parametrize(
    "said",
    [
        '{"success": false, "error": "Skill \'alpha\' not found."}',
        '{"success": false, "content": "text all the same"}',
        '{"success": "true", "content": "not the word true"}',
        '{"success": true, "name": "alpha"}',
        '{"success": true, "name": "alpha", "is_binary": true, "content": "[Binary file: x.png, size: 9 bytes]"}',
        "Error: no such tool",
        "",
        "[1, 2]",
        "<persisted-output>\nPreview (first 20 chars):\n{\"success\": false, \"error\"\n</persisted-output>",
        "<persisted-output>\nnothing to be seen\n</persisted-output>",
    ],
)  # fmt: skip
def test_s04_only_a_successful_load_registers(said: str) -> None:
    """S04: a load that failed, whatever it brought, is no skill; the retry is."""
    assert [] == states(load("k1", "alpha", said))
    assert [("alpha", None, "available")] == states([*load("k1", "alpha", said), *load("k2", "alpha")])


def test_s06_skills_of_one_name_at_two_places_are_two() -> None:
    """S06: the path tells them apart."""
    one = load("k1", "a/dup", json.dumps({"success": True, "name": "dup", "content": "one", "path": "a/dup/SKILL.md"}))
    two = load("k2", "b/dup", json.dumps({"success": True, "name": "dup", "content": "two", "path": "b/dup/SKILL.md"}))
    assert [("a/dup/SKILL.md", "available"), ("b/dup/SKILL.md", "available")] == [
        (entry.path, entry.state) for entry in scan([*one, *two])
    ]
    (pruned, whole) = scan([*one, *two, *marker_row("k3", "a/dup", 9_999)])
    assert ("a/dup/SKILL.md", "pruned", "available") == (pruned.path, pruned.state, whole.state)


def test_s06_two_spellings_of_one_skill_are_one() -> None:
    """S06: called by its name or by its category and name, it is the skill at that path."""
    rows = [*load("k1", "misc/alpha", result_text("alpha", ALPHA)), *load("k2", "alpha")]
    assert [("alpha", None, "available")] == states(rows)
    assert [("ns:alpha", None, "available")] == states(
        load("k1", "ns:alpha", json.dumps({"success": True, "name": "ns:alpha", "content": "x"}))
    )


def test_s13_a_linked_file_is_an_entry_of_its_own() -> None:
    """S13: the main text is pruned, the file is there; the file never makes the skill available."""
    rows = [*load("k1", "alpha"), *load("k2", "alpha", file="references/api.md")]
    assert [("alpha", None, "available"), ("alpha", "references/api.md", "available")] == states(rows)
    rows[1] = {**rows[1], "content": f"[skill_view] name=alpha ({len(rows[1]['content']):,} chars)"}
    assert [("alpha", None, "pruned"), ("alpha", "references/api.md", "available")] == states(rows)
    assert [("alpha", "references/api.md", "available")] == states(rows[2:])


def test_the_skill_itself_asked_for_as_a_file_is_the_skill() -> None:
    """`file_path: SKILL.md` names no linked file."""
    assert [("alpha", None, "available")] == states([*load("k1", "alpha"), *load("k2", "alpha", file="./SKILL.md")])


def test_the_newest_version_counts() -> None:
    """An older text that is still there does not make the skill available once a newer one was loaded and lost."""
    newer = ALPHA + "\nMore.\n"
    changed = load("k2", "alpha", updated("alpha", hash_of(newer), newer))
    assert hash_of(newer) == only([*load("k1", "alpha"), *changed]).sha256
    lost = load("k2", "alpha", marker("alpha", 700))
    lost[1][SKILL_KEY] = {"state": "pruned", "name": "alpha", "sha256": hash_of(newer), "path": PATH}
    entry = only([*load("k1", "alpha"), *lost])
    assert ("pruned", hash_of(newer)) == (entry.state, entry.sha256)


def test_a_notice_is_only_as_good_as_the_text_it_speaks_of() -> None:
    """`already_active` names a text; where that is gone the skill is pruned."""
    said = load("k2", "alpha", notice("alpha", hash_of(ALPHA)))
    assert "available" == only([*load("k1", "alpha"), *said]).state
    entry = only(said)
    assert ("pruned", hash_of(ALPHA)) == (entry.state, entry.sha256)
    newer_host = load("k2", "alpha", '{"success": false, "status": "deduplicated", "message": "unchanged"}')
    assert "available" == only([*load("k1", "alpha"), *newer_host]).state
    assert "pruned" == only(newer_host).state
    assert "pruned" == only(load("k3", "alpha", superseded("alpha", hash_of(ALPHA)))).state


def test_a_users_command_brings_a_skill() -> None:
    """The host puts the text into the user's message; what it adds behind the text is no part of it."""
    note = (
        '[IMPORTANT: The user has invoked the "alpha" skill, indicating they want you to follow its instructions. The full'
        " skill content is loaded below.]"
    )
    tail = "[Skill directory: /home/u/.hermes/skills/misc/alpha]\nResolve any relative paths."
    entry = only([user(f"{note}\n\n{ALPHA.strip()}\n\n{tail}")])
    assert (hash_of(ALPHA.strip()), "available", "user") == (entry.sha256, entry.state, entry.source)
    assert "/home/u/.hermes/skills/misc/alpha" == entry.directory
    assert [] == states([user("Why does it say " + note)])


def test_several_skills_come_with_one_command() -> None:
    """Stacked skills and bundles: one block for each that was loaded."""
    head = '[IMPORTANT: The user has invoked the "a b" stacked skill bundle, loading 2 skills together.]'
    blocks = [f'[Loaded as part of the stacked skill invocation "{name}".]\n\nText of {name}.' for name in "ab"]
    rows = [user("\n\n".join([head, "Skills loaded: a, b", *blocks]))]
    assert [("a", hash_of("Text of a.")), ("b", hash_of("Text of b."))] == [(e.name, e.sha256) for e in scan(rows)]
    assert [] == states([user(head)])


def test_results_find_their_calls_where_ids_come_again() -> None:
    """Parallel loads, other tools between them, and ids that a provider uses again."""
    rows = load("k1", "alpha")
    other = load("k1", "beta")
    rows[0]["tool_calls"] += other[0]["tool_calls"]
    rows += [other[1], *work("k1"), *load("k1", "gamma")]
    assert [("alpha", None, "available"), ("beta", None, "available"), ("gamma", None, "available")] == states(rows)
    assert [] == states([rows[1]])


def test_odd_rows_harm_nobody() -> None:
    """Arguments that are no JSON, contents in parts, deep nesting, rows without a role."""
    parts = load("k1", "alpha")
    parts[1]["content"] = [{"type": "text", "text": parts[1]["content"]}]
    nameless = load("k2", "x", json.dumps({"success": True, "content": "text"}))
    nameless[0]["tool_calls"][0]["function"]["arguments"] = "{broken"
    deep = load("k3", "x", "{" + '"a":[' * 5_000)
    assert [("alpha", None, "available"), ("unknown", None, "available")] == states([*parts, {}, *nameless, *deep])


@pytest.mark.parametrize("name", ["alpha", "misc/alpha", "ns:alpha", "two words", "a (1 chars) b", "x\ny"])
@pytest.mark.parametrize("file", [None, "references/api.md"])
def test_a_marker_reads_as_what_it_was_made_of(name: str, file: str | None) -> None:
    """Names are put on one line; nothing else gets lost."""
    read = read_marker(marker(name, 12_345, file))
    assert read is not None
    assert (" ".join(name.split()), file, 12_345) == read
    assert read_marker("Look: " + marker(name, 1, file)) is None
