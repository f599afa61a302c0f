"""Settings, registration, and what the adapter does when something of its own fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from attrs import fields

from bridges.hermes import blocks, hooks, plugin, settings, turns
from bridges.hermes.hooks import _child_stopped
from bridges.hermes.observers import available
from bridges.hermes.plateau import Plateau
from bridges.hermes.runtime import Runtime, current_runtime, running, shut_down
from bridges.hermes.settings import Settings, host_config, read_settings
from bridges.hermes.wording import Wording, host_wording
from engines import facts as f
from tests.conftest import CHECKOUT
from tests.hermes_adapter.desk import FAKE, Engines, conversation, facts
from tests.hermes_adapter.fakes import Fake
from tests.hermes_adapter.fixtures import engines

__all__ = ["engines"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings have not been said yet, and nothing is switched off."""
    monkeypatch.setattr(blocks, "_said", set())
    monkeypatch.delenv("HERMES_DATASPACE", raising=False)


def read(block: Any) -> Settings:
    """Settings from a block of this content."""
    return read_settings({"context": {"engine": "dataspace", "dataspace": block}})


@pytest.mark.parametrize("config", [{}, {"context": None}, {"context": {"engine": "dataspace"}}, {"context": []}])
def test_without_a_block_the_defaults_count(config: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """Two lines of configuration are enough."""
    assert Settings() == read_settings(config)
    assert Settings(True, "repair", ("builtin",), 300.0) == read({})
    assert "" == caplog.text


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"enabled": "off"}, Settings(enabled=False)),
        ({"enabled": "Yes"}, Settings()),
        (False, Settings(enabled=False)),
        ({"guard": "record"}, Settings(guard="record")),
        ({"engines": "compressor"}, Settings(engines=("compressor",))),
        ({"engines": ["a", " b ", "a"]}, Settings(engines=("a", "b"))),
        ({"engines": []}, Settings(engines=())),
        ({"deadline": 5}, Settings(deadline=5.0)),
        ({"patience": 0.5}, Settings(patience=0.5)),
    ],
)
def test_what_can_be_set(block: Any, expected: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """Each setting in the forms in which people write it, without a warning."""
    assert expected == read(block)
    assert "" == caplog.text


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("on", "write a block of settings"),
        ({"engine": ["x"]}, "unknown setting engine"),
        ({1: 2}, "unknown setting 1"),
        ({"enabled": 7}, "write true or false"),
        ({"guard": None}, "write repair or record"),
        ({"engines": {"a": 1}}, "write a list of names"),
        ({"engines": ["a#2"]}, "write a list of names"),
        ({"engines": [1]}, "write a list of names"),
        ({"deadline": True}, "write a number of seconds"),
        ({"deadline": "soon"}, "write a number of seconds"),
        ({"patience": 0}, "write a number of seconds"),
        ({"deadline": float("inf")}, "write a number of seconds"),
    ],
)
def test_what_is_wrong_is_said_once(block: Any, said: str, caplog: pytest.LogCaptureFixture) -> None:
    """One warning that says what to write; the default stands in."""
    assert [Settings()] * 2 == [read(block), read(block)]
    assert 1 == len(caplog.messages)
    assert said in caplog.text


@pytest.mark.parametrize("value", ["off", "OFF ", "0", "false", "no"])
def test_the_environment_wins(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """The kill switch is a kill switch whatever the file says."""
    monkeypatch.setenv("HERMES_DATASPACE", value)
    assert not read({"enabled": True}).enabled


def test_another_value_of_the_environment_is_no_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    """`on` leaves the configuration to itself."""
    monkeypatch.setenv("HERMES_DATASPACE", "on")
    assert (True, False) == (read({}).enabled, read({"enabled": False}).enabled)


def test_every_setting_is_in_the_reference() -> None:
    """The block's own, with its default, and those of every observer."""
    page = (CHECKOUT / "docs" / "reference" / "hermes-settings.md").read_text(encoding="utf-8")
    classes = [Settings, *(one.options for one in available() if one.options is not None)]
    names = {field.name for cls in classes for field in fields(cls) if field.metadata}
    assert [] == sorted(name for name in names if f"| `{name}` |" not in page)
    assert [] == sorted(one.block for one in available() if f"### `{one.block}`" not in page)
    assert f"observers: [{', '.join(Settings().observers)}]" in page


def test_a_configuration_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the host's to report; here the defaults count."""

    def broken() -> Any:
        raise OSError("no file")

    monkeypatch.setattr(settings, "load_config", broken)
    assert {} == host_config()


# -- registration -----------------------------------------------------------------------------------------------------


class Context:
    """What the host hands to `register`."""

    def __init__(self) -> None:
        self.engines: list[Any] = []
        self.hooks: dict[str, Callable[..., Any]] = {}

    def register_context_engine(self, engine: Any) -> None:
        """Take the engine."""
        self.engines.append(engine)

    def register_hook(self, name: str, hook: Callable[..., Any]) -> None:
        """Take a hook."""
        self.hooks[name] = hook


@pytest.mark.hermes
def test_registering_again_is_as_good_as_once() -> None:
    """The same engine, of the host's own class, and hooks that take whatever the host will tell them."""
    shut_down()
    from agent.context_engine import ContextEngine

    contexts = [Context(), Context()]
    for context in contexts:
        plugin.register(context)
    (first,), (second,) = (context.engines for context in contexts)
    assert first is second
    assert isinstance(first, ContextEngine)
    assert "dataspace" == first.name
    always = {"pre_llm_call", "post_llm_call", "on_session_end", "on_session_finalize", "post_tool_call"}
    registered = set(contexts[1].hooks)
    asked_for = {
        "pre_tool_call",
        "transform_tool_result",
        "pre_api_request",
    }  # perhaps by an earlier agent of this process
    assert registered - asked_for == always | {"on_session_reset", "subagent_start", "subagent_stop"}
    for hook in contexts[1].hooks.values():
        assert hook(session_id="s", turn_id="t", something="new", telemetry_schema_version=1) is None
    assert running() is None


def test_a_child_that_has_stopped_has_ended(engines: Engines) -> None:
    """The host says which session it was; a parent of the same name is not meant."""
    child, parent = engines.started("compressor", session="child"), engines.started("compressor", session="parent")
    ended, goes_on = child.seat.cell.sid, parent.seat.cell.sid
    _child_stopped(child_session_id="child", parent_session_id="parent", child_status="completed")
    _child_stopped(child_session_id="parent", parent_session_id="parent")
    _child_stopped(child_session_id=None, parent_session_id="parent")  # type: ignore[arg-type]
    assert ["ended"] == [fact.state for fact in facts(f.Session, sid=ended)]
    assert ["active"] == [fact.state for fact in facts(f.Session, sid=goes_on)]


def test_turns_that_never_end_are_forgotten(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many are remembered."""
    monkeypatch.setattr(turns, "MOST", 2)
    turns._turns.clear()
    engine = engines.started("compressor")
    for at in range(5):
        hooks._turn_opened(turn_id=f"t{at}")
        engine.get_active_compression_failure_cooldown()
    assert 2 == len(turns._turns)


# -- failures of our own ----------------------------------------------------------------------------------------------


def test_a_fault_of_ours_costs_no_turn(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever fails in here, the host gets an answer it can go on with, and the log has the traceback."""
    engine = engines.started(FAKE)

    def broken(*_args: Any, **_kwargs: Any) -> Any:
        raise AssertionError("a fault of ours")

    seat = engine.seat
    for name in ("usage", "should_compress", "compress", "tool_schemas", "handle_tool_call", "status", "bind"):
        monkeypatch.setattr(seat, name, broken)
    rows = conversation()
    engine.update_from_response({"prompt_tokens": 5})
    engine.bind_session_state(None, "s2")
    assert engine.should_compress(5) is False
    assert rows is engine.compress(rows)
    assert engine._last_compress_aborted
    assert "AssertionError" in engine._last_summary_error
    assert ([], {}) == (engine.get_tool_schemas(), engine.get_status())
    assert "error" in engine.handle_tool_call("look", {})
    assert 7 == sum("failed in" in message for message in caplog.messages)


@pytest.mark.hermes
def test_switched_off_it_is_the_built_in(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its errors too are its own then: nothing stands between it and the host."""
    engine = engines.started("compressor", window=64_000, enabled=False)
    rows = conversation(1)
    assert rows is engine.compress(rows)
    assert running() is None

    def raises(*_args: Any, **_kwargs: Any) -> Any:
        raise ValueError("its own")

    monkeypatch.setattr(engine.seat.in_charge().front, "compress", raises)
    with pytest.raises(ValueError, match="its own"):
        engine.compress(rows)
    engine.awaiting_real_usage_after_compression = True
    assert engine.awaiting_real_usage_after_compression
    assert not engine.should_compress(10)


def test_a_tool_of_an_engine_that_is_at_work(engines: Engines) -> None:
    """It might wait for what its compaction holds: the model is told to try again."""
    engine = engines.started(FAKE)
    engine.seat.hosted[FAKE]._overdue.append("should_compress")
    assert "Unknown" in engine.handle_tool_call("look", {})
    assert [] == engine.get_tool_schemas()


def test_a_runtime_that_cannot_live_is_not_started_for_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Three times, and then no more; what is asked of a dead one is dropped."""
    shut_down()

    async def dies(_self: Runtime) -> None:
        raise RuntimeError("no event loop today")

    monkeypatch.setattr(Runtime, "_live", dies)
    caplog.set_level(logging.ERROR)
    made = []
    for _ in range(3):
        runtime = current_runtime()
        assert runtime is not None
        runtime._thread.join()
        made.append(runtime)
    assert 3 == len({id(runtime) for runtime in made})
    assert current_runtime() is None
    made[0].soon(lambda _desk: pytest.fail("nobody is there"))
    with pytest.raises(TimeoutError):
        made[0].ask(lambda _desk: None, seconds=0.01)
    assert "no event loop today" in caplog.text
    shut_down()


def test_what_is_asked_of_the_dataspace_may_fail(engines: Engines, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, or raised where somebody waits, and the dataspace lives on."""
    engines.started("compressor")
    runtime = running()
    assert runtime is not None
    runtime.soon(lambda _desk: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        runtime.ask(lambda _desk: 1 / 0)
    assert "has failed" in caplog.text
    assert 7 == runtime.ask(lambda _desk: 7)


def test_an_attribute_that_an_engine_does_not_take(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host does not hear of it, and reads what it has set where the engine has nothing to say."""
    monkeypatch.setattr(Fake, "max_tokens", property(lambda _self: 5), raising=False)
    engine = engines.started(FAKE)
    engine.max_tokens = 9
    assert 5 == engine.max_tokens


def test_the_words_of_the_host() -> None:
    """Where the host is installed its wording is used; ours is near enough where it is not."""
    pytest.importorskip("agent.context_compressor")
    host, ours = host_wording(), Wording()
    assert host.prefix.startswith(ours.prefix)
    assert (host.end, host.prior, host.delimiter) == (ours.end, ours.prior, ours.delimiter)


@pytest.mark.parametrize(
    ("steps", "noticed"),
    [
        ([(100, 50), (140, 50), (160, 50)], True),
        ([(100, 50), (110, 50), (120, 50)], False),
        ([(100, 50), (140, 50)], False),
        ([(100, 50), (140, 60), (180, 70)], False),
        ([(0, 50), (0, 50), (0, 50)], False),
        ([(100, 0), (140, 0), (160, 0)], False),
        ([(0, 50), (100, 50), (140, 50)], True),
    ],
)
def test_a_plateau(steps: list[tuple[int, int]], noticed: bool) -> None:
    """Three readings alike while the estimate has grown by a third; nothing less."""
    plateau = Plateau()
    for estimate, prompt in steps:
        plateau = plateau.read(prompt, estimate)
    assert noticed == plateau.noticed


def test_what_the_command_remembers_is_no_unknown_setting(caplog: pytest.LogCaptureFixture) -> None:
    """`enable` writes it into the block, for `disable`; it changes nothing here."""
    block = {"before": {"engine": "lossless-hermes", "plugins": ["lossless-hermes"]}, "guard": "record"}
    assert read_settings({"context": {"dataspace": block}}) == Settings(guard="record")
    assert "" == caplog.text
