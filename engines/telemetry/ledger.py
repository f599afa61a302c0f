"""From facts to entries: a state machine without a clock, a file or a thread.

It is told each fact with the time, adds up, and returns drafts of what is to be written.  All it does is on the run
loop's time, so a draft holds what is cheap to hold; it becomes an entry elsewhere (`engines.telemetry.draft`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from dataspace import Crashed
from engines import facts as f

from .draft import Draft, call_of, said, spent
from .tally import Tally
from .tools import failed

__all__ = ["HEARD", "HELD", "REPEATED", "Admit", "Ledger"]

Admit = Callable[[f.Session], tuple[str, tuple[Any, ...]]]
"""Given a session that begins: its profile, and the places where its entries go."""

_RESPONSES = 50_000  # response ids that are remembered
_QUESTIONS = 8  # questions of a session that may be open at a time, with much to spare
_MOST = 10_000  # sessions that are open without anybody having said so, and ended ones that are remembered


class Ledger:
    """Keeps account of sessions.  It outlives the actor that feeds it, so what still stands is not counted again."""

    def __init__(self, admit: Admit) -> None:
        self._admit = admit
        self._tallies: dict[str, Tally] = {}
        self._standing: set[Any] = set()
        self._responses: OrderedDict[str, None] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._crashes = 0
        self._last: Tally | None = None

    def tally(self, sid: str) -> Tally | None:
        """The account of a session that has not ended."""
        return self._tallies.get(sid)

    def sessions(self) -> int:
        """How many sessions are open."""
        return len(self._tallies)

    def resume(self, standing: frozenset[Any]) -> None:
        """A new actor begins to feed it; `standing` is what stands now."""
        self._standing &= standing

    def appeared(self, fact: Any, at: float) -> Iterator[Draft]:
        """A fact stands, or a message was sent."""
        cls = type(fact)
        if cls in _ONCE:
            if fact in self._standing:
                return
            self._standing.add(fact)
        if cls is f.Session:
            yield from self._session(fact, at)
        elif cls in {Crashed, f.GaveUp}:
            yield from self._process(fact, at)
        else:
            tally = self._tallies.get(fact.sid)
            if tally is None and cls not in _LATE and fact.sid not in self._ended and len(self._tallies) < _MOST:
                tally = self._open(f.Session(fact.sid), at)  # nobody has introduced it
            if tally is not None:
                yield from _HANDLERS[cls](self, tally, fact, at)

    def vanished(self, fact: Any, at: float) -> Iterator[Draft]:
        """A fact does not stand any more."""
        self._standing.discard(fact)
        if type(fact) is f.Session and fact.state == "active":  # its end, if there was one, has been heard before
            yield from self._close(fact, at, fact.ended or "gone")

    # -- sessions -----------------------------------------------------------------------------------------------------

    def _open(self, session: f.Session, at: float) -> Tally:
        self._ended.pop(session.sid, None)
        profile, route = self._admit(session)
        tally = self._tallies[session.sid] = Tally(session, profile, route, at)
        if route:
            self._last = tally
        return tally

    def _session(self, session: f.Session, at: float) -> Iterator[Draft]:
        if session.state == "ended":
            yield from self._close(session, at, session.ended)
        elif session.sid not in self._tallies:
            self._open(session, at)
        else:
            self._tallies[session.sid].session = session

    def _close(self, session: f.Session, at: float, why: str) -> Iterator[Draft]:
        tally = self._tallies.pop(session.sid, None)
        if tally is not None:
            _remember(self._ended, session.sid, _MOST)
            told = {"ended": why, "lasted": round(spent(at - tally.began), 3), **tally.sums.told()}
            yield _draft(tally, "session", at, told)

    def _process(self, fact: Any, at: float) -> Iterator[Draft]:
        """What concerns all sessions is told once to each profile that has one, or had the last one; no sum holds it."""
        if isinstance(fact, Crashed):
            if fact.n <= self._crashes:
                return
            self._crashes = fact.n
        live = [tally for tally in self._tallies.values() if tally.route]
        whose: dict[str, dict[Any, None]] = {}
        for tally in live or [tally for tally in [self._last] if tally is not None]:
            whose.setdefault(tally.profile, {}).update(dict.fromkeys(tally.route))
        if isinstance(fact, Crashed):
            kind, told = "crash", {"actor": fact.actor, "reason": fact.reason}
        else:
            kind, told = "gave-up", {"engine": fact.engine, "crashes": fact.crashes, "reason": fact.reason}
        for profile, routes in whose.items():
            yield Draft(at, kind, profile, tuple(routes), (), told)

    # -- one fact of a session ----------------------------------------------------------------------------------------

    def _budget(self, tally: Tally, fact: f.Budget, _at: float) -> Iterator[Draft]:
        tally.context_length, tally.threshold = fact.context_length, fact.threshold
        return iter(())

    def _usage(self, tally: Tally, fact: f.Usage, at: float) -> Iterator[Draft]:
        """One response; however often it is told of, and whoever tells it again after a resume, it is counted once."""
        if fact.response_id:
            if fact.response_id in self._responses:
                return
            _remember(self._responses, fact.response_id, _RESPONSES)
        elif fact.seq <= tally.seq:
            return
        tally.seq = max(tally.seq, fact.seq)
        tally.sums.read(fact)
        yield _draft(tally, "usage", at, (fact, tally.threshold, tally.context_length))

    def _should(self, tally: Tally, fact: f.ShouldCompress, at: float) -> Iterator[Draft]:
        tally.wanted = {ask: since for ask, since in tally.wanted.items() if ask > fact.ask - _QUESTIONS}
        tally.asked = {ask: since for ask, since in tally.asked.items() if ask > fact.ask - _QUESTIONS}
        tally.wanted[fact.ask] = at
        return iter(())

    def _asked(self, tally: Tally, fact: f.Asked, at: float) -> Iterator[Draft]:
        if fact.role == "compressor":
            tally.asked.setdefault(fact.ask, at)
        return iter(())

    def _compressed(self, tally: Tally, fact: f.Compressed, at: float) -> Iterator[Draft]:
        asked = tally.asked.pop(fact.ask, at)
        seconds = spent(fact.seconds or at - tally.wanted.pop(fact.ask, asked))  # a loop without a clock does not say
        tally.sums.compactions += 1
        tally.sums.saved += fact.tokens_before - fact.tokens_after
        tally.sums.waited += seconds
        told = {"ask": fact.ask, "by": fact.by, "before": fact.tokens_before, "after": fact.tokens_after}
        yield _draft(tally, "compaction", at, {**told, "seconds": round(seconds, 3)})

    def _compaction_failed(self, tally: Tally, fact: f.CompactionFailed, at: float) -> Iterator[Draft]:
        waited = spent(at - tally.asked.pop(fact.ask, at))
        tally.sums.waited += waited
        tally.sums.failures += 1
        told = {"ask": fact.ask, "reason": fact.reason, "seconds": round(waited, 3)}
        yield _draft(tally, "compaction-failed", at, told)

    def _refused(self, tally: Tally, fact: f.Refused, at: float) -> Iterator[Draft]:
        tally.sums.refused += 1
        yield _draft(tally, "refused", at, {"ask": fact.ask, "by": fact.by, "reason": fact.reason})

    def _tool(self, tally: Tally, fact: f.ToolCalled, at: float) -> Iterator[Draft]:
        bad = failed(said(fact.status), said(fact.result))
        tally.sums.tools += 1
        if bad:
            tally.sums.tool_failures += 1
            tally.sums.failures += 1
            tally.sums.tool_lost += spent(fact.seconds or 0.0)
        kind = "tool-failed" if bad else "tool"
        yield Draft(at, kind, tally.profile, tally.route, (fact.sid, fact.call_id or fact.tool), call_of(fact, bad))

    def _loaded(self, tally: Tally, fact: f.SkillLoaded, at: float) -> Iterator[Draft]:
        sums = tally.sums
        sums.skills_loaded += 1
        sums.deduplicated += fact.outcome == "deduplicated"
        sums.reloaded += fact.outcome == "reloaded"
        kind = "skill-reloaded" if fact.outcome == "reloaded" else "skill-loaded"
        yield _draft(tally, kind, at, fact)

    def _pruned(self, tally: Tally, fact: f.SkillPruned, at: float) -> Iterator[Draft]:
        tally.sums.pruned += 1
        yield _draft(tally, "skill-pruned", at, fact)

    def _delegated(self, tally: Tally, fact: f.Delegated, at: float) -> Iterator[Draft]:
        tally.sums.delegated += 1
        yield _draft(tally, "delegated", at, {"child": fact.child, "task": said(fact.task)[:2_000]})

    def _turn(self, tally: Tally, _fact: f.TurnStarted, _at: float) -> Iterator[Draft]:
        tally.sums.turns += 1
        return iter(())

    def _turn_over(self, _tally: Tally, _fact: f.TurnEnded, _at: float) -> Iterator[Draft]:
        return iter(())  # counted when it began; an exporter wants to hear of it

    def _noted(self, tally: Tally, fact: f.Noted, at: float) -> Iterator[Draft]:
        yield _draft(tally, "note", at, {"text": said(fact.text)[:20_000], "by": fact.by})

    def _trouble(self, tally: Tally, fact: Any, at: float) -> Iterator[Draft]:
        kind = _TROUBLE[type(fact)]
        tally.sums.failures += kind in {"loop-invalid", "snapshot-failed"}
        yield _draft(tally, kind, at, fact)


def _remember(store: OrderedDict[str, None], name: str, most: int) -> None:
    store[name] = None
    if len(store) > most:
        store.popitem(last=False)


def _draft(tally: Tally, kind: str, at: float, told: Any) -> Draft:
    return Draft(at, kind, tally.profile, tally.route, (tally.session.sid,), told)


_TROUBLE: dict[type, str] = {
    f.Blocked: "blocked",
    f.LoopInvalid: "loop-invalid",
    f.SkillTooLarge: "skill-too-large",
    f.SnapshotFailed: "snapshot-failed",
}
_HANDLERS: dict[type, Callable[..., Iterator[Draft]]] = {
    f.Budget: Ledger._budget,
    f.Usage: Ledger._usage,
    f.ShouldCompress: Ledger._should,
    f.Asked: Ledger._asked,
    f.Compressed: Ledger._compressed,
    f.CompactionFailed: Ledger._compaction_failed,
    f.Refused: Ledger._refused,
    f.ToolCalled: Ledger._tool,
    f.SkillLoaded: Ledger._loaded,
    f.SkillPruned: Ledger._pruned,
    f.Delegated: Ledger._delegated,
    f.TurnStarted: Ledger._turn,
    f.TurnEnded: Ledger._turn_over,
    f.Noted: Ledger._noted,
    **dict.fromkeys(_TROUBLE, Ledger._trouble),
}
_ONCE = frozenset({f.Compressed, f.CompactionFailed, f.SkillPruned, f.GaveUp, *_TROUBLE})
_LATE = frozenset({f.Budget, f.ShouldCompress, f.Asked, f.TurnEnded})  # these alone do not make a session
HELD = _ONCE | {f.Session}
"""Those whose end is worth hearing of."""

REPEATED = _ONCE | {f.Usage, Crashed}
"""Those which may be heard again without being news: then they yield no draft."""

HEARD: tuple[type, ...] = (f.Session, Crashed, f.GaveUp, *_HANDLERS)
"""The facts and messages that it wants to hear of; a session before what belongs to it."""
