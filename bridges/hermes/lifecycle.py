"""Sessions of one agent, as the host tells of them.

An end is provisional: the host says one at every compaction, and at the end of an agent that borrows another's id.
What comes next decides.  A start after a compaction goes on with the conversation, under the same or another id; a
reset, a start of something else, the hook for the real end, or the end of the agent itself ends it.
"""

from __future__ import annotations

import logging
from typing import Any

from engines.loop.events import ContextReleased, SessionDescribed, SessionEnded, SessionRotated, TranscriptReplaced

from .hidden import remember
from .place import Place
from .turns import delegator

__all__ = ["END", "RESET", "Sessions"]

RESET, END = "session_reset", "session_end"
"""Why a conversation is over: its user has begun another one, or nobody goes on with it."""
_BEGUN_ANEW = {"new_session", "session_boundary"}  # the host's words for the former

log = logging.getLogger(__name__)


class Sessions(Place):
    """Beginnings, ends, boundaries and models."""

    ending = False
    final = ""  # the host has said that it is over for good, and why; its end is yet to be told
    turn: str | None = None
    session_db: Any = None  # the host's store, for engines that come later

    def update_model(self, told: dict[str, Any]) -> None:
        """Another model, or the first one."""
        self.told = {}
        remember(told.get("api_key"))
        if self.made:
            self.own.update_model(told)
            for hosted in self.hosted.values():
                hosted.lifecycle("update_model", **told)
                if self.own.set_by_host and self.settings.guard == "repair" and not self.alone:
                    # The host has lowered the share for its summary model, and will not do it again.
                    for name in ("threshold_percent", "threshold_tokens"):
                        hosted.set(name, self.own.values[name])
        else:
            self.make(told)
        model = told.get("model")
        self.publish_budget(model if isinstance(model, str) else None)
        provider = told.get("provider")
        if isinstance(provider, str) and provider:
            self.session["provider"] = provider
            if self.cell is not None and provider != self.cell.state.session.provider:
                self.cell.happen(SessionDescribed(self.cell.sid, provider=provider))

    def bind(self, session_db: Any, session_id: str) -> None:
        """The host binds this engine to a session; after a reset this is all that names the new one."""
        if not self.made:
            self.make({})
        self.session_db = session_db
        for hosted in self.hosted.values():
            hosted.lifecycle("bind_session_state", session_db, session_id)
        self.own.values["_session_id"] = session_id
        if session_id:
            self._named(session_id)

    def started(self, session_id: str, told: dict[str, Any]) -> None:
        """A session begins, or goes on after a compaction."""
        if not self.made:
            self.make({})
        boundary = told.get("boundary_reason") == "compression"
        other = not boundary and self.cell is not None and self.host_id and session_id not in {"", self.host_id}
        for hosted in self.hosted.values():
            if other:
                hosted.forsake()
            hosted.lifecycle("on_session_start", session_id, **told)
        self.own.values["_session_id"] = session_id
        if told.get("hermes_home"):
            self.session["home"] = str(told["hermes_home"])
        self.session.update({name: told[name] for name in ("platform", "model") if told.get(name)})
        if other:
            self.drop_offer()  # something else begins, without a reset: what was reckoned for the old one counts no more
            self.own.reset()
            self.told = {}
            self._end(RESET)
        self.ending, self.final = False, ""
        if self.cell is None:
            self._note_parent()
        if session_id:
            self._named(session_id)
        self.begun()

    def ended(self, session_id: str, messages: Any) -> None:
        """The host says that a session ends, perhaps another one than ours."""
        for hosted in self.hosted.values():
            hosted.lifecycle("on_session_end", session_id, messages)
        if not session_id:
            return
        self.ending = True
        if session_id == self.host_id:
            self._publish(messages)
            if self.final:
                self._end(self.final)

    def reset(self) -> None:
        """The user begins anew; what the new session is called is told later, or never."""
        for hosted in self.hosted.values():
            hosted.forsake()
            hosted.lifecycle("on_session_reset")
        self.drop_offer()
        self.own.reset()
        self.told = {}
        self._end(RESET)

    def carried_over(self, old: str, new: str) -> None:
        """The user takes something along into a new session."""
        for hosted in self.hosted.values():
            hosted.lifecycle("carry_over_new_session_context", old, new)

    def finalized(self, session_id: str, reason: str = "") -> None:
        """The session is over for good, if it is ours: now if its end has been told, otherwise as soon as it is."""
        if session_id != self.host_id:
            return
        self.final = RESET if reason in _BEGUN_ANEW else END
        if self.ending:
            self._end(self.final)

    def stopped(self, session_id: str) -> None:
        """The agent of this session is over."""
        if session_id == self.host_id:
            self._end(END)

    def leave(self) -> None:
        """The process ends, and what goes on in it is over."""
        if self.cell is not None:
            self._end(self.final or END)

    def gone(self) -> None:
        """The agent's engine does not exist any more."""
        cell, runtime = self.cell, self.runtime
        self.cell = None
        self._dismiss(END)
        if cell is not None and runtime is not None:
            runtime.soon(lambda desk: desk.finish(cell, END))

    def drop_offer(self) -> None:
        """The host goes on without having taken over what it was offered."""
        offer, self.offer = self.offer, None
        if offer is None:
            return
        if self.cell is not None:
            self.cell.happen(ContextReleased(self.cell.sid))
        if offer.winner is None:
            self.count(-1)
        elif self.settings.guard == "record":
            offer.winner.commit()  # by itself it would not hear of it, and go on as if the host had taken it
        else:
            offer.winner.put_back()
        self.told = {}

    def count(self, by: int) -> None:
        """Count a compaction for the host to see, or take it back."""
        name = "compression_count"
        self.own.values[name] += by
        for hosted in self.hosted.values():
            known = hosted.get(name)
            if type(known) is int:
                hosted.set(name, known + by)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _named(self, session_id: str) -> None:
        """The host's id is this one now; whatever it is, as a text."""
        session_id = str(session_id)
        if session_id == self.host_id:
            return
        self.host_id = session_id
        if self.cell is not None:
            self.cell.happen(SessionRotated(self.cell.sid, session_id))
        if self.aides is not None:
            self.aides.rotated(session_id)

    def _note_parent(self) -> None:
        """The conversation that delegates to the one that is about to begin, if one does."""
        parent = delegator()
        if parent is not None and parent is not self and parent.cell is not None:
            self.session["parent"] = parent.cell.sid

    def _publish(self, messages: Any) -> None:
        """The messages of a session that ends; at a compaction they are those that it was offered for, and known."""
        if self.offer is not None or self.cell is None or not messages:
            return
        try:
            self.cell.happen(TranscriptReplaced(self.cell.sid, messages))
        except Exception as error:  # noqa: BLE001 - whatever is in them, the session ends all the same
            log.debug("the messages of a session that ends cannot be published: %r", error)

    def _dismiss(self, reason: str) -> None:
        aides, self.aides = self.aides, None
        if aides is not None:
            aides.ended(reason)

    def _end(self, reason: str) -> None:
        cell, self.cell = self.cell, None
        self.runtime = None
        self.host_id = ""
        self.ending, self.final = False, ""
        self.session.pop("parent", None)
        for hosted in self.hosted.values():
            hosted.forsake()
        self._dismiss(reason)  # while they may still say something
        if cell is not None:
            cell.happen(SessionEnded(cell.sid, reason))
