"""Mistakes and failures under trio: awaits inside turns (R2), and that no exception disappears (R3, R19)."""

from __future__ import annotations

import asyncio
import logging

import pytest
import trio
import trio.testing

from dataspace import Crashed, Facet, Stopped, where
from dataspace.errors import TurnError
from tests.under_trio import Crashes, Job, Note, errors_in, opened, settle


@pytest.fixture
def crashes() -> Crashes:
    """What a dataspace is opened with to see its crashes."""
    return Crashes()


# -- R2: an await inside a turn ----------------------------------------------------------------------------------------


async def test_r2_awaiting_inside_a_turn_is_refused() -> None:
    """The turn is discarded, `TurnError` says why, its actor and its task can act again, other tasks saw nothing."""
    seen: list[str] = []

    async def bystander(me: Facet, go: trio.Event) -> None:
        await go.wait()
        me.publish(Note("beside"))
        await trio.sleep_forever()

    async with opened() as (ds, me):
        go = trio.Event()
        kept = me.publish(Note("kept"))
        await ds.spawn(bystander, go)
        me.observe(Note, appeared=lambda note: seen.append(note.text), vanished=lambda note: seen.append(f"-{note}"))
        with pytest.raises(TurnError, match="await"), me.turn():
            me.publish(Note("never"))
            me.retract(kept)
            me.task(trio.sleep, 1)
            go.set()
            await settle()
        assert (["kept", "beside"], True) == (seen, kept.standing)
        with me.turn():
            me.publish(Note("later"))
        me.publish(Note("at last"))
        assert ["kept", "beside", "later", "at last"] == seen
        me.retract(kept)
        assert Note("kept") not in ds.facts(Note)
        await me.stop()
        assert (Note("beside"),) == ds.facts(Note)


@pytest.mark.parametrize("act", ["publish", "savepoint", "caught savepoint", "retract", "later", "stop", "spawn"])
async def test_r2_nothing_after_the_await_is_done_either(act: str) -> None:
    """Until the block of the spoiled turn is left, its task cannot act, through no savepoint and no other actor."""
    async with opened() as (ds, me):
        other = ds.actor("other")
        handle = other.publish(Note("other's"))
        before = ds.statistics()
        with pytest.raises(TurnError, match="await"), me.turn():
            if act == "caught savepoint":
                with pytest.raises(TurnError, match="await"), me.turn():
                    me.publish(Note("never"))
                    await trio.lowlevel.checkpoint()
                me.publish(Note("never"))
            await trio.lowlevel.checkpoint()
            if act == "publish":
                other.publish(Note("never"))
            elif act == "savepoint":
                with me.turn():
                    me.publish(Note("never"))
            elif act == "retract":
                other.retract(handle)
            elif act == "later":
                other.later(lambda: other.publish(Note("never")))
            elif act == "stop":
                other.stop()
            elif act == "spawn":
                await ds.spawn(lambda spawned: spawned.publish(Note("never")))
        await settle()
        assert before == ds.statistics()
        other.retract(handle)
        assert () == ds.facts(Note)


async def test_r2_cancelled_at_an_await_inside_a_turn() -> None:
    """Also when the await is cancelled the turn is discarded and `TurnError` raised, out of nested savepoints too."""
    async with opened() as (ds, me):
        with trio.CancelScope() as scope:
            with pytest.raises(TurnError, match="await"), me.turn():
                me.publish(Note("never"))
                with me.turn():
                    scope.cancel()
                    await trio.sleep_forever()
            assert () == ds.facts(Note)
            me.publish(Note("and on"))
        assert (Note("and on"),) == ds.facts(Note)


async def test_r2_an_await_inside_a_turn_of_a_task_crashes_its_actor(crashes: Crashes) -> None:
    """In a linked task the `TurnError` is the crash of the actor, as any error is; others go on."""

    async def helper() -> None:
        await trio.lowlevel.checkpoint()

    async def work(me: Facet) -> None:
        with me.turn():
            me.publish(Note("never"))
            await helper()

    async with opened(on_crash=crashes) as (ds, me):
        worker = await ds.spawn(work)
        await settle()
        assert (False, ["work"], [TurnError]) == (
            worker.alive,
            crashes.names(),
            [type(error) for error in crashes.errors],
        )
        me.publish(Note("others act"))
        assert (Note("others act"),) == ds.facts(Note)


async def test_r2_stopped_while_awaiting_inside_a_turn(crashes: Crashes, caplog: pytest.LogCaptureFixture) -> None:
    """A task stopped at an await inside a turn cannot act afterwards, and its mistake is logged."""
    raised: list[str] = []

    async def work(me: Facet, other: Facet) -> None:
        try:
            with me.turn():
                me.publish(Note("never"))
                await trio.sleep_forever()
        finally:
            with pytest.raises(Stopped):
                other.publish(Note("late"))
            raised.append("Stopped")

    async with opened(on_crash=crashes) as (ds, me):
        worker = await ds.spawn(work, me)
        await worker.stop()
        assert (["Stopped"], ()) == (raised, ds.facts(Note))
    assert [TurnError] == [type(error) for error in errors_in(caplog)]
    assert [] == crashes.facts


async def test_r2_a_turn_left_open_is_discarded(crashes: Crashes) -> None:
    """A task that ends with a turn still open has discarded it, and that is its crash."""

    async def work(me: Facet) -> None:
        me.turn().__enter__()
        me.publish(Note("never"))

    async with opened(on_crash=crashes) as (ds, me):
        await ds.spawn(work)
        assert ((), ["work"]) == (ds.facts(Note), crashes.names())
        me.retract(me.publish(Note("others act")))


async def test_r2_the_block_closes_though_a_turn_was_left_open() -> None:
    """A turn that the calling code never ends does not keep the dataspace from closing in order."""
    stopped: list[str] = []
    async with opened() as (ds, me):
        me.on_stop(lambda _me: stopped.append("me"))
        me.turn().__enter__()
        me.publish(Note("never"))
        await trio.lowlevel.checkpoint()
    assert (["me"], (), 0) == (stopped, ds.facts(Note), ds.statistics().actors)


async def test_r2_an_asynchronous_callback_is_refused(crashes: Crashes) -> None:
    """A callback that returns a coroutine crashes its actor, and says what to use; nothing is left unawaited."""

    async def helper() -> None:
        raise AssertionError("never awaited")

    async with opened(on_crash=crashes) as (ds, me):
        worker = await ds.spawn(lambda worker: worker.observe(Note, appeared=lambda _note: helper()), name="worker")
        me.publish(Note("x"))
        assert (False, ["worker"]) == (worker.alive, crashes.names())
        assert "me.task" in str(crashes.errors[0])


# -- R19: no exception disappears -----------------------------------------------------------------------------------------


async def test_r19_an_exception_group_is_the_crash(crashes: Crashes) -> None:
    """The group that a task's own nursery raises crashes the actor, whole."""

    async def fail(word: str) -> None:
        raise ValueError(word)

    async def work(_me: Facet) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail, "one")
            nursery.start_soon(fail, "two")

    async with opened(on_crash=crashes) as (ds, _):
        await ds.spawn(work)
        await settle()
        (error,) = crashes.errors
        assert isinstance(error, ExceptionGroup)
        assert {"one", "two"} == {str(part) for part in error.exceptions}


@pytest.mark.parametrize("mixed", [False, True])
async def test_r19_stopped_inside_a_group(mixed: bool, crashes: Crashes, caplog: pytest.LogCaptureFixture) -> None:
    """A group of nothing but `Stopped` is a quiet end; with any other error in it, it is told."""

    async def part(me: Facet, last: bool) -> None:
        try:
            await trio.sleep_forever()
        finally:
            if last and mixed:
                raise ValueError("told")
            me.publish(Note("late"))

    async def work(me: Facet) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(part, me, False)
            nursery.start_soon(part, me, True)

    async with opened(on_crash=crashes) as (ds, _):
        worker = await ds.spawn(work)
        await settle()
        await worker.stop()
    assert [] == crashes.facts
    groups = [error for error in errors_in(caplog) if isinstance(error, ExceptionGroup)]
    assert [mixed] == [bool(groups)]
    assert ["told"] * mixed == [str(e) for group in groups for e in group.exceptions if not isinstance(e, Stopped)]


async def test_r19_stopped_of_another_is_an_error(crashes: Crashes) -> None:
    """Who lives and acts through a lifetime that has ended has made a mistake: it is a crash, not a quiet end."""

    async def work(_me: Facet, gone: Facet) -> None:
        gone.publish(Note("late"))

    async with opened(on_crash=crashes) as (ds, me):
        await me.stop()
        await ds.spawn(work, me)
        assert ["work"] == crashes.names()


async def test_r19_an_error_after_the_actor_ended_is_logged(crashes: Crashes, caplog: pytest.LogCaptureFixture) -> None:
    """What goes wrong while a stopped actor's task cleans up is logged with its traceback; it is no second crash."""

    async def work(_me: Facet) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("in cleanup")

    async with opened(on_crash=crashes) as (ds, _):
        worker = await ds.spawn(work)
        await worker.stop()
        assert () == ds.facts(Crashed)
    assert ["in cleanup"] == [str(error) for error in errors_in(caplog)]
    assert ["a task of work failed after its actor had ended"] == [record.getMessage() for record in caplog.records]
    assert [] == crashes.facts


async def test_r19_an_error_in_the_cleanup_of_a_body_crashes_its_living_actor(crashes: Crashes) -> None:
    """The task of an inner lifetime that fails in its cleanup crashes the actor, if that lives."""

    async def body(_me: Facet, _job: Job) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("in cleanup")

    async with opened(on_crash=crashes) as (ds, me):
        await ds.spawn(lambda worker: worker.during(Job, body), name="worker")
        job = me.publish(Job(1))
        await settle()
        me.retract(job)
        await settle()
        assert ["worker"] == crashes.names()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_r19_the_end_of_the_program_comes_through(kind: type[BaseException], crashes: Crashes) -> None:
    """KeyboardInterrupt and SystemExit in a task are no crash: they end the dataspace and come out of it."""
    cleaned: list[str] = []

    async def work(_me: Facet) -> None:
        await trio.lowlevel.checkpoint()
        raise kind("now")

    with pytest.raises(BaseExceptionGroup) as caught:
        async with opened(on_crash=crashes) as (ds, me):
            me.on_stop(lambda _me: cleaned.append("stopped"))
            await ds.spawn(work)
            await trio.sleep_forever()
    assert [kind] == [type(error) for error in caught.value.exceptions]
    assert (["stopped"], []) == (cleaned, crashes.facts)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
async def test_r19_a_guest_has_no_program_to_end(kind: type[BaseException], crashes: Crashes) -> None:
    """With `guest` the same is the crash of one actor, in a boot, a callback, a stop action or a task, and of nobody else."""

    def boot(_me: Facet) -> None:
        raise kind("boot")

    def callback(me: Facet) -> None:
        def hear(_job: Job) -> None:
            raise kind("callback")

        me.observe(Job, hear)

    async def task(_me: Facet) -> None:
        await trio.lowlevel.checkpoint()
        raise kind("task")

    async def family(_me: Facet) -> None:
        async def child() -> None:
            raise kind("child")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
            await trio.sleep_forever()

    def leave(me: Facet) -> None:
        def stop(_parent: Facet) -> None:
            raise kind("stop")

        me.on_stop(stop)
        me.publish(Job(2))

    async with opened(on_crash=crashes, guest=True) as (ds, me):
        for one in (boot, callback, task, family):
            await ds.spawn(one)
        leaving = await ds.spawn(leave)
        me.publish(Job(1))
        await leaving.stop()
        await settle()
        assert ["boot", "callback", "family", "leave", "task"] == sorted(crashes.names())
        assert (Job(1),) == ds.facts(Job)
        with pytest.raises(kind):  # what the block itself raises is its own affair
            raise kind("block")


async def test_r19_the_end_of_the_program_while_closing(crashes: Crashes) -> None:
    """SystemExit in a stop action comes out of the block, beside its error, and the tasks are ended all the same."""
    log: list[str] = []

    def leave(_me: Facet) -> None:
        raise SystemExit(3)

    async def work(_me: Facet) -> None:
        try:
            await trio.sleep_forever()
        finally:
            log.append("ended")

    with pytest.raises(BaseExceptionGroup) as caught:
        async with opened(on_crash=crashes) as (ds, _):
            await ds.spawn(work)
            ds.actor("last").on_stop(leave)
            raise ValueError("the body")
    assert [ValueError, SystemExit] == [type(error) for error in caught.value.exceptions]
    assert ["ended"] == log
    with pytest.raises(Stopped, match="closed"):
        await ds.spawn(work)


async def test_r19_the_end_of_the_program_does_not_hide_the_error_of_the_body() -> None:
    """If the body fails and a task then ends the program, both come out."""

    async def work(_me: Facet) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise SystemExit(3)

    async def fail() -> None:
        raise ValueError("the body")

    with pytest.raises(BaseExceptionGroup) as caught:
        async with opened() as (ds, _):
            await ds.spawn(work)
            await settle()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail)
                await trio.sleep_forever()
    (own, end) = caught.value.exceptions
    assert isinstance(own, ExceptionGroup)
    assert (["the body"], SystemExit) == ([str(error) for error in own.exceptions], type(end))


async def test_r19_an_error_in_on_crash_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """If `on_crash` itself fails nobody is harmed, and the error is shown."""
    shown: list[str] = []
    monkeypatch.setattr("sys.excepthook", lambda _kind, error, _trace: shown.append(str(error)))

    def on_crash(_crash: Crashed, _error: BaseException) -> None:
        raise RuntimeError("on_crash")

    async def work(_me: Facet) -> None:
        raise ValueError("no")

    async with opened(on_crash=on_crash) as (ds, me):
        await ds.spawn(work)
        assert (["on_crash"], ["work"]) == (shown, [crash.actor for crash in ds.facts(Crashed)])
        me.publish(Note("others act"))


async def test_r19_by_default_a_crash_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """Without `on_crash` a crash is an error in the log of `dataspace`."""

    async def work(_me: Facet) -> None:
        raise ValueError("no")

    async with opened() as (ds, _):
        await ds.spawn(work)
    (record,) = caplog.records
    assert ("dataspace", logging.ERROR, "actor work crashed: ValueError: no") == (
        record.name,
        record.levelno,
        record.getMessage(),
    )
    assert ["no"] == [str(error) for error in errors_in(caplog)]


async def test_r19_the_error_of_the_body_comes_out_as_itself(caplog: pytest.LogCaptureFixture) -> None:
    """What the block of `open_dataspace` raises is what its caller sees, though tasks fail while they clean up."""

    async def work(_me: Facet) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("in cleanup")

    error = LookupError("mine")
    with pytest.raises(LookupError) as caught:
        async with opened() as (ds, _):
            await ds.spawn(work)
            raise error
    assert (error, None) == (caught.value, error.__cause__)
    assert ["in cleanup"] == [str(logged) for logged in errors_in(caplog)]


@pytest.mark.parametrize("own_error", [False, True])
async def test_r19_cancelled_from_outside(
    own_error: bool, crashes: Crashes, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    """A dataspace cancelled as a whole ends with its tasks' cleanup, is silent but for real errors, and hangs nowhere."""
    log: list[str] = []

    async def part(fails: bool) -> None:
        try:
            await trio.sleep_forever()
        finally:
            if fails:
                raise ValueError("in cleanup")

    async def work(me: Facet) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(part, True)
                nursery.start_soon(part, False)
        finally:
            with me.grace():
                await trio.sleep(0.5)
                log.append("clean")

    async def run() -> None:
        with trio.move_on_after(1) as scope:
            async with opened(on_crash=crashes) as (ds, _):
                await ds.spawn(work)
                try:
                    await trio.sleep_forever()
                finally:
                    if own_error:
                        raise LookupError("mine")
        assert scope.cancelled_caught

    if own_error:
        with pytest.raises(LookupError, match="mine"):
            await run()
    else:
        await run()
    assert ["clean"] == log
    told = crashes.errors + [error for error in errors_in(caplog) if error is not None]
    assert ["in cleanup"] == [str(part) for group in told for part in getattr(group, "exceptions", [group])]


async def test_r19_a_task_cancelled_from_outside_that_fails_in_a_nursery_is_told(crashes: Crashes) -> None:
    """An error beside a cancellation in one group is told, and the cancellation goes on."""
    with trio.CancelScope() as scope:
        async with opened(on_crash=crashes) as (ds, _):

            async def part(fails: bool) -> None:
                try:
                    await trio.sleep_forever()
                finally:
                    if fails:
                        raise ValueError("in cleanup")

            async def work(_me: Facet) -> None:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(part, True)
                    nursery.start_soon(part, False)

            await ds.spawn(work)
            await settle()
            scope.cancel()
            with trio.CancelScope(shield=True):
                await settle()
            assert ["work"] == crashes.names()
    assert ["in cleanup"] == [str(part) for part in crashes.errors[0].exceptions]  # type: ignore[attr-defined]


async def test_r19_the_stop_of_a_during_is_no_error_of_its_task() -> None:
    """An actor whose bodies are cancelled over and over lives, and nothing is left of them."""

    async def body(me: Facet, _job: Job) -> None:
        me.publish(Note("working"))
        await trio.sleep_forever()

    async with opened() as (ds, me):
        worker = await ds.spawn(lambda worker: worker.during(Job, body), name="worker")
        before = ds.statistics()
        for _ in range(20):
            with me.publish(Job(1)):
                await settle()
        await settle()
        assert (True, before) == (worker.alive, ds.statistics())


async def test_r19_a_crash_never_ends_the_block(crashes: Crashes) -> None:
    """Every way in which an actor can fail leaves the block and the other actors running."""

    def in_boot(_me: Facet) -> None:
        raise ValueError("boot")

    async def in_async_boot(_me: Facet) -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("async boot")

    def in_task(me: Facet) -> None:
        async def fail() -> None:
            raise ValueError("task")

        me.task(fail)

    def in_stop(me: Facet) -> None:
        def fail(_me: Facet) -> None:
            raise ValueError("stop")

        me.publish(Note("x"))
        me.on_stop(fail)

    async with opened(on_crash=crashes) as (ds, me):
        for boot in (in_boot, in_async_boot, in_task):
            await ds.spawn(boot)
        stopping = await ds.spawn(in_stop)
        await stopping.stop()
        await settle()
        assert {"boot", "async boot", "task", "stop"} == {str(error) for error in crashes.errors}
        assert 1 == ds.statistics().actors
        assert () == ds.facts(where(Note, text="x"))
        me.publish(Note("and on"))
