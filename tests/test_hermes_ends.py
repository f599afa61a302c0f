"""Ends in Hermes: what is to be written is waited for, a little, and never where an event loop runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bridges.hermes import ends, hooks, plugin, snapshots_end


class Runtime:
    """A dataspace that answers, or does not."""

    def __init__(self, *, alive: bool = True, answers: bool = True) -> None:
        self.alive = alive
        self.answers = answers
        self.then: Callable[[], object] = int

    def ask(self, fn: Callable[[Any], object], *, seconds: float) -> object:
        """Do it, or be late."""
        if not self.answers:
            raise TimeoutError(seconds)
        self.then()
        return fn(None)


class Seat:
    """A conversation that can say that it is over, or cannot."""

    left = 0
    broken = False

    def leave(self) -> None:
        """It is over."""
        self.left += 1
        if self.broken:
            raise RuntimeError("no")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    """One that answers; nobody writes yet, nobody sits here."""
    made = Runtime()
    monkeypatch.setattr(ends, "running", lambda: made)
    monkeypatch.setattr(ends, "_waits", {})
    monkeypatch.setattr(ends, "seats", list)
    return made


def test_all_that_write_are_waited_for(runtime: Runtime) -> None:
    """Each gets what is left of the time, all are asked though one is late, and the latest of a name counts."""
    asked: list[tuple[str, bool]] = []

    def writer(name: str, done: bool) -> Callable[[float], bool]:
        return lambda seconds: bool(asked.append((name, 0 <= seconds <= ends.PATIENCE))) or done

    assert ends.settle()
    ends.wait_for("a", writer("old", done=False))
    ends.wait_for("a", writer("a", done=False))
    ends.wait_for("b", writer("b", done=True))
    assert not ends.settle()
    ends.wait_for("a", writer("a", done=True))
    assert ends.settle()
    assert [("a", True), ("b", True)] * 2 == asked


def test_an_engine_that_is_on_its_way_is_waited_for(runtime: Runtime) -> None:
    """It comes to be there with what was said before."""
    runtime.then = lambda: ends.wait_for("late", lambda _seconds: False)
    assert not ends.settle(1)


@pytest.mark.parametrize("why", ["none", "dead", "silent", "loop"])
def test_nobody_waits_in_vain(runtime: Runtime, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """Without a dataspace, with one that does not answer, or on a thread that runs an event loop, it is over at once."""

    def never(_seconds: float) -> bool:
        raise AssertionError("somebody waits")

    ends.wait_for("never", never)
    runtime.alive, runtime.answers = why != "dead", why != "silent"
    if why == "none":
        monkeypatch.setattr(ends, "running", lambda: None)

    async def end() -> bool:
        return ends.settle(3_600)

    assert not (asyncio.run(end()) if why == "loop" else ends.settle(3_600))


def test_the_process_ends(runtime: Runtime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Every conversation is over then; one that cannot say so is logged, and so is what is not written in time."""
    seats = [Seat(), Seat()]
    seats[0].broken = True
    monkeypatch.setattr(ends, "seats", lambda: seats)
    ends._exit()
    assert [1, 1] == [seat.left for seat in seats]
    assert "could not be told" in caplog.text
    assert "is on disk" not in caplog.text
    ends.wait_for("slow", lambda _seconds: False)
    ends._exit()
    assert "before all that was to be written" in caplog.text
    caplog.clear()
    monkeypatch.setattr(ends, "running", lambda: None)  # as in a child that was forked: nothing was begun there
    ends._exit()
    assert "is on disk" not in caplog.text


def test_the_exit_is_watched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many conversations there are."""
    registered: list[object] = []
    monkeypatch.setattr(ends, "_watching", [])
    monkeypatch.setattr(ends.atexit, "register", registered.append)
    ends.watch_exit()
    ends.watch_exit()
    assert [ends._exit] == registered


def test_hooks(runtime: Runtime) -> None:
    """Both ends that hosts tell of; whatever comes with them; a host that knows no such hook is fine."""
    hooks: dict[str, Callable[..., None]] = {}
    waited: list[float] = []

    class Host:
        def register_hook(self, name: str, hook: Callable[..., None]) -> None:
            if name == "on_session_reset":
                raise KeyError(name)
            hooks[name] = hook

    ends.register_ends(Host())
    ends.wait_for("a", lambda seconds: bool(waited.append(seconds)))
    hooks["on_session_finalize"](session_id="s", anything=1)
    assert 1 == len(waited)


@pytest.mark.hermes
def test_who_hears_of_an_end_first() -> None:
    """Who goes on from whom is known before what is written then is begun, and that is waited for last."""
    heard: list[object] = []

    class Context:
        def register_context_engine(self, engine: object) -> None:
            pass

        def register_hook(self, name: str, hook: object) -> None:
            if name == "on_session_finalize":
                heard.append(hook)

    plugin.register(Context())
    assert [snapshots_end._finalized, hooks._finalized, ends._ended] == heard
