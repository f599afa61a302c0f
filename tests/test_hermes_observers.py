"""Observers and aides without the host: the table, the settings, what is started for whom, whose turn it is."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from attrs import frozen

from bridges.hermes import blocks, hooks, observers, turns
from bridges.hermes.aides import Aide, Aides, Call, TurnBegun
from bridges.hermes.blocks import boolean, choice, count, names, read_block, seconds, setting, text
from bridges.hermes.runtime import running
from bridges.hermes.settings import Settings, read_settings
from engines import facts as f
from tests.hermes_adapter import watcher
from tests.hermes_adapter.desk import Engines, conversation, facts
from tests.hermes_adapter.fixtures import engines
from tests.hermes_adapter.watcher import HEARD, MADE, NAME, PLAN

__all__ = ["engines"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing was said, heard or made before."""
    monkeypatch.setattr(blocks, "_said", set())
    monkeypatch.setattr(turns, "_turns", type(turns._turns)())
    monkeypatch.setattr(turns, "_open", type(turns._open)())
    watcher.forget()
    yield
    watcher.forget()
    observers._module.cache_clear()


def watched(engines: Engines, session: str = "s1", **settings: Any) -> Any:
    """An engine whose conversation is observed."""
    return engines.started("compressor", session=session, observers=[NAME], **settings)


class Agent:
    """What the host has of an agent, as far as hooks go."""

    def __init__(self, engine: Any) -> None:
        self.context_compressor = engine
        self._current_turn_id = ""

    def turn(self, turn: str, said: str = "", session: str = "s1", **more: Any) -> Any:
        """Begin a turn as the host does: the hook is called by a function that has the agent at hand."""
        agent = self
        agent._current_turn_id = turn
        return hooks._turn_opened(turn_id=turn, session_id=session, user_message=said, **more)


# -- blocks -----------------------------------------------------------------------------------------------------------


@frozen
class Block:
    """All kinds of settings."""

    enabled: bool = setting(True, boolean, "write true or false")
    kind: str = setting("small", choice("small", "large"), "write small or large")
    keep: int = setting(10, count(1), "write a whole number from 1 on")
    wait: float = setting(2.0, seconds, "write a number of seconds above 0")
    where: str = setting("", text, "write a path")
    those: tuple[str, ...] = setting((), names, "write a list of names")
    other: str = "not from the file"


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (None, Block()),
        ({}, Block()),
        (False, Block(enabled=False)),
        ({"enabled": "no", "kind": "large", "keep": 3}, Block(enabled=False, kind="large", keep=3)),
        ({"wait": 1, "where": " /tmp ", "those": "a"}, Block(wait=1.0, where="/tmp", those=("a",))),
    ],
)
def test_a_block_is_read(block: Any, expected: Block, caplog: pytest.LogCaptureFixture) -> None:
    """Each field by its own reader, and what is not given by its default."""
    assert expected == read_block(Block, block, "here.block")
    assert "" == caplog.text


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (
            "yes please",
            "here.block: 'yes please' is ignored; write a block of settings, as in `block: {enabled: true}`",
        ),
        ({"kep": 3}, "here.block: unknown setting kep in config.yaml is ignored; known are enabled, kind, keep"),
        ({"other": "x"}, "unknown setting other"),
        ({"keep": 0}, "here.block.keep: 0 is ignored; write a whole number from 1 on. The default is 10"),
        ({"keep": True}, "here.block.keep: True is ignored"),
        ({"kind": "huge"}, "write small or large. The default is small"),
        ({"kind": ["small"]}, "write small or large"),
        ({"where": "  "}, "write a path"),
        ({"those": ["a#1"]}, "write a list of names. The default is []"),
    ],
)
def test_what_is_wrong_in_a_block_costs_that_one_setting(
    block: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning, once; the default stands in."""
    assert [Block()] * 2 == [read_block(Block, block, "here.block") for _ in range(2)]
    (message,) = caplog.messages
    assert said in message


def test_words_that_belong_there_too_are_not_unknown(caplog: pytest.LogCaptureFixture) -> None:
    """Blocks within a block; and fields that come from elsewhere."""
    assert Block(other="given") == read_block(Block, {"inner": {}}, "here", more=["inner"], other="given")
    assert "" == caplog.text


# -- settings of observers --------------------------------------------------------------------------------------------


@pytest.fixture
def lamp(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An observer of ours with a block of its own."""
    module = ModuleType("tests.lamp")
    module.Options = Block  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tests.lamp", module)
    one = observers.Observer("lamp", "light", "tests.lamp")
    monkeypatch.setattr(observers, "available", lambda: (one,))
    monkeypatch.setattr("bridges.hermes.settings.available", lambda: (one,))
    return module


def read(**block: Any) -> Settings:
    """The settings in a configuration with this block."""
    return read_settings({"context": {"dataspace": block}})


def test_an_observer_has_a_block_of_its_own(lamp: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    """Read by its class; what is configured of it is found by that class, its defaults where nothing is."""
    assert ("lamp",) == read().observers
    assert Block() == read().of(Block)
    assert Block(keep=3) == read(light={"keep": 3}).of(Block)
    assert Block(enabled=False) == read(light=False).of(Block)
    assert "" == caplog.text
    read(light={"keep": "x"})
    assert "context.dataspace.light.keep: 'x' is ignored" in caplog.text


def test_an_observer_without_options_has_no_block(lamp: ModuleType) -> None:
    """Whatever stands there is nobody's."""
    del lamp.Options
    assert () == read(light={"keep": 3}).options


def test_an_observer_that_there_is_not(lamp: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    """Said once, with those that there are; the others serve."""
    assert ("lamp",) == read(observers=["lamp", "lump", "lamp"]).observers == read(observers=["lump", "lamp"]).observers
    assert 1 == len(caplog.messages)
    assert "there is no observer 'lump'; known are lamp" in caplog.text


def test_switched_off_nothing_is_imported(lamp: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    """Observers are for the dataspace, and there is none."""
    assert ("lump",) == read(enabled=False, observers=["lump"]).observers
    assert "" == caplog.text


def test_an_observer_that_cannot_be_loaded(caplog: pytest.LogCaptureFixture) -> None:
    """A module that is none: said once, and the session goes on without it."""
    one = observers.observer("tests.no.such")
    assert one is not None
    assert (None, [], [], None) == (one.options, one.tools(Settings()), one.status(None), one.show(None, ""))  # type: ignore[arg-type]
    assert ["tests.no.such cannot be loaded" in message for message in caplog.messages] == [True]
    assert observers.observer("lump") is None


def test_an_observer_that_fails_to_be_made(lamp: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    """Its error is in the log; nobody else's session is the worse for it."""

    def fails(*_args: Any) -> Any:
        raise OSError("no light")

    lamp.boot = lamp.aide = fails  # type: ignore[attr-defined]
    (one,) = observers.available()
    assert one.boot(Settings(), lambda _sid: None) is None
    assert one.aide(None) is None  # type: ignore[arg-type]
    assert 2 == caplog.text.count("OSError: no light")


# -- engines ----------------------------------------------------------------------------------------------------------


def test_an_observer_starts_with_the_first_that_wants_it(engines: Engines) -> None:
    """Once for all; it hears those that want it, and of nobody else."""
    without = engines.started("compressor", session="s0")
    facts(f.Session)
    assert ([], []) == (watcher.ASKED, HEARD)
    first, second = watched(engines, "s1"), watched(engines, "s2")
    assert 3 == len(facts(f.Session))
    assert ["hermes-dataspace"] == watcher.ASKED
    assert {first.seat.cell.sid, second.seat.cell.sid} == {fact.sid for fact in HEARD}
    assert without.seat.cell.sid not in {fact.sid for fact in HEARD}
    assert [NAME] == [one.engine for one in facts(f.Serving, role="observer")]
    assert [NAME] == second.get_status()["observers"]
    assert [] == without.get_status()["observers"]


@pytest.mark.slow
def test_an_observer_that_crashes_is_started_again(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is supervised; the conversations go on."""
    started: list[int] = []

    def boot(_settings: Settings, _of: Any) -> Any:
        def run(me: Any) -> None:
            started.append(1)
            me.observe(f.Noted, heard=lambda _note: 1 / 0)
            me.publish(f.Serving(me.name, "observer"))

        return run

    monkeypatch.setattr(watcher, "boot", boot)
    engine = watched(engines)
    facts(f.Session)
    engine.seat.cell.say(f.Noted(engine.seat.cell.sid, "x"))
    facts(f.Session)
    runtime = running()
    assert runtime is not None
    assert runtime.alive
    for _ in range(100):
        if len(started) == 2:
            break
        threading.Event().wait(0.05)  # its supervisor pauses for a second
    assert [1, 1] == started
    assert ["active"] == [fact.state for fact in facts(f.Session, engine)]


def test_a_name_that_is_taken_costs_the_observer_only(engines: Engines, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody else has an actor of that name: the log says so, the conversation goes on."""
    engines.started("compressor", session="s0")
    facts(f.Session)
    runtime = running()
    assert runtime is not None
    runtime.ask(lambda desk: desk.me.spawn(lambda me: me.publish(f.Noted("x", "y")), name=f"supervisor of {NAME}"))
    engine = watched(engines)
    assert ["active"] == [fact.state for fact in facts(f.Session, engine)]
    assert "cannot be plugged in" in caplog.text


# -- aides ------------------------------------------------------------------------------------------------------------


def test_an_aide_stands_in_its_conversation(engines: Engines) -> None:
    """It knows whose it is, home and profile among it, and each conversation has one of its own."""
    engine = watched(engines)
    (made,) = MADE
    standing = made.standing
    assert (engine.seat.cell.sid, "s1", "fin", "m", "cli") == (
        standing.sid,
        standing.host_session,
        standing.profile,
        standing.model,
        standing.platform,
    )
    assert "/home/robin/.hermes/profiles/fin" == standing.home
    assert (NAME,) == standing.settings.observers
    engine.on_session_reset()
    assert ("ended", "session_reset") == made.told[-1]
    engine.bind_session_state(None, "s2")
    engine.should_compress(5)
    assert 2 == len(MADE)
    assert "s2" == MADE[1].standing.host_session


def test_what_an_aide_says_comes_in_order_and_not_after_the_end(engines: Engines) -> None:
    """Also its last word, when it is told of the end; and never again."""
    engine = watched(engines)
    (made,) = MADE
    made.standing.say(f.Noted(made.standing.sid, "first"))
    engine.on_session_reset()
    made.standing.say(f.Noted(made.standing.sid, "too late"))
    facts(f.Session)
    assert ["first", "the last word"] == [fact.text for fact in HEARD if isinstance(fact, f.Noted)]
    assert "ended" == HEARD[-1].state


def test_an_aide_reaches_the_dataspace(engines: Engines) -> None:
    """In the order of its calls; where there is none any more, nobody is asked."""
    engine = watched(engines)
    (made,) = MADE
    seen: list[Any] = []
    made.standing.soon(lambda desk, word: seen.append((word, desk is not None)), "here")
    facts(f.Session)
    assert [("here", True)] == seen
    engine.seat.runtime = None
    made.standing.soon(seen.append)
    assert 1 == len(seen)


def test_without_an_aide_there_is_nothing(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """An observer may be an engine alone."""
    monkeypatch.setattr(watcher, "aide", lambda _standing: None)
    engine = watched(engines)
    assert engine.seat.aides is None
    assert "Unknown" in engine.handle_tool_call("note_down", {})
    assert Agent(engine).turn("t1", "Hello") is None


def test_a_tool_of_an_observer(engines: Engines) -> None:
    """It is there before the conversation begins, and acts for its own."""
    engine = engines.bare("compressor", observers=[NAME])
    engine.update_model(model="m", context_length=200_000)
    assert ["note_down"] == [schema["name"] for schema in engine.get_tool_schemas()]
    assert engine.seat.cell is None
    assert "Unknown" in engine.handle_tool_call("note_down", {})
    engine.on_session_start("s7", platform="cli")
    assert {"noted": "s7"} == json.loads(engine.handle_tool_call("note_down", {"text": "x"}, messages=[]))
    assert {"noted": "s7"} == json.loads(engine.handle_tool_call("note_down", None))
    PLAN["handle_tool_call"] = lambda _aide, _name, args: 1 / 0 if args else "plain"
    assert "plain" == engine.handle_tool_call("note_down", {})
    assert {"error": "note_down has failed"} == json.loads(engine.handle_tool_call("note_down", {"text": "y"}))
    assert "Unknown" in engine.handle_tool_call("other", {})


class Says(Aide):
    """Says the same to everything."""

    def __init__(self, word: str | None) -> None:
        self.word = word

    def tool_result(self, call: Call) -> str | None:
        return None if self.word is None else f"{call.result}{self.word}"

    def veto(self, tool: str, args: Any, call_id: str) -> str | None:
        return self.word

    def context(self, turn: TurnBegun) -> str | None:
        return self.word


def test_several_aides_are_one() -> None:
    """Results go from one to the next, the first objection counts, contexts are put together."""
    aides = Aides({"a": Says(None), "b": Says("1"), "c": Aide(), "d": Says("2"), "e": Says(" ")})
    call = Call("read", {}, "c1", "0", "ok")
    assert "012 " == aides.tool_result(call)
    assert "1" == aides.veto("read", {}, "c1")
    assert "1\n\n2" == aides.context(TurnBegun("t", "x"))
    assert ("transform_tool_result", "pre_tool_call") == aides.hooks
    silent = Aides({"a": Says(None), "b": Aide()})
    assert (None, None, None) == (
        silent.tool_result(call),
        silent.veto("read", {}, "c1"),
        silent.context(TurnBegun("t", "")),
    )
    assert () == Aides({"b": Aide()}).hooks
    assert not silent.wants_requests()


def test_an_aide_that_fails_is_shown_once(caplog: pytest.LogCaptureFixture) -> None:
    """Its traceback, the first time; some of these calls come with every tool."""

    class Fails(Aide):
        def veto(self, tool: str, args: Any, call_id: str) -> str | None:
            raise KeyError(tool)

        def wants_requests(self) -> bool:
            raise KeyError("wants")

        def request(self, messages: Any) -> None:
            raise AssertionError("it was not to be shown any")

    caplog.set_level(logging.INFO)
    aides = Aides({"a": Fails()})
    assert [None] * 3 == [aides.veto("read", {}, "c1") for _ in range(3)]
    aides.request([])
    assert ["Fails failed in veto", "Fails failed in wants_requests"] == caplog.messages
    assert "Traceback" in caplog.text


def test_a_plain_aide_does_nothing() -> None:
    """Whatever it is told."""
    aide = Aide()
    for done in (
        *(aide.tool_result(Call("t", {}, "c", "r", "ok")), aide.veto("t", {}, "c"), aide.context(TurnBegun("t", ""))),
        *(aide.request([]), aide.turn_ended("t"), aide.compacted(), aide.rotated("h"), aide.changed(Settings())),  # type: ignore[func-returns-value]
        *(aide.ended(""),),  # type: ignore[func-returns-value]
    ):
        assert done is None
    assert aide.wants_requests() is False
    with pytest.raises(NotImplementedError, match="no tool x"):
        aide.handle_tool_call("x", {}, ())


# -- whose turn it is -------------------------------------------------------------------------------------------------


def texts(kind: type = f.TurnStarted) -> list[tuple[str, str]]:
    """Which conversation has begun (or ended) which turn."""
    facts(f.Session)
    return [(fact.sid, fact.turn) for fact in HEARD if isinstance(fact, kind)]


def test_a_turn_is_the_calling_agents(engines: Engines) -> None:
    """Whatever id the session has, and although another agent under the same one lives beside it."""
    one, other = watched(engines), watched(engines)
    PLAN["context"] = lambda aide, turn: f"for {aide.standing.sid}: {turn.text} {turn.first}"
    sid = other.seat.cell.sid
    assert {"context": f"for {sid}: Hello True"} == Agent(other).turn("t1", "Hello", is_first_turn=True)
    hooks._tool_called(turn_id="t1", tool_name="read", args={"path": "p"}, result="r", tool_call_id="c1")
    hooks._answered(turn_id="t1", assistant_response=[{"type": "text", "text": "Hi."}])
    hooks._turn_ended(turn_id="t1")
    assert [(sid, "t1")] == texts() == texts(f.TurnEnded)
    assert {one.seat.cell.sid, sid} == {fact.sid for fact in HEARD}
    assert ["Hi."] == [fact.text for fact in HEARD if isinstance(fact, f.TurnEnded)]
    assert [("read", '{"path": "p"}', "r")] == [
        (fact.tool, fact.args, fact.result) for fact in HEARD if isinstance(fact, f.ToolCalled)
    ]


def test_a_turn_of_an_agent_with_another_engine_is_nobodys(engines: Engines) -> None:
    """Neither at once nor by a later call on that thread."""
    engine = watched(engines)
    PLAN["context"] = lambda _aide, _turn: "not for you"
    assert Agent(object()).turn("t1", "Hello") is None
    engine.get_active_compression_failure_cooldown()
    hooks._tool_called(turn_id="t1", tool_name="read", result="r")
    assert hooks._tool_wanted(turn_id="t1", tool_name="read") is None
    assert hooks._tool_result(turn_id="t1", result="r") is None
    hooks._turn_ended(turn_id="t1")
    assert [] == texts()


def test_an_agent_that_is_in_another_turn_is_not_the_caller(engines: Engines) -> None:
    """Some function on the way has an agent at hand whose turn this is not."""
    engine = watched(engines)
    PLAN["context"] = lambda _aide, _turn: "not for you"
    agent = Agent(engine)
    agent._current_turn_id = "t0"
    assert hooks._turn_opened(turn_id="t1", session_id="s9") is None
    del agent
    assert [] == texts()


def test_where_nobody_calls_the_next_engine_call_counts(engines: Engines) -> None:
    """On that thread and for that session; what goes with the user's message is too late then."""
    engine, other = watched(engines), watched(engines, session="s2")
    PLAN["context"] = lambda _aide, _turn: "too late"
    assert hooks._turn_opened(turn_id="t1", session_id="s2", user_message="Hello") is None
    engine.get_active_compression_failure_cooldown()
    assert [] == texts()
    other.get_active_compression_failure_cooldown()
    assert [(other.seat.cell.sid, "t1")] == texts()
    assert ["Hello"] == [fact.text for fact in HEARD if isinstance(fact, f.TurnStarted)]


def test_a_turn_without_an_id_is_nobodys(engines: Engines) -> None:
    """There is nothing to tell it by."""
    engine = watched(engines)
    assert hooks._turn_opened(session_id="s1") is None
    engine.get_active_compression_failure_cooldown()
    assert [] == texts()


def test_a_late_tool_of_a_conversation_that_is_over_is_nobodys(engines: Engines) -> None:
    """It belongs to the one that was reset, and its turn may not block in the new one either."""
    engine = watched(engines)
    Agent(engine).turn("t1")
    PLAN["veto"] = lambda *_args: "no"
    assert {"action": "block", "message": "no"} == hooks._tool_wanted(turn_id="t1", tool_name="read", args=None)
    engine.on_session_reset()
    engine.bind_session_state(None, "s2")
    engine.should_compress(5)
    hooks._tool_called(turn_id="t1", tool_name="read", result="r")
    assert hooks._tool_wanted(turn_id="t1", tool_name="read") is None
    facts(f.Session)
    assert [] == [fact for fact in HEARD if isinstance(fact, f.ToolCalled)]


def test_a_turn_of_an_agent_that_is_gone_is_nobodys(engines: Engines) -> None:
    """Its hooks may come later than its end."""
    engine = watched(engines)
    agent = Agent(engine)
    agent.turn("t1")
    seat = engine.seat
    turns._turns["t1"]._seat = lambda: None  # type: ignore[assignment]
    hooks._turn_ended(turn_id="t1")
    hooks._tool_called(turn_id="t1", result="r")
    hooks._child_started(parent_turn_id="t1", child_session_id="s2")
    assert [] == texts(f.TurnEnded)
    assert "t1" == seat.turn


def test_a_child_is_found_by_its_session(engines: Engines) -> None:
    """Only where exactly one agent bears it; the parent is known to the child from then on."""
    parent, child = watched(engines, "the parent"), watched(engines, "the child")
    Agent(parent).turn("t1")
    for session in ("the parent", "nobody", ""):
        hooks._child_started(parent_turn_id="t1", child_session_id=session, child_goal="Nothing.")
    hooks._child_started(parent_turn_id="t0", child_session_id="the child", child_goal="Nothing.")
    hooks._child_started(parent_turn_id="t1", child_session_id="the child", child_goal="Count.")
    facts(f.Session)
    mine, theirs = parent.seat.cell.sid, child.seat.cell.sid
    assert [(mine, theirs, "Count.")] == [
        (fact.sid, fact.child, fact.task) for fact in HEARD if isinstance(fact, f.Delegated)
    ]
    assert [mine] == [fact.parent for fact in facts(f.Session, child)]
    parent.on_session_reset()
    hooks._child_started(parent_turn_id="t1", child_session_id="the child", child_goal="Too late.")
    facts(f.Session)
    assert 1 == sum(isinstance(fact, f.Delegated) for fact in HEARD)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("plain", "plain"),
        (None, ""),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ({"x": 1}, '{"x": 1}'),
        ([1, 2], "1\n2"),
        ({"x": {1, 2}.__class__}, '{"x": "<class \'set\'>"}'),
    ],
)
def test_what_a_host_says_is_text(value: Any, said: str) -> None:
    """Whatever form it has."""
    assert said == hooks._text(value)


def test_switched_off_nothing_is_told(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kill switch: hooks find nobody."""
    monkeypatch.setenv("HERMES_DATASPACE", "off")
    engine = engines.bare("compressor", observers=[NAME])
    monkeypatch.setattr(type(engine.seat), "_make_one", lambda *_args: True)
    engine.update_model(model="m", context_length=200_000)
    assert engine.seat.alone
    assert Agent(engine).turn("t1", "Hello") is None
    hooks._tool_called(turn_id="t1", result="r")
    hooks._turn_ended(turn_id="t1")
    assert ([], []) == (engine.get_tool_schemas(), engine.get_status()["observers"])
    assert running() is None


def test_no_hook_waits_for_the_dataspace(engines: Engines) -> None:
    """Its thread is held all the while; what was told meanwhile comes afterwards, in order."""
    engine = watched(engines)
    facts(f.Session)
    runtime = running()
    assert runtime is not None
    HEARD.clear()
    held = threading.Event()
    runtime.soon(lambda _desk: held.wait(20))
    Agent(engine).turn("t1", "Hello")
    for at in range(5):
        hooks._tool_called(turn_id="t1", tool_name="read", tool_call_id=f"c{at}", args={}, result="r", duration_ms=2)
    engine.update_from_response({"prompt_tokens": 160_000})
    engine.should_compress(160_000)
    hooks._turn_ended(turn_id="t1")
    assert [] == HEARD
    held.set()
    facts(f.Session)
    assert ["TurnStarted", *["ToolCalled"] * 5, "ShouldCompress", "TurnEnded"] == [
        type(fact).__name__ for fact in HEARD
    ]
    assert [0.002] * 5 == [fact.seconds for fact in HEARD if isinstance(fact, f.ToolCalled)]


def test_tools_of_many_threads_each_in_their_order(engines: Engines) -> None:
    """None is lost, none is told twice, and what one thread says comes as it said it; two agents at once."""
    agents = [watched(engines, session) for session in ("s1", "s2")]
    for engine, turn in zip(agents, ("t1", "t2"), strict=True):
        Agent(engine).turn(turn)
    begin = threading.Barrier(8)

    def work(number: int) -> None:
        begin.wait(10)
        for at in range(100):
            hooks._tool_called(
                turn_id=f"t{number % 2 + 1}", tool_name="read", tool_call_id=f"{number}:{at}", result="r"
            )

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    facts(f.Session)
    called = [(fact.sid, *map(int, fact.call_id.split(":"))) for fact in HEARD if isinstance(fact, f.ToolCalled)]
    assert 800 == len(called)
    for number in range(8):
        mine = [(sid, at) for sid, by, at in called if by == number]
        assert [(agents[number % 2].seat.cell.sid, at) for at in range(100)] == mine


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_another_provider_is_told(engines: Engines) -> None:
    """The host switches model or falls back: the session says who runs it now."""
    engine = watched(engines)
    engine.update_model(model="m", context_length=200_000, provider="q")
    engine.update_model(model="n", context_length=200_000)
    assert [("n", "q")] == [(fact.model, fact.provider) for fact in facts(f.Session, engine)]


def test_the_environment_names_the_profile(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the home does; an empty name is none."""
    monkeypatch.setenv("AGENT_PROFILE", "night shift")
    assert ["night shift"] == [fact.profile for fact in facts(f.Session, watched(engines))]
    monkeypatch.setenv("AGENT_PROFILE", "")
    assert ["fin"] == [fact.profile for fact in facts(f.Session, watched(engines, "s2"))]


def test_without_a_home_there_is_none(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that cannot say where it lives."""

    def nowhere() -> Any:
        raise ImportError("no host")

    monkeypatch.setattr("bridges.hermes.place.home", nowhere)
    monkeypatch.delenv("AGENT_PROFILE", raising=False)
    monkeypatch.delenv("HERMES_HOME", raising=False)
    engine = engines.bare("compressor", observers=[NAME])
    engine.update_model(model="m", context_length=200_000)
    engine.on_session_start("s1")
    assert [(None, "default")] == [(fact.home, fact.profile) for fact in facts(f.Session, engine)]


@pytest.mark.parametrize("first", ["end", "finalize"])
@pytest.mark.parametrize(
    ("reason", "ended"),
    [
        ("session_boundary", "session_reset"),
        ("new_session", "session_reset"),
        ("shutdown", "session_end"),
        ("", "session_end"),
    ],
)
def test_the_second_of_two_ends_ends_it(engines: Engines, first: str, reason: str, ended: str) -> None:
    """Messages may be handed over before or after the host says that it is over for good; they are known at the end."""
    engine = watched(engines, "ending")
    sid = engine.seat.cell.sid
    told = {
        "end": lambda: engine.on_session_end("ending", conversation(2, 10)),
        "finalize": lambda: hooks._finalized(session_id="ending", reason=reason),
    }
    told.pop(first)()
    assert ["active"] == [fact.state for fact in facts(f.Session, sid=sid)]
    (then,) = told.values()
    then()
    assert [("ended", ended)] == [(fact.state, fact.ended) for fact in facts(f.Session, sid=sid)]
    assert [0, 7] == [len(fact.messages) for fact in HEARD if isinstance(fact, f.Transcript)]


def test_the_end_of_another_session_tells_nothing(engines: Engines) -> None:
    """A review ends its parent's session on its own engine; nor does a list without messages."""
    engine = watched(engines, "mine")
    engine.on_session_end("yours", conversation(2, 10))
    engine.on_session_end("mine", [])
    hooks._finalized(session_id="yours")
    facts(f.Session)
    assert [0] == [len(fact.messages) for fact in HEARD if isinstance(fact, f.Transcript)]
    assert ["active"] == [fact.state for fact in facts(f.Session, engine)]


def test_messages_that_are_no_json_are_not_told(engines: Engines) -> None:
    """The session ends all the same."""
    engine = watched(engines, "odd")
    sid = engine.seat.cell.sid
    engine.on_session_end("odd", [{"role": "user", "content": object()}])
    hooks._finalized(session_id="odd")
    assert ["session_end"] == [fact.ended for fact in facts(f.Session, sid=sid)]
    assert [0] == [len(fact.messages) for fact in HEARD if isinstance(fact, f.Transcript)]


def test_a_compaction_is_no_end(engines: Engines) -> None:
    """The host says one at each, with the messages that it handed over: nothing is told twice."""
    engine = watched(engines, "long")
    engine.compress(conversation(60, 12_000), current_tokens=160_000)
    before = [fact.rev for fact in facts(f.Transcript, engine)]
    engine.on_session_end("long", conversation(60, 12_000))
    assert before == [fact.rev for fact in facts(f.Transcript, engine)]


# -- the host's hooks -------------------------------------------------------------------------------------------------


class Manager:
    """As far as hooks go."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Any]] = {}


class Context:
    """A plugin context."""

    def __init__(self) -> None:
        self._manager = Manager()

    def register_hook(self, name: str, hook: Any) -> None:
        self._manager._hooks.setdefault(name, []).append(hook)


def test_hooks_that_cost_are_registered_when_they_are_needed(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the first aide that does such a thing; again after the host has forgotten all hooks; once each."""
    monkeypatch.setattr(hooks, "host_context", [None])
    monkeypatch.setattr(hooks, "_registered", set())
    monkeypatch.setattr(hooks, "_needed", set())
    context = Context()
    hooks.register_hooks(context)
    assert not {"transform_tool_result", "pre_tool_call", "pre_api_request"} & set(context._manager._hooks)
    watched(engines)
    watched(engines, session="s2")
    assert {"transform_tool_result", "pre_tool_call"} < set(context._manager._hooks)
    assert all(1 == len(those) for those in context._manager._hooks.values())
    again = Context()
    hooks.register_hooks(again)
    assert context._manager._hooks.keys() == again._manager._hooks.keys()


def test_the_hook_for_requests_goes_when_nobody_wants_them(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before: another agent may still want some."""
    monkeypatch.setattr(hooks, "host_context", [None])
    monkeypatch.setattr(hooks, "_registered", set())
    context = Context()
    hooks.register_hooks(context)
    engine, other = watched(engines), watched(engines, session="s2")
    wants = {engine.seat.cell.sid, other.seat.cell.sid}
    PLAN["wants_requests"] = lambda aide: aide.standing.sid in wants
    PLAN["request"] = lambda aide, _count: wants.discard(aide.standing.sid)
    there = context._manager._hooks
    Agent(engine).turn("t1")
    Agent(other).turn("t2")
    assert 1 == len(there["pre_api_request"])
    (hook,) = there["pre_api_request"]
    hook(turn_id="t1", request_messages=[{}, {}])
    assert [hook] == there["pre_api_request"]
    hook(turn_id="t0", request_messages=[])
    hook(turn_id="t2", request_messages=[{}])
    assert [] == there["pre_api_request"]
    hooks.watch_requests(False)
    wants.add(other.seat.cell.sid)
    assert "r" == (hooks._tool_result(turn_id="t2", tool_name="read", result="r") or "r")
    assert [hook] == there["pre_api_request"]


def test_a_host_that_keeps_its_hooks_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the hook stays and asks nobody anything."""
    monkeypatch.setattr(hooks, "host_context", [None])
    monkeypatch.setattr(hooks, "_registered", {"pre_api_request"})
    hooks._withdraw("pre_api_request")
    assert {"pre_api_request"} == hooks._registered
