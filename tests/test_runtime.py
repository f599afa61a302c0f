"""Linked tasks, async bodies, and how a dataspace ends: R18, and what R16 and R17 say of tasks."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from dataspace import Crashed, Facet, Handle, Stopped, open_dataspace
from dataspace._trio import PATIENCE
from dataspace.errors import TurnError
from tests.under_trio import Crashes, Job, Note, errors_in, opened, settle


@pytest.fixture
def crashes() -> Crashes:
    """What a dataspace is opened with to see its crashes."""
    return Crashes()


# -- R18: tasks and turns -------------------------------------------------------------------------------------------------


async def test_r18_a_task_starts_at_commit() -> None:
    """A task asked for in a turn does nothing before the turn commits, and then runs."""
    log: list[str] = []

    async def work(word: str) -> None:
        log.append(word)

    async with opened() as (_, me):
        with me.turn():
            me.task(work, "done")
            me.publish(Note("in the same turn"))
            assert [] == log
        await settle()
        assert ["done"] == log


async def test_r18_a_task_of_a_failed_turn_never_starts() -> None:
    """A task goes with the turn, or the savepoint, that asked for it; others of that turn are started."""
    log: list[str] = []

    async def work(word: str) -> None:
        log.append(word)

    async with opened() as (_, me):
        with pytest.raises(ValueError, match="no"), me.turn():
            me.task(work, "failed turn")
            raise ValueError("no")
        with me.turn():
            me.task(work, "kept")
            with pytest.raises(ValueError, match="no"), me.turn():
                me.task(work, "undone savepoint")
                raise ValueError("no")
        await settle()
        assert ["kept"] == log


async def test_r18_each_action_between_awaits_is_a_turn() -> None:
    """What a task does outside of `with me.turn()` is released and handled action by action."""
    seen: list[str] = []

    async def work(me: Facet) -> None:
        me.publish(Note("one"))
        seen.append("after one")
        with me.turn():
            me.publish(Note("two"))
            seen.append("in the turn")
        seen.append("after two")
        await trio.sleep_forever()

    async with opened() as (ds, me):
        me.observe(Note, appeared=lambda note: seen.append(note.text))
        await ds.spawn(work)
        assert ["one", "after one", "in the turn", "two", "after two"] == seen


async def test_r18_stop_cancels_at_commit() -> None:
    """A stop within a turn cancels the tasks when that turn commits, and not at all if it fails."""
    log: list[str] = []

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            log.append("cancelled")

    async with opened() as (_, me):
        me.task(work)
        await settle()
        with pytest.raises(ValueError, match="no"), me.turn():
            me.stop()
            raise ValueError("no")
        await settle()
        assert ([], True) == (log, me.alive)
        with me.turn():
            me.stop()
            assert [] == log
        await settle()
        assert (["cancelled"], False) == (log, me.alive)


async def test_r18_stopped_before_its_first_step_a_task_never_runs() -> None:
    """The body of a task whose lifetime ends before trio comes to it is not entered."""
    log: list[str] = []

    async def work(*_: object) -> None:
        log.append("ran")

    async with opened() as (ds, me):
        me.task(work)
        me.during(Job, work)
        me.retract(me.publish(Job(1)))
        with me.turn():
            me.task(work)
            me.stop()
        await settle()
        assert [] == log
        assert (0, 0) == (ds.statistics().actors, ds.statistics().facts)


def _into_a_turn(me: Facet) -> None:
    with me.turn():
        pass


ACTIONS: dict[str, Callable[[Facet], object]] = {
    "publish": lambda me: me.publish(Note("late")),
    "replace": lambda me: me.replace(None, Note("late")),
    "send": lambda me: me.send(Note("late")),
    "observe": lambda me: me.observe(Note, appeared=print),
    "during": lambda me: me.during(Note, lambda _me, _note: None),
    "changes": lambda me: me.changes(Note).__enter__(),
    "task": lambda me: me.task(trio.sleep, 1),
    "later": lambda me: me.later(lambda: None),
    "spawn": lambda me: me.spawn(lambda _me: None, name="late"),
    "turn": _into_a_turn,
    "on_stop": lambda me: me.on_stop(print),
    "on_crash": lambda me: me.on_crash(print),
}


@pytest.mark.parametrize("whose", ["its own", "another actor's"])
@pytest.mark.parametrize("action", ACTIONS)
async def test_r18_a_stopped_task_cannot_act(
    action: str, whose: str, crashes: Crashes, caplog: pytest.LogCaptureFixture
) -> None:
    """While it cleans up, a task gets `Stopped` from any `me`; that it ends with it is no crash and not logged."""
    raised: list[BaseException] = []

    async def work(own: Facet, other: Facet) -> None:
        try:
            await trio.sleep_forever()
        finally:
            try:
                ACTIONS[action](own if whose == "its own" else other)
            except Stopped as error:
                raised.append(error)
                raise

    async with opened(on_crash=crashes) as (ds, me):
        before = ds.statistics()
        worker = await ds.spawn(work, me)
        await worker.stop()
        assert [Stopped] == [type(error) for error in raised]
        assert before == ds.statistics()
        assert me.alive
        me.retract(me.publish(Note("others are not affected")))
    assert ([], []) == (crashes.facts, errors_in(caplog))


async def test_r18_a_stopped_task_cannot_make_actors(autojump_clock: trio.testing.MockClock) -> None:
    """Within its time to clean up a task can neither spawn nor take an actor."""
    raised: list[str] = []

    async def work(me: Facet, ds: Any) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with me.grace():
                await trio.sleep(0.1)
                for attempt in ("spawn", "actor"):
                    with pytest.raises(Stopped):
                        await ds.spawn(work, ds) if attempt == "spawn" else ds.actor("late")
                    raised.append(attempt)

    async with opened() as (ds, _):
        worker = await ds.spawn(work, ds)
        await worker.stop()
        assert ["spawn", "actor"] == raised
        assert 1 == ds.statistics().actors


async def test_r18_the_tasks_of_a_stopped_task_cannot_act(crashes: Crashes) -> None:
    """Tasks in a nursery of a linked task are barred with it."""
    raised: list[str] = []

    async def part(other: Facet) -> None:
        try:
            await trio.sleep_forever()
        finally:
            try:
                other.publish(Note("late"))
            except Stopped:
                raised.append("part")
                raise

    async def work(_me: Facet, other: Facet) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(part, other)
            nursery.start_soon(part, other)

    async with opened(on_crash=crashes) as (ds, me):
        worker = await ds.spawn(work, me)
        await settle()
        await worker.stop()
        assert ["part", "part"] == raised
        assert () == ds.facts(Note)
    assert [] == crashes.facts


def _stop_in_a_turn(me: Facet, _other: Facet, _job: Handle) -> None:
    with me.turn():
        me.stop()


ENDS: dict[str, Callable[[Facet, Facet, Handle], object]] = {
    "stop": lambda me, _other, _job: me.stop(),
    "stop in a turn": _stop_in_a_turn,
    "its fact goes": lambda _me, other, job: other.retract(job),
    "a crash": lambda _me, other, _job: other.send(Job(2)),
}


@pytest.mark.parametrize("within", ["the task", "a part of it"])
@pytest.mark.parametrize("end", ENDS)
async def test_r18_a_task_that_stops_itself_acts_no_more(end: str, within: str, crashes: Crashes) -> None:
    """From the moment in which a task has ended its own lifetime it cannot act, not even in the rest of that step."""
    raised: list[str] = []

    async def act(me: Facet, other: Facet) -> None:
        ENDS[end](me, other, job)
        try:
            other.publish(Note("late"))
        except Stopped:
            raised.append(end)
            raise

    async def work(me: Facet, other: Facet) -> None:
        if within == "the task":
            await act(me, other)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(act, me, other)

    def fail(_job: Job) -> None:
        raise ValueError("meant")

    async with opened(on_crash=crashes) as (ds, me):
        job = me.publish(Job(1))

        def boot(actor: Facet) -> None:
            actor.during(Job, lambda own, _job: own.task(work, own, me))
            actor.observe(Job, heard=fail)

        await ds.spawn(boot)
        await settle()
        assert ([end], ()) == (raised, ds.facts(Note))
    assert (["meant"] if end == "a crash" else []) == [str(error) for error in crashes.errors]


async def test_r16_a_stopped_task_may_let_go(crashes: Crashes) -> None:
    """To retract and to stop is cleaning up: a block that a stopped task leaves takes what it held elsewhere with it."""

    async def work(me: Facet, other: Facet, third: Facet) -> None:
        own = me.publish(Note("own"))
        try:
            with other.publish(Note("held")), other.observe(Job, appeared=print), other.changes(Job):
                await trio.sleep_forever()
        finally:
            me.retract(own)
            me.stop()
            third.stop()
            with pytest.raises(Stopped):
                other.publish(Note("late"))

    async with opened(on_crash=crashes) as (ds, me):
        before = ds.statistics()
        worker = await ds.spawn(work, me, ds.actor("third"))
        assert 2 == len(ds.facts(Note))
        await worker.stop()
        assert before == ds.statistics()
    assert [] == crashes.facts


async def test_r18_stopping_gives_a_second_to_clean_up(autojump_clock: trio.testing.MockClock) -> None:
    """Within `me.grace()` a stopped task may wait; who awaits the stop waits for it."""
    log: list[str] = []

    async def work(me: Facet) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with me.grace():
                await trio.sleep(0.9)
                log.append("clean")

    async with opened() as (ds, _):
        worker = await ds.spawn(work)
        start = trio.current_time()
        stopping = worker.stop()
        assert (False, []) == (worker.alive, log)
        await stopping
        assert (["clean"], 0.9) == (log, pytest.approx(trio.current_time() - start))


async def test_r18_the_time_to_clean_up_is_bounded(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """However often a task asks for time, it has one second from when it was stopped; then it ends, and is awaited."""
    log: list[str] = []

    async def work(me: Facet) -> None:
        try:
            await trio.sleep_forever()
        finally:
            for attempt in range(5):
                with me.grace():
                    await trio.sleep(0.6)
                    log.append(f"slept {attempt}")
            log.append("over")

    async with opened() as (ds, _):
        worker = await ds.spawn(work)
        start = trio.current_time()
        await worker.stop()
        assert ["slept 0", "over"] == log
        assert pytest.approx(1.0) == trio.current_time() - start
    assert [] == caplog.records


async def test_r18_the_end_of_the_block_waits_for_cleaning_up(autojump_clock: trio.testing.MockClock) -> None:
    """`open_dataspace` ends when all tasks have: after a second at most, even if they would go on for ever."""
    log: list[str] = []

    async def part(me: Facet) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with me.grace():
                log.append("part begins")
                await trio.sleep_forever()
            log.append("part ends")

    async def work(me: Facet) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(part, me)

    start = trio.current_time()
    async with opened() as (ds, _):
        await ds.spawn(work)
        await settle()
    assert ["part begins", "part ends"] == log
    assert pytest.approx(1.0) == trio.current_time() - start


async def test_r18_grace_outside_of_stopping(autojump_clock: trio.testing.MockClock) -> None:
    """A task that has not been stopped has its second from now; so has code that is no linked task."""
    times: list[float] = []

    async def work(me: Facet) -> None:
        await trio.sleep(5)
        with me.grace():
            await trio.sleep_forever()
        times.append(trio.current_time())

    async with opened() as (_, me):
        start = trio.current_time()
        me.task(work, me)
        await work(me)
        await trio.sleep(1)
        assert [pytest.approx(6), pytest.approx(6)] == [time - start for time in times]


async def test_r18_awaiting_a_stop_is_bounded(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A task that shields itself for longer than it may is not waited for, and that is logged."""

    async def work(_me: Facet) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(60)

    async with opened() as (ds, _):
        worker = await ds.spawn(work)
        start = trio.current_time()
        await worker.stop()
        assert pytest.approx(PATIENCE) == trio.current_time() - start
        assert ["tasks of work still run"] == [record.getMessage()[:23] for record in caplog.records]


async def test_r18_stop_from_within(autojump_clock: trio.testing.MockClock, crashes: Crashes) -> None:
    """A task may stop its own actor and await that: it is cancelled there, and others of the actor with it."""
    log: list[str] = []

    async def beside() -> None:
        try:
            await trio.sleep_forever()
        finally:
            log.append("beside")

    async def work(me: Facet) -> None:
        me.task(beside)
        await trio.sleep(1)
        try:
            await me.stop()
        finally:
            log.append("work")

    async with opened(on_crash=crashes) as (ds, _):
        worker = await ds.spawn(work)
        start = trio.current_time()
        await trio.sleep(1.5)
        assert {"beside", "work"} == set(log)
        assert not worker.alive
        await worker.stop()
        assert pytest.approx(1.5) == trio.current_time() - start
    assert [] == crashes.facts


async def test_r18_stop_from_a_part_of_the_task_does_not_wait_for_itself(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A task in a nursery of a linked task, shielded as it is, does not wait for the linked task it belongs to."""
    times: list[float] = []

    async def part(me: Facet) -> None:
        with trio.CancelScope(shield=True):
            await me.stop()
            times.append(trio.current_time())

    async def work(me: Facet) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(part, me)

    async with opened() as (ds, _):
        start = trio.current_time()
        await ds.spawn(work)
        await settle()
        assert [start] == times
    assert [] == caplog.records


async def test_r18_a_stop_can_be_awaited_twice_or_not_at_all(autojump_clock: trio.testing.MockClock) -> None:
    """The result of `me.stop()` may be dropped, awaited again, asked for again; it gives None."""

    async def work(me: Facet) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with me.grace():
                await trio.sleep(0.5)

    async with opened() as (ds, me):
        worker = await ds.spawn(work)
        worker.stop()
        stopping = worker.stop()
        assert await stopping is None
        assert await stopping is None
        assert await worker.stop() is None
        assert 1 == ds.statistics().actors
        await me.stop()
        assert 0 == ds.statistics().actors


async def test_r18_awaiting_the_stop_of_an_actor_covers_its_lifetimes(autojump_clock: trio.testing.MockClock) -> None:
    """The tasks of inner lifetimes are awaited too, also of those that had ended shortly before."""
    log: list[int] = []

    def boot(me: Facet) -> None:
        async def work(own: Facet, job: Job) -> None:
            try:
                await trio.sleep_forever()
            finally:
                with own.grace():
                    await trio.sleep(job.n / 10)
                    log.append(job.n)

        me.during(Job, work)

    async with opened() as (ds, me):
        worker = await ds.spawn(boot)
        first, _ = me.publish(Job(3)), me.publish(Job(2))
        await settle()
        me.retract(first)
        await worker.stop()
        assert [2, 3] == log


# -- R18: bodies ----------------------------------------------------------------------------------------------------------


async def test_r18_an_async_body_is_cancelled_with_its_fact() -> None:
    """The task of a `during` runs while its fact stands; what it publishes goes with the fact; flicker starts anew."""
    log: list[str] = []

    async def body(me: Facet, job: Job) -> None:
        log.append(f"+{job.n}")
        me.publish(Note(str(job.n)))
        try:
            await trio.sleep_forever()
        finally:
            log.append(f"-{job.n}")

    async with opened() as (ds, me):
        me.during(Job, body)
        job = me.publish(Job(1))
        await settle()
        with me.turn():
            me.retract(job)
            job = me.publish(Job(1))
        await settle()
        assert ["+1", "+1", "-1"] == sorted(log)
        assert (Note("1"),) == ds.facts(Note)
        me.retract(job)
        assert () == ds.facts(Note)
        await settle()
        assert ["+1", "+1", "-1", "-1"] == sorted(log)


async def test_r18_the_return_of_an_async_body_ends_nothing() -> None:
    """What a body published stands after its return until the fact goes; and the actor lives on, holding nothing else."""

    async def body(me: Facet, job: Job) -> None:
        await trio.lowlevel.checkpoint()
        me.publish(Note(str(job.n)))

    async with opened() as (ds, me):
        worker = await ds.spawn(lambda worker: worker.during(Job, body), name="worker")
        job = me.publish(Job(7))
        await settle()
        assert ((Note("7"),), True) == (ds.facts(Note), worker.alive)
        me.retract(job)
        assert ((), True) == (ds.facts(Note), worker.alive)


async def test_r18_an_error_in_a_body_crashes_the_actor_only(crashes: Crashes) -> None:
    """R3, R19: the error of a task crashes its actor with all it holds, and nobody else."""

    def boot(me: Facet, bad: int) -> None:
        async def body(own: Facet, job: Job) -> None:
            own.publish(Note(f"{me.name} has {job.n}"))
            await trio.lowlevel.checkpoint()
            if job.n == bad:
                raise ValueError(f"{me.name} dislikes {job.n}")
            await trio.sleep_forever()

        me.during(Job, body)

    async with opened(on_crash=crashes) as (ds, me):
        one = await ds.spawn(boot, 2, name="one")
        two = await ds.spawn(boot, 0, name="two")
        for n in (1, 2):
            me.publish(Job(n))
        await settle()
        assert (False, True) == (one.alive, two.alive)
        assert {"two has 1", "two has 2"} == {note.text for note in ds.facts(Note)}
        assert (Crashed("one", "ValueError: one dislikes 2", 1),) == ds.facts(Crashed)
        assert ["one dislikes 2"] == [str(error) for error in crashes.errors]


async def test_r18_an_async_boot_ends_the_actor_on_return() -> None:
    """With `async def boot` the actor lives until that returns, whatever it holds, and its other tasks end with it."""
    log: list[str] = []

    async def beside() -> None:
        try:
            await trio.sleep_forever()
        finally:
            log.append("beside")

    async def boot(me: Facet, go: trio.Event) -> None:
        me.publish(Note("here"))
        me.task(beside)
        await go.wait()

    async with opened() as (ds, _):
        go = trio.Event()
        worker = await ds.spawn(boot, go)
        assert ((Note("here"),), True) == (ds.facts(Note), worker.alive)
        await settle()
        go.set()
        await settle()
        assert ((), False, ["beside"]) == (ds.facts(Note), worker.alive, log)
        assert () == ds.facts(Crashed)


async def test_r18_the_error_of_an_async_boot_is_a_crash(crashes: Crashes) -> None:
    """An async boot that raises crashes its actor; one that raises before its first await is dead when spawn returns."""

    async def boot(me: Facet) -> None:
        me.publish(Note("never mind"))
        raise ValueError("no")

    async with opened(on_crash=crashes) as (ds, _):
        worker = await ds.spawn(boot)
        assert (False, (), ["boot"]) == (worker.alive, ds.facts(Note), crashes.names())


async def test_r18_an_actor_without_anything_but_a_task_lives_as_long() -> None:
    """A task keeps its actor alive; an actor that then holds nothing ends in order."""
    ended: list[str] = []

    def boot(me: Facet, go: trio.Event) -> None:
        me.task(go.wait)
        me.on_stop(lambda _me: ended.append("in order"))

    async with opened() as (ds, _):
        go = trio.Event()
        worker = await ds.spawn(boot, go)
        assert worker.alive
        go.set()
        await settle()
        assert (False, ["in order"]) == (worker.alive, ended)


async def test_r18_spawn_is_done_or_was_not_begun() -> None:
    """A spawn cancelled where it waits has started nobody; there is no actor that nobody knows of."""

    async def boot(me: Facet) -> None:
        await trio.sleep_forever()

    async with opened() as (ds, _):
        with trio.CancelScope() as scope:
            scope.cancel()
            await ds.spawn(boot)
        assert (True, 1) == (scope.cancelled_caught, ds.statistics().actors)

        spawned: list[Facet] = []
        with trio.CancelScope() as scope:

            def begin(me: Facet) -> None:
                me.task(trio.sleep_forever)
                scope.cancel()

            spawned.append(await ds.spawn(begin))
            await trio.sleep_forever()
        assert [True] == [me.alive for me in spawned]


# -- context variables -----------------------------------------------------------------------------------------------------

home: contextvars.ContextVar[str] = contextvars.ContextVar("home", default="nowhere")


async def test_r18_a_task_runs_in_the_context_variables_it_is_given() -> None:
    """With `context=` a task sees those variables, and what it changes stays its own."""
    seen: list[str] = []

    async def work() -> None:
        seen.append(home.get())
        home.set("changed")
        await trio.lowlevel.checkpoint()
        seen.append(home.get())

    context = contextvars.copy_context()
    context.run(home.set, "elsewhere")
    async with opened() as (_, me):
        me.task(work, context=context)
        context.run(lambda: me.task(work, context=context))  # also while somebody is in there
        await settle()
    assert ["changed", "changed", "elsewhere", "elsewhere"] == sorted(seen)
    assert ("elsewhere", "nowhere") == (context[home], home.get())


# -- R16, R19: the end ------------------------------------------------------------------------------------------------------


async def test_r16_after_the_block_everything_says_that_it_is_over() -> None:
    """A dataspace that is closed refuses to act with `Stopped`; reading still works."""
    async with opened() as (ds, me):
        me.publish(Note("x"))

    async def boot(_me: Facet) -> None:
        pass

    with pytest.raises(Stopped):
        me.publish(Note("late"))
    with pytest.raises(Stopped, match="closed"):
        ds.actor("late")
    with pytest.raises(Stopped, match="closed"):
        await ds.spawn(boot)
    assert ((), 0) == (ds.facts(Note), ds.statistics().actors)
    await me.stop()


async def test_r17_the_block_stops_the_newest_first() -> None:
    """At the end all actors stop in order, the newest first, each with its stop actions."""
    order: list[str] = []

    def boot(me: Facet) -> None:
        me.publish(Note(me.name))
        me.on_stop(lambda _me: order.append(me.name))

    async with opened() as (ds, _):
        for name in ("one", "two", "three"):
            await ds.spawn(boot, name=name)
    assert ["three", "two", "one"] == order


async def test_r19_closing_reaches_who_replaces_what_has_gone() -> None:
    """An actor that starts another for each that goes does not keep the block from ending, and is no crash."""
    stopped: list[str] = []

    def engine(me: Facet) -> None:
        me.publish(Note("serving"))
        me.on_stop(lambda _me: stopped.append(me.name))

    def keeper(me: Facet) -> None:
        me.on_stop(lambda _me: stopped.append("keeper"))
        me.observe(Note, vanished=lambda _note: me.spawn(engine))
        me.spawn(engine)

    crashes = Crashes()
    async with opened(on_crash=crashes) as (ds, _):
        await ds.spawn(keeper)
    assert (["engine", "keeper", "engine"], [], 0) == (stopped, crashes.facts, ds.statistics().actors)


async def test_r19_closing_ends_though_actors_come_again_for_ever(crashes: Crashes) -> None:
    """Actors that start their like when they stop are refused in the end: nothing hangs, and it is told."""
    count: list[int] = []

    def phoenix(me: Facet) -> None:
        me.publish(Note("alive"))
        count.append(1)
        me.on_stop(lambda last: last.spawn(phoenix))

    async with opened(on_crash=crashes) as (ds, _):
        await ds.spawn(phoenix)
    assert 0 == ds.statistics().actors
    assert 0 < len(count) < 1000
    assert [Stopped] == [type(error) for error in crashes.errors]


# -- several at once --------------------------------------------------------------------------------------------------------


async def test_two_dataspaces_in_one_run_are_apart() -> None:
    """Two dataspaces under one trio share nothing: a turn, a mistake, a stop in one are none in the other."""
    async with open_dataspace() as one, open_dataspace() as two:
        a, b = one.actor("a"), two.actor("a")
        with a.turn(), b.turn():
            a.publish(Note("one"))
            b.publish(Note("two"))
        assert ((Note("one"),), (Note("two"),)) == (one.facts(Note), two.facts(Note))
        with pytest.raises(TurnError, match="await"), a.turn():
            a.publish(Job(1))
            await trio.lowlevel.checkpoint()
            b.publish(Job(2))
        assert ((), (Job(2),)) == (one.facts(Job), two.facts(Job))
        await a.stop()
        assert ((), (Note("two"),)) == (one.facts(Note), two.facts(Note))


async def test_a_dataspace_inside_a_task_of_another(crashes: Crashes) -> None:
    """A linked task may open a dataspace of its own; stopping the outer lifetime closes the inner one in order."""
    log: list[str] = []

    async def inner_work(me: Facet, outer: Facet) -> None:
        me.publish(Note("inner"))
        outer.publish(Note("from within"))
        try:
            await trio.sleep_forever()
        finally:
            with pytest.raises(Stopped):
                outer.publish(Note("late"))
            log.append("barred")

    async def work(me: Facet, other: Facet) -> None:
        async with open_dataspace(on_crash=crashes) as inner:
            own = inner.actor("own")
            own.on_stop(lambda _own: log.append("inner closed"))
            await inner.spawn(inner_work, other)
            assert (Note("inner"),) == inner.facts(Note)
            await trio.sleep_forever()

    async with opened(on_crash=crashes) as (ds, me):
        worker = await ds.spawn(work, me)
        await settle()
        assert (Note("from within"),) == ds.facts(Note)
        await worker.stop()
        assert ({"inner closed", "barred"}, (Note("from within"),)) == (set(log), ds.facts(Note))
    assert [] == crashes.facts
