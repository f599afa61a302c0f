"""Which skills a message list holds, and which of them whole: read from the rows, and from nothing else.

A skill is told apart by its path (by its name where no path is known) and its linked file.  Its newest load says which
version counts; it is *available* while that version stands whole in some row, and *pruned* otherwise.  Neither what a
model says nor a summary makes anything available; a summary of the run loop's only names what was loaded once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from attrs import define, field, frozen

from ..messages import Messages
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
from .reading import SKILL_KEY, Reading, read_result, read_user
from .wording import SKILL_TOOL, label_of, listed

__all__ = ["SKILLS_KEY", "Entry", "Found", "Sighting", "look", "scan", "sightings", "summary_rows"]

SKILLS_KEY = "_skills"
"""The private key of a summary's row: the skills that have no row of their own any more."""

State = Literal["available", "pruned"]


@frozen
class Entry:
    """One skill, or one linked file of one.  `sha256` and `path` are None where unknown; the rest is for reports.

    `called` is a name that `skill_view` takes, `call` the id of the newest load (empty: it came with a user's message),
    `tokens` an estimate for the text (0: unknown), `at` the row of the newest load (-1: only a summary names it).
    """

    name: str
    sha256: str | None
    file: str | None
    path: str | None
    state: State
    called: str = field(default="", eq=False, kw_only=True)
    call: str = field(default="", eq=False, kw_only=True)
    source: Literal["tool", "user", "summary"] = field(default="tool", eq=False, kw_only=True)
    tokens: int = field(default=0, eq=False, kw_only=True)
    size: int = field(default=0, eq=False, kw_only=True)
    at: int = field(default=-1, eq=False, kw_only=True)
    directory: str | None = field(default=None, eq=False, kw_only=True)

    @property
    def key(self) -> tuple[str, str | None]:
        """What tells this entry from others."""
        return (self.path or self.name, self.file)

    @property
    def label(self) -> str:
        """How it is named in a line of text."""
        return label_of(self.name, self.file)


@frozen
class Sighting:
    """A row that says something of a skill; `call` None: a user's message or a summary."""

    at: int
    reading: Reading
    call: Call | None = None


@define
class Found:
    """All that the rows say of one skill, in order; `current` is the version that counts."""

    key: tuple[str, str | None]
    seen: list[Sighting] = field(factory=list)
    current: str | None = None

    @property
    def whole(self) -> list[Sighting]:
        """The rows that hold the version that counts."""
        return [one for one in self.seen if one.reading.kind == "whole" and one.reading.sha256 == self.current]

    def settle(self) -> None:
        """Find the version that counts."""
        whole = [one.reading for one in self.seen if one.reading.kind == "whole"]
        for one in self.seen:
            reading = one.reading
            if reading.kind == "whole" or (reading.kind in {"gone", "notice"} and reading.sha256 is not None):
                self.current = reading.sha256
            elif reading.kind == "gone" and whole and not any(_fits(reading, other) for other in whole):
                self.current = None  # another version came, and nobody knows which

    def entry(self) -> Entry:
        """What there is to say of it in the end."""
        whole = self.whole
        of_note = [one for one in self.seen if one.reading.kind != "superseded"] or self.seen
        newest = of_note[-1]
        named = next((one.reading for one in reversed(self.seen) if one.reading.kind == "whole"), newest.reading)
        path = next((one.reading.path for one in reversed(self.seen) if one.reading.path), None)
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
    found = [one.entry() for one in look(rows)]
    return (*_only_named(rows, found), *found)


def look(rows: Sequence[Mapping[str, Any]]) -> list[Found]:
    """Sort the sightings in some rows by skill."""
    seen = [one for one in sightings(rows) if one.reading.kind != "failed"]
    keys = _Keys(seen)
    found: dict[tuple[str, str | None], Found] = {}
    for one in seen:
        key = keys.of(one.reading)
        found.setdefault(key, Found(key)).seen.append(one)
    for each in found.values():
        each.settle()
    return list(found.values())


def sightings(rows: Sequence[Mapping[str, Any]]) -> Iterator[Sighting]:
    """Every row that says something of a skill, failed loads among them."""
    waiting: dict[str, list[Call]] = {}
    summaries = frozenset(summary_rows(rows))
    for at, row in enumerate(rows):
        role = row.get("role")
        if role == "assistant":
            waiting = {}
            if row.get("tool_calls"):
                for call in calls_of(row):
                    waiting.setdefault(call.id, []).append(call)
        elif role == "tool":
            calls = waiting.get(call_id(row) or "")
            if calls:
                call = calls.pop(0)
                if call.name == SKILL_TOOL:
                    reading = read_result(call, text_of(row), row.get(SKILL_KEY))
                    if reading is not None:
                        yield Sighting(at, reading, call)
        else:
            waiting = {}
            if role == "user":
                for reading in read_user(text_of(row)):
                    yield Sighting(at, reading)
        if at in summaries:
            for reading in bodies_in(text_of(row)):
                yield Sighting(at, reading)


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

    def __init__(self, seen: Iterable[Sighting]) -> None:
        self._paths: dict[str, set[str]] = {}
        for one in seen:
            reading = one.reading
            if reading.path is not None and reading.file is None:
                folder = reading.path.removesuffix("/SKILL.md")
                for name in (reading.name, reading.called, folder):
                    self._paths.setdefault(name, set()).add(reading.path)

    def of(self, reading: Reading) -> tuple[str, str | None]:
        """The key of what a reading is about."""
        if reading.path is not None and reading.file is None:
            return (reading.path, None)
        for name in (reading.called, reading.name):
            paths = self._paths.get(name, ())
            if len(paths) == 1:
                return (next(iter(paths)), reading.file)
        return (reading.path or reading.name, reading.file)


def _fits(gone: Reading, whole: Reading) -> bool:
    """Whether what was in place of `gone` may have been this text, by its size."""
    return gone.size is None or gone.size in {whole.size, len(whole.body)}


def _only_named(rows: Sequence[Mapping[str, Any]], found: Sequence[Entry]) -> list[Entry]:
    """The skills that a summary names and no row; one that has a row is what that says."""
    names = {(entry.name, entry.file) for entry in found} | {(entry.called, entry.file) for entry in found}
    keys = {entry.key for entry in found}
    named: dict[tuple[str, str | None], Entry] = {}
    for at in summary_rows(rows):
        row = rows[at]
        kept = row.get(SKILLS_KEY)
        entries = [_kept(told) for told in kept if isinstance(told, Mapping)] if isinstance(kept, (list, tuple)) else []
        labels = {entry.label for entry in entries}
        for label, _ in listed(text_of(row)):
            name, _, file = label.partition(" file=")
            if label not in labels:
                entries.append(Entry(name, None, file or None, None, "pruned", called=name, source="summary"))
        for entry in entries:
            if entry.key not in keys and (entry.path is not None or (entry.name, entry.file) not in names):
                named[entry.key] = entry
    return list(named.values())


def _kept(told: Mapping[str, Any]) -> Entry:
    def text(name: str) -> str | None:
        value = told.get(name)
        return value if isinstance(value, str) and value else None

    name = text("name") or "unknown"
    called = text("called") or name
    return Entry(name, text("sha256"), text("file"), text("path"), "pruned", called=called, source="summary")
