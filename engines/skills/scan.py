"""Which skills a message list holds, and which of them whole: read from the rows, and from nothing else.

A skill is told apart by its path (by its name where no path is known) and its linked file.  Its newest load says which
version counts; it is *available* while that version stands whole in some row, and *pruned* otherwise.  Neither what a
model says nor a summary makes anything available; a summary of the run loop's only names what was loaded once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from ..transcript import (
    SUMMARY_KEY,
    Call,
    call_id,
    calls_of,
    estimate_text,
    is_foreign_summary,
    merged_summary,
    text_of,
)
from .block import bodies_in
from .entries import Entry, Key, apart, kept_in, listed_entry, same
from .reading import SKILL_KEY, Reading, read_result, read_user
from .wording import SKILL_TOOL, listed

__all__ = ["Found", "Sighting", "look", "may_load", "scan", "sightings", "summary_rows"]


@frozen
class Sighting:
    """A row that says something of a skill; `call` None: a user's message or a summary."""

    at: int
    reading: Reading
    call: Call | None = None


@define
class Found:
    """All that the rows say of one skill, in order; `current` is the version that counts."""

    key: Key
    seen: list[Sighting] = field(factory=list)
    current: str | None = None

    @property
    def whole(self) -> list[Sighting]:
        """The rows that hold the version that counts."""
        return [one for one in self.seen if one.reading.kind == "whole" and one.reading.sha256 == self.current]

    def settle(self) -> None:
        """Find the version that counts."""
        sizes: dict[str, set[int | None]] = {}
        for one in self.seen:
            if one.reading.sha256 is not None:
                sizes.setdefault(one.reading.sha256, set()).update({one.reading.size, len(one.reading.body) or None})
        for one in self.seen:
            reading = one.reading
            if reading.kind == "superseded":
                continue
            if reading.sha256 is not None:
                self.current = reading.sha256
            elif reading.size is not None and sizes and reading.size not in sizes.get(self.current or "", ()):
                # Another version came; which one, only its size can tell.
                self.current = next((sha for sha, known in sizes.items() if reading.size in known), None)

    def entry(self) -> Entry:
        """What there is to say of it in the end."""
        whole = self.whole
        of_note = [one for one in self.seen if one.reading.kind != "superseded"] or self.seen
        newest = of_note[-1]
        named = next((one.reading for one in reversed(self.seen) if one.reading.kind == "whole"), newest.reading)
        path = next((one.reading.path for one in reversed(self.seen) if one.reading.path), None)
        if path is None and self.key[0] != named.name and self.key[0].endswith(".md"):
            path = self.key[0]  # of a linked file: that of its skill
        body = whole[-1].reading.body if whole else ""
        sizes = (one.reading.size for one in reversed(self.seen) if one.reading.size)
        return Entry(
            named.name,
            self.current,
            self.key[1],
            path,
            "available" if whole else "pruned",
            called=newest.reading.called,
            call=newest.call.id if newest.call is not None else "",
            source="user" if newest.call is None else "tool",
            tokens=estimate_text(body),
            size=next(sizes, 0),
            at=newest.at,
            directory=next((one.reading.directory for one in reversed(self.seen) if one.reading.directory), None),
        )


def scan(messages: Iterable[Mapping[str, Any]]) -> tuple[Entry, ...]:
    """Return the skills in a message list, in the order in which they came; linear in the messages, and pure.

    `messages` are dicts or `Messages` as a host keeps them.  A skill in whose place a marker or a stub stands is
    `pruned`; one that a summary of the run loop names, and no row, too.
    """
    rows = messages if isinstance(messages, Sequence) else list(messages)
    summaries = summary_rows(rows)
    found = [one.entry() for one in look(rows, summaries)]
    return (*_only_named(rows, summaries, found), *found)


def look(rows: Sequence[Mapping[str, Any]], summaries: tuple[int, ...] | None = None) -> list[Found]:
    """Sort the sightings in some rows by skill; `summaries` are those of `summary_rows`, where they are known."""
    summaries = summary_rows(rows) if summaries is None else summaries
    seen = [one for one in sightings(rows, summaries) if one.reading.kind != "failed"]
    kept = [entry for at in summaries for entry in kept_in(rows[at])]
    keys = _Keys([*(one.reading for one in seen), *map(_as_reading, kept)])
    found: dict[Key, Found] = {}
    for one in seen:
        key = keys.of(one.reading)
        found.setdefault(key, Found(key)).seen.append(one)
    for each in found.values():
        each.settle()
    return list(found.values())


def sightings(rows: Sequence[Mapping[str, Any]], summaries: tuple[int, ...] | None = None) -> Iterator[Sighting]:
    """Every row that says something of a skill, failed loads among them; `summaries` as for `look`."""
    summed_up = frozenset(summary_rows(rows) if summaries is None else summaries)
    waiting: dict[str, deque[Call]] = {}
    for at, row in enumerate(rows):
        role = row.get("role")
        if role == "tool":
            one = _result(at, row, waiting)
            if one is not None:
                yield one
            continue
        waiting = {}
        for call in calls_of(row) if _may_load(row.get("tool_calls", ())) else ():
            waiting.setdefault(call.id, deque()).append(call)
        if role == "user":
            yield from (Sighting(at, reading) for reading in read_user(text_of(row)))
        if at in summed_up:
            yield from (Sighting(at, reading) for reading in bodies_in(text_of(row)))


def may_load(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether any row may call for a skill; False is certain, and soon found."""
    return any(_may_load(row["tool_calls"]) for row in rows if "tool_calls" in row)


def _may_load(calls: Any) -> bool:
    """Whether a skill may be among what is called: in a long list hardly ever, and to read all calls takes long."""
    if not isinstance(calls, (list, tuple)):
        return False
    for call in calls:
        if isinstance(call, Mapping):
            function = call.get("function")
            name = (function if isinstance(function, Mapping) else call).get("name")
            if name == SKILL_TOOL or not isinstance(name, str):
                return True
    return False


def _result(at: int, row: Mapping[str, Any], waiting: Mapping[str, deque[Call]]) -> Sighting | None:
    """Read a tool's row as the result of the first of the waiting calls that it can answer."""
    calls = waiting.get(call_id(row) or "")
    if not calls:
        return None
    call = calls.popleft()
    if call.name != SKILL_TOOL:
        return None
    reading = read_result(call, text_of(row), row.get(SKILL_KEY))
    return None if reading is None else Sighting(at, reading, call)


def summary_rows(rows: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    """The rows that hold the summary of a compaction, by itself or merged into another message; not mere quotations."""
    merged = merged_summary(rows)
    return tuple(
        at
        for at, row in enumerate(rows)
        if row.get("role") in {"user", "assistant"}
        and row.get("content")
        and (row.get(SUMMARY_KEY) or is_foreign_summary(row) or (merged is not None and merged.at == at))
    )


class _Keys:
    """Finds which skill a reading is about: by path where one is known, by any name it was called otherwise."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._paths: dict[str, set[str]] = {}
        for reading in readings:
            if reading.path is not None and reading.file is None:
                folder = reading.path.removesuffix("/SKILL.md")
                for name in (reading.name, reading.called, folder):
                    self._paths.setdefault(name, set()).add(reading.path)

    def of(self, reading: Reading) -> Key:
        """The key of what a reading is about."""
        if reading.path is not None and reading.file is None:
            return (reading.path, None)
        for name in (reading.called, reading.name):
            paths = self._paths.get(name, ())
            if len(paths) == 1:
                return (next(iter(paths)), reading.file)
        return (reading.path or reading.name, reading.file)


def _only_named(rows: Sequence[Mapping[str, Any]], summaries: tuple[int, ...], found: Sequence[Entry]) -> list[Entry]:
    """The skills that a summary names and no row; one that has a row is what that says."""
    there = {entry.key: entry for entry in found}
    named: dict[Key, Entry] = {}
    for at in summaries:
        entries = kept_in(rows[at])
        said = {text for entry in (*entries, *found) for text in (entry.label, apart(entry))}
        entries += [listed_entry(label) for label, _ in listed(text_of(rows[at])) if label not in said]
        for entry in entries:
            if same(entry, there).key not in there and (entry.called, entry.file) not in _names(found):
                named[entry.key] = entry
    return list(named.values())


def _names(found: Iterable[Entry]) -> set[Key]:
    """By what names entries without a path are known."""
    return {(name, entry.file) for entry in found if entry.path is None for name in (entry.name, entry.called)}


def _as_reading(entry: Entry) -> Reading:
    return Reading("gone", entry.name, entry.called, entry.file, entry.path, entry.sha256)
