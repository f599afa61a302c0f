"""What is wrong with a message list, sorted by how bad it is.

*Errors* no provider or host survives; *faults* some do.  With `before`, the list an answer was made from, the answer is
also held against it, and a fault between two rows that stood side by side there is not charged to the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal

from attrs import frozen

from ..messages import Messages, NotJSONError, Row
from .groups import open_calls, torn
from .marks import current_user, merged_summary
from .rows import ROLES, SYSTEM_ROLES, call_id, call_ids, role_of
from .tokens import at_most, estimate_tokens

__all__ = ["Changed", "Code", "Problem", "Report", "check", "check_against", "collides", "neighbours", "system_rows"]

Code = Literal[
    "not_json", "empty", "unknown_role", "orphan_result", "missing_result", "no_user",
    "alternation", "first_role", "system_changed", "current_user_changed", "open_call_cut", "not_smaller",
]  # fmt: skip
Pair = tuple[Any, Any]


@frozen
class Problem:
    """One thing that is wrong: a stable code, the row (None: the list as a whole) and a sentence for people."""

    code: Code
    row: int | None
    text: str

    def __str__(self) -> str:
        return self.text if self.row is None else f"row {self.row}: {self.text}"


@frozen
class Report:
    """What `check` found; `ok` when it found nothing."""

    errors: tuple[Problem, ...] = ()
    faults: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there are neither errors nor faults."""
        return not self.errors and not self.faults

    def __str__(self) -> str:
        return "; ".join(map(str, self.errors + self.faults)) or "no problem"


@frozen
class Changed:
    """The rows of a list that are not the very ones of another, and those of the other that are not in it."""

    put: tuple[Row, ...]
    gone: tuple[Row, ...]

    @classmethod
    def between(cls, rows: Messages, before: Messages) -> Changed:
        """Compare by identity alone: an equal row that is another object counts as changed."""
        known, kept = set(map(id, before)), set(map(id, rows))
        put = tuple([row for row in rows if id(row) not in known])
        return cls(put, tuple([row for row in before if id(row) not in kept]))


def check(messages: Iterable[Any], before: Iterable[Any] | None = None) -> Report:
    """Look for everything that is wrong with `messages`, by itself and as an answer to `before`."""
    try:
        rows = Messages.of(messages)
    except NotJSONError as error:
        return Report((Problem("not_json", error.row, f"not plain JSON: {error}"),))
    if before is None:
        request = current_user(rows)
        return Report(tuple(_errors(rows, request, None)), tuple(_alternation(rows, Messages())))
    origin = Messages.of(before)
    return check_against(rows, origin, Changed.between(rows, origin))


def check_against(rows: Messages, before: Messages, changed: Changed) -> Report:
    """The same for two lists and what has changed between them."""
    request = current_user(rows)
    was = _where_it_was(rows, before, request)
    return Report(tuple(_errors(rows, request, was)), tuple(_faults(rows, before, changed, request, was)))


def _where_it_was(rows: Messages, before: Messages, request: int | None) -> int | None:
    """The current user message of `before`; nearly always the very row, as far from the end as in `rows`."""
    if request is not None:
        at = request + len(before) - len(rows)
        spoken = at > system_rows(before)  # the first message may be a summary, and takes a closer look
        if spoken and before[at] is rows[request] and not any(row.get("role") == "user" for row in before[at + 1 :]):
            return at
    return current_user(before)


def system_rows(messages: Sequence[Row]) -> int:
    """Count the system messages a list begins with."""
    return next((at for at, row in enumerate(messages) if role_of(row) not in SYSTEM_ROLES), len(messages))


def neighbours(before: Sequence[Row]) -> frozenset[Pair]:
    """Return the pairs of rows that stood side by side, system messages apart."""
    rows = [_identity(row) for row in before if role_of(row) not in SYSTEM_ROLES]
    return frozenset(pairwise(rows))


def collides(one: Row, other: Row, known: frozenset[Pair] = frozenset()) -> bool:
    """Whether two rows in a row break the alternation of roles, and not because they already stood so."""
    role = one.get("role")
    if role != other.get("role") or role not in {"user", "assistant"}:
        return False
    return not known or (_identity(one), _identity(other)) not in known


def _identity(row: Row) -> Any:
    """What makes a row the same one after its content was shortened: its calls, or else what it says."""
    return (row.get("role"), call_ids(row) or row.get("content"))


def _errors(rows: Messages, request: int | None, was: int | None) -> Iterator[Problem]:
    if not rows:
        yield Problem("empty", None, "the list is empty")
    roles = [row.get("role") for row in rows]
    if not ROLES.issuperset(roles):  # whatever a frozen row holds can be looked up
        for at, role in enumerate(roles):
            if role not in ROLES:
                yield Problem("unknown_role", at, f"no provider knows the role {role!r}")
    for at, calls in torn(rows):
        if calls:
            yield Problem("missing_result", at, f"no result follows for the call {', '.join(map(repr, calls))}")
        else:
            yield Problem("orphan_result", at, f"the result {call_id(rows[at])!r} has no call before it")
    if was is not None and request is None:
        yield Problem("no_user", None, "no message of the user is left")


def _faults(
    rows: Messages, before: Messages, changed: Changed, request: int | None, was: int | None
) -> Iterator[Problem]:
    yield from _alternation(rows, before)
    if rows[: system_rows(rows)] != before[: system_rows(before)]:
        yield Problem("system_changed", 0, "the system message is not what it was")
    if request is not None and was is not None and rows[request] is not before[was]:
        yield from _current_user(rows, before, request, was)
    yield from _open_calls(rows, before)
    if not _smaller(rows, before, changed):
        size, limit = estimate_tokens(rows), estimate_tokens(before)
        yield Problem("not_smaller", None, f"about {size:,} tokens, no less than the {limit:,} before")


def _smaller(rows: Messages, before: Messages, changed: Changed) -> bool:
    """Whether `rows` take fewer tokens; rows that are in both need not be estimated for that."""
    if len(rows) - len(changed.put) != len(before) - len(changed.gone):  # a row stands in one of them twice
        return estimate_tokens(rows) < estimate_tokens(before)
    put = sum([at_most(row) for row in changed.put])
    least = sum([len(text) for row in changed.gone if type(text := row.get("content")) is str]) // 4
    return put < least or estimate_tokens(changed.put) < estimate_tokens(changed.gone)


def _alternation(rows: Messages, before: Messages) -> Iterator[Problem]:
    roles = [row.get("role") for row in rows]
    spoken = [at for at, role in enumerate(roles) if role not in SYSTEM_ROLES]
    if spoken and roles[spoken[0]] != "user":
        first = next((role_of(row) for row in before if role_of(row) not in SYSTEM_ROLES), "user")
        if first == "user":
            at = spoken[0]
            yield Problem("first_role", at, f"the conversation begins with a message of role {role_of(rows[at])!r}")
    twice = [(last, at) for last, at in pairwise(spoken) if roles[last] == roles[at] and collides(rows[last], rows[at])]
    if twice:
        known = neighbours(before)
        for last, at in twice:
            if collides(rows[last], rows[at], known):
                yield Problem("alternation", at, f"a second {role_of(rows[at])} message in a row")


def _current_user(rows: Messages, before: Messages, now: int, was: int) -> Iterator[Problem]:
    if rows[now] not in _as_asked(before, was):
        yield Problem("current_user_changed", now, "the current user message is changed, or no longer a row of its own")


def _as_asked(before: Messages, was: int) -> tuple[Row, ...]:
    """What may stand for the current user message: itself, or itself without the summary that a host merged into it."""
    merged = merged_summary(before)
    if merged is None or merged.at != was or merged.rest is None:
        return (before[was],)
    return before[was], *Messages.of([merged.rest])


def _open_calls(rows: Messages, before: Messages) -> Iterator[Problem]:
    pending = open_calls(before)
    if pending and open_calls(rows) != pending:
        named = ", ".join(map(repr, pending))
        yield Problem("open_call_cut", None, f"the call {named} still waits for its result and is cut off")
