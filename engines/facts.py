"""The vocabulary: what run loop, engines and host tell each other.

One vocabulary is one module, long as it is: it is read as a table, from top to bottom.

Every fact is a frozen attrs class.  Names are states when published (`ShouldCompress` *stands*) and happenings when
sent (`TurnStarted` is *heard*).  Identity comes first; fields made with `reading()` say more about a fact without
making it another one: two facts that differ only there are equal.

Units: `tokens`, `threshold` and their kin are tokens; `seconds` is a duration; `at`, `until` and `retry_at` are seconds
on the clock of whoever feeds the loop.  `sid` names a conversation, `ask` numbers its questions and `n` each asking of
an engine; both count from 1 and are never reused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

__all__ = [
    "FACTS",
    "MESSAGES",
    "Answered",
    "Asked",
    "Blocked",
    "Budget",
    "CompactionFailed",
    "Compressed",
    "Delegated",
    "GaveUp",
    "LoopInvalid",
    "Noted",
    "Refused",
    "Serving",
    "Session",
    "ShouldCompress",
    "SkillAvailable",
    "SkillLoaded",
    "SkillPruned",
    "SkillRequired",
    "SkillTooLarge",
    "SnapshotFailed",
    "SnapshotFound",
    "SnapshotSaved",
    "ToolCalled",
    "Transcript",
    "TurnEnded",
    "TurnStarted",
    "Usage",
    "Working",
]

Role = Literal["compressor", "reviser", "shadow", "observer"]
Reason = Literal["threshold", "overflow", "manual", "ahead"]


def reading(default: Any = None) -> Any:
    """A field that tells more about a fact and takes no part in its identity."""
    return field(default=default, eq=False, kw_only=True)


# -- what the loop publishes ------------------------------------------------------------------------------------------


@frozen
class Session:
    """A conversation is known: `active`, or `ended` and not yet forgotten."""

    sid: str
    state: Literal["active", "ended"] = "active"
    profile: str = reading("")
    model: str = reading("")
    provider: str = reading("")
    platform: str = reading("")
    parent: str | None = reading()  # the conversation that delegated to this one
    host_session: str | None = reading()
    home: str | None = reading()  # the directory where the host keeps what belongs to this profile
    ended: str = reading("")  # why: `session_reset`, `session_end`; empty: it has not, or nobody said


@frozen
class Budget:
    """How much the model can hold (0: not known), and from which prompt size on a compaction is wanted."""

    sid: str
    context_length: int
    threshold: int


@frozen
class Usage:
    """The latest reading; `prompt` is all that the prompt held, cached or not."""

    sid: str
    seq: int
    prompt: int | None = reading()
    completion: int | None = reading()
    total: int | None = reading()
    cache_read: int | None = reading()
    cache_write: int | None = reading()
    reasoning: int | None = reading()
    side_prompt: int | None = reading()  # read by the provider's own steps beside the answer, such as a compaction
    side_completion: int | None = reading()
    estimated: bool = reading(False)
    response_id: str | None = reading()


@frozen
class Transcript:
    """The latest known message list; `messages` is an `engines.messages.Messages`."""

    sid: str
    rev: int
    messages: Any = reading()


@frozen
class ShouldCompress:
    """A compaction is wanted; stands until question `ask` is decided."""

    sid: str
    ask: int
    reason: Reason = reading("threshold")
    tokens: int = reading(0)
    threshold: int = reading(0)
    focus: str | None = reading()


@frozen
class Asked:
    """Engine `to` is to work on question `ask` now.  Gone: stop working."""

    sid: str
    ask: int
    n: int
    to: str
    role: Role = "compressor"
    messages: Any = reading()
    threshold: int = reading(0)
    tokens: int = reading(0)
    focus: str | None = reading()
    seconds: float | None = reading()  # how long it may take; None: as long as the question stands
    # The asker's context variables.  They may hold credentials, so they are never shown, written or sent.
    context: Any = field(default=None, eq=False, kw_only=True, repr=False, metadata={"wire": False})


@frozen
class Compressed:
    """The latest compaction that the owner of the context has taken over."""

    sid: str
    ask: int
    by: str
    messages: Any = reading()
    tokens_before: int = reading(0)
    tokens_after: int = reading(0)
    seconds: float = reading(0.0)


@frozen
class CompactionFailed:
    """No engine could do it; the context is untouched.  `retry_at` None: not before something changes."""

    sid: str
    ask: int
    reason: str = reading("")
    retry_at: float | None = reading()


@frozen
class Blocked:
    """Automatic compaction is held back; `reason` is meant for people.  `until` None: until something changes."""

    sid: str
    reason: str
    until: float | None = reading()


@frozen
class Refused:
    """(message) An answer was invalid, late or not asked for."""

    sid: str
    ask: int
    by: str
    reason: str


# -- what engines publish and send ------------------------------------------------------------------------------------


@frozen
class Serving:
    """Engine `engine` (an actor's name, `kind` or `kind#n`) is up; `sid` None: for every conversation.

    `seconds` is how long it may need for an answer, as far as it knows.
    """

    engine: str
    role: Role
    sid: str | None = None
    seconds: float | None = reading()


@frozen
class Working:
    """A call of `engine` for conversation `sid` runs, and may outlive the question it was made for.

    While it stands the engine is not asked about that conversation again.
    """

    engine: str
    sid: str


@frozen
class GaveUp:
    """`engine` has crashed too often to be started again; `reason` is that of its last crash.  By its supervisor."""

    engine: str
    crashes: int
    reason: str


@frozen
class Answered:
    """(message) The work on `Asked(sid, ask, n)` is done.  `messages` None: declined, or failed with `error`."""

    sid: str
    ask: int
    n: int
    by: str
    messages: Any = reading()
    error: str | None = None


@frozen
class SkillAvailable:
    """The full body of a skill is in the active context."""

    sid: str
    name: str
    sha256: str
    path: str = ""
    file: str | None = None


@frozen
class SkillPruned:
    """A skill was loaded and is no longer whole in context."""

    sid: str
    name: str
    sha256: str
    path: str = ""
    file: str | None = None


@frozen
class SkillLoaded:
    """(message) A skill was asked for and its load succeeded.

    `outcome`: `loaded` (the body is delivered), `deduplicated` (it is in context, a notice is), `updated` (a changed
    body takes the place of the old one) or `reloaded` (it had been pruned).  `tokens` is the size of the body.
    """

    sid: str
    name: str
    sha256: str
    outcome: Literal["loaded", "deduplicated", "updated", "reloaded"]
    path: str = reading("")
    file: str | None = reading()
    call_id: str = reading("")
    tokens: int = reading(0)


@frozen
class SkillTooLarge:
    """A skill does not fit in what one skill may take; a warning, and no more."""

    sid: str
    name: str
    sha256: str
    tokens: int = reading(0)
    limit: int = reading(0)


@frozen
class SkillRequired:
    """The task at hand needs a skill."""

    sid: str
    task: str
    name: str


@frozen
class LoopInvalid:
    """The reasoning since question `ask` rests on skills that were pruned."""

    sid: str
    ask: int
    skills: tuple[str, ...]


@frozen
class Noted:
    """(message) Somebody says outright what is to be remembered of a conversation: a finding, a decision."""

    sid: str
    text: str
    by: str = ""


@frozen
class SnapshotSaved:
    """What the session knew is on disk."""

    sid: str
    path: str
    reason: str
    at: float


@frozen
class SnapshotFailed:
    """It could not be written; the session goes on."""

    sid: str
    reason: str
    error: str


@frozen
class SnapshotFound:
    """When this conversation began, a snapshot of an earlier one was there.  Nothing of it has been put into the context."""

    sid: str
    path: str
    session: str = reading("")
    reason: str = reading("")
    at: float = reading(0.0)


# -- what the host sends ----------------------------------------------------------------------------------------------


@frozen
class TurnStarted:
    """(message) The host began a turn; `text` is what the user asked."""

    sid: str
    turn: str
    text: str = reading("")


@frozen
class TurnEnded:
    """(message) The host ended a turn, however it went; `text` is what the model answered at last."""

    sid: str
    turn: str
    completed: bool = reading(True)
    interrupted: bool = reading(False)
    text: str = reading("")


@frozen
class Delegated:
    """(message) A conversation handed work to another."""

    sid: str
    child: str
    task: str = reading("")


@frozen
class ToolCalled:
    """(message) A tool has answered; `args` and `result` whole, as text."""

    sid: str
    call_id: str
    tool: str
    args: str = reading("")
    status: str = reading("")
    result: str = reading("")
    seconds: float | None = reading()


MESSAGES: frozenset[type] = frozenset(
    {Refused, Answered, SkillLoaded, Noted, TurnStarted, TurnEnded, Delegated, ToolCalled}
)
"""Classes that are sent, never published."""

_ALL = (
    *(Session, Budget, Usage, Transcript, ShouldCompress, Asked, Compressed, CompactionFailed, Blocked, Refused),
    *(
        Serving,
        Working,
        GaveUp,
        Answered,
        SkillAvailable,
        SkillPruned,
        SkillLoaded,
        SkillTooLarge,
        SkillRequired,
        LoopInvalid,
        Noted,
        SnapshotSaved,
        SnapshotFailed,
        SnapshotFound,
    ),
    *(TurnStarted, TurnEnded, Delegated, ToolCalled),
)

FACTS: Mapping[str, type] = {cls.__name__: cls for cls in _ALL}
"""The whole vocabulary by class name."""
