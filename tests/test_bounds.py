"""What is too much, too deep or too odd ends in a crash of who did it, and leaves everybody else whole."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen

from dataspace import Crashed, Dataspace, Facet, parse_pattern, where
from dataspace.errors import PatternError
from engines import ctx_dataspace
from engines.facts import FACTS, Compressed, Usage


@frozen
class Step:
    x: int


def test_r05_what_waits_is_bounded_too() -> None:
    """An actor that sends itself many messages a turn crashes before what waits exceeds the turns that may be run."""
    ds = Dataspace(on_crash=lambda *_: None, max_turns=5_000)
    longest, logged = 0, 0

    def boot(me: Facet) -> None:
        def heard(step: Step) -> None:
            nonlocal longest
            longest = max(longest, len(ds._queue))
            for _ in range(100):
                me.send(step)

        me.observe(Step, heard=heard)

    def log(step: Step) -> None:
        nonlocal logged
        logged += 1

    logger = ds.actor("logger")
    logger.observe(Step, heard=log)
    ds.spawn(boot, name="mad")
    ds.actor("me").send(Step(0))
    assert ["mad"] == [crash.actor for crash in ds.facts(Crashed)]
    assert longest <= 5_200
    assert logger.alive
    assert 0 < logged < 6_000


@pytest.mark.parametrize("end", ["retract", "stop", "crash"])
def test_r17_lifetimes_nest_deeper_than_the_stack(end: str) -> None:
    """Three thousand lifetimes within each other end together, however they end, and nothing is left."""
    crashes: list[Crashed] = []
    ds = Dataspace(on_crash=lambda crash, _error: crashes.append(crash))

    def boot(me: Facet) -> None:
        def body(me: Facet, step: Step) -> None:
            if step.x < 3_000:
                me.publish(Step(step.x + 1))
                me.during(where(Step, x=step.x + 1), body)

        me.during(where(Step, x=0), body)
        me.observe(where(Step, x=-1), appeared=lambda _step: 1 / 0)

    deep = ds.spawn(boot, name="deep")
    me = ds.actor("me")
    handle = me.publish(Step(0))
    assert 3_001 == len(ds.facts(Step))
    if end == "retract":
        me.retract(handle)
        assert () == ds.facts(Step)
        assert deep.alive
    elif end == "stop":
        deep.stop()
        assert (Step(0),) == ds.facts(Step)
    else:
        me.publish(Step(-1))
        assert (Step(0), Step(-1)) == ds.facts(Step)
        assert ["deep"] == [crash.actor for crash in crashes]


def _generator(*_: Any) -> Any:
    yield


async def _async_generator(*_: Any) -> Any:
    yield


@pytest.mark.parametrize("fn", [_generator, _async_generator])
def test_generators_are_refused(fn: Any) -> None:
    """A generator function would never run, so it is refused where it is given."""
    ds = Dataspace()
    me = ds.actor("me")
    for give in (
        lambda: me.observe(Step, appeared=fn),
        lambda: me.during(Step, fn),
        lambda: ds.spawn(fn),
        lambda: me.on_stop(fn),
    ):
        with pytest.raises(TypeError, match="must not yield"):
            give()


@pytest.mark.parametrize("prompt", [10**13, 10**400])
def test_counts_beyond_belief_are_no_reading(prompt: int) -> None:
    """A usage report of more tokens than there can be says nothing, and breaks nothing."""
    ctx = ctx_dataspace()
    ctx.session_start("s", threshold=100, messages=[{"role": "user", "content": "hello"}])
    ctx.response("s", {"prompt_tokens": prompt})
    assert [True] == [usage.estimated for usage in ctx.facts(Usage)]
    ctx.response("s", {"prompt_tokens": 10**12})
    ctx.compressed("s", [{"role": "user", "content": "h"}])
    assert [10**12] == [done.tokens_before for done in ctx.facts(Compressed)]


def test_errors_in_patterns_stay_short() -> None:
    """However long the text, the error is one that a person can read."""
    with pytest.raises(PatternError) as error:
        parse_pattern(f"({'x' * 20_000})", FACTS)
    assert len(str(error.value)) < 600
