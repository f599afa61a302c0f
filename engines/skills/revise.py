"""Making a compacted list tell the truth about skills.

Every row of a skill that is not whole says so, in one form whatever a compressor or a host wrote; a skill stands whole
at most once and in its newest version; the summary lists what was loaded and what the task needs.  Rows of users keep
every word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..messages import Messages
from ..transcript import SUMMARY_END, SUMMARY_HEAD, estimate_row, estimate_text, text_of
from .block import BLOCK, Body, render_block
from .entries import SKILLS_KEY, Entry, Key, Known, labels
from .keep import CALL, kept_tokens, restored, whole_texts
from .place import added_summary, cleared, placed, unblocked
from .rewrite import failed_calls, rewritten
from .scan import look, scan, summary_rows
from .wording import sections

__all__ = ["added_tokens", "needed", "revise", "spent_tokens"]

_PASSES = 4  # the second one finds nothing to do, but where names are given to several skills


def revise(
    messages: Iterable[Any],
    entries: Iterable[Entry],
    required: Iterable[str] = (),
    *,
    original: Iterable[Any] | None = None,
    room: int = 0,
    evict: Collection[Key] = (),
    block: bool = False,
) -> Messages:
    """Return a compacted list that says truly which skills are in it; pure, and done twice it is as done once.

    `entries` are the skills known before the compaction (`scan` of the list it was made from), `required` the names
    of those that the task at hand needs.  With the `original` list, the text of a required skill that the compaction
    dropped is put back as long as `room` tokens last, of which those that are there take theirs first (`spent_tokens`).  `evict` holds the keys of skills that are to go although they
    are there.  With `block` the texts that stay are gathered in one block of the summary.
    """
    rows = Messages.of(messages)
    before = None if original is None else Messages.of(original)
    known, names = Known(entries), tuple(dict.fromkeys(required))
    failed = failed_calls(before)
    for _ in range(_PASSES):
        made = _revised(rows, before, failed, known, names, room, evict, block=block)
        if made == rows:
            break
        rows = made
    return rows


def _revised(
    rows: Messages,
    before: Messages | None,
    failed: frozenset[str],
    known: Known,
    names: Sequence[str],
    room: int,
    evict: Collection[Key],
    *,
    block: bool,
) -> Messages:
    """One pass; another one finds something to do only where rows contradict each other on what a name means."""
    wanted = [entry for entry in known.values() if needed(entry, names) and entry.key not in evict]
    if not block:
        rows = _unblocked(rows)
    rows = rewritten(rows, known, failed, evict)
    bodies: tuple[Body, ...] = ()
    if block:
        bodies = _gathered(rows, before, known, wanted, room)
        rows = rewritten(rows, known, failed, evict, {(body.path or body.name, body.file) for body in bodies})
    elif before is not None and room > 0:
        rows = restored(rows, before, wanted, room, known.values())
    return _summed_up(rows, known, names, bodies)


def added_tokens(messages: Iterable[Any], required: Iterable[str] = (), most: int = 0) -> int:
    """How many tokens a revision of a compaction of these messages adds: its sections, and what the task needs.

    Of the texts that the task needs those count that fit into `most` tokens, as they would be put back.
    """
    rows = Messages.of(messages)
    entries, names = scan(rows), tuple(dict.fromkeys(required))
    if not entries:
        return 0
    said = labels(entries)
    words = estimate_text(sections([(said[entry.key], "pruned") for entry in entries], names))
    texts = whole_texts(rows)
    for entry in entries:
        if entry.key in texts and needed(entry, names):
            cost = estimate_row(rows[texts[entry.key].at]) + CALL
            words += cost if words + cost <= most else 0
    return words


def spent_tokens(
    messages: Iterable[Any], entries: Iterable[Entry], required: Iterable[str], original: Iterable[Any]
) -> int:
    """How many tokens of a revision's `room` are taken by texts that the compaction kept."""
    names = tuple(dict.fromkeys(required))
    entries = tuple(entries)
    wanted = [entry for entry in entries if needed(entry, names)]
    return kept_tokens(Messages.of(messages), Messages.of(original), wanted, entries) if wanted else 0


def needed(entry: Entry, required: Collection[str]) -> bool:
    """Whether the names of what a task needs mean this skill; that of a skill does not mean its linked files."""
    if entry.label in required:
        return True
    return entry.file is None and bool({entry.name, entry.called, entry.path or ""} & set(required))


def _unblocked(rows: Messages) -> Messages:
    """The rows without blocks that do not stay, so that a text in one does not count as there."""
    summaries = summary_rows(rows)
    if not any(BLOCK in text_of(rows[at]) for at in summaries):
        return rows
    return Messages.of([unblocked(row) if at in summaries else row for at, row in enumerate(rows)])


def _gathered(
    rows: Messages, before: Messages | None, known: Known, wanted: Sequence[Entry], room: int
) -> tuple[Body, ...]:
    """The texts for the block: those in the rows, then the required ones that went, as long as there is room."""
    gone = {} if before is None else whole_texts(before, known.values())
    summaries = summary_rows(rows)
    bodies: dict[Key, Body] = {}
    there = set()
    for found in look(rows, known=known.values()):
        entry = known.same(found.entry())
        if found.whole:
            there.add(entry.key)
            if all(one.call is not None or one.at in summaries for one in found.whole):  # a user's words stay anyway
                bodies[entry.key] = _body(entry, found.whole[-1].reading.body)
    room -= 0 if before is None else kept_tokens(rows, before, wanted, known.values())
    for entry in wanted:
        lost = gone.get(entry.key)
        cost = 0 if lost is None or before is None else estimate_row(before[lost.at]) + CALL
        if lost is not None and entry.key not in there and cost <= room:
            room -= cost
            bodies[entry.key] = _body(entry, lost.reading.body)
    return tuple(body for body in bodies.values() if SUMMARY_HEAD not in body.text and SUMMARY_END not in body.text)


def _body(entry: Entry, text: str) -> Body:
    return Body(entry.name, entry.called or entry.name, text, entry.file, entry.path)


def _summed_up(rows: Messages, known: Known, required: Sequence[str], bodies: Sequence[Body]) -> Messages:
    """The summary says what there is; where the compaction made none there is one only if something was pruned."""
    summaries = summary_rows(rows)
    all_known = Known(_entries(rows, known))
    block = render_block(bodies)
    if not summaries:
        if not bodies and all(entry.state == "available" for entry in all_known.values()):
            return rows
        return _summed_up(Messages.of(added_summary(rows, block)), known, required, bodies)
    made = [cleared(row) if at in summaries else row for at, row in enumerate(rows)]
    last = summaries[-1]
    entries = _entries([*made[:last], placed(made[last], block), *made[last + 1 :]], all_known)
    if entries:
        said = labels(entries)
        words = sections([(said[entry.key], entry.state) for entry in entries], required)
        made[last] = placed(made[last], f"{words}\n{block}" if block else words)
    nowhere = [entry for entry in entries if entry.at < 0]
    if nowhere:
        made[last][SKILLS_KEY] = [_kept(entry) for entry in nowhere]
    found = Messages.of(made)
    return rows if found == rows else found


def _entries(rows: Sequence[Mapping[str, Any]], known: Known) -> list[Entry]:
    """All that was ever loaded: what is in the rows, and before it what only was."""
    found = [known.same(entry) for entry in scan(rows, known.values())]
    now = {entry.key: entry for entry in found}
    now |= {entry.key: entry for entry in found if entry.state == "available"}
    lost = [
        Entry(entry.name, entry.sha256, entry.file, entry.path, "pruned", called=entry.called or entry.name)
        for entry in known.values()
        if entry.key not in now
    ]
    order = {key: at for at, key in enumerate(known)}

    def place(entry: Entry) -> tuple[int, str, str]:
        return (order.get(entry.key, len(order)), entry.key[0], entry.file or "")

    return sorted([*lost, *now.values()], key=place)


def _kept(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "called": entry.called,
        "sha256": entry.sha256,
        "path": entry.path,
        "file": entry.file,
    }
