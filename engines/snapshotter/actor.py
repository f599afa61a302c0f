"""The snapshotter as an engine: it observes every conversation, and writes at its boundaries.

Nothing is written at the end of a turn.  It is written when a question is put to a compressor for the first time, before
anything can be lost; when a conversation is reset, and when it is over.  Files are written in worker threads, one at a
time for each folder, so neither the event loop nor the host waits for a disk.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from dataspace import Facet, where
from engines import facts as f
from engines.engine import announce

from ..compressor.wording import plain
from .collect import snapshot_of
from .errors import SnapshotError
from .known import Known
from .listing import Entry
from .memory import Memory
from .notices import Notices, said
from .snapshot import Snapshot, moment_of
from .store import SnapshotStore
from .telling import resumable

if TYPE_CHECKING:
    import trio

__all__ = ["snapshotter"]

_HEARD = (f.TurnStarted, f.TurnEnded, f.ToolCalled, f.Noted, f.Delegated)
_NOT_KEPT = (
    "it was not kept, for all that are kept there are newer by what they say; if the clock was wrong then, remove those"
    " that it dated (hermes-dataspace snapshots list, clear)"
)
_ENDS = frozenset({"session_end", "session_reset"})
_MEANWHILE, _AFTER = 0.25, 0.01
"""Seconds: a snapshot takes the interpreter that a compaction and whoever waits for it need, so it is made a moment
after the answer; while a model takes its time, in the meantime.
"""
log = logging.getLogger("engines.snapshotter")


def _now() -> datetime:
    return datetime.now(UTC)


def _nothing(_session: f.Session) -> Mapping[str, Any]:
    return {}


def snapshotter(
    store_for: Callable[[f.Session], SnapshotStore | None],
    *,
    clock: Callable[[], datetime] = _now,
    lineage: Callable[[f.Session], Mapping[str, Any]] = _nothing,
    closed: Callable[[str], object] = str,
) -> Callable[[Facet], None]:
    """Return the boot function of a snapshotter; it needs a dataspace under trio.

    `store_for` names the store of a conversation (None: it is not to be kept), `lineage` what is to be added to that of its
    snapshots, `closed(sid)` is called when what there was to write at its end has been written or has failed.  All three are
    called on the dataspace's thread, so they do no I/O.  `clock` gives the time that is recorded.

    Each write becomes a `SnapshotSaved`, or a `SnapshotFailed` that says why; the latest of a conversation stands.  What was
    there when a conversation began is a `SnapshotFound`.
    """

    def boot(me: Facet) -> None:
        _Snapshotter(me, _Ways(store_for, clock, lineage, closed)).begin()

    return boot


@frozen
class _Ways:
    """What whoever plugs a snapshotter in has given it."""

    store_for: Callable[[f.Session], SnapshotStore | None]
    clock: Callable[[], datetime]
    lineage: Callable[[f.Session], Mapping[str, Any]]
    closed: Callable[[str], object]
    run: str = field(factory=partial(token_hex, 4))  # two runs of a program may call their conversations alike


class _Snapshotter:
    def __init__(self, me: Facet, ways: _Ways) -> None:
        self._me = me
        self._ways = ways
        self._known: dict[str, Known] = {}
        self._compacting: dict[str, int] = {}  # the latest question that was written for
        self._notices = Notices(me)
        self._disks: dict[Path, trio.Lock] = {}
        self._deciding: dict[str, trio.Event] = {}

    def begin(self) -> None:
        me = self._me
        me.observe(f.Session, appeared=self._session, vanished=self._forget)
        for message in _HEARD:
            me.observe(message, heard=self._hear)
        me.observe(f.Transcript, appeared=self._hear)
        me.observe(f.SkillRequired, appeared=self._hear, vanished=self._released)
        me.observe(where(f.Asked, role="compressor"), appeared=self._asked, vanished=self._decided)
        me.observe(f.Compressed, appeared=self._compressed)
        announce(me)

    # -- what is heard ------------------------------------------------------------------------------------------------

    def _of(self, sid: str) -> Known:
        found = self._known.get(sid)
        if found is None:
            found = self._known[sid] = Known(Memory(sid))
        return found

    def _hear(self, fact: Any) -> None:
        """Have it taken in, in its turn."""
        session = self._session_of(fact.sid)
        if session is None or session.state != "active":
            return  # forgotten, or over
        if isinstance(fact, f.Delegated):
            fact = evolve(fact, child=self._host_id(fact.child))
        known = self._of(fact.sid)
        at = self._ways.clock().isoformat(timespec="seconds")
        known.named(session.host_session)
        known.put(partial(known.memory.hear, fact, at))
        if known.full:
            self._do(known, partial(self._me.blocking, known.intake()))

    def _do(self, known: Known, job: Callable[[], Awaitable[object]]) -> None:
        if known.add(job):
            self._me.task(known.run)

    def _released(self, required: f.SkillRequired) -> None:
        known = self._known.get(required.sid)
        if known is not None:
            known.put(partial(known.memory.skills.pop, required.name, None))

    def _session(self, session: f.Session) -> None:
        if session.state == "active":
            self._of(session.sid).named(session.host_session)
            store = self._store(session)
            if store is not None:
                self._me.task(self._look, session, store)
        elif session.sid in self._known and not self._lives_on(session):
            self._boundary(session, "session_reset" if session.ended == "session_reset" else "session_end")
        else:
            self._ways.closed(session.sid)
        if session.state != "active":
            self._known.pop(session.sid, None)
            self._compacting.pop(session.sid, None)

    def _lives_on(self, session: f.Session) -> bool:
        """Whether another agent goes on with the same session of the host: a helper has ended, not the session."""
        others = [other for other in self._me.facts(where(f.Session, state="active")) if other.sid != session.sid]
        alike = [other for other in others if session.host_session and other.host_session == session.host_session]
        return any(
            self._is_kept(other) for other in alike
        )  # one of which nothing is kept, such as a review, keeps nothing

    def _is_kept(self, session: f.Session) -> bool:
        try:
            return self._ways.store_for(session) is not None
        except Exception:  # noqa: BLE001 - told when something of it is to be written
            return False

    def _forget(self, session: f.Session) -> None:
        """A conversation is known no longer; nor is what became of its snapshots."""
        if session.state == "ended":
            self._notices.forget(session.sid)

    def _asked(self, asked: f.Asked) -> None:
        """A compaction begins: from now on something may be lost."""
        import trio  # noqa: PLC0415 - whoever only reads snapshots needs none

        if asked.ask > self._compacting.get(asked.sid, 0):
            self._compacting[asked.sid] = asked.ask
            if asked.messages is not None:
                self._hear(f.Transcript(asked.sid, 0, messages=asked.messages))
            self._compaction(asked.sid, self._deciding.setdefault(asked.sid, trio.Event()))

    def _decided(self, asked: f.Asked) -> None:
        """Whoever was asked has answered, or is not to answer any more."""
        decided = self._deciding.pop(asked.sid, None)
        if decided is not None:
            decided.set()

    def _compressed(self, compressed: f.Compressed) -> None:
        if compressed.ask > self._compacting.get(compressed.sid, 0):  # whoever did it did it unasked
            self._compacting[compressed.sid] = compressed.ask
            self._compaction(compressed.sid)
        self._hear(compressed)

    def _compaction(self, sid: str, decided: trio.Event | None = None) -> None:
        session = self._session_of(sid)
        if session is not None and session.state == "active":
            self._boundary(session, "compaction", decided)

    def _session_of(self, sid: str) -> f.Session | None:
        known = self._known.get(sid)
        found = self._me.facts(where(f.Session, sid=sid) if known is None else known.sessions)
        return found[-1] if found else None

    def _host_id(self, sid: str) -> str:
        """What the host calls a conversation, for that means something to others; its own name where nobody knows."""
        found = self._session_of(sid)
        return (found.host_session if found is not None else None) or sid

    # -- what is written ----------------------------------------------------------------------------------------------

    def _store(self, session: f.Session) -> SnapshotStore | None:
        try:
            return self._ways.store_for(session)
        except Exception as error:  # noqa: BLE001 - told, as what a disk does is
            self._notices.tell(f.SnapshotFailed(session.sid, "session_start", said(error)))
            return None

    def _boundary(self, session: f.Session, reason: str, decided: trio.Event | None = None) -> None:
        """Have a snapshot written of what is known by now, once a question is `decided`: see `_MEANWHILE`."""
        known = self._of(session.sid)
        known.named(session.host_session)
        take, store, moment = known.intake(), self._store(session), self._ways.clock()

        def make() -> Snapshot | None:
            """In a worker thread: take in what has waited, and make the snapshot; None: there is nothing to write."""
            take()
            if store is None or known.memory.empty:
                return None
            known.memory.boundaries += 1
            return snapshot_of(known.memory, session, reason, moment, store.profile, self._ways.run, more)

        try:
            parent = {"parent": self._host_id(session.parent)} if session.parent else {}
            more = {**parent, **self._ways.lineage(session)}
        except Exception:
            log.exception("the lineage of %s is not known", session.sid)
            more = {}
        self._do(known, partial(self._write, session.sid, reason, make, store, decided))

    async def _write(
        self,
        sid: str,
        reason: str,
        make: Callable[[], Snapshot | None],
        store: SnapshotStore | None,
        decided: trio.Event | None,
    ) -> None:
        import trio  # noqa: PLC0415 - as above

        if decided is not None:
            with trio.move_on_after(_MEANWHILE):
                await decided.wait()
            await trio.sleep(_AFTER)
        try:
            snapshot = await self._me.blocking(make)
            if snapshot is not None and store is not None:
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
        if reason in _ENDS:
            self._ways.closed(sid)

    async def _look(self, session: f.Session, store: SnapshotStore) -> None:
        """A conversation begins: say what is there of earlier ones."""
        try:
            found: Entry | None = resumable(await self._me.blocking(store.list))
        except Exception as error:  # noqa: BLE001 - as above; it is told again when something is to be written
            log.debug("there is no list of the snapshots in %s: %s", store.directory, said(error))
            return
        if found is None:
            return
        log.info(
            "a snapshot of session %s, saved %s (%s), is there; /context-bridge restore brings it back",
            *(plain(found.session_id), found.timestamp, found.reason),
        )
        at = moment_of(found.timestamp).timestamp()
        self._notices.tell(
            f.SnapshotFound(session.sid, str(found.path), session=found.session_id, reason=found.reason, at=at)
        )


def _saving(store: SnapshotStore, snapshot: Snapshot) -> Callable[[], tuple[Path, bool]]:
    """What saves a snapshot, one of a compaction in the place of those before it, and says whether it is still there."""

    def save() -> tuple[Path, bool]:
        path = store.save(snapshot, instead=snapshot.reason == "compaction")
        return path, path.exists()

    return save
