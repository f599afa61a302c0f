"""Loads: which of them brings a text, and which a notice."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from ..facts import SkillLoaded
from ..transcript import Call, estimate_text
from . import events as e
from .entries import Entry, Key, Known
from .ledger import Decision, Ledger, Outcome, Skill, Stepped
from .policy import SkillPolicy
from .reading import Reading, hash_of, read_result
from .wording import SKILL_TOOL, notice, updated

__all__ = ["cannot_load", "entry_of", "found_again", "give_up", "loaded", "saying"]

_MOST = 200  # decisions that are remembered: a call is told by all its sources within one turn


def loaded(ledger: Ledger, event: e.Loaded, policy: SkillPolicy) -> Stepped:
    """`skill_view` has answered: decide what the load brings; told again by another source, say the same."""
    reading = read_result(Call(event.call_id, SKILL_TOOL, event.arguments), event.result)
    if reading is None or reading.kind in {"gone", "superseded"}:
        return Stepped(ledger)
    if reading.kind in {"failed", "notice"}:
        return Stepped(_used(ledger, reading) if reading.kind == "notice" else _not_there(ledger, reading))
    known = dict(ledger.decisions).get(event.call_id)
    if known is not None and event.source not in known.sources:
        told = evolve(known, sources=known.sources | {event.source})
        return Stepped(_decided(ledger, event.call_id, told), (), told.text)
    ledger, decision = _decide(ledger, reading, event, policy)
    ledger = _decided(ledger, event.call_id, decision)
    entry = entry_of(reading, event.call_id)
    return Stepped(ledger, (saying(ledger.sid, entry, decision.outcome),), decision.text)


def saying(sid: str, entry: Entry, outcome: Outcome) -> SkillLoaded:
    """What is sent of a load."""
    return SkillLoaded(
        sid,
        entry.name,
        entry.sha256 or "",
        outcome,
        path=entry.path or "",
        file=entry.file,
        call_id=entry.call,
        tokens=entry.tokens,
    )


def _decide(ledger: Ledger, reading: Reading, event: e.Loaded, policy: SkillPolicy) -> tuple[Ledger, Decision]:
    entry = Known(skill.entry for skill in ledger.skills).same(entry_of(reading, event.call_id))
    ledger = found_again(ledger, (entry,))
    old = ledger.skill(entry.key)
    loose = hash_of(reading.body.strip())
    sources = frozenset({event.source})
    unchanged = old is not None and (old.entry.sha256 == entry.sha256 or (bool(old.loose) and old.loose == loose))
    there = old is not None and old.state != "pruned"
    touched = tuple(dict.fromkeys([*ledger.touched, entry.key]))
    ledger = evolve(ledger, touched=touched, running=True, unloadable=ledger.unloadable - {entry.key})
    if old is not None and unchanged and there and policy.once:
        ledger = ledger.with_skill(evolve(old, used=ledger.events))
        return ledger, Decision("deduplicated", notice(entry.name, old.entry.sha256 or ""), sources)
    skill = Skill(entry, "unseen", ledger.events, loose)
    if old is not None and there and unchanged:
        skill = evolve(skill, state=old.state)
    ledger = ledger.with_skill(skill)
    if old is None:
        return ledger, Decision("loaded", None, sources)
    if unchanged or not there:
        return ledger, Decision("reloaded" if not there else "loaded", None, sources)
    text = updated(entry.name, entry.sha256 or "", reading.body) if policy.once else None
    return ledger, Decision("updated", text, sources)


def found_again(ledger: Ledger, entries: Iterable[Entry]) -> Ledger:
    """Skills that were known by name only are known by their path from now on."""
    paths = {(name, entry.file): entry.path for entry in entries if entry.path for name in (entry.name, entry.called)}
    moved: dict[Key, Key] = {}
    skills: dict[Key, Skill] = {}
    for skill in ledger.skills:
        path = paths.get((skill.entry.name, skill.entry.file)) if skill.entry.path is None else None
        new = skill if path is None else evolve(skill, entry=evolve(skill.entry, path=path))
        moved[skill.key] = new.key
        skills.setdefault(new.key, new)
    if all(old == new for old, new in moved.items()):
        return ledger
    loss = ledger.loss

    def named_now(keys: Iterable[Key]) -> tuple[Key, ...]:
        return tuple(dict.fromkeys(moved.get(key, key) for key in keys))

    return evolve(
        ledger,
        skills=tuple(skills.values()),
        touched=named_now(ledger.touched),
        unloadable=frozenset(named_now(ledger.unloadable)),
        loss=None if loss is None else evolve(loss, skills=named_now(loss.skills)),
    )


def entry_of(reading: Reading, call_id: str) -> Entry:
    """The entry for a text that a load brings."""
    return Entry(
        reading.name,
        reading.sha256,
        reading.file,
        reading.path,
        "available",
        called=reading.called,
        call=call_id,
        tokens=estimate_text(reading.body),
        size=reading.size or 0,
        directory=reading.directory,
    )


def _decided(ledger: Ledger, call_id: str, decision: Decision) -> Ledger:
    kept = tuple(item for item in ledger.decisions if item[0] != call_id)
    return evolve(ledger, decisions=(*kept[-_MOST:], (call_id, decision)))


def _used(ledger: Ledger, reading: Reading) -> Ledger:
    """The model is told that a skill is there, by another than us: it uses it."""
    keys = [skill.key for skill in ledger.skills if _means(skill, reading)]
    return evolve(ledger, touched=tuple(dict.fromkeys([*ledger.touched, *keys])), running=True)


def _not_there(ledger: Ledger, reading: Reading) -> Ledger:
    """A load has failed: nobody is made to wait for that skill."""
    keys = {skill.key for skill in ledger.skills if _means(skill, reading) and skill.state == "pruned"}
    return give_up(ledger, frozenset(keys))


def _means(skill: Skill, reading: Reading) -> bool:
    entry = skill.entry
    return entry.file == reading.file and bool({entry.name, entry.called} & {reading.name, reading.called})


def cannot_load(ledger: Ledger, event: e.CannotLoad, _policy: SkillPolicy) -> Stepped:
    """Skills that are not there any more hold nobody up."""
    return Stepped(
        give_up(ledger, frozenset(skill.key for skill in ledger.skills if skill.entry.label in event.labels))
    )


def give_up(ledger: Ledger, keys: frozenset[Key]) -> Ledger:
    """Nobody waits for these skills until they are loaded again."""
    ledger = evolve(ledger, unloadable=ledger.unloadable | keys)
    loss = ledger.loss
    if loss is None:
        return ledger
    left = tuple(key for key in loss.skills if key not in ledger.unloadable)
    return evolve(ledger, loss=evolve(loss, skills=left) if left else None)
