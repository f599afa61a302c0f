"""The host pair: what the adapter does with the built-in hosted, against the built-in as the host calls it."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.bisim.hermes_pair import Pair, pairing
from tests.bisim.hermes_plants import PLANTS
from tests.bisim.hermes_script import draw
from tests.bisim.hermes_sound import NAMES
from tests.bisim.hermes_watchers import WATCHING, Seen, watching
from tests.hermes_adapter.desk import Engines
from tests.hermes_adapter.fixtures import engines

__all__ = ["engines"]

pytestmark = pytest.mark.hermes
FEW, MANY = 40, 2000 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 200
FIRST = int(os.environ.get("HERMES_PAIR_SEED", "0"))
"""Scripts are drawn from the seeds that begin here; a failure names its own."""
RARE = {"drops rows and puts in no summary", "waits for a size that is not reported"}


@pytest.fixture
def pair(engines: Engines) -> Iterator[Pair]:
    """Both sides; what they log of what is done to them is not read."""
    logging.disable(logging.CRITICAL)
    with pairing(engines) as made:
        yield made
    logging.disable(logging.NOTSET)


def shown(relation: str, scripts: int, met: Counter[str]) -> None:
    """Print what a run met."""
    print(f"\n{relation}: {scripts} scripts, no violation")
    for what, times in met.most_common():
        print(f"  {times:6} {what}")


COUNTS = [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.slow)]


@pytest.mark.parametrize("scripts", COUNTS)
def test_recorded_the_two_are_equal(pair: Pair, scripts: int) -> None:
    """With `guard: record`: equal lists, attributes, verdicts and prompts, step by step."""
    for seed in range(FIRST, FIRST + scripts):
        pair.recorded(draw(seed, record=True))
    shown("record", scripts, pair.met)
    assert pair.met["compactions"] > scripts
    assert pair.met["raised on the left"] < pair.met["compress calls"] / 4


@pytest.mark.parametrize("scripts", COUNTS)
def test_repaired_the_right_is_equal_or_sound(pair: Pair, scripts: int) -> None:
    """With `guard: repair`: equal wherever the left's step is sound, and sound where it is not; each weakness was met."""
    for seed in range(FIRST, FIRST + scripts):
        pair.refined(draw(seed))
    shown("repair", scripts, pair.met)
    assert pair.met["compactions"] > scripts
    expected = set(NAMES) - (RARE if scripts < 1000 else set())
    assert set() == {name for name in expected if not pair.met[name]}


@pytest.mark.parametrize("scripts", COUNTS)
def test_who_looks_on_changes_nothing(pair: Pair, scripts: int) -> None:
    """Observers of everything, one that crashes on and on, a trace: the host sees what it sees without them."""
    seen = Seen()
    for seed in range(FIRST, FIRST + scripts):
        pair.watched(draw(seed), partial(watching, WATCHING[seed % len(WATCHING)], seen))
    shown("watched", scripts, pair.met)
    print(" ", dict(seen.counts))
    assert pair.met["compactions"] > scripts
    assert all(seen.counts[what] for what in ("Session", "Usage", "Asked", "Compressed", "written", "crashes", "turns"))


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(pair: Pair, name: str) -> None:
    """Each of these on the right is found within the scripts that are played always."""
    relation, plant = PLANTS[name]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises(AssertionError) as found:
            for seed in range(FEW):
                getattr(pair, relation)(draw(seed, record=relation == "recorded"))
    assert _is_of_the_pair(found.tb)


def _is_of_the_pair(trace: Any) -> bool:
    """Whether it was a relation that did not hold, and nothing that went wrong in playing."""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return bool(trace.tb_frame.f_globals["__name__"].endswith(("hermes_pair", "hermes_seen")))
