"""A summary as text, within a budget, and back again.

The text is what counts: it is parsed back by the next compaction, so it needs no hidden state, and hosts that strip
unknown keys lose nothing.  `fit` decides what stays where not everything has room; `render` and `parse` are inverse to
each other on what they keep.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from attrs import evolve, fields

from ..skills.place import without_words
from ..transcript import SUMMARY_END, SUMMARY_HEAD, seal
from .requests import Compared
from .summary import Item, Summary
from .wording import bytes_of, clip_bytes, mentions, no_heading, one_line, plain, worth

__all__ = ["MOST_REQUESTS", "SMALLEST", "fit", "loosely_split", "parse", "render"]

_HEADINGS = {
    "requests": "User requests so far, oldest first",
    "decided": "Decided and found",
    "files": "Files",
    "commands": "Commands and outcomes",
    "errors": "Errors met",
    "skills": "Skills no longer in context",
    "notes": "Notes",
    "open": "Open",
    "identifiers": "Also mentioned",
    "prose": "In words",
}
_SHARES = {
    "requests": 30, "identifiers": 22, "decided": 15, "commands": 15, "files": 6, "errors": 4, "skills": 3, "notes": 4, "open": 4, "prose": 18,
}  # fmt: skip
_MOST = 60  # percent of the room that requests may take before each of them keeps but a word or two
_HEAD = re.compile(r"compaction (\d{1,9}), (\d{1,9}) messages", re.ASCII)
_LINE = re.compile(r"- (?:r(\d{1,9}): )?(.*)", re.DOTALL | re.ASCII)
_TIMES = re.compile(r" \(×(\d{1,9})\)\Z", re.ASCII)
_REQUEST = re.compile(r"r\d{1,9}: (.*)", re.DOTALL | re.ASCII)
_INTRO = (
    "Earlier messages, folded (compaction {}, {} messages). This is background, not a request: everything here is done or past unless it "
    "stands under Open. Answer the latest user message after this; where the two disagree, that message holds."
)
SMALLEST = 700
"""Bytes below which a summary has no room to say anything."""

MOST_REQUESTS = 10_000
"""How many requests of an earlier summary are read; of more, the newest, and how many there were besides."""


def render(summary: Summary) -> str:
    """Write a summary out, all of it."""
    parts = [_INTRO.format(summary.compactions, summary.rows)]
    for name, heading in _HEADINGS.items():
        lines = _lines(summary, name)
        if lines:
            parts += [f"## {heading}", *lines]
    return seal("\n".join(parts))


def parse(text: str) -> Summary:
    """Read a summary back; what is not in the form of `render` is taken for a note."""
    lines = without_words(loosely_split(text)[1]).split("\n")[1:-1]  # what is said of skills is written anew
    head = _HEAD.search(lines[0]) if lines else None
    sections: dict[str, list[str]] = {name: [] for name in _HEADINGS}
    names = {f"## {heading}": name for name, heading in _HEADINGS.items()}
    current = "notes"
    for line in lines[1 if head else 0 :]:
        if line in names:
            current = names[line]
        elif line.strip():
            sections[current].append(line)
    items = {name: tuple(map(_item, lines)) for name, lines in sections.items()}
    return Summary(
        compactions=int(head[1]) if head else 1,
        rows=int(head[2]) if head else 0,
        requests=_requests(sections["requests"]),
        identifiers=tuple(dict.fromkeys(" ".join(sections["identifiers"]).split())),
        decided=items["decided"],
        files=items["files"],
        commands=items["commands"],
        errors=items["errors"],
        skills=items["skills"],
        notes=items["notes"],
        open=items["open"],
        prose="\n".join(sections["prose"]),
    )


def loosely_split(text: str) -> tuple[str, str, str]:
    """Cut a text at our marks, whatever stands between them; for rows that are known to hold a summary of ours."""
    start = text.find(SUMMARY_HEAD)
    end = text.find(SUMMARY_END, start)
    if start < 0 or end < 0:
        return text, "", ""
    end += len(SUMMARY_END)
    return text[:start], text[start:end], text[end:]


def fit(summary: Summary, room: int, compared: Compared, wanted: tuple[str, ...] = ()) -> Summary:
    """Shrink a summary to `room` bytes; `compared` are its requests, compared.

    Of the identifiers, none is taken away here: room is left for them, for the caller to fill.

    Requests never get lost; each keeps what is particular to it, if need be at the price of everything else.
    """
    room -= bytes_of(render(evolve(Summary(), compactions=summary.compactions, rows=summary.rows)))
    names = [name for name in _HEADINGS if getattr(summary, name)]
    room -= sum(len(_HEADINGS[name]) + 4 for name in names)
    needs = {name: _needed(summary, name) for name in names}
    rooms = _divide(needs, max(room, 0))
    numbers = sum(len(str(at)) + 4 for at in range(1, len(summary.requests) + 1))
    texts = compared.shorten(rooms.get("requests", 0) - numbers, room * _MOST // 100 - numbers)
    asked = sum(map(bytes_of, texts)) + numbers
    if asked > rooms.get("requests", 0):
        del needs["requests"]
        rooms = _divide(needs, max(room - asked, 0))

    def best(name: str) -> tuple[Item, ...]:
        return _best(getattr(summary, name), rooms.get(name, 0), wanted)

    return evolve(
        summary,
        requests=tuple(texts),
        seen=compared.seen,
        decided=best("decided"),
        files=best("files"),
        commands=best("commands"),
        errors=best("errors"),
        skills=best("skills"),
        notes=best("notes"),
        open=best("open"),
        prose=clip_bytes("\n".join(_lines(summary, "prose")), rooms.get("prose", 0)),
    )


def _divide(needs: Mapping[str, int], room: int) -> dict[str, int]:
    """Divide the room by the weight of sections; what one does not need goes to those that do."""
    given: dict[str, int] = {}
    open_ends = dict(needs)
    while open_ends:
        weight = sum(_SHARES[name] for name in open_ends)
        content = {name: need for name, need in open_ends.items() if need <= room * _SHARES[name] // weight}
        if not content:
            return given | {name: room * _SHARES[name] // weight for name in open_ends}
        given |= content
        room -= sum(content.values())
        for name in content:
            del open_ends[name]
    return given


def _needed(summary: Summary, name: str) -> int:
    return sum(bytes_of(line) + 1 for line in _lines(summary, name))


def _best(items: Sequence[Item], room: int, wanted: tuple[str, ...]) -> tuple[Item, ...]:
    """Keep the items worth most, in their order; where room is short, say each shorter to keep more of them."""
    size = sum(_size(item) for item in items)
    if size <= room:
        return tuple(items)
    if size > 2 * room:
        items = [evolve(item, text=one_line(item.text, 110)) for item in items]
    rated = sorted(range(len(items)), key=lambda at: -_rate(items[at], (at + 1) / len(items), wanted))
    best = {items[at].turn: at for at in reversed(rated)}  # of each request, so that none is forgotten for a busier one
    chosen = set()
    for at in dict.fromkeys([*sorted(best.values(), reverse=True), *rated]):
        if _size(items[at]) <= room:
            chosen.add(at)
            room -= _size(items[at])
    return tuple(item for at, item in enumerate(items) if at in chosen)


def _rate(item: Item, age: float, wanted: tuple[str, ...]) -> float:
    return (
        worth(item.text) * (0.5 + 0.5 * age) + 0.3 * min(item.times, 5) + (4.0 if mentions(item.text, wanted) else 0.0)
    )


def _lines(summary: Summary, name: str) -> list[str]:
    if name == "requests":
        return [plain(f"r{number}: {text}") for number, text in enumerate(summary.requests, 1)]
    if name == "identifiers":
        return [plain(" ".join(summary.identifiers))] if summary.identifiers else []
    if name == "prose":
        return [line for said in summary.prose.splitlines() if (line := no_heading(plain(said)))]
    return [_written(item) for item in getattr(summary, name)]


def _size(item: Item) -> int:
    return bytes_of(_written(item)) + 1


def _written(item: Item) -> str:
    turn = f"r{item.turn}: " if item.turn else ""
    return plain(f"- {turn}{item.text}") + (f" (×{item.times})" if item.times > 1 else "")


def _item(line: str) -> Item:
    found = _LINE.match(line)
    if not found:
        return Item(line.strip())
    times = _TIMES.search(found[2][-16:])
    said = found[2][: -len(times[0])] if times else found[2]
    return Item(said, int(found[1] or 0), int(times[1]) if times else 1)


def _requests(lines: Sequence[str]) -> tuple[str, ...]:
    found = [_request(line) for line in lines[-MOST_REQUESTS:]]
    more = len(lines) - len(found)
    return (f"[{more:,} earlier requests left out]", *found) if more else tuple(found)


def _request(line: str) -> str:
    found = _REQUEST.match(line)
    return found[1] if found else line


assert set(_HEADINGS) == {field.name for field in fields(Summary)} - {"compactions", "rows", "seen"}
