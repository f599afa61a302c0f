"""One session with several sets of engines: what each makes of it, side by side, and whether two make the same of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import attrs
from attrs import frozen

from dataspace import Facet
from engines import facts as f
from engines.messages import Messages
from engines.recall import Figures, figures

from .errors import RunFailed
from .lines import Silence
from .position import Position
from .replay import Settings
from .result import problems, result_of
from .running import run
from .session import Session

__all__ = ["HEADS", "Comparison", "Difference", "Trial", "compare", "rows_of", "summary_of", "try_out", "unreached"]

_WORTH = 300  # tokens below which there is nothing that a compaction could make smaller


@frozen
class Trial:
    """How a session went with one set of engines; `result` is what `replay --json` prints.

    One that could not begin has neither `result` nor `kept`, and `problems` says why.
    """

    engines: tuple[str, ...]
    result: Mapping[str, Any] | None
    kept: Figures | None
    problems: tuple[str, ...]

    @property
    def saved(self) -> int:
        """Tokens that the compactions took out of the context, all together."""
        return sum(done["tokens_before"] - done["tokens_after"] for done in self._results)

    @property
    def seconds(self) -> float:
        """Real time that was waited for compactions."""
        return float(sum(done["seconds"] for done in self._results))

    @property
    def _results(self) -> Sequence[Mapping[str, Any]]:
        return () if self.result is None else self.result["results"]


def try_out(session: Session, settings: Settings) -> Trial:
    """Replay a session with these settings; one that cannot begin is a trial with a problem.  Raises `Interrupted`."""
    try:
        outcome = run(session, settings, Silence())
    except RunFailed as error:
        return Trial(settings.engines, None, None, (str(error),))
    return Trial(
        settings.engines,
        result_of(session, outcome.story, outcome.end),
        figures(session.messages, outcome.end.messages),
        problems(outcome.end),
    )


def summary_of(trial: Trial) -> Mapping[str, Any]:
    """A trial as one JSON object."""
    return {
        "engines": list(trial.engines),
        "result": trial.result,
        "saved": trial.saved,
        "seconds": round(trial.seconds, 4),
        "kept": None if trial.kept is None else attrs.asdict(trial.kept),
        "problems": list(trial.problems),
    }


# -- two sides --------------------------------------------------------------------------------------------------------

Step = tuple[int, str, tuple[tuple[str, Any], ...]]
"""A line of the file, what happened there, and its particulars."""

LOOP = (f.Session, f.Budget, f.Usage, f.Transcript, f.ShouldCompress, f.Compressed, f.CompactionFailed, f.Blocked)
"""What a user of the loop can see; who was asked on the way, and how long it took, is left out."""

APART = frozenset({"by", "seconds", "retry_at", "until", "rev", "home"})


@frozen
class Difference:
    """The first step at which two sides part; None: that side has ended."""

    step: int
    left: Step | None
    right: Step | None

    def __str__(self) -> str:
        sides = [f"{name}: {'nothing more' if step is None else _told(step)}" for name, step in self._sides()]
        return f"step {self.step}: " + "; ".join(sides) + self._where()

    def _sides(self) -> list[tuple[str, Step | None]]:
        return [("left", self.left), ("right", self.right)]

    def _where(self) -> str:
        if self.left is None or self.right is None:
            return ""
        left, right = dict(self.left[2]), dict(self.right[2])
        apart = [name for name in left if name in right and left[name] != right[name]]
        if "messages" not in apart:
            return f" (different: {', '.join(apart)})" if apart else ""
        pairs = enumerate(zip_longest(left["messages"] or (), right["messages"] or ()), 1)
        return f" (message {next(n for n, (a, b) in pairs if a != b)} is the first that differs)"


@frozen
class Comparison:
    """How many steps were `same`, and where the two sides part, if they do.

    `crossings` of the side that had more of them, `peak` the highest pressure that either met.
    """

    same: int
    difference: Difference | None
    crossings: int
    peak: int


def compare(session: Session, left: Settings, right: Settings) -> Comparison:
    """Replay a session twice.  Raises `RunFailed` if a side could not begin, and `Interrupted`."""
    steps: list[list[Step]] = []
    crossings = peak = 0
    for settings in (left, right):
        steps.append([])
        story = run(session, settings, Silence(), beside=_recording(steps[-1])).story
        crossings, peak = max(crossings, story.count("crossing")), max(peak, story.peak)
    for at, (one, other) in enumerate(zip_longest(*steps), 1):
        if one != other:
            return Comparison(at - 1, Difference(at, one, other), crossings, peak)
    return Comparison(len(steps[0]), None, crossings, peak)


def unreached(crossings: int, threshold: int, peak: int) -> str | None:
    """What to say where nothing was compacted because the context never grew so far; None: it did."""
    if crossings:
        return None
    if peak < _WORTH:
        return (
            f"0 crossings: nothing was compacted, for the context came to {peak:,} tokens only; take a longer session"
        )
    step = 10 ** (len(str(peak)) - 2)
    return (
        f"0 crossings: nothing was compacted, for the context came to {peak:,} tokens of the threshold of {threshold:,}; try"
        f" --threshold {peak * 2 // 3 // step * step}"
    )


def _recording(steps: list[Step]) -> Callable[[Facet], None]:
    def boot(me: Facet) -> None:
        line = 0

        def moved(position: Position) -> None:
            nonlocal line
            line = position.line

        def on(change: str) -> Callable[[Any], None]:
            return lambda fact: steps.append((line, f"{type(fact).__name__} {change}", _particulars(fact)))

        me.observe(Position, appeared=moved)
        for cls in LOOP:
            me.observe(cls, appeared=on("appears"), vanished=on("vanishes"))
        me.observe(f.Refused, heard=on("is heard"))

    return boot


def _particulars(fact: Any) -> tuple[tuple[str, Any], ...]:
    names = (field.name for field in attrs.fields(type(fact)) if field.name not in APART)
    return tuple((name, getattr(fact, name)) for name in names)


def _told(step: Step) -> str:
    line, what, particulars = step
    told = [
        f"{name}={f'{len(value)} messages' if isinstance(value, Messages) else value!r}"
        for name, value in particulars
        if isinstance(value, Messages) or value not in (None, "", False)
    ]
    return f"line {line}, {what} ({', '.join(told)})"


def rows_of(trials: Sequence[Trial]) -> list[tuple[str, ...]]:
    """What a table shows of each trial, in the order of `HEADS`."""
    return [(", ".join(trial.engines), *_cells(trial)) for trial in trials]


def _cells(trial: Trial) -> tuple[str, ...]:
    if trial.result is None or trial.kept is None:
        return ("-",) * (len(HEADS) - 1)
    return (
        str(trial.result["compactions"]),
        str(trial.result["refused"]),
        str(trial.result["failed"]),
        f"{trial.saved:,}",
        f"{trial.result['tokens']['after']:,}",
        f"{trial.seconds:.3f}",
        f"{trial.kept.recall:.0%}",
        f"{trial.kept.requests_found}/{trial.kept.requests}",
    )


HEADS = ("engines", "done", "refused", "failed", "saved", "left", "seconds", "recall", "requests")
