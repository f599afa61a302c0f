"""What one conversation knows of its skills, as a value; `step` in `engines.skills.step` makes the next one.

A skill is *unseen* from its load until its row has been seen: until then it counts neither as available nor as pruned.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from attrs import evolve, field, frozen

from ..facts import LoopInvalid, SkillAvailable, SkillLoaded, SkillPruned, SkillRequired, SkillTooLarge
from .entries import Entry, Key
from .policy import SkillPolicy

__all__ = [
    "Decision",
    "Ledger",
    "Loss",
    "Outcome",
    "Skill",
    "Stepped",
    "entries_of",
    "evicted",
    "labels_of",
    "named",
    "rows_of",
    "view",
]

State = Literal["available", "pruned", "unseen"]
Outcome = Literal["loaded", "deduplicated", "updated", "reloaded"]


@frozen
class Skill:
    """One skill of a conversation.

    `used` is the number of the event that used it last; `loose` a hash that ignores blanks at the ends, which differ
    between the ways in which a host brings a skill.
    """

    entry: Entry
    state: State
    used: int = 0
    loose: str = ""

    @property
    def key(self) -> Key:
        """What tells it from others."""
        return self.entry.key


@frozen
class Decision:
    """What became of a load; `text` is to take the place of its result (None: the result stays)."""

    outcome: Outcome
    text: str | None = None
    sources: frozenset[str] = frozenset()


@frozen
class Loss:
    """Reasoning rests on skills that were pruned by compaction `ask` (0: not known yet).

    `blocks` counts the answers of the model whose tools were held back, `held` the tools of the latest one; `spent`: no
    more are.  `told` says that the model has been told, `shown` that the texts stand in a request which it answers now.
    """

    ask: int
    skills: tuple[Key, ...]
    blocks: int = 0
    held: int = 0
    spent: bool = False
    told: bool = False
    shown: bool = False


@frozen
class Ledger:
    """All that is known.

    `task` is the request at hand, `declared` what somebody says it needs, `touched` the skills loaded or used for it;
    `running`: the model is at work on it.  `unloadable` could not be loaded again.  `turns`: somebody tells where requests
    begin.  `taken` compactions were taken over, of `compactions` it is known what they made, `ask` is the latest of those.
    `pending`: a compaction was taken over, and no request has been seen since; `look`: the next one is to be looked at.
    """

    sid: str
    skills: tuple[Skill, ...] = ()
    decisions: tuple[tuple[str, Decision], ...] = field(default=(), repr=False)
    task: str = ""
    declared: frozenset[str] = frozenset()
    touched: tuple[Key, ...] = ()
    running: bool = False
    loss: Loss | None = None
    unloadable: frozenset[Key] = frozenset()
    events: int = 0
    ask: int = 0
    taken: int = 0
    compactions: int = 0
    turns: bool = False
    pending: bool = False
    look: bool = False
    request: str = field(default="", repr=False)
    known: bool = False  # a list was looked at, or there is nothing to be found in one

    def skill(self, key: Key) -> Skill | None:
        """The skill of this key."""
        return next((skill for skill in self.skills if skill.key == key), None)

    def with_skill(self, skill: Skill) -> Ledger:
        """The ledger with this skill in place of the one of its key."""
        if self.skill(skill.key) is None:
            return evolve(self, skills=(*self.skills, skill))
        return evolve(self, skills=tuple(skill if old.key == skill.key else old for old in self.skills))

    @property
    def required(self) -> tuple[Skill, ...]:
        """The skills that the task at hand needs: what is declared, else what was loaded or used for it."""
        if self.declared:
            return tuple(skill for skill in self.skills if named(skill, self.declared))
        return tuple(skill for skill in self.skills if skill.key in self.touched)

    @property
    def needs(self) -> tuple[str, ...]:
        """The same by label, with what is declared and was never loaded."""
        known = {name for skill in self.skills for name in _names(skill)}
        labels = [skill.entry.label for skill in self.required]
        return tuple(dict.fromkeys([*labels, *sorted(self.declared - known)]))

    @property
    def latest(self) -> int:
        """The question of the latest compaction; 0: nobody has said yet which that was."""
        return self.ask if self.compactions >= self.taken else 0

    @property
    def at_rest(self) -> bool:
        """Whether no skill is known or needed, and the next request need not be looked at."""
        waits = not self.known or self.pending or self.look or self.loss is not None
        return not (self.skills or self.declared or waits)

    @property
    def curious(self) -> bool:
        """Whether the next request should be looked at."""
        return (
            self.pending or self.look or self.loss is not None or any(skill.state == "unseen" for skill in self.skills)
        )


class Stepped(NamedTuple):
    """The next ledger, what is to be said with it, and the answer to whoever stepped it.

    The answer is a text in place of a load's result, the reason why a tool has to wait, or a word to add to a tool's
    result; None: nothing of the kind.
    """

    ledger: Ledger
    said: tuple[SkillLoaded, ...] = ()
    answer: str | None = None


def named(skill: Skill, names: frozenset[str]) -> bool:
    """Whether one of these names means this skill."""
    return bool(_names(skill) & names)


def view(ledger: Ledger, policy: SkillPolicy) -> tuple[Any, ...]:
    """The facts that stand; an unchanged fact is equal to the one before."""
    sid = ledger.sid
    facts: list[Any] = []
    for skill in ledger.skills:
        entry = skill.entry
        told = (sid, entry.name, entry.sha256 or "", entry.path or "", entry.file)
        if skill.state != "unseen":
            facts.append((SkillAvailable if skill.state == "available" else SkillPruned)(*told))
        if policy.each is not None and entry.tokens > policy.each:
            facts.append(SkillTooLarge(*told[:3], tokens=entry.tokens, limit=policy.each))
    # What is declared stands already, and a fact that is ours as well would not be told from one that is ours alone.
    facts += [SkillRequired(sid, ledger.task, label) for label in ledger.needs if label not in ledger.declared]
    loss = ledger.loss
    if loss is not None:
        labels = [skill.entry.label for skill in ledger.skills if skill.key in loss.skills]
        facts.append(LoopInvalid(sid, loss.ask, tuple(labels)))
    return tuple(dict.fromkeys(facts))


def entries_of(ledger: Ledger) -> tuple[Entry, ...]:
    """The skills as entries, for a revision."""
    return tuple(
        evolve(skill.entry, state="available" if skill.state == "available" else "pruned") for skill in ledger.skills
    )


def evicted(ledger: Ledger, policy: SkillPolicy) -> frozenset[Key]:
    """Which skills have to go so that the others keep to the total: those used longest ago, pinned and required never."""
    if policy.total is None:
        return frozenset()
    there = [skill for skill in ledger.skills if skill.state != "pruned"]
    size = sum(skill.entry.tokens for skill in there)
    needed = {skill.key for skill in ledger.required}
    gone: set[Key] = set()
    for skill in sorted(there, key=lambda skill: skill.used):
        if size <= policy.total:
            break
        if skill.key not in needed and not named(skill, policy.pinned) and skill.entry.source == "tool":
            gone.add(skill.key)
            size -= skill.entry.tokens
    return frozenset(gone)


def rows_of(ledger: Ledger, policy: SkillPolicy) -> tuple[dict[str, Any], ...]:
    """One row a skill, for people: name, short hash, state, tokens, required, pinned."""
    needed = {skill.key for skill in ledger.required}
    return tuple(
        {
            "name": skill.entry.label,
            "hash": (skill.entry.sha256 or "")[:12],
            "state": skill.state,
            "tokens": skill.entry.tokens,
            "required": skill.key in needed,
            "pinned": named(skill, policy.pinned),
        }
        for skill in ledger.skills
    )


def labels_of(ledger: Ledger, keys: Iterable[Key]) -> tuple[str, ...]:
    """The labels of these skills."""
    wanted = set(keys)
    return tuple(skill.entry.label for skill in ledger.skills if skill.key in wanted)


def _names(skill: Skill) -> set[str]:
    entry = skill.entry
    return {entry.label} if entry.file is not None else {entry.name, entry.called, entry.path or entry.name}
