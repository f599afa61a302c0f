"""Which skills a message list holds, and which of them whole: read from the rows, and from nothing else.

A skill is told apart by its path (by its name where no path is known) and its linked file.  Its newest load says which
version counts; it is *available* while that version stands whole in some row, and *pruned* otherwise.  Neither what a
model says nor a summary makes anything available; a summary of the run loop's only names what was loaded once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from .entries import Entry, Key, Known, apart, kept_in, listed_entries
from .reading import SKILL_KEY, Reading, read_lost, read_result, read_user
from .wording import SKILL_TOOL, listed

__all__ = ["Found", "Sighting", "look", "may_load", "scan", "sightings", "summary_rows"]

_OBJECT = (dict, Mapping)  # nearly all are dicts, and to tell that costs a tenth


@frozen
class Sighting:
    """A row that says something of a skill; `call` None: a user's message or a summary."""

    at: int
    reading: Reading
    call: Call | None = None


@define
class Found:
    """All that the rows say of one skill, in order; `current` is the version that counts, `path` None where unknown."""

    key: Key
    path: str | None = None
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
            elif reading.size and sizes and reading.size not in sizes.get(self.current or "", ()):
                # Another version came; which one, only its size can tell.
                self.current = next((sha for sha, known in sizes.items() if reading.size in known), None)

    def entry(self) -> Entry:
        """What there is to say of it in the end."""
        whole = self.whole
        of_note = [one for one in self.seen if one.reading.kind != "superseded"] or self.seen
        newest = of_note[-1]
        named = next((one.reading for one in reversed(self.seen) if one.reading.kind == "whole"), newest.reading)
        body = whole[-1].reading.body if whole else ""
        sizes = (one.reading.size for one in reversed(self.seen) if one.reading.size)
        return Entry(
            self.key[0] if self.path is None else named.name,
            self.current,
            self.key[1],
            self.path,
            "available" if whole else "pruned",
            called=newest.reading.called,
            call=newest.call.id if newest.call is not None else "",
            source="user" if newest.call is None else "tool",
            tokens=estimate_text(body),
            size=next(sizes, 0),
            at=newest.at,
            directory=next((one.reading.directory for one in reversed(self.seen) if one.reading.directory), None),
            spelled=frozenset(name for one in self.seen for name in (one.reading.name, one.reading.called)),
        )


def scan(messages: Iterable[Mapping[str, Any]], known: Iterable[Entry] = ()) -> tuple[Entry, ...]:
    """Return the skills in a message list, in the order in which they came; linear in the messages, and pure.

    `messages` are dicts or `Messages` as a host keeps them.  A skill in whose place a marker or a stub stands is
    `pruned`; one that a summary of the run loop names, and no row, too.  `known` entries say what a name means that no
    row explains any more.
    """
    rows = messages if isinstance(messages, Sequence) else list(messages)
    summaries, known = summary_rows(rows), tuple(known)
    found = [one.entry() for one in look(rows, summaries, known)]
    return (*_only_named(rows, summaries, found, known), *found)


def look(
    rows: Sequence[Mapping[str, Any]], summaries: tuple[int, ...] | None = None, known: Iterable[Entry] = ()
) -> list[Found]:
    """Sort the sightings in some rows by skill; `summaries` are those of `summary_rows`, where they are known.

    `known` entries say which skill a name means, as the rows do, and which loads brought one: what answers those now
    and cannot be read stands in its place.
    """
    known = tuple(known)
    summaries = summary_rows(rows) if summaries is None else summaries
    lost = frozenset(entry.call for entry in known if entry.call)
    seen = [one for one in sightings(rows, summaries, lost) if one.reading.kind != "failed"]
    kept = [entry for at in summaries for entry in kept_in(rows[at])]
    keys = _Keys((one.reading for one in seen), [*kept, *known])
    found: dict[Key, Found] = {}
    for one in seen:
        key, path = keys.of(one.reading)
        found.setdefault(key, Found(key, path)).seen.append(one)
    for each in found.values():
        each.settle()
    return list(found.values())


def sightings(
    rows: Sequence[Mapping[str, Any]], summaries: tuple[int, ...] | None = None, lost: Collection[str] = ()
) -> Iterator[Sighting]:
    """Every row that says something of a skill, failed loads among them; `summaries` as for `look`.

    `lost` are the calls that brought a skill: whatever answers them speaks of it.
    """
    summed_up = frozenset(summary_rows(rows) if summaries is None else summaries)
    waiting: dict[str, deque[Call]] = {}
    for at, row in enumerate(rows):
        role = row.get("role")
        if role == "tool":
            one = _result(at, row, waiting, lost)
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
        if isinstance(call, _OBJECT):
            function = call.get("function")
            name = (function if isinstance(function, _OBJECT) else call).get("name")
            if name == SKILL_TOOL or not isinstance(name, str):
                return True
    return False


def _result(
    at: int, row: Mapping[str, Any], waiting: Mapping[str, deque[Call]], lost: Collection[str]
) -> Sighting | None:
    """Read a tool's row as the result of the first of the waiting calls that it can answer."""
    calls = waiting.get(call_id(row) or "")
    if not calls:
        return None
    call = calls.popleft()
    if call.name != SKILL_TOOL:
        return None
    reading = read_result(call, text_of(row), row.get(SKILL_KEY))
    if reading is None and call.id in lost:
        reading = read_lost(call)
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

    def __init__(self, readings: Iterable[Reading], entries: Iterable[Entry]) -> None:
        self._paths: dict[Key, set[str]] = {}
        self._declared: dict[Key, set[str]] = {}
        for reading in readings:
            if reading.kind in {"notice", "superseded"}:
                continue  # they name what other rows explain
            self._learn({reading.name, reading.called}, reading.file, reading.path, reading.name)
        for entry in entries:
            self._learn(entry.names, entry.file, entry.path, entry.name)

    def _learn(self, names: Iterable[str], file: str | None, path: str | None, declared: str) -> None:
        if path is not None:
            folder = [] if file is not None else [path.removesuffix("/SKILL.md")]
            for name in (*names, *folder):
                self._paths.setdefault((name, file), set()).add(path)
            return
        for name in names:
            if name != declared:
                self._declared.setdefault((name, file), set()).add(declared)

    def of(self, reading: Reading) -> tuple[Key, str | None]:
        """The key of what a reading is about, and its path."""
        file = reading.file
        path = reading.path or self._path((reading.called, reading.name), file)
        if path is not None:
            return (path, file), path
        declared = self._declared.get((reading.called, file), ()) if reading.name == reading.called else ()
        if len(declared) != 1:
            return (reading.name, file), None
        name = next(iter(declared))
        path = self._path((name,), file)
        return (path or name, file), path

    def _path(self, names: Iterable[str], file: str | None) -> str | None:
        """The only path that one of these names has; a linked file is where its skill is."""
        for where in dict.fromkeys([file, None]):
            for name in names:
                paths = self._paths.get((name, where), ())
                if len(paths) == 1:
                    return next(iter(paths))
        return None


def _only_named(
    rows: Sequence[Mapping[str, Any]], summaries: tuple[int, ...], found: Sequence[Entry], known: Sequence[Entry]
) -> list[Entry]:
    """The skills that a summary names, and no row and nobody who knows them; one that has a row is what that says."""
    there = Known(found)
    nameless = {(name, entry.file) for entry in found if entry.path is None for name in entry.names}
    named: dict[Key, Entry] = {}
    shown = {text for entry in (*found, *known) for text in (entry.label, apart(entry))}
    for at in summaries:
        entries = kept_in(rows[at])
        said = shown | {text for entry in entries for text in (entry.label, apart(entry))}
        labels = [label for label, _ in listed(text_of(rows[at]))]
        entries += [one for label, one in zip(labels, listed_entries(labels), strict=True) if label not in said]
        for entry in entries:
            if there.same(entry).key not in there and (entry.called, entry.file) not in nameless:
                named[entry.key] = entry
    return list(named.values())
