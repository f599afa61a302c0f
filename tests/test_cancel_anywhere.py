"""Cancelled, or hit by an error, at any await: afterwards everything is in order (R3, R16, R18, R19).

One scenario touches all that waits: spawn, async bodies, changes, blocking calls, time to clean up, the swap of two
engines.  It is run once for each step that any of its tasks takes; in that step the scenario is cancelled, or the await
that the task returns from raises.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import count

import outcome
import pytest
import trio
from attrs import frozen

from dataspace import Appeared, Crashed, Facet, Vanished, open_dataspace
from dataspace._runtime import AsyncDataspace

PATIENCE = 20.0
"""Seconds after which a run counts as hanging."""


@frozen
class Ask:
    text: str


@frozen
class Hint:
    text: str


@frozen
class Busy:
    by: str


@frozen
class Answer:
    text: str
    by: str


class Injected(Exception):
    """What an await raises in the runs with errors."""


# -- the scenario -----------------------------------------------------------------------------------------------------------


def engine(me: Facet) -> None:
    """Answers what is asked, in a thread, and listens for hints as long as the question stands."""

    async def listen(own: Facet) -> None:
        with own.changes(Hint) as hints:
            async for hint in hints:
                own.send(Answer(hint.fact.text, me.name))

    async def work(own: Facet, ask: Ask) -> None:
        try:
            with own.publish(Busy(me.name)):
                text = await own.blocking(str.upper, ask.text)
            with own.turn():
                own.publish(Answer(text, me.name))
                own.task(listen, own)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                await trio.sleep_forever()
        finally:
            with own.grace():
                await trio.lowlevel.checkpoint()

    me.during(Ask, work)


async def reporter(me: Facet, done: trio.Event) -> None:
    """An actor of one task, which ends in good order."""
    with me.changes(Busy) as changes:
        await anext(changes)
        done.set()
        await trio.lowlevel.checkpoint()


async def scenario(ds: AsyncDataspace) -> None:
    """Ask, swap who answers while the question stands, and clean up."""
    me = ds.actor("asker")
    done = trio.Event()
    try:
        await ds.spawn(reporter, done)
        one = await ds.spawn(engine, name="one")
        with me.publish(Ask("hi")), me.changes(Answer) as changes:
            assert Appeared(Answer("HI", "one")) == await anext(changes)
            two = await ds.spawn(engine, name="two")
            assert Appeared(Answer("HI", "two")) == await anext(changes)
            await one.stop()
            assert Vanished(Answer("HI", "one")) == await anext(changes)
            with me.publish(Hint("psst")):
                assert Answer("psst", "two") == (await anext(changes)).fact
            assert "ok" == await me.blocking(str.lower, "OK")
        await done.wait()
        await two.stop()
    finally:
        me.stop()


# -- the disturbance --------------------------------------------------------------------------------------------------------


class Disturbance(trio.abc.Instrument):
    """Counts the steps of the tasks under `root` and disturbs the one with the number `at`."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.steps = count()
        self.root: trio.lowlevel.Task | None = None
        self.disturb: Callable[[trio.lowlevel.Task], bool] = lambda _task: False
        self.done = False

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.root is not None and not self.done and self.root in lineage(task) and next(self.steps) >= self.at:
            self.done = self.disturb(task)


def lineage(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    """A task and those in whose nurseries it runs."""
    yield task
    while task.parent_nursery is not None:
        task = task.parent_nursery.parent_task
        yield task


def fail(task: trio.lowlevel.Task) -> bool:
    """Make the await that the task returns from raise; not where trio waits for the end of a nursery, or has begun."""
    if not isinstance(task._next_send, outcome.Value) or not all(n._nested_child_running for n in task.child_nurseries):
        return False
    task._next_send = outcome.Error(Injected("here"))
    return True


class Run:
    """One run of the scenario, disturbed at one step, and what was told of it."""

    def __init__(self, at: int, mode: str, seed: int = 0) -> None:
        trio._core._run._r.seed(f"{seed} {at}")  # trio shuffles whose step comes first
        self.mode = mode
        self.disturbance = Disturbance(at)
        self.told: list[BaseException] = []
        self.crashes = 0

    def __call__(self) -> bool:
        """Was the scenario disturbed at all?"""
        trio.run(self.main, instruments=[self.disturbance])
        return self.disturbance.done

    async def main(self) -> None:
        with trio.fail_after(PATIENCE), trio.CancelScope() as everything:
            try:
                await self.opened(everything)
            except Injected as error:  # as itself, not in a group
                self.told.append(error)
        if self.mode == "all":
            assert everything.cancelled_caught == self.disturbance.done

    async def opened(self, everything: trio.CancelScope) -> None:
        scope = trio.CancelScope()

        def on_crash(_crash: Crashed, error: BaseException) -> None:
            self.told.append(error)
            self.crashes += 1
            scope.cancel()  # who waits for the crashed one waits in vain

        def cancel(_task: trio.lowlevel.Task) -> bool:
            (everything if self.mode == "all" else scope).cancel()
            return True

        try:
            async with open_dataspace(on_crash=on_crash) as ds:
                self.disturbance.root = trio.lowlevel.current_task()
                self.disturbance.disturb = fail if self.mode == "error" else cancel
                try:
                    with scope:
                        await scenario(ds)
                finally:
                    if not everything.cancel_called:
                        await self.check_in_the_open(ds)
        finally:
            check_empty(ds, self.crashes)
            assert {} == ds._runtime._running
            assert [] == [task for task in ds._runtime._barred if task.parent_nursery is not None]

    async def check_in_the_open(self, ds: AsyncDataspace) -> None:
        """While the dataspace lives: what stands is held by living actors; and is gone when those are stopped."""
        self.disturbance.root = None
        with trio.CancelScope(shield=True):
            core = ds._core
            for actor in list(core._actors.values()):
                assert actor.alive
            held = {
                handle.record.fact
                for actor in core._actors.values()
                for facet in actor.root._tree()
                for handle in facet.handles
                if hasattr(handle, "record")
            }
            assert held == {fact for kind in (Ask, Hint, Busy, Answer) for fact in ds.facts(kind)}
            for actor in list(core._actors.values()):
                await actor.root.stop()
            check_empty(ds, self.crashes)


def check_empty(ds: AsyncDataspace, crashes: int) -> None:
    """Nothing is left but the facts that tell of crashes."""
    now = ds.statistics()
    assert (crashes, 0, 0, 0, 0) == (now.facts, now.observers, now.actors, now.backlog, now.leaves)
    assert crashes == len(ds.facts(Crashed))


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """An error, or those within a group."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from leaves_of(part)
    else:
        yield error


def logged(caplog: pytest.LogCaptureFixture) -> list[BaseException]:
    """The exceptions that were logged."""
    return [record.exc_info[1] for record in caplog.records if record.exc_info and record.exc_info[1] is not None]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", ["all", "caller"])
def test_r18_cancelled_anywhere(mode: str, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Cancelled at any step, as a whole or only the calling code, nothing is left, nothing hangs, nobody crashes."""
    at = 0
    while True:
        run = Run(at, mode, seed)
        if not run():
            break
        assert ([], []) == (run.told, caplog.records), f"step {at}"
        at += 1
    assert at > 30
    assert ([], []) == (run.told, caplog.records)


@pytest.mark.parametrize("seed", range(3))
def test_r19_an_error_anywhere(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """An error at any await is told exactly once, to the caller, `on_crash` or the log, and nothing is left behind."""
    caplog.set_level(logging.WARNING)
    at, in_time = 0, 0
    while True:
        caplog.clear()
        run = Run(at, "error", seed)
        if not run():
            break
        told = [leaf for error in run.told for leaf in leaves_of(error)]
        late = [leaf for error in logged(caplog) for leaf in leaves_of(error)]
        assert [Injected] == [type(error) for error in told + late], f"step {at}"
        in_time += len(told)
        at += 1
    assert at > 30
    assert in_time > at / 2


def test_undisturbed_the_scenario_runs_to_its_end() -> None:
    """The scenario itself passes."""
    assert not Run(10**6, "all")()
