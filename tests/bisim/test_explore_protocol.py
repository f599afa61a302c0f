"""The compaction protocol under every schedule: one answer a question, nobody stuck, nothing lost, whatever disturbs it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import combinations
from typing import Any

import pytest
from attrs import evolve, field, frozen

from dataspace import Facet
from dataspace.testing import Failure, Run, explore, sample
from engines.facts import Answered, Serving
from engines.loop import events as e
from engines.loop import offer, question
from engines.loop.actor import Loop
from engines.loop.state import Conversation, Now, Question, Work
from engines.loop.step import _HANDLERS
from engines.messages import Messages
from tests.bisim.protocol import DISTURBANCES, Protocol, protocol
from tests.bisim.protocol_seen import giver_of, words_in
from tests.loop_driver import rows

PAIRS = list(combinations(DISTURBANCES, 2))
TOGETHER = tuple(DISTURBANCES)
WHERE = pytest.mark.parametrize("hosted", [False, True], ids=["owned", "in a host"])

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
only_deep = pytest.mark.skipif(not DEEP, reason="`make deep` runs it: it takes minutes")

Say = Callable[[str], None]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Tells how much was seen: in `make deep` at once, for that is what it is run for, else where a test fails."""

    def show(text: str) -> None:
        with capsys.disabled() if DEEP else nullcontext():
            print(f"\n{text}", flush=True)

    return show


def explored(say: Say, *disturbances: str, hosted: bool) -> None:
    """Explore everything that these disturbances make possible, and say how much that was."""
    scenario = partial(protocol, disturbances=disturbances, hosted=hosted)
    report = explore(scenario, most_runs=1_000_000).check()
    assert report.exhaustive
    say(f"{' + '.join(disturbances) or 'undisturbed'}{' in a host' * hosted}: {report}")


def drawn(say: Say, schedules: int, *, hosted: bool) -> None:
    """Draw schedules of everything at once, and say how much that was, in schedules and in states."""
    scenario = partial(protocol, disturbances=TOGETHER, hosted=hosted)
    report = sample(scenario, schedules, seed=1, hashing=True).check()
    assert report.schedules == schedules < report.states
    say(f"everything together{' in a host' * hosted}: {report}")


def slow_if(disturbance: str) -> list[pytest.MarkDecorator]:
    """Marks for a disturbance with many schedules."""
    return [pytest.mark.slow] if disturbance in {"swap", "flapping", "late"} else []


# -- the protocol holds -----------------------------------------------------------------------------------------------


@WHERE
@pytest.mark.parametrize("disturbance", ["", *[pytest.param(d, marks=slow_if(d)) for d in DISTURBANCES]])
def test_each_disturbance_exhaustively(say: Say, disturbance: str, hosted: bool) -> None:
    """Two compressors, a reviser and one thing that happens, in every order.

    In a host the context is replaced in the host's call, when the host takes over what it is offered.
    """
    explored(say, *[disturbance] if disturbance else [], hosted=hosted)


@only_deep
@WHERE
@pytest.mark.parametrize("pair", PAIRS, ids=" + ".join)
def test_each_pair_of_disturbances_exhaustively(say: Say, pair: tuple[str, str], hosted: bool) -> None:
    """Any two things that happen, in every order, whoever owns the context."""
    explored(say, *pair, hosted=hosted)


@WHERE
def test_everything_together_in_drawn_schedules(say: Say, hosted: bool) -> None:
    """All disturbances at once have too many schedules to try them all: some, drawn by a seed."""
    drawn(say, 50, hosted=hosted)


@only_deep
@pytest.mark.parametrize(("schedules", "hosted"), [(100_000, False), (20_000, True)], ids=["owned", "in a host"])
def test_everything_together_in_very_many_drawn_schedules(say: Say, schedules: int, hosted: bool) -> None:
    """The same a hundred thousand times, and again where the context is a host's."""
    drawn(say, schedules, hosted=hosted)


@pytest.mark.parametrize("disturbances", [(), ("bad",)])
def test_telling_states_apart_hides_no_schedule(disturbances: tuple[str, ...]) -> None:
    """Explored with and without the states told apart, the protocol has as many schedules and none that fails."""
    scenario = partial(protocol, disturbances=disturbances)
    hashed, plain = explore(scenario).check(), explore(scenario, hashing=False).check()
    assert (hashed.schedules, True) == (plain.schedules, plain.exhaustive)


def test_the_scenario_comes_to_something() -> None:
    """Undisturbed it ends with the reviser's answer to the first compressor's, in every schedule."""
    ends = set()

    def scenario(run: Run) -> None:
        world = protocol(run)
        run.finished(lambda: ends.add(str([dict(row) for row in loop_of(world).state("s").messages])))

    explore(scenario).check()
    assert {str([{"role": "user", "content": "{u1 u2}r2"}])} == ends


def loop_of(world: Protocol) -> Loop:
    """The loop, which has been started."""
    assert world.loop is not None
    return world.loop


def test_answers_tell_what_they_stand_for() -> None:
    """What the checks read out of a context: the words it stands for, and who gave the answer it begins with."""
    context = rows("{u1 u2}b12", "m1")
    assert (["u1", "u2", "m1"], ("b", 12)) == (words_in(context), giver_of(context))
    assert (["u1"], None) == (words_in(rows("u1")), giver_of(rows("u1")))


# -- planted bugs are found -------------------------------------------------------------------------------------------


def found(*disturbances: str, scenario: Callable[..., Any] = protocol) -> Failure:
    """The failure that these disturbances bring out, which its program replays."""
    bugged = partial(scenario, disturbances=disturbances)
    report = sample(bugged, 300, seed=1)
    if report.failure is None:
        report = explore(bugged, most_runs=50_000)
    print(f"found after {report}")
    assert report.failure is not None, f"not found in {report}"
    with pytest.raises(AssertionError):
        exec(report.failure.script(), {"__name__": "replay"})
    return report.failure


def test_any_answer_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: whoever answers, and whatever was asked, is taken."""
    monkeypatch.setattr(offer, "_answers", lambda _answer, _work: True)
    assert "was taken for question" in str(found("late").error)


def test_a_question_number_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: a new question gets the number of the one before."""
    raise_question = question.raise_question

    def reuse(s: Conversation, *args: Any, **told: Any) -> Conversation:
        return evolve(raise_question(s, *args, **told), asks=s.asks)

    monkeypatch.setattr(question, "raise_question", reuse)
    assert "a number came back" in str(found("flapping").error)


def test_an_asking_number_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: another engine is asked under the same number."""
    put = question.put

    def reuse(s: Conversation, *args: Any, **told: Any) -> tuple[Conversation, Work]:
        new, work = put(s, *args, **told)
        return evolve(new, n=s.n), work

    monkeypatch.setattr(question, "put", reuse)
    monkeypatch.setattr(offer, "put", reuse)
    assert "a number came back" in str(found("crash").error)


@frozen
class Kept:
    """An answer as a fact: what it says is a reading, so the next one like it is the same fact."""

    sid: str
    ask: int
    by: str
    answer: Answered = field(eq=False)


def keeping(run: Run, disturbances: tuple[str, ...]) -> None:
    """The protocol with answers that are published, which the loop observes."""

    class Keeping(Protocol):
        def start(self) -> None:
            super().start()
            loop = loop_of(self)
            loop.me.observe(Kept, appeared=lambda kept: loop._answered(kept.answer))

    def publish(me: Facet, answer: Answered) -> None:
        me.publish(Kept(answer.sid, answer.ask, answer.by, answer))

    Keeping(run, frozenset(disturbances)).tell = publish


def test_answers_kept_as_equal_facts() -> None:
    """Bug: answers are published instead of sent, so an engine's second answer to a question is never heard.

    There is no seam for this in the loop: the scenario's engines publish a fact of its own, which is handed to the loop.
    """
    assert "nobody will answer it" in str(found("fail", scenario=keeping).error)


def test_a_newcomer_not_told_what_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: R12 is off, so a loop that comes when engines serve does not know of them."""
    import dataspace._index as index

    monkeypatch.setattr(index, "_views", lambda _leaf, _group: ())
    assert "was not even asked" in str(found().error)


def test_an_asking_not_withdrawn_on_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: that an engine is gone changes nothing about what it was asked."""
    monkeypatch.setitem(_HANDLERS, e.EngineCeased, lambda s, _event, _now: s)
    assert "and it is gone" in str(found("crash").error)


def test_an_answer_for_an_earlier_asking_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: an answer counts for whatever its engine is asked now."""
    monkeypatch.setattr(offer, "_answers", lambda answer, work: answer.by == work.fact.to)
    assert "was taken for question" in str(found("late", "flapping").error)


def test_a_bad_result_of_the_reviser_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: what a reviser makes of a good answer is not judged."""

    def unjudged(s: Conversation, q: Question, answer: Answered, now: Now) -> Conversation:
        draft = Messages.of(answer.messages or ())
        return offer._revise(evolve(s, question=evolve(q, work=None, draft=draft)), now)

    monkeypatch.setattr(offer, "_judge_revision", unjudged)
    assert "['bad', 'u1', 'u2']" in str(found("bad").error)


def test_messages_that_came_meanwhile_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: the result is all there is after a compaction."""
    commit = offer.commit

    def forgetful(s: Conversation, now: Now) -> Conversation:
        new = commit(s, now)
        if new is s or s.question is None:
            return new
        return evolve(new, transcript=evolve(new.transcript, messages=s.question.draft))

    monkeypatch.setattr(offer, "commit", forgetful)
    assert "is there" in str(found("message").error)


@pytest.mark.slow
def test_a_newcomer_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: an engine that begins to serve is not asked what nobody could answer."""
    monkeypatch.setitem(_HANDLERS, e.EngineBegan, lambda s, _event, _now: s)
    assert "was not even asked" in str(found("fail", "swap").error)


def test_a_loop_that_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: after a crash the question stands, and nothing happens or is said."""
    monkeypatch.setattr(question, "ask_next", lambda s, _now: s)
    assert "and nothing happens" in str(found("crash").error)


def test_serving_is_what_the_scenario_waits_for() -> None:
    """Engines of the scenario say that they serve like those of `engines.serve`: after they have heard what stands."""
    run = Run()
    protocol(run)
    assert [Serving("a", "compressor"), Serving("b", "compressor"), Serving("r", "reviser")] == list(
        run.ds.facts(Serving)
    )
