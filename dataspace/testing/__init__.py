"""For tests of actors: pages that say turns in and events out, and every order in which things may happen.

    assert PAGE == play(PAGE, (Ping, Pong))            turns in, events out, on one page
    explore(scenario).check()                          every schedule of a scenario, with its checks after every step
    replay(scenario, ["@host", "loop"])                one schedule, as a failure gives it back

`dataspace.testing.strategies` has hypothesis strategies for facts and patterns; it is imported by itself, since it needs
hypothesis.
"""

from ._explore import explore, replay, sample
from ._page import PageError, play
from ._report import Failure, Report, ScheduleFailed
from ._scenario import Killed, Run, Scenario, ScheduleError
from ._search import EndlessError

__all__ = [
    "EndlessError",
    "Failure",
    "Killed",
    "PageError",
    "Report",
    "Run",
    "Scenario",
    "ScheduleError",
    "ScheduleFailed",
    "explore",
    "play",
    "replay",
    "sample",
]
