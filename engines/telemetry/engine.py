"""The engine: one more observer, which writes down what it hears where it stands in nobody's way.

    facts ──observers──▶ Ledger ──drafts──▶ a queue for each log ──thread──▶ EpisodicLog
                                 └─facts──▶ the exporter's queue ──thread──▶ spans, metrics

On the run loop's time it adds up and queues, and no more.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from attrs import frozen

from dataspace import Facet, where
from engines.engine import announce
from engines.facts import Asked, Session

from .draft import Draft, drafted, dropped
from .entry import Entry, malformed
from .kinds import KINDS
from .ledger import HEARD, HELD, REPEATED, Ledger
from .log import EpisodicLog, Line
from .profile import resolve_profile
from .spool import LIMIT, Spool, SpoolStatistics
from .tally import Tally

__all__ = ["Exporter", "Telemetry", "telemetry"]

AT_END = 2.0
"""Seconds within which what waits is written at the end of a session."""

_ON_STOP = 0.9  # of the second that a task has to clean up
log = logging.getLogger(__name__)

Logs = EpisodicLog | Iterable[EpisodicLog] | None
LogFor = Callable[[Session], Logs]


class Exporter(Protocol):
    """What else wants the facts, on their way: `engines.telemetry.otel.OpenTelemetry` is one."""

    def appeared(self, fact: Any, at: float, profile: str) -> None:
        """A fact stands or a message was sent; on the run loop's time."""
        ...

    def vanished(self, fact: Any, at: float) -> None:
        """A fact does not stand any more."""
        ...

    def flush(self, seconds: float) -> bool:
        """Wait until all is exported, for at most so long; from any thread."""
        ...


@frozen
class _Desk:
    """A log and the queue in front of it."""

    log: EpisodicLog
    spool: Spool[Draft]


class Telemetry:
    """What `telemetry` makes, for those who want to flush or to look: `boot` is the engine's boot function.

    What it counts outlives the actor, so an engine that is started again counts nothing twice.
    """

    def __init__(
        self,
        log_for: LogFor,
        *,
        exporter: Exporter | None = None,
        without: frozenset[str] = frozenset({"cron", "flush"}),
        env: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
        limit: int = LIMIT,
    ) -> None:
        self._log_for = log_for
        self._exporter = exporter
        self._without = without
        self._env = os.environ if env is None else env
        self._clock = clock
        self._limit = limit
        self._desks: dict[str, _Desk] = {}
        self._serving = False
        self.ledger = Ledger(self._admit)

    # -- the actor ----------------------------------------------------------------------------------------------------

    def boot(self, me: Facet) -> None:
        """Observe, and serve as an observer."""
        standing: list[Any] = []
        for cls in HEARD:
            standing += me.facts(cls)
        self.ledger.resume(frozenset(standing))
        for cls in HEARD:
            pattern = where(Asked, role="compressor") if cls is Asked else cls
            vanished = self._vanished if cls in HELD else None
            me.observe(pattern, appeared=self._appeared, vanished=vanished, heard=self._appeared)
        announce(me)
        self._serving = True
        if me.ds._runtime is None:
            me.on_stop(lambda _parent: self._stopped())
        else:
            me.task(self._last_word, me)

    async def _last_word(self, me: Facet) -> None:
        """When the engine stops, see that what waits is written, off the event loop."""
        import trio  # noqa: PLC0415 - without an event loop nobody comes here

        try:
            await trio.sleep_forever()
        finally:
            self._serving = False
            with me.grace():
                await trio.to_thread.run_sync(self.flush, _ON_STOP, abandon_on_cancel=True)

    def _stopped(self) -> None:
        self._serving = False
        self.flush()

    def _appeared(self, fact: Any) -> None:
        at = self._clock()
        tally = self._tally_of(fact)  # a session that ends has its account until it is closed
        drafts = list(self.ledger.appeared(fact, at))
        self._queue(drafts)
        if self._exporter is not None and (drafts or type(fact) not in REPEATED):
            tally = tally or self._tally_of(fact)
            self._exporter.appeared(fact, at, tally.profile if tally else "")
        if type(fact) is Session and fact.state == "ended":
            self._hurry()

    def _vanished(self, fact: Any) -> None:
        at = self._clock()
        self._queue(self.ledger.vanished(fact, at))
        if self._exporter is not None:
            self._exporter.vanished(fact, at)

    def _tally_of(self, fact: Any) -> Tally | None:
        return self.ledger.tally(getattr(fact, "sid", ""))

    def _queue(self, drafts: Iterable[Draft]) -> None:
        for draft in drafts:
            weight = KINDS[draft.kind].importance
            for desk in draft.route:
                if weight >= desk.log.least:
                    desk.spool.put(draft)

    def _hurry(self) -> None:
        for desk in self._desks.values():
            desk.spool.hurry()

    # -- whose it is --------------------------------------------------------------------------------------------------

    def _admit(self, session: Session) -> tuple[str, tuple[_Desk, ...]]:
        """Profile and logs of a session, settled at its start."""
        profile = session.profile or resolve_profile(self._env, session.home)
        parent = self.ledger.tally(session.parent) if session.parent else None
        if session.platform in self._without or (parent is not None and not parent.route):
            return profile, ()  # who works for a session that leaves nothing leaves nothing
        try:
            logs = self._log_for(session)
        except Exception:
            log.exception("no log could be chosen for a session, so it is not logged")
            logs = None
        chosen: Sequence[EpisodicLog] = () if logs is None else [logs] if isinstance(logs, EpisodicLog) else list(logs)
        return profile, tuple(self._desk(one) for one in chosen)

    def _desk(self, chosen: EpisodicLog) -> _Desk:
        """The queue for a log; logs of one path share the first one's, so that a file has one writer here."""
        name = str(chosen.path)
        if name not in self._desks:
            writer = _Writer(chosen)
            spool = Spool(
                writer.write, whose=_profile_of, name="telemetry-log", limit=self._limit, kept=self._expects_more
            )
            self._desks[name] = _Desk(chosen, spool)
        return self._desks[name]

    def _expects_more(self) -> bool:
        """Whether a session goes on, of which something is still to be written."""
        return self._serving and self.ledger.sessions() > 0

    # -- for whoever holds it -----------------------------------------------------------------------------------------

    def flush(self, seconds: float = AT_END) -> bool:
        """Wait until all that was heard by now is written, for at most so long; from any thread but the run loop's."""
        end = time.monotonic() + seconds
        done = [desk.spool.flush(max(0.0, end - time.monotonic())) for desk in list(self._desks.values())]
        if self._exporter is not None:
            done.append(self._exporter.flush(max(0.0, end - time.monotonic())))
        return all(done)

    def statistics(self) -> Mapping[str, SpoolStatistics]:
        """How many entries came, were written, wait and were lost, by the path of the log."""
        return {name: desk.spool.statistics() for name, desk in list(self._desks.items())}


def telemetry(log_for: LogFor, **options: Any) -> Callable[[Facet], None]:
    """A boot function for the engine: an observer that writes an episodic log.

    `log_for(session)` is asked once for each session, when it begins, and returns the log for it, several, or None for
    no log.  Options: `exporter` (see `Exporter`), `without` (platforms whose sessions are not logged, by default cron
    and flush; an empty set logs them too), `env` (where a profile is looked for, by default the process's environment),
    `clock` (seconds since the epoch), `limit` (how many entries wait at most for a log).
    """
    return Telemetry(log_for, **options).boot


def _profile_of(draft: Draft) -> str:
    return draft.profile


class _Writer:
    """Makes entries of drafts, on the queue's thread."""

    def __init__(self, chosen: EpisodicLog) -> None:
        self._log = chosen
        self._failing = False

    def write(self, drafts: Sequence[Draft], lost: Mapping[str, int]) -> tuple[int, bool]:
        """Write what can be written; returns how many drafts are done, and whether the losses are told."""
        times = [datetime.fromtimestamp(one.at, UTC) for one in drafts]
        lines = [Line(dropped(count), times[0] if times else None, profile) for profile, count in lost.items() if count]
        told = len(lines)
        lines += [Line(self._entry(one), at, one.profile) for one, at in zip(drafts, times, strict=True)]
        written, error = self._log.write(lines)
        self._say(error)
        return max(0, len(written) - told), len(written) >= told

    def _entry(self, draft: Draft) -> Entry:
        try:
            return drafted(draft, self._log.redact)
        except Exception:
            log.exception("telemetry: an entry (%s) could not be made", draft.kind)
            return malformed(f"{draft.kind}: an entry could not be made of it")

    def _say(self, error: OSError | None) -> None:
        """Say once when writing begins to fail, and once when it goes on."""
        if error is not None and not self._failing:
            log.warning(
                "telemetry: %s cannot be written to (%s); entries wait", self._log.path, error.strerror or error
            )
        elif error is None and self._failing:
            log.warning("telemetry: %s is written to again", self._log.path)
        self._failing = error is not None
