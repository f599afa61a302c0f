"""Pruning, reload, new task and another compaction in every order: what is said of a skill is so, and nothing is stuck.

How the orders in a host are covered.  A host's thread steps the registry's ledgers itself and at once; what the run loop tells of
a compaction, and showing what follows as facts, is for the dataspace's thread, which handles each thing it is asked with all
that this causes before the next.  So the steps are the thread's (a compaction taken over, a request, a tool, an answer, a new
request of the user), the loop's word on a compaction, and the registry's turn, and `Hosted` has them fall in every order that
one thread allows.  Two things are left out of the states, and each is made good by a check that is made at every step:

- which facts stood one after another in a turn of the registry: each such change is tried by itself, once, in a dataspace of
  its own (`every_change_by_itself`), and the turn's end is part of the state;
- what the host's thread may do amid a turn of the dataspace's: the registry steps a ledger there once, when it hears of the
  compaction, and hears of its own facts, which changes nothing whenever it comes (`what_follows_is_no_news`).

The second is tried the other way round as well: `torn` has every piece of such a turn handled by itself, and the host's thread
in between.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from attrs import evolve

from bridges.hermes import hooks, turns
from dataspace.testing import Failure, Run, explore, sample
from engines import facts as f
from engines.skills import Ledger, Stepped, seeing, tasks, view
from engines.skills import events as e
from engines.skills.actor import _Registry
from engines.skills.step import _HANDLERS
from tests.bisim.skills_agent import apart
from tests.bisim.skills_host import CHANGES, Hosted
from tests.bisim.skills_world import Told

FACTS = (f.SkillAvailable, f.SkillPruned, f.SkillRequired, f.LoopInvalid)
BESIDE = ("review", "child")
TWICE = ("prune", "reload", "reload", "act")

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
only_deep = pytest.mark.skipif(not DEEP, reason="`make deep` runs it: it takes minutes")
in_check, in_deep = [pytest.mark.slow], [only_deep]


@pytest.fixture(autouse=True)
def hooks_of_its_own() -> Iterator[None]:
    """What the scenarios register does not stay, and nothing is known to be right from another test."""
    CHANGES.clear()
    with apart():
        yield


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(partial(Hosted, steps=("prune", "act", "reload")), id="in a host, little"),
        pytest.param(Told, id="told", marks=in_check),
        pytest.param(Hosted, id="in a host", marks=in_check),
        pytest.param(partial(Hosted, batch=True), id="in a host, a batch", marks=in_check),
        pytest.param(partial(Hosted, times=2, steps=("prune", "act", "reload")), id="in a host, twice", marks=in_check),
        pytest.param(partial(Hosted, times=2, steps=(*TWICE, "task")), id="in a host, reloaded twice", marks=in_deep),
        pytest.param(
            partial(Hosted, torn=True, steps=("prune", "act", "reload")), id="in a host, torn", marks=in_check
        ),
        pytest.param(partial(Hosted, torn=True), id="in a host, all of it torn", marks=in_deep),
        pytest.param(partial(Told, times=2), id="told, twice", marks=in_deep),
        pytest.param(partial(Hosted, times=2), id="in a host, all of it twice", marks=in_deep),
        pytest.param(partial(Hosted, times=2, batch=True), id="in a host, a batch, twice", marks=in_deep),
    ],
)
def test_every_order(scenario: Any) -> None:
    """All schedules of a compaction (or two), a reload, work, an answer and a new task."""
    report = explore(scenario, most_runs=1_000_000).check()
    assert report.exhaustive
    print(report)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(("prune", "act"), marks=in_check),
        pytest.param(("prune", "act", "reload"), marks=in_deep),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("beside", BESIDE)
def test_beside_a_blocked_parent_in_every_order(beside: str, steps: tuple[str, ...]) -> None:
    """A review under the same session's id, or a child: never held up, told nothing, and each loads for itself."""
    report = explore(partial(Hosted, beside=beside, steps=steps), most_runs=1_000_000).check()
    assert report.exhaustive
    print(report)


@pytest.mark.parametrize("scenario", [Told, Hosted])
def test_two_compactions_in_drawn_schedules(scenario: Any) -> None:
    """All of them take minutes: some every day, drawn by a seed."""
    report = sample(partial(scenario, times=2), 40, seed=1, hashing=False).check()
    assert 40 == report.schedules


@pytest.mark.slow
@pytest.mark.parametrize("told", [{}, {"torn": True}], ids=["whole turns", "torn"])
def test_telling_states_apart_hides_no_schedule(told: dict[str, Any]) -> None:
    """With and without the states told apart there are as many schedules, and none that fails."""
    scenario = partial(Hosted, steps=("prune", "act", "reload"), **told)
    hashed, plain = explore(scenario).check(), explore(scenario, hashing=False, most_runs=20_000).check()
    assert (hashed.schedules, True) == (plain.schedules, plain.exhaustive)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario", [Told, partial(Hosted, steps=("prune", "act", "reload"))], ids=["told", "in a host"]
)
def test_every_order_comes_to_something(scenario: Any) -> None:
    """In some schedules the reasoning was invalid, and the skill both there and gone."""
    seen: set[type] = set()

    def watched(run: Run) -> None:
        scenario(run)
        for cls in FACTS:
            run.watch(cls, lambda change: seen.add(type(change.fact)))

    explore(watched, most_runs=1_000_000).check()
    assert set(FACTS) == seen


# -- planted bugs are found -------------------------------------------------------------------------------------------


def found(scenario: Any) -> Failure:
    """The failure that a bug brings out, which its program replays."""
    report = sample(scenario, 200, seed=1)
    if report.failure is None:
        report = explore(scenario, most_runs=50_000)
    print(f"found after {report}")
    assert report.failure is not None, f"not found in {report}"
    with pytest.raises(AssertionError):
        exec(report.failure.script(), {"__name__": "replay"})
    return report.failure


@pytest.mark.parametrize("scenario", [Told, Hosted, partial(Hosted, torn=True)], ids=["told", "in a host", "torn"])
def test_both_states_for_a_moment(scenario: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: what is so is published before what is not so any more is taken back."""

    def show(self: _Registry, ledger: Ledger) -> None:
        facts = view(ledger, self._book.policy_of(ledger.sid))
        old = self._shown.get(ledger.sid, {})
        self._shown[ledger.sid] = {fact: old.get(fact) or self._me.publish(fact) for fact in facts}
        for fact in [fact for fact in old if fact not in facts]:
            self._me.retract(old[fact])

    monkeypatch.setattr(_Registry, "_show", show)
    assert "at the same time: ['SkillAvailable', 'SkillPruned']" in str(found(scenario).error)


def test_a_loss_that_a_new_task_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: the user asks for something else before the reload, and the reasoning stays invalid.

    Two things end it, each by itself: that the request is a new one, and that it is heard what the task needs now.
    """

    def begin_task(ledger: Ledger, task: str) -> Ledger:
        return evolve(ledger, task=task, touched=(), running=False)

    def declared(ledger: Ledger, event: e.Declared, _policy: Any) -> Stepped:
        return Stepped(tasks.losing(evolve(ledger, declared=event.names)))

    for module in (tasks, seeing):
        monkeypatch.setattr(module, "begin_task", begin_task)
    monkeypatch.setitem(_HANDLERS, e.Declared, declared)
    for scenario in (Told, Hosted):
        assert "stands, and " in str(found(scenario).error)


def test_a_reload_answered_from_a_stale_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: after the second compaction a load is answered from what was known before it."""
    loaded = _HANDLERS[e.Loaded]

    def stale(ledger: Ledger, event: Any, policy: Any) -> Stepped:
        before = [evolve(skill, state="available") if ledger.taken > 1 else skill for skill in ledger.skills]
        return loaded(evolve(ledger, skills=tuple(before)), event, policy)

    monkeypatch.setitem(_HANDLERS, e.Loaded, stale)
    twice = partial(Hosted, times=2, steps=("prune", "reload", "act"))
    assert "the load brought a notice; it is there: False" in str(found(twice).error)


def test_a_second_compaction_that_nobody_looks_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: what the first one left is looked at, and what the second one left is not."""
    taken_over = _HANDLERS[e.TakenOver]

    def once(ledger: Ledger, event: Any, policy: Any) -> Stepped:
        return taken_over(ledger, event, policy) if ledger.taken == 0 else Stepped(ledger)

    monkeypatch.setitem(_HANDLERS, e.TakenOver, once)
    assert "are said to be available" in str(found(partial(Hosted, times=2, steps=TWICE)).error)


def test_a_compaction_told_late_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: what the loop says of a compaction counts, though a request has shown what came after it."""
    compacted = _HANDLERS[e.Compacted]

    def believing(ledger: Ledger, event: e.Compacted, policy: Any) -> Stepped:
        return compacted(ledger, evolve(event, late=False), policy)

    monkeypatch.setitem(_HANDLERS, e.Compacted, believing)
    assert found(partial(Hosted, steps=("prune", "reload", "act", "answer"))).schedule


@pytest.mark.parametrize("beside", BESIDE)
def test_a_block_for_somebody_else(beside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: whether a tool has to wait is asked for the agent that bears the session's id, or for the first there is."""
    wanted = hooks._HOOKS["pre_tool_call"]

    def by_session(turn_id: str = "", session_id: str = "", **told: Any) -> Any:
        theirs = [turn.turn for turn in turns._turns.values() if beside == "child" or turn.session == session_id]
        return wanted(turn_id=theirs[0], session_id=session_id, **told)

    monkeypatch.setitem(hooks._HOOKS, "pre_tool_call", by_session)
    assert f"the {beside} is held up" in str(found(partial(Hosted, beside=beside, steps=("prune", "act"))).error)


def test_a_batch_that_runs_what_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: a load ends the loss at once, so what was called beside it runs before the model has seen the text."""
    loaded = _HANDLERS[e.Loaded]

    def ending(ledger: Ledger, event: Any, policy: Any) -> Stepped:
        stepped = loaded(ledger, event, policy)
        return stepped._replace(ledger=evolve(stepped.ledger, loss=None))

    monkeypatch.setitem(_HANDLERS, e.Loaded, ending)
    scenario = partial(Hosted, batch=True, steps=("prune", "act", "reload"))
    assert "held back: False; lost for this task: True" in str(found(scenario).error)


def test_an_answer_that_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: the model's answer to the reloaded text, without a tool, leaves the reasoning invalid until the next task."""
    monkeypatch.setitem(
        _HANDLERS, e.RequestEnded, lambda ledger, _event, _policy: Stepped(evolve(ledger, running=False))
    )
    assert "nothing is lost for this task" in str(found(Hosted).error)


def test_requests_that_nobody_looks_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: after a compaction the host is not asked for the next request."""
    monkeypatch.setattr(Ledger, "curious", property(lambda _ledger: False))
    assert found(partial(Hosted, steps=("prune", "act", "reload"))).schedule


def test_a_loss_that_never_ends_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: the reloaded text does not end the loss."""
    monkeypatch.setattr(seeing, "recovering", lambda ledger, _rows, **_told: ledger)
    assert "although the model has seen the text" in str(found(Told).error)
    assert "held back: True; lost for this task: False" in str(
        found(partial(Hosted, steps=("prune", "act", "reload"))).error
    )


def test_a_ghost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: a skill that was there stays so."""
    looked = seeing._looked

    def believing(ledger: Ledger, *args: Any, **told: Any) -> Ledger:
        new = looked(ledger, *args, **told)
        kept = [
            skill if (old := ledger.skill(skill.key)) is None else evolve(skill, state=old.state)
            for skill in new.skills
        ]
        return evolve(new, skills=tuple(kept))

    monkeypatch.setattr(seeing, "_looked", believing)
    assert "are said to be available" in str(found(Told).error)
