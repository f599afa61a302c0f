"""Running a replay with its tally and its display, from start to end."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter

import trio
from attrs import frozen

from dataspace import Crashed, Facet, open_dataspace
from dataspace._runtime import AsyncDataspace
from dataspace.trace import Recording, Turn, recording

from .errors import Interrupted
from .kinds import Boot
from .lines import Display
from .moments import Moment
from .replay import End, Replay, Settings
from .session import Session
from .signals import interrupted_by, on_ending
from .story import Story, watching

__all__ = ["Outcome", "run"]

_EVERY = 0.05  # seconds between two pictures
_LINGER = 25  # a line at which something happened is paused at so many times as long as any other
_log = logging.getLogger("hermes_dataspace")


@frozen
class Outcome:
    """How a replay went."""

    story: Story
    end: End
    turns: tuple[Turn, ...] = ()


def run(
    session: Session,
    settings: Settings,
    display: Display,
    pace: float = 0.0,
    *,
    traced: bool = False,
    beside: Boot | None = None,
) -> Outcome:
    """Replay a session; `pace` is a pause in seconds after every line.  If `traced`, every turn is kept.

    `beside` is the boot function of one more actor, which is there from before the first line to after the last.  Raises `RunFailed` if it could not begin, and `Interrupted`.
    """
    try:
        work = partial(_replay, session, settings, display, pace, traced=traced, beside=beside)
        return trio.run(_run, work, restrict_keyboard_interrupt_to_checkpoints=True)
    except BaseException as error:
        number = interrupted_by(error)
        if number is None:
            raise
        raise Interrupted(number) from None


async def _run(work: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """Replay until the end or a signal to end, which cancels: raised in the midst of trio it would break more."""
    numbers: list[int] = []
    outcome = None
    token = trio.lowlevel.current_trio_token()

    def cancel(number: int) -> None:
        numbers.append(number)
        token.run_sync_soon(scope.cancel)

    with trio.CancelScope() as scope, on_ending(cancel):
        outcome = await work()
    if numbers or outcome is None:
        raise Interrupted(*numbers)
    return outcome


async def _replay(
    session: Session, settings: Settings, display: Display, pace: float, *, traced: bool, beside: Boot | None
) -> Outcome:
    tally, shown = Story(perf_counter), Story(perf_counter)
    happened = 0

    def show(moments: tuple[Moment, ...]) -> None:
        nonlocal happened
        happened += len(moments)
        display.show(moments)

    async def rest() -> None:
        nonlocal happened
        await trio.sleep(pace * (_LINGER if happened else 1))
        happened = 0

    async with open_dataspace(on_crash=_log_crash) as ds, _record(ds, traced) as record:
        counting = await ds.spawn(watching(tally, lambda _moments: None), name="tally")
        # The display is one more observer: if it fails, it fails alone.
        begin = partial(display.begin, shown, session, settings)
        showing = await ds.spawn(_showing(begin, watching(shown, show), display), name="display")
        others = [] if beside is None else [await ds.spawn(beside, name="beside")]
        end = await Replay(ds, session, settings, rest).run()
        for watcher in (*others, showing, counting):  # that everybody goes home now is no news
            await watcher.stop()
        return Outcome(tally, end, record.take() if record is not None else ())


@asynccontextmanager
async def _record(ds: AsyncDataspace, traced: bool) -> AsyncIterator[Recording | None]:
    if not traced:
        yield None
        return
    start = perf_counter()
    with recording(ds, clock=lambda: perf_counter() - start) as record:
        yield record


def _showing(begin: Callable[[], None], watch: Callable[[Facet], None], display: Display) -> Callable[[Facet], None]:
    """The display's boot function: it is told at once and draws in a task, which takes no time from anybody's work."""

    async def redraw() -> None:
        while True:
            display.refresh()
            await trio.sleep(_EVERY)

    def boot(me: Facet) -> None:
        begin()
        watch(me)
        me.task(redraw)

    return boot


def _log_crash(crash: Crashed, error: BaseException) -> None:
    """The display tells of it; who wants the traceback sets the level of this logger."""
    _log.debug("actor %s crashed: %s", crash.actor, crash.reason, exc_info=error)
