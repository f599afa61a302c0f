"""Restarting engines that crashed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from dataspace import Crashed, Facet, open_dataspace
from engines import Loop, serve
from engines.facts import Asked, Blocked, CompactionFailed, Serving
from engines.loop import events as e
from engines.supervisor import GaveUp, Patience, supervised
from tests.loop_driver import policy, rows


def quietly(_crash: Crashed, _error: BaseException) -> None:
    """Crashes are expected here."""


def test_the_pause_doubles_and_ends() -> None:
    """1 s doubling to 60 s, and none after the fifth crash in ten minutes; older crashes are forgotten."""
    patience = Patience()
    pauses = []
    for at in (0.0, 1.0, 2.0, 3.0, 4.0):
        patience = patience.crashed(at)
        pauses.append(patience.pause)
    assert [1.0, 2.0, 4.0, 8.0, None] == pauses
    assert 8.0 == patience.crashed(601.0).pause  # those at 0 and 1 are too old: there are four
    many = Patience(most=100)
    for _ in range(50):
        many = many.crashed(0.0)
    assert 60.0 == many.pause


def fragile(log: list[float], *, crashes: int) -> Callable[[Facet], None]:
    """An engine that crashes so many times in its boot function, and serves after that."""

    def boot(me: Facet) -> None:
        log.append(trio.current_time())
        if len(log) <= crashes:
            raise RuntimeError(f"crash {len(log)}")
        serve(me, lambda _me, _asked: rows("short"))

    return boot


async def test_a_crashed_engine_comes_back(autojump_clock: Any) -> None:
    """It is started again under its name after each pause, and serves in the end."""
    log: list[float] = []
    async with open_dataspace(on_crash=quietly) as ds:
        began = trio.current_time()
        await ds.spawn(supervised(fragile(log, crashes=3), name="a"))
        assert () == ds.facts(Serving)
        await trio.sleep(100)
        assert [0.0, 1.0, 3.0, 7.0] == [at - began for at in log]
        assert [Serving("a", "compressor")] == list(ds.facts(Serving))
        assert () == ds.facts(GaveUp)


async def test_it_gives_up_visibly(autojump_clock: Any) -> None:
    """After five crashes in ten minutes it stays down, as a fact that stands while the supervisor does."""
    log: list[float] = []
    async with open_dataspace(on_crash=quietly) as ds:
        me = await ds.spawn(supervised(fragile(log, crashes=99), name="a"))
        await trio.sleep(10_000)
        assert 5 == len(log)
        assert [GaveUp("a", 5, "RuntimeError: crash 5")] == list(ds.facts(GaveUp))
        await me.stop()
        assert () == ds.facts(GaveUp)


async def test_rare_crashes_are_survived_for_ever(autojump_clock: Any) -> None:
    """An engine that crashes every few minutes is always restarted."""
    log: list[float] = []

    def boot(me: Facet) -> None:
        log.append(trio.current_time())

        async def live() -> None:
            await trio.sleep(200)
            raise RuntimeError("once in a while")

        me.task(live)

    async with open_dataspace(on_crash=quietly) as ds:
        await ds.spawn(supervised(boot, name="a"))
        await trio.sleep(20_000)
        assert len(log) > 90
        assert () == ds.facts(GaveUp)


async def test_an_orderly_end_is_the_end(autojump_clock: Any) -> None:
    """An engine that is stopped, or whose async boot returns, is not restarted, and its supervisor goes too."""
    booted: list[str] = []

    async def brief(me: Facet, word: str) -> None:
        booted.append(word)
        me.publish(Blocked("s1", word))
        await trio.sleep(1)

    def lasting(me: Facet) -> None:
        booted.append(me.name)
        serve(me, lambda _me, _asked: None)

    async with open_dataspace() as ds:
        one = await ds.spawn(supervised(brief, "hello", name="brief"))
        two = await ds.spawn(supervised(lasting, name="lasting"))
        assert 1 == len(ds.facts(Blocked))
        await trio.sleep(2)
        assert (False, True) == (one.alive, two.alive)

        def stop_it(me: Facet) -> None:
            me.observe(Serving, appeared=lambda _fact: two.stop())

        await ds.spawn(stop_it)
        assert not two.alive
        assert () == ds.facts(Serving)
        await trio.sleep(100)
        assert {"hello", "lasting"} == set(booted)
        assert 2 == len(booted)
        assert 1 == ds.statistics().actors  # who stopped it


async def test_stopping_the_supervisor_while_it_waits(autojump_clock: Any) -> None:
    """No restart comes after the supervisor is gone."""
    log: list[float] = []
    async with open_dataspace(on_crash=quietly) as ds:
        me = await ds.spawn(supervised(fragile(log, crashes=99), name="a"))
        await me.stop()
        await trio.sleep(100)
        assert 1 == len(log)


async def test_crashes_of_an_earlier_namesake_do_not_count(autojump_clock: Any) -> None:
    """Crashes that stand from before are another's; so are those of who takes the name afterwards."""
    log: list[float] = []
    async with open_dataspace(on_crash=quietly) as ds:
        for _ in range(7):
            await ds.spawn(fragile([], crashes=1), name="a")
        assert 7 == len(ds.facts(Crashed))
        await ds.spawn(supervised(fragile(log, crashes=0), name="a"))
        await trio.sleep(100)
        assert 1 == len(log)
        assert 1 == len(ds.facts(Serving))
        assert () == ds.facts(GaveUp)


async def test_a_restarted_engine_takes_up_what_stands(autojump_clock: Any) -> None:
    """The question an engine crashed on is asked of it again once it is back."""
    async with open_dataspace(on_crash=quietly) as ds:
        loop = Loop(ds.actor("loop"), policy())
        crashes: list[int] = []

        def boot(me: Facet) -> None:
            def fail(_asked: object) -> None:
                crashes.append(1)
                raise RuntimeError("on its first question")

            if crashes:
                serve(me, lambda _me, _asked: rows("short"))
            else:
                me.observe(Asked, appeared=fail)
                me.publish(Serving(me.name, "compressor"))

        await ds.spawn(supervised(boot, name="a"))
        loop.feed(e.SessionStarted("s1", threshold=100, messages=rows("u1", "u2")))
        loop.feed(e.UsageRead("s1", {"prompt_tokens": 100}))
        assert 1 == len(ds.facts(CompactionFailed))
        await trio.sleep(1.1)
        assert rows("short") == loop.state("s1").messages
        assert 1 == loop.state("s1").asks
