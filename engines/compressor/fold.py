"""What is worth remembering of messages that are about to go.

`Reader` looks at each row once: its text without secrets, what its calls did.  `findings` sums up the groups that are
folded; the identifiers of groups that are only worn down are remembered too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from attrs import define, field, frozen

from ..messages import Messages, Row
from ..transcript import (
    Call,
    Group,
    call_id,
    calls_of,
    is_foreign_summary,
    is_real_user,
    role_of,
    text_of,
)
from .lexer import KIND_WORTH, Kind, count, lex
from .outcome import PRUNED, Outcome, noise_in, outcome_of, skill_of, target_of
from .redact import redact_all
from .requests import Compared, compare
from .summary import Item, Summary
from .wording import best_sentence, clip, excerpt, mentions, one_line, sentences, worth

__all__ = ["Reader", "Step", "findings", "ranked"]

T = TypeVar("T")
_UNDONE = re.compile(r"(?i)\b(?:todo|to do|next step|next,|still (?:need|have)|remain(?:s|ing)|not yet|left to|will (?:now|then|next))\b")
_PATHLIKE = re.compile(r"^[\w.~/@+-]*[./][\w./@+-]*$")


@frozen
class Step:
    """One call and its result: `skill` names a skill text it brought in, `size` is the length of the result."""

    call: Call
    target: str
    outcome: Outcome
    size: int
    skill: str | None
    path: str = ""
    command: str = ""
    writes: bool = False


@define
class Reader:
    """Reads the rows of one list, each at most once, and never more than `most` characters of one.

    It remembers what it has worked out, since a compaction may try more than one way to divide the rows.
    """

    rows: Messages
    most: int
    wanted: tuple[str, ...] = ()
    _known: dict[Any, Any] = field(factory=dict, init=False)

    def text(self, at: int) -> str:
        """Return the text of a row without secrets; the middle of a giant one is left out."""
        return self._clean()[0][at]

    def calls(self, at: int) -> tuple[Call, ...]:
        """Return the calls of a row, their arguments without secrets."""
        return self._clean()[1].get(at, ())

    def tokens(self, at: int) -> dict[str, Kind]:
        """Return the identifiers in a row: in its text and in the arguments of its calls."""
        return self._once(("tokens", at), lambda: lex(_said(self.text(at), self.calls(at))))

    def standing(self, rows: Iterable[Row]) -> frozenset[str]:
        """Return the identifiers in rows that stay; these are only looked up, so secrets need no care."""
        tokens = [self._once((row, "standing"), lambda: frozenset(lex(_said(text_of(row), calls_of(row))))) for row in rows]
        return frozenset().union(*tokens)

    def decision(self, at: int) -> str:
        """Return the sentence of a row that tells most."""
        return self._once(("decision", at), lambda: best_sentence(self.text(at), 200, self.wanted))

    def steps(self, group: Group) -> tuple[Step, ...]:
        """Return the calls of a group in order, each with what became of it."""
        return self._once(("steps", group.start), lambda: tuple(self._steps(group)))

    def compare(self, requests: tuple[str, ...], kept: tuple[str, ...], shared: tuple[str, ...]) -> Compared:
        """Compare requests with each other and with those that are `kept`."""
        return self._once((requests, kept, shared), lambda: compare(requests, kept, shared, self.wanted))

    def ranked(self, gone: tuple[int, ...], old: tuple[str, ...], asked: str) -> tuple[str, ...]:
        """Rank the identifiers of the rows `gone` together with the `old` ones; see `ranked`."""
        return self._once((gone, old, asked), lambda: ranked([self.tokens(at) for at in gone], old, asked, self.wanted))

    def noise(self) -> frozenset[str]:
        """Return the shapes of lines that say nothing because so many results begin or end with them."""
        return self._once("noise", lambda: noise_in(text_of(row) for row in self.rows if role_of(row) == "tool"))

    def _clean(self) -> tuple[list[str], dict[int, tuple[Call, ...]]]:
        """All texts, and the calls of the rows that have some, without secrets."""

        def clean() -> tuple[list[str], dict[int, tuple[Call, ...]]]:
            calls = [(at, call) for at, row in enumerate(self.rows) for call in calls_of(row)]
            texts = [text_of(row) for row in self.rows] + [call.arguments for _, call in calls]
            texts = redact_all([excerpt(text, self.most) for text in texts])
            by_row: dict[int, tuple[Call, ...]] = {}
            for (at, call), arguments in zip(calls, texts[len(self.rows) :], strict=True):
                by_row[at] = (*by_row.get(at, ()), call._replace(arguments=arguments))
            return texts[: len(self.rows)], by_row

        return self._once("clean", clean)

    def _once(self, key: Any, make: Callable[[], T]) -> T:
        try:
            return self._known[key]  # type: ignore[no-any-return]
        except KeyError:
            self._known[key] = made = make()
            return made

    def _steps(self, group: Group) -> Iterable[Step]:
        results: dict[str, list[int]] = {}
        for at in range(group.start + 1, group.stop):
            results.setdefault(call_id(self.rows[at]) or "", []).append(at)
        for call in self.calls(group.start):
            waiting = results.get(call.id)
            at = waiting.pop(0) if waiting else None
            text = "" if at is None else self.text(at)
            outcome = Outcome("no result") if at is None else outcome_of(text, self.noise())
            size = 0 if at is None else len(text_of(self.rows[at]))
            target = target_of(call)
            yield Step(call, target.text, outcome, size, skill_of(call, text), target.path, target.command, target.writes)


@define
class _Notebook:
    """Collects items while rows are folded one after the other."""

    turn: int
    requests: list[str] = field(factory=list)
    decided: list[Item] = field(factory=list)
    files: list[Item] = field(factory=list)
    commands: list[Item] = field(factory=list)
    errors: list[Item] = field(factory=list)
    skills: list[Item] = field(factory=list)
    notes: list[Item] = field(factory=list)
    open: list[Item] = field(factory=list)


def findings(reader: Reader, folded: Sequence[Group], known: int) -> Summary:
    """Sum up groups that are folded; `known` is how many requests there were before this list."""
    notes = _Notebook(known)
    folded_at = {group.start: group for group in folded}
    for at, row in enumerate(reader.rows):
        if is_real_user(row):
            notes.turn += 1
        if at in folded_at:
            _fold(reader, folded_at[at], notes)
    _leave_open(reader, folded, notes)
    lists = {name: tuple(getattr(notes, name)) for name in ("decided", "files", "commands", "errors", "skills", "notes", "open")}
    return Summary(rows=sum(group.stop - group.start for group in folded), requests=tuple(notes.requests), **lists)


def ranked(
    gone: Sequence[dict[str, Kind]], old: Sequence[str], asked: str, wanted: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Rank the identifiers of rows that go (oldest first) together with the `old` ones: most useful first.

    Counted are kind, how many rows name it, how late, whether the user named it, and how little room it takes.
    """
    seen, kinds, last = count(gone)
    named = lex(asked)
    scores: dict[str, float] = {}
    for rank, token in enumerate(old):
        scores[token] = _score(token, _kind(token), 2.0 - rank / max(len(old), 1), False, token in named, wanted)
    for token, times in seen.items():
        late = last[token] * 2 >= len(gone)
        fresh = _score(token, kinds[token], float(min(times, 8)), late, token in named, wanted)
        scores[token] = max(fresh, scores.get(token, 0.0))
    return tuple(sorted(scores, key=lambda token: -scores[token]))


def _score(token: str, kind: Kind, times: float, late: bool, named: bool, wanted: tuple[str, ...]) -> float:
    worth_of = KIND_WORTH[kind] * (0.6 + times**0.5) * (1.25 if late else 1.0) * (2.0 if named else 1.0)
    return worth_of * (6.0 if mentions(token, wanted) else 1.0) / (len(token) + 4) ** 0.6


def _kind(token: str) -> Kind:
    return next(iter(lex(token).values()), "name")


def _fold(reader: Reader, group: Group, notes: _Notebook) -> None:
    row = reader.rows[group.start]
    text = reader.text(group.start)
    if is_real_user(row):
        notes.requests.append(one_line(text) or "(nothing but white space)")
    elif is_foreign_summary(row):
        lines = sentences(text.partition("\n")[2] or text)
        best = sorted(range(len(lines)), key=lambda at: -worth(lines[at]))[:12]
        notes.notes += [Item(one_line(lines[at], 240)) for at in sorted(best)]
    elif role_of(row) == "assistant":
        decided = reader.decision(group.start)
        if len(decided) > 12:
            notes.decided.append(Item(decided, notes.turn))
        for step in reader.steps(group):
            _record(step, notes)
    elif text.strip():
        role = role_of(row) or "unknown"
        notes.notes.append(Item(f"{'result without a call' if group.orphan else role} message: {best_sentence(text, 240, reader.wanted)}", notes.turn))


def _record(step: Step, notes: _Notebook) -> None:
    if step.skill is not None:
        notes.skills.append(Item(f"{step.skill} {PRUNED}"))
        return
    if step.path and _PATHLIKE.match(step.path):
        notes.files.append(Item(step.path + (" (edited)" if step.writes else "")))
    for token, kind in lex(step.command).items() if step.command else ():
        if kind == "path":
            edited = step.writes and token in step.command.partition("\n")[0]
            notes.files.append(Item(clip(token, 200) + (" (edited)" if edited else "")))
    if step.command or step.outcome.failed or not step.path:
        notes.commands.append(Item(f"{step.call.name}: {step.target} → {step.outcome.text}", notes.turn))
    if step.outcome.error:
        notes.errors.append(Item(step.outcome.error, notes.turn))


def _leave_open(reader: Reader, folded: Sequence[Group], notes: _Notebook) -> None:
    """What the folded part leaves undone: an unanswered request, the last failure, intentions voiced last."""
    if not folded:
        return
    last = reader.rows[folded[-1].start]
    if is_real_user(last):
        notes.open.append(Item("was asked and had no answer yet", notes.turn))
    recent = [group for group in folded[-3:] if role_of(reader.rows[group.start]) == "assistant"]
    for group in recent:
        undone = [sentence for sentence in sentences(reader.text(group.start)) if _UNDONE.search(sentence)]
        notes.open += [Item(one_line(sentence, 200), notes.turn) for sentence in undone[-1:]]
    if recent:
        failed = [step for step in reader.steps(recent[-1]) if step.outcome.failed]
        notes.open += [Item(f"last seen failing: {step.call.name}: {step.target} → {step.outcome.text}", notes.turn) for step in failed[-1:]]
    notes.open = list({item.text: item for item in notes.open}.values())


def _said(text: str, calls: Sequence[Call]) -> str:
    return "\n".join([_plain(text), *[f"{call.name} {_plain(call.arguments)}" for call in calls]]) if calls else _plain(text)


def _plain(text: str) -> str:
    """JSON without its escapes, near enough for finding words in it."""
    return text.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"') if text[:1] in "{[" else text
