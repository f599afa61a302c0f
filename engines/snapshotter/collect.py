"""From what is known of a session to its snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..compressor.redact import redact
from ..compressor.wording import excerpt, one_line
from ..facts import Session
from .memory import Memory
from .snapshot import Snapshot
from .todo import next_of

__all__ = ["snapshot_of"]

_REQUEST = 1_500  # characters


def snapshot_of(
    memory: Memory,
    session: Session,
    reason: str,
    moment: datetime,
    profile: str = "default",
    run: str = "",
    more: Mapping[str, Any] | None = None,
) -> Snapshot:
    """Make the snapshot of a session at a boundary.

    `run` names this run of the program: conversations of two runs may bear the same `sid`.  `more` is added to the lineage.
    """
    lineage: dict[str, Any] = {"conversation": f"{run}:{memory.sid}" if run else memory.sid}
    if session.parent:
        lineage["parent"] = session.parent
        if not (memory.working or memory.interrupted):  # done: the one that delegated to it has what came of it
            lineage["helper_of"] = f"{run}:{session.parent}"
    earlier = [name for name in memory.sessions if name != session.host_session]
    if earlier:
        lineage["earlier_sessions"] = earlier
    if memory.children:
        lineage["children"] = [{"session": child, "task": task} for child, task in memory.children.items()]
    lineage.update(more or {})
    return Snapshot(
        session_id=session.host_session or memory.sid,
        reason=reason,
        timestamp=moment,
        profile=profile,
        sequence=memory.boundaries,
        tool_calls=memory.calls,
        key_findings=memory.findings,
        task_state=_state(memory, session, reason),
        lineage=lineage,
    )


def _state(memory: Memory, session: Session, reason: str) -> dict[str, Any]:
    unfinished = memory.working or memory.interrupted
    left = next_of(memory.todo)
    state: dict[str, Any] = {
        "request": excerpt(redact(memory.request), _REQUEST),
        "in_flight": unfinished,
        "next_step": _next_step(memory, left) if unfinished or left else "",
        "todo": memory.todo,
        "files": [f"{path} (edited)" if edited else path for path, edited in memory.files.items()],
        "required_skills": list(memory.skills),
        "open_questions": [memory.question] if memory.question else [],
        "earlier_requests": memory.earlier,
        "reset_reason": session.ended or reason if reason == "session_reset" else "",
    }
    always = ("request", "in_flight")
    return {name: value for name, value in state.items() if value or name in always}


def _next_step(memory: Memory, left: str) -> str:
    """What was to be done next: as planned, as announced, or as far as can be told."""
    waiting = memory.open_calls
    if left or memory.plan:
        return left or memory.plan
    if waiting:
        return f"{waiting[-1].name} was called and had not answered; look whether it was done, then go on"
    if memory.acted and memory.calls:
        last = memory.calls[-1]
        return one_line(f"Go on after {last['tool']} {last['target']} ({last['outcome']})", 240)
    return "Begin with the request; nothing was done for it yet"
