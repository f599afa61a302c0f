"""The way into the dataspace's thread: in order, whichever door, and with room for the host's threads."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bridges.hermes import desk as desks
from bridges.hermes.runtime import BATCH, Runtime, running
from dataspace import where
from engines import facts as f
from tests.hermes_adapter.desk import FAKE, Engines, commit, conversation, facts
from tests.hermes_adapter.fakes import Fake
from tests.hermes_adapter.fixtures import engines
from tests.test_hermes_compress import waits

__all__ = ["engines"]


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    """A dataspace of the test's own."""
    made = Runtime()
    yield made
    if made.alive:
        made.stop()


def test_calls_are_done_in_order_whichever_door_they_take(runtime: Runtime) -> None:
    """`soon`, `at_once` and `in_a_while` stand in one line, longer than what is done in a row."""
    done: list[int] = []
    doors = (runtime.soon, runtime.at_once, runtime.in_a_while)
    for at in range(5 * BATCH):
        doors[at % 3](lambda _desk, at=at: done.append(at))
    runtime.ask(lambda _desk: None)
    assert done == list(range(5 * BATCH))


def test_on_its_own_thread_soon_is_now_and_at_once_is_next(runtime: Runtime) -> None:
    """So what is being done there is finished first."""
    done: list[str] = []
    over = threading.Event()

    def visit(_desk: Any) -> None:
        runtime.at_once(lambda _desk: (done.append("next"), over.set()))
        runtime.soon(lambda _desk: done.append("now"))
        assert runtime.ask(lambda _desk: "answer") == "answer"
        done.append("done")

    runtime.soon(visit)
    assert over.wait(30)
    assert done == ["now", "done", "next"]


def test_after_the_end_nothing_is_done_and_nothing_raises(runtime: Runtime) -> None:
    """What was asked for before is done; whoever comes later sees that it is over."""
    done: list[str] = []
    runtime.soon(lambda _desk: done.append("before"))
    runtime.stop()
    assert not runtime.alive
    runtime.soon(lambda _desk: done.append("after"))
    runtime.at_once(lambda _desk: done.append("after"))
    with pytest.raises(TimeoutError):
        runtime.ask(lambda _desk: None, seconds=0.01)
    assert done == ["before"]


def test_an_error_of_a_call_ends_nothing(runtime: Runtime) -> None:
    """It is logged, or raised where somebody waits."""
    runtime.at_once(lambda _desk: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        runtime.ask(lambda _desk: 1 // 0)
    assert runtime.ask(lambda _desk: 1) == 1


def _crash(desk: Any) -> None:
    """What the actor that shows conversations may come upon."""

    def fails() -> None:
        raise ValueError("no fact can hold that")

    desk.me.later(fails)


@pytest.mark.parametrize("kind", ["compressor", FAKE])
def test_a_dataspace_whose_desk_has_crashed_is_replaced(engines: Engines, kind: str) -> None:
    """Otherwise all conversations of the process would wait in vain, and each compaction for all of its deadline."""
    one, two = engines.started(kind, session="s1"), engines.started(kind, session="s2")
    before = running()
    assert before is not None
    before.ask(lambda _desk: None)
    before.soon(_crash)
    before._thread.join(30)
    assert (True, False) == (before.dead, before.alive)
    for engine in (one, two):
        engine.update_from_response({"prompt_tokens": 150_000})
        assert engine.should_compress(150_000)
        rows = conversation(60, 9_000)
        assert engine.compress(rows, current_tokens=150_000) is not rows
        commit(engine)
        assert 1 == len(facts(f.Compressed, engine))
    after = running()
    assert after is not None
    assert after is not before
    assert after.alive


def test_a_call_that_waits_when_the_desk_crashes_waits_no_longer(engines: Engines) -> None:
    """The host gets its own list back, and the next call finds another dataspace."""
    engine = engines.started(FAKE)
    runtime = running()
    assert runtime is not None
    go_on = threading.Event()
    Fake.plan = lambda _self, rows, _told: runtime.soon(_crash) or (go_on.wait(30) and rows[-1:])
    rows = conversation()
    assert rows is engine.compress(rows)
    assert "has ended" in engine._last_summary_error
    Fake.plan = None
    go_on.set()
    waits(lambda: not engine.seat.hosted[FAKE].stuck)
    assert engine.compress(rows) is not rows, engine._last_summary_error


@pytest.mark.parametrize("name", [{"id": 1}, 17, ("s", 1)])
def test_a_session_by_any_name(engines: Engines, name: Any) -> None:
    """Whatever the host calls it, it can be shown."""
    engine = engines.started("compressor")
    engine.bind_session_state(None, name)
    engine.on_session_start(name, platform=name, model=name)
    runtime = running()
    assert [str(name)] == [fact.host_session for fact in facts(f.Session, engine)]
    assert runtime is running()
    engine.on_session_end(name, [])


def test_many_readings_are_shown_in_parts_and_all_of_them(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is seen, in order, and the host's thread gets the interpreter in between."""
    engine = engines.started(FAKE)
    facts(f.Session, engine)
    seen: list[int] = []
    all_seen = threading.Event()
    waits: list[int] = []
    most = 5 * desks.SLICE

    def hear(usage: f.Usage) -> None:
        seen.append(usage.prompt or 0)
        if len(seen) == most:
            all_seen.set()

    runtime = engine.seat.runtime

    def watch(desk: Any) -> None:
        desk.me.observe(where(f.Usage, sid=engine.seat.cell.sid), appeared=hear)
        later = desk.in_a_while
        desk.in_a_while = lambda *args: (waits.append(len(seen)), later(*args))
        for at in range(most):  # all of them while this thread is busy
            thread = threading.Thread(target=engine.update_from_response, args=({"prompt_tokens": 100 + at},))
            thread.start()
            thread.join()

    runtime.at_once(watch)
    assert all_seen.wait(30)
    assert seen == [100 + at for at in range(most)]
    assert [later - earlier for earlier, later in pairwise(waits[:4])] == [desks.SLICE] * 3


LIST = """
import sys, threading
from hermes_cli.main import main
sys.argv = ["hermes", "plugins", "list"]
try:
    main()
except SystemExit:
    pass
ours = [thread.name for thread in threading.enumerate() if "dataspace" in thread.name or "trio" in thread.name.lower()]
print("trio" in sys.modules, "engines.loop" in sys.modules, ours, file=sys.stderr)
"""


@pytest.mark.hermes
@pytest.mark.slow
def test_listing_plugins_starts_nothing(tmp_path: Path) -> None:
    """`hermes plugins list` with the plugin enabled: it is listed, no thread is started and no trio imported."""
    (tmp_path / "config.yaml").write_text('{"plugins": {"enabled": ["dataspace"]}}', encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", LIST],
        env={"HERMES_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": "", "COLUMNS": "200"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert "dataspace" in done.stdout
    assert done.stderr.splitlines()[-1] == "False False []"
