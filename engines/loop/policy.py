"""What the loop is told once: limits, order of engines, and the functions that judge and measure.

Everything here is a number or a function handed in, so that the state machine itself knows neither the clock nor how
a transcript is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import Attribute, field, frozen, validators

from engines.facts import Role
from engines.messages import Messages
from engines.transcript import check, estimate_tokens, is_bridge, is_foreign_summary, is_real_user, is_summary

__all__ = ["Accept", "Engines", "Policy", "Verdict", "kind_of", "strict", "take_anything"]


@frozen
class Verdict:
    """What is to be made of an answer: the messages to go on with, or None and the reason why not."""

    messages: Messages | None
    reason: str = ""


Accept = Callable[[Messages, Messages], Verdict]
"""Judges an answer (first) to a message list (second); it may mend the answer."""


def strict(answer: Messages, before: Messages) -> Verdict:
    """Refuse every answer with an error or a fault that its input did not have."""
    report = check(answer, before)
    found = (*report.errors, *report.faults)
    if not found:
        return Verdict(answer)
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return Verdict(None, "; ".join(map(str, found[:3])) + more)


def take_anything(answer: Messages, _before: Messages) -> Verdict:
    """Take every answer as it is."""
    return Verdict(answer)


def compactable(row: Mapping[str, Any]) -> bool:
    """Whether a message is one that a compaction could make smaller: what somebody said or a tool returned."""
    role = row.get("role")
    if role == "user":
        return is_real_user(row)
    if role not in {"assistant", "tool"} or is_summary(row) or is_bridge(row) or is_foreign_summary(row):
        return False
    return bool(row.get("content") or row.get("tool_calls"))


@frozen
class Engines:
    """Who serves one conversation now, by name, in the order in which they are asked."""

    compressors: tuple[str, ...] = ()
    revisers: tuple[str, ...] = ()
    shadows: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(factory=dict[str, float])
    """How long an answer takes those who say so."""

    def of(self, role: Role) -> tuple[str, ...]:
        """The engines that have `role`."""
        found: tuple[str, ...] = getattr(self, f"{role}s", ())
        return found


def _names(_policy: Policy, attribute: Attribute[Any], value: Any) -> None:
    if isinstance(value, str) or not all(isinstance(name, str) for name in value):
        raise TypeError(f"{attribute.name} takes a tuple of kinds, not {value!r}")


def _above_zero(_policy: Policy, attribute: Attribute[Any], value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ValueError(f"{attribute.name} takes seconds above 0, not {value!r}")


def _all_above_zero(policy: Policy, attribute: Attribute[Any], value: Any) -> None:
    for each in value.values():
        _above_zero(policy, attribute, each)


def _from_one(_policy: Policy, attribute: Attribute[Any], value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{attribute.name} takes a whole number from 1 on, not {value!r}")


@frozen
class Policy:
    """How the loop decides.  Times are seconds, `low_mark` is a share of the threshold.

    A time that is not above 0 raises `ValueError`: nobody could answer within it.

    `owned` says that the loop keeps the context itself: it can be replaced at any time, and an offer is committed at
    once.  `asks` off: nobody is asked, whoever sees the question may answer it.
    """

    owned: bool = True
    asks: bool = True
    guards: bool = True
    low_mark: float = field(default=0.8, validator=[validators.ge(0.0), validators.le(1.0)])
    compressors: tuple[str, ...] = field(default=(), validator=_names)
    revisers: tuple[str, ...] = field(default=("skills",), validator=_names)
    deadlines: Mapping[str, float] = field(factory=dict[str, float], validator=_all_above_zero)
    deadline: float = field(default=300.0, validator=_above_zero)
    reviser_deadline: float = field(default=2.0, validator=_above_zero)
    retry_first: float = field(default=30.0, validator=_above_zero)
    retry_last: float = field(default=900.0, validator=_above_zero)
    futile_most: int = field(default=2, validator=_from_one)
    often_most: int = field(default=6, validator=_from_one)
    often_within: float = field(default=600.0, validator=_above_zero)
    accept: Accept = strict
    estimate: Callable[[Messages], int] = estimate_tokens
    compactable: Callable[[Mapping[str, Any]], bool] = compactable

    def patience(self, engine: str, role: Role, stated: float | None = None) -> float:
        """How long `engine` may take: what is told for its kind, else what it says itself, else the default."""
        if role == "reviser":
            return self.reviser_deadline
        return self.deadlines.get(kind_of(engine), self.deadline if stated is None else stated)

    def pause(self, failures: int) -> float:
        """How long to wait after so many failures in a row."""
        return min(self.retry_first * 2.0 ** min(failures - 1, 30), self.retry_last)


def kind_of(engine: str) -> str:
    """The kind of an engine: its actor's name up to the first `#`."""
    return engine.partition("#")[0]
