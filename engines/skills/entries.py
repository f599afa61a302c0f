"""Skills as entries: what is known of one, how it is named, and which entries mean the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from attrs import evolve, field, frozen

from .wording import label_of

__all__ = ["SKILLS_KEY", "Entry", "Key", "apart", "kept_in", "labels", "listed_entry", "same"]

SKILLS_KEY = "_skills"
"""The private key of a summary's row: the skills that have no row of their own any more."""

_APART = re.compile(r"(.+) \((.+)\)")
State = Literal["available", "pruned"]
Key = tuple[str, str | None]
"""A skill's path (its name where no path is known) and its linked file."""


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
    def key(self) -> Key:
        """What tells this entry from others."""
        return (self.path or self.name, self.file)

    @property
    def label(self) -> str:
        """How it is named in a line of text."""
        return label_of(self.name, self.file)


def labels(entries: Iterable[Entry]) -> dict[Key, str]:
    """A label for every entry; where two skills bear one name, with what tells them apart."""
    entries = tuple(entries)
    said = Counter(entry.label for entry in entries)
    return {entry.key: entry.label if said[entry.label] == 1 else apart(entry) for entry in entries}


def apart(entry: Entry) -> str:
    """A label with what tells the skill from others of its name."""
    return f"{entry.label} ({entry.path or entry.called or entry.name})"


def same(entry: Entry, known: Mapping[Key, Entry]) -> Entry:
    """The entry under the path of the known one that it can only mean, where it has none itself."""
    if entry.path is not None or entry.key in known:
        return entry
    names = {entry.name, entry.called}
    alike = [one for one in known.values() if one.file == entry.file and names & {one.name, one.called}]
    if not alike and entry.file is not None:  # a linked file is where its skill is
        owners = {one.path for one in known.values() if one.file is None and names & {one.name, one.called}}
        return evolve(entry, path=owners.pop()) if len(owners) == 1 else entry
    if len({one.path for one in alike}) != 1 or alike[0].path is None:
        return entry
    return evolve(entry, path=alike[0].path, sha256=entry.sha256 or alike[0].sha256, name=alike[0].name)


def listed_entry(label: str) -> Entry:
    """An entry from its label in a section."""
    parts = _APART.fullmatch(label)
    name, _, file = (parts[1] if parts is not None else label).partition(" file=")
    path = parts[2] if parts is not None and parts[2].endswith(".md") else None
    called = parts[2] if parts is not None and path is None else name
    return Entry(name, None, file or None, path, "pruned", called=called, source="summary")


def kept_in(row: Mapping[str, Any]) -> list[Entry]:
    """The entries in the private key of a summary's row."""
    kept = row.get(SKILLS_KEY)
    return [_kept(told) for told in kept if isinstance(told, Mapping)] if isinstance(kept, (list, tuple)) else []


def _kept(told: Mapping[str, Any]) -> Entry:
    def text(name: str) -> str | None:
        value = told.get(name)
        return value if isinstance(value, str) and value else None

    name = text("name") or "unknown"
    called = text("called") or name
    return Entry(name, text("sha256"), text("file"), text("path"), "pruned", called=called, source="summary")
