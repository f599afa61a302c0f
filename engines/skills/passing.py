"""What passes a ledger by that knows no skill and waits for none: most turns have nothing to do with skills.

What a request, a tool or the end of a request changes in such a ledger is overwritten by the next one, so the latest of
them are kept, not stepped.  They are stepped, in their order, before anything that matters; the ledger is then the same
as if each had been stepped as it came, but for how many there were.
"""

from __future__ import annotations

from .events import Event, RequestBegan, RequestEnded, ToolDone

__all__ = ["Passed"]


class Passed:
    """The latest request that passed by (task, text), and whether the model was at work on it after that.

    None: nobody has said.
    """

    __slots__ = ("request", "working")

    def __init__(self) -> None:
        self.request: tuple[str, str] | None = None
        self.working: bool | None = None

    def events(self) -> tuple[Event, ...]:
        """What is to be stepped, in order."""
        began: tuple[Event, ...] = () if self.request is None else (RequestBegan(*self.request),)
        if self.working is None:
            return began
        return (*began, ToolDone("") if self.working else RequestEnded())
