"""A turn as plain data."""

from __future__ import annotations

from typing import Any

from attrs import frozen

__all__ = ["Action", "Told", "Turn"]


@frozen
class Action:
    """One thing a turn did.

    `what` is the fact, message or pattern; `handle` is the number under which it was begun, for what can be let go of.
    A crash tells its fact, after the retractions that come with it.
    """

    name: str
    what: Any = None
    handle: int | None = None


@frozen
class Told:
    """Actors `to` were to hear of `args`: a fact, or what was captured of it; `kind` is appeared, vanished or heard."""

    kind: str
    to: tuple[str, ...]
    args: tuple[Any, ...]


@frozen
class Turn:
    """One turn of `actor`.  `cause` is the turn that made it happen, None for what came from outside."""

    n: int
    cause: int | None
    actor: str
    actions: tuple[Action, ...]
    told: tuple[Told, ...]
    at: float | None = None
