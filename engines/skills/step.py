"""The state machine of a conversation's skills: `step(ledger, event, policy)`.

It says what stands, which loads bring a text, and which tools have to wait.  It knows no clock, no thread and no
dataspace; whoever has news steps it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from attrs import evolve

from ..facts import SkillLoaded
from ..transcript import Call, current_user, estimate_text, role_of, text_of
from . import events as e
from .ledger import Decision, Ledger, Loss, Outcome, Skill, labels_of, named
from .policy import SkillPolicy
from .reading import Reading, hash_of, read_result, read_user
from .scan import Entry, Key, same, scan, sightings
from .wording import SKILL_TOOL, notice, reload_first, reload_warning, updated

__all__ = ["Stepped", "step"]

_MOST = 200  # decisions that are remembered: a call is told by all its sources within one turn


class Stepped(NamedTuple):
    """The next ledger, what is to be said with it, and the answer to whoever stepped it.

    The answer is a text in place of a load's result, the reason why a tool has to wait, or a word to add to a tool's
    result; None: nothing of the kind.
    """

    ledger: Ledger
    said: tuple[SkillLoaded, ...] = ()
    answer: str | None = None


def step(ledger: Ledger, event: e.Event, policy: SkillPolicy) -> Stepped:
    """The ledger after an event."""
    handler = _HANDLERS[type(event)]
    return handler(evolve(ledger, events=ledger.events + 1), event, policy)


# -- loads ------------------------------------------------------------------------------------------------------------


def _loaded(ledger: Ledger, event: e.Loaded, policy: SkillPolicy) -> Stepped:
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
    entry = _entry(reading, event.call_id)
    return Stepped(ledger, (_saying(ledger.sid, entry, decision.outcome),), decision.text)


def _saying(sid: str, entry: Entry, outcome: Outcome) -> SkillLoaded:
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
    entry = same(_entry(reading, event.call_id), {skill.key: skill.entry for skill in ledger.skills})
    ledger = _found(ledger, (entry,))
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


def _found(ledger: Ledger, entries: Iterable[Entry]) -> Ledger:
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


def _entry(reading: Reading, call_id: str) -> Entry:
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
    return _give_up(ledger, frozenset(keys))


def _means(skill: Skill, reading: Reading) -> bool:
    entry = skill.entry
    return entry.file == reading.file and bool({entry.name, entry.called} & {reading.name, reading.called})


def _cannot_load(ledger: Ledger, event: e.CannotLoad, _policy: SkillPolicy) -> Stepped:
    return Stepped(
        _give_up(ledger, frozenset(skill.key for skill in ledger.skills if skill.entry.label in event.labels))
    )


def _give_up(ledger: Ledger, keys: frozenset[Key]) -> Ledger:
    ledger = evolve(ledger, unloadable=ledger.unloadable | keys)
    loss = ledger.loss
    if loss is None:
        return ledger
    left = tuple(key for key in loss.skills if key not in ledger.unloadable)
    return evolve(ledger, loss=evolve(loss, skills=left) if left else None)


# -- what is in context -----------------------------------------------------------------------------------------------


def _seen(ledger: Ledger, event: e.Seen, _policy: SkillPolicy) -> Stepped:
    rows = event.messages
    found = {entry.key: entry for entry in scan(rows)}
    if not event.sent and not ledger.turns:
        ledger = _new_request(ledger, rows)
    ledger = _looked(ledger, rows, found, sure=event.sent)
    if event.sent:
        ledger = evolve(ledger, pending=False, look=False)
    return Stepped(_recovering(_losing(ledger), rows, sent=event.sent))


def _compacted(ledger: Ledger, event: e.Compacted, _policy: SkillPolicy) -> Stepped:
    ledger = evolve(ledger, ask=max(ledger.ask, event.ask), compactions=ledger.compactions + 1)
    if ledger.loss is not None and ledger.loss.ask == 0:
        ledger = evolve(ledger, loss=evolve(ledger.loss, ask=event.ask))
    if event.late and not ledger.pending:
        return Stepped(ledger)
    found = {entry.key: entry for entry in scan(event.messages)}
    return Stepped(_losing(_looked(ledger, event.messages, found, sure=not event.late)))


def _taken_over(ledger: Ledger, _event: e.TakenOver, _policy: SkillPolicy) -> Stepped:
    return Stepped(evolve(ledger, pending=True, taken=ledger.taken + 1))


def _looked(ledger: Ledger, rows: Sequence[Any], found: dict[Key, Entry], *, sure: bool) -> Ledger:
    """Believe the rows.  One that has not been seen yet is waited for, unless the list is `sure` to hold all."""
    ledger = _found(ledger, found.values())
    known = {skill.key: skill.entry for skill in ledger.skills}
    there = {same(entry, known).key: same(entry, known) for entry in found.values()}
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
    return _give_up(evolve(ledger, skills=tuple(skills), known=rows), frozenset(cut))


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
        ledger = _begun(evolve(ledger, request=text), f"request {ledger.events}")
    if at is None:
        return ledger
    keys = [entry.key for entry in scan(rows) if entry.at >= at]
    running = any(role_of(row) == "assistant" for row in rows[at + 1 :])
    return evolve(ledger, touched=tuple(dict.fromkeys([*ledger.touched, *keys])), running=ledger.running or running)


# -- tasks and what they rest on --------------------------------------------------------------------------------------


def _begun(ledger: Ledger, task: str) -> Ledger:
    ledger = evolve(ledger, task=task, touched=(), running=False)
    loss = ledger.loss
    if loss is None:
        return ledger
    # What was concluded for the task before is nobody's concern now; what is declared is still needed.
    left = tuple(skill.key for skill in ledger.skills if skill.key in loss.skills and named(skill, ledger.declared))
    return evolve(ledger, loss=evolve(loss, skills=left) if left else None)


def _request_began(ledger: Ledger, event: e.RequestBegan, _policy: SkillPolicy) -> Stepped:
    """A host may have changed the list between two requests, so it is looked at where there is something to find."""
    look = bool(ledger.skills) or (ledger.known is None and not event.first)
    known = () if event.first and ledger.known is None else ledger.known
    ledger = _begun(evolve(ledger, turns=True, request=event.text, look=look, known=known), event.task)
    said = []
    for reading in read_user(event.text):
        entry = same(evolve(_entry(reading, ""), source="user"), {skill.key: skill.entry for skill in ledger.skills})
        old = ledger.skill(entry.key)
        outcome: Literal["loaded", "reloaded"] = "loaded" if old is None or old.state != "pruned" else "reloaded"
        ledger = ledger.with_skill(Skill(entry, "unseen", ledger.events, hash_of(reading.body.strip())))
        ledger = evolve(ledger, touched=tuple(dict.fromkeys([*ledger.touched, entry.key])), look=True)
        said.append(_saying(ledger.sid, entry, outcome))
    return Stepped(ledger, tuple(said))


def _request_ended(ledger: Ledger, _event: e.RequestEnded, _policy: SkillPolicy) -> Stepped:
    return Stepped(evolve(ledger, running=False))


def _declared(ledger: Ledger, event: e.Declared, _policy: SkillPolicy) -> Stepped:
    ledger = evolve(ledger, declared=event.names)
    loss = ledger.loss
    if loss is not None:
        needed = {skill.key for skill in ledger.required}
        left = tuple(key for key in loss.skills if key in needed)
        ledger = evolve(ledger, loss=evolve(loss, skills=left) if left else None)
    return Stepped(_losing(ledger))


def _losing(ledger: Ledger) -> Ledger:
    """If the task at hand runs and needs what is gone, its reasoning is invalid."""
    if not ledger.running:
        return ledger
    gone = tuple(
        skill.key for skill in ledger.required if skill.state == "pruned" and skill.key not in ledger.unloadable
    )
    loss = ledger.loss
    before = () if loss is None else loss.skills
    new = tuple(key for key in gone if key not in before)
    if new:
        return evolve(ledger, loss=Loss(ledger.latest, tuple(dict.fromkeys([*before, *new]))))
    if loss is not None and loss.shown and gone:
        return evolve(ledger, loss=evolve(loss, shown=False))
    return ledger


def _recovering(ledger: Ledger, rows: Sequence[Any], *, sent: bool) -> Ledger:
    """A request that holds the texts again is what the model answers next; an answer after them ends the loss."""
    loss = ledger.loss
    if loss is None:
        return ledger
    back = [skill for skill in ledger.skills if skill.key in loss.skills and skill.state == "available"]
    if len(back) < len(loss.skills):
        return evolve(ledger, loss=evolve(loss, shown=False)) if loss.shown else ledger
    if sent:
        return evolve(ledger, loss=evolve(loss, shown=True))
    newest = max(skill.entry.at for skill in back)
    answered = any(role_of(row) == "assistant" for row in rows[newest + 1 :])
    return evolve(ledger, loss=None) if answered else ledger


def _tool_asked(ledger: Ledger, event: e.ToolAsked, policy: SkillPolicy) -> Stepped:
    loss = ledger.loss
    if loss is not None and loss.shown:
        ledger, loss = evolve(ledger, loss=None), None
    ledger = evolve(ledger, running=True)
    if event.tool in policy.looking:
        return Stepped(ledger)
    ledger = _losing(ledger)
    loss = ledger.loss
    if loss is None or policy.block != "on":
        return Stepped(ledger)
    if loss.blocks >= policy.blocks:  # it is not held back again; that is said, once, beside its result
        return Stepped(ledger if loss.spent else evolve(ledger, loss=evolve(loss, spent=True, told=False)))
    names = labels_of(ledger, loss.skills)
    ledger = evolve(ledger, loss=evolve(loss, blocks=loss.blocks + 1, told=True))
    return Stepped(ledger, (), reload_first(names, event.tool))


def _tool_done(ledger: Ledger, event: e.ToolDone, policy: SkillPolicy) -> Stepped:
    """The model hears of a loss once, with whatever a tool has to say."""
    ledger = evolve(ledger, running=True)
    loss = ledger.loss
    if not event.tell or loss is None or loss.told or loss.shown or policy.block == "off":
        return Stepped(ledger)
    return Stepped(evolve(ledger, loss=evolve(loss, told=True)), (), reload_warning(labels_of(ledger, loss.skills)))


_HANDLERS: dict[type[e.Event], Callable[[Ledger, Any, SkillPolicy], Stepped]] = {
    e.Loaded: _loaded,
    e.Seen: _seen,
    e.TakenOver: _taken_over,
    e.Compacted: _compacted,
    e.RequestBegan: _request_began,
    e.RequestEnded: _request_ended,
    e.Declared: _declared,
    e.ToolAsked: _tool_asked,
    e.ToolDone: _tool_done,
    e.CannotLoad: _cannot_load,
}
