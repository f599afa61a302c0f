"""What both sides of the host pair share: a summary model as bad as it is told to be, a clock, and a store of sessions.

All of it is deterministic: time passes when a script says so, and a slow summary is one during which something else is
done on another thread, to its end.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

__all__ = ["FAILING", "MOODS", "USELESS", "Clock", "Store", "SummaryModel", "steady"]

USELESS = ("invisible", "thoughts", "echo", "parrot")
"""Moods in which a summary says nothing, and the built-in does not notice."""
FAILING = ("fails", "no network", "denied", "late", "empty", "nothing")
"""Moods in which there is no summary, and the built-in notices."""
MOODS = ("good", *USELESS, *FAILING, "long", "interrupted")
BOUND = 30.0  # seconds that a thread of the script may take; none does
TODAY = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)


class Clock:
    """Stands for the module `time`: monotonic from the moment it is made, and moved by hand."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1_770_000_000.0 + self.now


class Store:
    """What the built-in keeps of a session in the host's store: its cooldown and its streak of failed summaries."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.cooldowns: dict[str, tuple[float, str | None]] = {}
        self.streaks: dict[str, int] = {}

    def get_compression_failure_cooldown(self, session: str) -> dict[str, Any] | None:
        if session not in self.cooldowns:
            return None
        until, error = self.cooldowns[session]
        return {"cooldown_until": until, "remaining_seconds": until - self.clock.time(), "error": error}

    def record_compression_failure_cooldown(self, session: str, until: float, error: str | None) -> None:
        self.cooldowns[session] = (until, error)

    def clear_compression_failure_cooldown(self, session: str) -> None:
        self.cooldowns.pop(session, None)

    def get_compression_fallback_streak(self, session: str) -> int:
        return self.streaks.get(session, 0)

    def set_compression_fallback_streak(self, session: str, streak: int) -> None:
        self.streaks[session] = streak

    def take(self, other: Store) -> None:
        """Be as another one."""
        self.cooldowns, self.streaks = dict(other.cooldowns), dict(other.streaks)


class SummaryModel:
    """What stands for the host's `call_llm`; `prompts` are the requests that came.

    `meanwhile` is done on a thread of its own, once, before the next summary is given.
    """

    def __init__(self) -> None:
        self.mood = "good"
        self.prompts: list[str] = []
        self.meanwhile: Callable[[], object] | None = None
        self.useless = ""
        """The mood of the latest summary, if it said nothing."""
        self.caught = threading.Event()
        self._quiet = threading.Event()
        self._quiet.set()

    def __call__(self, **told: Any) -> Any:
        prompt = told["messages"][0]["content"]
        self.prompts.append(prompt)
        mood, meanwhile = self.mood, self.meanwhile
        self.meanwhile = None
        if meanwhile is not None:
            self._elsewhere(meanwhile)
        elif mood == "interrupted":
            self._interrupt()
        if mood in _ERRORS:
            raise _ERRORS[mood]
        text = _said(mood, prompt)
        self.useless = mood if mood in USELESS and text != _said("good", prompt) else ""
        message = type("Message", (), {"content": text})()
        return type("Response", (), {"choices": [type("Choice", (), {"message": message})()]})()

    def settle(self) -> None:
        """Wait until what was done meanwhile is done; the call it belongs to may be over before."""
        assert self._quiet.wait(BOUND)

    def _elsewhere(self, what: Callable[[], object]) -> None:
        self._quiet.clear()
        errors: list[BaseException] = []

        def run() -> None:
            try:
                what()
            except BaseException as error:  # noqa: BLE001 - raised where it is seen
                errors.append(error)

        thread = threading.Thread(target=run, name="another thread of the host")
        thread.start()
        thread.join(BOUND)
        self._quiet.set()
        assert not thread.is_alive()
        assert not errors, errors

    def _interrupt(self) -> None:
        """The user stops it while it is written: the host's thread is interrupted, this call goes on if it is another's."""
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        main = threading.main_thread().ident
        assert main is not None
        self.caught.clear()
        signal.pthread_kill(main, signal.SIGINT)
        assert self.caught.wait(BOUND)


_ERRORS: dict[str, Exception] = {
    "fails": ValueError("the summary model is out"),
    "no network": ConnectionError("no route"),
    "denied": PermissionError("Error code: 401 - invalid api key"),
    "late": TimeoutError("timed out"),
}


def _said(mood: str, prompt: str) -> str | None:
    if mood == "nothing":
        return None
    if mood == "parrot":
        return _repeated(prompt) or _said("good", prompt)
    return {
        "empty": " \n",
        "invisible": "\u200b\u200b",
        "thoughts": "<think>what a long text</think>",
        "echo": prompt,
        "long": f"## Goal\nCount, at length ({len(prompt)}).\n" + "The pages are many and each was looked at. " * 8000,
    }.get(mood, f"## Goal\nCount.\n## Done\n{len(prompt) // 5000} pages were read and noted.")


def _repeated(prompt: str) -> str:
    """The page that the prompt holds most of, said again; empty where it holds hardly any."""
    pages = re.findall(r"\bpage \d+\b", prompt)
    most = max(sorted(set(pages)), key=pages.count, default="")
    runs = re.findall(rf"(?:{most} ){{30,}}", prompt) if most else []
    return max(runs, key=len)[:2000].strip() if runs else ""


@contextmanager
def steady(model: SummaryModel, clock: Clock) -> Iterator[None]:
    """Have the host ask this model, see this clock and know this day; the adapter sees the clock too."""
    import hermes_time
    from agent import context_compressor

    from bridges.hermes import calls, cell, desk, place, verdicts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context_compressor, "call_llm", model)
        patch.setattr(hermes_time, "now", lambda: TODAY)
        for module in (context_compressor, calls, cell, desk, place, verdicts):
            patch.setattr(module, "time", clock)
        yield
