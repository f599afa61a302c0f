"""Context engines as somebody might write them for the host, without the host."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

__all__ = ["WHO", "Base", "Fake", "Plain"]

Rows = list[dict[str, Any]]
WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Base:
    """What stands for the host's abstract class."""

    last_prompt_tokens = 0
    last_completion_tokens = 0
    last_total_tokens = 0
    threshold_tokens = 0
    context_length = 0
    compression_count = 0
    threshold_percent = 0.5
    protect_first_n = 3
    protect_last_n = 6


class Fake(Base):
    """Keeps account of what it is told; compresses by keeping the first and the last rows, or by `plan`."""

    plan: Callable[[Fake, Rows, dict[str, Any]], Any] | None = None
    made: list[Fake] = []  # so that a test finds the one that was made for it

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.notes: list[str] = []
        self.who = ""
        self._last_compress_aborted = False
        self._last_summary_error: str | None = None
        self.awaiting_real_usage_after_compression = False

    def __deepcopy__(self, memo: Any) -> Fake:
        copy = type(self)()
        Fake.made.append(copy)
        return copy

    @property
    def name(self) -> str:
        return "fake"

    def update_model(self, model: str, context_length: int, api_key: str = "", **_more: Any) -> None:
        self.heard.append(("update_model", model, context_length))
        self.api_key = api_key
        self.context_length = context_length
        self.threshold_tokens = context_length // 2

    def update_from_response(self, usage: dict[str, Any]) -> None:
        self.heard.append(("usage", dict(usage)))
        self.last_prompt_tokens = usage.get("prompt_tokens", 0)
        self.awaiting_real_usage_after_compression = False

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return (self.last_prompt_tokens if prompt_tokens is None else prompt_tokens) >= self.threshold_tokens

    def should_defer_preflight_to_real_usage(self, rough_tokens: int) -> bool:
        return rough_tokens == 77_777

    def compress(
        self, messages: Rows, current_tokens: int | None = None, focus_topic: str | None = None, force: bool = False
    ) -> Any:
        told = {"current_tokens": current_tokens, "focus_topic": focus_topic, "force": force}
        self.heard.append(("compress", len(messages), told))
        self.who = f"{WHO.get()} {threading.current_thread() is threading.main_thread()}"
        self.notes.append("compressed")
        if Fake.plan is not None:
            return Fake.plan(self, messages, told)
        self.compression_count += 1
        return [messages[0], {"role": "assistant", "content": "In short."}, messages[-1]]

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        self.heard.append(("start", session_id, kwargs.get("boundary_reason")))

    def on_session_end(self, session_id: str, messages: Rows) -> None:
        self.heard.append(("end", session_id, len(messages)))

    def on_session_reset(self) -> None:
        self.heard.append(("reset",))

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        look = {"type": "object", "properties": {"at": {"type": ["string", "null"]}}}
        return [
            {"name": "look", "description": "Look.", "parameters": look},
            {"type": "function", "function": {"name": "find", "description": "Find.", "parameters": look}},
            {"name": "look", "description": "Again.", "parameters": look},
            {"description": "nameless"},
        ]

    def handle_tool_call(self, name: str, args: dict[str, Any], **kwargs: Any) -> Any:
        if name == "find":
            raise KeyError("nothing there")
        return {"seen": args, "messages": len(kwargs.get("messages", ()))}


class Plain(Fake):
    """With what some engines have: durable guards of their own."""

    def get_active_compression_failure_cooldown(self) -> dict[str, Any]:
        return {"remaining_seconds": 12.0}

    def _automatic_compression_blocked(self) -> bool:
        return True

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return False

    def record_completed_compaction(self, *, used_fallback: bool = False) -> None:
        self.heard.append(("completed", used_fallback))

    def bind_session_state(self, session_db: Any = None, session_id: str = "") -> None:
        self.heard.append(("bind", session_id))
