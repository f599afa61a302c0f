"""What is under way in a conversation: states to be shown, and a thread of the host that waits for a decision."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from engines.loop import Conversation
from engines.messages import Messages

__all__ = ["Deed", "Outcome", "Shown", "Waiter"]


@frozen
class Outcome:
    """How a compress call ended: the messages that are offered and by whom, or why there are none.

    `tried` names the engines that were asked; `declined` says that all of them found nothing to do.
    """

    messages: Messages | None = None
    by: str = ""
    reason: str = ""
    declined: bool = False
    superseded: bool = False


class Waiter:
    """A thread of the host that waits for a decision."""

    def __init__(self) -> None:
        self.outcome: Outcome | None = None
        self.opened = False
        self._decided = threading.Event()

    def decide(self, outcome: Outcome) -> None:
        """The first decision counts."""
        if self.outcome is None:
            self.outcome = outcome
            self._decided.set()

    def wait(self, seconds: float) -> bool:
        """Wait a while; an interrupt of this thread gets through."""
        return self._decided.wait(seconds)


class Deed:
    """What is to be done in the place of a message."""

    def __init__(self, do: Callable[[], object]) -> None:
        self.do = do


class Shown:
    """A state whose facts are to stand, and the messages to send with it: a `partial` makes one when it is sent.

    `late` is a reading that is yet to be stepped, with the time it came.
    """

    __slots__ = ("late", "said", "state")

    def __init__(
        self,
        state: Conversation,
        said: tuple[object, ...] = (),
        late: tuple[Mapping[str, Any], float] | None = None,
    ) -> None:
        self.state = state
        self.said = said
        self.late = late
