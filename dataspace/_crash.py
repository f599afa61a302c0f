"""Crashes: the fact, and the words in which they are told."""

from __future__ import annotations

import sys
from typing import Any

from attrs import frozen

from ._actions import Cause

__all__ = ["Crashed", "caused", "chain", "print_crash", "reason_of"]

REASON_LENGTH = 1000
"""Characters of an error's text that a `Crashed` fact keeps; the whole error goes to `on_crash`."""


@frozen
class Crashed:
    """Actor `actor` crashed; `n` counts the crashes of this dataspace, the newest 100 stand."""

    actor: str
    reason: str
    n: int


def print_crash(crash: Crashed, error: BaseException) -> None:
    """Show a crash on stderr: what a dataspace without a runtime does, so that no error goes unseen."""
    sys.excepthook(type(error), error, error.__traceback__)


def caused(by: Any, kind: str, before: Cause | None) -> Cause:
    return Cause(1 if before is None else before.depth + 1, by, kind, before)


def reason_of(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - whatever the error of an actor does when shown, its crash is told
        text = "(an error that cannot be shown)"
    if len(text) > REASON_LENGTH:
        text = text[: REASON_LENGTH - 1] + "…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def chain(cause: Cause | None, links: int = 6) -> str:
    shown: list[str] = []
    while cause is not None and cause.by is not None and len(shown) < links:
        shown.append(f"{cause.by.facet.actor.name} {cause.kind} {cause.by!r}")
        cause = cause.before
    return " <- ".join(shown) + (" <- ..." if cause is not None and cause.by is not None else "")
