"""The run loop as an actor: events in, facts and messages out, with or without an event loop.

It keeps one state for each conversation and shows what follows from it.  All decisions are `step`'s; here is only who
is told what.  Without a clock the loop measures nothing, and without `timer.keep_time` nobody looks at deadlines
between two events.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from attrs import evolve

from dataspace import Facet
from engines.facts import Answered, Asked, Refused, Serving, Working

from .alarms import Alarms
from .attention import Attention
from .events import (
    AnswerHeard,
    AskingUnheard,
    EngineBegan,
    EngineBusy,
    EngineCeased,
    EngineFree,
    Event,
    SessionEnded,
    SessionStarted,
    TimePassed,
    UsageRead,
)
from .mirror import Mirror
from .policy import Policy
from .pressure import read_usage
from .roster import Roster
from .state import Conversation, begin
from .step import step
from .view import view, wake, working

__all__ = ["Loop", "UnknownSessionError"]

log = logging.getLogger("engines.loop")

E = TypeVar("E", bound=Event)


class UnknownSessionError(LookupError):
    """There is no such conversation, or it ended so long ago that it has been forgotten."""

    def __init__(self, sid: str) -> None:
        super().__init__(f"there is no session {sid!r}: it has not been started, or it ended and has been forgotten")
        self.sid = sid


class Loop:
    """The loop of all conversations of a dataspace, acting through `me`.

    `clock` gives the time in seconds for events that do not bring their own.  The newest `keep_ended` conversations
    that have ended are remembered.  Use it from the dataspace's thread.
    """

    def __init__(
        self,
        me: Facet,
        policy: Policy | None = None,
        *,
        clock: Callable[[], float] | None = None,
        keep_ended: int = 100,
    ) -> None:
        if not isinstance(me, Facet):
            raise TypeError(f"Loop takes an actor, as in Loop(ds.actor('loop')), not {me!r}")
        self.me = me
        self.policy = policy or Policy()
        self.clock = clock
        self.alarms = Alarms()
        self._keep_ended = keep_ended
        self._states: dict[str, Conversation] = {}
        self._announced: set[str] = set()
        self._ended: dict[str, None] = {}
        self._waiting: dict[str, None] = {}  # conversations that engines coming and going may matter to
        self._floor = (0, 0)  # numbers below these were used by conversations now forgotten
        self._roster = Roster(self.policy)
        self._mirror = Mirror(me)
        self._attention = Attention(me, self._unheard)
        with me.turn():
            me.observe(Serving, appeared=self._began, vanished=self._ceased)
            me.observe(
                Working, appeared=partial(self._at_work, EngineBusy), vanished=partial(self._at_work, EngineFree)
            )
            me.observe(Answered, heard=self._answered)

    def feed(self, event: Event) -> None:
        """Have `event` happen: at once, or after the turn in which this is called.

        Raises `UnknownSessionError`; what comes for a conversation that has ended is ignored.
        """
        if not isinstance(event, Event):
            raise TypeError(f"feed takes an event of engines.loop.events, such as UsageRead, not {event!r}")
        if isinstance(event, UsageRead):
            _warn_if_unreadable(event)
        if isinstance(event, SessionStarted):
            self._announced.add(event.sid)
        elif event.sid not in self._states and event.sid not in self._announced:
            raise UnknownSessionError(event.sid)
        self.me.later(partial(self._take, self._stamped(event)))

    def state(self, sid: str) -> Conversation:
        """What is known of a conversation now; raises `UnknownSessionError`."""
        try:
            return self._states[sid]
        except KeyError:
            raise UnknownSessionError(sid) from None

    def sids(self) -> Iterable[str]:
        """The conversations that are known, ended ones among them."""
        return tuple(self._states)

    def tick(self) -> None:
        """Look at what was to happen by now.  Needs a clock."""
        if self.clock is None:
            raise RuntimeError("a loop without a clock has no time to look at; give it clock=...")
        at = self.clock()
        for sid in self.alarms.due(at):
            self.me.later(partial(self._take, TimePassed(sid, at=at)))

    # -- turns --------------------------------------------------------------------------------------------------------

    def _stamped(self, event: E) -> E:
        return event if self.clock is None or event.at is not None else evolve(event, at=self.clock())

    def _take(self, event: Event) -> None:
        sid = event.sid
        state = self._states.get(sid)
        refused: tuple[Refused, ...] = ()
        if state is not None:
            try:
                new, refused = step(state, event, self._roster.of(sid), self.policy)
            except Exception:  # what went wrong for one conversation is not to end those of all others
                log.exception("the loop of %s could not take %s; it goes on as it was", sid, type(event).__name__)
                return
        elif isinstance(event, SessionStarted):
            new = begin(event, asks=self._floor[0], n=self._floor[1])
        else:
            return  # forgotten since the event was fed
        if new is not state:
            self._show(new)
        for message in refused:
            self.me.send(message)
        if isinstance(event, SessionStarted):
            self._announced.discard(sid)
            self._ended.pop(sid, None)
        elif isinstance(event, SessionEnded):
            self._remember(sid)

    def _show(self, s: Conversation) -> None:
        sid = s.session.sid
        self._states[sid] = s
        self._mirror.show(sid, view(s))
        self.alarms.set(sid, wake(s))
        self._attention.watch(sid, working(s))
        if s.question is not None or s.failed is not None or s.shadows or s.guard.failures:
            self._waiting[sid] = None
        else:
            self._waiting.pop(sid, None)

    def _remember(self, sid: str) -> None:
        """Ended conversations are forgotten after a while, the oldest first; their numbers are not used again."""
        self._ended[sid] = None
        while len(self._ended) > self._keep_ended:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            s = self._states.pop(oldest)
            self._floor = (max(self._floor[0], s.asks), max(self._floor[1], s.n))
            self._mirror.show(oldest, ())
            self.alarms.set(oldest, None)

    # -- what engines do ----------------------------------------------------------------------------------------------

    def _began(self, serving: Serving) -> None:
        self._roster.add(serving)
        for sid in self._concerned(serving):
            self._take(self._stamped(EngineBegan(sid, serving.engine, serving.role)))

    def _ceased(self, serving: Serving) -> None:
        self._roster.remove(serving)
        for sid in self._concerned(serving):
            self._take(self._stamped(EngineCeased(sid, serving.engine, serving.role)))

    def _concerned(self, serving: Serving) -> tuple[str, ...]:
        if serving.sid is None:
            return tuple(self._waiting)
        return (serving.sid,) if serving.sid in self._waiting else ()

    def _unheard(self, asked: Asked) -> None:
        self._take(self._stamped(AskingUnheard(asked.sid, asked.n)))

    def _at_work(self, event: type[EngineBusy | EngineFree], working: Working) -> None:
        self._take(self._stamped(event(working.sid, working.engine)))

    def _answered(self, answer: Answered) -> None:
        if answer.sid in self._states:
            self._take(self._stamped(AnswerHeard(answer.sid, answer)))
        else:
            self.me.send(Refused(answer.sid, answer.ask, answer.by, "there is no such conversation"))


def _warn_if_unreadable(event: UsageRead) -> None:
    """A report that says nothing of the prompt is met with an estimate; if it was meant to say something, say so."""
    said = any(value is not None for value in event.usage.values())
    if said and read_usage(event.sid, 0, event.usage) is None:
        log.warning("usage of %s cannot be read, an estimate stands in: %r", event.sid, dict(event.usage))
