"""Replaying a recorded session through the run loop, with real engines.

    file ──rows, usage──▶ Replay ──events──▶ Loop ──facts──▶ engines, tally, display

The loop owns the context, so it takes offers at once.  A recording has no times: the loop gets no clock, nothing is
held back for the sake of time, and at every crossing the replay waits until the question is decided or has failed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from attrs import evolve, field, frozen

from dataspace import Crashed, where
from engines.facts import (
    Answered,
    Asked,
    Blocked,
    CompactionFailed,
    Compressed,
    GaveUp,
    Serving,
    ShouldCompress,
    SkillLoaded,
)
from engines.loop import Engines, Policy, step
from engines.loop.actor import Loop
from engines.loop.events import MessagesAppended, SessionEnded, SessionStarted, UsageRead
from engines.loop.policy import kind_of
from engines.messages import Messages
from engines.skills import delivered
from engines.transcript import estimate_row, estimate_tokens

from .errors import RunFailed
from .happenings import Happenings
from .kinds import CLOSING, KINDS, Kinds
from .position import Position, Swapped
from .rack import Rack
from .reckon import reckon
from .session import Line, Session
from .swaps import Place, Swap

if TYPE_CHECKING:
    from dataspace._runtime import AsyncDataspace

__all__ = ["End", "Replay", "Settings"]


_TO_CLOSE = 5.0  # seconds in which a snapshot should be on any disk


@frozen
class Settings:
    """How a session is replayed; tokens, and seconds of real time for `patience` (None: what the loop grants).

    `home` is the directory where engines keep what is to outlast the run; None: they keep nothing.
    """

    context_length: int
    threshold: int
    engines: tuple[str, ...] = ("compressor",)
    swaps: tuple[Swap, ...] = ()
    kinds: Kinds = field(default=KINDS, repr=False)
    patience: float | None = None
    home: Path | None = None
    profile: str = "default"


@frozen
class End:
    """What is left at the end of the file; `standing` says why a question stands unanswered, if one does."""

    messages: Messages
    before: int
    after: int
    standing: str | None = None
    unreached: tuple[Swap, ...] = ()
    failed_swaps: tuple[str, ...] = ()


async def _no_rest() -> None:
    await trio.lowlevel.checkpoint()


class Replay:
    """One session on its way through the loop; `rest` is awaited after every line and every swap."""

    def __init__(
        self,
        ds: AsyncDataspace,
        session: Session,
        settings: Settings,
        rest: Callable[[], Awaitable[None]] = _no_rest,
    ) -> None:
        self._session = session
        self._settings = settings
        self._rest = rest
        self._sid = session.name
        self._happenings = Happenings(self._sid)
        kinds = tuple(dict.fromkeys(kind_of(name) for name in settings.engines))
        self._loop = Loop(ds.actor("loop"), Policy(compressors=kinds))
        self._me = ds.actor("replay")
        self._rack = Rack(ds, settings.kinds)
        self._swaps = list(settings.swaps)
        self._failed_swaps: list[str] = []
        self._recorded = 0  # the estimate for the recorded list so far
        self._live = 0  # the one for the live list, as long as `_counted` is its latest compaction
        self._counted: Compressed | None = None
        self._position = Position(0, 0)
        self._shown = self._me.publish(self._position)
        self._loads: list[SkillLoaded] = []  # what an engine said of the latest line
        self._me.observe(SkillLoaded, heard=self._loads.append)
        self._changed = trio.Event()
        for cls in (Asked, Blocked, CompactionFailed, Compressed, Crashed, GaveUp, Serving, ShouldCompress):
            self._me.observe(cls, appeared=self._wake, vanished=self._wake)

    async def run(self) -> End:
        """Replay the whole file; raises `RunFailed` if an engine does not come to serve at the start."""
        settings = self._settings
        for name in settings.engines:
            await self._rack.change(None, name)
        self._loop.feed(
            SessionStarted(
                self._sid,
                context_length=settings.context_length,
                threshold=settings.threshold,
                profile=settings.profile,
                home=None if settings.home is None else str(settings.home),
            )
        )
        for message, line in enumerate(self._session.lines, 1):
            await self._do_swaps(Place(line.number))
            self._move(evolve(self._position, line=line.number, message=message, role=line.role))
            if line.role == "assistant":
                await self._respond(line)
            self._loads.clear()
            self._tell(self._happenings.of(line))
            rows = Messages.of([delivered(line.row, self._loads)])
            self._loop.feed(MessagesAppended(self._sid, rows))
            self._recorded += estimate_row(line.row)
            self._live += estimate_row(rows[0])
            await self._rest()
        self._tell(self._happenings.end())
        end = self._end()
        self._loop.feed(SessionEnded(self._sid, reason="session_end"))
        if any(kind_of(fact.engine) == "snapshotter" for fact in self._me.facts(Serving)):
            with trio.move_on_after(_TO_CLOSE):
                await CLOSING.closed(self._sid)
        return end

    def _tell(self, messages: Iterable[object]) -> None:
        for message in messages:
            self._me.send(message)

    # -- one line -----------------------------------------------------------------------------------------------------

    def _move(self, position: Position) -> None:
        self._position = position
        self._shown = self._me.replace(self._shown, position)

    async def _respond(self, line: Line) -> None:
        """The model has answered: what it was sent is read, and if that was too much, somebody compacts."""
        state = self._loop.state(self._sid)
        if state.compressed is not self._counted:
            self._counted, self._live = state.compressed, estimate_tokens(state.messages)
        usage, scale = reckon(line.usage, self._recorded, self._live)
        self._move(evolve(self._position, scale=scale))
        reading = UsageRead(self._sid, usage)
        after, _ = step(state, reading, Engines(), self._loop.policy)
        if after.asks > state.asks:
            await self._do_swaps(Place(after.asks, crossing=True))
        self._loop.feed(reading)
        await self._settled()

    def _end(self) -> End:
        state = self._loop.state(self._sid)
        scale = self._position.scale
        standing = None
        if state.question is not None:
            standing = "nobody was asked" if state.failed is None else state.failed.reason
            standing = f"crossing {state.question.fact.ask} stands unanswered: {standing}"
        return End(
            messages=state.messages,
            before=scale.of(self._recorded),
            after=scale.of(estimate_tokens(state.messages)),
            standing=standing,
            unreached=tuple(self._swaps),
            failed_swaps=tuple(self._failed_swaps),
        )

    # -- waiting for a decision ---------------------------------------------------------------------------------------

    def _wake(self, *_fact: object) -> None:
        self._changed.set()

    async def _settled(self) -> None:
        """Return once no question stands, or one that nobody is going to answer now."""
        while not self._decided():
            self._changed = trio.Event()
            with trio.move_on_after(self._patience()) as bound:
                await self._changed.wait()
            if bound.cancelled_caught:
                self._lose_patience()

    def _decided(self) -> bool:
        question = self._loop.state(self._sid).question
        return question is None or (question.idle and not self._rack.restarting())

    def _patience(self) -> float:
        if self._settings.patience is not None:
            return self._settings.patience
        question = self._loop.state(self._sid).question
        if question is None or question.work is None:
            return self._loop.policy.deadline
        asked = question.work.fact
        serving = self._me.facts(where(Serving, engine=asked.to, role=asked.role))
        return self._loop.policy.patience(asked.to, asked.role, serving[0].seconds if serving else None)

    def _lose_patience(self) -> None:
        """Nothing has moved for as long as an engine may take: it is passed over, as its own error would have it."""
        question = self._loop.state(self._sid).question
        if question is not None and question.work is not None:
            asked = question.work.fact
            error = f"no answer within {self._patience():g} s"
            self._me.send(Answered(asked.sid, asked.ask, asked.n, asked.to, error=error))
            return
        for name in self._rack.restarting():
            self._rack.drop(name)

    # -- engines ------------------------------------------------------------------------------------------------------

    async def _do_swaps(self, place: Place) -> None:
        """Do the swaps whose place has come, in the order in which they were given."""
        now = [one for one in self._swaps if one.place.crossing == place.crossing and one.place.number <= place.number]
        self._swaps = [one for one in self._swaps if one not in now]
        for one in now:
            await self._swap(one)

    async def _swap(self, one: Swap) -> None:
        self._me.send(Swapped(str(one.place), one.old, one.new, self._note(one)))
        try:
            await self._rack.change(one.old, one.new)
        except RunFailed as error:
            self._failed_swaps.append(f"--swap {one}: {error}")
            self._me.send(Swapped(str(one.place), one.old, one.new, str(error)))
        await self._settled()
        await self._rest()

    def _note(self, one: Swap) -> str | None:
        """What of the swap is so already."""
        notes = []
        if one.new in self._rack:
            notes.append(f"{one.new} is plugged already")
        if one.old is not None and one.old not in self._rack:
            notes.append(f"{one.old} is not plugged")
        return ", ".join(notes) or None
