"""Skills in Hermes: the observer, and what it does at once on the host's threads.

`skill_view` answers through `SkillAide.tool_result`, tools that act wait in `veto`, and a request is looked at only while
something is not known.  All of it steps one book of ledgers; the engine in the dataspace shows what follows.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from attrs import frozen

from engines.messages import Messages
from engines.skills import LOOKING, Book, Ledger, SkillPolicy, collapsed, rows_of, skills
from engines.skills import events as e
from engines.skills.place import is_added
from engines.skills.scan import may_load
from engines.skills.wording import SKILL_TOOL, pruned_now
from engines.transcript import SUMMARY_HEAD, text_of

from . import skill_audit
from .aides import Aide, Call, Standing, TurnBegun
from .blocks import boolean, count, names, setting
from .runtime import running
from .shown import table
from .wording import host_wording

if TYPE_CHECKING:
    from dataspace import Facet

    from .settings import Settings

__all__ = ["BOOK", "Options", "SkillAide", "aide", "boot", "show"]

log = logging.getLogger(__name__)

BOOK = Book()
"""The ledgers of all conversations of this process that want this observer."""


def _share(value: Any) -> float | None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number and 0 <= value <= 1 else None


def _mode(value: Any) -> str | None:
    """YAML takes `on` and `off` for true and false."""
    word = {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
    return word if word in {"on", "off", "warn"} else None


@frozen
class Options:
    """How skills are kept in Hermes; see `engines.skills.SkillPolicy`.  Sizes are tokens, 0: no limit."""

    EXAMPLE = "block"

    once: bool = setting(True, boolean, "write true or false")
    block: str = setting("on", _mode, "write on, warn or off")
    total_tokens: int = setting(0, count(), "write a whole number of tokens, or 0 for no limit")
    skill_tokens: int = setting(0, count(), "write a whole number of tokens, or 0 for no limit")
    pinned: tuple[str, ...] = setting((), names, "write a list of names, as in [systematic-debugging]")
    keep: float = setting(0.8, _share, "write a share of the threshold, from 0 to 1")
    active_block: bool = setting(False, boolean, "write true or false")
    audit: bool = setting(False, boolean, "write true or false")
    looking: tuple[str, ...] = setting((), names, "write a list of tools that change nothing")

    @property
    def policy(self) -> SkillPolicy:
        """The same as the engine takes it."""
        return SkillPolicy(
            once=self.once,
            block=cast("Literal['off', 'warn', 'on']", self.block),
            total=self.total_tokens or None,
            each=self.skill_tokens or None,
            pinned=frozenset[str](self.pinned),
            keep=self.keep,
            gather=self.active_block,
            looking=LOOKING | frozenset[str](self.looking),
        )


def boot(_settings: Settings, _of: Callable[[str], Settings | None]) -> Callable[[Facet], None]:
    """The boot function of the engine: it shows the ledgers that aides have opened, and revises compactions."""
    return skills(book=BOOK, dress=_dressed, post=_post, opens=False)


def aide(standing: Standing) -> Aide:
    """What answers at once in one conversation."""
    return SkillAide(standing)


def show(_me: Facet, _text: str) -> str:
    """What `/dataspace skills` shows."""
    rows = [
        (ledger.sid, *(_word(value) for value in row.values()))
        for ledger in BOOK.all()
        for row in rows_of(ledger, BOOK.policy_of(ledger.sid))
    ]
    head = ("conversation", "name", "hash", "state", "tokens", "required", "pinned")
    return table(head, rows) if rows else "No skill was loaded."


class SkillAide(Aide):
    """Steps the ledger of one conversation in `book`, and says what it answers."""

    def __init__(self, standing: Standing, book: Book = BOOK) -> None:
        self._book = book
        self._sid = standing.sid
        self._turn = ""
        self._older = False  # texts stand in the transcript that the model is not to be sent
        self._rule(standing.settings.of(Options))
        self._book.open(self._sid, self._policy, hosted=True)

    def tool_result(self, call: Call) -> str | None:
        """A skill that is in context is not delivered again; a loss is told beside another tool's result."""
        if call.tool == SKILL_TOOL:
            told = e.Loaded(call.call_id, json.dumps(dict(call.args), default=str), call.result)
            stepped = self._book.step(self._sid, told)
            if any(one.outcome == "updated" for one in stepped.said):
                self._look_over()
            return (
                None if self._audit else stepped.answer
            )  # the model's input has each text once, the transcript has all
        if self._book.at_rest(self._sid, working=True):
            return None
        word = self._book.step(self._sid, e.ToolDone(call.tool, tell=True)).answer
        if word is None:
            return None
        log.warning("%s", word)
        return f"{call.result}\n\n{word}"

    def veto(self, tool: str, args: Mapping[str, Any], call_id: str) -> str | None:
        """A tool that acts waits while the reasoning rests on a skill that is gone and can be had again."""
        if self._book.at_rest(self._sid, working=True):
            return None
        self._look_for_files()
        return self._book.step(self._sid, e.ToolAsked(tool)).answer

    def context(self, turn: TurnBegun) -> str | None:
        """While something is pruned, what that means goes with the user's message."""
        skill_audit.over(self._turn)
        self._turn = turn.turn
        if self._audit or (self._older and self._policy.once):
            skill_audit.look_over(turn.turn)
        if self._book.passes(self._sid, turn.turn, turn.text):
            return None
        ledger = self._book.step(self._sid, e.RequestBegan(turn.turn, turn.text, first=turn.first)).ledger
        gone = [skill.entry.label for skill in ledger.skills if skill.state == "pruned"]
        return pruned_now(gone) if gone else None

    def wants_requests(self) -> bool:
        """While something is not known: a load whose row nobody has seen, or what a compaction has left."""
        return self._book.curious(self._sid)

    def request(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """What the model is about to be sent."""
        if messages:
            self._book.step(self._sid, e.Seen(messages, sent=True))
            if not self._older and may_load(messages) and collapsed(messages) is not None:
                self._look_over()  # as in a session that goes on in another process

    def turn_ended(self, turn: str) -> None:
        """The model has finished."""
        skill_audit.over(turn)
        if not self._book.at_rest(self._sid, working=False):
            self._book.step(self._sid, e.RequestEnded())

    def compacted(self) -> None:
        """What the model saw may be gone; the next request will say."""
        self._book.step(self._sid, e.TakenOver())

    def changed(self, settings: Settings) -> None:
        """Other settings count."""
        self._rule(settings.of(Options))
        self._book.rule(self._sid, self._policy)

    def ended(self, reason: str) -> None:
        """The conversation is over."""
        skill_audit.over(self._turn)
        self._book.close(self._sid)

    def _rule(self, options: Options) -> None:
        self._policy = options.policy
        self._audit = options.audit and skill_audit.can_look_over()

    def _look_over(self) -> None:
        """From the next request on an older version, or a second text, is sent as the line that stands for it."""
        if self._policy.once and skill_audit.can_look_over():
            self._older = True
            skill_audit.look_over(self._turn)

    def _look_for_files(self) -> None:
        """Nobody is made to wait for a skill whose file has gone."""
        ledger = self._book.ledger(self._sid)
        if ledger is None or ledger.loss is None:
            return
        gone = frozenset(_without_file(ledger))
        if gone:
            self._book.step(self._sid, e.CannotLoad(gone))


def _without_file(ledger: Ledger) -> list[str]:
    lost = () if ledger.loss is None else ledger.loss.skills
    entries = [skill.entry for skill in ledger.skills if skill.key in lost and skill.entry.directory]
    return [
        entry.label
        for entry in entries
        if entry.directory and not (Path(entry.directory) / (entry.file or "SKILL.md")).exists()
    ]


def _dressed(messages: Messages) -> Messages:
    """A summary that the revision had to add, in the host's words, so that the host knows it for one."""
    words = host_wording()
    return Messages.of(
        [
            {**row, "content": f"{words.prefix}\n{text_of(row)}\n\n{words.end}"}
            if is_added(row) and text_of(row).startswith(SUMMARY_HEAD)
            else row
            for row in messages
        ]
    )


def _post(fn: Callable[[], object]) -> None:
    runtime = running()
    if runtime is not None:
        runtime.soon(lambda _desk: fn())


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:,}" if isinstance(value, int) else str(value)
