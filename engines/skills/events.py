"""What may happen to a conversation's skills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

__all__ = [
    "CannotLoad",
    "Compacted",
    "Declared",
    "Event",
    "Loaded",
    "RequestBegan",
    "RequestEnded",
    "Seen",
    "TakenOver",
    "ToolAsked",
    "ToolDone",
]


@frozen
class Event:
    """Something that has happened."""


@frozen
class Loaded(Event):
    """`skill_view` has answered: arguments and result whole, as text.

    The same call may be told by several `source`s; one source tells each call once, for ids come again.
    """

    call_id: str
    arguments: str
    result: str
    source: str = "host"


@frozen
class Seen(Event):
    """The message list as it is; `sent`: it goes to the model now."""

    messages: Sequence[Any]
    sent: bool = False


@frozen
class TakenOver(Event):
    """The host has taken a compaction over; what is in context will be seen with the next request."""


@frozen
class Compacted(Event):
    """Compaction `ask` made this list.  `late`: it is told after the fact, so what was seen since holds."""

    ask: int
    messages: Sequence[Any]
    late: bool = False


@frozen
class RequestBegan(Event):
    """The user asks something new; `first`: nothing was said before it."""

    task: str
    text: str = ""
    first: bool = False


@frozen
class RequestEnded(Event):
    """The model has finished its work on the request."""


@frozen
class Declared(Event):
    """The names of the skills that somebody says the task needs, all of them."""

    names: frozenset[str]


@frozen
class ToolAsked(Event):
    """The model wants a tool."""

    tool: str


@frozen
class ToolDone(Event):
    """A tool has answered; `tell`: a word may be added to what it says."""

    tool: str
    tell: bool = False


@frozen
class CannotLoad(Event):
    """These skills (by label) are not there any more to be loaded."""

    labels: frozenset[str]
