"""What a summary holds, and how the next compaction's findings are merged into it."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, frozen

from .fingerprint import Fingerprint

__all__ = ["Item", "Summary", "merge"]


@frozen
class Item:
    """One line: what it says, the request it belongs to (0: none known), and how often it was found."""

    text: str
    turn: int = 0
    times: int = 1


@frozen
class Summary:
    """The structure behind a summary row.  `requests` and `identifiers` are complete texts, best identifiers first.

    `compactions` counts how often it was made or updated, `rows` how many messages are folded in it by now; `prose` is what a summariser wrote, empty without one.  `seen` tells
    what wording there was in the requests, and is no part of the text.
    """

    compactions: int = 0
    rows: int = 0
    requests: tuple[str, ...] = ()
    decided: tuple[Item, ...] = ()
    files: tuple[Item, ...] = ()
    commands: tuple[Item, ...] = ()
    errors: tuple[Item, ...] = ()
    skills: tuple[Item, ...] = ()
    notes: tuple[Item, ...] = ()
    open: tuple[Item, ...] = ()
    identifiers: tuple[str, ...] = ()
    prose: str = ""
    seen: Fingerprint = Fingerprint()

    @property
    def empty(self) -> bool:
        """Whether there is nothing worth a row in it."""
        return evolve(self, compactions=0, rows=0, seen=Fingerprint()) == Summary()


def merge(old: Summary, new: Summary) -> Summary:
    """Add what a compaction found to what was known; requests follow the old ones, an open end is replaced."""
    return Summary(
        compactions=max(old.compactions, new.compactions),
        rows=old.rows + new.rows,
        requests=old.requests + new.requests,
        decided=_joined(old.decided, new.decided),
        files=_files(old.files, new.files),
        commands=_joined(old.commands, new.commands),
        errors=_joined(old.errors, new.errors),
        skills=_joined(old.skills, new.skills),
        notes=_joined(old.notes, new.notes),
        open=new.open,
        identifiers=tuple(dict.fromkeys(old.identifiers + new.identifiers)),
        prose=new.prose or old.prose,
        seen=Fingerprint(old.seen.bits | new.seen.bits),
    )


def _joined(old: Iterable[Item], new: Iterable[Item]) -> tuple[Item, ...]:
    """Equal texts become one item, at the place and turn of the latest, and are counted."""
    found: dict[str, Item] = {}
    for item in (*old, *new):
        before = found.pop(item.text, None)
        found[item.text] = item if before is None else evolve(item, times=before.times + item.times)
    return tuple(found.values())


def _files(old: Iterable[Item], new: Iterable[Item]) -> tuple[Item, ...]:
    """As above; a file that was edited once stays so."""
    joined = _joined(old, new)
    edited = {item.text.removesuffix(" (edited)") for item in joined if item.text.endswith(" (edited)")}
    return tuple(item for item in joined if item.text not in edited)
