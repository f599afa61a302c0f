"""The search through the schedules of a scenario: depth first, from the beginning again for every branch.

A run cannot be copied, so a branch is entered by running the scenario anew up to it: scenarios are deterministic and
turns are quick.  Where states are told apart, one that is met again is not entered again, and how many schedules lead
on from it is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ._scenario import Run, Scenario, ScheduleError
from ._states import States

__all__ = ["EndlessError", "Found", "Search", "SpentError", "start"]


class EndlessError(AssertionError):
    """A schedule need not end: the scenario comes back to a state it has been in, or is longer than was allowed."""


class SpentError(Exception):
    """The search took more runs than it was given."""


class Found(Exception):
    """The search ends here: `schedule` fails with `error`."""

    def __init__(self, schedule: Sequence[str], error: BaseException) -> None:
        super().__init__(schedule, error)
        self.schedule = tuple(schedule)
        self.error = error


def start(scenario: Scenario) -> Run:
    """A new run of a scenario, up to its first choice; raises what a check raises."""
    run = Run()
    scenario(run)
    run.begin()
    return run


class _Fork:
    """A state on the way to where the search is: what may happen in it, and how much of that has been seen."""

    __slots__ = ("covered", "options", "seen", "state")

    def __init__(self, state: int | None, options: list[str], covered: int) -> None:
        self.state = state
        self.options = options
        self.seen = 0
        self.covered = covered  # how many schedules lead on from here through what has been seen


class Search:
    """One search, and what it has cost so far.  Every failure ends it with `Found`."""

    def __init__(self, scenario: Scenario, *, hashing: bool, longest: int) -> None:
        self.scenario = scenario
        self.states = States() if hashing else None
        self.longest = longest
        self.runs = self.steps = 0
        self._known: dict[int, int | None] = {}  # how many schedules lead on from a state; None: we are in one of them

    def exhaust(self, most_runs: int) -> int:
        """Try every schedule; how many there are.  Raises `SpentError` when that takes more than `most_runs` runs."""
        schedule: list[str] = []
        begun = self._start()
        path = [self._arrive(begun, schedule)]
        run: Run | None = begun
        while True:
            fork = path[-1]
            if fork.seen < len(fork.options):
                run = run or self._again(schedule, fork, most_runs)
                schedule.append(fork.options[fork.seen])
                fork.seen += 1
                self._take(run, schedule)
                path.append(self._arrive(run, schedule))
                continue
            run = None
            path.pop()
            if fork.state is not None:
                self._known[fork.state] = fork.covered
            if not path:
                return fork.covered
            path[-1].covered += fork.covered
            schedule.pop()

    def draw(self, seed: object) -> None:
        """Try one schedule, drawn by `seed`."""
        draw = Random(str(seed)).random  # noqa: S311 - a schedule is no secret; a text seeds alike everywhere
        schedule: list[str] = []
        run = self._start()
        while True:
            if self.states is not None:
                self.states.number(run)
            options = run.options()
            if not options:
                return
            schedule.append(options[int(draw() * len(options))])
            self._take(run, schedule)
            self._check_length(schedule)

    def _start(self) -> Run:
        self.runs += 1
        try:
            return start(self.scenario)
        except Exception as error:
            raise Found((), error) from error

    def _again(self, schedule: list[str], fork: _Fork, most_runs: int) -> Run:
        if self.runs >= most_runs:
            raise SpentError
        run = self._start()
        for option in schedule:
            run.take(option, check=False)
        if run.options() != fork.options:
            raise ScheduleError(
                f"the scenario is not deterministic: after {schedule} it went on with {fork.options} once and with"
                f" {run.options()} another time"
            )
        return run

    def _take(self, run: Run, schedule: list[str]) -> None:
        self.steps += 1
        try:
            run.take(schedule[-1])
        except Exception as error:
            raise Found(schedule, error) from error

    def _arrive(self, run: Run, schedule: list[str]) -> _Fork:
        self._check_length(schedule)
        state = None
        if self.states is not None:
            state = self.states.number(run)
            if state in self._known:
                covered = self._known[state]
                if covered is None:
                    raise Found(
                        schedule, EndlessError("the scenario is back in a state it has been in: it need not end")
                    )
                return _Fork(state, [], covered)
            self._known[state] = None
        options = run.options()
        return _Fork(state, options, 0 if options else 1)

    def _check_length(self, schedule: list[str]) -> None:
        if len(schedule) > self.longest:
            raise Found(schedule, EndlessError(f"a schedule has more than {self.longest} steps"))
