"""What happens to a conversation: the inputs of the loop's state machine.

Events are past tense, immutable and name their conversation.  `at` is the time in seconds on the clock of whoever
feeds the loop, or None where nobody knows it; without it nothing is held back, retried or given up for the sake of
time.  Message lists are frozen here; lists of dicts may be given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import Context
from typing import Any

from attrs import field, frozen
from attrs.validators import instance_of

from engines.context import AskerContext
from engines.facts import Answered, Reason, Role
from engines.messages import Messages

__all__ = [
    "EMPTY",
    "AnswerHeard",
    "AnswerVolunteered",
    "AskingUnheard",
    "BudgetChanged",
    "CompactionRequested",
    "ContextOpened",
    "ContextReleased",
    "EngineBegan",
    "EngineBusy",
    "EngineCeased",
    "EngineFree",
    "Event",
    "MessagesAppended",
    "OfferCommitted",
    "PressureGiven",
    "SessionDescribed",
    "SessionEnded",
    "SessionReset",
    "SessionRotated",
    "SessionStarted",
    "TimePassed",
    "TranscriptReplaced",
    "UsageRead",
]

EMPTY = Messages.of(())
"""The message list with nothing in it."""


def _frozen(rows: Iterable[Any]) -> Messages:
    return Messages.of(rows)


def _wrapped(variables: Context | AskerContext | None) -> AskerContext | None:
    return AskerContext.of(variables)


def _check_mapping(_event: Any, _attribute: Any, usage: Any) -> None:
    if not isinstance(usage, Mapping):
        raise TypeError(f"usage must be a mapping of counts, not {usage!r}")


def _check_budget(event: Any, _attribute: Any, threshold: Any) -> None:
    """Both are tokens; a threshold above what the model holds would never be crossed."""
    length = event.context_length
    for name, value in (("threshold", threshold), ("context_length", length)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be a whole number of tokens, not {value!r}")
    if threshold < 1:
        raise ValueError(f"threshold must be at least 1 token, not {threshold}")
    if length < 0 or 0 < length < threshold:
        raise ValueError(
            f"a threshold of {threshold} tokens is above the context length of {length}; choose one that fits in it"
        )


@frozen
class Event:
    """Something that happened to the conversation `sid`."""

    sid: str
    at: float | None = field(default=None, kw_only=True)


# -- the session ------------------------------------------------------------------------------------------------------


@frozen
class SessionStarted(Event):
    """A conversation begins, or begins anew.  `context_length` 0: not known."""

    context_length: int = field(default=0, kw_only=True)
    threshold: int = field(kw_only=True, validator=_check_budget)
    messages: Messages = field(default=EMPTY, kw_only=True, converter=_frozen)
    profile: str = field(default="", kw_only=True)
    model: str = field(default="", kw_only=True)
    provider: str = field(default="", kw_only=True)
    platform: str = field(default="", kw_only=True)
    parent: str | None = field(default=None, kw_only=True)
    host_session: str | None = field(default=None, kw_only=True)
    home: str | None = field(default=None, kw_only=True)


@frozen
class SessionDescribed(Event):
    """More is known of the conversation, or something about it is another now; None: as it was."""

    provider: str | None = field(default=None, kw_only=True)
    parent: str | None = field(default=None, kw_only=True)


@frozen
class SessionRotated(Event):
    """The same conversation goes on under another id of the host."""

    host_session: str


@frozen
class SessionReset(Event):
    """The user began anew in the same conversation: its messages and its history of compactions are gone."""

    messages: Messages = field(default=EMPTY, converter=_frozen)


@frozen
class SessionEnded(Event):
    """The conversation is over; `reason` says why, where somebody knows: `session_reset`, `session_end`."""

    reason: str = ""


@frozen
class BudgetChanged(Event):
    """Another model, or other limits for the same one."""

    context_length: int = field(default=0, kw_only=True)
    threshold: int = field(kw_only=True, validator=_check_budget)
    model: str | None = field(default=None, kw_only=True)


# -- what the provider and the host say -------------------------------------------------------------------------------


@frozen
class UsageRead(Event):
    """A response came, with the usage its provider reported: any mapping, perhaps empty.

    A count that is no number, or one that nobody can have counted, is taken as missing: providers report all sorts of things,
    and no response is lost for that.  `estimate` is what stands in where the provider says nothing about the prompt.
    """

    usage: Mapping[str, Any] = field(factory=dict, validator=_check_mapping)
    estimate: int | None = None


@frozen
class PressureGiven(Event):
    """Somebody who need not have asked the provider says what the next prompt will hold."""

    tokens: int = field(validator=instance_of(int))


@frozen
class MessagesAppended(Event):
    """Messages were added at the end."""

    messages: Messages = field(converter=_frozen)


@frozen
class TranscriptReplaced(Event):
    """The message list is another one now."""

    messages: Messages = field(converter=_frozen)


# -- compaction -------------------------------------------------------------------------------------------------------


@frozen
class CompactionRequested(Event):
    """Somebody wants a compaction.  `manual` and `overflow` always try; `ahead` minds the guards."""

    reason: Reason = "manual"
    focus: str | None = None
    tokens: int | None = None


@frozen
class ContextOpened(Event):
    """The host waits in its compress call with these messages: the context can be replaced now.

    `context` are the context variables in which engines are to work for it.
    """

    messages: Messages = field(converter=_frozen)
    reason: Reason = "threshold"
    focus: str | None = None
    tokens: int | None = None
    context: AskerContext | None = field(default=None, converter=_wrapped)


@frozen
class ContextReleased(Event):
    """That call, or the turn around it, is over; an offer that was not committed is dropped."""


@frozen
class OfferCommitted(Event):
    """The owner of the context has taken the offer over."""


# -- engines ----------------------------------------------------------------------------------------------------------


@frozen
class AnswerHeard(Event):
    """An engine that was asked has answered."""

    answer: Answered


@frozen
class AnswerVolunteered(Event):
    """Somebody nobody asked answers the question that stands."""

    by: str
    messages: Messages = field(converter=_frozen)


@frozen
class EngineBegan(Event):
    """An engine began to serve this conversation."""

    engine: str
    role: Role = "compressor"


@frozen
class EngineCeased(Event):
    """An engine no longer serves this conversation."""

    engine: str
    role: Role = "compressor"


@frozen
class AskingUnheard(Event):
    """The engine that was asked does not observe what it is asked."""

    n: int


@frozen
class EngineBusy(Event):
    """A call that an engine makes for this conversation runs, and might outlive the question."""

    engine: str


@frozen
class EngineFree(Event):
    """That call has returned."""

    engine: str


@frozen
class TimePassed(Event):
    """It is `at` now: deadlines, pauses and retries are looked at."""
