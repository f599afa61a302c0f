"""Context engines that misbehave, written for the host."""

from __future__ import annotations

import threading
import time
from typing import Any

from agent.context_engine import ContextEngine

Rows = list[dict[str, Any]]


class _Engine(ContextEngine):
    """Asks for a compaction at the threshold, as any engine does."""

    protect_last_n = 6

    @property
    def name(self) -> str:
        return "bad"

    def update_from_response(self, usage: dict[str, Any]) -> None:
        self.last_prompt_tokens = usage.get("prompt_tokens", 0)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return (self.last_prompt_tokens if prompt_tokens is None else prompt_tokens) >= self.threshold_tokens

    def compress(self, messages: Rows, current_tokens: int | None = None, **_more: Any) -> Any:
        raise NotImplementedError


class Raises(_Engine):
    def compress(self, messages: Rows, **_told: Any) -> Any:
        raise ValueError(f"no credit left for {self.api_key}")

    def update_model(self, model: str, context_length: int, api_key: str = "", **_more: Any) -> None:
        super().update_model(model, context_length)
        self.api_key = api_key


class RaisesEverywhere(Raises):
    def update_from_response(self, usage: dict[str, Any]) -> None:
        raise KeyError("usage")

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        raise RuntimeError("no verdict")

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        raise OSError("no disk")


class Sleeps(_Engine):
    def compress(self, messages: Rows, **_told: Any) -> Any:
        time.sleep(3)
        return messages[-1:]


class Locks(_Engine):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __deepcopy__(self, memo: Any) -> Locks:
        return Locks()

    def compress(self, messages: Rows, **_told: Any) -> Any:
        with self.lock:
            time.sleep(3)
        return messages[-1:]

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        with self.lock:
            return super().should_compress(prompt_tokens)


class Rubbish(_Engine):
    def compress(self, messages: Rows, **_told: Any) -> Any:
        return [{"role": "wizard", "content": object()}, 17]


class Nothing(_Engine):
    def compress(self, messages: Rows, **_told: Any) -> Any:
        return None


class Empty(_Engine):
    def compress(self, messages: Rows, **_told: Any) -> Any:
        return []


class Orphans(_Engine):
    def compress(self, messages: Rows, **_told: Any) -> Any:
        return [*messages[:1], *[row for row in messages[1:-3] if row["role"] == "tool"][:4], *messages[-3:]]


class Mutates(_Engine):
    def compress(self, messages: Rows, **_told: Any) -> Any:
        del messages[2:]
        messages[0]["content"] = "overwritten"
        raise RuntimeError("after the damage")


class DeadThread(_Engine):
    def compress(self, messages: Rows, **_told: Any) -> Any:
        raise SystemExit(3)


class Huge(_Engine):
    def compress(self, messages: Rows, **_told: Any) -> Any:
        return [*messages, *({"role": "assistant", "content": "x" * 1000} for _ in range(2000))]
