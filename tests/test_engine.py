"""How an engine serves: asked, at work while the question stands, answering."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any

import pytest
import trio

from dataspace import Appeared, Crashed, Dataspace, Facet, Observe, Vanished, open_dataspace, where
from engines import Messages, serve
from engines.context import AskerContext
from engines.engine import blocking
from engines.facts import Answered, Asked, Blocked, Serving, Working
from tests.loop_driver import rows

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def asked(n: int = 1, *, to: str = "a", sid: str = "s1", **told: Any) -> Asked:
    """A question for an engine."""
    return Asked(sid, 1, n, to, messages=rows("u1", "u2"), **told)


def engine(work: Any, **told: Any) -> Callable[[Facet], None]:
    """The boot function of an engine that does nothing but this work."""

    def boot(me: Facet) -> None:
        serve(me, work, **told)

    return boot


class Bench:
    """A synchronous dataspace, an asker, and what was answered."""

    def __init__(self, work: Any, **told: Any) -> None:
        self.crashes: list[BaseException] = []
        self.ds = Dataspace(on_crash=lambda _crash, error: self.crashes.append(error))
        self.asker = self.ds.actor("asker")
        self.answers: list[Answered] = []
        self.asker.observe(Answered, heard=self.answers.append)
        self.engine = self.ds.spawn(engine(work, **told), name="a")


def test_a_list_is_the_answer() -> None:
    """What the work returns is frozen and sent, for the asking it was made for."""
    bench = Bench(lambda _me, a: [*a.messages.thaw()[1:], {"role": "assistant", "content": "x"}])
    bench.asker.publish(asked(7))
    (answer,) = bench.answers
    assert ("s1", 1, 7, "a", None) == (answer.sid, answer.ask, answer.n, answer.by, answer.error)
    assert isinstance(answer.messages, Messages)
    assert ["u2", "x"] == [row["content"] for row in answer.messages]


def test_none_declines() -> None:
    """Who returns None has nothing to say."""
    bench = Bench(lambda _me, _a: None)
    bench.asker.publish(asked())
    assert [(None, None)] == [(answer.messages, answer.error) for answer in bench.answers]


@pytest.mark.parametrize(
    ("error", "text"), [(ValueError("no"), "ValueError: no"), (KeyError(), "KeyError")], ids=["text", "bare"]
)
def test_an_error_in_the_work_is_the_answer(error: Exception, text: str) -> None:
    """The engine lives on, and of the work that failed nothing remains."""

    def work(me: Facet, a: Asked) -> Any:
        me.publish(Blocked(a.sid, "half done"))
        if a.n == 1:
            raise error
        return a.messages

    bench = Bench(work)
    bench.asker.publish(asked(1))
    assert [(None, text)] == [(answer.messages, answer.error) for answer in bench.answers]
    assert () == bench.ds.facts(Blocked)
    bench.asker.publish(asked(2))
    assert rows("u1", "u2") == bench.answers[1].messages
    assert [Blocked("s1", "half done")] == list(bench.ds.facts(Blocked))
    assert bench.engine.alive


def test_what_is_no_message_list_is_an_error() -> None:
    """The answer says what is wrong with the result."""
    bench = Bench(lambda _me, _a: ["text"])
    bench.asker.publish(asked())
    assert "messages[0] must be a dict" in str(bench.answers[0].error)


def test_a_function_that_returns_a_coroutine_is_told_so() -> None:
    """The error says what to give instead, and no coroutine is left unawaited."""

    async def work(_me: Facet, _a: Asked) -> None: ...

    bench = Bench(lambda me, a: work(me, a))  # noqa: PLW0108 - a function that is not async itself
    bench.asker.publish(asked())
    assert "give serve the async function itself" in str(bench.answers[0].error)


def test_an_error_in_its_own_callbacks_is_the_engines_end() -> None:
    """Only the work on a question is caught; the rest of the engine crashes as any actor does."""

    def boot(me: Facet) -> None:
        def fail(_fact: object) -> None:
            raise RuntimeError("no thanks")

        me.observe(Blocked, appeared=fail)
        serve(me, lambda _me, _asked: None)

    bench = Bench(lambda _me, _a: None)
    bench.ds.spawn(boot, name="b")
    bench.asker.publish(Blocked("s1", "x"))
    assert ["b"] == [crash.actor for crash in bench.ds.facts(Crashed)]
    assert [Serving("a", "compressor")] == list(bench.ds.facts(Serving))


def test_it_serves_once_it_has_heard_what_stood() -> None:
    """`Serving` appears after the engine has handled the facts that were there when it came."""
    ds = Dataspace()
    host = ds.actor("host")
    host.publish(Blocked("s1", "x"))
    log: list[str] = []
    host.observe(Serving, appeared=lambda _fact: log.append("serving"))

    def boot(me: Facet) -> None:
        me.observe(Blocked, appeared=lambda _fact: log.append(f"heard, {len(ds.facts(Serving))} serving"))
        serve(me, lambda _me, _asked: log.append(f"worked, {len(ds.facts(Serving))} serving"))

    host.publish(asked(to="b"))
    ds.spawn(boot, name="b")
    assert ["heard, 0 serving", "worked, 0 serving", "serving"] == log


def test_it_works_on_its_own_questions_only() -> None:
    """Another engine's question, another role's or another conversation's is none of its business."""
    bench = Bench(lambda _me, a: a.messages, role="reviser", sid="s1")
    for other in (asked(1), asked(2, to="b", role="reviser"), asked(3, sid="s2", role="reviser")):
        bench.asker.publish(other)
    assert [] == bench.answers
    bench.asker.publish(asked(4, role="reviser"))
    assert [4] == [answer.n for answer in bench.answers]
    assert [Serving("a", "reviser", "s1")] == list(bench.ds.facts(Serving))


def test_what_the_work_publishes_goes_with_the_question() -> None:
    """The `me` of the work is the question's lifetime."""
    bench = Bench(lambda me, a: me.publish(Blocked(a.sid, "at work")) and None)
    question = bench.asker.publish(asked())
    assert 1 == len(bench.ds.facts(Blocked))
    bench.asker.retract(question)
    assert () == bench.ds.facts(Blocked)
    assert bench.engine.alive


def test_sync_work_runs_in_the_askers_context() -> None:
    """Context variables are the asker's; what the work sets stays its own."""

    def work(_me: Facet, _a: Asked) -> Any:
        who = WHO.get()
        WHO.set("the engine")
        return [{"role": "user", "content": who}]

    context = copy_context()
    context.run(WHO.set, "the asker")
    bench = Bench(work)
    for n in (1, 2):
        bench.asker.publish(asked(n, context=AskerContext(context)))
    assert ["the asker", "the asker"] == [answer.messages[0]["content"] for answer in bench.answers]
    assert ("the asker", "nobody") == (context[WHO], WHO.get())


def test_async_work_needs_an_event_loop() -> None:
    """In a synchronous dataspace it is refused when the engine is plugged in, not when it is asked."""

    async def work(_me: Facet, _asked: Asked) -> None: ...

    bench = Bench(functools.partial(work))
    assert "event loop" in str(bench.crashes[0])
    assert () == bench.ds.facts(Serving)


# -- under trio -------------------------------------------------------------------------------------------------------


async def answers_of(work: Any, *questions: Asked) -> list[Answered]:
    """What an engine with this work answers, in the order of the questions."""
    async with open_dataspace() as ds:
        asker = ds.actor("asker")
        await ds.spawn(engine(work), name="a")
        with asker.changes(Answered) as changes:
            for question in questions:
                asker.publish(question)
            found = [(await anext(changes)).fact for _ in questions]
        return sorted(found, key=lambda answer: answer.n)


async def test_async_work_answers_too(autojump_clock: Any) -> None:
    """A task a question; results, refusals and errors are answers as with a plain function."""

    class Work:
        async def __call__(self, _me: Facet, a: Asked) -> Any:
            await trio.sleep(0.1)
            if a.n == 2:
                raise ExceptionGroup("two at once", [ValueError("x")])
            return None if a.n == 3 else a.messages

    found = await answers_of(Work(), asked(1), asked(2), asked(3))
    assert [1, 2, 3] == [answer.n for answer in found]
    assert rows("u1", "u2") == found[0].messages
    assert "ExceptionGroup: two at once (1 sub-exception)" == found[1].error
    assert (None, None) == (found[2].messages, found[2].error)


async def test_async_work_runs_in_the_askers_context(autojump_clock: Any) -> None:
    """Also across awaits and into worker threads."""

    async def work(me: Facet, a: Asked) -> Any:
        await trio.sleep(0.1)
        name = await blocking(me, a, WHO.get)
        return [{"role": "user", "content": f"{WHO.get()} {name}"}]

    context = copy_context()
    context.run(WHO.set, "x")
    found = await answers_of(work, asked(1, context=AskerContext(context)), asked(2))
    assert {1: "x x", 2: "nobody nobody"} == {answer.n: answer.messages[0]["content"] for answer in found}


async def test_the_work_ends_with_the_question(autojump_clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    """When the question goes its task is cancelled, and no answer comes; an error while it cleans up is shown."""
    async with open_dataspace() as ds:
        asker = ds.actor("asker")
        log: list[Any] = []
        asker.observe(Answered, heard=log.append)

        async def work(_me: Facet, a: Asked) -> None:
            try:
                await trio.sleep_forever()
            finally:
                log.append(f"{a.n} ends")
                if a.n == 2:
                    raise ValueError("while cleaning up")

        me = await ds.spawn(engine(work), name="a")
        for n in (1, 2):
            with asker.publish(asked(n)):
                await trio.sleep(1)
            await trio.testing.wait_all_tasks_blocked()
        assert ["1 ends", "2 ends"] == log[:2]
        assert [] == [entry for entry in log if isinstance(entry, Answered)]
        assert not me.alive
        assert ["a"] == [crash.actor for crash in ds.facts(Crashed)]
    caplog.clear()


async def test_an_abandoned_call_is_known(autojump_clock: Any) -> None:
    """A call in a thread that outlives its question stands as `Working` until it returns; one in time does not."""
    go = threading.Event()

    async def work(me: Facet, a: Asked) -> Any:
        await blocking(me, a, go.wait if a.n == 1 else bool)
        return a.messages

    async with open_dataspace() as ds:
        asker = ds.actor("asker")
        found: list[Answered] = []
        asker.observe(Answered, heard=found.append)
        await ds.spawn(engine(work), name="a")
        with asker.publish(asked(1)):
            await trio.testing.wait_all_tasks_blocked()
            assert [Working("a", "s1")] == list(ds.facts(Working))
        await trio.testing.wait_all_tasks_blocked()
        assert [Working("a", "s1")] == list(ds.facts(Working))
        with asker.changes(Working) as changes:
            assert Appeared(Working("a", "s1")) == await anext(changes)
            go.set()
            assert Vanished(Working("a", "s1")) == await anext(changes)
        assert [] == found
        with asker.publish(asked(2)), asker.changes(Answered) as changes:
            await anext(changes)
        assert () == ds.facts(Working)
        assert [2] == [answer.n for answer in found]


async def test_a_call_that_fails_in_its_thread_is_over(autojump_clock: Any) -> None:
    """Its error is the answer, and the engine is free."""

    def fail() -> None:
        raise OSError("disk full")

    async def work(me: Facet, a: Asked) -> None:
        await blocking(me, a, fail)

    async with open_dataspace() as ds:
        asker = ds.actor("asker")
        await ds.spawn(engine(work), name="a")
        with asker.changes(Answered) as answers, asker.publish(asked()):
            change = await anext(answers)
            assert "OSError: disk full" == change.fact.error
            await trio.testing.wait_all_tasks_blocked()
            assert () == ds.facts(Working)
            assert [o for o in ds.facts(Observe) if o.pattern == where(Asked, to="a", role="compressor")]


async def test_a_thread_may_outlive_the_dataspace() -> None:
    """A call that returns when everything is over harms nobody."""
    go, done = threading.Event(), threading.Event()

    def call() -> None:
        go.wait()
        done.set()

    async def work(me: Facet, a: Asked) -> None:
        await blocking(me, a, call)

    async with open_dataspace() as ds:
        asker = ds.actor("asker")
        await ds.spawn(engine(work), name="a")
        asker.publish(asked())
        await trio.testing.wait_all_tasks_blocked()
    go.set()
    assert await trio.to_thread.run_sync(done.wait, 10)
