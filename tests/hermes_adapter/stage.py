"""Where scenes are played: a home, its configuration, real agents, and what is seen of it all."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from dataspace import where
from engines import facts as f

__all__ = ["Stage", "history", "problems"]

WINDOW = 64_000
KEY = "sk-live-0123456789abcdef"  # what must never be seen anywhere


class Stage:
    """A home of its own, for one process.  `configure` before each agent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / ".hermes"
        self.home.mkdir(parents=True, exist_ok=True)
        os.environ.update(HOME=str(root), HERMES_HOME=str(self.home), TMPDIR=str(root))
        os.chdir(root)
        self.sessions = 0
        self.db: Any = None

    def configure(
        self,
        url: str,
        dataspace: Any = None,
        *,
        engine: str = "dataspace",
        plugins: tuple[str, ...] = ("dataspace",),
        compression: dict[str, Any] | None = None,
    ) -> None:
        """Write config.yaml (JSON is YAML)."""
        model = {"provider": "custom", "base_url": url, "api_key": KEY, "context_length": WINDOW}
        config = {
            "model": {"default": "scripted", **model},
            "auxiliary": {
                "compression": {**model, "model": "summariser", "context_length": 200_000},
                "title_generation": {"enabled": False},
            },
            "context": {"engine": engine, "dataspace": {} if dataspace is None else dataspace},
            "plugins": {"enabled": list(plugins)},
            "compression": {"enabled": True, **(compression or {})},
            "agent": {"environment_probe": False, "verify_on_stop": False},
            "memory": {"memory_enabled": False, "user_profile_enabled": False, "nudge_interval": 0},
            "skills": {"creation_nudge_interval": 0},
            "security": {"allow_lazy_installs": False},
        }
        (self.home / "config.yaml").write_text(json.dumps(config, indent=2), encoding="utf-8")

    def agent(self, url: str, *, session: str | None = None, stored: bool = True, **more: Any) -> Any:
        """A real agent, with a session of its own in a real store."""
        from run_agent import AIAgent

        if stored and self.db is None:
            from hermes_state import SessionDB

            self.db = SessionDB(self.root / "state.db")
        self.sessions += 1
        options = {
            "enabled_toolsets": ["file", "context_engine"],
            "max_iterations": 20,
            "quiet_mode": True,
            "skip_context_files": True,
            "skip_memory": True,
            "platform": "cli",
            "tool_delay": 0,
        }
        agent = AIAgent(
            base_url=url,
            api_key=KEY,
            provider="custom",
            model="scripted",
            session_id=session or f"session-{self.sessions}",
            session_db=self.db if stored else None,
            **{**options, **more},
        )
        agent.task = f"task-{self.sessions}"  # the host keeps book of what a task has read
        agent.warnings = []
        agent._emit_warning = lambda text, *_a, **_k: agent.warnings.append(text)
        return agent

    def facts(self, cls: type, **fields: Any) -> list[Any]:
        """What stands in the dataspace of this process, once all that was told it has been heard."""
        from bridges.hermes.runtime import running

        runtime = running()
        return [] if runtime is None else list(runtime.ask(lambda desk: desk.me.facts(where(cls, **fields))))

    def sid(self, agent: Any) -> str:
        """The conversation of an agent."""
        return str(agent.context_compressor.seat.cell.sid)

    def compressed(self, agent: Any) -> list[Any]:
        """The latest compaction of an agent's conversation."""
        return self.facts(f.Compressed, sid=self.sid(agent))


def history(rounds: int = 30, size: int = 900) -> list[dict[str, Any]]:
    """A conversation with tools, large enough to be compacted."""
    rows: list[dict[str, Any]] = [{"role": "user", "content": "Count the parcels, please."}]
    for at in range(rounds):
        call = {
            "id": f"old_{at}",
            "type": "function",
            "function": {"name": "read_file", "arguments": f'{{"path": "p{at}"}}'},
        }
        rows.append({"role": "assistant", "content": f"Reading file {at}.", "tool_calls": [call]})
        rows.append({"role": "tool", "tool_call_id": f"old_{at}", "content": f"parcel {at} " * (size // 9)})
    rows.append({"role": "assistant", "content": "There are thirty of them."})
    return rows


def problems(request: dict[str, Any]) -> list[str]:
    """What breaks the rules of a transcript in a request that reached the server."""
    open_calls: list[str] = []
    found = []
    for at, row in enumerate(request["messages"]):
        if row["role"] == "tool":
            if row["tool_call_id"] in open_calls:
                open_calls.remove(row["tool_call_id"])
            else:
                found.append(f"row {at}: a result without a call")
            continue
        if open_calls:
            found.append(f"row {at}: {open_calls} not answered")
        open_calls = [call["id"] for call in row.get("tool_calls") or ()]
    return found


def threads() -> list[str]:
    """The names of the threads of this process."""
    return sorted(thread.name for thread in threading.enumerate())
