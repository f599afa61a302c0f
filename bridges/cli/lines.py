"""The display for pipes, files and terminals that can do nothing else: one plain line for each moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TextIO

from .moments import Moment, plain
from .replay import Settings
from .session import Session
from .story import Story
from .terminal import clean

__all__ = ["Display", "Lines", "Silence"]


class Display(Protocol):
    """What a replay is shown on.  It is told, and decides nothing."""

    def begin(self, story: Story, session: Session, settings: Settings) -> None:
        """The replay is about to start."""

    def show(self, moments: tuple[Moment, ...]) -> None:
        """Something has changed in the story; `moments` are worth telling.  Takes no time."""

    def refresh(self) -> None:
        """Called again and again while the replay runs, to draw what has changed."""

    def end(self, result: Mapping[str, Any], closing: Sequence[str]) -> None:
        """It is over: the result, and sentences to close with."""

    def close(self) -> None:
        """Leave the terminal in order, however it ended; may be called twice."""


class Silence:
    """No display."""

    def begin(self, story: Story, session: Session, settings: Settings) -> None:
        """Nothing is shown."""

    def show(self, moments: tuple[Moment, ...]) -> None:
        """Nothing is shown."""

    def refresh(self) -> None:
        """Nothing is shown."""

    def end(self, result: Mapping[str, Any], closing: Sequence[str]) -> None:
        """Nothing is shown."""

    def close(self) -> None:
        """Nothing is to be put in order."""


class Lines:
    """Plain lines on a stream; when nobody reads them any more, the rest is not written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._open = True

    def begin(self, story: Story, session: Session, settings: Settings) -> None:
        """One line with what is going to be replayed."""
        told = {
            "session": session.name,
            "messages": len(session.lines),
            "responses": session.responses,
            "context-length": settings.context_length,
            "threshold": settings.threshold,
            "engines": " ".join(settings.engines),
        }
        self._print(plain(Moment("start", 0, tuple(told.items()))))

    def show(self, moments: tuple[Moment, ...]) -> None:
        """One line for each."""
        for moment in moments:
            self._print(plain(moment))

    def refresh(self) -> None:
        """Lines stand as they were printed."""

    def end(self, result: Mapping[str, Any], closing: Sequence[str]) -> None:
        """One line with the sums, then the closing sentences, each after a `#`."""
        told: dict[str, Any] = {
            key: result[key] for key in ("crossings", "compactions", "refused", "failed", "crashes")
        }
        self._print(plain(Moment("end", result["messages"], (*told.items(), *result["tokens"].items()))))
        for sentence in closing:
            self._print(f"# {sentence}")

    def close(self) -> None:
        """Nothing is to be put in order."""

    def _print(self, line: str) -> None:
        if not self._open:
            return
        try:
            print(clean(line), file=self._stream, flush=True)
        except BrokenPipeError:
            self._open = False
