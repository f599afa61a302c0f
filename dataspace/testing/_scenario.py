"""A run of a scenario: its dataspace, what falls from outside, what must hold, and one step after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

from .._actions import CALL
from .._crash import Crashed
from .._facet import Facet
from .._pattern import Pattern
from .._tasks import Appeared, Change, Heard, Vanished
from ._inboxes import Inboxes

__all__ = ["Killed", "Run", "Scenario", "ScheduleError"]

OUTSIDE = "@"
"""What a step of an outside script is called in a schedule begins with it; an actor's is just its name."""


class Killed(Exception):
    """The error of an actor that `Run.crash` has crashed."""


class ScheduleError(ValueError):
    """A schedule says what cannot happen, or a scenario is not one that can be explored."""


class _Script:
    def __init__(self, when: Callable[[], bool] | None) -> None:
        self.steps: deque[Callable[[], object]] = deque()
        self.when = when

    def ready(self) -> bool:
        return bool(self.steps) and (self.when is None or self.when())


class Run:
    """What a scenario function is given; one run is one schedule.

    The function makes actors in `ds`, says with `outside` what may happen, and with `always`, `settled` and `finished`
    what must hold.  What it does itself happens in the usual order, before any choice.  It must do the same each time.
    """

    def __init__(self) -> None:
        self.ds = Inboxes(self._crashed)
        self.hidden: list[Callable[[], Any]] = []
        self.omitted: dict[type, frozenset[str]] = {}
        self.scripts: dict[str, _Script] = {}
        self._always: list[Callable[[], object]] = []
        self._settled: list[Callable[[], object]] = []
        self._finished: list[Callable[[], object]] = []
        self._may_crash: set[str] = set()
        self._unexpected: BaseException | None = None
        self._watchers = 0
        self.told = False  # has the scenario said what its actors remember?

    # -- what a scenario says -----------------------------------------------------------------------------------------

    def outside(self, name: str, *steps: Callable[[], object], when: Callable[[], bool] | None = None) -> None:
        """Let these functions be called, each once and in this order, at any time between turns.

        They act through actors made with `ds.actor`, or start actors.  With `when` the next one is only called while
        that is true; one for which it never is again does not happen.  May be called later too, also by an actor: a
        name that is there already gets more steps.
        """
        script = self.scripts.get(name)
        if script is None:
            script = self.scripts[name] = _Script(when)
        elif when is not None:
            script.when = when
        script.steps.extend(steps)

    def watch(self, pattern: Pattern[Any] | type, note: Callable[[Change], object] | None = None) -> list[Change]:
        """A list that fills with what happens, `Appeared`, `Vanished` and `Heard`, as it is committed.

        Watching is no choice, and nobody waits for it.  The list counts as part of the state, for checks may read it.  With
        `note` that is called instead, and the list stays empty: for who needs to remember less.  It may check, too.
        """
        self._watchers += 1
        me = self.ds.prompt(f"watcher {self._watchers}")
        seen: list[Change] = []
        keep = note or seen.append
        captures = isinstance(pattern, Pattern) and bool(pattern.captures)

        def noting(kind: type[Appeared | Vanished | Heard]) -> Callable[..., None]:
            def call(*args: Any) -> None:
                keep(kind(captures=args) if captures else kind(*args))

            return call

        me.observe(pattern, noting(Appeared), noting(Vanished), noting(Heard))
        if note is None:
            self.hidden.append(lambda: seen)
        return seen

    def remembers(self, *parts: Callable[[], Any]) -> None:
        """Say what actors remember beside what the dataspace shows: functions that return values.

        Two states that differ in nothing else are taken for one, so a thing left out may hide a schedule.  Without
        arguments: they remember nothing.
        """
        self.hidden.extend(parts)
        self.told = True

    def leave_out(self, cls: type, *fields: str) -> None:
        """Do not tell states apart by these fields of a class: readings that nobody decides by."""
        self.omitted[cls] = self.omitted.get(cls, frozenset()) | set(fields)

    def always(self, check: Callable[[], object]) -> None:
        """Call `check` after every step; it raises if something is wrong."""
        self._always.append(check)

    def settled(self, check: Callable[[], object]) -> None:
        """Call `check` whenever all inboxes are empty: nothing happens until something falls from outside."""
        self._settled.append(check)

    def finished(self, check: Callable[[], object]) -> None:
        """Call `check` at the end, when nothing can happen any more."""
        self._finished.append(check)

    def may_crash(self, *names: str) -> None:
        """Crashes of these actors are part of the scenario; that of any other is a failure."""
        self._may_crash.update(names)

    def crash(self, me: Facet) -> None:
        """Crash an actor now, as an error in a linked task would; if it has ended, nothing happens."""
        self.may_crash(me.name)
        self.ds._crash(me.actor, Killed(f"{me.name} was crashed by the scenario"), None)

    # -- what the explorer does ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The scenario function has returned: from now on everything is a choice."""
        self.ds.hold()
        self._check()

    def options(self) -> list[str]:
        """Who may go next: actors, then scripts."""
        return [
            *self.ds.waiting(),
            *[OUTSIDE + name for name, script in self.scripts.items() if script.ready()],
        ]

    def describe(self, option: str) -> str:
        """What will happen if `option` goes next, in a line."""
        if option.startswith(OUTSIDE):
            return _said(self.scripts[option[1:]].steps[0])
        letter = self.ds.inbox(option)[0]
        if letter.kind == CALL:
            return f"{CALL} {_said(_asked_for(letter.to.call))}"
        return f"{letter.kind} {', '.join(map(repr, letter.args))}"

    def take(self, option: str, *, check: bool = True) -> None:
        """Let `option` go next; raises what the step or a check raises."""
        if option.startswith(OUTSIDE):
            self.scripts[option[1:]].steps.popleft()()
        else:
            self.ds.read(option)
        if check:
            self._check()

    def _check(self) -> None:
        if self._unexpected is not None:
            raise self._unexpected
        for check in self._always:
            check()
        if self.ds.waiting():
            return
        for check in self._settled:
            check()
        if not self.options():
            for check in self._finished:
                check()

    def _crashed(self, crash: Crashed, error: BaseException) -> None:
        if crash.actor not in self._may_crash and self._unexpected is None:
            self._unexpected = error


def _said(fn: Any) -> str:
    """A function in a few words: its name, without where it was defined, and what it is given."""
    if isinstance(fn, partial):
        return f"{_said(fn.func)}({', '.join(map(repr, fn.args))})"
    name: str = getattr(fn, "__qualname__", type(fn).__qualname__)
    return name.rpartition("<locals>.")[2]


def _asked_for(call: FunctionType) -> Any:
    """The function that `later` or `spawn` was given, out of what the dataspace made of it."""
    inner = dict(zip(call.__code__.co_freevars, call.__closure__ or (), strict=True))
    cell = inner.get("fn") or inner.get("boot")
    return call if cell is None else cell.cell_contents


Scenario = Callable[[Run], object]
