"""Tasks, the skills they rest on, and what a loss of one holds back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from attrs import evolve

from ..transcript import role_of
from . import events as e
from .entries import Known
from .ledger import Ledger, Loss, Skill, Stepped, labels_of, named
from .loads import entry_of, saying
from .policy import SkillPolicy
from .reading import hash_of, read_user
from .wording import reload_first, reload_warning

__all__ = [
    "begin_task",
    "declared",
    "losing",
    "recovering",
    "request_began",
    "request_ended",
    "tool_asked",
    "tool_done",
]


_BATCH = 20  # tools of one answer, where no request is seen in between that would tell


def begin_task(ledger: Ledger, task: str) -> Ledger:
    """Another task: it has loaded nothing, and nothing that was concluded before holds it up."""
    ledger = evolve(ledger, task=task, touched=(), running=False)
    loss = ledger.loss
    if loss is None:
        return ledger
    # What was concluded for the task before is nobody's concern now; what is declared is still needed.
    left = tuple(skill.key for skill in ledger.skills if skill.key in loss.skills and named(skill, ledger.declared))
    return evolve(ledger, loss=evolve(loss, skills=left) if left else None)


def request_began(ledger: Ledger, event: e.RequestBegan, _policy: SkillPolicy) -> Stepped:
    """A host may have changed the list between two requests, so it is looked at where there is something to find."""
    look = bool(ledger.skills) or not (ledger.known or event.first)
    known = ledger.known or event.first
    ledger = begin_task(evolve(ledger, turns=True, request=event.text, look=look, known=known), event.task)
    said = []
    for reading in read_user(event.text):
        held = Known(skill.entry for skill in ledger.skills)
        entry = held.same(evolve(entry_of(reading, ""), source="user"))
        old = ledger.skill(entry.key)
        outcome: Literal["loaded", "reloaded"] = "loaded" if old is None or old.state != "pruned" else "reloaded"
        ledger = ledger.with_skill(Skill(entry, "unseen", ledger.events, hash_of(reading.body.strip())))
        ledger = evolve(ledger, touched=tuple(dict.fromkeys([*ledger.touched, entry.key])), look=True)
        said.append(saying(ledger.sid, entry, outcome))
    return Stepped(ledger, tuple(said))


def request_ended(ledger: Ledger, _event: e.RequestEnded, _policy: SkillPolicy) -> Stepped:
    """The model has finished, with the texts before it if the last request held them; what is lost now is nobody's work."""
    loss = None if ledger.loss is not None and ledger.loss.shown else ledger.loss
    return Stepped(evolve(ledger, running=False, loss=loss))


def declared(ledger: Ledger, event: e.Declared, _policy: SkillPolicy) -> Stepped:
    """What somebody says the task needs, all of it."""
    ledger = evolve(ledger, declared=event.names)
    loss = ledger.loss
    if loss is not None:
        needed = {skill.key for skill in ledger.required}
        left = tuple(key for key in loss.skills if key in needed)
        ledger = evolve(ledger, loss=evolve(loss, skills=left) if left else None)
    return Stepped(losing(ledger))


def losing(ledger: Ledger) -> Ledger:
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


def recovering(ledger: Ledger, rows: Sequence[Any], *, sent: bool) -> Ledger:
    """A request that holds the texts again is what the model answers next; an answer after them ends the loss."""
    loss = ledger.loss
    if loss is None:
        return ledger
    if sent:
        loss = evolve(loss, held=0)
        ledger = evolve(ledger, loss=loss)
    back = [skill for skill in ledger.skills if skill.key in loss.skills and skill.state == "available"]
    if len(back) < len(loss.skills):
        return evolve(ledger, loss=evolve(loss, shown=False)) if loss.shown else ledger
    if sent:
        return evolve(ledger, loss=evolve(loss, shown=True))
    newest = max(skill.entry.at for skill in back)
    answered = any(role_of(row) == "assistant" for row in rows[newest + 1 :])
    return evolve(ledger, loss=None) if answered else ledger


def tool_asked(ledger: Ledger, event: e.ToolAsked, policy: SkillPolicy) -> Stepped:
    """Whether a tool may run: one that acts waits for what was lost, a few times."""
    loss = ledger.loss
    if loss is not None and loss.shown:
        ledger, loss = evolve(ledger, loss=None), None
    ledger = evolve(ledger, running=True)
    if event.tool in policy.looking:
        return Stepped(ledger)
    ledger = losing(ledger)
    loss = ledger.loss
    if loss is None or loss.spent or policy.block != "on":
        return Stepped(ledger)
    again = 0 < loss.held < _BATCH  # of the same answer: it counts once, however many tools it wants
    if not again and loss.blocks >= policy.blocks:  # let go from now on; that is said, once, beside a result
        return Stepped(evolve(ledger, loss=evolve(loss, spent=True, told=False)))
    blocks = loss.blocks if again else loss.blocks + 1
    held = loss.held + 1 if again else 1
    ledger = evolve(ledger, loss=evolve(loss, blocks=blocks, held=held, told=True))
    return Stepped(ledger, (), reload_first(labels_of(ledger, loss.skills), event.tool))


def tool_done(ledger: Ledger, event: e.ToolDone, policy: SkillPolicy) -> Stepped:
    """The model hears of a loss once, with whatever a tool has to say."""
    ledger = evolve(ledger, running=True)
    loss = ledger.loss
    if not event.tell or loss is None or loss.told or loss.shown or policy.block == "off":
        return Stepped(ledger)
    return Stepped(evolve(ledger, loss=evolve(loss, told=True)), (), reload_warning(labels_of(ledger, loss.skills)))
