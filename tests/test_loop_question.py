"""Who is asked, in which order, and what happens when nobody can do it."""

from __future__ import annotations

import pytest

from engines.facts import Asked, CompactionFailed, Serving, Session, ShouldCompress, Transcript
from engines.loop import Policy, due, view, wake
from engines.loop import events as e
from engines.loop.policy import kind_of
from engines.loop.roster import Roster
from tests.loop_driver import SID, Driver, rows


def test_the_question_says_what_it_is_about() -> None:
    """The engine gets the context, the numbers and the focus with the asking."""
    d = Driver("a").do(e.CompactionRequested, "manual", "the tests", 42)
    asked = d.asked
    assert (SID, 1, 1, "a", "compressor", 100, 42, "the tests") == (
        asked.sid,
        asked.ask,
        asked.n,
        asked.to,
        asked.role,
        asked.threshold,
        asked.tokens,
        asked.focus,
    )
    assert ["u1", "u2", "u3"] == [row["content"] for row in asked.messages]
    assert d.question is not None
    assert ("manual", 42, 100, "the tests") == (
        d.question.reason,
        d.question.tokens,
        d.question.threshold,
        d.question.focus,
    )


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (lambda d: d.answer(), "a declined"),
        (lambda d: d.answer(error="ValueError: no"), "a failed: ValueError: no"),
        (lambda d: d.cease("a"), "a stopped serving"),
        (lambda d: d.do(e.TimePassed, at=300.0), "a did not answer within 300 s"),
        (lambda d: d.do(e.AskingUnheard, d.asked.n), "a does not listen"),
    ],
    ids=["declined", "failed", "crashed", "deadline", "un-observed"],
)
def test_the_next_engine_is_asked(reply: object, why: str) -> None:
    """An engine that declines, fails, goes away or lets its time pass is followed by the next; none left: failure."""
    assert callable(reply)
    d = Driver("a", "b")
    d.at = 0.0
    d.reading(100)
    first = d.asked
    reply(d)
    d.do(e.AskingUnheard, first.n)  # that it is not heard matters no more
    assert ("b", 1, first.n + 1) == (d.to, d.asked.ask, d.asked.n)
    assert d.failed is None
    d.answer()
    assert d.to is None
    assert d.failed is not None
    assert f"{why}; b declined" == d.failed.reason
    assert d.question is not None
    assert ["u1", "u2", "u3"] == d.texts


def test_a_refused_answer_is_followed_by_the_next_engine() -> None:
    """What the judge refuses is told to everybody, with the reason, and counts as no answer."""
    d = Driver("a", "b", accept=Policy().accept, messages=rows("u1", "u2", "u3"))
    d.reading(100).do(e.AnswerHeard, _answer_without_rows(d.asked))
    assert [("a", 1)] == [(refused.by, refused.ask) for refused in d.said]
    assert "b" == d.to


def _answer_without_rows(asked: Asked) -> object:
    from engines.facts import Answered

    return Answered(SID, asked.ask, asked.n, asked.to, messages=rows())


def test_nobody_there_is_told_at_once() -> None:
    """With no compressor the question stands, unasked, and the failure says so; no time is set for another try."""
    d = Driver()
    d.at = 0.0
    d.reading(100)
    assert d.question is not None
    assert CompactionFailed(SID, 1) == d.failed
    assert ("no compressor is serving", None) == (d.failed.reason, d.failed.retry_at)
    d.at = 1e9
    assert d.reading(110).do(e.TimePassed).to is None


def test_who_begins_to_serve_is_asked_what_stands() -> None:
    """A newcomer ends the failure, with the same question number and a new asking; no crossing is lost."""
    d = Driver().reading(100)
    d.serve("a")
    assert ("a", 1) == (d.to, d.asked.ask)
    assert d.failed is None
    d.answer("short")
    assert ["short"] == d.texts


def test_a_newcomer_ends_the_backoff() -> None:
    """After failures the standing question waits; an engine that begins to serve is asked at once."""
    d = Driver("a")
    d.at = 0.0
    d.reading(100).answer(error="down")
    assert d.reading(120).to is None
    d.serve("b")
    assert "b" == d.to
    assert 0 == d.state.guard.failures
    d.answer().answer().reading(10)
    assert 1 == d.state.guard.failures
    d.serve("c")
    assert (None, 0, None) == (d.question, d.state.guard.failures, d.failed)


def test_a_newcomer_does_not_disturb_who_is_at_work() -> None:
    """Another compressor, or an engine of another role, changes nothing while one is at work."""
    d = Driver("a").reading(100)
    asked = d.asked
    d.serve("b").serve("r", "reviser").serve("x", "shadow")
    assert asked is d.asked
    assert "b" == d.answer().to
    assert "r" == d.answer("done").to


def test_an_engine_that_was_restarted_is_asked_again() -> None:
    """A crash on the question is no reason not to ask the engine again once it serves again."""
    d = Driver("a").reading(100)
    d.cease("a")
    assert d.failed is not None
    d.serve("a")
    assert ("a", 2) == (d.to, d.asked.n)
    d = Driver("a", "b").reading(100).cease("a").serve("a")  # restarted while the other one works
    assert "b" == d.to
    assert "a" == d.answer().to


def test_failures_are_retried_with_growing_pauses() -> None:
    """The pause is 30 s and doubles to 15 min; each round has the same question and new askings."""
    d = Driver("a")
    d.at = 0.0
    d.reading(100)
    pauses, ns = [], []
    for _ in range(8):
        ns.append(d.asked.n)
        d.answer(error="down")
        assert d.failed is not None
        assert d.failed.retry_at is not None
        assert wake(d.state) == d.failed.retry_at
        pauses.append(d.failed.retry_at - d.at)
        d.do(e.TimePassed, at=d.failed.retry_at - 0.1)
        assert d.to is None
        d.at = d.failed.retry_at
        d.append("more").do(e.TimePassed)
    assert [30, 60, 120, 240, 480, 900, 900, 900] == pauses
    assert list(range(1, 9)) == ns
    assert 1 == d.asked.ask


def test_backoff_belongs_to_the_session() -> None:
    """A new crossing does not get around the pause; a manual request does; a success ends it."""
    d = Driver("a")
    d.at = 0.0
    d.reading(100).answer(error="down")
    d.reading(10)
    assert d.question is None
    assert d.failed is not None
    d.reading(100)
    assert d.question is not None
    assert (2, None) == (d.question.ask, d.to)
    d.do(e.CompactionRequested, "manual")
    assert "a" == d.to
    assert d.failed is None
    d.answer("short")
    assert 0 == d.state.guard.failures
    assert d.append("more").reading(100).to == "a"


def test_the_pause_ends_even_when_no_question_stands() -> None:
    """A failure is not told for longer than it matters."""
    d = Driver("a")
    d.at = 0.0
    d.reading(100).answer(error="down").reading(10)
    assert d.do(e.TimePassed, at=30.0).failed is None
    assert wake(d.state) is None
    d = Driver().reading(100).reading(10)
    assert d.failed is None


def test_without_times_nothing_counts_time() -> None:
    """Without recorded times there is neither deadline nor retry time; a failure waits for something to change."""
    d = Driver("a").reading(100)
    assert wake(d.state) is None
    d.do(e.TimePassed)
    assert "a" == d.to
    d.answer(error="down")
    assert d.failed is not None
    assert d.failed.retry_at is None
    assert d.reading(105).to is None
    assert d.append("more").reading(105).to == "a"


def test_a_manual_request_takes_up_what_stands() -> None:
    """It does not raise a second question, and does not disturb who is at work."""
    d = Driver("a").reading(100)
    asked = d.asked
    assert asked is d.do(e.CompactionRequested, "manual").asked
    d.answer().do(e.CompactionRequested, "manual", "tests")
    assert (1, "a", "tests") == (d.asked.ask, d.to, d.asked.focus)


def test_a_request_ahead_of_time_minds_pauses() -> None:
    """Nobody waits for a request ahead of time."""
    d = Driver("a").do(e.CompactionRequested, "ahead", None, 90)
    assert ("a", "ahead", 90) == (d.to, d.question and d.question.reason, d.question and d.question.tokens)
    d.at = 0.0
    d.answer(error="down")
    assert d.do(e.CompactionRequested, "ahead").to is None
    assert d.do(e.CompactionRequested, "overflow").to == "a"
    d.answer(error="down")
    d.at = 90.0
    assert d.do(e.CompactionRequested, "ahead").to == "a"


def test_an_engine_says_how_long_it_needs() -> None:
    """What an engine says of itself is granted, what is told for its kind counts more, and `Asked` carries it."""
    policy = Policy(deadlines={"lcm": 60.0})
    assert (45.0, 60.0, 300.0) == (
        policy.patience("a", "compressor", 45.0),
        policy.patience("lcm#2", "compressor", 45.0),
        policy.patience("a", "compressor"),
    )
    roster = Roster(policy)
    roster.add(Serving("a", "compressor", seconds=45.0))
    d = Driver("a")
    d.stated = roster.of("s").seconds
    d.at = 0.0
    d.reading(100)
    assert 45.0 == wake(d.state)
    assert d.state.question is not None
    assert d.state.question.work is not None
    assert 45.0 == d.state.question.work.fact.seconds


def test_deadlines_are_by_kind() -> None:
    """A time can be told for a kind of engine; the default suits engines with a model; revisers get 2 s."""
    d = Driver("compressor#2", "lcm", revisers_serving=("skills",), deadlines={"compressor": 10.0, "lcm": 60.0})
    d.at = 0.0
    d.reading(100)
    assert 10.0 == wake(d.state)
    d.do(e.TimePassed, at=10.0)
    assert ("lcm", 70.0) == (d.to, wake(d.state))
    d.at = 20.0
    d.answer("x")
    assert ("skills", 22.0) == (d.to, wake(d.state))
    d.do(e.TimePassed, at=22.0)
    assert ["x"] == d.texts
    assert "compressor" == kind_of("compressor#b")


def test_an_engine_still_at_work_is_not_asked_again() -> None:
    """An engine whose abandoned call runs is passed over until it returns, and is asked then."""
    d = Driver("a")
    d.at = 0.0
    d.reading(100).do(e.EngineBusy, "a").do(e.EngineBusy, "a").do(e.TimePassed, at=300.0)
    assert d.to is None
    d.at = 1000.0
    d.do(e.TimePassed)
    assert d.to is None
    assert d.failed is not None
    assert ("a is still at work on an earlier question", None) == (d.failed.reason, d.failed.retry_at)
    assert d.append("more").reading(110).to is None
    d.do(e.EngineFree, "a")
    assert "a" == d.to
    assert d.failed is None


def test_who_returns_after_failing_this_round_waits_like_others() -> None:
    """That the call has returned does not end the pause after the failure it was."""
    d = Driver("a")
    d.at = 0.0
    d.reading(100).do(e.EngineBusy, "a").do(e.TimePassed, at=300.0).do(e.EngineFree, "a", at=310.0)
    assert d.to is None
    assert d.do(e.TimePassed, at=330.0).to == "a"
    assert d.do(e.EngineFree, "nobody").to == "a"


def test_the_busy_are_passed_over_whatever_their_role() -> None:
    """Shadows and revisers are left alone too while a call of theirs runs."""
    d = Driver("a", revisers_serving=("r",), shadows_serving=("x",))
    for name in ("r", "x"):
        d.do(e.EngineBusy, name)
    d.reading(100)
    assert ["a"] == [asked.to for asked in d.facts(Asked)]
    assert ["short"] == d.answer("short").texts
    assert d.do(e.EngineFree, "x").facts(Asked) == []


def test_shadows_are_asked_beside() -> None:
    """Shadows see the same input, once; their answers, errors and deadlines decide nothing."""
    d = Driver("a", shadows_serving=("x", "y"))
    d.at = 0.0
    d.reading(100)
    shadows = [asked for asked in d.facts(Asked) if asked.role == "shadow"]
    assert ["x", "y"] == [asked.to for asked in shadows]
    assert all(asked.messages is d.asked.messages for asked in shadows)
    d.answer("from a shadow", asked=shadows[0])
    assert ["u1", "u2", "u3"] == d.texts
    assert ("a", []) == (d.to, d.said)
    d.answer("short")
    assert ["short"] == d.texts
    assert ["y"] == [asked.to for asked in d.facts(Asked)]
    assert 300.0 == wake(d.state)
    assert d.do(e.TimePassed, at=300.0).facts(Asked) == []


def test_shadows_are_asked_once_for_an_input() -> None:
    """Another round on the same context does not ask them again; a shadow that is gone is asked no more."""
    d = Driver("a", shadows_serving=("x",), guards=False)
    d.at = 0.0
    d.reading(100).cease("x", "shadow")
    assert ["a"] == [asked.to for asked in d.facts(Asked)]
    d.answer(error="down").serve("x", "shadow").do(e.TimePassed, at=30.0)
    assert ["a"] == [asked.to for asked in d.facts(Asked)]
    d.answer(error="down").append("more").do(e.TimePassed, at=90.0)
    assert ["x", "a"] == [asked.to for asked in d.facts(Asked)]
    assert d.reading(1).facts(Asked) == []


def test_only_the_role_that_was_lost_counts() -> None:
    """An engine that ceases in one role, or serves on under another fact, is still at work in the other."""
    d = Driver("a").reading(100)
    asked = d.asked
    assert asked is d.cease("a", "reviser").do(e.EngineCeased, "a", "compressor").asked
    assert d.do(e.EngineCeased, "z", "observer").asked is asked


def test_the_end_takes_all_but_the_session() -> None:
    """D09: of an ended conversation one fact stands; what comes later is ignored, answers are refused."""
    d = Driver("a", shadows_serving=("x",)).reading(100)
    asked = d.asked
    d.do(e.SessionEnded)
    assert (Session(SID, "ended"),) == view(d.state)
    d.reading(200).append("more").do(e.CompactionRequested).do(e.EngineBusy, "a").do(e.EngineFree, "a")
    assert (Session(SID, "ended"),) == view(d.state)
    assert ["late or not asked for"] == [refused.reason for refused in d.answer("late", asked=asked).said]
    assert wake(d.state) is None
    assert [] == d.texts  # its messages are let go of, and whoever looks finds a list


def test_numbers_go_on_after_a_new_start() -> None:
    """Neither question numbers nor askings nor revisions are used again under the same name."""
    d = Driver("a").reading(100)
    rev = d.fact(Transcript).rev
    d.do(e.SessionEnded).do(e.SessionStarted, threshold=100, messages=[{"role": "user", "content": "anew"}])
    assert ["anew"] == d.texts
    d.reading(100)
    assert (2, 2) == (d.asked.ask, d.asked.n)
    assert d.fact(Transcript).rev > rev
    d.do(e.SessionReset).reading(100)
    assert (3, 3) == (d.asked.ask, d.asked.n)
    assert [] == d.texts
    d.do(e.SessionStarted, threshold=50).reading(50)  # a start without an end
    assert (4, 4, 50) == (d.asked.ask, d.asked.n, d.asked.threshold)


def test_a_host_is_told_when_to_hand_its_context_over() -> None:
    """Due: a question stands, is not held back, and is not in a pause."""
    d = Driver("a", owned=False)
    assert not due(d.state)
    d.at = 0.0
    d.reading(100)
    assert due(d.state, 0.0)
    d.do(e.ContextOpened, rows("u1")).answer(error="down").do(e.ContextReleased)
    assert d.facts(ShouldCompress)
    assert [False, False, False, True] == [due(d.state, at) for at in (None, 0.0, 29.9, 30.0)]
    assert d.do(e.TimePassed, at=30.0).failed is None
    assert due(d.state, 30.0)


def test_engines_are_asked_in_configured_order_then_the_newest() -> None:
    """Kinds as configured, others after them; of equals the newest first."""
    roster = Roster(Policy(compressors=("lcm", "compressor"), revisers=("skills",)))
    for name in ("other", "compressor", "compressor#b", "lcm#1", "another"):
        roster.add(Serving(name, "compressor"))
    for name in ("early", "skills", "late"):
        roster.add(Serving(name, "reviser"))
    assert ("lcm#1", "compressor#b", "compressor", "another", "other") == roster.of("s1").compressors
    assert ("skills", "late", "early") == roster.of("s1").revisers
    assert () == roster.of("s1").shadows


def test_an_engine_may_serve_one_conversation() -> None:
    """Who serves one conversation is asked there and nowhere else, beside those who serve all; each once."""
    roster = Roster(Policy())
    roster.add(Serving("own", "compressor", "s1"))
    roster.add(Serving("all", "compressor"))
    roster.add(Serving("all", "compressor", "s1"))
    assert ("all", "own") == roster.of("s1").compressors
    assert ("all",) == roster.of("s2").compressors
    roster.remove(Serving("own", "compressor", "s1"))
    roster.remove(Serving("all", "compressor"))
    assert ("all",) == roster.of("s1").compressors
    roster.remove(Serving("all", "compressor", "s1"))
    roster.remove(Serving("all", "compressor", "s1"))
    assert () == roster.of("s1").compressors == roster.of("s2").compressors
