"""Engines made as the host makes them, without the host, and the facts of their conversations."""

from __future__ import annotations

import copy
from typing import Any

from bridges.hermes.adapter import engine_class
from bridges.hermes.runtime import running
from dataspace import where
from tests.hermes_adapter.fakes import Base, Fake

__all__ = ["FAKE", "PLAIN", "Engines", "conversation", "facts"]

FAKE = "tests.hermes_adapter.fakes:Fake"
PLAIN = "tests.hermes_adapter.fakes:Plain"


class Engines:
    """Makes the engine of an agent: a deep copy of one prototype, as the host does; `settings` is the block."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self.compression: dict[str, Any] = {}
        self.prototype = engine_class(Base)()

    def config(self) -> dict[str, Any]:
        """What the host's configuration would be."""
        return {"context": {"engine": "dataspace", "dataspace": self.settings}, "compression": self.compression}

    def bare(self, *engines: str, **settings: Any) -> Any:
        """An engine that knows nothing yet; without observers, unless the settings name some."""
        self.settings = {"engines": list(engines), "observers": [], **settings}
        return copy.deepcopy(self.prototype)

    def started(self, *engines: str, window: int = 200_000, session: str = "s1", **settings: Any) -> Any:
        """An engine after the host's first calls."""
        engine = self.bare(*engines, **settings)
        engine.update_model(
            model="m", context_length=window, base_url="", api_key="sk-secret-1234", provider="p", api_mode=""
        )
        engine.bind_session_state(session_db=None, session_id=session)
        engine.on_session_start(session, hermes_home="/home/robin/.hermes/profiles/fin", platform="cli", model="m")
        return engine


def facts(cls: type, engine: Any = None, **fields: Any) -> list[Any]:
    """What stands once all that was told has been heard; of an engine's conversation, or of all."""
    runtime = running()
    assert runtime is not None
    if engine is not None:
        fields["sid"] = engine.seat.cell.sid
    for _ in range(3):  # what follows from what follows
        found = list(runtime.ask(lambda desk: desk.me.facts(where(cls, **fields))))
    return found


def hosted() -> Fake:
    """The instance that was made last."""
    return Fake.made[-1]


def conversation(rounds: int = 20, size: int = 2000) -> list[dict[str, Any]]:
    """A conversation with tools, its last request at the end."""
    rows: list[dict[str, Any]] = [{"role": "user", "content": "Count the parcels."}]
    for at in range(rounds):
        call = {"id": f"c{at}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        rows.append({"role": "assistant", "content": "", "tool_calls": [call], "_db_persisted": True})
        rows.append({"role": "tool", "tool_call_id": f"c{at}", "content": f"parcel {at} " * (size // 9)})
    return [*rows, {"role": "assistant", "content": "Twenty."}, {"role": "user", "content": "And the letters?"}]


def commit(engine: Any, rough: int = 5_000) -> None:
    """What the host writes when it has taken a compaction over."""
    engine.last_compression_rough_tokens = rough
    engine.last_prompt_tokens = -1
    engine.last_completion_tokens = 0
    engine.awaiting_real_usage_after_compression = True
