"""Bringing the rows of skills into their true form, one by one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from attrs import define, evolve, field

from ..messages import Messages
from ..transcript import text_of
from .entries import Entry, Key, Known
from .reading import SKILL_KEY
from .scan import Found, Sighting, look, sightings
from .wording import marker, notice, superseded

__all__ = ["failed_calls", "rewritten"]


def rewritten(
    rows: Messages,
    known: Known,
    failed: frozenset[str],
    evict: Collection[Key],
    elsewhere: Collection[Key] = (),
) -> Messages:
    """The rows, changed where they do not say what is so; the same value where they do.

    `known` are the skills before the compaction, `failed` the calls that brought none; texts of `elsewhere` stand in the summary.
    """
    work = _Rewriter(rows, known, failed, frozenset(evict), frozenset(elsewhere))
    for found in look(rows, known=known.values()):
        work.one(found)
    return work.done()


@define
class _Rewriter:
    rows: Messages
    known: Known
    failed: frozenset[str]
    evict: frozenset[Key]
    elsewhere: frozenset[Key]
    _made: dict[int, dict[str, Any]] = field(factory=dict)

    def done(self) -> Messages:
        """The result so far."""
        if not self._made:
            return self.rows
        return Messages.of([self._made.get(at, row) for at, row in enumerate(self.rows)])

    def one(self, found: Found) -> None:
        """All rows of one skill."""
        entry = self._entry(found)
        elsewhere = bool({found.key, entry.key} & self.elsewhere)
        version = entry.sha256
        whole = [one for one in found.seen if one.reading.kind == "whole" and one.reading.sha256 == version]
        stays = whole[-1] if whole and not {found.key, entry.key} & self.evict else None
        there = stays is not None or elsewhere
        for one in found.seen:
            kind, call = one.reading.kind, one.call
            if call is None or kind == "superseded":
                continue  # what a user said, and summaries, which are written anew
            if kind in {"gone", "notice"} and call.id in self.failed:
                self._put(one, None, {"state": "failed"})
            elif kind == "gone" and elsewhere and version and one.reading.sha256 == version:
                self._put(one, notice(one.reading.name, version), self._key("notice", one, entry, version))
            elif kind == "gone" or not there:
                self._gone(one, entry)
            elif one.reading.sha256 not in {version, None}:
                self._older(one, entry)
            elif elsewhere or (kind == "whole" and one is not stays):
                self._put(one, notice(one.reading.name, version or ""), self._key("notice", one, entry, version))

    def _entry(self, found: Found) -> Entry:
        """What is known of this skill, from before and from the rows."""
        own = self.known.same(found.entry())
        entry = self.known.get(own.key, own)
        sha256 = entry.sha256
        if sha256 is None and (not entry.size or any(entry.size in _sizes(one) for one in found.whole)):
            sha256 = own.sha256
        return evolve(entry, path=entry.path or own.path, sha256=sha256)

    def _older(self, one: Sighting, entry: Entry) -> None:
        reading = one.reading
        self._put(
            one, superseded(reading.name, reading.sha256 or ""), self._key("superseded", one, entry, reading.sha256)
        )

    def _key(self, state: str, one: Sighting, entry: Entry, sha256: str | None) -> dict[str, Any]:
        """What tells which skill a row is about whose result said so: its row must mean the same when read again."""
        reading = one.reading
        path = reading.path or entry.path
        return {"state": state, "name": reading.name, "sha256": sha256, "path": path, "file": reading.file}

    def _gone(self, one: Sighting, entry: Entry) -> None:
        reading = one.reading
        size = reading.size if reading.size is not None else entry.size or len(text_of(self.rows[one.at]))
        same_load = one.call is not None and one.call.id == entry.call
        its_own = same_load or not reading.size or entry.size in {0, reading.size}
        key = {
            "state": "pruned",
            "name": entry.name,
            "sha256": reading.sha256 or (entry.sha256 if its_own else None),
            "path": reading.path or entry.path,
            "file": reading.file,
        }
        self._put(one, marker(reading.called, size, reading.file), key)

    def _put(self, one: Sighting, text: str | None, key: dict[str, Any] | None) -> None:
        row = self.rows[one.at]
        made = {name: row[name] for name in row if name != SKILL_KEY and (name != "api_content" or text is None)}
        if text is not None:
            made["content"] = text
        if key is not None:
            made[SKILL_KEY] = key
        if row != Messages.of([made])[0]:
            self._made[one.at] = made


def _sizes(one: Sighting) -> set[int | None]:
    return {one.reading.size, len(one.reading.body)}


def failed_calls(before: Messages | None) -> frozenset[str]:
    """The calls that brought no skill, so that what stands in their place is not taken for one that is gone."""
    if before is None:
        return frozenset()
    seen = [one for one in sightings(before) if one.call is not None]
    good = {one.call.id for one in seen if one.call is not None and one.reading.kind != "failed"}
    return frozenset(one.call.id for one in seen if one.call is not None and one.call.id not in good)
