"""Skills as entries: what is known of one, how it is named, and which entries mean the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from attrs import evolve, field, frozen

from .wording import label_of

__all__ = ["SKILLS_KEY", "Entry", "Key", "Known", "apart", "kept_in", "labels", "listed_entries"]

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
    `tokens` an estimate for the text (0: unknown), `at` the row of the newest load (-1: only a summary names it),
    `spelled` the other names it was called by.
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
    spelled: frozenset[str] = field(default=frozenset(), eq=False, kw_only=True)

    @property
    def names(self) -> frozenset[str]:
        """Every name by which it is known to have been called, its own among them."""
        return self.spelled | {self.name, self.called or self.name}

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


class Known(dict[Key, Entry]):
    """Known entries by key, and by every name; made once, and each question is one look, however many bear a name."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        super().__init__((entry.key, entry) for entry in entries)
        self._named: dict[Key, Entry | None] = {}  # None: several are meant
        self._owners: dict[str, str | None] = {}
        for entry in self.values():
            for name in entry.names:
                other = self._named.setdefault((name, entry.file), entry)
                if other is not None and other.path != entry.path:
                    self._named[name, entry.file] = None
                if entry.file is None and self._owners.setdefault(name, entry.path) != entry.path:
                    self._owners[name] = None

    def same(self, entry: Entry) -> Entry:
        """The entry under the path of the known one that it can only mean, where it has none itself.

        The name it was called by says more than the one it declares, which several may bear.
        """
        if entry.path is not None or entry.key in self:
            return entry
        names = dict.fromkeys([entry.called or entry.name, entry.name])
        for name in names:
            one = self._named.get((name, entry.file))
            if one is not None:
                return evolve(entry, path=one.path, sha256=entry.sha256 or one.sha256, name=one.name)
        if entry.file is None or any((name, entry.file) in self._named for name in names):
            return entry
        paths = (self._owners.get(name) for name in names)  # a linked file is where its skill is
        return evolve(entry, path=next((path for path in paths if path is not None), None))


def listed_entries(listed: Iterable[str]) -> list[Entry]:
    """Entries from their labels in sections; what tells one from others is read only where there are others."""
    parts = {label: _APART.fullmatch(label) for label in listed}
    bearing = Counter(part[1] for part in parts.values() if part is not None)
    return [
        _listed(label, part if part is not None and bearing[part[1]] > 1 else None) for label, part in parts.items()
    ]


def _listed(label: str, parts: re.Match[str] | None) -> Entry:
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
