"""From an answer to a new context: one answer for one asking, judged, revised, offered, committed."""

from __future__ import annotations

from contextvars import ContextVar, copy_context

import pytest

from engines.context import AskerContext
from engines.facts import Answered, Asked, Compressed, Transcript
from engines.loop import Verdict, wake
from engines.loop import events as e
from engines.messages import Messages
from tests.loop_driver import SID, Driver, rows


def refuse_bad(answer: Messages, before: Messages) -> Verdict:
    """A judge that refuses what contains the word, falls over another, and mends a third."""
    texts = [str(row["content"]) for row in answer]
    if "impossible" in texts:
        raise RuntimeError("cannot judge this")
    if "mend" in texts:
        return Verdict(rows("mended"))
    return Verdict(None, "it is bad") if "bad" in texts else Verdict(answer)


def test_an_accepted_answer_becomes_the_context() -> None:
    """The result replaces the list, is told with its figures, and the question goes; pressure is unknown then."""
    d = Driver("a")
    d.at = 5.0
    d.reading(120)
    d.at = 7.5
    d.answer("short")
    assert ["short"] == d.texts
    assert Compressed(SID, 1, "a") == d.compressed
    # 3 messages held 120 tokens, so one holds 40
    assert (120, 40, 2.5) == (d.compressed.tokens_before, d.compressed.tokens_after, d.compressed.seconds)
    assert rows("short") == d.compressed.messages
    assert (None, None, None, []) == (d.question, d.to, d.state.pressure, d.said)
    assert d.fact(Transcript).messages == rows("short")


@pytest.mark.parametrize(
    ("tokens", "after"),
    [(320, 300), (31, 11), (30, 10), (24, 8), (0, 10)],
    ids=["much beside", "a little beside", "nothing beside", "over-estimated", "not known"],
)
def test_what_the_host_s_prompt_holds_beside_the_messages_stays(tokens: int, after: int) -> None:
    """A host that keeps the context sends instructions and tools with it: a compaction takes nothing off those."""
    d = hosted("a").do(e.ContextOpened, rows("u1", "u2", "u3"), "manual", tokens=tokens)
    d.answer("short").do(e.OfferCommitted)  # ten tokens a message, by estimate
    assert (tokens, after) == (d.compressed.tokens_before, d.compressed.tokens_after)


@pytest.mark.parametrize(
    ("n", "ask", "by"), [(0, 1, "a"), (2, 1, "a"), (1, 2, "a"), (1, 1, "b")], ids=["earlier", "later", "ask", "by"]
)
def test_only_the_asking_that_stands_is_answered(n: int, ask: int, by: str) -> None:
    """An answer with another n, for another question or by another engine is refused and changes nothing."""
    d = Driver("a", "b").reading(100)
    d.do(e.AnswerHeard, Answered(SID, ask, n, by, messages=rows("stolen")))
    assert [(ask, by, "late or not asked for")] == [(r.ask, r.by, r.reason) for r in d.said]
    assert "a" == d.to
    assert ["u1", "u2", "u3"] == d.texts


def test_an_answer_for_an_earlier_asking_of_the_same_engine_is_late() -> None:
    """Same engine, same question, another round: only the new asking counts, and counts once."""
    d = Driver("a").reading(100)
    first = d.asked
    d.cease("a").serve("a")
    second = d.asked
    assert (first.ask, first.to) == (second.ask, second.to)
    d.answer("old", asked=first)
    assert ["u1", "u2", "u3"] == d.texts
    d.answer("new", asked=second).answer("again", asked=second).answer("old", asked=first)
    assert ["new"] == d.texts
    assert 3 == len(d.said)


def test_a_second_answer_is_rejected() -> None:
    """D10: two compressors answer one question; the first committed wins, the other is refused."""
    d = Driver("a", "b")
    d.at = 0.0
    d.reading(100)
    a = d.asked
    d.do(e.TimePassed, at=300.0)
    d.answer("from b").answer("from a", asked=a)
    assert ["from b"] == d.texts
    assert [("a", 1)] == [(refused.by, refused.ask) for refused in d.said]


def test_late_declines_are_nobodys_business() -> None:
    """Only messages can do harm; a late refusal or error is not worth telling."""
    d = Driver("a", "b").reading(100)
    a = d.asked
    d.answer().answer(asked=a).answer(error="late", asked=a)
    assert ([], "b") == (d.said, d.to)


def test_what_arrives_meanwhile_follows_once_and_in_order() -> None:
    """C04: messages that came while an engine worked stand after the compacted ones, in order, once."""
    d = Driver("a").reading(100).append("m1").append("m2", "m3").append()
    d.answer("short").append("m4")
    assert ["short", "m1", "m2", "m3", "m4"] == d.texts
    assert rows("short") == d.compressed.messages  # type: ignore[union-attr]


def test_a_compaction_adds_no_message() -> None:
    """C22: what stood before the compaction does not come again behind it."""
    d = Driver("a", messages=rows("u1", "u2")).reading(100).append("u3", role="user").answer("u2")
    assert ["u2", "u3"] == d.texts


def test_messages_replaced_under_way_are_asked_about_anew() -> None:
    """An answer to messages that are no longer there is not taken; what only grew is no replacement."""
    d = Driver("a").reading(100)
    first = d.asked
    d.do(e.TranscriptReplaced, rows("u1", "u2", "u3"))
    assert first is d.asked
    d.do(e.TranscriptReplaced, rows("u1", "u2", "u3", "u4"))
    assert first is d.asked
    d.do(e.TranscriptReplaced, rows("u1", "other"))
    assert ("a", 2, 2) == (d.to, d.asked.n, len(d.asked.messages))
    d.answer("old", asked=first)
    assert ["u1", "other"] == d.texts
    assert ["new"] == d.answer("new").texts
    assert ["x"] == d.do(e.TranscriptReplaced, rows("x")).texts
    d.reading(100).answer(error="down").do(e.TranscriptReplaced, rows("y"))  # nobody at work: nothing to do anew
    assert (None, ["y"]) == (d.to, d.texts)


def test_the_judge_decides() -> None:
    """An answer may be refused or mended; one that cannot be judged is refused with the reason."""
    d = Driver("a", "b", "c", accept=refuse_bad).reading(100)
    d.answer("bad").answer("impossible")
    assert ["it is bad", "it could not be checked: RuntimeError('cannot judge this')"] == [r.reason for r in d.said]
    assert ["mended"] == d.answer("mend").texts


def test_an_answer_that_is_no_message_list_is_refused() -> None:
    """Even where everything is taken, the context stays a list of messages."""
    d = Driver("a").reading(100)
    asked = d.asked
    d.do(e.AnswerHeard, Answered(SID, asked.ask, asked.n, "a", messages=("text",)))
    assert ["u1", "u2", "u3"] == d.texts
    assert "messages[0] must be a dict" in d.said[0].reason


# -- revisers ---------------------------------------------------------------------------------------------------------


def test_revisers_work_on_the_draft_in_order() -> None:
    """Each reviser gets what the one before it made; the result is the last one's, by the compressor."""
    d = Driver("a", revisers_serving=("r1", "r2")).reading(100).answer("draft")
    assert ("r1", "reviser", rows("draft")) == (d.to, d.asked.role, d.asked.messages)
    assert ["u1", "u2", "u3"] == d.texts
    d.answer("draft", "+1")
    assert ("r2", rows("draft", "+1")) == (d.to, d.asked.messages)
    d.answer("draft", "+1", "+2")
    assert ["draft", "+1", "+2"] == d.texts
    assert "a" == d.compressed.by  # type: ignore[union-attr]
    assert [1, 2, 3] == list(range(1, d.state.n + 1))


@pytest.mark.parametrize(
    "reply",
    [
        lambda d: d.answer("bad"),
        lambda d: d.answer(),
        lambda d: d.answer(error="broken"),
        lambda d: d.cease("r1", "reviser"),
        lambda d: d.do(e.TimePassed, at=2.0),
    ],
    ids=["bad", "declined", "failed", "crashed", "deadline"],
)
def test_a_bad_revision_is_skipped(reply: object) -> None:
    """Revisions are checked against the original like answers; a bad one, or none, leaves the draft to the next."""
    assert callable(reply)
    d = Driver("a", revisers_serving=("r1", "r2"), accept=refuse_bad)
    d.at = 0.0
    d.reading(100).answer("draft")
    r1 = d.asked
    assert 2.0 == wake(d.state)
    reply(d)
    assert ("r2", rows("draft")) == (d.to, d.asked.messages)
    d.answer("late", asked=r1)
    assert ["done"] == d.answer("done").texts


def test_what_nobody_changed_is_not_revised() -> None:
    """An unchanged list goes to no reviser."""
    d = Driver("a", revisers_serving=("r",)).reading(100).answer("u1", "u2", "u3")
    assert ["u1", "u2", "u3"] == d.texts
    assert d.compressed is not None


def test_a_reviser_is_asked_anew_in_another_round() -> None:
    """Messages replaced while a reviser works: the compressor is asked again, and then the reviser."""
    d = Driver("a", revisers_serving=("r",)).reading(100).answer("draft")
    d.do(e.TranscriptReplaced, rows("v1", "v2"))
    assert "a" == d.to
    assert "r" == d.answer("draft 2").to
    assert ["done"] == d.answer("done").texts


# -- offers -----------------------------------------------------------------------------------------------------------


def hosted(*compressors: str, **changes: object) -> Driver:
    """A conversation whose context is the host's."""
    return Driver(*compressors, owned=False, **changes)


def test_a_host_is_asked_for_its_context_first() -> None:
    """Until the host hands its context over nobody is asked; then it is that context that is worked on."""
    d = hosted("a").reading(100)
    assert d.question is not None
    assert d.to is None
    variable: ContextVar[str] = ContextVar("variable")
    context = copy_context()
    context.run(variable.set, "the host's")
    d.do(e.ContextOpened, rows("h1", "h2"), focus="tests", context=context)
    assert (1, rows("h1", "h2"), "tests") == (d.asked.ask, d.asked.messages, d.asked.focus)
    assert "the host's" == d.asked.context.copy()[variable]
    assert d.asked.context is AskerContext.of(d.asked.context)
    assert ["h1", "h2"] == d.texts


def test_only_the_commit_changes_anything() -> None:
    """An offer leaves context and question as they were; the commit takes it over, once."""
    d = hosted("a").reading(100).do(e.OfferCommitted).do(e.ContextOpened, rows("h1", "h2")).answer("short")
    assert d.question is not None
    assert (None, None, ["h1", "h2"]) == (d.to, d.compressed, d.texts)
    d.reading(1)  # falling pressure does not take an offer back
    assert d.question is not None
    d.append("meanwhile").do(e.OfferCommitted)
    assert ["short", "meanwhile"] == d.texts
    assert d.question is None
    d.do(e.OfferCommitted).do(e.ContextReleased)
    assert ["short", "meanwhile"] == d.texts
    assert [] == d.said


def test_an_offer_that_is_not_committed_is_withdrawn() -> None:
    """A turn that ends without commit drops the offer and says so; the question stands for the next call."""
    d = hosted("a").reading(100).do(e.ContextOpened, rows("h1")).answer("short").do(e.ContextReleased)
    assert [("a", 1, "dropped by host")] == [(r.by, r.ask, r.reason) for r in d.said]
    assert d.question is not None
    assert 1 == d.question.ask
    assert ["h1"] == d.do(e.OfferCommitted).texts
    assert 1 == d.do(e.ContextOpened, rows("h1")).asked.ask


def test_a_further_call_is_a_question_of_its_own() -> None:
    """C01: a call that finds an offer drops it; there is one accepted answer at most for each question."""
    d = hosted("a").reading(100).do(e.ContextOpened, rows("h1")).answer("first")
    d.do(e.ContextOpened, rows("h1"), "overflow")
    assert (2, "overflow") == (d.asked.ask, d.question.reason if d.question else None)
    assert ["dropped by host"] == [refused.reason for refused in d.said]
    d.answer("second").do(e.OfferCommitted).do(e.OfferCommitted)
    assert ["second"] == d.texts
    assert 2 == d.compressed.ask  # type: ignore[union-attr]


def test_overlapping_calls_share_the_work() -> None:
    """C01: a second call while an engine works waits for the same answer; what is new in it follows the result."""
    d = hosted("a").reading(100).do(e.ContextOpened, rows("h1", "h2"))
    asked = d.asked
    d.do(e.ContextOpened, rows("h1", "h2", "h3"))
    assert asked is d.asked
    d.answer("short").do(e.OfferCommitted)
    assert ["short", "h3"] == d.texts


def test_an_overlapping_call_with_other_messages_begins_anew() -> None:
    """Work on messages that are not the caller's would be an answer to something else."""
    d = hosted("a").reading(100).do(e.ContextOpened, rows("h1", "h2"))
    first = d.asked
    d.do(e.ContextOpened, rows("x1"))
    assert (1, 2, rows("x1")) == (d.asked.ask, d.asked.n, d.asked.messages)
    assert "late or not asked for" == d.answer("old", asked=first).said[0].reason


def test_a_call_always_tries() -> None:
    """A call without a question raises one; pauses and guards do not bear on it."""
    d = hosted("a")
    d.at = 0.0
    for reason in ("overflow", "manual"):
        d.do(e.ContextOpened, rows("h1"), reason, tokens=70)
        assert ("a", reason, 70) == (d.to, d.question and d.question.reason, d.question and d.question.tokens)
        d.answer(error="down").do(e.ContextReleased)
        assert d.question is None  # the question of a caller goes with the call
        assert d.failed is not None
    d.do(e.ContextReleased)


def test_a_call_that_ends_calls_the_engine_off() -> None:
    """Nobody works on a context that cannot be replaced any more."""
    d = hosted("a", shadows_serving=("x",)).reading(100).do(e.ContextOpened, rows("h1"))
    d.do(e.ContextReleased)
    assert [] == d.facts(Asked)
    assert d.question is not None
    assert d.reading(10).question is None


def test_a_list_replaced_under_a_call_ends_it() -> None:
    """In a host the context is the host's: with other messages the call is over."""
    d = hosted("a").reading(100).do(e.ContextOpened, rows("h1", "h2")).do(e.TranscriptReplaced, rows("x"))
    assert d.to is None
    assert d.question is not None


@pytest.mark.parametrize(
    ("event", "told"), [(e.SessionEnded, {}), (e.SessionReset, {}), (e.SessionStarted, {"threshold": 10})]
)
def test_an_offer_ends_with_the_conversation(event: type[e.Event], told: dict[str, int]) -> None:
    """What was offered is refused when the conversation ends, begins anew or is reset."""
    d = hosted("a").reading(100).do(e.ContextOpened, rows("h1")).answer("short").do(event, **told)
    assert ["dropped by host"] == [refused.reason for refused in d.said]
    assert d.question is None


# -- answers nobody asked for -----------------------------------------------------------------------------------------


def test_where_nobody_is_asked_anybody_may_answer() -> None:
    """The first answer to the question that stands is taken; others are refused."""
    d = Driver(asks=False, guards=False, accept=refuse_bad).reading(100)
    assert (None, None) == (d.to, d.failed)
    d.do(e.AnswerVolunteered, "x", rows("bad"))
    d.do(e.AnswerVolunteered, "x", rows("short")).do(e.AnswerVolunteered, "y", rows("shorter"))
    assert (["short"], "x") == (d.texts, d.compressed and d.compressed.by)
    assert [("x", "it is bad"), ("y", "no question stands")] == [(r.by, r.reason) for r in d.said]


def test_where_somebody_is_asked_nobody_else_answers() -> None:
    """A volunteer does not get around the asking."""
    d = Driver("a").reading(100).do(e.AnswerVolunteered, "x", rows("short"))
    assert ["somebody else was asked"] == [refused.reason for refused in d.said]
    assert "a" == d.to
