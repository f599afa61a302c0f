"""One conversation of one agent: the loop's state, stepped by whoever has something to say.

The host's threads step it to answer at once, the dataspace's thread when engines come, go and answer.  A lock makes
that one sequence; every state of it is kept in `shown` until the dataspace's thread has made its facts stand, in order.
Nothing here waits, and nothing here knows an event loop.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any

from attrs import evolve

from engines.facts import Answered, Asked, Blocked, Refused
from engines.loop import Conversation, Engines, Policy, begin, step
from engines.loop.events import AnswerHeard, EngineFree, Event, OfferCommitted, SessionEnded, SessionStarted, UsageRead
from engines.loop.policy import Accept, Verdict, kind_of
from engines.loop.view import working
from engines.messages import Messages

from .pending import Deed, Outcome, Shown, Waiter

__all__ = ["Cell"]

log = logging.getLogger(__name__)

_numbers = count(1)
_RELEASES = frozenset({OfferCommitted, SessionEnded})  # they end what an engine holds back


class Cell:
    """The state of a conversation, and what becomes of it.

    `kinds` are the configured compressors in the order in which they are asked, `expected` the names of those that
    are about to serve.  `judges` holds what judges the answers of an engine, by name; `judge` judges all others.
    """

    def __init__(self, started: Mapping[str, Any], kinds: tuple[str, ...], deadline: float, judge: Accept) -> None:
        self.sid = f"hermes-{next(_numbers)}"
        self.kinds = kinds
        self.names = {kind: f"{kind}#{self.sid.removeprefix('hermes-')}" for kind in kinds}
        self.engines = Engines(compressors=tuple(self.names.values()))
        self.first = next(iter(self.names.values()), "")
        """The compressor in charge: the first that serves, in configured order."""
        self.first_kind = kind_of(self.first)
        self.resting: frozenset[str] = frozenset()
        """Compressors that hold themselves back now; they are asked last."""
        self.mended = ""
        """What had to be mended of the latest answer of a hosted engine, and whose it was; empty where nothing had to."""
        self.judges: dict[str, Accept] = {}
        self._judge = judge
        self.lock = threading.RLock()
        self.shown: deque[Shown] = deque()
        self._held: Blocked | None = None
        self._heard: list[Answered] = []  # answers whose message is still under way
        self._chosen: tuple[Engines, tuple[str, ...], frozenset[str]] | None = None
        self.begins: dict[str, Callable[[Asked], bool]] = {}
        """By name, what begins the work of an engine that can be asked past the dataspace's thread."""
        self.posted = False
        self.post: Callable[[], object] | None = None
        self.waiter: Waiter | None = None
        self._own_guards = Policy(owned=False, compressors=kinds, deadline=deadline, accept=self._accept, guards=True)
        self._no_guards = evolve(self._own_guards, guards=False)
        self.guarded = True
        event = SessionStarted(self.sid, at=time.monotonic(), **started)
        self.settled = begin(event)
        """The state, but for readings of which nothing follows yet; cheaper to have than `state`."""
        self._late = False
        self.shown.append(Shown(self.settled))

    @property
    def state(self) -> Conversation:
        """The state, after all that has happened."""
        if self._late:
            self.catch_up()
        return self.settled

    def read(self, prompt: int | None, report: Mapping[str, Any]) -> None:
        """A response came with this report, whose prompt was so large, and the engine in charge has its own guards.

        Nothing follows from a prompt below the threshold while no compaction is wanted, failed, held back or just made:
        it is stepped when somebody looks, and this thread is left to the host.
        """
        at = time.monotonic()
        with self.lock:
            s = self.settled
            idle = s.question is None and s.failed is None and s.blocked is None and self._held is None
            late = idle and prompt is not None and prompt < s.budget.threshold and not s.guard.awaiting and s.active
            if late:
                self._late = True
                self._append(Shown(s, (), (dict(report), at)))
        if not late:
            self.happen(UsageRead(self.sid, report, at=at))

    def happen(self, event: Event, *, quiet: bool = False) -> Conversation:
        """Step, on any thread; the facts follow.  `quiet`: whoever calls this sees to that."""
        with self.lock:
            if event.at is None:
                event = evolve(event, at=time.monotonic())
            new, refused = step(self.state, event, self.engines, self._own_guards if self.guarded else self._no_guards)
            if type(event) in _RELEASES:
                self._held = None
            elif self._held is not None and new.blocked is None:
                new = evolve(new, blocked=self._held)
            if new is not self.state or refused:
                self._put(new, refused)
        if not quiet:
            self.follow()
        return new

    def catch_up(self) -> None:
        """Step the readings that came late, in their places among what is to be shown."""
        with self.lock:
            if not self._late:
                return
            self._late, s = False, self.settled
            for shown in self.shown:
                if shown.late is not None:
                    (report, at), shown.late = shown.late, None
                    s, _none = step(s, UsageRead(self.sid, report, at=at), self.engines, self._no_guards)
                    shown.state = s
                elif s is not self.settled:
                    shown.state = s  # said after the reading
            self.settled = s

    def hold(self, reason: str | None) -> None:
        """The engine in charge holds automatic compaction back, or (None) does no longer; shown as `Blocked`.

        It stands until it is said otherwise or a compaction is taken over, whatever else happens.
        """
        if reason is None and self._held is None:
            return
        with self.lock:
            old, self._held = self._held, None if reason is None else Blocked(self.sid, reason)
            if old is not None and old == self._held:
                self._held = old
                return
            blocked = self._held if self.state.blocked in {None, old} else self.state.blocked
            if blocked is not self.state.blocked:
                self._put(evolve(self.state, blocked=blocked), ())
        self.follow()

    def say(self, message: object) -> None:
        """Have a message, or what a `partial` makes, sent after what has happened so far."""
        self._append(Shown(self.settled, (message,)))

    def follow(self) -> None:
        """Ask the dataspace's thread to come and look, unless it has been asked already."""
        post = self.post
        if post is None or not self.shown:
            return
        with self.lock:
            if self.posted:
                return
            self.posted = True
        post()

    def at_hand(self) -> bool:
        """Whether the first compressor can be asked past the dataspace's thread."""
        first = self.engines.compressors[:1]
        return bool(first) and first[0] in self.begins

    def put(self, waiter: Waiter, event: Event) -> bool:
        """A compress call puts its question; whether an engine is at work on it already, or the facts have to ask."""
        with self.lock:
            self.choose(self.engines)
            asked = working(self.happen(event, quiet=True))
            self.opened(waiter)
            return asked is not None and asked.to in self.begins and self.begins[asked.to](asked)

    def answered(self, answer: Answered, bring: Callable[[bool | None], object]) -> bool | None:
        """An engine has returned, on a thread of its own; whether that counts, for it is waited for.

        `bring` is called with that, and with None (as is returned) if it could not be told, where facts are shown and before any that follow.
        It sends the message, which is no second answer.
        """
        at = time.monotonic()
        with self.lock:
            asked = working(self.state)
            counts = asked is not None and (asked.to, asked.n) == (answer.by, answer.n)
            told = Deed(partial(bring, counts))
            self.shown.append(Shown(self.settled, (told,)))
            try:
                if counts:
                    self.happen(AnswerHeard(self.sid, answer, at=at), quiet=True)
                    self._heard.append(answer)
                if answer.by in self.state.busy:
                    self.happen(EngineFree(self.sid, answer.by, at=at), quiet=True)
            except Exception:  # the dataspace's thread finds it once more, where it is dealt with
                log.exception("the answer of %s could not be taken at once", answer.by)
                told.do = partial(bring, None)
                return None
        return counts

    def follows(self, answer: Answered) -> bool:
        """Whether this message follows an answer that has been taken already; asked once, when it comes."""
        with self.lock:
            before = len(self._heard)
            self._heard = [heard for heard in self._heard if heard is not answer]
            return len(self._heard) < before

    def awaited(self) -> bool:
        """Whether a thread of the host that has waited for a decision has it now, and is about to go on."""
        return self.waiter is not None and self.waiter.outcome is not None

    def choose(self, engines: Engines) -> None:
        """Who serves, in configured order; the given order among equals, and kinds that are not configured last."""
        if self._chosen == (engines, self.kinds, self.resting):
            return
        order = {kind: place for place, kind in enumerate(self.kinds)}
        sort = sorted(engines.compressors, key=lambda name: order.get(kind_of(name), len(order)))
        self.first = sort[0] if sort else ""
        self.first_kind = kind_of(self.first)
        sort.sort(key=lambda name: name in self.resting)
        self.engines = evolve(engines, compressors=tuple(sort))
        self._chosen = (self.engines, self.kinds, self.resting)

    def expect(self) -> None:
        """Somebody new is to show this conversation: until its engines serve there, they are taken to.

        Of a call that still runs elsewhere nobody will tell; the engine itself knows whether it can be asked.
        """
        with self.lock:
            for name in self.state.busy:
                self.happen(EngineFree(self.sid, name), quiet=True)
            self.choose(Engines(compressors=tuple(self.names[kind] for kind in self.kinds)))

    def renew(self, kinds: tuple[str, ...], deadline: float) -> None:
        """Other compressors are configured, or another deadline."""
        with self.lock:
            number = self.sid.removeprefix("hermes-")
            self.names = {**self.names, **{kind: f"{kind}#{number}" for kind in kinds}}
            self.kinds = kinds
            self._own_guards = evolve(self._own_guards, compressors=kinds, deadline=deadline)
            self._no_guards = evolve(self._own_guards, guards=False)

    def show_all(self) -> None:
        """Somebody new shows this conversation: the state as it is, if nothing else is to be shown."""
        with self.lock:
            self.posted = False
            self.catch_up()
            if not self.shown:
                self.shown.append(Shown(self.settled))

    def wait_for(self, waiter: Waiter | None) -> None:
        """A compress call begins (or, with None, is over); one that still waited is told that it was superseded."""
        with self.lock:
            old, self.waiter = self.waiter, waiter
            if old is not None and waiter is not None:
                old.decide(Outcome(reason="another compress call has taken its place", superseded=True))

    def opened(self, waiter: Waiter) -> None:
        """The question of this call has been put: from here on the state decides it."""
        with self.lock:
            waiter.opened = True
            self._decide(self.state)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _append(self, shown: Shown) -> None:
        """Have this shown, and the dataspace's thread come for it, as `follow` does."""
        with self.lock:
            self.shown.append(shown)
            post = None if self.posted else self.post
            if post is not None:
                self.posted = True
        if post is not None:
            post()

    def _put(self, new: Conversation, refused: tuple[Refused, ...]) -> None:
        self.settled = new
        self.shown.append(Shown(new, refused))
        self._decide(new)

    def _decide(self, s: Conversation) -> None:
        waiter = self.waiter
        if waiter is None or not waiter.opened:
            return
        q = s.question
        if q is None:
            waiter.decide(Outcome(reason="the question was withdrawn"))
        elif q.offered:
            waiter.decide(Outcome(q.draft, q.by))
        elif q.work is None:
            reason = s.failed.reason if s.failed is not None else "nobody could be asked"
            declined = bool(q.why) and all(why.endswith(" declined") for why in q.why)
            waiter.decide(Outcome(reason=reason, declined=declined))

    def _accept(self, answer: Messages, before: Messages) -> Verdict:
        """Judge an answer by who gave it; called within a step, so the state is still the one that asked."""
        q = self.state.question
        by = q.work.fact.to if q is not None and q.work is not None else ""
        return self.judges.get(by, self._judge)(answer, before)
