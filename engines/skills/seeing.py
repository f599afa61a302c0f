"""What is in context: message lists as they are seen, and what a compaction left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from ..transcript import current_user, role_of, text_of
from . import events as e
from .entries import Entry, Key, Known
from .ledger import Ledger, Skill, Stepped
from .loads import found_again, give_up
from .policy import SkillPolicy
from .reading import hash_of
from .scan import scan, sightings
from .tasks import begin_task, losing, recovering

__all__ = ["compacted", "seen", "taken_over"]


def seen(ledger: Ledger, event: e.Seen, _policy: SkillPolicy) -> Stepped:
    """A message list as it is, or as it is about to be sent."""
    rows = event.messages
    found = {entry.key: entry for entry in scan(rows)}
    if not event.sent and not ledger.turns:
        ledger = _new_request(ledger, rows)
    ledger = _looked(ledger, rows, found, sure=event.sent)
    if event.sent:
        ledger = evolve(ledger, pending=False, look=False)
    return Stepped(recovering(losing(ledger), rows, sent=event.sent))


def compacted(ledger: Ledger, event: e.Compacted, _policy: SkillPolicy) -> Stepped:
    """What a compaction made; told late, it counts only until a request has been seen."""
    ledger = evolve(ledger, ask=max(ledger.ask, event.ask), compactions=ledger.compactions + 1)
    if ledger.loss is not None and ledger.loss.ask == 0:
        ledger = evolve(ledger, loss=evolve(ledger.loss, ask=event.ask))
    if event.late and not ledger.pending:
        return Stepped(ledger)
    found = {entry.key: entry for entry in scan(event.messages)}
    return Stepped(losing(_looked(ledger, event.messages, found, sure=not event.late)))


def taken_over(ledger: Ledger, _event: e.TakenOver, _policy: SkillPolicy) -> Stepped:
    """A compaction has been taken over; nobody knows yet what it left."""
    return Stepped(evolve(ledger, pending=True, taken=ledger.taken + 1))


def _looked(ledger: Ledger, rows: Sequence[Any], found: dict[Key, Entry], *, sure: bool) -> Ledger:
    """Believe the rows.  One that has not been seen yet is waited for, unless the list is `sure` to hold all."""
    ledger = found_again(ledger, found.values())
    known = Known(skill.entry for skill in ledger.skills)
    there = {entry.key: entry for entry in map(known.same, found.values())}
    calls = {one.call.id for one in sightings(rows) if one.call is not None}
    skills = [_as_seen(skill, there.pop(skill.key, None), calls, sure=sure) for skill in ledger.skills]
    # One that came just now and is not whole does not come whole by being loaded again.
    cut = {
        old.key
        for old, new in zip(ledger.skills, skills, strict=True)
        if old.state == "unseen" and new.state == "pruned" and old.entry.call in calls and not ledger.pending
    }
    for entry in there.values():
        loose = _loose(rows, entry)
        skills.append(Skill(entry, entry.state, ledger.events, loose))
    return give_up(evolve(ledger, skills=tuple(skills), known=True), frozenset(cut))


def _as_seen(skill: Skill, now: Entry | None, calls: set[str], *, sure: bool) -> Skill:
    mine = skill.entry
    if skill.state == "unseen" and mine.call not in calls and not sure:
        return skill
    if now is None:
        return evolve(skill, state="pruned")
    whole = now.state == "available" and now.sha256 is not None
    if whole and now.sha256 != mine.sha256 and skill.state == "unseen" and mine.call in calls:
        return evolve(skill, state="pruned")  # an older version stands there, and the new one did not come whole
    if whole:
        return evolve(skill, entry=evolve(now, path=now.path or mine.path), state="available")
    entry = evolve(
        now,
        sha256=now.sha256 or mine.sha256,
        path=now.path or mine.path,
        tokens=now.tokens or mine.tokens,
        size=now.size or mine.size,
        call=now.call or mine.call,
        source=mine.source,
        directory=now.directory or mine.directory,
    )
    return evolve(skill, entry=entry, state="pruned")


def _loose(rows: Sequence[Any], entry: Entry) -> str:
    bodies = (one.reading.body for one in sightings(rows) if one.reading.sha256 == entry.sha256 and one.reading.body)
    body = next(bodies, None)
    return "" if body is None else hash_of(body.strip())


def _new_request(ledger: Ledger, rows: Sequence[Any]) -> Ledger:
    """Where no host tells of turns, the newest user message does; skills loaded after it belong to it."""
    at = current_user(rows)
    text = "" if at is None else text_of(rows[at])
    if at is not None and text != ledger.request:
        ledger = begin_task(evolve(ledger, request=text), f"request {ledger.events}")
    if at is None:
        return ledger
    keys = [entry.key for entry in scan(rows) if entry.at >= at]
    running = any(role_of(row) == "assistant" for row in rows[at + 1 :])
    return evolve(ledger, touched=tuple(dict.fromkeys([*ledger.touched, *keys])), running=ledger.running or running)
