"""Other threads: R20, `me.blocking`, and the wrong thread for every method there is."""

from __future__ import annotations

import contextvars
import inspect
import threading
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import trio
import trio.testing
from attrs import evolve, frozen

from dataspace import Crashed, Dataspace, Facet, Handle, Stopped, open_dataspace
from dataspace._runtime import AsyncDataspace
from dataspace._threads import Work
from dataspace.errors import TurnError

LONG = 20.0
"""Seconds after which a thread that should have come is given up; nothing waits that long."""


@frozen
class Item:
    n: int
    by: int = 0


def quietly(*_: object) -> None:
    """For crashes that are meant."""


async def settle() -> None:
    """Let everything run that can."""
    await trio.testing.wait_all_tasks_blocked()


def outcome_of(fn: Callable[..., Any], *args: Any) -> Any:
    """What `fn` returns, or the exception it raises."""
    try:
        return fn(*args)
    except BaseException as error:  # noqa: BLE001 - it is what is asked for
        return error


async def in_thread(fn: Callable[..., Any], *args: Any) -> Any:
    """The outcome of `fn(*args)` in another thread."""
    with trio.fail_after(LONG):
        return await trio.to_thread.run_sync(outcome_of, fn, *args)


def errors_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The exceptions that were logged."""
    return [str(record.exc_info[1]) for record in caplog.records if record.exc_info]


# -- from_thread ----------------------------------------------------------------------------------------------------------


async def test_r20_from_thread_returns_and_raises() -> None:
    """`from_thread` runs a function on the dataspace's thread, as turns, and gives back its result or its error."""
    async with open_dataspace() as ds:
        me = ds.actor("me")
        seen: list[Item] = []
        me.observe(Item, appeared=seen.append)

        def act() -> tuple[int, tuple[Item, ...]]:
            me.publish(Item(1))
            return threading.get_ident(), tuple(seen)

        assert (threading.get_ident(), (Item(1),)) == await in_thread(ds.from_thread, act)
        error = ValueError("no")

        def fail() -> None:
            raise error

        assert error is await in_thread(ds.from_thread, fail)
        assert Item(1) in ds.facts(Item)


async def test_r20_many_threads_post_in_order() -> None:
    """Each thread's posts are run in the order in which it made them, one at a time, and none is lost."""
    per_thread, threads = 200, 8
    async with open_dataspace() as ds:
        me = ds.actor("me")
        heard: list[Item] = []
        me.observe(Item, heard=heard.append)
        ready = threading.Barrier(threads)

        def post(by: int) -> None:
            ready.wait(LONG)
            for n in range(per_thread):
                ds.from_thread_soon(me.send, Item(n, by))
            ds.from_thread(me.send, Item(per_thread, by))  # waits for the posts before it

        async with trio.open_nursery() as nursery:
            for by in range(threads):
                nursery.start_soon(in_thread, post, by)
        assert threads * (per_thread + 1) == len(heard)
        for by in range(threads):
            assert list(range(per_thread + 1)) == [item.n for item in heard if item.by == by]


async def test_r20_the_error_of_a_post_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """An error in what `from_thread_soon` was given is logged, and harms neither the dataspace nor later posts."""
    async with open_dataspace() as ds:
        me = ds.actor("me")

        def fail() -> None:
            raise ValueError("no")

        await in_thread(ds.from_thread_soon, fail)
        await in_thread(ds.from_thread_soon, me.publish, Item(1))
        await in_thread(ds.from_thread, lambda: None)
        assert (["no"], (Item(1),)) == (errors_in(caplog), ds.facts(Item))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_r20_the_end_of_the_program_from_a_post(kind: type[BaseException]) -> None:
    """SystemExit and KeyboardInterrupt in a post end the dataspace and come out of it, as from a task."""

    def leave() -> None:
        raise kind("now")

    async def run() -> None:
        async with open_dataspace() as ds:
            await in_thread(ds.from_thread_soon, leave)
            with trio.fail_after(LONG):
                await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        await run()
    assert [kind] == [type(error) for error in caught.value.exceptions]


@pytest.mark.parametrize("name", ["from_thread", "from_thread_soon"])
async def test_r20_an_entrance_is_for_other_threads(name: str) -> None:
    """Called on the dataspace's own thread, `from_thread` and `from_thread_soon` say so instead of blocking it."""
    async with open_dataspace() as ds:
        with pytest.raises(TurnError, match=f"{name} is for other threads"):
            getattr(ds, name)(lambda: None)


@pytest.mark.parametrize("name", ["from_thread", "from_thread_soon"])
async def test_r20_an_entrance_takes_functions(name: str) -> None:
    """An async function, or what is no function at all, is refused where it is given, not later and unseen."""

    async def work() -> None:
        raise AssertionError("never awaited")

    async with open_dataspace() as ds:
        for wrong in (work, None):
            error = await in_thread(getattr(ds, name), wrong)
            assert isinstance(error, TypeError)
            assert "synchronous" in str(error)


@pytest.mark.parametrize("name", ["from_thread", "from_thread_soon"])
async def test_r20_after_the_end(name: str) -> None:
    """When the dataspace is closed, threads are told with `Stopped`; so are they when trio itself has ended."""
    async with open_dataspace() as ds:
        pass
    assert isinstance(await in_thread(getattr(ds, name), lambda: None), Stopped)

    kept: list[AsyncDataspace] = []

    async def run() -> None:
        async with open_dataspace() as other:
            kept.append(other)

    def elsewhere() -> None:
        trio.run(run)

    assert await in_thread(elsewhere) is None
    assert isinstance(await in_thread(getattr(kept[0], name), lambda: None), Stopped)


async def test_r20_posted_before_the_end_and_run_after_it(caplog: pytest.LogCaptureFixture) -> None:
    """A post that the dataspace does not live to see is not run, and that is logged: it does not disappear."""
    ran: list[int] = []
    async with open_dataspace() as ds:
        thread = threading.Thread(target=ds.from_thread_soon, args=(ran.append, 1))
        thread.start()
        thread.join(LONG)
    await settle()
    assert ([], ["the dataspace is closed"]) == (ran, errors_in(caplog))


async def test_r20_a_turn_left_open_by_a_thread_is_discarded(caplog: pytest.LogCaptureFixture) -> None:
    """What a thread leaves half done is discarded, and the next visitor finds everything in order."""
    async with open_dataspace() as ds:
        me = ds.actor("me")

        def leave_open() -> None:
            me.turn().__enter__()
            me.publish(Item(1))

        assert isinstance(await in_thread(ds.from_thread, leave_open), TurnError)
        await in_thread(ds.from_thread_soon, leave_open)
        await in_thread(ds.from_thread, me.publish, Item(2))
        assert (Item(2),) == ds.facts(Item)
    assert ["a turn was left open"] == [error[:20] for error in errors_in(caplog)]


home: contextvars.ContextVar[str] = contextvars.ContextVar("home", default="nowhere")


@pytest.mark.parametrize("name", ["from_thread", "from_thread_soon"])
async def test_r20_a_visitor_brings_its_context_variables(name: str) -> None:
    """What a thread asks for, and the tasks that this starts, run in a copy of that thread's context variables."""
    seen: list[str] = []
    done = trio.Event()

    async def work() -> None:
        seen.append(home.get())
        done.set()

    async with open_dataspace() as ds:
        me = ds.actor("me")

        def visit() -> None:
            seen.append(home.get())
            me.task(work)
            home.set("changed by the visit")

        def thread() -> str:
            home.set("the thread's")
            getattr(ds, name)(visit)
            return home.get()

        assert "the thread's" == await in_thread(thread)
        with trio.fail_after(LONG):
            await done.wait()
    assert (["the thread's"] * 2, "nowhere") == (seen, home.get())


# -- the wrong thread -------------------------------------------------------------------------------------------------------


def methods(cls: type) -> list[str]:
    """The public methods of a class."""
    return [name for name, _ in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")]


def enter(context: Any) -> None:
    """Use a context manager."""
    with context:
        pass


FACET_CALLS: dict[str, Callable[[Facet, Any], Any]] = {
    "publish": lambda me, _: me.publish(Item(1)),
    "retract": lambda me, handle: me.retract(handle),
    "replace": lambda me, handle: me.replace(handle, Item(1)),
    "send": lambda me, _: me.send(Item(1)),
    "observe": lambda me, _: me.observe(Item),
    "during": lambda me, _: me.during(Item, lambda _me, _item: None),
    "changes": lambda me, _: me.changes(Item),
    "facts": lambda me, _: me.facts(Item),
    "task": lambda me, _: me.task(trio.sleep, 1),
    "blocking": lambda me, _: me.blocking(print).send(None),  # type: ignore[attr-defined]
    "grace": lambda me, _: me.grace(),
    "later": lambda me, _: me.later(lambda: None),
    "spawn": lambda me, _: me.spawn(lambda _me: None),
    "turn": lambda me, _: enter(me.turn()),
    "stop": lambda me, _: me.stop(),
    "on_stop": lambda me, _: me.on_stop(print),
    "on_crash": lambda me, _: me.on_crash(print),
}
DATASPACE_CALLS: dict[str, Callable[[Any], Any]] = {
    "actor": lambda ds: ds.actor("late"),
    "spawn": lambda ds: ds.spawn(lambda _me: None),
    "facts": lambda ds: ds.facts(Item),
    "statistics": lambda ds: ds.statistics(),
}
ASYNC_DATASPACE_CALLS = DATASPACE_CALLS | {"spawn": lambda ds: ds.spawn(lambda _me: None).send(None)}
ENTRANCES = {"from_thread", "from_thread_soon"}


def in_plain_thread(fn: Callable[..., Any], *args: Any) -> Any:
    """The outcome of `fn(*args)` in a thread that trio knows nothing of."""
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.append(outcome_of(fn, *args)))
    thread.start()
    thread.join(LONG)
    return outcome[0]


def assert_refused(error: Any) -> None:
    """It says that this is another thread, and what to use."""
    assert isinstance(error, TurnError), error
    assert "thread" in str(error)
    assert "from_thread" in str(error)


def test_r20_no_method_is_forgotten() -> None:
    """The tests of the wrong thread call every public method there is."""
    assert set(FACET_CALLS) == set(methods(Facet))
    assert set(DATASPACE_CALLS) == set(methods(Dataspace))
    assert set(ASYNC_DATASPACE_CALLS) == set(methods(AsyncDataspace)) - ENTRANCES


@pytest.mark.parametrize("state", ["alive", "stopped"])
@pytest.mark.parametrize("name", FACET_CALLS)
async def test_r20_a_facet_says_that_this_is_the_wrong_thread(name: str, state: str) -> None:
    """Every method of a facet called from another thread says so and does nothing, of a stopped one too."""
    async with open_dataspace() as ds:
        me = ds.actor("me")
        handle = me.publish(Item(0))
        if state == "stopped":
            await me.stop()
        before = ds.statistics()
        assert_refused(in_plain_thread(FACET_CALLS[name], me, handle))
        assert_refused(await in_thread(FACET_CALLS[name], me, handle))
        assert before == ds.statistics()


@pytest.mark.parametrize("name", FACET_CALLS)
def test_r20_so_does_a_facet_without_event_loop(name: str) -> None:
    """The same for a dataspace without event loop."""
    me = Dataspace().actor("me")
    handle = me.publish(Item(0))
    error = in_plain_thread(FACET_CALLS[name], me, handle)
    assert isinstance(error, TurnError)
    assert "thread" in str(error)
    assert (Item(0),) == me.facts(Item)


@pytest.mark.parametrize("name", DATASPACE_CALLS)
async def test_r20_a_dataspace_says_that_this_is_the_wrong_thread(name: str) -> None:
    """Every method of a dataspace called from another thread says so, but for those made for it."""
    ds = Dataspace()
    assert_refused(in_plain_thread(DATASPACE_CALLS[name], ds))
    async with open_dataspace() as opened:
        assert_refused(in_plain_thread(ASYNC_DATASPACE_CALLS[name], opened))
        assert_refused(await in_thread(ASYNC_DATASPACE_CALLS[name], opened))
        assert 0 == opened.statistics().actors


async def test_r20_leaving_a_block_in_the_wrong_thread() -> None:
    """The `with` block of a handle, or of changes, cannot be left in another thread."""
    async with open_dataspace() as ds:
        me = ds.actor("me")
        handle = me.publish(Item(0))
        assert_refused(in_plain_thread(enter, handle))
        assert (Item(0),) == ds.facts(Item)
        with me.changes(Item) as changes:
            assert_refused(in_plain_thread(changes.__exit__, None, None, None))


# -- blocking ---------------------------------------------------------------------------------------------------------------


async def test_blocking_returns_and_raises() -> None:
    """`me.blocking` runs a function in another thread, gives its result, raises its error as it is."""
    async with open_dataspace() as ds:
        me = ds.actor("me")
        assert threading.get_ident() != await me.blocking(threading.get_ident)
        assert 8 == await me.blocking(pow, 2, 3)
        error = ValueError("no")

        def fail() -> None:
            raise error

        with pytest.raises(ValueError, match="no") as caught:
            await me.blocking(fail)
        assert error is caught.value


async def test_blocking_errors_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """The error of a function that is waited for crashes the actor that waits, and is not logged a second time."""
    told: list[str] = []

    async def work(me: Facet) -> None:
        await me.blocking(int, "x")

    async with open_dataspace(on_crash=lambda crash, _error: told.append(crash.actor)) as ds:
        worker = await ds.spawn(work)
        ended = trio.Event()
        worker.on_crash(lambda _error: ended.set())
        with trio.fail_after(LONG):
            await ended.wait()
        assert ["work"] == [crash.actor for crash in ds.facts(Crashed)]
    assert (["work"], []) == (told, caplog.records)


async def test_blocking_runs_in_the_context_variables_it_is_given() -> None:
    """With `context=` the function sees those variables, otherwise the caller's; what it sets does not leak back."""

    def look() -> str:
        seen = home.get()
        home.set("changed")
        return seen

    home.set("the caller's")
    context = contextvars.copy_context()
    context.run(home.set, "elsewhere")
    async with open_dataspace() as ds:
        me = ds.actor("me")
        assert ["the caller's", "elsewhere", "elsewhere"] == [
            await me.blocking(look),
            await me.blocking(look, context=context),
            await me.blocking(look, context=context),
        ]
    assert ("elsewhere", "the caller's") == (context[home], home.get())


async def test_blocking_cannot_touch_the_dataspace() -> None:
    """The function in the thread that acts on the dataspace gets a clear error; through `from_thread` it may visit."""
    async with open_dataspace() as ds:
        me = ds.actor("me")
        with pytest.raises(TurnError, match="another thread"):
            await me.blocking(me.publish, Item(1))
        assert () == ds.facts(Item)
        await me.blocking(ds.from_thread, me.publish, Item(2))
        assert (Item(2),) == ds.facts(Item)


class Gate:
    """A function for a thread, which waits there until it is let go."""

    def __init__(self, error: Exception | None = None) -> None:
        self.entered, self.open, self.left = threading.Event(), threading.Event(), threading.Event()
        self.error = error

    def __call__(self) -> str:
        self.entered.set()
        try:
            assert self.open.wait(LONG)
            if self.error is not None:
                raise self.error
            return "through"
        finally:
            self.left.set()


class LogWaiter:
    """Lets a test wait for what another thread logs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.logged = threading.Event()
        log = Work._log

        def _log(work: Work, error: BaseException) -> None:
            log(work, error)
            self.logged.set()

        monkeypatch.setattr(Work, "_log", _log)


@pytest.mark.parametrize("fails", [False, True])
async def test_r19_a_cancelled_call_is_abandoned(
    fails: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is stopped does not wait for its thread; a result that comes late is dropped, an error is logged."""
    gate = Gate(ValueError("late") if fails else None)
    waiter = LogWaiter(monkeypatch)

    async def work(me: Facet) -> None:
        await me.blocking(gate)

    async with open_dataspace() as ds:
        worker = await ds.spawn(work)
        assert await in_thread(gate.entered.wait, LONG)
        with trio.fail_after(LONG):
            await worker.stop()
        assert 0 == ds.statistics().actors
    gate.open.set()
    assert await in_thread(gate.left.wait, LONG)
    if fails:
        assert await in_thread(waiter.logged.wait, LONG)
    assert (["late"] if fails else []) == errors_in(caplog)


async def test_r19_an_error_just_as_the_call_is_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    """If the thread has failed and its caller is cancelled before it hears of that, the error is logged, once."""
    go, failed = threading.Event(), threading.Event()

    def fail() -> None:
        assert go.wait(LONG)
        raise ValueError("just now")

    class Late(Work):
        def run(self) -> Any:
            try:
                return super().run()
            finally:
                failed.set()

    async with open_dataspace() as ds:
        me = ds.actor("me")
        with trio.CancelScope() as scope, pytest.MonkeyPatch.context() as patch:
            patch.setattr("dataspace._trio.Work", Late)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(me.blocking, fail)
                await settle()
                # This thread does not let trio go on between the failure and the cancellation.
                go.set()
                assert failed.wait(LONG)
                scope.cancel()
        assert ["just now"] == errors_in(caplog)


@pytest.mark.parametrize("first", ["fails", "abandoned"])
def test_r19_work_tells_its_error_exactly_once(first: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever comes first, the failure or the abandonment: an error nobody waits for is logged once."""
    error = ValueError("once")

    def fail() -> None:
        raise error

    work = Work(fail, (), None)
    cancelled = RuntimeError("stands for a cancellation")
    if first == "fails":
        assert error is outcome_of(work.run)
        work.abandon(cancelled)
    else:
        work.abandon(cancelled)
        assert outcome_of(work.run) is None
    assert ["once"] == errors_in(caplog)


def test_r19_work_whose_error_was_delivered_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """An error that reached who waited for it is not told again."""
    error = ValueError("delivered")

    def fail() -> None:
        raise error

    work = Work(fail, (), None)
    assert error is outcome_of(work.run)
    work.abandon(error)
    assert [] == caplog.records


async def test_blocking_an_async_function_is_refused() -> None:
    """A coroutine is not what runs in a thread; it is said, and nothing is left unawaited."""

    async def work() -> None:
        raise AssertionError("never awaited")

    async with open_dataspace() as ds:
        with pytest.raises(TypeError, match="sync"):
            await ds.actor("me").blocking(work)


async def test_blocking_needs_an_event_loop() -> None:
    """Without one, what needs one says what to use."""
    me = Dataspace(on_crash=quietly).actor("me")
    for call in (lambda: me.task(trio.sleep, 1), lambda: me.changes(Item), me.grace):
        with pytest.raises(TurnError, match="open_dataspace"):
            call()
    with pytest.raises(TurnError, match="open_dataspace"):
        await me.blocking(print)
    assert await me.stop() is None  # type: ignore[func-returns-value]


# -- stress -------------------------------------------------------------------------------------------------------------------


async def restless(me: Facet, item: Item) -> None:
    """An async body that does a bit of everything and ends in one of several ways."""
    with me.changes(Item) as changes:
        me.publish(Item(-item.n))
        for _ in range(item.n % 4):
            await anext(changes)
            with me.turn():
                me.send(Item(-1))
                me.replace(me.publish(Item(-2)), Item(-3))
    if item.n % 7 == 3:
        raise ValueError("meant")
    if item.n % 5 == 1:
        me.actor.root.stop()
    if item.n % 11 == 2:
        await me.blocking(threading.get_ident)


def take_a_part(me: Facet, part: int) -> None:
    """An actor that works on every fourth item."""

    def begin(own: Facet, item: Item) -> None:
        if item.n > 0 and item.n % 4 == part:
            own.task(restless, own, item)

    me.during(Item, begin)


class Board:
    """The items that threads keep publishing anew, from one actor."""

    def __init__(self, ds: AsyncDataspace, me: Facet) -> None:
        self.ds, self.me = ds, me
        self.handles: dict[int, Handle] = {}

    def post(self, n: int) -> None:
        self.me.retract(self.handles.get(n))
        self.handles[n] = self.me.publish(Item(n))

    def thread(self, numbers: list[int]) -> None:
        for n in numbers:
            self.ds.from_thread_soon(self.post, n)
            if n % 10 == 0:
                self.ds.from_thread(lambda: None)

    def clear(self) -> None:
        for handle in self.handles.values():
            self.me.retract(handle)


@pytest.mark.parametrize("seed", range(3))
async def test_stress_everything_is_back_where_it_was(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Many actors with tasks, crashes, stops and posting threads later, the dataspace holds what it held before."""
    random = Random(seed)
    crashed: list[str] = []
    async with open_dataspace(on_crash=lambda crash, _: crashed.append(crash.actor)) as ds:
        board = Board(ds, ds.actor("me"))
        before = ds.statistics()
        with trio.fail_after(60):
            workers = [await ds.spawn(take_a_part, n % 4, name=f"worker {n}") for n in range(20)]
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(in_thread, board.thread, [random.randrange(1, 60) for _ in range(60)])
            for n in range(1, 60):
                board.post(n)
            await settle()
            board.clear()
            random.shuffle(workers)
            for worker in workers:
                await worker.stop()
        assert len(crashed) == len(ds.facts(Crashed))
        assert before == evolve(ds.statistics(), facts=ds.statistics().facts - len(crashed))
        assert {} == ds._runtime._running
    # Only of tasks that failed in the same instant in which their actor crashed.
    assert {"meant"}.issuperset(errors_in(caplog))
