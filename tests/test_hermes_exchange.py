"""What passes between a hosted engine and the dataspace: its rows, its answer, its verdict, its thread."""

from __future__ import annotations

import copy
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any

import pytest
import trio
from hypothesis import given

from bridges.hermes import errand
from bridges.hermes.echo import echoes
from bridges.hermes.exchange import Exchange
from dataspace import Facet, Heard, open_dataspace, where
from engines.context import AskerContext
from engines.facts import Answered, Asked, Serving, Working
from engines.loop.policy import Verdict
from engines.messages import Messages
from engines.transcript import Changed
from tests.test_same_rows import Rows, compacted

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")
BEFORE = Messages.of(
    [{"role": "user", "content": f"Question {at}.", "_db_persisted": True} for at in range(4)],
)
ASKED = Asked("s1", 1, 1, "builtin", messages=BEFORE, context=None)
SHORT = Messages.of([{"role": "user", "content": "In short."}])


# -- rows -------------------------------------------------------------------------------------------------------------


def test_what_was_prepared_is_used_once() -> None:
    """The engine gets the dicts made for it, another time and for another list fresh ones."""
    exchange = Exchange(lends=True)
    exchange.prepare(BEFORE)
    assert exchange.rows(SHORT) == SHORT
    exchange.prepare(BEFORE)
    first, second = exchange.rows(BEFORE), exchange.rows(BEFORE)
    assert first == second == BEFORE.thaw()
    assert not any(one is other for one, other in zip(first, second, strict=True))


def test_who_changes_nothing_works_on_the_host_s_own_rows() -> None:
    """They are lent to it, in a list of its own; anybody else, and odd rows, are given copies."""
    rows = BEFORE.thaw()
    for lends, whose, own in ((True, rows, True), (False, rows, False), (True, None, False)):
        exchange = Exchange(lends=lends)
        exchange.prepare(BEFORE, whose)
        worked_on = exchange.rows(BEFORE)
        assert worked_on == rows
        assert worked_on is not rows
        assert own == all(one is other for one, other in zip(worked_on, rows, strict=True))
    exchange = Exchange(lends=True)
    odd = [OrderedDict(row) for row in rows]
    exchange.prepare(BEFORE, odd)
    assert {dict} == set(map(type, exchange.rows(BEFORE)))


def test_what_is_lent_is_not_handed_back() -> None:
    """A row of the host's own that an answer holds is copied: what the host is given is nobody's but its own."""
    exchange, rows = Exchange(lends=True), SHORT.thaw()
    exchange.prepare(SHORT, rows)
    done = exchange.thaw(exchange.freeze(exchange.rows(SHORT), SHORT))
    assert done == rows
    assert done[0] is not rows[0]


def test_kept_values_are_not_looked_into() -> None:
    """What is still the object that a row was frozen from needs no comparison; another one does."""
    calls = [{"id": "c", "function": {"name": "read", "arguments": "{}"}}]
    rows = [{"role": "assistant", "content": "", "tool_calls": calls, "_db_persisted": True} for _ in range(3)]
    before = Messages.of(rows)
    exchange = Exchange(lends=True)
    exchange.prepare(before, rows)
    done = [{key: row[key] for key in ("role", "content", "tool_calls")} for row in exchange.rows(before)]
    done[1] = {**done[1], "tool_calls": copy.deepcopy(calls)}
    done[2] = {**done[2], "tool_calls": []}
    answer, bare = exchange.freeze(done, before), exchange.bare(before)
    assert [True, True, False] == [one is other for one, other in zip(answer, bare, strict=True)]
    assert answer == done


@given(compacted())
def test_what_has_changed_is_known_from_the_freezing(pair: tuple[Rows, Rows]) -> None:
    """It is what a comparison of the lists finds; of another answer, or to another list, nothing is taken as known."""
    rows, after = pair
    before = Messages.of(rows)
    exchange = Exchange(lends=True)
    exchange.prepare(before, rows)
    answer, bare = exchange.freeze(after, before), exchange.bare(before)
    for found, wanted in (
        (exchange.changed(answer, bare), Changed.between(answer, bare)),
        (exchange.changed(SHORT, bare), Changed.between(SHORT, bare)),
        (exchange.changed(answer, SHORT), Changed.between(answer, SHORT)),
    ):
        assert [*map(id, found.put)] == [*map(id, wanted.put)]
        assert [*map(id, found.gone)] == [*map(id, wanted.gone)]


def test_kept_rows_are_those_without_marks() -> None:
    """An answer shares its rows with the bare list it is judged against, which is the same one every time."""
    exchange = Exchange(lends=True)
    answer = exchange.freeze([{"role": "user", "content": f"Question {at}."} for at in (0, 3)], BEFORE)
    bare = exchange.bare(BEFORE)
    assert exchange.bare(BEFORE) is bare
    assert (bare[0], bare[3]) == (answer[0], answer[1])
    assert answer[0] is bare[0]
    assert answer[1] is bare[3]


@pytest.mark.parametrize("lends", [True, False])
def test_the_host_gets_the_engine_s_own_dicts(lends: bool) -> None:
    """Only from an engine that keeps none of them, and only once."""
    exchange = Exchange(lends=lends)
    done = [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]
    answer = exchange.freeze(done, BEFORE)
    assert lends == (exchange.thaw(answer)[0] is done[0])
    assert exchange.thaw(answer)[0] is not done[0]
    exchange.freeze(done, BEFORE)
    mended = Messages.of([*answer[:1], {"role": "user", "content": "C"}])
    assert exchange.thaw(mended) == [{"role": "user", "content": "A"}, {"role": "user", "content": "C"}]
    exchange.freeze(done, BEFORE)
    exchange.forget()
    assert exchange.thaw(answer)[0] is not done[0]


def test_one_dict_twice_is_two_to_the_host() -> None:
    """What the host changes in one row must not change another."""
    exchange = Exchange(lends=True)
    twice = {"role": "user", "content": "A"}
    rows = exchange.thaw(exchange.freeze([twice, twice], BEFORE))
    assert rows[0] is not rows[1]


# -- verdicts ---------------------------------------------------------------------------------------------------------


def test_an_answer_is_judged_once() -> None:
    """What was judged where it was made is not judged again; anything else is."""
    calls: list[Messages] = []

    def accept(answer: Messages, _before: Messages) -> Verdict:
        calls.append(answer)
        return Verdict(answer)

    exchange = Exchange(lends=True)
    exchange.foresee(SHORT, BEFORE)
    judge = exchange.judging(accept)
    exchange.foresee(SHORT, BEFORE)
    assert judge(SHORT, BEFORE).messages is SHORT
    assert len(calls) == 1
    judge(SHORT, SHORT)
    judge(BEFORE, BEFORE)
    assert len(calls) == 3


def test_an_error_of_the_judge_is_the_loop_s() -> None:
    """It is not lost and does not spoil the engine's work: it is raised where an answer is dealt with."""

    def accept(_answer: Messages, _before: Messages) -> Verdict:
        raise RuntimeError("no judge")

    exchange = Exchange(lends=True)
    judge = exchange.judging(accept)
    exchange.foresee(SHORT, BEFORE)
    with pytest.raises(RuntimeError, match="no judge"):
        judge(SHORT, BEFORE)


# -- echoes -----------------------------------------------------------------------------------------------------------

PAGE = " ".join(f"word{at} follows {at * 7} and then" for at in range(120))
OWN = " ".join(f"point {at} is settled because of reason number {at * 3}" for at in range(30))


def _never() -> list[str]:
    raise AssertionError("the messages were cut up for nothing")


@pytest.mark.parametrize("blank", [" ", "\n", "   "])
def test_an_echo_is_found_however_it_is_wrapped(blank: str) -> None:
    """Blanks and line ends make no difference to what stands word for word."""
    body = " ".join(PAGE.split()[40:200])
    texts = ["Something else.", PAGE.replace(" ", blank, 1)]
    assert echoes(body, texts, lambda: texts)
    assert not echoes(body, texts, lambda: ["Something else."])


def test_a_summary_of_its_own_costs_a_few_looks() -> None:
    """Its messages are not cut up."""
    assert not echoes(OWN, [PAGE], _never)
    assert not echoes("Too short to tell.", ["Too short to tell."], _never)


def test_half_an_echo_is_none() -> None:
    """Three of five runs make one, not two."""
    words = PAGE.split()
    half = f"{' '.join(words[:100])} {' '.join(OWN.split()[:100])}"
    assert not echoes(half, [PAGE], lambda: [PAGE])
    most = f"{' '.join(words[:160])} {' '.join(OWN.split()[:40])}"
    assert echoes(most, [PAGE], lambda: [PAGE])


# -- the thread -------------------------------------------------------------------------------------------------------


async def _answered(ds: Any, work: Any, asked: Asked = ASKED) -> Answered:
    def boot(me: Facet) -> None:
        errand.serve_in_thread(me, work, sid="s1", seconds=5)

    await ds.spawn(boot, name="builtin")
    assert ds.facts(Serving) == (Serving("builtin", "compressor", "s1", seconds=5),)
    me = ds.actor("reader")
    with me.changes(Answered) as changes, me.publish(asked):
        change = await anext(changes)
    assert isinstance(change, Heard)
    assert not ds.facts(Working)
    answer: Answered = change.fact
    return answer


async def test_the_work_is_done_in_the_asker_s_variables() -> None:
    """In a thread of its own; what it returns is the answer, None declines."""
    seen: list[tuple[str, bool]] = []
    main = threading.get_ident()

    def work(_asked: Asked) -> Messages | None:
        seen.append((WHO.get(), threading.get_ident() == main))
        return SHORT

    WHO.set("robin")
    asked = Asked("s1", 1, 1, "builtin", messages=BEFORE, context=AskerContext(copy_context()))
    async with open_dataspace() as ds:
        assert Answered("s1", 1, 1, "builtin", messages=SHORT) == await _answered(ds, work, asked)
    async with open_dataspace() as ds:
        answer = await _answered(ds, lambda _asked: None)
        assert (answer.messages, answer.error) == (None, None)
    assert seen == [("robin", False)]


@pytest.mark.parametrize(("error", "said"), [(ValueError("bad"), "ValueError: bad"), (KeyError(), "KeyError")])
async def test_what_it_raises_is_the_answer(error: Exception, said: str) -> None:
    """To this question; the engine serves on."""

    def work(_asked: Asked) -> Messages | None:
        raise error

    async with open_dataspace() as ds:
        assert said == (await _answered(ds, work)).error
        assert ds.facts(where(Serving, engine="builtin"))


async def test_without_threads_there_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system has no more threads: the next engine can be asked."""

    def refuse(*_args: object) -> None:
        raise RuntimeError("can't start new thread")

    async with open_dataspace() as ds:
        monkeypatch.setattr(trio.lowlevel, "start_thread_soon", refuse)
        assert "RuntimeError: can't start new thread" == (await _answered(ds, lambda _asked: SHORT)).error


async def test_a_question_that_goes_leaves_the_thread_alone(caplog: pytest.LogCaptureFixture) -> None:
    """The engine counts as at work until it returns; what it brings then is dropped, an error of it logged."""
    began, go_on = threading.Event(), threading.Event()

    def work(result: Callable[[], Any], _asked: Asked) -> Any:
        began.set()
        assert go_on.wait(30)
        return result()

    for result, logged in ((lambda: SHORT, 0), (lambda: 1 // 0, 1)):
        began.clear()
        go_on.clear()
        heard: list[Answered] = []
        async with open_dataspace() as ds:
            await ds.spawn(
                lambda me, r=result: errand.serve_in_thread(me, partial(work, r), sid="s1", seconds=5), name="builtin"
            )
            me = ds.actor("reader")
            me.observe(Answered, heard=heard.append)
            with me.changes(Working) as changes:
                with me.publish(ASKED):
                    await anext(changes)
                    await trio.to_thread.run_sync(began.wait, 30)
                assert ds.facts(Working)
                with caplog.at_level(logging.ERROR):
                    go_on.set()
                    await anext(changes)
        assert not heard
        assert logged == sum("nobody waits for" in record.message for record in caplog.records)
        caplog.clear()
