"""What a reviser adds has its place in the budget: the compressor leaves it free, and no more than that."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from bridges.cli.kinds import KINDS
from bridges.cli.replay import Replay, Settings
from bridges.cli.story import Story, watching
from dataspace import open_dataspace
from engines.compressor import Limits
from engines.compressor.plan import plan_compaction
from engines.messages import Messages
from engines.skills import scan
from engines.skills.revise import added_tokens
from engines.transcript import estimate_tokens
from tests.replay_driver import session

BODY = "Always check the gauge before you turn the valve. " * 40  # some 500 tokens


def loads(name: str, body: str = BODY) -> list[dict[str, Any]]:
    """A skill is loaded: call and result."""
    call = {"id": f"call-{name}", "type": "function"}
    call["function"] = {"name": "skill_view", "arguments": json.dumps({"name": name})}  # type: ignore[assignment]
    result = {"success": True, "name": name, "content": f"# {name}\n{body}", "path": f"{name}/SKILL.md"}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)},
    ]


def work(count: int, size: int = 60) -> list[dict[str, Any]]:
    """Rounds of reading files."""
    rows: list[dict[str, Any]] = []
    for n in range(count):
        call = {"id": f"w{n}", "type": "function", "function": {"name": "read", "arguments": f'{{"path": "p{n}.py"}}'}}
        rows.append({"role": "assistant", "content": f"Reading part {n}.", "tool_calls": [call]})
        rows.append({"role": "tool", "tool_call_id": f"w{n}", "content": f"value {n * 7919} of part {n}\n" * size})
    return rows


ROWS = [
    {"role": "user", "content": "Turn the valve as the manual says."},
    *loads("valves"),
    *work(12),
    *loads("gauges"),
    *work(12),
    {"role": "assistant", "content": "The valve is turned."},
]


async def replayed(*engines: str, threshold: int = 4_000) -> Story:
    """The story of a replay of `ROWS`."""
    story = Story(lambda: 0.0)
    async with open_dataspace() as ds:
        watcher = await ds.spawn(watching(story, lambda _moments: None), name="watcher")
        settings = Settings(context_length=100_000, threshold=threshold, engines=engines, kinds=KINDS)
        await Replay(ds, session(ROWS), settings).run()
        await watcher.stop()
    return story


@pytest.mark.parametrize("threshold", [3_000, 4_000, 6_000])
async def test_compressor_and_reviser_together_stay_within_the_budget(threshold: int) -> None:
    """The result, sections and texts put back included, is what the compressor alone would be allowed."""
    story = await replayed("compressor", "skills", threshold=threshold)
    assert story.compactions
    for done in story.compactions:
        assert done.tokens_after <= threshold * Limits(threshold).result


async def test_a_skill_that_the_task_needs_stays_whole_where_it_fits() -> None:
    """Room is made for it within the budget, before anything else gets it."""
    with_skills = await replayed("compressor", "skills", threshold=8_000)
    assert with_skills.skills.counts()["pruned"] == 0
    assert with_skills.skills.counts()["available"] == 2


def test_a_reserve_takes_half_of_the_budget_at_most() -> None:
    """A huge skill does not cost the requests and the tail their place."""
    rows, limits = Messages.of([*ROWS, {"role": "user", "content": "And now?"}]), Limits(4_000)
    free, half, huge = (plan_compaction(rows, limits, reserve=n) for n in (0, 800, 10**9))
    assert free is not None
    assert half is not None
    assert huge is not None
    assert free.room - half.room == 800
    assert half.room == huge.room


def test_only_texts_that_fit_are_reckoned_with() -> None:
    """One that is not going to be put back takes nobody's room."""
    rows = [{"role": "user", "content": "x"}, *loads("small"), *loads("large", BODY * 20)]
    assert {entry.name for entry in scan(rows)} == {"small", "large"}
    sections = added_tokens(rows)
    both = added_tokens(rows, ["small", "large"], 10**6)
    one = added_tokens(rows, ["small", "large"], 2_000)
    assert 0 < sections < one < both
    assert both > estimate_tokens(rows) * 0.9
    assert added_tokens(rows[:1], ["small"], 10**6) == 0


async def test_without_a_reviser_nothing_is_left_free() -> None:
    """The compressor alone uses all that it has."""
    alone = await replayed("compressor", threshold=4_000)
    await trio.lowlevel.checkpoint()
    with_skills = await replayed("compressor", "skills", threshold=4_000)
    assert alone.compactions[0].tokens_after != with_skills.compactions[0].tokens_after
