"""What is worth remembering of messages that are about to go: requests, decisions, files, commands, errors, skills."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import define, field

from ..transcript import Group, is_foreign_summary, role_of, said_by_user
from .lexer import lex
from .outcome import PRUNED
from .reader import Reader, Step
from .summary import Item, Summary
from .wording import best_sentence, clip, one_line, sentences, worth

__all__ = ["best_lines", "findings"]

_UNDONE = re.compile(
    r"(?i)\b(?:todo|to do|next|still (?:need|have)|remain(?:s|ing)|not yet|left to|will (?:now|then|next))\b"
)
_PATHLIKE = re.compile(r"[\w.~/@+-]*[./][\w./@+-]*")
_FOREIGN_LINES = 12


def findings(reader: Reader, folded: Sequence[Group], known: int) -> Summary:
    """Sum up groups that are folded; `known` is how many requests there were before this list."""
    notes = _Notebook(known)
    folded_at = {group.start: group for group in folded}
    for at, row in enumerate(reader.rows):
        if said_by_user(row):
            notes.turn += 1
        if at in folded_at:
            _fold(reader, folded_at[at], notes)
    _leave_open(reader, folded, notes)
    return Summary(
        rows=sum(group.stop - group.start for group in folded),
        requests=tuple(notes.requests),
        decided=tuple(notes.decided),
        files=tuple(notes.files),
        commands=tuple(notes.commands),
        errors=tuple(notes.errors),
        skills=tuple(notes.skills),
        notes=tuple(notes.notes),
        open=tuple({item.text: item for item in notes.open}.values()),
    )


@define
class _Notebook:
    """Collects items while rows are folded one after the other; `turn` is the number of the request they belong to."""

    turn: int
    requests: list[str] = field(factory=list)
    decided: list[Item] = field(factory=list)
    files: list[Item] = field(factory=list)
    commands: list[Item] = field(factory=list)
    errors: list[Item] = field(factory=list)
    skills: list[Item] = field(factory=list)
    notes: list[Item] = field(factory=list)
    open: list[Item] = field(factory=list)


def _fold(reader: Reader, group: Group, notes: _Notebook) -> None:
    row, text = reader.rows[group.start], reader.text(group.start)
    if said_by_user(row):
        notes.requests.append(text.strip() or "(nothing but white space)")
    elif is_foreign_summary(row):
        notes.notes += best_lines(text)
    elif role_of(row) == "assistant":
        decided = reader.decision(group.start)
        if len(decided) > 12:
            notes.decided.append(Item(decided, notes.turn))
        for step in reader.steps(group):
            _record(step, notes)
    elif text.strip():
        who = "result without a call" if group.orphan else f"{role_of(row) or 'unknown'} message"
        notes.notes.append(Item(f"{who}: {best_sentence(text, 240, reader.wanted)}", notes.turn))


def best_lines(text: str) -> list[Item]:
    """What another engine's summary says, as far as it tells most."""
    head, _, rest = text.partition("\n")
    lines = sentences(rest if rest and head.startswith("[") else text)
    best = sorted(range(len(lines)), key=lambda at: -worth(lines[at]))[:_FOREIGN_LINES]
    return [Item(one_line(lines[at], 240)) for at in sorted(best)]


def _record(step: Step, notes: _Notebook) -> None:
    if step.skill is not None:
        notes.skills.append(Item(f"{step.skill} {PRUNED}"))
        return
    if step.path and _PATHLIKE.fullmatch(step.path):
        notes.files.append(Item(step.path + (" (edited)" if step.writes else "")))
    for token, kind in lex(step.command).items():
        if kind == "path":
            edited = step.writes and token in step.command.partition("\n")[0]
            notes.files.append(Item(clip(token, 200) + (" (edited)" if edited else "")))
    if step.command or step.outcome.failed or not step.path:
        notes.commands.append(Item(f"{step.call.name}: {step.target} → {step.outcome.text}", notes.turn))
    if step.outcome.error:
        notes.errors.append(Item(step.outcome.error, notes.turn))


def _leave_open(reader: Reader, folded: Sequence[Group], notes: _Notebook) -> None:
    """What the folded part leaves undone: an unanswered request, intentions voiced last, the last failure."""
    if not folded:
        return
    if said_by_user(reader.rows[folded[-1].start]):
        notes.open.append(Item("was asked and had no answer yet", notes.turn))
    recent = [group for group in folded[-3:] if role_of(reader.rows[group.start]) == "assistant"]
    for group in recent:
        undone = [sentence for sentence in sentences(reader.text(group.start)) if _UNDONE.search(sentence)]
        notes.open += [Item(one_line(sentence, 200), notes.turn) for sentence in undone[-1:]]
    failed = [step for group in recent[-1:] for step in reader.steps(group) if step.outcome.failed]
    for step in failed[-1:]:
        notes.open.append(Item(f"last seen failing: {step.call.name}: {step.target} → {step.outcome.text}", notes.turn))
