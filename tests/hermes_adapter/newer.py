"""A stand-in for a newer host, written from what its sources say and not from a run.

Only what bears on a context engine and differs from 0.19.0 is here: `compress` on a pooled daemon thread under a time
limit, its late results discarded; private attributes written on the engine, and snapshots of `vars(engine)`; optional
methods that are called only where an engine has its own.
"""

from __future__ import annotations

import copy
import inspect
import threading
from concurrent.futures import Future
from typing import Any

from tests.hermes_adapter.fakes import Base

__all__ = ["Collector", "NewerBase", "NewerHost"]

Rows = list[dict[str, Any]]
KEPT = (
    *("compression_count", "_previous_summary", "last_prompt_tokens", "awaiting_real_usage_after_compression"),
    *(
        "_last_compress_aborted",
        "_last_summary_error",
        "_last_compression_made_progress",
        "_ineffective_compression_count",
    ),
)
"""Fields that the host puts back after a pass that it has given up."""
MISSING = object()


class NewerBase(Base):
    """The host's abstract class with what has come since."""

    model_thresholds: dict[str, float] = {}

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        raise NotImplementedError

    def should_compress_info(self, prompt_tokens: int | None = None) -> tuple[bool, str]:
        """The verdict, and why not."""
        return self.should_compress(prompt_tokens), ""

    def select_context(self, request_messages: Rows, **_told: Any) -> Rows | None:
        """Called only where it is overridden."""
        raise AssertionError("not overridden, so not called")

    def on_turn_complete(self, messages: Rows, usage: Any = None, **_told: Any) -> None:
        """Called only where it is overridden."""
        raise AssertionError("not overridden, so not called")

    def pending_compression_operation(self, messages: Rows) -> str | None:
        """Whether a compaction is under way."""
        return None


class Collector:
    """Loads a plugin by name, without its being enabled: hooks are not taken, an engine is."""

    def __init__(self) -> None:
        self.engine: Any = None

    def register_context_engine(self, engine: Any) -> None:
        """Keep it."""
        self.engine = engine

    def register_hook(self, _name: str, _hook: Any) -> None:
        """Nothing: such hooks never fire."""

    register_tool = register_skill = register_command = register_hook


class NewerHost:
    """One agent of it: an engine, its messages, and what the host does around a compaction."""

    def __init__(self, engine: Any, rows: Rows) -> None:
        self.engine = engine
        self.rows = rows
        self.warnings: list[str] = []
        self.passes: list[threading.Thread] = []
        self.discarded: list[Rows] = []
        self.pruned = 0
        self._generation = 0

    def response(self, prompt: int) -> None:
        """A response has come; perhaps the context is compacted, otherwise old tool results may be pruned."""
        self.engine.update_from_response({"prompt_tokens": prompt, "completion_tokens": 5, "total_tokens": prompt + 5})

    def after_tools(self, seconds: float = 60.0) -> bool:
        """After a round of tools."""
        engine = self.engine
        if engine.awaiting_real_usage_after_compression:
            return False
        info = getattr(engine, "should_compress_info", None)
        wanted, why = (
            info(engine.last_prompt_tokens) if info else (engine.should_compress(engine.last_prompt_tokens), "")
        )
        if why:
            self.warnings.append(why)
        if wanted:
            return self.compact(seconds)
        prune = getattr(engine, "prune_tool_results_only", None)
        if callable(prune):
            self.pruned += 1
        return False

    def request(self) -> Rows:
        """What is sent to the provider."""
        if type(self.engine).select_context is not NewerBase.select_context:
            self.engine.select_context(copy.deepcopy(self.rows))
        return self.rows

    def turn_ended(self) -> None:
        """The end of a turn."""
        if type(self.engine).on_turn_complete is not NewerBase.on_turn_complete:
            self.engine.on_turn_complete(copy.deepcopy(self.rows))

    def compact(self, seconds: float = 60.0, *, bypass_cooldown: bool = False) -> bool:
        """One compaction: a pass on a thread of its own; what comes too late is discarded."""
        engine = self.engine
        self._generation += 1
        self._mark(self._generation)
        told = {"current_tokens": engine.last_prompt_tokens, "force": False, "bypass_cooldown": bypass_cooldown}
        parameters = inspect.signature(engine.compress).parameters
        if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
            told = {name: value for name, value in told.items() if name in parameters}
        before = {name: vars(engine).get(name, MISSING) for name in KEPT}
        snapshot = copy.deepcopy(self.rows)
        result = self._pass(snapshot, told, self._generation)
        try:
            done = result.result(timeout=seconds)
        except TimeoutError:
            self._generation += 1  # whatever it still brings is discarded
            self._restore(before)
            self.warnings.append("compaction took too long")
            return False
        if engine._last_compress_aborted:
            self.warnings.append(str(engine._last_summary_error))
            return False
        if done == snapshot or not done:
            return False
        self._take(done, snapshot)
        return True

    def _mark(self, generation: int) -> None:
        """What the host writes on its engine for each pass."""
        engine = self.engine
        if not isinstance(vars(engine).get("_compression_attempt_serial_lock"), type(threading.Lock())):
            engine._compression_attempt_serial_lock = threading.Lock()
        engine._compression_attempt_generation = generation
        engine._compression_cancelled_check = lambda: self._generation != generation

    def _pass(self, snapshot: Rows, told: dict[str, Any], generation: int) -> Future[Rows]:
        result: Future[Rows] = Future()

        def work() -> None:
            self.engine._compression_working_attempt_generation = generation
            try:
                done = self.engine.compress(snapshot, **told)
            except BaseException as error:  # noqa: BLE001 - the waiting thread gets it
                result.set_exception(error)
                return
            if self._generation != generation:
                self.discarded.append(done)
            result.set_result(done)

        thread = threading.Thread(target=work, name="context-pool", daemon=True)
        self.passes.append(thread)
        thread.start()
        return result

    def _restore(self, before: dict[str, Any]) -> None:
        for name, value in before.items():
            if value is MISSING:
                vars(self.engine).pop(name, None)
            else:
                vars(self.engine)[name] = value

    def _take(self, done: Rows, snapshot: Rows) -> None:
        """The result has become the context: the boundary, then what the host writes after it."""
        engine = self.engine
        self.rows = done
        engine.on_session_end("s1", snapshot)
        engine.on_session_start("s1", boundary_reason="compression", old_session_id="s1")
        engine.last_compression_rough_tokens = 5_000
        engine.last_prompt_tokens = -1
        engine.last_completion_tokens = 0
        engine.awaiting_real_usage_after_compression = True
