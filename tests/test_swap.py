"""Changing engines while sessions run."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from dataspace import Crashed, Facet, open_dataspace
from engines import Loop, serve
from engines.facts import Serving, ShouldCompress
from engines.loop import events as e
from engines.supervisor import supervised
from engines.swap import SwapError, swap
from tests.loop_driver import policy, rows


def quietly(_crash: Crashed, _error: BaseException) -> None:
    """Crashes are expected here."""


def compressor(me: Facet, text: str = "short") -> None:
    """An engine that answers with one message."""
    serve(me, lambda _me, _asked: rows(text))


def serving(ds: Any) -> list[str]:
    """Who serves, the oldest first."""
    return [fact.engine for fact in ds.facts(Serving)]


async def test_the_new_one_serves_before_the_old_one_goes() -> None:
    """There is no moment in which nobody serves."""
    async with open_dataspace() as ds:
        old = await swap(ds, None, compressor, name="compressor")
        assert old is not None
        seen: list[list[str]] = []
        ds.actor("watcher").observe(
            Serving, appeared=lambda _f: seen.append(serving(ds)), vanished=lambda _f: seen.append(serving(ds))
        )
        new = await swap(ds, old, compressor, "new", name="compressor#b")
        assert [["compressor"], ["compressor", "compressor#b"], ["compressor#b"]] == seen
        assert (False, True) == (old.alive, new is not None and new.alive)
        assert await swap(ds, new, None) is None
        assert [] == serving(ds)


async def test_no_crossing_is_lost() -> None:
    """A question that stands while engines change is answered once, by the new one."""
    async with open_dataspace() as ds:
        loop = Loop(ds.actor("loop"), policy())

        def hanging(me: Facet) -> None:
            async def work(_me: Facet, _asked: object) -> None:
                await trio.sleep_forever()

            serve(me, work)

        old = await ds.spawn(hanging, name="compressor")
        loop.feed(e.SessionStarted("s1", threshold=100, messages=rows("u1", "u2")))
        loop.feed(e.UsageRead("s1", {"prompt_tokens": 100}))
        assert 1 == len(ds.facts(ShouldCompress))
        await swap(ds, old, compressor, "new", name="compressor#b")
        assert rows("new") == loop.state("s1").messages
        assert (1, 2) == (loop.state("s1").asks, loop.state("s1").n)


def crashing(_me: Facet) -> None:
    """An engine that does not get far."""
    raise RuntimeError("no thanks")


def silent(me: Facet) -> None:
    """An actor that lives and never serves."""
    me.observe(ShouldCompress)


async def brief(me: Facet) -> None:
    """An actor that ends without ever serving."""
    await trio.sleep(1)


async def late_crash(me: Facet) -> None:
    """An actor that crashes before it serves."""
    await trio.sleep(1)
    raise RuntimeError("no thanks")


@pytest.mark.parametrize(
    ("boot", "words"),
    [
        (crashing, "new ended before it served"),
        (brief, "new ended before it served"),
        (late_crash, "new ended before it served"),
        (silent, "new did not serve within 30 s"),
    ],
)
async def test_an_error_leaves_the_old_one_in_place(boot: Any, words: str, autojump_clock: Any) -> None:
    """Whatever is wrong with the newcomer, it is gone afterwards and the old one serves as before."""
    async with open_dataspace(on_crash=quietly) as ds:
        old = await ds.spawn(compressor, name="compressor")
        actors = ds.statistics().actors
        with pytest.raises(SwapError, match=words) as caught:
            await swap(ds, old, boot, name="new")
        assert old.alive
        assert ["compressor"] == serving(ds)
        assert actors == ds.statistics().actors
        if ds.facts(Crashed):
            assert "no thanks" == str(caught.value.__cause__)


async def test_a_name_that_is_taken_changes_nothing() -> None:
    """Names are unique; the old one stays."""
    async with open_dataspace() as ds:
        old = await ds.spawn(compressor, name="compressor")
        with pytest.raises(ValueError, match="compressor"):
            await swap(ds, old, compressor, name="compressor")
        assert ["compressor"] == serving(ds)


async def test_a_cancelled_swap_leaves_the_old_one(autojump_clock: Any) -> None:
    """Whoever gives up waiting has changed nothing."""
    async with open_dataspace() as ds:
        old = await ds.spawn(compressor, name="compressor")
        with trio.move_on_after(1):
            await swap(ds, old, silent, name="new")
        assert old.alive
        assert 1 == ds.statistics().actors


async def test_supervised_engines_can_be_swapped(autojump_clock: Any) -> None:
    """What is plugged is the supervisor, what is waited for the engine it starts."""
    async with open_dataspace() as ds:
        old = await swap(ds, None, supervised(compressor, name="a"), serves="a")
        new = await swap(ds, old, supervised(compressor, name="b"), serves="b")
        assert ["b"] == serving(ds)
        await swap(ds, new, None)
        await trio.sleep(100)
        assert 0 == ds.statistics().actors
