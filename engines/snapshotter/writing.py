"""How the snapshotter writes: in worker threads, one file at a time for each folder, so that no event loop waits for a disk."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from dataspace import Facet
from engines import facts as f

from .collect import snapshot_of
from .errors import SnapshotError
from .known import Known
from .notices import Notices, said
from .snapshot import Snapshot
from .store import SnapshotStore

if TYPE_CHECKING:
    import trio

__all__ = ["Ways", "Writing"]

_NOT_KEPT = (
    "it was not kept, for all that are kept there are newer by what they say; if the clock was wrong then, remove those"
    " that it dated (hermes-dataspace snapshots list, clear)"
)
log = logging.getLogger("engines.snapshotter")


@frozen
class Ways:
    """What whoever plugs a snapshotter in has given it; see `snapshotter`."""

    store_for: Callable[[f.Session], SnapshotStore | None]
    clock: Callable[[], datetime]
    lineage: Callable[[f.Session], Mapping[str, Any]]
    closed: Callable[[str], object]
    run: str = field(factory=partial(token_hex, 4))  # two runs of a program may call their conversations alike


class Writing:
    """Writes what is known of conversations, and tells what became of it.  Use it from the dataspace's thread."""

    def __init__(self, me: Facet, ways: Ways, notices: Notices) -> None:
        self._me = me
        self._ways = ways
        self._notices = notices
        self._disks: dict[Path, trio.Lock] = {}

    def begin(
        self, known: Known, session: f.Session, reason: str, store: SnapshotStore | None, more: Mapping[str, Any]
    ) -> Callable[[], Awaitable[None]]:
        """Settle what is to be written: all that is known of `session` by now, with `more` in its lineage.

        What is returned writes it, and raises nothing whatever a disk does.  Without a `store` it only takes in what waits.
        """
        take, moment = known.intake(), self._ways.clock()
        try:
            lineage = {**more, **self._ways.lineage(session)}
        except Exception:
            log.exception("the lineage of %s is not known", session.sid)
            lineage = dict(more)

        def make() -> Snapshot | None:
            """In a worker thread: take in what has waited, and make the snapshot; None: there is nothing to write."""
            take()
            if store is None or known.memory.empty:
                return None
            known.memory.boundaries += 1
            return snapshot_of(known.memory, session, reason, moment, store.profile, self._ways.run, lineage)

        return partial(self._write, session.sid, reason, make, store)

    async def _write(
        self, sid: str, reason: str, make: Callable[[], Snapshot | None], store: SnapshotStore | None
    ) -> None:
        import trio  # noqa: PLC0415 - whoever only reads snapshots needs none

        try:
            snapshot = await self._me.blocking(make)
            if snapshot is None or store is None:
                return
            save = _saving(store, snapshot)
            async with self._disks.setdefault(store.directory, trio.Lock()):
                path, kept = await self._me.blocking(save)
            if not kept:
                raise SnapshotError(_NOT_KEPT)
            self._notices.tell(f.SnapshotSaved(sid, str(path), reason, snapshot.moment.timestamp()))
        except Exception as error:  # noqa: BLE001 - whatever a disk does, the next boundary tries again
            why = said(error)
            log.warning("the snapshot of %s (%s) was not written: %s", sid, reason, why)
            self._notices.tell(f.SnapshotFailed(sid, reason, why))


def _saving(store: SnapshotStore, snapshot: Snapshot) -> Callable[[], tuple[Path, bool]]:
    """What saves a snapshot, and says whether it is still there.

    One of a compaction, and one of a helper that is done, take the place of those before them.
    """
    instead = snapshot.reason == "compaction" or "helper_of" in snapshot.lineage

    def save() -> tuple[Path, bool]:
        path = store.save(snapshot, instead=instead)
        return path, path.exists()

    return save
