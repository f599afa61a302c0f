"""Costs that hold on every machine: function calls counted, on the scenes that the benchmarks time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks import hosting, report, scenes, sessions
from benchmarks.__main__ import ROWS, main, run
from benchmarks.measure import Calls, Memory, Result, Row, Slice, Surplus, Times, calls, each, settle, weigh

MANY = 2_000
SAME = 1.05


def cost(operation: Callable[[], object]) -> int:
    """Calls of one operation, once it is warm."""
    operation()
    return calls(operation)


# -- the dataspace ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", scenes.BYSTANDERS)
def test_observers_that_do_not_match_cost_a_fact_nothing(kind: str) -> None:
    """Publishing and retracting calls the same beside thousands of observers with other constants, nested ones too."""
    alone = cost(scenes.publish_with(kind, 0))
    assert cost(scenes.publish_with(kind, MANY)) <= alone * SAME


@pytest.mark.parametrize("kind", scenes.BYSTANDERS)
def test_observers_that_do_not_match_cost_a_message_nothing(kind: str) -> None:
    """Sending calls the same beside thousands of observers with other constants, nested ones too."""
    alone = cost(scenes.message_with(kind, 0))
    assert cost(scenes.message_with(kind, MANY)) <= alone * SAME


@pytest.mark.parametrize("kind", scenes.BYSTANDERS)
def test_a_scene_has_one_that_matches_and_others_that_do_not(kind: str) -> None:
    """What the benchmarks call matching matches, and of the others none does."""
    fact, matching, others = scenes.BYSTANDERS[kind]
    assert matching.match(fact) == (fact,)
    assert all(others(number).match(fact) is None for number in range(1000, 1100))


def test_a_turn_costs_no_more_than_a_few_dozen_calls() -> None:
    """Publish and retract with one observer: so few calls that ten times the floor can be met."""
    assert cost(scenes.publish_with("literals", 0)) <= 40
    assert cost(scenes.publish_with("literals", 0, turns=True)) <= 60
    assert cost(scenes.publish_during()) <= 110


def test_a_message_costs_a_few_calls_for_each_that_hears_it() -> None:
    """A thousand receivers cost a lookup and a reading of the callback each, besides the callback."""
    few, many = cost(scenes.message_to(100)), cost(scenes.message_to(1_100))
    assert (many - few) / 1_000 <= 3


def test_facts_that_do_not_match_cost_a_newcomer_nothing() -> None:
    """Adding and removing an observer calls the same whether one fact of the class stands or thousands."""
    assert cost(scenes.observe_again(MANY)) <= cost(scenes.observe_again(1)) * SAME


def test_an_observer_leaves_a_crowd_as_easily_as_an_empty_room() -> None:
    """Removing equal observers calls no more among thousands than removing observers that are alone."""

    def of(observers: int) -> int:
        add, remove = scenes.leave(observers, 20)
        add()
        remove()
        add()
        return calls(remove)

    assert of(MANY) <= of(0) * SAME


def test_a_query_by_constants_reads_no_other_facts() -> None:
    """`ds.facts` on fields that the index knows calls the same at thousands of facts as at a hundred."""
    assert cost(scenes.query(MANY)) <= cost(scenes.query(100)) * SAME


def test_the_last_of_many_observers_is_added_like_the_first() -> None:
    """Growing does not slow down: what the index has already is not walked again."""
    add, _ = scenes.leave(0, 10)
    first = calls(add)
    crowded, _ = scenes.leave(MANY, 10)
    assert calls(crowded) <= first * 1.2


# -- the run loop -----------------------------------------------------------------------------------------------------


def test_other_sessions_cost_a_response_nothing() -> None:
    """A response calls the same in a process with a thousand live conversations as in one with ten."""
    assert cost(sessions.respond(1_000)) <= cost(sessions.respond(10)) * SAME


def test_other_sessions_cost_a_compaction_nothing() -> None:
    """Nor does a response that crosses the threshold, with all that its compaction causes."""
    assert cost(sessions.cross(1_000)) <= cost(sessions.cross(10)) * SAME


# -- the benchmarks themselves ----------------------------------------------------------------------------------------


class Counted:
    """Something that takes three seconds until it has been measured so many times, and one second from then on."""

    def __init__(self, good: int) -> None:
        self.good = good
        self.tries = 0

    def row(self) -> Row:
        """It, beside what takes one second; three are too many."""
        return Times("made up", "one second", 2.0, self.make, rounds=2)

    def make(self) -> tuple[Slice, Slice]:
        self.tries += 1
        seconds = 1.0 if self.tries >= self.good else 3.0
        return (lambda number: number * seconds), float


@pytest.mark.parametrize(("good", "tries", "met"), [(1, 1, True), (2, 2, True), (4, 4, True), (5, 4, False)])
def test_a_row_is_missed_only_when_it_misses_four_times(good: int, tries: int, met: bool) -> None:
    """One slow measurement on a busy machine fails nothing; four do."""
    counted = Counted(good)
    assert settle(counted.row()).met is met
    assert counted.tries == tries


def test_what_does_not_vary_is_measured_once() -> None:
    """Bytes and calls are not tried again."""
    weighed = []

    def make() -> float:
        weighed.append(1)
        return 200.0

    assert not settle(Memory("made up", "", 100, make)).met
    assert len(weighed) == 1


def test_the_exit_status_says_whether_a_budget_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    """0 when all is met, 1 when a row is missed or fails; a row that fails stops no other."""

    def broken() -> float:
        raise RuntimeError("no scales")

    good, bad = Memory("light", "", 100, lambda: 50.0), Memory("heavy", "", 100, lambda: 150.0)
    assert run([good], json=False) == 0
    assert run([good, bad], json=False) == 1
    assert run([Memory("broken", "", 100, broken), good], json=False) == 1
    shown = capsys.readouterr().out
    assert "MISSED" in shown
    assert "broken  FAILED  RuntimeError: no scales" in shown
    assert shown.rstrip().endswith("missed: 0; failed: 1")


def test_the_command_refuses_what_it_cannot_use(capsys: pytest.CaptureFixture[str]) -> None:
    """A pattern that is none, or that finds no row, is refused with exit status 2 and says so."""
    for given, said in (("(", "none"), ("no such row", "no row matches")):
        with pytest.raises(SystemExit) as refused:
            main(["--only", given])
        assert refused.value.code == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(("quantile", "ratio"), [(0.5, 1.0), (0.99, 3.0)])
def test_what_something_takes_more_is_a_share_of_what_it_may(quantile: float, ratio: float) -> None:
    """At the median, or where 99 of 100 are quicker; the first time of each does not count."""
    ours = iter([9.0, *[2.0] * 98, *[4.0] * 2])
    both = (lambda: next(ours), lambda: 1.0)
    row = Surplus("more", "less", 1.0, lambda: both, allowance=1.0, quantile=quantile, rounds=100)
    result = row.measure()
    assert (result.ratio, result.best, result.beside_best) == (ratio, 2.0, 1.0)
    assert result.met == (ratio <= 1.0)


def test_without_the_host_its_rows_are_left_out_and_that_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says why; with the host there is none."""
    assert bool(hosting.SKIPPED) != bool(hosting.ROWS)
    for said in ("", "Hermes: not measured."):
        monkeypatch.setattr(hosting, "SKIPPED", said)
        assert run([Memory("light", "", 100, lambda: 50.0)], json=False) == 0
        shown = capsys.readouterr().out
        assert ("Hermes: not measured.\n" in shown) == bool(said)


def test_every_row_has_a_name_of_its_own() -> None:
    """No two rows measure the same thing in the same unit under one name, so `--only` and JSON can tell them apart."""
    named = [(row.name, type(row)) for row in ROWS]
    assert len(set(named)) == len(named)
    assert {type(row) for row in ROWS} - {Surplus} == {Times, Calls, Memory}


def test_times_are_shown_in_readable_units() -> None:
    """From nanoseconds to seconds, three digits."""
    table = report.Table(ROWS)
    for seconds, shown in ((2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.56e-6, "4.56 µs"), (7.8e-8, "78 ns")):
        result = Result("made up", "", "s", seconds, seconds, 1.0, 1.0, seconds, 10.0)
        assert shown in table.line(result)


def test_a_slice_does_as_many_operations_as_it_is_told() -> None:
    """`each` calls its function exactly so many times."""
    done: list[int] = []
    assert each(lambda: done.append(1))(17) >= 0.0
    assert len(done) == 17


def test_weighing_finds_what_is_kept() -> None:
    """A megabyte that is kept weighs a megabyte; what is dropped weighs nothing."""
    assert 1_000_000 <= weigh(lambda: bytearray(1_000_000)) < 1_010_000
    assert weigh(lambda: len(bytearray(1_000_000))) < 10_000
