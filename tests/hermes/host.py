"""Runs the real Hermes agent, alone in its process: `python -m tests.hermes.host JOB`.

JOB is a JSON file: `requests` (what the user says, in order), `base_url` (a scripted server), `out` (where the messages go, as
a JSON list).  The environment is the caller's doing: HOME and HERMES_HOME are temporary, the working directory is
the project.  Nothing but loopback can be reached from here.
"""

from __future__ import annotations

import ipaddress
import json
import sys
from pathlib import Path
from typing import Any

__all__ = ["main"]

MAX_ROUNDS = 60


def _loopback_only(event: str, args: tuple[Any, ...]) -> None:
    """Refuse connections and name look-ups that would leave this machine."""
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event in {"socket.connect", "socket.sendto"} and isinstance(args[1], tuple):
        host = args[1][0]
    else:
        return
    if isinstance(host, bytes):
        host = host.decode()
    if host in {None, "", "localhost"}:
        return
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise ConnectionRefusedError(f"a recording stays on this machine; {event} to {host!r} refused")


def main(job_file: str) -> None:
    """Let the agent work through the requests and write down the conversation."""
    sys.addaudithook(_loopback_only)
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))

    from run_agent import AIAgent  # importing it reads HERMES_HOME, so not a moment earlier

    agent = AIAgent(
        base_url=job["base_url"],
        api_key="none",
        provider="custom",
        model="scripted",
        max_iterations=MAX_ROUNDS,
        tool_delay=0,
        enabled_toolsets=["terminal", "file", "skills"],
        quiet_mode=True,
        session_id="recording",
        platform="cli",
        skip_context_files=True,
        skip_memory=True,
    )
    messages: list[dict[str, Any]] = []
    for request in job["requests"]:
        result = agent.run_conversation(request, conversation_history=messages, task_id="recording")
        if not result.get("completed"):
            sys.exit(f"the agent gave up on {request!r}: {result.get('error') or result.get('final_response')}")
        messages = result["messages"]
    Path(job["out"]).write_text(json.dumps(messages), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
