"""`dataspace.testing`: every schedule of a scenario, once; a failing one comes back as a program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from math import factorial
from typing import Any

import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

import dataspace.testing
from benchmarks.measure import weigh
from dataspace import CAPTURE, Appeared, Crashed, Dataspace, Facet, Heard, Vanished, where
from dataspace.testing import (
    EndlessError,
    Failure,
    Killed,
    Report,
    Run,
    ScheduleError,
    ScheduleFailed,
    explore,
    replay,
    sample,
)
from dataspace.testing._search import Search


@frozen
class Ping:
    n: int
    note: int = field(default=0, eq=False)


@frozen
class Pong:
    n: int


def stop(me: Facet) -> None:
    """End an actor."""
    me.stop()


def nothing(*_args: object, **_told: object) -> None:
    """A callback that does nothing."""


def receivers(run: Run, count: int, heard: Callable[[int, Ping], object] = nothing) -> Facet:
    """A host that will send one message to so many receivers."""
    host = run.ds.actor("host")
    for i in range(count):
        run.ds.actor(f"r{i}").observe(Ping, heard=partial(heard, i))
    run.outside("host", lambda: host.send(Ping(1)))
    return host


def independent(run: Run, count: int) -> None:
    """Receivers that do nothing, of one message."""
    receivers(run, count)
    run.remembers()


def racing(run: Run) -> None:
    """Of three receivers the first to hear wins, and that should be the oldest, which nobody promises."""
    order: list[int] = []
    host = receivers(run, 3, lambda i, _ping: order.append(i))
    run.outside("noise", lambda: host.send(Pong(1)), lambda: host.send(Pong(2)))
    run.remembers(lambda: order)

    def by_age() -> None:
        assert order[:1] in ([], [0]), f"r{order[0]} was first"

    run.always(by_age)


def failure_of(report: Report) -> Failure:
    """The failure that a report has."""
    assert report.failure is not None
    return report.failure


# -- how many ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_independent_receivers_give_n_factorial_schedules(count: int) -> None:
    """With state hashing off, n receivers that have nothing to do with each other give exactly n! schedules."""
    report = explore(partial(independent, count=count), hashing=False)
    assert (factorial(count), factorial(count), 0, True) == (
        report.schedules,
        report.runs,
        report.states,
        report.exhaustive,
    )


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7])
def test_hashing_covers_the_same_schedules_in_2_to_the_n_states(count: int) -> None:
    """Told apart by who has heard, there are 2^n states after the message and one before; all n! schedules lie in them."""
    report = explore(partial(independent, count=count))
    assert (factorial(count), 2**count + 1, True) == (report.schedules, report.states, report.exhaustive)


def test_an_inbox_is_read_in_order() -> None:
    """R4: two messages to each of two receivers: 4!/(2!2!) interleavings, and none in which a receiver's order changes."""

    def scenario(run: Run) -> None:
        host = run.ds.actor("host")
        logs: list[list[int]] = [[], []]
        for i, log in enumerate(logs):
            run.ds.actor(f"r{i}").observe(Ping, heard=lambda ping, log=log: log.append(ping.n))

        def send() -> None:
            with host.turn():
                host.send(Ping(1))
                host.send(Ping(2))

        def in_order() -> None:
            assert all(log == [1, 2][: len(log)] for log in logs)

        run.outside("host", send)
        run.always(in_order)
        run.remembers(lambda: logs)

    assert 6 == explore(scenario, hashing=False).check().schedules
    assert 6 == explore(scenario).check().schedules


def test_an_outside_step_may_fall_anywhere() -> None:
    """Two scripts of two steps that nobody hears interleave in 6 ways, each script in its own order."""
    seen = set()

    def scenario(run: Run) -> None:
        order: list[str] = []
        run.outside("a", lambda: order.append("a1"), lambda: order.append("a2"))
        run.outside("b", lambda: order.append("b1"), lambda: order.append("b2"))
        run.finished(lambda: seen.add(tuple(order)))

    assert 6 == explore(scenario, hashing=False).schedules
    assert 6 == len(seen)
    assert all(o.index("a1") < o.index("a2") and o.index("b1") < o.index("b2") for o in seen)


def test_the_first_schedule_is_the_usual_order() -> None:
    """What is tried first is what the usual dataspace does: receivers by the age of what they are told."""
    orders: list[tuple[int, ...]] = []

    def scenario(run: Run) -> None:
        order: list[int] = []
        receivers(run, 3, lambda i, _ping: order.append(i))
        run.finished(lambda: orders.append(tuple(order)))

    explore(scenario, hashing=False)
    assert (0, 1, 2) == orders[0]
    assert 6 == len(set(orders)) == len(orders)


@frozen
class Hop:
    """A message to actor `to`, which passes it on along `path`."""

    to: int
    path: tuple[int, ...]


hops = st.builds(Hop, st.integers(0, 2), st.lists(st.integers(0, 2), max_size=1).map(tuple))


@given(st.tuples(st.lists(hops, max_size=2), st.lists(hops, max_size=1)))
def test_hashing_hides_no_outcome(scripts: tuple[list[Hop], list[Hop]]) -> None:
    """With the states told apart and without, the same outcomes are reached by the same number of schedules."""

    def scenario(run: Run, seen: set[Any]) -> None:
        log: list[tuple[int, Hop]] = []

        def heard(me: Facet, hop: Hop) -> None:
            log.append((hop.to, hop))
            if hop.path:
                me.send(Hop(hop.path[0], hop.path[1:]))

        for i in range(3):
            me = run.ds.actor(f"r{i}")
            me.observe(where(Hop, to=i), heard=partial(heard, me))
        host = run.ds.actor("host")
        for i, script in enumerate(scripts):
            run.outside(f"s{i}", *[partial(host.send, hop) for hop in script])
        run.remembers(lambda: log)
        run.finished(lambda: seen.add(tuple(log)))

    all_of_them: set[Any] = set()
    told_apart: set[Any] = set()
    plain = explore(partial(scenario, seen=all_of_them), hashing=False, most_runs=300)
    hashed = explore(partial(scenario, seen=told_apart))
    if plain.exhaustive:
        assert (plain.schedules, all_of_them) == (hashed.schedules, told_apart)
    assert hashed.exhaustive
    assert told_apart >= all_of_them


# -- what is a choice -------------------------------------------------------------------------------------------------


def test_what_the_scenario_does_itself_is_no_choice() -> None:
    """Before the first choice everything happens in the usual order, as in any dataspace."""

    def scenario(run: Run) -> None:
        host = receivers(run, 3)
        host.publish(Ping(7))
        seen = run.ds.facts(Ping)
        run.finished(lambda: None)
        assert (Ping(7),) == seen

    assert 6 == explore(scenario, hashing=False).schedules


def test_what_a_stopped_lifetime_would_have_heard_is_no_choice() -> None:
    """R16: a delivery to an observer that is gone calls nobody, so it makes no second schedule."""

    def scenario(run: Run) -> None:
        host = run.ds.actor("host")
        handle = run.ds.actor("r").observe(Ping, heard=nothing)

        def send_and_leave() -> None:
            host.send(Ping(1))
            handle.facet.retract(handle)

        run.outside("host", send_and_leave)

    assert (1, 1) == (explore(scenario, hashing=False).schedules, explore(scenario, hashing=False).steps)


def test_an_observer_that_does_not_care_is_no_choice() -> None:
    """Who only wants to hear of facts that vanish is not scheduled when one appears."""

    def scenario(run: Run) -> None:
        host = run.ds.actor("host")
        run.ds.actor("r").observe(Ping, vanished=nothing)
        run.outside("host", lambda: host.publish(Ping(1)))

    assert 1 == explore(scenario, hashing=False).steps


def test_a_step_waits_until_it_may_fall() -> None:
    """A step with `when` falls only while that holds, and one for which it never does is left out."""

    def scenario(run: Run) -> None:
        host = run.ds.actor("host")
        early: list[bool] = []
        run.outside("publish", lambda: host.publish(Ping(1)))
        run.outside("use", lambda: early.append(not run.ds.facts(Ping)), when=lambda: bool(run.ds.facts(Ping)))
        run.outside("never", lambda: early.append(True), when=lambda: False)

        def once_and_not_early() -> None:
            assert [False] == early

        run.finished(once_and_not_early)

    assert 1 == explore(scenario, hashing=False).check().schedules


def test_an_actor_can_ask_for_outside_steps() -> None:
    """What is said with `outside` during a run is a choice from then on: an answer that comes whenever it likes."""

    def scenario(run: Run) -> None:
        host, late = run.ds.actor("host"), run.ds.actor("late")
        late.observe(Ping, heard=lambda ping: run.outside("answer", lambda: late.send(Pong(ping.n))))
        answers = run.watch(Pong)
        run.outside("host", lambda: host.send(Ping(1)), lambda: host.send(Ping(2)))
        run.remembers()

        def both() -> None:
            assert [Heard(Pong(1)), Heard(Pong(2))] == answers

        run.finished(both)

    report = explore(scenario).check()
    # p1 p2 sent, h1 h2 heard, a1 a2 answered: p1 < p2, p < h, h1 < h2, h < a, a1 < a2 are the standard tableaux of 3x2
    assert 5 == report.schedules == explore(scenario, hashing=False).check().schedules


def test_an_existing_script_gets_more_steps_and_another_guard() -> None:
    """A script keeps its steps in order, and the latest `when` counts."""
    order: list[int] = []

    def scenario(run: Run) -> None:
        order.clear()
        run.outside("a", lambda: order.append(1), when=lambda: False)
        run.outside("a", lambda: order.append(2))
        run.outside("a", when=lambda: True)

    explore(scenario, hashing=False)
    assert [1, 2] == order


def test_actors_start_stop_and_hold_lifetimes_as_ever() -> None:
    """A boot is a turn of the new actor, a `during` ends with its fact, a stopped actor leaves nothing, in any order."""

    def worker(me: Facet) -> None:
        me.during(Ping, lambda inner, ping: inner.publish(Pong(ping.n)))

    def scenario(run: Run) -> None:
        host = run.ds.actor("host")
        workers: list[Facet] = []
        run.outside("start", lambda: workers.append(run.ds.spawn(worker, name="w")), lambda: stop(workers[0]))
        handles: list[Any] = []
        run.outside("host", lambda: handles.append(host.publish(Ping(1))), lambda: host.retract(handles[0]))
        run.remembers()

        def served() -> None:
            up = bool(workers) and workers[0].alive
            assert len(run.ds.facts(Ping)) * up == len(run.ds.facts(Pong))

        run.settled(served)

    plain, hashed = explore(scenario, hashing=False).check(), explore(scenario).check()
    assert plain.schedules == hashed.schedules > 6


# -- watching and checking --------------------------------------------------------------------------------------------


def test_a_watcher_sees_what_is_committed_and_is_no_choice() -> None:
    """`watch` notes facts and messages at once, captured where the pattern captures."""

    def scenario(run: Run) -> None:
        host = run.ds.actor("host")
        facts, captured = run.watch(Ping), run.watch(where(Pong, n=CAPTURE))
        handles: list[Any] = []
        run.outside("host", lambda: handles.append(host.publish(Ping(1))), lambda: host.send(Pong(2)))
        run.outside("host", lambda: host.retract(handles[0]))

        def noted() -> None:
            assert [Appeared(Ping(1)), Vanished(Ping(1))] == facts
            assert [Heard(captures=(2,))] == captured

        run.finished(noted)

    assert 1 == explore(scenario, hashing=False).check().schedules


def test_a_watcher_can_keep_what_it_likes() -> None:
    """With `note` nothing is kept for the states; an error in it is what the schedule fails with."""

    def scenario(run: Run, most: int) -> None:
        count = 0

        def note(change: object) -> None:
            nonlocal count
            count += 1
            assert count <= most, f"{change} is one too many"

        host = run.ds.actor("host")
        assert [] == run.watch(Ping, note)
        run.outside("host", *[partial(host.send, Ping(n)) for n in range(3)])
        run.remembers(lambda: count)

    assert 4 == explore(partial(scenario, most=3)).check().states
    assert "Heard(fact=Ping(n=2" in str(failure_of(explore(partial(scenario, most=2))).error)


def test_checks_come_at_their_time() -> None:
    """`always` after every step, `settled` when all inboxes are empty, `finished` when nothing can happen any more."""
    calls: list[str] = []

    def scenario(run: Run) -> None:
        calls.clear()
        host = receivers(run, 1)
        run.outside("host", lambda: host.send(Pong(1)))
        run.always(lambda: calls.append("a"))
        run.settled(lambda: calls.append("s"))
        run.finished(lambda: calls.append("f"))

    replay(scenario, ["@host", "r0", "@host"])
    assert ["a", "s", "a", "a", "s", "a", "s", "f"] == calls


def test_a_check_that_fails_before_the_first_choice_is_a_failure_without_steps() -> None:
    """What does not even hold at the beginning fails with the empty schedule."""

    def scenario(run: Run) -> None:
        def wrong() -> None:
            raise AssertionError("never true")

        run.settled(wrong)

    report = explore(scenario, hashing=False)
    assert () == failure_of(report).schedule
    with pytest.raises(ScheduleFailed, match="never true"):
        report.check()


def test_a_crash_is_a_failure_unless_it_is_part_of_the_scenario() -> None:
    """The error of an actor is what the schedule fails with; of an actor that may crash it is a fact like any other."""

    def scenario(run: Run, allowed: bool) -> None:
        def fail(_i: int, _ping: Ping) -> None:
            raise KeyError("no such thing")

        receivers(run, 1, fail)
        if allowed:
            run.may_crash("r0")

    bad = explore(partial(scenario, allowed=False), hashing=False)
    assert ("KeyError", ("@host", "r0")) == (type(failure_of(bad).error).__name__, failure_of(bad).schedule)
    explore(partial(scenario, allowed=True), hashing=False).check()


def test_the_scenario_can_crash_an_actor() -> None:
    """`Run.crash` takes all that the actor held with it, once."""

    def scenario(run: Run) -> None:
        victim = run.ds.actor("victim")
        victim.publish(Ping(1))
        run.outside("crash", lambda: run.crash(victim), lambda: run.crash(victim))

        def gone() -> None:
            (crash,) = run.ds.facts(Crashed)
            assert ((), "victim") == (run.ds.facts(Ping), crash.actor)
            assert isinstance(victim.actor.error, Killed)

        run.finished(gone)

    explore(scenario, hashing=False).check()


def test_an_outside_step_that_raises_is_a_failure() -> None:
    """An error of calling code is what the schedule fails with, too."""

    def scenario(run: Run) -> None:
        run.outside("host", lambda: run.ds.actor(""))

    assert "NameTaken" == type(failure_of(explore(scenario, hashing=False)).error).__name__


# -- failures ---------------------------------------------------------------------------------------------------------


def test_a_failing_schedule_is_found_shrunk_and_replayed() -> None:
    """Steps that the failure does not need are left out; the rest fails the same way when it is replayed."""
    failure = failure_of(explore(racing))
    assert failure.schedule in {("@host", "r1"), ("@host", "r2")}
    with pytest.raises(AssertionError, match=r"r[12] was first"):
        replay(racing, failure.schedule)


def test_steps_that_a_failure_does_not_need_are_left_out() -> None:
    """However a schedule was drawn, what is given back is the message and the receiver that should not be first."""
    shrunk = {failure_of(sample(racing, 100, seed=seed)).schedule for seed in range(20)}
    assert {("@host", "r1"), ("@host", "r2")} == shrunk


def test_what_shrinks_to_another_failure_is_not_shrunk() -> None:
    """Without its first step a schedule may fail in another way: then the step is needed."""

    def scenario(run: Run) -> None:
        log: list[int] = []

        def second() -> None:
            if not log:
                raise KeyError("another failure")
            raise ValueError("the failure")

        run.outside("a", lambda: log.append(1))
        run.outside("b", second)

    failure = failure_of(explore(scenario, hashing=False))
    assert ("@a", "@b") == failure.schedule
    assert isinstance(failure.error, ValueError)


def test_a_failing_schedule_is_a_program() -> None:
    """The script of a failure, run as it is, fails with it; each step says what happens in it."""
    failure = failure_of(explore(racing))
    script = failure.script()
    assert "from tests.test_testing_explore import racing" in script
    assert "heard Ping(n=1, note=0)" in script
    with pytest.raises(AssertionError, match="was first"):
        exec(script.replace("tests.test_testing_explore", __name__), {})


def test_the_program_says_how_a_scenario_was_made() -> None:
    """Arguments given with `partial` are written down or imported; what cannot be is marked, and named."""

    def local(run: Run) -> None:
        independent(run, 1)

    for scenario, said in (
        (partial(independent, count=3), "    partial(independent, count=3),"),
        (partial(receivers, count=1, heard=nothing), "    partial(receivers, count=1, heard=nothing),"),
        (partial(partial(receivers, count=1), heard=BOX.put), "    partial(receivers, count=1, heard=put),"),
        (partial(independent, count=BOX), "    partial(independent, count=Box),"),
        (local, "    local,"),
    ):
        script = Failure(scenario, ("@host", '@"', "nobody"), AssertionError("x" * 500)).script()
        assert said in script.splitlines()
        assert "from functools import partial" in script or scenario is local
        assert scenario is not local or "cannot be imported: bring it as `local`" in script
        assert all(len(line) <= 120 for line in script.splitlines())
        compile(script, "script", "exec")
    assert f"from {__name__} import nothing" in Failure(partial(receivers, heard=nothing), (), ValueError()).script()


def test_the_program_says_what_happens_in_each_step() -> None:
    """Functions by name and with what they are given, whoever asked for them; deliveries with what is told."""

    def boot(me: Facet) -> None:
        me.observe(Ping, heard=nothing)
        me.later(partial(nothing, 7))

    def scenario(run: Run) -> None:
        host = run.ds.actor("host")
        run.outside("host", partial(run.ds.spawn, boot, name="w"), partial(host.send, Ping(1)), BOX)

    schedule = ("@host", "w", "w", "@host", "w", "@host", "nobody")
    script = Failure(scenario, schedule, AssertionError()).script()
    comments = [line.partition("  # ")[2] for line in script.splitlines() if line.startswith("        ")]
    wanted = [
        "Dataspace.spawn(",
        "call boot",
        "call nothing(7)",
        "Facet.send(Ping(n=1",
        "heard Ping(n=1, note=0)",
        "Box",
    ]
    assert wanted == [comment[: len(start)] for comment, start in zip(comments, wanted, strict=False)]
    assert [""] == comments[len(wanted) :]


def test_check_raises_the_program_and_gives_the_report_otherwise() -> None:
    """`check` is for the end of a test: silent and chainable, or an assertion with everything in it."""
    with pytest.raises(ScheduleFailed, match=r"(?s)was first.*replay\(\n    racing,") as caught:
        explore(racing).check()
    assert isinstance(caught.value.__cause__, AssertionError)
    report = explore(partial(independent, count=2))
    assert report is report.check()
    assert "2 schedules (all), 5 states, 2 runs, 5 steps" == str(report)


def test_the_search_also_fails_without_hashing_and_by_drawing() -> None:
    """All ways to search find a failure that most schedules have."""
    for report in (explore(racing, hashing=False), sample(racing, 100), explore(racing, most_runs=1)):
        assert "was first" in str(failure_of(report).error)
        assert not report.exhaustive


def test_a_schedule_that_need_not_end_is_a_failure() -> None:
    """Two actors that answer each other for ever: back in the same state, or, where states are not known, too long."""

    def scenario(run: Run, numbered: bool) -> None:
        a, b = run.ds.actor("a"), run.ds.actor("b")
        a.observe(Ping, heard=lambda ping: a.send(Pong(ping.n + numbered)))
        b.observe(Pong, heard=lambda pong: b.send(Ping(pong.n)))
        run.outside("a", lambda: b.send(Ping(1)))
        run.remembers()

    for report in (
        explore(partial(scenario, numbered=False)),
        explore(partial(scenario, numbered=True)),
        explore(partial(scenario, numbered=False), hashing=False, longest=50),
        sample(partial(scenario, numbered=False), 1, longest=50),
    ):
        assert isinstance(failure_of(report).error, EndlessError)


# -- bounds and mistakes ----------------------------------------------------------------------------------------------


def test_past_its_bound_the_search_draws() -> None:
    """Where `most_runs` is not enough, so many schedules drawn by the seed follow, the same for the same seed."""

    def scenario(run: Run, seen: list[Any]) -> None:
        order: list[int] = []
        receivers(run, 6, lambda i, _ping: order.append(i))
        run.finished(lambda: seen.append(tuple(order)))

    def outcome(seed: int) -> list[Any]:
        seen: list[Any] = []
        report = explore(partial(scenario, seen=seen), hashing=False, most_runs=10, beyond=30, seed=seed)
        assert (30, 40, False) == (report.schedules, report.runs, report.exhaustive)
        assert "30 schedules (drawn)" in str(report)
        return seen[10:]

    assert outcome(1) == outcome(1) != outcome(2)
    assert len(set(outcome(1))) > 20


def test_sampling_counts_states_on_request() -> None:
    """Drawn schedules meet the states that the search knows, and no others."""
    scenario = partial(independent, count=3)
    assert (9, 0) == (sample(scenario, 200, hashing=True).states, sample(scenario, 200).states)


def test_hashing_asks_what_actors_remember() -> None:
    """A scenario that does not say so cannot have its states told apart, for schedules could be hidden."""

    def scenario(run: Run) -> None:
        receivers(run, 2)

    with pytest.raises(ScheduleError, match=r"run\.remembers"):
        explore(scenario)


def test_readings_can_be_left_out_of_states() -> None:
    """What nobody decides by need not tell states apart."""

    def scenario(run: Run, leave_out: bool) -> None:
        host = run.ds.actor("host")
        for n in (1, 2):
            run.outside(f"s{n}", lambda n=n: host.publish(Ping(1, note=n)))
        run.remembers()
        if leave_out:
            run.leave_out(Ping, "note")

    assert (5, 4) == tuple(explore(partial(scenario, leave_out=told)).states for told in (False, True))


def test_a_scenario_that_is_not_deterministic_is_refused() -> None:
    """Branches are entered by running the scenario again, so it has to do the same each time."""
    runs: list[int] = []

    def scenario(run: Run) -> None:
        runs.append(1)
        receivers(run, min(1 + len(runs), 3))

    with pytest.raises(ScheduleError, match="not deterministic"):
        explore(scenario, hashing=False)


def test_a_schedule_that_cannot_happen_is_refused() -> None:
    """The error names the step, what it says, and what could go next."""
    with pytest.raises(
        ScheduleError, match=r"step 2 of the schedule is 'r7', which cannot go next; can: \['r0', 'r1'\]"
    ):
        replay(partial(independent, count=2), ["@host", "r7"])


def test_a_replay_can_stop_halfway() -> None:
    """A schedule need not be whole: the run it gives back shows the state it leads to."""
    run = replay(partial(independent, count=2), ["@host"])
    assert ["r0", "r1"] == run.options()
    assert isinstance(run.ds, Dataspace)


# -- what tells states apart ------------------------------------------------------------------------------------------


class Box:
    """No value: what is in it, a scenario has to tell."""

    def __init__(self, n: int = 0) -> None:
        self.n = n

    def put(self, _n: int) -> None: ...

    def __call__(self) -> None: ...


BOX = Box()


HOST = {n: Dataspace().actor(f"host {n}") for n in (1, 2)}  # of another dataspace: only what is closed over differs


def around(n: int) -> list[Any]:
    """A list that holds itself."""
    items: list[Any] = [n]
    items.append(items)
    return items


def empty() -> Callable[[], object]:
    """A function that closes over a variable which is never set."""
    if HOST:

        def function() -> object:
            return never

        return function
    never = 1
    return empty


def test_a_variable_that_is_not_set_is_nothing() -> None:
    """A function may close over what does not exist yet."""
    assert explore(partial(deferring, fn=lambda _n: closing(empty()))).check().states == 7


def deferring(run: Run, fn: Callable[[int], Callable[[], object]]) -> None:
    """Of two turns that are asked for, with 1 or 2 in them, only the first comes to be."""
    me = run.ds.actor("me")
    drawn: list[int] = []

    def draw(n: int) -> None:
        if not drawn:
            me.later(fn(n))
        drawn.append(0)

    for n in (1, 2):
        run.outside(f"s{n}", partial(draw, n))
    run.remembers()


def closing(value: object) -> Callable[[], object]:
    """A function that closes over a value."""
    return lambda: value


def by_default(value: object) -> Callable[[], object]:
    """A function with a value as a default."""

    def function(value: object = value) -> object:
        return value

    return function


@pytest.mark.parametrize(
    "fn",
    [
        closing,
        by_default,
        lambda n: partial(nothing, n),
        lambda n: partial(nothing, key=n),
        lambda n: partial(BOX.put, n),
        lambda n: closing([(n, {n: {n}})]),
        lambda n: closing(Ping(1, note=n)),
        lambda n: closing(complex(n)),
        lambda n: closing(n == 1),
        lambda n: closing(around(n)),
        lambda n: closing(HOST[n].publish(Ping(n))),
        lambda n: closing(HOST[n].observe(where(Ping, n=n), nothing)),
    ],
    ids=[
        *("closure", "default", "partial", "keyword", "method", "containers", "reading", "immutable"),
        *("flag", "cycle", "handle", "observer"),
    ],
)
def test_states_differ_in_what_is_waited_for(fn: Callable[[int], Callable[[], object]]) -> None:
    """Turns asked for with `later` are told apart by the values in them; objects that are no values look alike."""
    alike = explore(partial(deferring, fn=lambda n: closing(Box(n)))).states
    assert alike < explore(partial(deferring, fn=fn)).states


@frozen
class Held:
    """A frozen object, which what it holds can change within."""

    what: Any


@pytest.mark.parametrize(
    "hold", [lambda log: (log,), Held, lambda log: Held(Held((1, log))), lambda log: partial(nothing, log)]
)
def test_what_cannot_change_may_hold_what_can(hold: Callable[[list[int]], Any]) -> None:
    """An object that was looked at before is looked at again, if something in it may have changed meanwhile."""

    def scenario(run: Run) -> None:
        log: list[int] = []
        holder = hold(log)
        for n in (1, 2):
            run.outside(f"s{n}", partial(log.append, n))
        run.remembers(lambda: (Ping(1), holder, Ping(1)))

    assert (2, 5) == (explore(scenario).schedules, explore(scenario).states)


def test_equal_objects_make_equal_states() -> None:
    """New objects that equal old ones make no new states, in the same run and in others."""

    def scenario(run: Run) -> None:
        seen: list[Held] = []
        receivers(run, 4, lambda i, ping: seen.append(Held(Ping(ping.n, note=i))))
        run.remembers(lambda: sorted(seen, key=repr), lambda: Held(Held(len(seen))))

    assert (24, 17) == (explore(scenario).schedules, explore(scenario).states)


def test_the_same_step_of_another_run_is_the_same() -> None:
    """A method of a list, or of one's own object, counts by its name and by what it belongs to, not by which object it is."""

    def scenario(run: Run) -> None:
        logs: list[list[int]] = [[], [], []]
        for i, log in enumerate(logs):
            run.outside(f"s{i}", partial(log.append, 1), partial(Box().put, 1), partial(print, end=""))
        run.remembers(lambda: logs)

    report = explore(scenario).check()
    assert (factorial(9) // 6**3, 4**3) == (report.schedules, report.states)


def test_a_value_that_does_not_equal_itself_is_one_value() -> None:
    """What is no number tells no states apart, or there would be no end of them."""

    def scenario(run: Run) -> None:
        run.outside("s", nothing, nothing)
        run.remembers(lambda: Decimal("nan"))

    assert 3 == explore(scenario).states


def test_a_state_takes_little_room() -> None:
    """So that millions of them can be counted: some hundred bytes each."""
    counts = []

    def searched() -> Search:
        search = Search(partial(independent, count=10), hashing=True, longest=100)
        for seed in range(40):
            search.draw(seed)
        assert search.states is not None
        counts.append(len(search.states))
        return search

    searched()
    assert weigh(searched) <= 600 * counts[-1]
    assert counts[-1] > 200


def test_states_tell_apart_who_holds_what() -> None:
    """Equal facts of different owners stand alike and go differently."""

    def scenario(run: Run) -> None:
        a, b = run.ds.actor("a"), run.ds.actor("b")
        publisher: list[Facet] = []

        def publish(me: Facet) -> None:
            if not publisher:
                publisher.append(me)
                me.publish(Ping(1))

        run.outside("a", lambda: publish(a))
        run.outside("b", lambda: publish(b))
        run.outside("stop a", partial(stop, a), when=lambda: len(publisher) == 1)
        run.remembers()
        run.finished(lambda: outcomes.add(run.ds.facts(Ping)))

    outcomes: set[Any] = set()
    explore(scenario)
    assert {(), (Ping(1),)} == outcomes


def test_the_package_does_not_bring_hypothesis() -> None:
    """Only the strategies need it; `dataspace.testing` works where it is not installed."""
    program = "import sys, dataspace.testing; print('hypothesis' in sys.modules, 'trio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "False False" == done.stdout.strip()
    assert sorted(dataspace.testing.__all__) == list(dataspace.testing.__all__)
