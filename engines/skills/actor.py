"""The registry of skills as an engine: facts that follow the ledgers, and the reviser of compactions.

Told by the dataspace alone, in a replay or beside a loop, it reads transcripts and what tools returned.  In a host the
ledgers are stepped on the host's threads through the same `Book`, and here is only who shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import evolve

from dataspace import Facet, Handle, where
from engines.engine import serve
from engines.facts import (
    Asked,
    Compressed,
    Session,
    SkillRequired,
    ToolCalled,
    Transcript,
    TurnEnded,
    TurnStarted,
)
from engines.messages import Messages
from engines.transcript import calls_of, estimate_tokens, role_of, text_of

from . import events as e
from .book import Book
from .entries import Entry, Key, Known
from .ledger import Ledger, entries_of, evicted, view
from .policy import SkillPolicy
from .revise import added_tokens, revise, spent_tokens
from .scan import may_load, scan, sightings
from .wording import SKILL_TOOL

__all__ = ["known_before", "skills"]

_SPARE = 200  # tokens by which a revision stays below the list it came from


def skills(
    policy: SkillPolicy | None = None,
    *,
    book: Book | None = None,
    dress: Callable[[Messages], Messages] | None = None,
    post: Callable[[Callable[[], object]], object] | None = None,
    opens: bool = True,
) -> Callable[[Facet], None]:
    """Return the boot function of the skills engine: it shows what is known of skills, and revises compactions.

    Somebody else may step the ledgers of `book` too, from any thread, if `post` has a function called on the dataspace's
    thread.  `dress` puts the words of a host around a summary that the revision had to add.  Not `opens`: only
    conversations are kept whose ledger somebody else opens.
    """
    ledgers = book or Book(policy)

    def boot(me: Facet) -> None:
        _Registry(me, ledgers, dress or _as_it_is).begin(post or _at_once, opens)

    return boot


class _Registry:
    def __init__(self, me: Facet, book: Book, dress: Callable[[Messages], Messages]) -> None:
        self._me = me
        self._book = book
        self._dress = dress
        self._shown: dict[str, dict[Any, Handle]] = {}
        self._seen: dict[str, Messages] = {}

    def begin(self, post: Callable[[Callable[[], object]], object], opens: bool) -> None:
        """Show what is known, and listen."""
        me = self._me
        self._book.post = partial(post, self._called_for)
        self._book.take()
        for ledger in self._book.all():
            self._show(ledger)
        me.observe(where(Session, state="active"), appeared=self._began if opens else None, vanished=self._over)
        me.observe(SkillRequired, appeared=self._declare, vanished=self._declare)
        me.observe(Transcript, appeared=self._read)
        me.observe(Compressed, appeared=self._compacted)
        me.observe(TurnStarted, heard=self._turn_began)
        me.observe(TurnEnded, heard=self._turn_ended)
        me.observe(ToolCalled, heard=self._called)
        serve(me, self._revise, role="reviser")

    def _called_for(self) -> None:
        if self._me.alive:
            self._me.later(self._draw)

    # -- what is told -------------------------------------------------------------------------------------------------

    def _began(self, session: Session) -> None:
        self._book.open(session.sid)

    def _over(self, session: Session) -> None:
        self._seen.pop(session.sid, None)
        self._book.close(session.sid)

    def _read(self, transcript: Transcript) -> None:
        """Messages were added, or are others: loads among the new ones are told, then all is looked at."""
        sid, messages = transcript.sid, transcript.messages
        ledger = self._book.ledger(sid)
        if ledger is None or messages is None or self._book.hosted(sid):
            return
        known = self._seen.get(sid)
        self._seen[sid] = messages
        new = None if known is None else _added(known, messages)
        ask = max((fact.ask for fact in self._me.facts(where(Compressed, sid=sid))), default=0)
        if new is None and ask > ledger.ask:
            self._book.step(sid, e.Compacted(ask, messages))
        elif new is None or ledger.curious or _speaks_of_skills(messages, new) or _begins(ledger, messages, new):
            self._tell_loads(sid, messages, len(messages) if new is None else new)
            self._book.step(sid, e.Seen(messages))

    def _tell_loads(self, sid: str, messages: Messages, new: int) -> None:
        for one in sightings(messages):
            if one.at >= new and one.call is not None:
                event = e.Loaded(one.call.id, one.call.arguments, text_of(messages[one.at]), "transcript")
                self._book.step(sid, event)

    def _compacted(self, compressed: Compressed) -> None:
        sid = compressed.sid
        ledger = self._book.ledger(sid)
        if ledger is not None and compressed.messages is not None and compressed.ask > ledger.ask:
            self._book.step(sid, e.Compacted(compressed.ask, compressed.messages, late=self._book.hosted(sid)))

    def _turn_began(self, turn: TurnStarted) -> None:
        if not self._book.hosted(turn.sid):
            self._book.step(turn.sid, e.RequestBegan(turn.turn, turn.text))

    def _turn_ended(self, turn: TurnEnded) -> None:
        if not self._book.hosted(turn.sid):
            self._book.step(turn.sid, e.RequestEnded())

    def _called(self, call: ToolCalled) -> None:
        if self._book.hosted(call.sid):
            return
        self._book.step(call.sid, e.ToolDone(call.tool))
        if call.tool == SKILL_TOOL:
            self._book.step(call.sid, e.Loaded(call.call_id, call.args, call.result, "tool"))

    def _declare(self, fact: SkillRequired) -> None:
        """Others say what the task needs; what is said here follows from that, and is no news."""
        self._declared(fact.sid)

    def _declared(self, sid: str) -> None:
        own = self._shown.get(sid, {})
        names = frozenset(fact.name for fact in self._me.facts(where(SkillRequired, sid=sid)) if fact not in own)
        self._book.step(sid, e.Declared(names))

    # -- what stands --------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        for shown in self._book.take():
            if shown.ledger is None:
                self._retract(shown.sid)
                continue
            self._show(shown.ledger)
            for message in shown.said:
                self._me.send(message)

    def _show(self, ledger: Ledger) -> None:
        """Have exactly the facts of this ledger stand, without an instant in which both states of a skill do."""
        me, sid = self._me, ledger.sid
        facts = view(ledger, self._book.policy_of(sid))
        old = self._shown.get(sid, {})
        gone = [fact for fact in old if fact not in facts]
        for fact in gone:
            me.retract(old.pop(fact))
        if any(type(fact) is SkillRequired for fact in gone):
            me.later(partial(self._declared, sid))  # where somebody says the same it stands, and nobody hears that
        self._shown[sid] = {fact: old.get(fact) or me.publish(fact) for fact in facts}

    def _retract(self, sid: str) -> None:
        for handle in self._shown.pop(sid, {}).values():
            self._me.retract(handle)

    # -- the reviser --------------------------------------------------------------------------------------------------

    def _revise(self, me: Facet, asked: Asked) -> Messages | None:
        sid, ledger = asked.sid, self._book.ledger(asked.sid)
        transcript = me.facts(where(Transcript, sid=sid))
        original = transcript[-1].messages if transcript else None
        if ledger is None or original is None:
            return None
        if ledger.at_rest and self._book.hosted(sid) and not may_load(original):
            return None  # a host has told of all there was, and there was nothing
        entries = known_before(ledger, original)
        if not entries:
            return None
        draft, policy = Messages.of(asked.messages), self._book.policy_of(sid)
        room = max(0, _room(asked, draft, original, policy) - added_tokens(original))
        made = revise(
            draft,
            entries,
            ledger.needs,
            original=original,
            room=room + spent_tokens(draft, entries, ledger.needs, original),
            evict=evicted(ledger, policy),
            block=policy.gather,
        )
        return None if made == draft else self._dress(made)


def known_before(ledger: Ledger, original: Messages) -> tuple[Entry, ...]:
    """The skills before a compaction, those whose task needs them first: what the rows say, and what only the ledger knows."""
    known = Known(entries_of(ledger))
    found: dict[Key, Entry] = {}
    for entry in scan(original):
        entry = known.same(entry)  # noqa: PLW2901 - the same one, named in full
        mine = known.pop(entry.key, None)
        if mine is not None and entry.sha256 is None:
            entry = evolve(entry, sha256=mine.sha256, size=entry.size or mine.size)  # noqa: PLW2901
        found[entry.key] = entry
    return (*known.values(), *found.values())


def _room(asked: Asked, draft: Messages, original: Messages, policy: SkillPolicy) -> int:
    """How many tokens texts may take that are put back: within the share of the threshold, and smaller than before."""
    size = estimate_tokens(draft)
    before = estimate_tokens(original)
    scale = max(asked.tokens / before, 1.0) if asked.tokens and before else 1.0
    return max(0, min(int(asked.threshold * policy.keep / scale), before - _SPARE) - size)


def _added(known: Messages, messages: Messages) -> int | None:
    """Where the new rows begin if the list has only grown; None where it is another one."""
    count = len(known)
    if count > len(messages) or (count and (known[0] is not messages[0] or known[-1] is not messages[count - 1])):
        return None
    return count


def _speaks_of_skills(messages: Messages, new: int) -> bool:
    """Whether rows from there on can say anything of a skill, or begin a request."""
    if new == len(messages):
        return False
    while new > 0 and role_of(messages[new]) == "tool":
        new -= 1  # to the message that makes the calls
    return any(
        role_of(row) == "user" or any(call.name == SKILL_TOOL for call in calls_of(row)) for row in messages[new:]
    )


def _begins(ledger: Ledger, messages: Messages, new: int) -> bool:
    """Whether the model is at work from there on, on a task that needs what was loaded before it."""
    return not ledger.running and bool(ledger.required) and any(role_of(row) == "assistant" for row in messages[new:])


def _at_once(fn: Callable[[], object]) -> None:
    fn()


def _as_it_is(messages: Messages) -> Messages:
    return messages
