"""One side of the host pair: an engine, called as the host calls it; the messages and the sessions are the host's.

What a step did is in `report`.  The two sides differ in the engine and in nothing else: hooks are told on both, and
only the adapter has registered for any.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from attrs import define, field

from bridges.hermes.fields import FIELDS
from tests.bisim.hermes_summary import Store, SummaryModel

__all__ = ["Report", "Rows", "Side"]

Rows = list[dict[str, Any]]


@define
class Report:
    """What a step did: what was raised, and the compress call if there was one.

    `done` is what the engine gave, `taken` whether the host has taken it over; `wrote` is the summary in it, and
    `useless` says of what kind one is that says nothing; `count` and `strikes` are the counters from before the call.
    """

    raised: list[str] = field(factory=list)
    before: Rows | None = None
    done: Rows | None = None
    changed: bool = False
    taken: bool = False
    aborted: bool = False
    made: bool = False
    fallback: bool = False
    manual: bool = False
    dropped: bool = False
    late: bool = False
    wrote: str = ""
    useless: str = ""
    count: int = 0
    strikes: int = 0
    misread: bool = False
    forgets: bool = False
    plateau: bool = False
    threshold: int = 0


class Side:
    """An engine, and the host around it."""

    def __init__(self, engine: Any, model: SummaryModel, store: Store | None, *, in_place: bool) -> None:
        self.engine = engine
        self.model = model
        self.store = store
        self.in_place = in_place
        self.hooks: dict[str, Callable[..., object]] = {}
        self.after_compress: Callable[[], object] = lambda: None
        self.rows: Rows = []
        self.session = "s0"
        self.sessions = 0
        self.conversations = 0
        self.bound = True
        self.known: dict[int, str] = {}
        """What stands for each conversation behind the engine, by the conversation's number."""
        self.share = 0.0
        """The share of the window that the host has set by hand; 0: it has not."""
        self.readings: list[int] = []
        self.turn = ""
        self.turns = 0
        self.report = Report()

    def call(self, name: str, *args: Any, otherwise: Any = None, **kwargs: Any) -> Any:
        """Call the engine; what it raises is noted."""
        try:
            return getattr(self.engine, name)(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever the built-in raises is what this is about
            self.report.raised.append(f"{name}: {type(error).__name__}")
            return otherwise

    def hook(self, name: str, **told: Any) -> None:
        """The host tells whoever has registered."""
        if name in self.hooks:
            self.hooks[name](**told)

    # -- the conversation ---------------------------------------------------------------------------------------------

    def append(self, rows: Rows) -> None:
        """It goes on."""
        self.rows.extend(copy.deepcopy(rows))

    def next_turn(self) -> None:
        """One turn ends, with its hook, and another begins."""
        if self.turn:
            self.hook("on_session_end", session_id=self.session, turn_id=self.turn, completed=True, interrupted=False)
        self.turns += 1
        self.turn = f"t{self.turns}"
        self.hook("pre_llm_call", session_id=self.session, turn_id=self.turn)
        self.call("get_active_compression_failure_cooldown")

    def usage(self, report: dict[str, Any]) -> None:
        """A response, with what its provider reports."""
        prompt = report.get("prompt_tokens")
        self.report.misread = "input_tokens" in report and prompt is None
        if type(prompt) is int and prompt > 0:
            self.readings.append(prompt)
        latest = self.readings[-3:]
        self.report.threshold = self.engine.threshold_tokens
        self.report.plateau = len(latest) == 3 and max(latest) - min(latest) <= max(latest) / 100
        self.call("update_from_response", dict(report))

    def asks(self, tokens: int) -> tuple[Any, ...]:
        """Before a request: deferral, the host's own estimate, cooldown, verdict; compacts if it says so."""
        engine = self.engine
        deferred = self.call("should_defer_preflight_to_real_usage", tokens, otherwise=False)
        last = engine.last_prompt_tokens
        if type(last) is not int:
            self.report.raised.append("the host: TypeError")  # it compares the two
            return ()
        if not deferred and 0 <= last < tokens:
            engine.last_prompt_tokens = tokens
        resting = bool(self.call("get_active_compression_failure_cooldown"))
        says = not deferred and not resting and self.call("should_compress", tokens, otherwise=False)
        if says:
            self.compact(tokens)
        return deferred, resting, says

    def after_tools(self) -> bool:
        """After a round of tools."""
        last = self.engine.last_prompt_tokens
        if type(last) is not int:
            self.report.raised.append("the host: TypeError")
            return False
        tokens = max(0, last)
        says = self.call("should_compress", tokens, otherwise=False)
        if says:
            self.compact(tokens)
        return bool(says)

    def looks(self) -> None:
        """A window of the user's shows what there is, whatever the engine is doing."""
        for name in FIELDS:
            getattr(self.engine, name, None)
        self.call("get_status")
        self.call("get_tool_schemas")

    def has_content(self) -> Any:
        """Somebody asks for a compaction in a gateway."""
        return self.call("has_content_to_compress", copy.deepcopy(self.rows), otherwise=True)

    # -- compaction ---------------------------------------------------------------------------------------------------

    def compact(
        self,
        tokens: int | None,
        *,
        force: bool = False,
        focus: str | None = None,
        memory: str = "",
        drop: bool = False,
        meanwhile: Callable[[Side], object] | None = None,
    ) -> None:
        """What the host does around a compress call; `drop`: it fails after it and goes on with what it had."""
        engine, report = self.engine, self.report
        if not force:
            self.call("get_active_compression_failure_cooldown", refresh=True)
            self.call("_load_fallback_compression_streak")
            if self.call("_automatic_compression_blocked", otherwise=False):
                return
        given, report.before = self.rows, copy.deepcopy(self.rows)
        report.manual, report.dropped = force, drop
        report.count, report.strikes = engine.compression_count, engine._ineffective_compression_count
        conversation = self.conversations
        self.model.useless = ""
        self.model.meanwhile = None if meanwhile is None else lambda: meanwhile(self)
        told = {"current_tokens": tokens, "focus_topic": focus, "force": force}
        if memory:
            told["memory_context"] = memory
        try:
            done = engine.compress(given, **told)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - as above
            report.raised.append(f"compress: {type(error).__name__}")
            done = None
        finally:
            self.model.meanwhile = None
            self.model.caught.set()
            self.model.settle()
            if meanwhile is not None or self.model.mood == "interrupted":
                self.after_compress()  # it may be over before the engine is
        report.late = self.conversations != conversation
        report.changed = given != report.before
        report.done = None if done is None or done is given else copy.deepcopy(done)
        report.made, report.fallback = engine._last_compression_made_progress, engine._last_summary_fallback_used
        report.aborted = bool(engine._last_compress_aborted)
        if report.made and not report.fallback:
            report.wrote, report.useless = engine._previous_summary or "", self.model.useless
        if drop:
            self.call("should_defer_preflight_to_real_usage", 0)  # the host goes on
        elif done is not None and not report.aborted and done != report.before and done:
            self._take(given, done)

    def _take(self, given: Rows, done: Rows) -> None:
        """The host takes it over."""
        from agent.conversation_compression import _ensure_compressed_has_user_turn

        engine, report = self.engine, self.report
        report.taken = True
        _ensure_compressed_has_user_turn(given, done)
        old = self.session
        if self.store is not None:
            self.call("on_session_end", old, given)
            if not self.in_place:
                self._new_session()
        if self.in_place or self.session != old:
            told = {"boundary_reason": "compression", "old_session_id": old, "platform": "cli", "conversation_id": None}
            self.call("on_session_start", self.session, **told)
            self.bound = True
        self.rows = done
        engine.last_compression_rough_tokens = 1000 + 10 * len(done)
        engine.last_prompt_tokens = -1
        engine.last_completion_tokens = 0
        engine.awaiting_real_usage_after_compression = True
        if report.made:
            self.call("record_completed_compaction", used_fallback=bool(report.fallback))

    # -- sessions and models ------------------------------------------------------------------------------------------

    def reset(self, *, binds: bool = True) -> None:
        """/new; an older host does not bind."""
        old = self.session
        if self.rows:
            self.call("on_session_end", old, self.rows)
        self.hook("on_session_finalize", session_id=old, platform="cli", reason="new_session")
        self._new_session()
        self.call("on_session_reset")
        if binds and self.engine._session_id != self.session:
            self.call("bind_session_state", self.store, self.session)
        self.bound = binds
        self.rows = []
        self.conversations += 1

    def end(self, whose: str) -> None:
        """The host says that a session ends, and goes on: its own, nobody's, or that of another agent."""
        self.call("on_session_end", {"own": self.session, "nobody": ""}.get(whose, "other"), self.rows)

    def start(self, *, other: bool) -> None:
        """A session starts without a reset: the same one again, or one that was branched off."""
        if other:
            self._new_session()
            self.conversations += self.bound  # what has no name yet is called by this one
        self.bound = True
        told = {"platform": "cli", "model": "m", "context_length": self.engine.context_length}
        self.call("on_session_start", self.session, **told)

    def switch(self, model: str, window: int) -> None:
        """/model, or the window that the provider has named."""
        self.report.forgets = self.share > 0
        told = {"base_url": "", "api_key": "k", "provider": "custom", "api_mode": ""}
        self.call("update_model", model=model, context_length=window, **told)

    def lower(self, tokens: int) -> None:
        """The host sets the threshold by hand: the summary model holds less."""
        self.share = tokens / self.engine.context_length
        self.engine.threshold_tokens = tokens
        self.engine.threshold_percent = self.share

    def probe(self) -> None:
        """The window was found out by trying, and the host takes note of it."""
        self.engine._context_probed = True
        self.engine._context_probe_persistable = True

    def _new_session(self) -> None:
        self.sessions += 1
        self.session = f"s{self.sessions}"
