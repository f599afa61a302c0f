"""What engines, observers and plugins of others may do, and the host's call ends as it should: without the host."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bridges.hermes import hidden, hooks, observers, third
from bridges.hermes.hidden import MOST, hide, remember
from bridges.hermes.hosted import Hosted
from bridges.hermes.runtime import running
from bridges.hermes.turns import Turn
from dataspace import Crashed
from engines import facts as f
from tests.hermes_adapter import hostile
from tests.hermes_adapter.desk import FAKE, Engines, commit, conversation, facts
from tests.hermes_adapter.fakes import Fake
from tests.hermes_adapter.fixtures import engines
from tests.hermes_adapter.hostile import KEY, OLD_KEY, Leaky

__all__ = ["engines"]

HERE = "tests.hermes_adapter.hostile"
STANDING = [cls for cls in f.FACTS.values() if cls not in f.MESSAGES]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine was made, and no key known before."""
    monkeypatch.setattr(third, "_prototypes", {})
    hidden._keys.clear()


def crossed(engine: Any) -> bool:
    """A reading above the threshold, and the question of the host."""
    engine.update_from_response({"prompt_tokens": 150_000})
    return bool(engine.should_compress(150_000))


def compacts(engine: Any) -> str:
    """The next compaction, which the host takes over; who made it."""
    rows = conversation(60, 9000)
    done = engine.compress(rows, current_tokens=150_000, force=True)
    assert done is not rows, engine._last_summary_error
    commit(engine)
    (fact,) = facts(f.Compressed, engine)
    return str(fact.by.partition("#")[0])


# -- exits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ExitsInCopy", "InterruptedInMaking", "CancelledInMaking"])
def test_an_engine_that_exits_while_it_is_made(engines: Engines, caplog: pytest.LogCaptureFixture, name: str) -> None:
    """The host is making an agent then: it goes on with the next engine, and the log says why, without the key."""
    engine = engines.bare(f"{HERE}:{name}", "compressor")
    engine.update_model(model="m", context_length=200_000, api_key=KEY)
    assert ("compressor",) == engine.seat.kinds
    assert f"{HERE}:{name}' cannot be made" in caplog.text
    assert KEY not in caplog.text


@pytest.mark.parametrize("what", ["sys.exit('no')", "raise KeyboardInterrupt('no')"])
def test_a_plugin_that_exits_when_it_is_imported(
    engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Such as one that misses something."""
    (tmp_path / "exits_at_import.py").write_text(f"import sys\n{what}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    engine = engines.started("exits_at_import:Engine", "compressor", observers=[])
    assert ("compressor",) == engine.seat.kinds
    (tmp_path / "exits_too.py").write_text("raise SystemExit(2)\n")
    assert observers.observer("exits_too.x") is not None
    assert [] == engines.started("compressor", observers=["exits_too"]).get_tool_schemas()
    assert [] == engines.started("compressor", observers=["exits_too.x"]).get_tool_schemas()


def test_a_plugin_that_fails_with_a_key_in_its_words(
    engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says that it failed."""
    (tmp_path / "plugins" / "talks").mkdir(parents=True)
    (tmp_path / "plugins" / "talks" / "__init__.py").write_text(
        f"def register(ctx): raise OSError('no access with {KEY}')"
    )
    monkeypatch.setattr(third, "home", lambda: tmp_path)
    engines.bare("talks", "compressor").update_model(model="m", context_length=200_000, api_key=KEY)
    assert "failed to register: OSError: no access with [redacted]" in caplog.text


@pytest.mark.parametrize("name", ["exits_in_boot", "exits_in_work", "exits_in_a_callback", "exits_in_a_task"])
def test_an_engine_of_the_dataspace_that_exits(engines: Engines, name: str) -> None:
    """It is its crash: neither the dataspace nor any other conversation ends by it, and the next engine is asked."""
    other = engines.started("compressor", session="s0")
    engine = engines.started(f"{HERE}:{name}", "compressor", deadline=5)
    crossed(engine)
    assert "compressor" == compacts(engine)
    assert "compressor" == compacts(other)
    assert [f"SystemExit: {name.rsplit('_', maxsplit=1)[-1]}"] == sorted({crash.reason for crash in facts(Crashed)})
    runtime = running()
    assert runtime is not None
    assert runtime.alive


# -- observers --------------------------------------------------------------------------------------------------------


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An observer of somebody's, `odd.one`."""
    made = ModuleType("odd.one")
    monkeypatch.setitem(sys.modules, "odd", ModuleType("odd"))
    monkeypatch.setitem(sys.modules, "odd.one", made)
    observers._module.cache_clear()
    return made


def leave(*_args: Any) -> Any:
    """End the program."""
    raise SystemExit(3)


@pytest.mark.parametrize(
    "parts",
    [
        {"tools": lambda _settings: [5, None]},
        {"tools": hostile.generated},
        {"tools": leave},
        {"tools": lambda _settings: [5], "aide": lambda _standing: hostile.Leaves()},
        {"aide": leave},
        {"aide": lambda _standing: 5},
        {"boot": leave},
        {"boot": lambda _settings, _of: leave},
        {"boot": lambda _settings, _of: 5},
        {"status": lambda _me: 5, "show": leave},
        {"Options": 5},
    ],
)
def test_an_observer_costs_the_observer_only(engines: Engines, odd: ModuleType, parts: dict[str, Any]) -> None:
    """Whatever its parts give or raise: engines keep their tools, turns go on, and compactions are made."""
    for name, part in parts.items():
        setattr(odd, name, part)
    engine = engines.started(FAKE, observers=["odd.one"])
    assert ["look", "find"] == [tool["name"] for tool in engine.get_tool_schemas()]
    turn = Turn("t", "s1")
    turn.belongs(engine.seat)
    assert None is engine.seat.turn_started(turn)
    assert crossed(engine)
    assert FAKE == compacts(engine)
    engine.seat.turn_ended("t", completed=True, interrupted=False)
    assert "error" in engine.handle_tool_call("one", {})
    assert "conversation" in _command(engine)
    engine.on_session_reset()


def _command(engine: Any) -> str:
    from bridges.hermes.command import answer

    assert engine.seat in hooks.seats()
    return answer("", acts=True) + answer("odd", acts=True)


def test_an_interrupt_in_an_aide_is_the_user_s(engines: Engines, odd: ModuleType) -> None:
    """On a thread of the host it can be nobody else's."""

    class Slow(observers.Aide):
        def compacted(self) -> None:
            raise KeyboardInterrupt

    odd.aide = lambda _standing: Slow()  # type: ignore[attr-defined]
    engine = engines.started("compressor", observers=["odd.one"])
    with pytest.raises(KeyboardInterrupt):
        engine.seat.aides.compacted()


# -- what is in the attributes of an engine ---------------------------------------------------------------------------


def test_attributes_that_hold_themselves(engines: Engines) -> None:
    """They are put back as they were, and what is there twice is still one."""
    engine = engines.started(f"{HERE}:HoldsItself")
    hosted = engine.seat.hosted[f"{HERE}:HoldsItself"]
    crossed(engine)
    rows = conversation()
    assert engine.compress(rows) is not rows
    assert ["compressed"] == hosted.front.notes
    engine.update_from_response({"prompt_tokens": 150_000})  # it is not taken over
    front = hosted.front
    assert [] == front.notes
    assert front.loop[0] is front.notes is front.book["notes"]
    assert front.loop[1] is front.loop
    assert front.book["book"] is front.book
    assert {1} == front.book["who"]


def test_attributes_that_change_meanwhile() -> None:
    """A thread of the engine's own is at work: they are written down all the same, each list and dict at a stroke."""
    front = hostile.Busy()
    hosted = Hosted("busy", front, patience=5.0)
    try:
        for _ in range(100):
            hosted.compress(conversation(1))
            hosted.put_back()
            assert not hosted.stuck
    finally:
        front.over.set()


# -- keys -------------------------------------------------------------------------------------------------------------


def talking(engines: Engines) -> Any:
    """An engine that has been given one key after the other."""
    engine = engines.started(f"{HERE}:Talks", deadline=5)
    engine.update_model(model="m", context_length=200_000, api_key=OLD_KEY)
    engine.update_model(model="m", context_length=200_000, api_key=KEY)
    return engine


@pytest.mark.parametrize(
    "plan",
    [
        None,
        lambda _self, rows, _told: [rows[0], {"role": "assistant", "content": Leaky(["x"])}, rows[-1]],
        lambda _self, rows, _told: [rows[0], {"role": "assistant", "content": "x", (KEY,): 1}, rows[-1]],
        lambda _self, rows, _told: Leaky(rows),
    ],
)
def test_no_key_is_shown(engines: Engines, caplog: pytest.LogCaptureFixture, plan: Any) -> None:
    """Neither the latest nor the one before, in the log, facts, attributes and status, whoever says it and where."""
    caplog.set_level("DEBUG")
    Fake.plan = plan
    engine = talking(engines)
    crossed(engine)
    rows = conversation()
    assert rows is engine.compress(rows)
    shown = [engine._last_summary_error, repr(engine), str(engine.get_status()), _command(engine), caplog.text]
    shown += [str(facts(cls)) for cls in (*STANDING, Crashed)]
    assert [] == [text for text in shown if KEY in text or OLD_KEY in text]
    assert "[redacted]" in engine._last_summary_error
    assert {"at", "all", "last"} <= set(engine.get_status())


def test_what_the_engine_in_charge_says_of_its_own_failure_holds_no_key(engines: Engines) -> None:
    """The host shows its user that text as it is."""
    engine = talking(engines)
    Fake.plan = lambda _self, rows, _told: [rows[0], {"role": "assistant", "content": "In short."}, rows[-1]]
    rows = conversation()
    assert engine.compress(rows) is not rows
    assert "used up: [redacted], [redacted]" == engine._last_summary_error


def test_a_key_that_the_host_sets_is_known(engines: Engines) -> None:
    """As when it goes on to the next one of several."""
    engine = talking(engines)
    engine.api_key = "a-third-key-of-ours"
    Fake.plan = lambda _self, _rows, _told: {}["a-third-key-of-ours"]
    engine.compress(conversation(), force=True)
    assert "KeyError: '[redacted]'" in engine._last_summary_error


def test_keys_that_are_remembered_are_bounded() -> None:
    """The latest are known, each once; what is too short to be one is left in words."""
    for at in range(MOST + 10):
        remember(f"key-number-{at:04}")
    for _ in range(3):
        remember("none")
        remember("key-number-0100")
    assert MOST == len(hidden._keys)
    assert "key-number-0000" == hide("key-number-0000")
    assert "[redacted], none" == hide("key-number-0100, none")
    remember(lambda: "key")
    assert MOST == len(hidden._keys)
