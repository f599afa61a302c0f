"""Slips that newcomers make are answered at once, in words that say what to do."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
from attrs import frozen

from dataspace import Dataspace, Facet, Observe, Stopped, literal, open_dataspace, where
from dataspace.errors import NotAFact, PatternError, TurnError
from engines import Loop, Policy, ctx_dataspace, observe, serve, un_observe
from engines.compressor import compressor
from engines.facts import Serving, Usage
from engines.loop.events import SessionStarted, UsageRead
from engines.swap import swap


@frozen
class P:
    x: int = 0


def test_asyncio_is_not_trio() -> None:
    """Under asyncio the error names trio and the way in from an asyncio program."""

    async def main() -> None:
        async with open_dataspace():
            pass

    with pytest.raises(TurnError, match=r"trio\.run\(main\)"):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("act", "what"),
    [
        (lambda me: me.ds.spawn(trio.sleep), "an async boot function"),
        (lambda me: me.during(P, trio.sleep), "an async body"),
        (lambda me: me.task(trio.sleep, 1), "a task"),
        (lambda me: me.changes(P), "changes"),
        (lambda me: me.grace(), "grace"),
    ],
)
def test_what_needs_an_event_loop_says_so(act: Callable[[Facet], object], what: str) -> None:
    """In a dataspace without one, async work is refused by name, and nothing of it stays."""
    ds = Dataspace()
    me = ds.actor("me")
    with pytest.raises(TurnError, match=rf"^{what} needs an event loop: use open_dataspace"):
        act(me)
    assert (1, 0) == (ds.statistics().actors, ds.statistics().observers)


def test_an_object_that_is_called_asynchronously_is_no_callback() -> None:
    """What matters is what calling gives: an object with an async `__call__` is refused like an async function."""

    class Waits:
        async def __call__(self, fact: P) -> None: ...

    ds = Dataspace()
    me = ds.actor("me")
    for callback in (Waits(), functools.partial(Waits()), functools.partial(Waits().__call__)):
        with pytest.raises(TypeError, match="synchronous"):
            me.observe(P, appeared=callback)
    assert 0 == ds.statistics().observers


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (P, r"it is the class, give an instance: P\(\.\.\.\)$"),
        ("text", r"a fact is an instance of a frozen attrs class \(@attrs\.frozen\)$"),
        (attrs.make_class("Open", ["x"])(1), r"its class can change or is not compared by value, use @attrs\.frozen$"),
        (dataclasses.make_dataclass("Data", ["x"], frozen=True)(1), "use @attrs.frozen instead of @dataclass$"),
    ],
    ids=["class", "text", "attrs class", "dataclass"],
)
def test_what_is_no_fact_says_why(value: Any, hint: str) -> None:
    """Publishing a class or a plain value says what a fact is."""
    with pytest.raises(NotAFact, match=hint):
        Dataspace().actor("a").publish(value)


def test_text_is_no_pattern() -> None:
    """A text where a pattern belongs names the function that reads it."""
    with pytest.raises(PatternError, match="parse_pattern"):
        Dataspace().facts("(p)")  # type: ignore[arg-type]


def test_who_observes_this_pattern() -> None:
    """`where(Observe, pattern=X)` means the pattern X itself, for a class as for a pattern."""
    ds = Dataspace()
    me = ds.actor("me")
    me.observe(where(P, x=1))
    me.observe(P)
    assert where(Observe, pattern=where(P, x=1)) == where(Observe, pattern=literal(where(P, x=1)))
    assert [o.pattern for o in ds.facts(where(Observe, pattern=where(P, x=1)))] == [where(P, x=1)]
    assert [o.pattern for o in ds.facts(where(Observe, pattern=P))] == [where(P)]


async def test_a_call_is_no_task() -> None:
    """A coroutine instead of an async function is refused where it is given."""
    async with open_dataspace() as ds:
        me = ds.actor("me")
        with pytest.raises(TypeError, match="not the call of one"):
            me.task(trio.sleep(1))  # type: ignore[arg-type]  # noqa: ASYNC105 - the slip
        assert me.alive


def test_a_maker_of_boot_functions_is_no_boot_function() -> None:
    """`spawn(compressor)` instead of `spawn(compressor())` crashes with a hint, and does not end in silence."""
    crashes: list[BaseException] = []
    ds = Dataspace(on_crash=lambda _crash, error: crashes.append(error))

    def maker() -> Any:
        return lambda me: None

    with pytest.raises(Stopped):
        ds.spawn(lambda me: maker(), name="x").publish(P())
    assert "called first" in str(crashes[0])


def test_serve_checks_role_and_work() -> None:
    """A misspelled role and a missing function are refused when they are given."""
    me = Dataspace().actor("me")
    with pytest.raises(ValueError, match="compressor, reviser, shadow, observer"):
        serve(me, lambda me, asked: None, role="compresser")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="function that does the work"):
        serve(me, None)  # type: ignore[arg-type]


async def test_swap_takes_the_engine_itself() -> None:
    """A name instead of what `spawn` returned is refused before anything is plugged."""
    async with open_dataspace() as ds:
        with pytest.raises(TypeError, match="what spawn or swap returned"):
            await swap(ds, "compressor", compressor(), name="x")  # type: ignore[arg-type]
        assert ds.facts(Serving) == ()


def test_the_loop_takes_actors_and_events() -> None:
    """A dataspace instead of an actor, and a fact instead of an event, are named as what they are."""
    ds = Dataspace()
    with pytest.raises(TypeError, match=r"Loop\(ds\.actor\('loop'\)\)"):
        Loop(ds)  # type: ignore[arg-type]
    loop = Loop(ds.actor("loop"))
    with pytest.raises(TypeError, match="UsageRead"):
        loop.feed(Usage("s", 1))  # type: ignore[arg-type]


@pytest.mark.parametrize("usage", [{"promt_tokens": 500}, {"prompt_tokens": "500"}, {"prompt_tokens": -3}])
def test_usage_that_cannot_be_read_is_logged(usage: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """A report that says nothing readable is met with an estimate, and with a warning that shows it."""
    loop = Loop(Dataspace().actor("loop"))
    loop.feed(SessionStarted("s", threshold=100))
    with caplog.at_level(logging.WARNING):
        loop.feed(UsageRead("s", {}))
        loop.feed(UsageRead("s", {"prompt_tokens": None}))
        loop.feed(UsageRead("s", {"prompt_tokens": 5}))
        assert [] == caplog.records
        loop.feed(UsageRead("s", usage))
    (record,) = caplog.records
    assert ("engines.loop", "WARNING") == (record.name, record.levelname)
    assert str(usage) in record.getMessage()


@pytest.mark.parametrize(
    "options", [{"compressors": "dropper"}, {"revisers": (1,)}, {"low_mark": 80}, {"low_mark": -0.1}]
)
def test_policy_refuses_what_would_be_ignored(options: dict[str, Any]) -> None:
    """A name where names belong and a share beyond one are refused."""
    with pytest.raises((TypeError, ValueError)):
        Policy(**options)


def test_the_shim_names_what_it_takes() -> None:
    """Arguments in another order and something that is no handle are refused in words."""
    ctx = ctx_dataspace()
    with pytest.raises(TypeError, match=r"what ctx_dataspace\(\) gave"):
        observe("(should-compress ?sid)", ctx, print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="what observe gave"):
        un_observe(None)  # type: ignore[arg-type]
