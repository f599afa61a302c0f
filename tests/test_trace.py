"""`dataspace.trace`: a record says what was done, who was told and why, and gives back what stands."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import ExitStack
from decimal import Decimal
from itertools import count
from time import monotonic
from typing import Any

import pytest
import trio
from attrs import evolve, field, frozen
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.measure import calls
from dataspace import CAPTURE, Crashed, Dataspace, Facet, Observe, _trace_parts, open_dataspace, where
from dataspace.trace import (
    Action,
    Opaque,
    Recording,
    Told,
    Turn,
    dump_turns,
    load_turns,
    recording,
    standing,
    why,
)
from dataspace.wire import Wire, WireError
from engines.messages import Messages
from engines.wire import vocabulary_wire
from tests.bisim.test_space import ACTORS, P, Q, Real, programs, real_pattern


@frozen
class Ping:
    n: int
    note: Any = field(default=None, eq=False)


@frozen
class Pong:
    n: int


@frozen
class Secret:
    """A class that no vocabulary has here."""

    n: int


class Seconds(float):
    """A float of a class of its own, as some clocks give."""


WIRE = Wire([Ping, Pong, P, Q, Observe, Crashed])


def quiet(*_args: object) -> None:
    """Take no notice."""


def echo(me: Facet) -> None:
    """An actor that publishes a `Pong` while a `Ping` stands."""
    me.during(Ping, lambda inner, ping: inner.publish(Pong(ping.n)))


def by_class(facts: Any) -> dict[type, list[Any]]:
    """Facts with their readings, in order, class by class."""
    sorted_: dict[type, list[Any]] = {}
    for fact in facts:
        sorted_.setdefault(type(fact), []).append((fact, getattr(fact, "r", None), getattr(fact, "note", None)))
    return sorted_


def standing_in(ds: Any) -> dict[type, list[Any]]:
    """What stands in a dataspace."""
    core = getattr(ds, "_core", ds)
    return by_class(fact for cls in list(core._indexes) for fact in core.facts(cls))


# -- what is recorded -------------------------------------------------------------------------------------------------


def test_a_turn_says_who_did_what_why_and_who_was_told() -> None:
    """The whole record of one publication and what it causes, as plain data."""
    ds = Dataspace()
    ds.spawn(echo, name="echo")
    a, b = ds.actor("a"), ds.actor("b")
    b.observe(where(Pong, n=CAPTURE), quiet, quiet)
    with recording(ds) as turns:
        handle = a.publish(Ping(1))
        a.send(Pong(7))
        a.retract(handle)
    first, published, ponged, sent, retracted, gone = turns
    assert ("", None, ()) == (first.actor, first.cause, first.told)
    ping = published.actions[0].handle
    assert published == Turn(
        first.n + 1, None, "a", (Action("publish", Ping(1), ping),), (Told("appeared", ("echo",), (Ping(1),)),)
    )
    pong = ponged.actions[0].handle
    assert ponged == Turn(
        first.n + 2, published.n, "echo", (Action("publish", Pong(1), pong),), (Told("appeared", ("b",), (1,)),)
    )
    assert sent == Turn(first.n + 3, None, "a", (Action("send", Pong(7)),), (Told("heard", ("b",), (7,)),))
    assert (None, (Action("retract", Ping(1), ping),)) == (retracted.cause, retracted.actions)
    assert (Action("stop", "lifetime"), Action("retract", Pong(1), pong)) == gone.actions
    assert retracted.n == gone.cause


def test_all_kinds_of_action_are_told() -> None:
    """Interest by its pattern, actors by their names; of what has no plain form only that it was."""
    ds = Dataspace()
    a = ds.actor("a")
    with recording(ds) as turns:
        with a.turn():
            handle = a.observe(Ping, quiet)
            a.on_stop(quiet)
            a.later(quiet)
            a.spawn(echo, name="e")
            a.retract(handle)
        a.stop()
    assert [("observe", where(Ping)), ("note", None), ("later", None), ("spawn", "e"), ("unobserve", where(Ping))] == [
        (action.name, action.what) for action in turns[0].actions
    ]
    assert turns[0].actions[0].handle == turns[0].actions[4].handle
    assert ("a", (Action("stop", "actor"),)) == (turns[-1].actor, turns[-1].actions)


def test_a_crash_is_a_turn_of_its_own() -> None:
    """R3: what an actor held goes, newest first, with the fact that tells of it; its failed turn leaves nothing else."""
    ds = Dataspace(on_crash=quiet)

    def boot(me: Facet) -> None:
        me.publish(Pong(1))
        me.publish(Pong(2))

        def fail(_ping: Ping) -> None:
            me.publish(Pong(3))
            raise ValueError("bad")

        me.observe(Ping, fail)

    with recording(ds) as turns:
        ds.spawn(boot, name="w")
        a = ds.actor("a")
        a.publish(Ping(1))
    crash = turns[-1]
    assert "w" == crash.actor
    assert [turn.n for turn in turns if turn.actor == "a"] == [crash.cause]
    assert ["unobserve", "retract", "retract", "crash"] == [action.name for action in crash.actions]
    assert [where(Ping), Pong(2), Pong(1), Crashed("w", "ValueError: bad", 1)] == [a.what for a in crash.actions]
    assert standing_in(ds) == by_class(standing(turns))


def test_a_callback_that_does_nothing_is_no_turn() -> None:
    """That it was told is in the record of the turn before; a message that nobody hears is a turn without news."""
    ds = Dataspace()
    a = ds.actor("a")
    ds.actor("b").observe(Ping, heard=quiet)
    with recording(ds) as turns:
        a.send(Ping(1))
        a.send(Pong(1))
        with a.turn():
            pass
    assert [(Told("heard", ("b",), (Ping(1),)),), ()] == [turn.told for turn in turns[1:]]


def test_a_clock_says_when() -> None:
    """Without a clock there is no time in a record; with one, each turn has its own."""
    ds = Dataspace()
    a = ds.actor("a")
    times = iter([1.0, 2.5, 3.0])
    with recording(ds, clock=lambda: next(times)) as timed, recording(ds) as plain:
        a.send(Ping(1))
        a.send(Ping(2))
        a.publish(Ping(3))
    assert ([1.0, 2.5, 3.0], [None] * 3) == ([turn.at for turn in timed], [turn.at for turn in plain])


def test_a_record_of_what_stands_already_begins_with_it() -> None:
    """Counted by who stands behind it, at the time of the first turn; an empty dataspace has no such turn."""
    ds = Dataspace()
    a, b = ds.actor("a"), ds.actor("b")
    with recording(ds) as empty:
        pass
    a.publish(Ping(1))
    b.publish(Ping(1))
    a.publish(Pong(1))
    with recording(ds, clock=lambda: 5.0) as turns:
        a.stop()
        assert [Ping(1)] == [fact for fact in standing(turns) if type(fact) is Ping]
        b.stop()
    assert (0, "", 5.0) == (len(empty), turns[0].actor, turns[0].at)
    assert [Action("publish", Ping(1))] * 2 + [Action("publish", Pong(1))] == list(turns[0].actions)
    assert () == standing(turns)


def test_the_facts_of_a_record_do_not_change() -> None:
    """R10: readings that come later are not read into earlier turns; the newest are what stands."""
    ds = Dataspace()
    a, b = ds.actor("a"), ds.actor("b")
    with recording(ds) as turns:
        handle = a.publish(Ping(1, note="old"))
        handle = a.replace(handle, Ping(1, note="new"))
        other = b.publish(Ping(1, note="newest"))
        b.retract(other)
    said = [(action.name, action.what.note) for turn in turns for action in turn.actions]
    assert [
        ("publish", "old"),
        ("publish", "new"),
        ("retract", "old"),
        ("publish", "newest"),
        ("retract", "newest"),
    ] == said
    assert [Ping(1)] == list(standing(turns))
    assert ds.facts(Ping)[0].note == standing(turns)[0].note == "newest"


def test_a_turn_of_many_actions_is_recorded_whole() -> None:
    """In order, each with its handle; what is told of each follows."""
    ds = Dataspace()
    a = ds.actor("a")
    ds.actor("b").observe(Ping, quiet)
    with recording(ds) as turns, a.turn():
        handles = [a.publish(Ping(n)) for n in range(2_000)]
    turn = turns[-1]
    assert [("publish", Ping(n), handle.age) for n, handle in enumerate(handles)] == [
        (action.name, action.what, action.handle) for action in turn.actions
    ]
    assert [Ping(n) for n in range(2_000)] == [told.args[0] for told in turn.told]


def test_the_newest_hundred_crashes_stand_in_a_record_too() -> None:
    """R3: wherever the recording begins, the oldest crash is let go of when the 101st comes."""
    ds = Dataspace(on_crash=quiet)

    def crash() -> None:
        def boot(_me: Facet) -> None:
            raise ValueError

        ds.spawn(boot)

    for _ in range(60):
        crash()
    with recording(ds) as turns:
        for _ in range(80):
            crash()
    assert 100 == len(ds.facts(Crashed))
    assert standing_in(ds) == by_class(standing(turns))


# -- under any script -------------------------------------------------------------------------------------------------

scripts = st.lists(st.tuples(st.integers(0, len(ACTORS) - 1), programs, st.booleans()), min_size=1, max_size=6)


def check_forest(turns: Recording) -> None:
    """Numbers rise, and each cause is an earlier turn that told the actor something or asked for a turn."""
    by_number: dict[int, Turn] = {}
    for turn in turns:
        assert not by_number or turn.n > max(by_number)
        if turn.cause is not None and turn.cause in by_number:
            cause = by_number[turn.cause]
            told = {name for news in cause.told for name in news.to}
            assert turn.actor in told or {"later", "spawn"} & {action.name for action in cause.actions}
            chain = why(turns, turn.n)
            assert (turn, cause) == (chain[-1], chain[-2])
            assert [link.n for link in chain[:-1]] == [link.cause for link in chain[1:]]
        elif turn.cause is not None:
            assert turn.cause < turns[0].n
        by_number[turn.n] = turn


@given(scripts, scripts)
def test_any_record_gives_back_what_stands(before: Any, recorded: Any) -> None:
    """Facts, interest and crashes, with readings and in order, after every script; causes form a forest."""
    real = Real(Dataspace, real_pattern)
    for script in before:
        real.outside(*script)
    with recording(real.ds) as turns:
        for script in recorded:
            real.outside(*script)
            assert standing_in(real.ds) == by_class(standing(turns))
    check_forest(turns)
    loaded = list(load_turns(list(dump_turns(turns, WIRE)), WIRE))
    assert list(turns) == loaded
    assert by_class(standing(turns)) == by_class(standing(loaded))


@given(scripts)
def test_recording_changes_nothing(recorded: Any) -> None:
    """All that can be seen of a dataspace is the same with and without."""
    plain, watched = Real(Dataspace, real_pattern), Real(Dataspace, real_pattern)
    with recording(watched.ds):
        for script in recorded:
            plain.outside(*script)
            watched.outside(*script)
    assert plain.log == watched.log


# -- why --------------------------------------------------------------------------------------------------------------


def test_why_is_the_chain_from_outside_in() -> None:
    """Each link was caused by the one before; what came from outside is a chain of one."""
    ds = Dataspace()
    a, b, c = ds.actor("a"), ds.actor("b"), ds.actor("c")
    b.observe(Ping, heard=lambda ping: b.send(Pong(ping.n)))
    c.observe(Pong, heard=lambda pong: c.later(lambda: c.send(Secret(pong.n))))
    with recording(ds) as turns:
        a.send(Ping(1))
        a.send(Ping(2))
    chain = why(turns, turns[-1].n)
    assert ["a", "b", "c", "c"] == [turn.actor for turn in chain]
    assert [Ping(2), Pong(2), None, Secret(2)] == [turn.actions[0].what for turn in chain]
    assert (turns[1],) == why(turns, turns[1].n)
    with pytest.raises(KeyError):
        why(turns, 10**6)


# -- on, off, several -------------------------------------------------------------------------------------------------


def test_off_nothing_is_recorded_and_nothing_is_left() -> None:
    """After the block the dataspace is as it was, also after an exception in it, and a second `end` does nothing."""
    ds = Dataspace()
    a = ds.actor("a")
    with pytest.raises(ZeroDivisionError), recording(ds) as turns:
        a.send(Ping(1))
        raise ZeroDivisionError
    turns.end()
    a.send(Ping(2))
    assert 1 == len(turns)
    assert "_release" not in vars(ds)
    assert not ds._wrapped


def test_recordings_of_one_dataspace_agree() -> None:
    """Nested or overlapping, each has the turns of its own time, under the same numbers and with the same causes."""
    ds = Dataspace()
    ds.spawn(echo, name="echo")
    a = ds.actor("a")
    a.send(Ping(0))
    outer = recording(ds)
    with ExitStack() as inner:
        first = outer.__enter__()
        a.publish(Ping(1))
        second = inner.enter_context(recording(ds))
        a.publish(Ping(2))
        outer.__exit__(None, None, None)  # the older one ends first
        a.publish(Ping(3))
    a.publish(Ping(4))
    assert [Ping(1), Pong(1), Ping(2), Pong(2)] == [turn.actions[0].what for turn in first[1:]]
    assert [Ping(2), Pong(2), Ping(3), Pong(3)] == [turn.actions[0].what for turn in second[1:]]
    assert first[3:] == second[1:3]
    assert "_release" not in vars(ds)
    with recording(ds) as third:
        a.publish(Ping(5))
    assert third[0].n > second[-1].n


def test_a_recording_can_begin_within_a_turn() -> None:
    """The turn that is open then is the first; what caused it is not in the record."""
    ds = Dataspace()
    a, b = ds.actor("a"), ds.actor("b")
    stack = ExitStack()

    def heard(_ping: Ping) -> None:
        records.append(stack.enter_context(recording(ds)))
        b.send(Pong(1))

    records: list[Recording] = []
    b.observe(Ping, heard=heard)
    a.send(Ping(1))
    stack.close()
    (turns,) = records
    assert ("b", None, Pong(1)) == (turns[-1].actor, turns[-1].cause, turns[-1].actions[0].what)


@pytest.mark.parametrize("clock", [None, count(1.5).__next__])
def test_a_record_can_be_taken_away_while_it_grows(clock: Callable[[], float] | None) -> None:
    """`take` gives what there is and forgets it; numbers, causes and times go on."""
    ds = Dataspace()
    ds.spawn(echo, name="echo")
    a = ds.actor("a")
    with recording(ds, clock=clock) as turns:
        a.publish(Ping(1))
        taken = turns.take()
        assert (3, 0, ()) == (len(taken), len(turns), turns.take())
        a.publish(Ping(2))
        assert (taken[-1].n + 1, turns[0].n) == (turns[0].n, turns[1].cause)
        assert turns[0:2] == tuple(turns)
        times = [turn.at for turn in (*taken, *turns)]
        assert ([None] * 5 if clock is None else [1.5, 2.5, 3.5, 4.5, 5.5]) == times


async def test_a_dataspace_under_trio_is_recorded_too() -> None:
    """Tasks act in turns like everybody; what a task does comes from outside."""
    async with open_dataspace() as ds:

        async def boot(me: Facet) -> None:
            me.publish(Ping(1))
            await trio.sleep_forever()

        with recording(ds) as turns:
            ds.actor("b").observe(Ping, quiet)
            actor = await ds.spawn(boot, name="w")
            assert standing_in(ds) == by_class(standing(turns))
            await actor.stop()
        assert standing_in(ds) == by_class(standing(turns))
    said = [(turn.actor, action.name) for turn in turns for action in turn.actions]
    assert ("w", "task") in said
    assert ("w", "publish") in said
    assert said[-2:] == [("w", "stop"), ("w", "retract")]


# -- JSON lines -------------------------------------------------------------------------------------------------------


def some_turns() -> tuple[Turn, ...]:
    """Turns with values that the vocabulary knows, and some that it does not."""
    ds = Dataspace(on_crash=quiet)
    a = ds.actor("a")
    ds.actor("b").observe(Secret, quiet)
    with recording(ds, clock=lambda: 1.5) as turns:
        a.publish(Ping(1, note=(1.5, b"\xff")))
        a.observe(where(Ping, n=CAPTURE), quiet)
        a.publish(Secret(1))
        a.publish(Ping(2, note=1j))
    return tuple(turns)


def test_a_trace_file_reads_back() -> None:
    """A header and one turn a line; what the vocabulary has no words for is kept as text, and stays that."""
    turns = some_turns()
    lines = list(dump_turns(turns, WIRE))
    assert {"trace": "hermes-dataspace trace", "version": 2} == json.loads(lines[0])
    assert len(turns) + 1 == len(lines)
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
    loaded = list(load_turns([*lines, "\n", ""], WIRE))
    assert turns[1:3] == tuple(loaded[1:3])
    assert (1.5, b"\xff") == loaded[1].actions[0].what.note
    assert Opaque("Secret(n=1)") == loaded[3].actions[0].what == loaded[3].told[0].args[0]
    assert Opaque("Ping(n=2, note=1j)") == loaded[4].actions[0].what
    assert lines == list(dump_turns(loaded, WIRE))
    assert len(standing(turns)) == len(standing(loaded))


def test_a_pattern_over_other_classes_does_not_spoil_a_file() -> None:
    """Interest in a class outside of the vocabulary is kept as text, and the file can be read."""
    ds = Dataspace()
    with recording(ds) as turns:
        ds.actor("a").observe(where(Secret, n=1), quiet)
    (turn,) = load_turns(dump_turns(turns, Wire([Ping])), Wire([Ping]))
    assert (Action("observe", Opaque("where(Secret, n=1)"), turn.actions[0].handle),) == turn.actions


@pytest.mark.parametrize("at", [math.inf, -math.inf, math.nan, True, "noon", Decimal(1)])
def test_a_clock_that_gives_no_number_is_named_when_the_trace_is_written(at: Any) -> None:
    """Recording goes on, for it must not disturb; the line it would spoil is refused, and says what to give instead."""
    ds = Dataspace()
    a = ds.actor("a")
    times = iter([1.0, at])
    with recording(ds, clock=lambda: next(times)) as turns:
        a.send(Ping(1))
        a.send(Ping(2))
    lines = dump_turns(turns, WIRE)
    assert [None, 1.0] == [json.loads(line).get("at") for line in (next(lines), next(lines))]
    with pytest.raises(
        WireError, match=r"is no time; the clock given to recording\(ds, clock=\.\.\.\) has to"
    ) as caught:
        next(lines)
    assert "$line 3.at" == caught.value.path


@pytest.mark.parametrize("at", [None, 0, -7, 10**30, 1.5, -0.0, Seconds(2.5)])
def test_whatever_number_a_clock_gives_reads_back(at: Any) -> None:
    """Whole numbers and others, and those of classes that are floats."""
    turn = Turn(1, None, "a", (), (), at)
    assert [turn] == list(load_turns(dump_turns([turn], WIRE), WIRE))


def test_what_json_cannot_hold_is_named_too() -> None:
    """A whole number with more digits than Python reads is refused with the line that it would stand in."""
    turn = Turn(1, None, "a", (Action("send", Ping(10**5_000)),), ())
    with pytest.raises(WireError, match=r"^\$line 2: this cannot be written as JSON: "):
        list(dump_turns([turn], WIRE))


LINE = {
    "n": 1,
    "cause": None,
    "actor": "a",
    "at": None,
    "actions": [["publish", 1, {"fact": "Ping", "n": 1, "note": 0}]],
    "told": [["heard", ["b"], [1]]],
}


@pytest.mark.parametrize(
    ("changes", "path", "problem"),
    [
        ({"n": "1"}, ".n", "a whole number is wanted"),
        ({"n": True}, ".n", "a whole number is wanted"),
        ({"cause": 1.0}, ".cause", "a whole number is wanted"),
        ({"actor": None}, ".actor", "a string is wanted"),
        ({"at": "now"}, ".at", "a number with a point is wanted"),
        ({"at": float("nan")}, ".at", ""),
        ({"actions": {}}, ".actions", "a list is wanted"),
        ({"actions": [["publish", 1]]}, ".actions[0]", "a list of 3 is wanted here, not a list of 2"),
        ({"actions": ["abc"]}, ".actions[0]", "a list of 3 is wanted here, not a string"),
        ({"actions": [["note", None, None], ["shout", 1, 1]]}, ".actions[1][0]", "one of crash, later, note, "),
        ({"actions": [[["publish"], 1, 1]]}, ".actions[0][0]", "one of"),
        ({"actions": [["publish", "1", 1]]}, ".actions[0][1]", "a whole number is wanted"),
        ({"actions": [["publish", 1, {"fact": "Ping", "n": "1", "note": 0}]]}, ".actions[0][2].n", "a whole number"),
        ({"actions": [["publish", 1, {"opaque": 1}]]}, ".actions[0][2].opaque", "a string is wanted"),
        ({"told": [["came", [], []]]}, ".told[0][0]", "one of appeared, heard, vanished is wanted"),
        ({"told": [["heard", "ab", []]]}, ".told[0][1]", "a list is wanted here, not a string ('ab')"),
        ({"told": [["heard", ["a", 1], []]]}, ".told[0][1][1]", "a string is wanted"),
        ({"told": [["heard", [], [0, {}]]]}, ".told[0][2][1]", "an object here has one key"),
        ({"more": 1}, "", "a turn is an object with the keys n, cause, actor, at, actions, told"),
    ],
)
def test_a_line_that_is_no_turn_is_refused_with_its_place(changes: Any, path: str, problem: str) -> None:
    """The path begins with the line, and what was right before has been given."""
    header, *_ = dump_turns((), WIRE)
    loading = load_turns([header, json.dumps(LINE), json.dumps({**LINE, **changes})], WIRE)
    assert Turn(1, None, "a", (Action("publish", Ping(1), 1),), (Told("heard", ("b",), (1,)),)) == next(loading)
    with pytest.raises(WireError) as caught:
        next(loading)
    assert f"$line 3{path}" == caught.value.path
    assert problem in caught.value.problem


@pytest.mark.parametrize("line", ["nonsense", "[]", "7", "{}", '{"n": 1}', "[" * 100_000, "{", '"' + "x" * 50])
def test_a_line_that_is_no_object_is_refused(line: str) -> None:
    """Whatever is in a line, the error is the same kind and names it."""
    header, *_ = dump_turns((), WIRE)
    with pytest.raises(WireError, match=r"^\$line 2: "):
        list(load_turns([header, line], WIRE))


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "this is no trace"),
        ([""], "this is no trace"),
        (["{"], "this is no trace"),
        (["[]"], "this is no trace"),
        (['{"trace": "something else", "version": 1}'], "this is no trace"),
        ([json.dumps(LINE)], "this is no trace"),
        (['{"trace": "hermes-dataspace trace"}'], "version null of the format cannot be read, 1 and 2 can"),
        (['{"trace": "hermes-dataspace trace", "version": 3}'], r"version a whole number \(3\) of the format"),
        (['{"trace": "hermes-dataspace trace", "version": true}'], r"version true or false \(True\) of the format"),
    ],
)
def test_what_is_no_trace_of_this_version_is_refused(lines: list[str], problem: str) -> None:
    """By the first line, before any turn."""
    with pytest.raises(WireError, match=rf"^\$line 1: {problem}"):
        list(load_turns(lines, WIRE))


# -- what values share -----------------------------------------------------------------------------------------------


@frozen
class Talk:
    """A conversation so far."""

    messages: Messages
    note: Any = None


MESSAGES = next(value for value in vocabulary_wire().shared if value.cls is Messages)
TALKS = Wire([Talk, Observe], values=[MESSAGES])


def growing(count: int, size: int = 200) -> tuple[Turn, ...]:
    """A conversation that grows by a message a turn, with everything that was ever said told again each time."""
    ds = Dataspace()
    me = ds.actor("a")
    ds.actor("b").observe(Talk, quiet, quiet)
    said: list[Any] = []
    with recording(ds) as turns:
        handle = me.publish(Talk(Messages.of([])))
        for at in range(count):
            said.append({"role": "user", "content": f"{at} " + "x" * size})
            handle = me.replace(handle, Talk(Messages.of([dict(row) for row in said])))  # nothing is the same object
    return tuple(turns)


def test_a_message_is_written_once() -> None:
    """A trace grows with the conversation, not with its square; what comes back is equal, and shared again."""
    sizes = []
    for count_ in (50, 100):
        turns = growing(count_)
        lines = list(dump_turns(turns, TALKS))
        assert 1 == sum(line.count('"49 xx') for line in lines)
        loaded = tuple(load_turns(lines, TALKS))
        assert turns == loaded
        assert lines == list(dump_turns(loaded, TALKS))
        sizes.append(sum(map(len, lines)))
    assert sizes[1] < 2.2 * sizes[0]
    last = loaded[-1].told[0].args[0].messages
    assert loaded[-1].actions[-1].what.messages[0] is last[0]


JSON = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, 0.0, -0.0, "", "a", "\ud800", 10**40]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["b", "a", "c"]), inner, max_size=3),
    max_leaves=6,
)
ROWS = st.dictionaries(st.sampled_from(["role", "content", "more"]), JSON, max_size=3)


@given(st.lists(ROWS, min_size=1, max_size=4), st.data())
def test_values_with_parts_read_back_exactly(pool: list[Any], data: Any) -> None:
    """Any lists of any rows, in any order, next to facts that the vocabulary has no words for; to the last type and key."""
    lists = st.lists(st.sampled_from(pool), max_size=6).map(Messages.of)
    facts = data.draw(st.lists(st.builds(Talk, lists, st.sampled_from([None, 7, 1j, Secret(1)])), max_size=6))
    turns = [
        Turn(n, None, "a", (Action("send", fact),), (Told("heard", ("b",), (fact, fact.messages)),))
        for n, fact in enumerate(facts)
    ]
    lines = list(dump_turns(turns, TALKS))
    loaded = list(load_turns(lines, TALKS))
    for fact, turn in zip(facts, loaded, strict=True):
        known = fact.note is None or fact.note == 7
        assert (fact if known else Opaque(repr(fact))) == turn.actions[0].what
        assert json.dumps(fact.messages.thaw()) == json.dumps(turn.told[0].args[1].thaw())
    assert lines == list(dump_turns(loaded, TALKS))
    rows = [json.dumps(row) for line in lines[1:] for row in json.loads(line).get("parts", {}).get("messages", ())]
    assert len(rows) == len(set(rows))


def test_a_trace_of_version_1_is_read() -> None:
    """There every value stands whole; it says the same turns."""
    turns = growing(5)
    whole = [
        {
            **json.loads(line),
            "actions": [[a.name, a.handle, TALKS.dump_value(a.what)] for a in turn.actions],
            "told": [[t.kind, list(t.to), [TALKS.dump_value(value) for value in t.args]] for t in turn.told],
        }
        for turn, line in zip(turns, [*dump_turns(turns, TALKS)][1:], strict=True)
    ]
    lines = [json.dumps({name: one for name, one in line.items() if name != "parts"}) for line in whole]
    header = json.dumps({"trace": "hermes-dataspace trace", "version": 1})
    assert turns == tuple(load_turns([header, *lines], TALKS))
    with pytest.raises(WireError, match=r"^\$line 2: a turn is an object with the keys"):
        list(load_turns([header, json.dumps({**whole[0], "parts": {}})], TALKS))


@pytest.mark.parametrize(
    ("parts", "named", "path", "problem"),
    [
        ([], [], ".parts", "an object is wanted"),
        ({"rows": []}, [], ".parts", "no values with parts that are called 'rows'; it has: messages"),
        ({"messages": {}}, [], ".parts.messages", "a list is wanted"),
        ({"messages": [{}, 7]}, [], ".parts.messages[1]", "must be a dict, not int"),
        ({"messages": [{}]}, {}, ".actions[0][2].messages.messages", "a list is wanted"),
        ({"messages": [{}]}, [[0]], ".actions[0][2].messages.messages[0]", "the number of a part and how many"),
        ({"messages": [{}]}, [[0, 1], [0, True]], ".actions[0][2].messages.messages[1]", "the number of a part"),
        ({"messages": [{}]}, [[0, 2]], ".actions[0][2].messages.messages[0]", "there are 1 parts so far, and no 2"),
        ({"messages": [{}]}, [[-1, 1]], ".actions[0][2].messages.messages[0]", "there are 1 parts so far"),
        ({"messages": [{}]}, [[0, 0]], ".actions[0][2].messages.messages[0]", "there are 1 parts so far, and no 0"),
    ],
)
def test_parts_that_are_none_are_refused_with_their_place(parts: Any, named: Any, path: str, problem: str) -> None:
    """Whoever edits a trace is told where it went wrong."""
    header, *_ = dump_turns((), TALKS)
    fact = {"fact": "Talk", "messages": {"messages": named}, "note": None}
    line = {**LINE, "actions": [["send", None, fact]], "told": [], "parts": parts}
    with pytest.raises(WireError) as caught:
        list(load_turns([header, json.dumps(line)], TALKS))
    assert f"$line 2{path}" == caught.value.path
    assert problem in caught.value.problem


def test_a_vocabulary_without_such_values_has_no_parts() -> None:
    """And says so."""
    header, *_ = dump_turns((), WIRE)
    with pytest.raises(WireError, match=r"called 'messages'; it has: none"):
        list(load_turns([header, json.dumps({**LINE, "parts": {"messages": []}})], WIRE))


def test_a_part_that_json_cannot_hold_is_kept_as_text() -> None:
    """As any other value that has no words; those before and after it are what they were."""
    huge = Talk(Messages.of([{"role": "user"}, {"n": 10**5_000}]))
    fine = Talk(Messages.of([{"role": "user"}]))
    turns = [Turn(n, None, "a", (Action("send", fact),), ()) for n, fact in enumerate((huge, fine))]
    loaded = list(load_turns(dump_turns(turns, TALKS), TALKS))
    assert [Opaque(repr(huge)), fine] == [turn.actions[0].what for turn in loaded]


def test_what_is_found_fast_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace that is written for days remembers so many objects and no more, and says the same."""
    turns = growing(30)
    lines = list(dump_turns(turns, TALKS))
    monkeypatch.setattr(_trace_parts, "PARTS", 3)
    monkeypatch.setattr(_trace_parts, "VALUES", 2)
    assert lines == list(dump_turns(turns, TALKS))
    assert turns == tuple(load_turns(lines, TALKS))


def test_turns_compare_as_data() -> None:
    """Two records of the same doings are equal, and can be changed like any value."""
    one, two = some_turns(), some_turns()
    assert [evolve(turn, n=0, cause=None) for turn in one[1:2]] == [evolve(turn, n=0, cause=None) for turn in two[1:2]]


# -- cost -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", [None, monotonic])
@pytest.mark.parametrize("implicit", [True, False])
def test_recording_costs_at_most_twice_a_turn_in_calls(implicit: bool, clock: Callable[[], float] | None) -> None:
    """Budget: on, at most twice the calls of a turn that publishes or retracts with one observer; off again, none more."""
    ds = Dataspace()
    a = ds.actor("a")
    ds.actor("b").observe(where(Ping, n=1), quiet, quiet)

    def turns() -> None:
        for _ in range(100):
            if implicit:
                a.retract(a.publish(Ping(1)))
                continue
            with a.turn():
                handle = a.publish(Ping(1))
            with a.turn():
                a.retract(handle)

    turns()
    off = calls(turns)
    with recording(ds, clock=clock) as record:
        on = calls(turns)
    assert 200 <= len(record) <= 201
    assert on <= 2 * off
    assert off == calls(turns)
