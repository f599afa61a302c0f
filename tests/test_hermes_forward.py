"""Calls of engines of somebody else: bounded, answered without them where they hang, and made up for when they return."""

from __future__ import annotations

import contextvars
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bridges.hermes import bounded, forward, place, third
from bridges.hermes.bounded import in_time
from bridges.hermes.fields import FIELDS, plausible
from bridges.hermes.forward import MOST_OVERRUNS, Forward, left_running
from bridges.hermes.hosted import Hosted, HostedError
from bridges.hermes.third import MOST_LEFT, EngineNotFoundError, third_party
from engines import facts as f
from tests.hermes_adapter.desk import FAKE, Engines, commit, conversation, facts, hosted
from tests.hermes_adapter.fakes import Fake
from tests.hermes_adapter.fixtures import engines

__all__ = ["engines"]

MOMENT = 0.05
"""Seconds: patience for what never returns."""
LONG = 60.0
"""Seconds: patience for what does."""
NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="nobody")


def waits(condition: Callable[[], Any]) -> None:
    """Wait for something that another thread does."""
    for _ in range(4000):
        if condition():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it did not happen")


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What hangs waits for this; it opens with the end of the test at the latest."""
    opened = threading.Event()
    yield opened
    opened.set()


# -- in time ----------------------------------------------------------------------------------------------------------


def test_a_call_has_its_caller_s_context_variables_and_one_thread() -> None:
    """The variables of whoever calls are there, what it sets stays there, and calls in a row share a thread."""
    NAME.set("robin")

    def call() -> tuple[str, int]:
        was = NAME.get()
        NAME.set("changed")
        return was, threading.get_ident()

    first, second = in_time(call, LONG).result, in_time(call, LONG).result
    assert first == second
    assert "robin" == first[0] == NAME.get()
    assert threading.get_ident() != first[1]


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_what_a_call_raises_comes_back(error: BaseException) -> None:
    """As a value: even an exit ends nothing but the call."""

    def call() -> None:
        raise error

    done = in_time(call, LONG)
    assert (error, False, None) == (done.error, done.overdue, done.result)
    assert 1 == in_time(lambda: 1, LONG).result


def test_an_overdue_call_is_left_behind(gate: threading.Event) -> None:
    """Its caller goes on, `left` is called at that moment and `late` once it returns, in this order."""
    order: list[str] = []
    returned = threading.Event()

    def late() -> None:
        order.append("late")
        returned.set()

    done = in_time(gate.wait, MOMENT, lambda: order.append("left"), late)
    assert (True, ["left"]) == (done.overdue, order)
    assert 2 == in_time(lambda: 2, LONG).result  # another thread
    gate.set()
    assert returned.wait(LONG)
    assert ["left", "late"] == order


def test_an_error_in_what_is_done_late_is_shown(gate: threading.Event, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for it, so the log has it, and the thread is free again."""
    in_time(gate.wait, MOMENT, late=lambda: 1 / 0)
    gate.set()
    waits(lambda: "what was to be done after a late call has failed" in caplog.text)
    waits(lambda: bounded._idle)


def test_an_interrupt_gets_through(gate: threading.Event) -> None:
    """The waiting thread is the user's: an interrupt of it leaves the call behind."""
    left: list[str] = []

    class Interrupted:
        def acquire(self, timeout: float) -> bool:
            raise KeyboardInterrupt

    errand = bounded._Errand(gate.wait, lambda: left.append("left"), lambda: None)
    errand._finished = Interrupted()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        errand.wait(LONG)
    assert ["left"] == left


def test_a_thread_without_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while without anything to do; the next call gets a new one."""
    monkeypatch.setattr(bounded, "_idle", [])
    monkeypatch.setattr(bounded, "IDLE", MOMENT)
    ident = in_time(threading.get_ident, LONG).result
    waits(lambda: not bounded._idle and ident not in {thread.ident for thread in threading.enumerate()})
    assert 1 == in_time(lambda: 1, LONG).result


def test_a_forked_child_has_threads_of_its_own() -> None:
    """What a forked child forgets: the threads that wait for work are the parent's."""
    in_time(lambda: None, LONG)
    guard, waiting = bounded._guard, bounded._idle.copy()
    assert waiting
    bounded._forget()
    assert ([], False) == (bounded._idle, bounded._guard is guard)
    assert 17 == in_time(lambda: 17, LONG).result


# -- forwarding -------------------------------------------------------------------------------------------------------


class Slow:
    """Hangs in `hang` and in the attribute `shown` until its gate opens; writes down what it hears."""

    loud = "class attribute"

    def __init__(self, gate: threading.Event) -> None:
        self.gate = gate
        self.heard: list[Any] = []
        self.plain = "instance attribute"

    def hang(self) -> str:
        self.gate.wait()
        return "at last"

    def hear(self, what: Any) -> None:
        self.heard.append(what)

    def fails(self) -> None:
        raise ValueError("no")

    @property
    def shown(self) -> str:
        self.gate.wait()
        return "shown"

    @property
    def broken(self) -> str:
        raise RuntimeError("no")


def test_a_stuck_engine_is_asked_nothing_and_told_everything(gate: threading.Event) -> None:
    """While a call is overdue others are answered without it; what it should have heard is told in order when it returns."""
    engine = Slow(gate)
    one = Forward("slow", engine, MOMENT)
    before = left_running("slow")
    assert "default" == one.cheap("hang", default="default")
    assert (True, before + 1) == (one.stuck, left_running("slow"))
    one.tell("hear", 1)
    one.tell("hear", 2)
    one.tell("fails")
    one.tell("hear", 3)
    assert (None, [], "nothing") == (one.cheap("hear", 0), engine.heard, one.get("shown", "nothing"))
    assert "instance attribute" == one.get("plain")  # no code of its own runs for that
    gate.set()
    waits(lambda: not one.stuck)
    assert ([1, 2, 3], before) == (engine.heard, left_running("slow"))
    one._patience = LONG
    assert ("at last", "shown") == (one.cheap("hang"), one.get("shown"))


def test_what_a_stuck_engine_is_told_is_bounded(gate: threading.Event) -> None:
    """Of what it has missed the latest is told."""
    one = Forward("slow", Slow(gate), MOMENT)
    one.cheap("hang")
    for at in range(3 * forward.MOST_UNHEARD):
        one.tell("hear", at)
    gate.set()
    waits(lambda: not one.stuck)
    assert list(range(2 * forward.MOST_UNHEARD, 3 * forward.MOST_UNHEARD)) == one.front.heard


def test_who_is_overdue_too_often_is_left_alone(gate: threading.Event) -> None:
    """So that it does not hold the host up again and again; a new session is a new beginning."""
    one = Hosted("slow", Slow(gate), patience=MOMENT)
    for _ in range(MOST_OVERRUNS):
        gate.clear()
        assert one.cheap("hang") is None
        gate.set()
        waits(lambda: not one._overdue)
    assert one.stuck
    one._patience = LONG
    one.lifecycle("on_session_reset")
    assert "at last" == one.cheap("hang")


def test_attributes_of_every_kind(gate: threading.Event, caplog: pytest.LogCaptureFixture) -> None:
    """Plain ones are read at once, computed ones in time; one that fails is not there."""
    one = Forward("slow", Slow(gate), LONG)
    gate.set()
    assert ("class attribute", "instance attribute", "shown") == (one.get("loud"), one.get("plain"), one.get("shown"))
    assert ("none", "none") == (one.get("broken", "none"), one.get("absent", "none"))
    one.set("plain", 2)
    one.set("shown", 3)  # it has no setter
    assert 2 == one.get("plain")
    assert ["failed in broken: RuntimeError: no", "failed in shown: AttributeError"] == [
        text.partition("engine slow ")[2].partition(": property")[0] for text in caplog.messages
    ]
    here = Forward("slow", Slow(gate), None)
    assert ("none", "shown") == (here.get("broken", "none"), here.get("shown"))


def test_attributes_that_run_code() -> None:
    """Whatever an engine computes when it is looked at is computed in time."""

    class Computes:
        def __getattr__(self, name: str) -> Any:
            return threading.get_ident()

    class Watches:
        def __getattribute__(self, name: str) -> Any:
            return threading.get_ident()

    class Slotted:
        __slots__ = ("plain",)

        def __init__(self) -> None:
            self.plain = threading.get_ident()

    for cls in (Computes, Watches):
        assert threading.get_ident() != Forward("x", cls(), LONG).get("anything")
    slotted = Forward("x", Slotted(), LONG)
    assert slotted._readable("plain")
    assert threading.get_ident() == slotted.get("plain")


def test_the_builtin_is_called_on_the_calling_thread() -> None:
    """Without patience a call is made here, and what it raises is answered with the default."""

    class Here:
        def thread(self) -> int:
            return threading.get_ident()

        def fails(self) -> None:
            raise ValueError("no")

    one = Forward("here", Here(), None)
    assert threading.get_ident() == one.cheap("thread")
    assert "default" == one.cheap("fails", default="default") == one.cheap("absent", default="default")
    assert (True, False) == (one.has("thread"), one.has("absent"))


def test_an_engine_gets_lists_of_its_own() -> None:
    """What it changes in them is not changed for anybody else."""

    class Spoils:
        def spoil(self, rows: list[Any], told: dict[str, Any], more: Any = None) -> None:
            rows[0]["content"].append("spoilt")
            rows.clear()
            told.clear()
            more["deep"][0].clear()

    rows, told, more = [{"content": ["kept"]}], {"kept": 1}, {"deep": [[1]]}
    one = Forward("spoils", Spoils(), LONG)
    one.cheap("spoil", rows, told, more=more)
    assert ([{"content": ["kept"]}], {"kept": 1}, {"deep": [[1]]}) == (rows, told, more)
    assert not one._failed


def test_a_key_is_kept_from_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Also where the engine has put it away under a name of its own."""

    class Talks:
        __slots__ = ("mine",)

        def update_model(self, api_key: str) -> None:
            self.mine = api_key
            raise ValueError(f"bad key {api_key}")

    Hosted("talks", Talks(), patience=LONG).lifecycle("update_model", api_key="my-own-secret-key")
    assert "failed in update_model: ValueError: bad key [redacted]" in caplog.text


class Odd:
    """Nobody can do anything with it."""

    def __bool__(self) -> bool:
        raise RuntimeError("perhaps")

    __str__ = __repr__ = __eq__ = __hash__ = __int__ = __float__ = __bool__  # type: ignore[assignment]


class Strange(int):
    """A number that is none."""

    def __int__(self) -> int:
        raise RuntimeError("which one")


@pytest.mark.parametrize("name", sorted(FIELDS))
@pytest.mark.parametrize(
    "value", [None, "many", float("nan"), float("inf"), object(), [], -1, b"many", Odd(), Strange(7), complex(1, 1)]
)
def test_what_the_host_reckons_with_is_a_number(name: str, value: Any) -> None:
    """Whatever an engine says of itself, what the host compares, formats and shows is of the kind that it expects."""
    own = FIELDS[name]
    got = plausible(name, value, own)
    if isinstance(own, bool):
        assert isinstance(got, (bool, int, type(None)))
    elif isinstance(own, (int, float)):
        assert type(got) in {int, float}
        assert abs(got) < 10**9
    elif name == "max_tokens":
        assert got is None or type(got) is int
    else:
        assert got is None or type(got) is str
        assert got == (value if type(value) is str or value is None else own)


def test_numbers_that_are_nearly_right() -> None:
    """A float where an integer is meant is one; a window that no agent starts with is not believed."""
    assert (48_000, int) == ((got := plausible("threshold_tokens", 48_000.7, 1)), type(got))
    assert 128_000 == plausible("context_length", 32_000, 128_000)
    assert 32_000 == plausible("context_length", 32_000, 0)  # nobody knows better
    assert 200_000 == plausible("context_length", 200_000, 128_000)
    assert 0.5 == plausible("threshold_percent", 10**400, 0.5)  # no float holds it
    assert plausible("api_key", len, "") is len  # what is called for a key each time


# -- hosted, in front of the dataspace --------------------------------------------------------------------------------


def crossed(engine: Any) -> bool:
    """A reading above the threshold, and the question of the host."""
    engine.update_from_response({"prompt_tokens": 150_000})
    return bool(engine.should_compress(150_000))


def test_a_verdict_that_never_comes(engines: Engines, gate: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop gives one instead; a compaction says what is wrong; once the engine is back its word counts again."""
    engine = engines.started(FAKE)
    one, forward_one = hosted(), engine.seat.hosted[FAKE]

    def hangs(_tokens: int | None = None) -> bool:
        gate.wait()
        return False

    monkeypatch.setattr(one, "should_compress", hangs)
    engine.update_from_response({"prompt_tokens": 150_000})
    forward_one._patience = MOMENT
    assert engine.should_compress(150_000)
    forward_one._patience = LONG
    rows = conversation()
    assert rows is engine.compress(rows)
    assert engine._last_compress_aborted
    assert f"{FAKE}#" in engine._last_summary_error
    assert engine._last_summary_error.endswith("StillAtWorkError: it has not returned from should_compress")
    engine.update_from_response({"prompt_tokens": 20_000})
    assert 20_000 == engine.last_prompt_tokens  # what is in charge now has heard it
    gate.set()
    waits(lambda: not forward_one.stuck)
    assert ("usage", {"prompt_tokens": 20_000}) == one.heard[-1]
    assert not crossed(engine)  # as it says now
    assert ["holds automatic" in fact.reason for fact in facts(f.Blocked, engine)] == [True]


def test_another_stands_in_for_one_that_hangs(
    engines: Engines, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a second engine in the list the crossing is compacted all the same."""
    engine = engines.started(FAKE, "compressor")
    monkeypatch.setattr(hosted(), "update_from_response", lambda _usage: gate.wait())
    engine.seat.hosted[FAKE]._patience = MOMENT
    assert crossed(engine)
    rows = conversation(60, 9000)
    assert engine.compress(rows, current_tokens=150_000) != rows
    commit(engine)
    assert ["compressor"] == [fact.by.partition("#")[0] for fact in facts(f.Compressed, engine)]


def test_failures_in_a_row_are_one_text(engines: Engines) -> None:
    """The host shows a text once: another failure of the same engine says the same, until one by hand or a success."""
    engine = engines.started(FAKE)
    rows = conversation()
    at = iter(range(100))

    def fails(_self: Fake, _messages: Any, _told: Any) -> Any:
        raise ValueError(f"number {next(at)}")

    Fake.plan = fails
    said = []
    for force in (False, False, False, True, False):
        engine.compress(rows, force=force)
        said.append(engine._last_summary_error.rpartition(" ")[2])
    assert ["0", "0", "0", "3", "3"] == said
    Fake.plan = None
    engine.compress(rows, force=True)
    commit(engine)
    Fake.plan = fails
    engine.compress(rows)
    assert engine._last_summary_error.endswith("number 5")


def test_a_pause_ends_with_its_session(engines: Engines) -> None:
    """B17: what failed in the old session holds nothing back in the new one."""
    engine = engines.started(FAKE)
    Fake.plan = lambda _self, _messages, _told: 1 / 0
    assert crossed(engine)
    engine.compress(conversation())
    assert not crossed(engine)
    engine.on_session_end("s1", [])
    engine.on_session_reset()
    engine.bind_session_state(None, "s2")
    assert crossed(engine)


@pytest.mark.parametrize("answer", [None, "text", 17, {"messages": []}, ({"role": "user", "content": "x"},)])
def test_what_is_no_list_is_a_failure(engines: Engines, answer: Any) -> None:
    """The user is told, as the host alone would have done for nothing at all."""
    engine = engines.started(FAKE)
    Fake.plan = lambda _self, _messages, _told: answer
    rows = conversation()
    assert rows is engine.compress(rows)
    assert "instead of a list of messages" in engine._last_summary_error


def test_called_directly_it_is_bounded_too(
    engines: Engines, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no dataspace the deadline counts too, also for messages that are no JSON."""
    monkeypatch.setattr(place, "current_runtime", lambda: None)
    engine = engines.started(FAKE, deadline=MOMENT)
    Fake.plan = lambda _self, messages, _told: gate.wait() and messages[-1:]
    rows = [*conversation(), {"role": "user", "content": object()}]
    before = left_running(FAKE)
    assert rows is engine.compress(rows)
    assert "OverdueError: it did not answer within 0.05 s" in engine._last_summary_error
    gate.set()
    waits(lambda: left_running(FAKE) == before)
    assert not engine.seat.hosted[FAKE].stuck
    assert [] == hosted().notes


def test_what_was_called_off_before_it_began_is_not_begun() -> None:
    """On a busy machine nobody may wait any more when the thread gets its turn."""
    fake = Fake()
    with pytest.raises(HostedError, match="not begun"):
        Hosted("fake", fake, patience=LONG).compress([], called_off=lambda: True)
    assert [] == fake.heard


def test_an_engine_told_something_while_it_works_hears_it_after(engines: Engines, gate: threading.Event) -> None:
    """Another thread of the host may say something during a compaction: it is heard when that is over."""
    engine = engines.started(FAKE, deadline=LONG)
    begun = threading.Event()

    def works(self: Fake, messages: Any, _told: Any) -> Any:
        begun.set()
        gate.wait()
        return [messages[0], {"role": "assistant", "content": "In short."}, messages[-1]]

    Fake.plan = works
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(engine.compress(conversation())))
    thread.start()
    assert begun.wait(LONG)
    engine.update_model(model="n", context_length=100_000)
    assert ("update_model", "n", 100_000) not in hosted().heard
    gate.set()
    thread.join()
    assert 3 == len(done[0])
    assert ("update_model", "n", 100_000) in hosted().heard


def test_a_call_after_one_that_was_neither_taken_nor_put_back() -> None:
    """Another call came in between: the second begins as the first did, with what has been said since."""
    fake = Fake()
    one = Hosted("fake", fake, patience=LONG)
    rows = conversation()
    one.compress(rows)
    one.lifecycle("on_session_end", "s1", [])
    assert (["compressed"], 1) == (fake.notes, fake.compression_count)
    one.compress(rows)
    assert (["compressed"], 1) == (fake.notes, fake.compression_count)
    assert ["end", "compress"] == [call[0] for call in fake.heard]
    one.put_back()
    assert ([], 0, ["end"]) == (fake.notes, fake.compression_count, [call[0] for call in fake.heard])


def test_tools_of_an_engine_that_is_stuck_stay_known(engines: Engines, gate: threading.Event) -> None:
    """The model is told to try again, not that there is no such tool."""
    engine = engines.started(FAKE)
    assert 2 == len(engine.get_tool_schemas())
    hosted().hang = gate.wait  # type: ignore[attr-defined]
    engine.seat.hosted[FAKE].cheap("hang", seconds=MOMENT)
    assert 2 == len(engine.get_tool_schemas())
    assert "try again later" in json.loads(engine.handle_tool_call("look", {}))["error"]


def test_an_engine_of_which_many_calls_hang_is_left_out() -> None:
    """Each may hold a thread for ever, so no more are made in this process until some return."""
    left_running(FAKE, MOST_LEFT)
    try:
        with pytest.raises(EngineNotFoundError, match="is left out"):
            third_party(FAKE, LONG)
    finally:
        left_running(FAKE, -MOST_LEFT)
    assert isinstance(third_party(FAKE, LONG).front, Fake)
    Fake.made.clear()


def test_an_engine_that_takes_for_ever_to_make(gate: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither this agent nor the next waits for it; other engines can be made meanwhile."""
    monkeypatch.setattr(third, "LOADING", 1)
    monkeypatch.setattr(third, "_prototypes", {})
    monkeypatch.setattr(third, "_found", lambda name: gate.wait() if name == "slow" else Fake())
    for _ in range(2):
        with pytest.raises(EngineNotFoundError, match="could not be made within"):
            third_party("slow", MOMENT)
    assert isinstance(third_party("other", LONG).front, Fake)
    gate.set()
    waits(lambda: left_running("slow") == 0)
    Fake.made.clear()


def test_an_answer_without_an_instance_dictionary_can_be_put_back() -> None:
    """An engine of slots keeps what it has: there is nothing to be written down."""

    class Slotted:
        __slots__ = ()

        def compress(self, _messages: Any) -> Any:
            raise ValueError("no")

    one = Hosted("slotted", Slotted(), patience=LONG)
    with pytest.raises(HostedError, match="no"):
        one.compress([])
    one.put_back()


def test_a_pause_is_told_as_the_host_reads_it(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host takes the seconds that remain for a number."""
    engine = engines.started(FAKE)
    for said, read in (
        ({"remaining_seconds": 12}, {"remaining_seconds": 12.0}),
        ({"remaining_seconds": "long"}, {"remaining_seconds": 0.0}),
        (["later"], None),
        ({}, None),
        (None, None),
    ):
        monkeypatch.setattr(hosted(), "get_active_compression_failure_cooldown", lambda said=said: said, raising=False)
        assert read == engine.get_active_compression_failure_cooldown()
