"""The live display on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TextIO

from rich.console import Console
from rich.live import Live

from .moments import Moment
from .picture import Picture, Summary
from .replay import Settings
from .session import Session
from .story import Story

__all__ = ["Screen"]

_KEPT = 100  # moments; no screen shows more


class Screen:
    """Redraws the picture in place; no thread, so what it shows is what was told when it was drawn."""

    def __init__(self, stream: TextIO) -> None:
        # Whether this is a terminal was decided by who made us; rich would ask the environment.
        self._console = Console(file=stream, force_terminal=True, highlight=False)
        self._changed = True
        self._moments: list[Moment] = []
        self._live: Live | None = None
        self._what: tuple[Story, Session, Settings] | None = None

    def begin(self, story: Story, session: Session, settings: Settings) -> None:
        """The first picture."""
        self._what = (story, session, settings)
        self._live = Live(
            self._picture(), console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start(refresh=True)

    def show(self, moments: tuple[Moment, ...]) -> None:
        """Noted for the next picture."""
        self._moments = [*self._moments, *moments][-_KEPT:] if moments else self._moments
        self._changed = True

    def refresh(self) -> None:
        """A new picture, if there is anything new to see."""
        if self._changed:
            self._changed = False
            self._draw()

    def end(self, result: Mapping[str, Any], closing: Sequence[str]) -> None:
        """The last picture, and the summary under it."""
        summary = Summary(result, closing)
        self._draw(reserve=len(self._console.render_lines(summary, pad=False)))
        self.close()
        self._console.print(summary)

    def close(self) -> None:
        """Give the terminal back as it was."""
        live, self._live = self._live, None
        if live is not None:
            with suppress(OSError):  # a terminal that is gone needs no order
                live.stop()

    def _draw(self, reserve: int = 0) -> None:
        if self._live is not None:
            self._live.update(self._picture(reserve), refresh=True)

    def _picture(self, reserve: int = 0) -> Picture:
        assert self._what is not None
        return Picture(*self._what, self._moments, reserve)
