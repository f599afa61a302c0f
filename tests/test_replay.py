"""The replay: a recorded session through the run loop, with engines that behave in chosen ways."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from bridges.cli.errors import RunFailed
from bridges.cli.moments import Moment, plain
from bridges.cli.replay import Replay, Settings
from bridges.cli.session import parse_session
from bridges.cli.story import Story, watching
from dataspace import Facet, open_dataspace
from engines.engine import serve
from engines.messages import Messages
from engines.transcript import check, estimate_tokens
from tests.replay_driver import KINDS, crasher, idler, jsonl, replayed, rows, session

THREE = rows(9)
"""About 130 tokens a turn: with a threshold of 300 it is crossed every other turn."""


async def test_each_crossing_is_answered_before_the_next_line() -> None:
    """Crossing, asking, answer and compaction all happen at the line that crossed, in this order."""
    done = await replayed(THREE)
    assert done.story.count("crossing") == len(done.story.compactions) >= 3
    events = [(m.event, m.get("ask")) for m in done.moments if m.get("ask")]
    expected = [
        (event, ask)
        for ask in range(1, len(done.story.compactions) + 1)
        for event in ("crossing", "asked", "answered", "compressed")
    ]
    assert expected == events
    assert None is done.end.standing


async def test_the_result_is_the_live_list() -> None:
    """At the end stands what the engines made of it, valid, with the newest rows as they were recorded."""
    done = await replayed(THREE)
    assert check(done.end.messages).ok
    assert len(done.end.messages) < len(THREE)
    assert Messages.of(THREE)[-3:] == done.end.messages[-3:]


async def test_without_usage_the_measure_is_the_estimate() -> None:
    """`before`, `after`, `peak` and the figures of a compaction are plain estimates where nobody reported any."""
    done = await replayed(THREE)
    assert estimate_tokens(Messages.of(THREE)) == done.end.before
    assert estimate_tokens(done.end.messages) == done.end.after
    assert max(c.tokens_before for c in done.story.compactions) == done.story.peak
    assert all(c.tokens_before >= 300 > c.tokens_after for c in done.story.compactions)


def reported(factor: int) -> list[dict[str, object]]:
    """The session with a provider that counts `factor` times as many tokens as we do."""
    messages = Messages.of(THREE)
    return [
        {**row, "usage": {"prompt_tokens": factor * estimate_tokens(messages[:at]), "completion_tokens": 5}}
        if row["role"] == "assistant"
        else dict(row)
        for at, row in enumerate(messages)
    ]


async def test_usage_scales_every_figure() -> None:
    """A provider that counts three times as much gives three times the figures, and the same compactions."""
    one, three = await replayed(THREE), await replayed(reported(3), threshold=900)
    assert [(c.ask, 3 * c.tokens_before, 3 * c.tokens_after) for c in one.story.compactions] == [
        (c.ask, c.tokens_before, c.tokens_after) for c in three.story.compactions
    ]
    assert (3 * one.end.before, 3 * one.end.after, 3 * one.story.peak) == (
        three.end.before,
        three.end.after,
        three.story.peak,
    )
    assert one.end.messages == three.end.messages


async def test_the_last_scale_measures_what_was_answered_late() -> None:
    """A question that stood for a while is answered from the list as it is then, and measured as it is then."""
    done = await replayed(THREE, "c1:keeper=", "30:=keeper")
    (first, *_) = done.story.compactions
    assert 1 == first.ask
    assert first.tokens_before > 800  # at the crossing it had been a little over 300
    assert first.tokens_before == done.story.peak


async def test_a_swap_at_a_crossing_comes_just_before_it() -> None:
    """The newcomer answers the crossing, the one before was answered by the other, and nothing is lost."""
    done = await replayed(THREE, "c2:keeper=keeper#b")
    assert ["keeper", *["keeper#b"] * (len(done.story.compactions) - 1)] == [c.by for c in done.story.compactions]
    at = next(m.line for m in done.moments if m.event == "swap")
    kinds = [m.event for m in done.moments if m.line == at]
    assert ["swap", "serving", "left", "crossing", "asked", "answered", "compressed"] == kinds
    assert (await replayed(THREE)).end.messages == done.end.messages


async def test_a_swap_at_a_line_comes_before_that_line() -> None:
    """It is done when the line is next; a blank line counts, and stands for the message after it."""
    done = await replayed(THREE, "5:keeper=keeper#b")
    assert ["swap 4"] == done.events("swap")
    assert {"keeper#b"} == {c.by for c in done.story.compactions}
    spaced = parse_session(jsonl(THREE).replace(b"\n", b"\n\n"), file="test.jsonl", name="test")
    assert ["swap 3"] == (await replayed(spaced, "4:keeper=keeper#b")).events("swap")


async def test_swaps_at_one_place_are_done_in_the_order_given() -> None:
    """The second finds what the first has left."""
    done = await replayed(THREE, "9:keeper=keeper#b", "9:keeper#b=keeper#c")
    assert ["keeper#c"] == list(dict.fromkeys(c.by for c in done.story.compactions if c.ask > 1))
    assert ["serving 0 keeper", "serving 8 keeper#b", "serving 8 keeper#c"] == done.events("serving")


async def test_engines_can_be_swapped_to_and_fro() -> None:
    """An engine that went comes back under its name."""
    done = await replayed(THREE, "c2:keeper=keeper#b", "c3:keeper#b=keeper")
    assert ["keeper", "keeper#b", "keeper"] == [c.by for c in done.story.compactions][:3]
    assert [None, None] == [m.get("note") for m in done.moments if m.event == "swap"]


async def test_without_an_engine_the_crossing_stands_and_says_why() -> None:
    """Nobody is there: one failure, the context grows on, and the end names the crossing."""
    done = await replayed(THREE, "c2:keeper=")
    assert 2 == done.story.count("crossing")
    assert 1 == done.story.count("failed")
    assert "crossing 2 stands unanswered: no compressor is serving" == done.end.standing
    assert 0 == done.story.count("withdrawn")  # the file ended, the pressure did not fall


async def test_a_newcomer_answers_the_standing_question_at_once() -> None:
    """Plugged at a line, it has answered before that line is read."""
    done = await replayed(THREE, "c2:keeper=", "30:=keeper#b")
    assert None is done.end.standing
    second = next(m for m in done.moments if m.event == "compressed" and m.get("ask") == 2)
    assert (29, "keeper#b") == (second.line, second.get("by"))


async def test_a_swap_that_is_done_already_says_so_and_does_the_rest() -> None:
    """Unplugging what is not there, plugging what is: the wish is granted as far as it goes."""
    done = await replayed(THREE, "c1:keeper=", "20:keeper=keeper#b", "21:=keeper#b", "22:keeper#b=")
    assert [
        "swap 19 keeper is not plugged",
        "swap 20 keeper#b is plugged already",
    ] == [e for e in done.events("swap") if "plugged" in e]
    assert ["left 13 keeper", "left 21 keeper#b"] == done.events("left")


async def test_swaps_that_were_never_due_are_told() -> None:
    """A crossing that does not come leaves its swaps undone, and they are named."""
    done = await replayed(THREE, "c99:keeper=keeper#b")
    assert ["c99:keeper=keeper#b"] == [str(swap) for swap in done.end.unreached]


# -- engines that fail ------------------------------------------------------------------------------------------------


async def test_an_engine_that_crashes_is_restarted_and_answers() -> None:
    """A recording has no time to wait for: the restarted engine takes up the question before the next line."""
    done = await replayed(THREE, engines=("shaky",), kinds={"shaky": crasher(2)})
    assert 2 == done.story.count("crashed")
    first = next(m for m in done.moments if m.event == "compressed")
    assert first.line == next(m.line for m in done.moments if m.event == "crossing")
    assert None is done.end.standing
    assert 1 == len({c.seconds for c in done.story.compactions})  # what failed before is not counted


async def test_an_engine_that_always_crashes_is_given_up() -> None:
    """After five crashes nobody waits for it any more; the crossing stands and the reason names the engine."""
    done = await replayed(THREE, engines=("shaky",), kinds={"shaky": crasher(99)})
    assert 5 == done.story.count("crashed")
    assert ["gave-up"] == [m.event for m in done.moments if m.event == "gave-up"]
    assert done.end.standing is not None
    assert "given up" == done.story.engines["shaky"].doing


async def test_an_engine_that_was_given_up_can_be_plugged_again() -> None:
    """A swap starts it anew, and it answers the question that it could not answer before."""
    done = await replayed(THREE, "30:=shaky", engines=("shaky",), kinds={"shaky": crasher(5)})
    assert 5 == done.story.count("crashed")
    assert ["swap 29"] == done.events("swap")
    assert (1, "shaky") == (done.story.compactions[0].ask, done.story.compactions[0].by)
    assert None is done.end.standing


async def test_an_engine_that_does_not_come_back_is_not_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    """It crashed, was started again and does not serve: after the time that an engine may take it is unplugged."""
    boots = iter([crasher(1)(), idler])

    def lame(me: Facet) -> None:
        next(boots)(me)

    done = await replayed(THREE, engines=("lame",), kinds={"lame": lambda: lame})
    assert "crossing 1 stands unanswered: lame stopped serving" == done.end.standing
    assert 1 == done.story.count("crashed")


async def test_the_next_engine_is_asked_when_one_crashes() -> None:
    """What one engine cannot do another does, in the order in which they were named."""
    done = await replayed(THREE, engines=("shaky", "keeper"), kinds={"shaky": crasher(99)})
    assert {"keeper"} == {c.by for c in done.story.compactions}
    assert 0 == done.story.count("failed")


async def test_an_engine_that_hangs_is_passed_over(autojump_clock: trio.testing.MockClock) -> None:
    """It is given as long as the loop grants an engine, then the next one is asked; the replay never hangs."""
    done = await replayed(THREE, engines=("hanger", "keeper"))
    assert {"keeper"} == {c.by for c in done.story.compactions}
    assert "no answer within 300 s" == next(m.get("reason") for m in done.moments if m.event == "erred")


async def test_a_replay_with_nobody_else_fails_when_its_engine_hangs(autojump_clock: trio.testing.MockClock) -> None:
    """The crossing stands with the reason, and the file is read to its end."""
    done = await replayed(THREE, engines=("hanger",), patience=7.0)
    assert "crossing 1 stands unanswered: hanger failed: no answer within 7 s" == done.end.standing
    assert len(THREE) == len(done.end.messages)


async def test_an_answer_that_is_no_transcript_is_refused() -> None:
    """The refusal names the engine and the reason, and the next engine is asked."""
    empty = {"garbler": lambda: lambda me: serve(me, lambda _me, _asked: [])}
    done = await replayed(THREE, engines=("garbler", "keeper"), kinds=empty)
    refusal = next(m for m in done.moments if m.event == "refused")
    assert ("garbler", True) == (refusal.get("by"), "empty" in refusal.get("reason"))
    assert {"keeper"} == {c.by for c in done.story.compactions}


async def test_a_question_is_withdrawn_when_the_pressure_falls() -> None:
    """Nobody answered, the provider says that the prompt is small: no question stands, and the run has not failed."""
    messages = rows(3)
    for at, tokens in ((2, 100), (4, 100), (6, 500), (8, 100), (10, 100), (12, 100)):
        messages[at]["usage"] = {"prompt_tokens": tokens}
    done = await replayed(messages, "c1:keeper=")
    assert ["swap", "crossing", "withdrawn"] == [
        m.event for m in done.moments if m.event in {"swap", "crossing", "withdrawn"}
    ]
    assert None is done.end.standing


async def test_declining_is_told_apart_from_failing() -> None:
    """An engine that declines is no error; the crossing still stands."""
    done = await replayed(THREE, engines=("decliner",))
    assert done.story.count("declined") >= 1
    assert 0 == done.story.count("erred")
    assert "crossing 1 stands unanswered: decliner declined" == done.end.standing


async def test_engines_are_asked_in_the_order_named() -> None:
    """The kind named first is preferred, although the other one is newer."""
    done = await replayed(THREE, engines=("decliner", "keeper"))
    assert ["decliner", "keeper"] == [m.get("engine") for m in done.moments if m.event == "asked"][:2]


async def test_an_engine_that_does_not_come_up_ends_the_run(autojump_clock: trio.testing.MockClock) -> None:
    """The error names the engine and what it said."""
    with pytest.raises(
        RunFailed, match=r"engine stillborn did not come to serve: .* ended before it served .*no licence"
    ):
        await replayed(THREE, engines=("stillborn",))
    with pytest.raises(RunFailed, match=r"engine idler did not come to serve: .*30 s"):
        await replayed(THREE, engines=("idler",))


async def test_a_swap_that_fails_leaves_the_old_engine_in_place(autojump_clock: trio.testing.MockClock) -> None:
    """The old engine goes on answering, and the end tells of the swap that was wanted."""
    done = await replayed(THREE, "c2:keeper=stillborn")
    assert {"keeper"} == {c.by for c in done.story.compactions}
    assert None is done.end.standing
    (failure,) = done.end.failed_swaps
    assert failure.startswith("--swap c2:keeper=stillborn: engine stillborn did not come to serve")


# -- those who watch --------------------------------------------------------------------------------------------------


async def test_a_display_that_fails_changes_nothing() -> None:
    """It is one observer among others: it crashes alone, and is no crash of an engine."""
    settings = Settings(context_length=100_000, threshold=300, engines=("keeper",), kinds=KINDS)
    tally = Story(lambda: 0.0)

    def tell(_moments: tuple[Moment, ...]) -> None:
        raise OSError("the terminal is gone")

    async with open_dataspace(on_crash=lambda _crash, _error: None) as ds:
        await ds.spawn(watching(tally, lambda _moments: None), name="tally")
        await ds.spawn(watching(Story(lambda: 0.0), tell), name="display")
        end = await Replay(ds, session(THREE), settings).run()
    assert (await replayed(THREE)).end == end
    assert 0 == tally.count("crashed")
    assert len(tally.compactions) >= 3


async def test_facts_that_stand_are_known() -> None:
    """The story holds exactly the facts that stand, the replay's own ones apart."""
    seen: list[set[str]] = []
    settings = Settings(context_length=100_000, threshold=300, engines=("keeper",), kinds=KINDS)
    async with open_dataspace() as ds:
        story = Story(lambda: 0.0)
        await ds.spawn(
            watching(story, lambda _moments: seen.append({type(fact).__name__ for fact in story.facts})), name="watcher"
        )
        await Replay(ds, session(THREE), settings).run()
        assert {"Serving", "Session"} == {type(fact).__name__ for fact in story.facts}
    assert {"Serving", "Session", "Budget", "Usage", "Transcript", "ShouldCompress", "Asked"} in seen


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(0, 1500), min_size=1, max_size=12),
    threshold=st.integers(100, 900),
    crossing=st.integers(1, 4),
)
def test_whatever_the_session_nothing_is_lost(sizes: list[int], threshold: int, crossing: int) -> None:
    """For any session: crossings and compactions agree, the list is valid, the newest request stands, swaps are due."""
    messages = [{"role": "system", "content": "s"}]
    for at, size in enumerate(sizes):
        messages += rows(at + 1, size)[-4:]
    done = trio.run(lambda: replayed(messages, f"c{crossing}:keeper=keeper#b", threshold=threshold))
    assert check(done.end.messages).ok
    assert f"request {len(sizes) - 1}" in [row["content"] for row in done.end.messages]
    open_questions = 0 if done.end.standing is None else 1
    withdrawn = done.story.count("withdrawn")
    assert done.story.count("crossing") == len(done.story.compactions) + open_questions + withdrawn
    assert (done.story.count("crossing") < crossing) == bool(done.end.unreached)
    for moment in done.moments:
        assert "\n" not in plain(moment)
    assert all((c.by == "keeper#b") == (c.ask >= crossing) for c in done.story.compactions)
