"""Exploring: every schedule of a scenario, or many drawn ones, and the replay of one."""

from __future__ import annotations

from collections.abc import Sequence

from ._report import Failure, Report
from ._scenario import Run, Scenario, ScheduleError
from ._search import EndlessError, Found, Search, SpentError, start

__all__ = ["explore", "replay", "sample"]


def explore(
    scenario: Scenario,
    *,
    hashing: bool = True,
    most_runs: int = 100_000,
    beyond: int = 1_000,
    seed: int = 0,
    longest: int = 1_000,
) -> Report:
    """Run `scenario(run)` under every order in which actors may handle what they are told and outside steps may fall.

    The search is exhaustive up to `most_runs` runs of the scenario; where that is not enough, `beyond` schedules drawn
    by `seed` follow.  With `hashing` a state met before is not entered again; the scenario then has to tell what its
    actors remember (`Run.remembers`), for what is not told is not told apart.  A schedule of more than `longest` steps
    is a failure.
    """
    search = _search(scenario, hashing, longest)
    try:
        return _report(search, search.exhaust(most_runs), exhaustive=True)
    except SpentError:
        return _draw(search, beyond, seed)
    except Found as found:
        return _failed(search, found, search.runs)


def sample(scenario: Scenario, schedules: int, *, seed: int = 0, hashing: bool = False, longest: int = 1_000) -> Report:
    """Run `scenario(run)` under so many schedules drawn by `seed`.  With `hashing` the states met are counted."""
    return _draw(_search(scenario, hashing, longest), schedules, seed)


def replay(scenario: Scenario, schedule: Sequence[str]) -> Run:
    """Run `scenario(run)` under one schedule, as far as it goes; raises what a step or a check raises.

    Raises `ScheduleError` where the schedule says what cannot happen.
    """
    run = start(scenario)
    for i, option in enumerate(schedule):
        options = run.options()
        if option not in options:
            raise ScheduleError(f"step {i + 1} of the schedule is {option!r}, which cannot go next; can: {options}")
        run.take(option)
    return run


def _search(scenario: Scenario, hashing: bool, longest: int) -> Search:
    if hashing:
        scenario(run := Run())
        if not run.told:
            raise ScheduleError(
                "the scenario does not say what its actors remember, so states cannot be told apart: call"
                " run.remembers(...), without arguments if it is nothing, or explore with hashing=False"
            )
    return Search(scenario, hashing=hashing, longest=longest)


def _draw(search: Search, schedules: int, seed: int) -> Report:
    for i in range(schedules):
        try:
            search.draw(f"{seed}/{i}")
        except Found as found:
            return _failed(search, found, i + 1)
    return _report(search, schedules, exhaustive=False)


def _failed(search: Search, found: Found, schedules: int) -> Report:
    schedule, error = _shrink(search.scenario, found)
    return _report(search, schedules, exhaustive=False, failure=Failure(search.scenario, schedule, error))


def _report(search: Search, schedules: int, *, exhaustive: bool, failure: Failure | None = None) -> Report:
    states = 0 if search.states is None else len(search.states)
    return Report(schedules, states, search.runs, search.steps, exhaustive, failure)


def _shrink(scenario: Scenario, found: Found) -> tuple[tuple[str, ...], BaseException]:
    """Leave out the steps that the failure does not need, from the last to the first, until none can go."""
    schedule, error = found.schedule, found.error
    if isinstance(error, EndlessError):
        return schedule, error  # it is the search that sees it, not a run
    tries, i = 0, len(schedule) - 1
    while i >= 0 and tries < _MOST_TRIES:
        tries += 1
        shorter = _fails_alike(scenario, schedule[:i] + schedule[i + 1 :], error)
        if shorter is not None:
            schedule, error = shorter
            i = len(schedule)
        i = min(i, len(schedule)) - 1
    return schedule, error


_MOST_TRIES = 1_000


def _fails_alike(
    scenario: Scenario, schedule: tuple[str, ...], error: BaseException
) -> tuple[tuple[str, ...], BaseException] | None:
    """What of `schedule` can happen, up to the same failure; None if it does not come to that."""
    taken: list[str] = []
    try:
        run = start(scenario)
        for option in schedule:
            if option in run.options():
                taken.append(option)
                run.take(option)
    except Exception as again:  # noqa: BLE001 - the failure we want, or another
        if _place(again) == _place(error):
            return tuple(taken), again
    return None


def _place(error: BaseException) -> tuple[object, ...]:
    """What kind of error it is, and where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (type(error), trace and (trace.tb_frame.f_code.co_filename, trace.tb_lineno))
