"""The vocabulary on the wire: its facts, and those of the dataspace itself, as JSON and back."""

from __future__ import annotations

from dataspace import Crashed, Observe
from dataspace.wire import Value, Wire

from .facts import FACTS
from .messages import Messages

__all__ = ["vocabulary_wire"]


def vocabulary_wire() -> Wire:
    """A `Wire` for all of `engines.facts.FACTS`, `Crashed` and `Observe`; message lists are written as `{"messages": [...]}`.

    A trace has each message once.
    """
    messages = Value(
        "messages", Messages, lambda value: value.thaw(), Messages.of, part=lambda row: Messages.of([row])[0]
    )
    return Wire([*FACTS.values(), Crashed, Observe], values=[messages])
