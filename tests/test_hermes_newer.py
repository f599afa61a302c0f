"""The adapter in a newer host, as far as its sources tell; a stand-in, for the verified host is 0.19.0."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from bridges.hermes import plugin
from bridges.hermes.adapter import engine_class
from engines import facts as f
from tests.hermes_adapter.desk import FAKE, Engines, conversation, facts, hosted
from tests.hermes_adapter.fakes import Fake
from tests.hermes_adapter.fixtures import engines
from tests.hermes_adapter.newer import Collector, NewerBase, NewerHost

__all__ = ["engines"]

BOTH = pytest.mark.parametrize("kind", [FAKE, "compressor"])
AT_ONCE = 0.05  # seconds


@pytest.fixture
def newer(engines: Engines) -> Engines:
    """Engines of the newer host's class."""
    engines.prototype = engine_class(NewerBase)()
    return engines


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a compaction waits for that takes too long."""
    opened = threading.Event()
    yield opened
    opened.set()


def host(newer: Engines, *kinds: str, **settings: Any) -> NewerHost:
    """An agent with a conversation that is worth compacting."""
    return NewerHost(newer.started(*kinds, **settings), conversation(60, 9000))


def slowly(gate: threading.Event, calls: list[int]) -> Any:
    """The first compaction waits at the gate; later ones do not.  `calls` is how long the lists were."""

    def plan(self: Fake, messages: Any, _told: Any) -> Any:
        number = len(self.notes)
        calls.append(len(messages))
        if len(calls) == 1:
            gate.wait()
        self.compression_count += 1
        return [messages[0], {"role": "assistant", "content": f"In short, {number}."}, messages[-1]]

    return plan


@BOTH
def test_a_compaction_on_a_thread_of_the_pool(newer: Engines, kind: str) -> None:
    """It is published when the host has taken it over, whichever threads the host calls on."""
    agent = host(newer, kind)
    before = len(str(agent.rows))
    agent.response(150_000)
    assert agent.after_tools()
    assert len(str(agent.rows)) < before
    assert [1] == [fact.ask for fact in facts(f.Compressed, agent.engine)]
    assert ([], 1) == (agent.warnings, agent.engine.compression_count)
    assert not agent.after_tools()  # it waits for a real reading
    agent.response(40_000)
    assert not agent.after_tools()
    assert [] == facts(f.ShouldCompress, agent.engine)


def test_a_pass_that_was_given_up_changes_nothing(newer: Engines, gate: threading.Event) -> None:
    """Its late result is discarded: no fact says that there was a compaction, counters are as before, the next one works."""
    agent = host(newer, FAKE, deadline=60)
    calls: list[int] = []
    Fake.plan = slowly(gate, calls)
    rows = copy.deepcopy(agent.rows)
    agent.response(150_000)
    assert not agent.after_tools(AT_ONCE)
    assert (rows, ["compaction took too long"]) == (agent.rows, agent.warnings)
    gate.set()
    agent.passes[0].join()
    assert 1 == len(agent.discarded)
    agent.response(151_000)  # the host goes on: what was offered to nobody is dropped
    assert [] == facts(f.Compressed, agent.engine)
    assert (0, [], False) == (agent.engine.compression_count, hosted().notes, agent.engine._last_compress_aborted)
    assert agent.after_tools()
    assert "In short, 1." == agent.rows[1]["content"]
    (compressed,) = facts(f.Compressed, agent.engine)
    assert compressed.messages == agent.rows
    assert (1, 2) == (agent.engine.compression_count, len(calls))


def test_called_again_while_the_first_call_still_runs(newer: Engines, gate: threading.Event) -> None:
    """The work under way does for the second call too: the engine is called once, and its one answer is taken once."""
    agent = host(newer, FAKE, deadline=60)
    calls: list[int] = []
    Fake.plan = slowly(gate, calls)
    agent.response(150_000)
    assert not agent.after_tools(AT_ONCE)
    while not calls:
        threading.Event().wait(0.001)
    again = threading.Thread(target=agent.compact)
    again.start()
    agent.passes[0].join()  # it has been told that another call has taken its place
    while not (waiter := agent.engine.seat.cell.waiter) or not waiter.opened:
        threading.Event().wait(0.001)
    gate.set()
    again.join()
    (compressed,) = facts(f.Compressed, agent.engine)
    assert (FAKE, agent.rows) == (compressed.by.partition("#")[0], compressed.messages)
    assert 1 == len(calls)
    assert (1, ["compressed"]) == (agent.engine.compression_count, hosted().notes)


def test_called_again_with_other_messages(newer: Engines, gate: threading.Event) -> None:
    """An engine still at work on another list is not called twice at once: the next is asked, its late result is nobody's."""
    agent = host(newer, FAKE, "compressor", deadline=60)
    calls: list[int] = []
    Fake.plan = slowly(gate, calls)
    agent.response(150_000)
    assert not agent.after_tools(AT_ONCE)
    while not calls:
        threading.Event().wait(0.001)
    agent.rows = [{"role": "user", "content": "Something else first."}, *agent.rows[1:]]
    assert agent.compact()
    gate.set()
    for thread in agent.passes:
        thread.join()
    (compressed,) = facts(f.Compressed, agent.engine)
    assert ("compressor", agent.rows) == (compressed.by.partition("#")[0], compressed.messages)
    assert 1 == len(calls)
    assert (1, []) == (agent.engine.compression_count, hosted().notes)


@BOTH
def test_what_the_host_writes_on_its_engine(newer: Engines, kind: str) -> None:
    """A lock, numbers, a function: they are there for the host, and no copy takes them along."""
    agent = host(newer, kind)
    agent.response(150_000)
    assert agent.after_tools()
    engine = agent.engine
    assert isinstance(engine._compression_attempt_serial_lock, type(threading.Lock()))
    assert (1, 1) == (engine._compression_attempt_generation, engine._compression_working_attempt_generation)
    child = copy.deepcopy(engine)
    assert not {"_compression_attempt_serial_lock", "_compression_cancelled_check"} & vars(child).keys()
    assert (engine.context_length, 0) == (child.context_length, child.compression_count)
    hidden = vars(hosted()) if kind == FAKE else {}
    assert "_compression_attempt_serial_lock" not in hidden


@BOTH
def test_what_the_host_finds_in_the_engine_s_dictionary(newer: Engines, kind: str) -> None:
    """Nothing that it could put back behind the back of what is in charge."""
    agent = host(newer, kind)
    agent.response(150_000)
    assert agent.after_tools()
    shown = {name: getattr(agent.engine, name) for name in ("compression_count", "last_prompt_tokens")}
    assert not shown.keys() & vars(agent.engine).keys()
    for name, value in {"compression_count": 0, "last_prompt_tokens": 17}.items():
        vars(agent.engine)[name] = value  # a restore of what was never there
    assert shown == {name: getattr(agent.engine, name) for name in shown}


def test_more_arguments(newer: Engines) -> None:
    """`bypass_cooldown` reaches an engine that takes it and no other; who bypasses is in trouble, whatever was asked."""
    agent = host(newer, FAKE)
    asked: list[Any] = []

    def plan(_self: Fake, messages: Any, _told: Any) -> Any:
        asked.extend(facts(f.ShouldCompress, agent.engine))
        return [messages[0], {"role": "assistant", "content": "In short."}, messages[-1]]

    Fake.plan = plan
    assert agent.compact(bypass_cooldown=True)
    assert ["overflow"] == [fact.reason for fact in asked]

    class Takes(Fake):
        def compress(self, messages: Any, *, bypass_cooldown: bool = False, **_told: Any) -> Any:
            self.notes.append(str(bypass_cooldown))
            return plan(self, messages, {})

    hosted().__class__ = Takes
    agent.rows = conversation(60, 9000)
    assert agent.compact(bypass_cooldown=True)
    assert "True" == hosted().notes[-1]


@BOTH
def test_optional_methods(newer: Engines, kind: str) -> None:
    """What an engine may have of its own, this one has not: requests and ends of turns are the host's, nothing is pruned."""
    agent = host(newer, kind)
    agent.response(10_000)
    assert not agent.after_tools()
    assert agent.request() is agent.rows
    agent.turn_ended()
    assert 0 == agent.pruned
    for name in (
        "prune_tool_results_only",
        "get_automatic_compaction_status_message",
        "emit_automatic_compaction_status",
    ):
        assert not hasattr(agent.engine, name)
    assert (True, "") == agent.engine.should_compress_info(150_000)
    assert agent.engine.pending_compression_operation([]) is None


def test_methods_of_the_engine_in_charge_are_not_called_past_us(newer: Engines) -> None:
    """A newer built-in may have them: the host would change the messages, and nobody here would know."""
    agent = host(newer, FAKE)
    hosted().prune_tool_results_only = lambda messages, **_told: (messages[:1], 1)  # type: ignore[attr-defined]
    assert not hasattr(agent.engine, "prune_tool_results_only")
    agent.response(10_000)
    assert not agent.after_tools()
    assert 0 == agent.pruned


def test_loaded_by_name_without_hooks(newer: Engines) -> None:
    """Through a collector whose hooks never fire the engine is the same; turns are not told of."""
    collector = Collector()
    kept = plugin._engines[:]
    plugin._engines[:] = [newer.prototype]
    try:
        plugin.register(collector)
    finally:
        plugin._engines[:] = kept
    assert collector.engine is newer.prototype
    agent = NewerHost(newer.started("compressor"), conversation(60, 9000))
    agent.response(150_000)
    assert agent.after_tools()
    assert 1 == len(facts(f.Compressed, agent.engine))
