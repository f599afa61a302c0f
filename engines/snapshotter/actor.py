"""The snapshotter as an engine: it observes every conversation, and writes at its boundaries.

Nothing is written at the end of a turn.  It is written when a conversation is reset, when it is over, and before a
compaction that loses something.  For the latter it is asked, as the last of the revisers: there is an answer by then that
was found good, and nobody can act on it before this engine has said that it changes nothing, which it says once the
snapshot is on disk.  An answer that is refused, fails or changes nothing comes before no reviser, and writes nothing.  A
disk that is not done in time is not waited for: the compaction goes on, and what was to be written is written late.

How files are written is `writing`'s.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import evolve

from dataspace import Facet, where
from engines import facts as f
from engines.engine import serve

from ..compressor.wording import plain
from .known import Known
from .listing import Entry
from .memory import Memory
from .notices import Notices, said
from .snapshot import moment_of
from .store import SnapshotStore
from .telling import resumable
from .writing import Ways, Writing

if TYPE_CHECKING:
    import trio

__all__ = ["snapshotter"]

_HEARD = (f.TurnStarted, f.TurnEnded, f.ToolCalled, f.Noted, f.Delegated)
_ENDS = frozenset({"session_end", "session_reset"})
_MEANWHILE = 0.25
"""Seconds: what is asked about is read while a model takes its time, but not while a quick answer is being made: that
needs the interpreter.
"""
_PATIENCE = 2.0
"""Seconds that a compaction waits for its snapshot, where the loop sets no bound of its own that is over sooner."""
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
        _Snapshotter(me, Ways(store_for, clock, lineage, closed)).begin()

    return boot


class _Snapshotter:
    def __init__(self, me: Facet, ways: Ways) -> None:
        self._me = me
        self._ways = ways
        self._known: dict[str, Known] = {}
        self._compacting: dict[str, int] = {}  # the latest question that was written for
        self._notices = Notices(me)
        self._writing = Writing(me, ways, self._notices)

    def begin(self) -> None:
        me = self._me
        me.observe(f.Session, appeared=self._session, vanished=self._forget)
        for message in _HEARD:
            me.observe(message, heard=self._hear)
        me.observe(f.Transcript, appeared=self._hear)
        me.observe(f.SkillRequired, appeared=self._hear, vanished=self._released)
        me.during(where(f.Asked, role="compressor"), self._asked)
        me.observe(f.Compressed, appeared=self._compressed)
        serve(me, self._keep, role="reviser")

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
            store = self._store(session, "session_start")
            if store is not None:
                self._me.task(self._look, session, store)
        elif session.sid in self._known and not self._lives_on(session):
            reason = "session_reset" if session.ended == "session_reset" else "session_end"
            self._boundary(session, reason, self._store(session, reason))
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

    def _asked(self, me: Facet, asked: f.Asked) -> None:
        """A compaction begins: from now on something may be lost."""
        if asked.messages is not None:
            self._hear(f.Transcript(asked.sid, 0, messages=asked.messages))
        me.task(self._read, asked.sid)

    async def _read(self, sid: str) -> None:
        import trio  # noqa: PLC0415 - whoever only reads snapshots needs none

        await trio.sleep(_MEANWHILE)
        known = self._known.get(sid)
        if known is not None:
            self._do(known, partial(self._me.blocking, known.intake()))

    async def _keep(self, _me: Facet, asked: f.Asked) -> None:
        """What was asked about is about to be lost: return once it is on disk, or has failed to get there, or is late."""
        import trio  # noqa: PLC0415 - as above

        done, waited = self._compaction(asked.sid, asked.ask), trio.Event()
        if done is not None:
            self._me.task(self._watch, asked.sid, done, waited)
            await waited.wait()

    async def _watch(self, sid: str, done: trio.Event, waited: trio.Event) -> None:
        """Whatever becomes of the question: as long as a disk stalls, no other compaction waits for it."""
        import trio  # noqa: PLC0415 - as above

        with trio.move_on_after(_PATIENCE):
            await done.wait()
        if not done.is_set():
            log.warning("the snapshot of %s before a compaction is late; nobody waits for it any longer", sid)
            working = self._me.publish(f.Working(self._me.name, sid))
            waited.set()
            await done.wait()
            self._me.retract(working)
        waited.set()

    def _compressed(self, compressed: f.Compressed) -> None:
        """Whoever did it did it unasked, or this engine was not asked about it: it is better late than never."""
        if compressed.ask > self._compacting.get(compressed.sid, 0):
            self._compaction(compressed.sid, compressed.ask)
        self._hear(compressed)

    def _compaction(self, sid: str, ask: int) -> trio.Event | None:
        """Have a snapshot written; what is returned is set when that is over.  None: nothing of this is kept."""
        session = self._session_of(sid)
        if session is None or session.state != "active":
            return None
        self._compacting[sid] = max(ask, self._compacting.get(sid, 0))
        store = self._store(session, "compaction")
        return None if store is None else self._boundary(session, "compaction", store)

    def _session_of(self, sid: str) -> f.Session | None:
        known = self._known.get(sid)
        found = self._me.facts(where(f.Session, sid=sid) if known is None else known.sessions)
        return found[-1] if found else None

    def _host_id(self, sid: str) -> str:
        """What the host calls a conversation, for that means something to others; its own name where nobody knows."""
        found = self._session_of(sid)
        return (found.host_session if found is not None else None) or sid

    # -- what is written ----------------------------------------------------------------------------------------------

    def _store(self, session: f.Session, reason: str) -> SnapshotStore | None:
        try:
            return self._ways.store_for(session)
        except Exception as error:  # noqa: BLE001 - told, as what a disk does is
            self._notices.tell(f.SnapshotFailed(session.sid, reason, said(error)))
            return None

    def _boundary(self, session: f.Session, reason: str, store: SnapshotStore | None) -> trio.Event:
        """Have a snapshot written of what is known by now; what is returned is set when that is over."""
        import trio  # noqa: PLC0415 - as above

        known, done = self._of(session.sid), trio.Event()
        known.named(session.host_session)
        parent = {"parent": self._host_id(session.parent)} if session.parent else {}
        write = self._writing.begin(known, session, reason, store, parent)

        async def job() -> None:
            try:
                await write()
            finally:
                done.set()
            if reason in _ENDS:
                self._ways.closed(session.sid)

        self._do(known, job)
        return done

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
