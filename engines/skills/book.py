"""The ledgers of all conversations, stepped by whoever has news, on whichever thread.

A host's threads step a ledger to answer at once, the dataspace's thread when something is told there.  A lock makes that
one sequence, and every step is kept in `shown` until the dataspace's thread has made its facts stand, in order.  Nothing
here waits, and nothing here knows an event loop.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from attrs import evolve, frozen

from ..facts import SkillLoaded
from .events import Event
from .ledger import Ledger
from .passing import Passed
from .policy import SkillPolicy
from .reading import brings_skills
from .step import Stepped, step

__all__ = ["Book", "Shown"]


@frozen
class Shown:
    """A ledger whose facts are to stand (None: the conversation is over), and the messages to send with it."""

    sid: str
    ledger: Ledger | None
    said: tuple[SkillLoaded, ...] = ()


class Book:
    """All ledgers; `policy` is the one for conversations that have none of their own.

    `post` is called, on the thread that stepped, when there is something to show and nobody has been asked to come yet.
    """

    def __init__(self, policy: SkillPolicy | None = None) -> None:
        self.policy = policy or SkillPolicy()
        self.post: Callable[[], object] | None = None
        self._lock = threading.Lock()
        self._ledgers: dict[str, Ledger] = {}
        self._policies: dict[str, SkillPolicy] = {}
        self._hosts: set[str] = set()
        self._passed: dict[str, Passed] = {}  # of ledgers that are at rest
        self._shown: deque[Shown] = deque()
        self._posted = False

    def open(self, sid: str, policy: SkillPolicy | None = None, *, hosted: bool = False) -> None:
        """Begin a ledger if there is none; `hosted`: a host tells of loads, requests and turns."""
        with self._lock:
            if sid not in self._ledgers:
                self._ledgers[sid] = Ledger(sid, turns=hosted)
            if hosted:
                self._hosts.add(sid)
            if policy is not None:
                self._policies[sid] = policy

    def policy_of(self, sid: str) -> SkillPolicy:
        """The policy for a conversation."""
        return self._policies.get(sid, self.policy)

    def hosted(self, sid: str) -> bool:
        """Whether a host steps this ledger on its own threads."""
        return sid in self._hosts

    def ledger(self, sid: str) -> Ledger | None:
        """What is known of a conversation's skills; of a task that has to do with none, perhaps not yet."""
        return self._ledgers.get(sid)

    def curious(self, sid: str) -> bool:
        """Whether the next request of a conversation should be looked at."""
        ledger = None if sid in self._passed else self._ledgers.get(sid)
        return ledger is not None and ledger.curious

    def step(self, sid: str, event: Event) -> Stepped:
        """Have something happen; a conversation that is not known, or over, has no skills and says nothing."""
        with self._lock:
            ledger = self._ledgers.get(sid)
            if ledger is None:
                return Stepped(Ledger(sid))
            passed = self._passed.pop(sid, None)
            policy, now = self.policy_of(sid), ledger
            for earlier in () if passed is None else passed.events():
                now = step(now, earlier, policy).ledger
            stepped = step(now, event, policy)
            self._ledgers[sid] = stepped.ledger
            if stepped.ledger.at_rest:
                self._passed[sid] = Passed()
            changed = stepped.said or evolve(stepped.ledger, events=ledger.events) != ledger
            if changed:
                self._shown.append(Shown(sid, stepped.ledger, stepped.said))
        if changed:
            self._ask()
        return stepped

    def passes(self, sid: str, task: str, text: str) -> bool:
        """Whether a request has as little to do with skills as what is `at_rest`; it counts as if it had been stepped."""
        with self._lock:
            passed = self._passed.get(sid)
            if passed is None or brings_skills(text):
                return False
            passed.request, passed.working = (task, text), None
        return True

    def at_rest(self, sid: str, *, working: bool) -> bool:
        """Whether no skill is known and none is waited for: a tool (`working`) or the end of a request is no news then.

        It counts as if it had been stepped, and costs next to nothing.
        """
        with self._lock:
            passed = self._passed.get(sid)
            if passed is not None:
                passed.working = working
        return passed is not None

    def rule(self, sid: str, policy: SkillPolicy) -> None:
        """Another policy for a conversation from now on."""
        with self._lock:
            if sid in self._ledgers:
                self._policies[sid] = policy

    def close(self, sid: str) -> None:
        """The conversation is over; its facts go."""
        with self._lock:
            if self._ledgers.pop(sid, None) is None:
                return
            self._policies.pop(sid, None)
            self._passed.pop(sid, None)
            self._hosts.discard(sid)
            self._shown.append(Shown(sid, None))
        self._ask()

    def take(self) -> tuple[Shown, ...]:
        """What is to be shown by now, in order."""
        with self._lock:
            self._posted = False
            taken = tuple(self._shown)
            self._shown.clear()
        return taken

    def all(self) -> tuple[Ledger, ...]:
        """Every ledger, for somebody who begins to show them."""
        with self._lock:
            return tuple(self._ledgers.values())

    def _ask(self) -> None:
        post = self.post
        if post is None:
            return
        with self._lock:
            if self._posted or not self._shown:
                return
            self._posted = True
        post()
