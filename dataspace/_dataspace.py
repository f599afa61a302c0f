"""The dataspace as its users see it; how turns run is in `_turns`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, TypeVar

from attrs import frozen

from ._actions import SPAWN, Call, Op
from ._bodies import entering
from ._crash import Crashed, print_crash
from ._facet import Actor, Facet
from ._index import Index
from ._pattern import Pattern, pattern_of
from ._turns import Turns
from ._values import is_fact_class, no_fact
from .errors import NameTaken, NotAFact, RunawayError, Stopped, TurnError

__all__ = ["Dataspace", "Statistics"]

T = TypeVar("T")


@frozen
class Statistics:
    """What a dataspace holds at one instant."""

    facts: int
    """Facts that stand, interest and crashes among them."""
    observers: int
    actors: int
    backlog: int
    """Unread changes, over all open `changes`."""
    leaves: int
    """Places in the index that hold a fact or an observer; back to what it was when those are gone."""


class Dataspace(Turns):
    """Facts, those who publish them and those who observe them; synchronous and deterministic.

    To be used from the thread that made it.  `on_crash(crashed, error)` is told of every crash, after the fact; by
    default it prints a traceback.  `max_depth` bounds the chain of turns that one outside event may cause, `max_turns`
    their number; past that the actor which goes on crashes with `RunawayError`.
    """

    def __init__(
        self,
        *,
        on_crash: Callable[[Crashed, BaseException], object] = print_crash,
        max_depth: int = 10_000,
        max_turns: int = 1_000_000,
    ) -> None:
        super().__init__(on_crash, max_depth, max_turns)

    # -- what users call ----------------------------------------------------------------------------------------------

    def actor(self, name: str) -> Facet:
        """An actor driven by the calling code; it lives until it is stopped.  Raises `NameTaken`."""
        self._check_thread()
        actor = self._new_actor(name, keep=True)
        self._actors[name] = actor
        return actor.root

    def spawn(self, boot: Callable[..., object], *args: Any, name: str | None = None) -> Facet:
        """Start an actor with `boot(me, *args)` and run all that this causes; returns the actor's `me`.

        The actor lives until it holds nothing or is stopped.  `name` is by default that of the function, numbered if
        taken; raises `NameTaken` for a given one.
        """
        self._check_thread()
        if self._actor is not None:
            raise TurnError(f"it is {self._actor.name}'s turn: within a turn spawn with me.spawn(...)")
        action = self._spawning(boot, args, name)
        self._commit_alone(*action, action[1].facet.actor)
        return action[1].facet

    def facts(self, pattern: Pattern[T] | type[T]) -> tuple[T, ...]:
        """The facts that stand now and match, oldest first."""
        self._check_thread()
        wanted = pattern_of(pattern)
        index = self._indexes.get(wanted.cls)
        return tuple(index.facts(wanted)) if index is not None else ()

    def statistics(self) -> Statistics:
        """What the dataspace holds now."""
        self._check_thread()
        return Statistics(
            facts=sum(len(index.standing) for index in self._indexes.values()),
            observers=self._observers,
            actors=len(self._actors),
            backlog=self._runtime.backlog() if self._runtime is not None else 0,
            leaves=sum(index.leaves() for index in self._indexes.values()),
        )

    # -- facts, observers, actors -------------------------------------------------------------------------------------

    def _index(self, fact: Any) -> Index:
        """The index for the class of `fact`; what is no fact has none."""
        if not is_fact_class(type(fact)):
            raise NotAFact(f"{fact!r} cannot be published or sent: {no_fact(fact)}")
        return self._index_of(type(fact))

    def _new_actor(self, name: str, *, keep: bool) -> Actor:
        if not (isinstance(name, str) and name):
            raise NameTaken(f"an actor's name is a text that is not empty, not {name!r}")
        if self._closing:
            raise Stopped("the dataspace is closing")
        if name in self._actors:
            raise NameTaken(f"there is a live actor {name!r} already; give another name, or stop it first")
        if self._draining and self._left < 0:
            # Only a crash hook gets here; one that restarts what crashes would go on for ever.
            raise RunawayError(
                f"no actor {name!r} any more: one outside event caused more than {self._max_turns} turns"
            )
        return Actor(self, name, keep)

    def _spawning(self, boot: Callable[..., object], args: tuple[Any, ...], name: str | None) -> tuple[Op, Call]:
        """Reserve the name and make the action that will boot the actor."""
        if name is None:
            name = next(self._free_names(getattr(boot, "__name__", "actor")))
        actor = self._new_actor(name, keep=False)
        enter = entering(actor.root, boot, "an async boot function", ends_facet=True)
        self._actors[name] = actor
        # The call that boots counts as pending until it runs, or the actor would be idle before it began.
        actor.root.pending += 1

        def run() -> None:
            actor.root.pending -= 1
            enter(boot, actor.root, args)

        return SPAWN, Call(actor.root, run, begins=True)

    def _free_names(self, name: str) -> Iterator[str]:
        for n in count(1):
            numbered = name if n == 1 else f"{name}#{n}"
            if numbered not in self._actors:
                yield numbered
