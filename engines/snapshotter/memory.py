"""What is known of one session, filled from facts and messages as they come.

This is a state machine without any I/O: `hear` takes a fact and the time, and the same facts give the same memory.  It
is bounded, whatever comes.  Message lists may be shown again and again, whole or compacted: a call is known by its id,
a finding by its wording, so nothing is taken in twice; calls that were really made twice have two ids.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, field

from .. import facts as f
from ..compressor.outcome import Target, brief, outcome_of, target_of
from ..compressor.redact import redact
from ..compressor.wording import excerpt, one_line
from ..messages import Messages, Row
from ..transcript import (
    Call,
    call_id,
    calls_of,
    is_foreign_summary,
    is_summary,
    role_of,
    said_by_user,
    split_summary,
    text_of,
)
from .findings import findings_in, findings_of_summary, plan_in, question_in
from .fit import MOST_ENTRIES
from .todo import todo_in

__all__ = ["Memory"]

_KNOWN = 5_000  # calls and findings that are known again
_READ = 8_000  # characters of a call's arguments and of its result that are looked at
_TARGET, _OUTCOME = 120, 110  # characters: many calls told briefly are worth more than a few told at length
_FILES = 30
_FEW = 5
_MANY = 20


@define(repr=False)
class Memory:
    """One session.  Times are texts, as they are to be written."""

    sid: str
    request: str = ""
    earlier: list[str] = field(factory=list)
    calls: list[dict[str, Any]] = field(factory=list)
    findings: list[str] = field(factory=list)
    files: dict[str, bool] = field(factory=dict)  # path → whether it was changed
    todo: list[dict[str, str]] = field(factory=list)
    skills: dict[str, None] = field(factory=dict)
    question: str = ""
    plan: str = ""
    children: dict[str, str] = field(factory=dict)
    sessions: list[str] = field(factory=list)  # the host's ids for it, in order
    boundaries: int = 0
    working: bool = False
    interrupted: bool = False
    acted: bool = False  # whether a call was made for the request at hand
    _turns: int = 0
    _rows: Messages | None = None
    _known: OrderedDict[str, None] = field(factory=OrderedDict)
    _pending: dict[str, Call] = field(factory=dict)
    _nth: Counter[str] = field(factory=Counter)
    _since: bool = False  # whether the list that is being read brought a new call after its last request

    @property
    def empty(self) -> bool:
        """Whether there is nothing that anybody could go on with."""
        return not (self.request or self.calls or self.findings)

    @property
    def open_calls(self) -> list[Call]:
        """Calls that have no result yet."""
        return list(self._pending.values())

    def hear(self, fact: object, at: str = "") -> None:
        """Take in a fact or message of the vocabulary; those that say nothing of this are passed over."""
        take = _TAKES.get(type(fact))
        if take is not None:
            take(self, fact, at)

    def named(self, host_session: str) -> None:
        """The host calls it so from now on."""
        if host_session and host_session not in self.sessions:
            self.sessions = [*self.sessions[-_MANY:], host_session]

    # -- turns --------------------------------------------------------------------------------------------------------

    def _turn_started(self, turn: f.TurnStarted, _at: str) -> None:
        self._turns += 1
        self.working, self.interrupted, self.acted, self.question, self.plan = True, False, False, "", ""
        self._pending.clear()
        if turn.text.strip():
            self._requested(turn.text)

    def _turn_ended(self, turn: f.TurnEnded, _at: str) -> None:
        self.working = False
        self.interrupted = turn.interrupted or not turn.completed
        if turn.text:
            self._said(turn.text, final=True)

    def _requested(self, text: str) -> None:
        if self.request and self.request != text:
            self.earlier = [*self.earlier[-_FEW + 1 :], one_line(redact(self.request[:_READ]), 160)]
        self.request = text

    def _said(self, text: str, *, final: bool) -> None:
        clean = redact(excerpt(text, _READ))
        self._found(findings_in(clean, final=final))
        self.plan = plan_in(clean) or self.plan
        if final:
            self.question = question_in(clean)

    def _found(self, findings: Iterable[str]) -> None:
        for finding in findings:
            if self._new(f"finding {' '.join(finding.lower().split())}"):
                self.findings = [*self.findings[-MOST_ENTRIES + 1 :], finding]

    def _noted(self, note: f.Noted, _at: str) -> None:
        self._found([one_line(redact(note.text[:_READ]), 500)])

    # -- tools --------------------------------------------------------------------------------------------------------

    def _tool_called(self, called: f.ToolCalled, at: str) -> None:
        call = Call(called.call_id, called.tool, called.args)
        self._pending.pop(called.call_id, None)
        known = not self._new(_key(call)) if call.id else False
        if call.id:
            self._new(f"heard {call.id}")
        self.acted = True
        if not known:
            self._called(call, called.result, called.status, at)

    def _called(self, call: Call, result: str, status: str, at: str) -> None:
        target = self._worked(call, result)
        outcome = outcome_of(redact(brief(result, _READ)))
        failed = outcome.failed or status not in {"", "ok"}
        entry = {
            "tool": call.name,
            "target": one_line(target.text, _TARGET),
            "outcome": one_line(outcome.text, _OUTCOME),
            "status": status or ("error" if failed else "ok"),
        }
        self.calls = [*self.calls[-MOST_ENTRIES + 1 :], {**entry, "at": at} if at else entry]

    def _worked(self, call: Call, result: str) -> Target:
        """What a call worked on, whatever came of it."""
        target = target_of(call._replace(arguments=redact(brief(call.arguments, _READ))))
        if target.path:
            self._touched(target.path[:400], target.writes)
        todo = todo_in(call.name, call.arguments, result)
        if todo is not None:
            self.todo = todo
        return target

    def _touched(self, path: str, writes: bool) -> None:
        writes = self.files.pop(path, False) or writes
        self.files[path] = writes
        if len(self.files) > _FILES:
            del self.files[next(iter(self.files))]

    # -- messages -----------------------------------------------------------------------------------------------------

    def _transcript(self, shown: f.Transcript, at: str) -> None:
        if shown.messages is not None:
            self.read(shown.messages, at)

    def read(self, messages: Messages, at: str = "") -> None:
        """Take in a message list: what has been added to the one before, or all of it if it is another one."""
        old = self._rows
        self._rows = messages
        start = 0 if old is None else len(old)
        if (
            old is None
            or start > len(messages)
            or (start and messages[start - 1] != old[start - 1])
            or (start and messages[0] != old[0])
        ):
            start = 0
            self._nth.clear()
            self._pending.clear()
        made: list[tuple[Call, str]] = []
        self._since = False
        for at_row in range(start, len(messages)):
            self._row(messages[at_row], made)
        self.acted = self.acted or self._since
        for place, (call, text) in enumerate(made, MOST_ENTRIES - len(made)):
            if place >= 0:
                self._called(call, text, "", at)
            else:  # it is not among those that are kept: how it ended need not be found out, which takes longest
                self._worked(call, text)
        if not self._turns and messages:
            self.working = _open_ended(messages[-1])

    def _row(self, row: Row, made: list[tuple[Call, str]]) -> None:
        """Take in one row; a call that has its result now, and was not known, is among those `made`."""
        if is_summary(row) or is_foreign_summary(row):
            self._found(findings_of_summary(redact(text_of(row))))
        elif role_of(row) == "assistant":
            self._answered(row)
        elif (id_ := call_id(row)) is not None:
            call = self._pending.pop(id_, None)
            if call is not None and f"heard {id_}" not in self._known and self._new(self._place(call)):
                made.append((call, text_of(row)))
                self._since = True
        elif said_by_user(row):
            self._since = False
            self._asked(row)

    def _answered(self, row: Row) -> None:
        calls = calls_of(row)
        self._said(text_of(row), final=not calls)
        for call in calls:
            self._pending[call.id] = call
        while len(self._pending) > _MANY:
            del self._pending[next(iter(self._pending))]

    def _asked(self, row: Row) -> None:
        before, summary, after = split_summary(text_of(row))
        if summary:
            self._found(findings_of_summary(redact(summary)))
        text = "\n".join(part for part in (before.strip(), after.strip()) if part)
        if text and not self._turns and text != self.request:
            self._requested(text)
            self.acted, self.question, self.plan = False, "", ""

    # -- what else ----------------------------------------------------------------------------------------------------

    def _compressed(self, compressed: f.Compressed, at: str) -> None:
        if compressed.messages is not None:
            self.read(compressed.messages, at)

    def _required(self, required: f.SkillRequired, _at: str) -> None:
        self.skills[required.name] = None
        if len(self.skills) > _MANY:
            del self.skills[next(iter(self.skills))]

    def _delegated(self, delegated: f.Delegated, _at: str) -> None:
        self.children[delegated.child] = one_line(redact(delegated.task[:_READ]), 160)
        if len(self.children) > _MANY:
            del self.children[next(iter(self.children))]

    def _place(self, call: Call) -> str:
        """What a call of a message list is known by: its id, or, where it has none of its own, which of its kind it is."""
        if call.id and not call.id.startswith("function:"):
            return _key(call)
        self._nth[_key(call)] += 1
        return f"{_key(call)} {self._nth[_key(call)]}"

    def _new(self, key: str) -> bool:
        """Whether this is met for the first time."""
        if key in self._known:
            self._known.move_to_end(key)
            return False
        self._known[key] = None
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        return True


def _key(call: Call) -> str:
    """What makes a call this one, however its arguments are spelled; providers give some ids more than once."""
    try:
        arguments = json.dumps(json.loads(call.arguments), sort_keys=True)
    except (ValueError, RecursionError):
        arguments = call.arguments
    digest = hashlib.blake2b(arguments.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"call {call.id} {call.name} {digest}"


def _open_ended(row: Row) -> bool:
    """Whether a list that ends in this row waits for the model."""
    return role_of(row) != "assistant" or bool(calls_of(row))


_TAKES: dict[type, Callable[[Memory, Any, str], None]] = {
    f.TurnStarted: Memory._turn_started,
    f.TurnEnded: Memory._turn_ended,
    f.ToolCalled: Memory._tool_called,
    f.Transcript: Memory._transcript,
    f.Compressed: Memory._compressed,
    f.Noted: Memory._noted,
    f.Delegated: Memory._delegated,
    f.SkillRequired: Memory._required,
}
