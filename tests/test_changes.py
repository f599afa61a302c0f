"""`me.changes`: R21, and the backlog behind it against a naive model."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from dataspace import CAPTURE, Appeared, Facet, Heard, Stopped, Vanished, open_dataspace, where
from dataspace._changes import Backlog
from dataspace._pattern import pattern_of
from dataspace.errors import ActorCrashed, TurnError


@frozen
class Item:
    n: int
    text: str = ""


@frozen
class Job:
    n: int


async def settle() -> None:
    """Let everything run that can."""
    await trio.testing.wait_all_tasks_blocked()


def quietly(*_: object) -> None:
    """For crashes that are meant."""


async def test_r21_changes_come_in_order() -> None:
    """What stands comes first, oldest first; then appearances, messages and disappearances as they happened."""
    async with open_dataspace() as ds:
        me, other = ds.actor("me"), ds.actor("other")
        one = other.publish(Item(1))
        other.publish(Item(2))
        with me.changes(Item) as changes:
            assert [Appeared(Item(1)), Appeared(Item(2))] == [await anext(changes) for _ in range(2)]
            other.publish(Item(3))
            other.send(Item(4))
            other.retract(one)
            assert [Appeared(Item(3)), Heard(Item(4)), Vanished(Item(1))] == [await anext(changes) for _ in range(3)]


async def test_r21_changes_with_captures() -> None:
    """With captures a change carries the captured values, and facts that look alike are one appearance."""
    async with open_dataspace() as ds:
        me = ds.actor("me")
        with me.changes(where(Item, text=CAPTURE)) as changes:
            one, two = me.publish(Item(1, "a")), me.publish(Item(2, "a"))
            me.send(Item(3, "b"))
            assert [Appeared(captures=("a",)), Heard(captures=("b",))] == [await anext(changes) for _ in range(2)]
            me.retract(one)
            assert 0 == ds.statistics().backlog
            me.retract(two)
            assert Vanished(captures=("a",)) == await anext(changes)


async def test_r21_unread_pairs_are_left_out() -> None:
    """A fact that came and went unread is left out; one that went and came again is told twice, as it was."""
    async with open_dataspace() as ds:
        me = ds.actor("me")
        lasting = me.publish(Item(1))
        with me.changes(Item) as changes:
            assert Appeared(Item(1)) == await anext(changes)
            me.retract(me.publish(Item(2)))
            me.retract(lasting)
            me.publish(Item(1))
            assert 2 == ds.statistics().backlog
            assert [Vanished(Item(1)), Appeared(Item(1))] == [await anext(changes) for _ in range(2)]


async def test_r21_the_backlog_is_bounded_under_flicker() -> None:
    """However often a fact flickers unread, what is kept of it is bounded; messages are all kept."""
    async with open_dataspace() as ds:
        me = ds.actor("me")
        with me.changes(Item) as changes:
            handle = me.publish(Item(1))
            assert Appeared(Item(1)) == await anext(changes)
            for _ in range(500):
                me.retract(handle)
                handle = me.publish(Item(1))
                me.retract(me.publish(Item(2)))
            assert 2 == ds.statistics().backlog
            for n in range(500):
                me.send(Item(n))
            assert 502 == ds.statistics().backlog
            assert [Vanished(Item(1)), Appeared(Item(1))] == [await anext(changes) for _ in range(2)]
            assert [Heard(Item(n)) for n in range(500)] == [await anext(changes) for _ in range(500)]
        assert 0 == ds.statistics().backlog


async def test_r21_statistics_count_the_backlog_of_open_changes_only() -> None:
    """`statistics().backlog` is the sum over all open `changes`; at the end of the block theirs is gone."""
    async with open_dataspace() as ds:
        me = ds.actor("me")
        before = ds.statistics()
        with me.changes(Item) as one, me.changes(where(Item, n=1)):
            me.send(Item(1))
            me.send(Item(2))
            assert 3 == ds.statistics().backlog
            await anext(one)
            assert 2 == ds.statistics().backlog
        assert before == ds.statistics()


async def test_r21_changes_end_with_their_actor() -> None:
    """When the actor stops, what is unread can still be read; then the iteration ends, also for who was waiting."""
    got: list[Any] = []

    async def read(changes: Any) -> None:
        got.extend([change async for change in changes])
        got.append("end")

    async with open_dataspace() as ds, trio.open_nursery() as nursery:
        me, other = ds.actor("me"), ds.actor("other")
        with me.changes(Item) as changes, me.changes(Job) as jobs:
            nursery.start_soon(read, jobs)
            await settle()
            other.publish(Item(1))
            me.stop()
            other.publish(Item(2))
            assert [Appeared(Item(1))] == [change async for change in changes]
            await settle()
            assert ["end"] == got


async def test_r21_changes_end_with_their_lifetime() -> None:
    """The changes of an inner lifetime end with it, though the actor lives."""
    async with open_dataspace() as ds:
        me = ds.actor("me")
        inner: list[Facet] = []
        me.during(Job, lambda own, _job: inner.append(own))
        job = me.publish(Job(1))
        with inner[0].changes(Item) as changes:
            me.publish(Item(1))
            me.retract(job)
            assert [Appeared(Item(1))] == [change async for change in changes]
        with pytest.raises(Stopped), inner[0].changes(Item):
            pass
        assert me.alive


async def test_r21_changes_raise_the_crash_of_their_actor() -> None:
    """After a crash, what is unread can still be read; then `ActorCrashed` has the error as its cause."""

    def fail(_job: Job) -> None:
        raise ValueError("no")

    got: list[Any] = []

    async def read(changes: Any) -> None:
        with pytest.raises(ActorCrashed) as caught:
            await anext(changes)
        got.append(caught.value.__cause__)

    async with open_dataspace(on_crash=quietly) as ds, trio.open_nursery() as nursery:
        me, other = ds.actor("me"), ds.actor("other")
        me.observe(Job, appeared=fail)
        with me.changes(Item) as changes, me.changes(where(Item, n=5)) as waiting:
            nursery.start_soon(read, waiting)
            await settle()
            me.publish(Item(1))
            other.publish(Job(1))
            assert not me.alive
            assert Appeared(Item(1)) == await anext(changes)
            with pytest.raises(ActorCrashed, match="ValueError") as caught:
                await anext(changes)
        await settle()
        assert [caught.value.__cause__] == got
        assert "no" == str(caught.value.__cause__)


async def test_r21_two_readers_share_the_changes() -> None:
    """Of several readers of one `changes` each change reaches exactly one, in order, and no wakeup is lost."""
    got: list[int] = []

    async def read(changes: Any) -> None:
        async for change in changes:
            got.append(change.fact.n)  # noqa: PERF401 - seen while it goes on

    async with open_dataspace() as ds, trio.open_nursery() as nursery:
        me = ds.actor("me")
        with me.changes(Item) as changes:
            for _ in range(3):
                nursery.start_soon(read, changes)
            await settle()
            for n in range(10):
                me.send(Item(n))
            await settle()
            assert list(range(10)) == sorted(got)
            for n in range(10, 14):
                me.send(Item(n))
                await settle()
            assert list(range(10, 14)) == got[10:]


async def test_r21_a_change_that_is_gone_when_the_reader_comes_is_no_error() -> None:
    """A reader that is woken for a fact which has gone since waits on."""
    got: list[Any] = []

    async def read(changes: Any) -> None:
        got.append(await anext(changes))

    async with open_dataspace() as ds, trio.open_nursery() as nursery:
        me = ds.actor("me")
        with me.changes(Item) as changes:
            nursery.start_soon(read, changes)
            await settle()
            me.retract(me.publish(Item(1)))
            await settle()
            assert [] == got
            me.publish(Item(2))
            await settle()
            assert [Appeared(Item(2))] == got


async def test_r21_a_change_that_goes_while_its_reader_passes_a_checkpoint() -> None:
    """Two readers that find one change between them, and a fact that goes in that instant, are no error either."""
    got: list[Any] = []

    async def read(changes: Any) -> None:
        got.append(await anext(changes))

    for _ in range(20):  # trio shuffles who goes first
        got.clear()
        async with open_dataspace() as ds, trio.open_nursery() as nursery:
            me = ds.actor("me")
            with me.changes(Item) as changes:
                handle = me.publish(Item(1))
                nursery.start_soon(read, changes)
                nursery.start_soon(read, changes)
                await trio.lowlevel.checkpoint()
                me.retract(handle)
                await settle()
                assert [] == got or {Appeared(Item(1)), Vanished(Item(1))} == set(got)
                me.send(Item(2))
                me.send(Item(3))
                await settle()
                assert 2 == len(got)


async def test_r21_a_cancelled_reader_loses_nothing() -> None:
    """A reader cancelled while it waits, or in the moment in which a change comes, leaves it to the next."""
    got: list[int] = []

    async def read(changes: Any, scope: trio.CancelScope) -> None:
        with scope:
            got.append((await anext(changes)).fact.n)

    async with open_dataspace() as ds, trio.open_nursery() as nursery:
        me = ds.actor("me")
        with me.changes(Item) as changes:
            for n in range(20):
                scope = trio.CancelScope()
                nursery.start_soon(read, changes, scope)
                await settle()
                if n % 2:
                    scope.cancel()
                    me.send(Item(n))
                else:
                    me.send(Item(n))
                    scope.cancel()
                await settle()
            with trio.CancelScope() as done:
                done.cancel()
                await anext(changes)
            assert done.cancelled_caught
            while ds.statistics().backlog:
                got.append((await anext(changes)).fact.n)
            assert list(range(20)) == got


async def test_reading_changes_is_a_checkpoint() -> None:
    """Also when there is something to read, reading lets others run, and can be cancelled before it takes anything."""
    async with open_dataspace() as ds:
        me = ds.actor("me")
        with me.changes(Item) as changes:
            me.send(Item(1))
            with trio.testing.assert_checkpoints():
                assert Heard(Item(1)) == await anext(changes)
            me.stop()
            with trio.testing.assert_checkpoints(), pytest.raises(StopAsyncIteration):
                await anext(changes)


async def test_changes_are_read_within_their_block_and_entered_once() -> None:
    """Reading before the block, and entering twice, are refused and say how it is done; after the block it is over."""
    async with open_dataspace() as ds:
        me = ds.actor("me")
        changes = me.changes(Item)
        with pytest.raises(TurnError, match="read changes within"):
            await anext(changes)
        with changes:
            pass
        me.publish(Item(1))
        assert [] == [change async for change in changes]
        with pytest.raises(TurnError, match="once"):
            changes.__enter__()
        with pytest.raises(ValueError, match="int"):
            me.changes(int)


async def test_changes_of_a_turn_that_fails() -> None:
    """Changes begun in a turn hear from its commit on; with a turn that fails they end, and hear nothing."""
    async with open_dataspace() as ds:
        me = ds.actor("me")
        me.publish(Item(1))
        before = ds.statistics()
        with me.turn():
            changes = me.changes(Item).__enter__()
            assert 0 == ds.statistics().backlog
        assert Appeared(Item(1)) == await anext(changes)
        changes.__exit__(None, None, None)
        with pytest.raises(ValueError, match="no"), me.turn():
            changes = me.changes(Item).__enter__()
            raise ValueError("no")
        assert [] == [change async for change in changes]
        changes.__exit__(None, None, None)
        assert before == ds.statistics()


async def test_changes_begun_by_a_stop_action_are_over() -> None:
    """What an actor begins while its stop actions run is never filed, so its changes have ended already."""
    begun: list[Any] = []
    async with open_dataspace() as ds:
        me = ds.actor("me")
        me.on_stop(lambda last: begun.append(last.changes(Item).__enter__()))
        await me.stop()
        assert [] == [change async for change in begun[0]]
        begun[0].__exit__(None, None, None)
        assert 0 == ds.statistics().observers


@pytest.mark.parametrize("ends", ["stop", "crash"])
async def test_r16_a_task_that_reads_changes_ends_quietly_with_its_actor(
    ends: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A linked task that waits for a change is cancelled with its actor, rather than told that the changes are over."""
    got: list[BaseException] = []

    def fail(_job: Job) -> None:
        raise ValueError("no")

    async def work(me: Facet) -> None:
        me.observe(Job, appeared=fail)
        with me.changes(Item) as changes:
            try:
                await anext(changes)
            except BaseException as error:
                got.append(error)
                raise

    async with open_dataspace(on_crash=quietly) as ds:
        worker = await ds.spawn(work)
        await settle()
        if ends == "stop":
            await worker.stop()
        else:
            ds.actor("me").publish(Job(1))
            await settle()
        assert [trio.Cancelled] == [type(error) for error in got]
    assert [] == caplog.records


async def test_r16_changes_within_a_task_are_let_go_of_when_it_is_stopped() -> None:
    """A task that reads changes of its actor is cancelled when that stops, and nothing is left."""

    async def work(me: Facet) -> None:
        with me.changes(Item) as changes:
            async for _ in changes:
                pass

    async with open_dataspace() as ds:
        before = ds.statistics()
        worker = await ds.spawn(work)
        await settle()
        await worker.stop()
        assert before == ds.statistics()


# -- the backlog alone ------------------------------------------------------------------------------------------------------

STEPS = st.lists(st.tuples(st.sampled_from(["publish", "retract", "send", "take"]), st.integers(0, 2)), max_size=40)


class Model:
    """A list of all that happened; before each reading, pairs that came and went unread are struck out."""

    def __init__(self) -> None:
        self.unread: list[Any] = []

    def add(self, change: Any) -> None:
        if isinstance(change, Vanished):
            for i in reversed(range(len(self.unread))):
                if not isinstance(self.unread[i], Heard) and self.unread[i].fact == change.fact:
                    if isinstance(self.unread[i], Appeared):
                        del self.unread[i]
                        return
                    break
        self.unread.append(change)


@given(STEPS)
def test_r21_the_backlog_is_what_happened_without_unread_pairs(steps: list[tuple[str, int]]) -> None:
    """The backlog reads as the list of all changes from which each pair of appearing and vanishing is struck out."""
    backlog, model, standing = Backlog(pattern_of(Item)), Model(), set()
    for step, n in steps:
        fact = Item(n)
        if step == "publish" and n not in standing:
            standing.add(n)
            backlog.appeared(fact)
            model.add(Appeared(fact))
        elif step == "retract" and n in standing:
            standing.remove(n)
            backlog.vanished(fact)
            model.add(Vanished(fact))
        elif step == "send":
            backlog.heard(fact)
            model.add(Heard(fact))
        elif step == "take":
            if model.unread:
                assert model.unread.pop(0) == backlog.take()
            else:
                with pytest.raises(IndexError):
                    backlog.take()
        assert len(model.unread) == len(backlog)
    assert model.unread == [backlog.take() for _ in range(len(backlog))]
