"""The compress call of the host: a question to the engines, and a wait for what becomes of it.

The host's thread publishes the question and waits, in short naps, so that an interrupt gets through.  The list it
handed over is never touched.  What comes back is an offer until the host says that it has taken it over; without one
the host gets its own list back and, unless there simply was nothing to do, hears that the compaction was aborted.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Mapping
from contextvars import copy_context
from typing import Any

from engines.facts import Reason
from engines.loop.events import ContextOpened, ContextReleased, OfferCommitted
from engines.loop.policy import kind_of
from engines.messages import Messages, NotJSONError

from .cell import Cell
from .fields import VERDICT
from .guard import unmarked
from .hooks import watch_requests
from .hosted import Hosted, HostedError, accepted
from .pending import Outcome, Waiter
from .place import Offer
from .plateau import Plateau
from .runtime import Runtime
from .strange import Strange
from .verdicts import Verdicts

__all__ = ["Compressions"]

NAP = 0.1  # seconds
SPARE = 15.0  # seconds that a decision may take beyond what engines are given
FIRST_PAUSE, LAST_PAUSE = 30.0, 900.0  # seconds between automatic tries that fail

log = logging.getLogger(__name__)


class Compressions(Verdicts):
    """Compress, commit, and what is in between."""

    failures = 0
    complaint: tuple[frozenset[str], str] | None = None
    """Whom the latest failure is laid to, and what the user was told; None after a compaction that was taken over."""
    strange: Strange | None = None
    """The list of the call that goes on, if something in it is no JSON."""

    def compress(self, messages: list[dict[str, Any]], told: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The compacted list, or the very list that was given."""
        cell = self.ready()
        hosted = self.in_charge()
        if cell is None:
            if hosted is None:
                return messages
            compress = hosted.front.compress
            done: list[dict[str, Any]] = compress(messages, **accepted(compress, told))
            return done
        waiter = Waiter()
        try:
            self.drop_offer()
            self.told = {}
            before = self._strikes(hosted)
            for each in self.hosted.values():
                if cell.waiter is None:  # otherwise the work of an overlapping call may do for this one too
                    each.put_back()  # of a call that began when nobody waited for it any more
                each.call = dict(told)
            self.strange = None
            outcome = self._decided(cell, waiter, messages, told)
            strange, self.strange = self.strange, None
            manual = bool(told.get("force"))
            rows = self._concluded(cell, outcome, manual)
        except BaseException:
            self._abandoned(cell, waiter)
            raise
        if rows is None and manual and cell is self.cell and self.settings.guard == "repair":
            now = self._strikes(hosted)
            if before is not None and now is not None and now > before:
                self.write("_ineffective_compression_count", before)  # asked for by hand: no strike
        if rows is None:
            return messages
        return rows if strange is None else strange.back(rows)

    def commit(self) -> None:
        """The host has taken over what it was offered."""
        offer, self.offer = self.offer, None
        if offer is None:
            return
        self.manual = offer.manual
        self.failures, self.pause_until, self.complaint = 0, 0.0, None
        if offer.winner is not None:
            offer.winner.commit()
        if self.cell is not None:
            self.cell.happen(OfferCommitted(self.cell.sid))
        if self.aides is not None:
            self.aides.compacted()
            watch_requests(self.aides.wants_requests())  # what a compaction has left is seen in the next one

    def _end(self, reason: str) -> None:
        """The conversation is over, and its failures with it."""
        super()._end(reason)
        self.failures, self.pause_until, self.complaint = 0, 0.0, None
        self.plateau = Plateau()

    # -- the question -------------------------------------------------------------------------------------------------

    def _decided(self, cell: Cell, waiter: Waiter, messages: list[dict[str, Any]], told: Mapping[str, Any]) -> Outcome:
        """What the engines say, whatever happens meanwhile."""
        try:
            frozen = Messages.of(messages)
        except NotJSONError as error:
            log.debug("%s; the engines are told in words", error)
            try:
                self.strange = Strange(messages)
            except NotJSONError:
                return Outcome(reason=f"{error}")
            frozen = self.strange.messages
        runtime = self.runtime
        if runtime is None:
            return self._direct(messages if self.strange is None else frozen.thaw())
        tokens, focus = told.get("current_tokens"), told.get("focus_topic")
        event = ContextOpened(
            cell.sid,
            frozen,
            reason=self._reason(told),
            focus=focus if isinstance(focus, str) and focus else None,
            tokens=tokens if type(tokens) is int and tokens > 0 else None,
            context=copy_context(),
        )
        hosted = self.in_charge()
        cell.wait_for(waiter)
        try:
            if hosted is not None:
                hosted.exchange.prepare(frozen, messages if self.strange is None else None)
            if not cell.at_hand():
                runtime.at_once(lambda desk: desk.open(cell, waiter, event))
            elif cell.put(waiter, event):
                runtime.at_leisure(lambda desk: desk.draw(cell))
            else:
                runtime.at_once(lambda desk: desk.draw(cell))
            return self._wait(waiter, runtime)
        finally:
            if cell.waiter is waiter:
                cell.wait_for(None)

    def _wait(self, waiter: Waiter, runtime: Runtime) -> Outcome:
        bound = time.monotonic() + self.settings.deadline * max(1, len(self.kinds)) + SPARE
        while not waiter.wait(NAP):
            if not runtime.alive:
                return waiter.outcome or Outcome(reason="the dataspace's thread has ended")
            if time.monotonic() > bound:
                return Outcome(reason="there was no decision in time")
        assert waiter.outcome is not None
        return waiter.outcome

    def _reason(self, told: Mapping[str, Any]) -> Reason:
        """The host does not say that it is in trouble; but who is not told to compact and does, is."""
        if told.get("force"):
            return "manual"
        return "threshold" if self.wanted else "overflow"

    def _abandoned(self, cell: Cell, waiter: Waiter) -> None:
        """An interrupt of this thread, at whatever moment: nobody waits any more, and nothing of the call remains."""
        with cell.lock:
            if cell.waiter is not None and cell.waiter is not waiter:
                return  # the question is another call's by now
            cell.wait_for(None)
        self.drop_offer()
        self._release(cell)
        for each in self.hosted.values():
            each.put_back()

    def _release(self, cell: Cell) -> None:
        cell.happen(ContextReleased(cell.sid))

    # -- the outcome --------------------------------------------------------------------------------------------------

    def _concluded(self, cell: Cell, outcome: Outcome, manual: bool) -> list[dict[str, Any]] | None:
        if outcome.superseded:
            return None
        if self.cell is not cell:
            self._too_late(cell)
            return None
        winner = self.hosted.get(kind_of(outcome.by)) if outcome.messages is not None else None
        for hosted in self.hosted.values():
            if hosted is winner:
                hosted.take_over()
            elif hosted.declined:  # what it noted down about that is its own affair
                hosted.take_over()
                hosted.commit()
            else:
                hosted.put_back()
        if outcome.messages is None:
            self._release(cell)
            self._failed(cell, outcome, manual)
            return None
        if winner is None:
            self.count(1)
        else:
            self.own.values["compression_count"] = winner.get("compression_count", 0)
        self.offer = Offer(outcome.by, winner, manual)
        if winner is None or winner is not self.in_charge():
            self.own.verdict(_last_compression_made_progress=True)
            self._show_verdict()
        as_it_is = winner is not None and self.settings.guard == "record"
        rows = outcome.messages if as_it_is else unmarked(outcome.messages)
        return rows.thaw() if winner is None else winner.exchange.thaw(rows)

    def _too_late(self, cell: Cell) -> None:
        """The session was over before the call was: nothing of it is to be found in the next one, no verdict either."""
        for hosted in self.hosted.values():
            hosted.put_back()
        self._release(cell)

    def _failed(self, cell: Cell, outcome: Outcome, manual: bool) -> None:
        if outcome.declined:
            if self.in_charge() is None:
                self.own.verdict()
            return
        self.failures += 1
        self.pause_until = time.monotonic() + min(FIRST_PAUSE * 2.0 ** min(self.failures - 1, 10), LAST_PAUSE)
        reason = self._complaint(cell, outcome.reason, manual)
        self.own.verdict(_last_compress_aborted=True, _last_summary_error=reason)
        self._show_verdict()

    def _complaint(self, cell: Cell, reason: str, manual: bool) -> str:
        """What the user is told: the host shows a text once, so the same engines failing on and on are one text.

        Who asks by hand hears what it was this time.
        """
        names = cell.names.values()
        blamed = frozenset([name for name in names if name in reason] or names)
        if manual or self.complaint is None or self.complaint[0] != blamed:
            self.complaint = (blamed, reason)
        else:
            log.info("compaction failed again: %s", reason)
        return self.complaint[1]

    def _show_verdict(self) -> None:
        """The host sees this, and not what the engine in charge has left behind of its own try."""
        self.told = {name: self.own.values[name] for name in VERDICT}

    def _strikes(self, hosted: Hosted | None) -> int | None:
        count = None if hosted is None else hosted.get("_ineffective_compression_count")
        return count if type(count) is int else None

    # -- without the dataspace ----------------------------------------------------------------------------------------

    def _direct(self, messages: list[dict[str, Any]]) -> Outcome:
        """Call a hosted engine on this thread, where there is no dataspace."""
        hosted = self.in_charge() or next(iter(self.hosted.values()), None)
        if hosted is None:
            return Outcome(reason="there is no engine that could be called directly")
        try:
            rows = hosted.compress_in_time(copy.deepcopy(messages), self.settings.deadline)
        except HostedError as error:
            return Outcome(reason=f"{hosted.kind} failed: {type(error).__name__}: {error}")
        if hosted.aborted or rows == messages:
            hosted.declined = True
            return Outcome(reason=f"{hosted.kind} declined", declined=True)
        try:
            verdict = self.judge(hosted)(Messages.of(rows), Messages.of(messages))
        except NotJSONError as error:
            return Outcome(reason=f"what {hosted.kind} gave cannot be judged: {error}")
        if verdict.messages is None:
            return Outcome(reason=f"{hosted.kind} gave an answer that was refused: {verdict.reason}")
        return Outcome(verdict.messages, hosted.kind)
