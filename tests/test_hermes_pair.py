"""The adapter with the built-in hosted beside the built-in alone, through generated scripts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from bridges.hermes import guard
from bridges.hermes.hosted import Hosted
from bridges.hermes.place import Place
from bridges.hermes.verdicts import Verdicts
from engines.loop.policy import Verdict
from tests.hermes_adapter.desk import Engines
from tests.hermes_adapter.fixtures import engines
from tests.hermes_adapter.pair import USELESS, Side, SummaryModel, draw, perform, set_mood

__all__ = ["engines"]

pytestmark = pytest.mark.hermes
STRIKES = {"_ineffective_compression_count", "_verify_compaction_cleared_threshold"}
SCRIPTS = 2000 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 40


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> SummaryModel:
    """The summary model of both sides."""
    from agent import context_compressor

    made = SummaryModel()
    monkeypatch.setattr(context_compressor, "call_llm", made)
    return made


def left(window: int = 64_000) -> Side:
    """The built-in, made as the host makes it."""
    from agent.context_compressor import ContextCompressor

    engine = ContextCompressor(model="m", quiet_mode=True, api_key="k", provider="custom", config_context_length=window)
    engine.bind_session_state(session_db=None, session_id="s0")
    engine.on_session_start("s0", platform="cli", model="m", context_length=window)
    return Side(engine)


def right(engines: Engines, *kinds: str, guard: str) -> Side:
    """The adapter."""
    engine = engines.bare(*kinds, guard=guard)
    engine.update_model(model="m", context_length=64_000, base_url="", api_key="k", provider="custom", api_mode="")
    engine.bind_session_state(session_db=None, session_id="s0")
    engine.on_session_start("s0", platform="cli", model="m", context_length=64_000)
    return Side(engine)


def differing(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What is not equal."""
    return {name: (one[name], other[name]) for name in one if one[name] != other[name]}


def recorded(engines: Engines, model: SummaryModel, seed: int) -> tuple[int, int]:
    """Play one script on both sides with `guard: record`; compactions and prompts.  An assertion says where they part."""
    script = draw(seed)
    mine = left()
    model.prompts = []
    expected = perform(mine, model, script)
    prompts, model.prompts = model.prompts, []
    other = right(engines, "builtin", guard="record")
    for at, (want, have) in enumerate(zip(expected, perform(other, model, script), strict=True)):
        assert want[:2] == have[:2], (seed, at, want[0])
        assert {} == differing(want[2], have[2]), (seed, at, want[0])
    assert prompts == model.prompts, seed
    return mine.engine.compression_count, len(prompts)


def test_recorded_the_two_are_equal(engines: Engines, model: SummaryModel) -> None:
    """With `guard: record`: equal lists, attributes and verdicts, step by step, and the same prompts were written."""
    played = [recorded(engines, model, seed) for seed in range(SCRIPTS)]
    assert sum(compactions for compactions, _prompts in played) > SCRIPTS / 2


def _forgets_what_was_done(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hosted, "take_over", lambda _self: None)


def _puts_back_what_was_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hosted, "commit", Hosted.put_back)


def _tells_no_end(patch: pytest.MonkeyPatch) -> None:
    tell = Hosted.lifecycle
    patch.setattr(
        Hosted, "lifecycle", lambda self, name, *a, **k: None if name == "on_session_end" else tell(self, name, *a, **k)
    )


def _keeps_a_write_to_itself(patch: pytest.MonkeyPatch) -> None:
    write = Place.write
    patch.setattr(
        Place,
        "write",
        lambda self, name, value: None if name == "last_compression_rough_tokens" else write(self, name, value),
    )


def _drops_an_empty_report(patch: pytest.MonkeyPatch) -> None:
    usage = Verdicts.usage
    patch.setattr(Verdicts, "usage", lambda self, report: usage(self, report) if report else None)


def _loses_a_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(guard, "_record", lambda answer, _before: Verdict(answer[:1] + answer[2:]))


@pytest.mark.parametrize(
    "plant",
    [
        _forgets_what_was_done,
        _puts_back_what_was_taken,
        _tells_no_end,
        _keeps_a_write_to_itself,
        _drops_an_empty_report,
        _loses_a_row,
    ],
)
def test_a_planted_bug_is_found(
    engines: Engines, model: SummaryModel, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """Each of these on the right makes the two part within the scripts that are played always."""
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises(AssertionError):
            for seed in range(40):
                recorded(engines, model, seed)


def test_mended_the_right_is_sound(engines: Engines, model: SummaryModel) -> None:
    """With `guard: repair`: whatever the summary model says, what the host gets has no problem."""
    met: Counter[str] = Counter()
    for seed in range(SCRIPTS):
        script = draw(seed)
        mine = left()
        perform(mine, model, script)
        other = right(engines, "builtin", guard="repair")
        perform(other, model, script)
        assert [] == [code for code in other.unsound if code != "system_changed"], seed
        met.update(mine.unsound)
        met["left"] += mine.engine.compression_count
        met["right"] += other.engine.compression_count
    print("what the built-in alone did wrong:", dict(met))
    assert met["right"] > SCRIPTS / 2
    assert sum(count for code, count in met.items() if code not in {"left", "right"}) > 0


def test_mended_they_are_equal_while_the_left_is_sound(engines: Engines, model: SummaryModel) -> None:
    """With `guard: repair` the first difference is never before the left has done one of the named things."""
    met: Counter[str] = Counter()
    for seed in range(SCRIPTS):
        mine, other = left(), right(engines, "builtin", guard="repair")
        model.mood = "good"
        for at, (name, step) in enumerate(draw(seed)):
            set_mood(name, model, mine, other)
            said = step(mine), step(other)
            if mine.unsound:
                met[mine.unsound[0]] += 1
                break
            assert said[0] == said[1], (seed, at, name)
            parted = differing(mine.seen(), other.seen())
            if parted and name == "manual" and set(parted) <= STRIKES:
                met["a strike for a compaction by hand"] += 1
                break
            assert {} == parted, (seed, at, name)
        else:
            met["equal to the end"] += 1
    print("where the scripts parted:", dict(met))
    assert met["equal to the end"] > 0


@pytest.mark.parametrize("mood", ["empty", *USELESS])
def test_a_summary_that_says_nothing_is_refused(engines: Engines, model: SummaryModel, mood: str) -> None:
    """The left takes it, the right keeps the list and reports it; the state of the built-in is as before."""
    from tests.hermes_adapter.desk import conversation

    mine, other = left(), right(engines, "builtin", guard="repair")
    for side in (mine, other):
        model.mood = mood
        side.append(conversation(40, 3000))
        side.usage({"prompt_tokens": 60_000})
        side.compact(60_000)
    assert len(mine.rows) < 84
    if mood == "empty":  # the built-in notices this one itself, and puts in what it has without a model
        assert len(other.rows) < 84
        return
    assert (84, True, 0) == (len(other.rows) + 1, other.engine._last_compress_aborted, other.engine.compression_count)
    assert other.engine._previous_summary is None
