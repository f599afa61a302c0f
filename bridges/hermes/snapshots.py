"""Snapshots in Hermes: the observer, and the tool with which a model looks after its own session.

    <home>/context-bridge/snapshots      one folder for each home, the files of each profile apart

What a user restores waits for that user's agent (`snapshots_restore`), the command is in `snapshots_command`, and what has
to be written before the process ends is told by `snapshots_end` and waited for in `ends`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from engines.facts import Noted, Session, SnapshotFailed, SnapshotFound, SnapshotSaved
from engines.snapshotter import FOLDER, Entry, Snapshot, SnapshotError, SnapshotStore, restored, snapshotter
from engines.snapshotter.telling import chosen, resumable

from . import ends
from . import snapshots_end as end
from . import snapshots_restore as restore
from .aides import Aide, Standing, TurnBegun
from .blocks import boolean, count, setting

if TYPE_CHECKING:
    from dataspace import Facet

    from .settings import Settings

__all__ = ["TOOL", "Options", "aide", "boot", "status", "store_of", "tools"]

TOOL = "context_bridge"
_REVIEW = "curator"


@frozen
class Options:
    """How many snapshots a profile keeps, how many tokens one that is restored may take, and whether there is the tool."""

    EXAMPLE = "keep"

    keep: int = setting(10, count(1), "write a whole number from 1 on")
    restore_tokens: int = setting(2_000, count(200), "write a whole number of tokens from 200 on")
    tool: bool = setting(True, boolean, "write true or false")


class _Store(SnapshotStore):
    """Snapshots in a home of the host's: one that is gone is not made anew."""

    def save(self, snapshot: Snapshot | Mapping[str, Any], *, instead: bool = False) -> Path:
        """As ever; raises `SnapshotError` where there is no home."""
        home = self.directory.parents[1]
        if not home.is_dir():
            raise SnapshotError(f"there is no home at {home}")
        return super().save(snapshot, instead=instead)


def store_of(home: str, profile: str, options: Options) -> SnapshotStore:
    """The store of a profile in a home; raises `SnapshotError` where the home is not known."""
    if not home:
        raise SnapshotError("the home of this session is not known, so there is no place for its snapshots")
    return _Store(Path(home) / FOLDER, profile or "default", options.keep)


def boot(settings: Settings, of: Callable[[str], Settings | None]) -> Callable[[Facet], None]:
    """The boot function of the engine."""

    def store_for(session: Session) -> SnapshotStore | None:
        wanted = of(session.sid)
        if wanted is None or session.sid in restore.unkept:
            return None
        return store_of(session.home or "", session.profile, wanted.of(Options))

    return snapshotter(store_for, lineage=end.successor_of, closed=end.closed)


def status(me: Facet) -> list[str]:
    """What `/dataspace status` shows: what was found when a conversation began, and what became of its own."""
    from engines.compressor.wording import plain  # noqa: PLC0415 - register() does without

    lines = ["snapshots: /context-bridge list"]
    going_on = {session.sid for session in me.facts(Session) if session.state == "active"}
    lines += [
        f"  {found.sid}: when it began, one of session {plain(found.session)} was there ({found.reason}); "
        f"/context-bridge restore {_short(found.path)} brings it back"
        for found in me.facts(SnapshotFound)
        if found.sid in going_on
    ]
    lines += [
        f"  {saved.sid}: saved {datetime.fromtimestamp(saved.at, UTC):%Y-%m-%d %H:%M:%S} UTC ({saved.reason}) as {_short(saved.path)}"
        for saved in me.facts(SnapshotSaved)
    ]
    lines += [
        f"  {failed.sid}: NOT saved ({failed.reason}): {plain(failed.error)}" for failed in me.facts(SnapshotFailed)
    ]
    return lines


def _short(path: str) -> str:
    """What a snapshot can be called by: the beginning of its id, in which no two are alike."""
    from engines.compressor.wording import plain  # noqa: PLC0415 - as above

    return plain(Path(path).stem.partition("-")[0])[:40]


def tools(settings: Settings) -> list[dict[str, Any]]:
    """What the model gets."""
    if not settings.of(Options).tool:
        return []
    actions = {
        "list": "which snapshots there are",
        "restore": "what one of them holds; without an id the newest",
        "note": "remember a finding or decision, given as text, in the snapshot of this session",
    }
    described = "; ".join(f"{name}: {what}" for name, what in actions.items())
    return [
        {
            "name": TOOL,
            "description": (
                "What this user's earlier sessions knew when they were reset, compacted or ended: request, next step, findings, "
                "tool calls. Use it when the user refers to earlier work, or to keep a finding that must not be lost."
            ),
            "parameters": {
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": list(actions), "description": described},
                    "id": {
                        "type": "string",
                        "description": "for restore: an id, its beginning, or a number of the list",
                    },
                    "text": {"type": "string", "description": "for note: one or two sentences"},
                },
                "required": ["action"],
            },
        }
    ]


def aide(standing: Standing) -> Aide | None:
    """What answers at once in one conversation; none for a review of the host's in the background.

    One of a session bears that session's id and is told by its thread, one of all skills by its platform.
    """
    if threading.current_thread().name.startswith("bg-review") or standing.platform == _REVIEW:
        restore.keep_nothing_of(standing.sid)
        return None
    ends.wait_for("snapshotter", end.written)
    ends.watch_exit()
    return SnapshotAide(standing)


class SnapshotAide(Aide):
    """Gives the model what was restored, once, and answers its tool."""

    def __init__(self, standing: Standing) -> None:
        self._sid = standing.sid
        self._session = standing.host_session
        self._home = standing.home
        self._profile = standing.profile
        self._local = standing.platform in restore.LOCAL
        self._options = standing.settings.of(Options)
        self._say = standing.say

    def context(self, turn: TurnBegun) -> str | None:
        """What was restored for this agent, with its next turn."""
        return restore.taken(self._sid, self._home) if self._local else None

    def rotated(self, host_session: str) -> None:
        """The conversation goes on under another id of the host."""
        self._session = host_session

    def ended(self, reason: str) -> None:
        """The conversation is over: what is to be written now may be waited for."""
        end.closing(self._sid)

    def handle_tool_call(self, name: str, args: Mapping[str, Any], messages: Sequence[Any]) -> Any:
        """Answer the model, for its own session only."""
        action = str(args.get("action") or "list")
        try:
            if action == "note":
                return self._noted(str(args.get("text") or "").strip())
            if action not in {"list", "restore"}:
                return {"error": f"action is list, restore or note, not {action[:40]!r}"}
            store = store_of(self._home, self._profile, self._options)
            entries = self._own(store.list())
            return self._listed(entries) if action == "list" else self._restored(store, entries, _word(args.get("id")))
        except (SnapshotError, OSError) as error:
            return {"error": str(error)}

    # -- inside -------------------------------------------------------------------------------------------------------

    def _own(self, entries: list[Entry]) -> list[Entry]:
        """What the user of this session may see: where there are several users, only what this session goes on from."""
        return entries if self._local else end.line_of_descent(entries, self._session)

    def _listed(self, entries: list[Entry]) -> Any:
        told = [
            {"id": entry.id, "session": entry.session_id, "reason": entry.reason, "saved": entry.timestamp}
            | ({"problem": f"[CORRUPT] {entry.problem}" if entry.corrupt else entry.problem} if entry.problem else {})
            for entry in entries
        ]
        return json.dumps({"profile": self._profile, "snapshots": told}, ensure_ascii=False)

    def _restored(self, store: SnapshotStore, entries: list[Entry], wanted: str) -> Any:
        entry = chosen(entries, wanted) if wanted else resumable(entries)
        if entry is None:
            return {"error": "there is no snapshot of this user's earlier sessions"}
        return json.dumps(
            {"id": entry.id, "restored": restored(store.load(entry.id), self._options.restore_tokens)},
            ensure_ascii=False,
        )

    def _noted(self, text: str) -> Any:
        if not text:
            return {"error": "say what is to be remembered, as text"}
        self._say(Noted(self._sid, text[:2_000], by=TOOL))
        return {"noted": True}


def _word(given: Any) -> str:
    """What names a snapshot; models give numbers too, and 0 is no number of the list rather than nothing."""
    return "" if given is None else str(given).strip()
