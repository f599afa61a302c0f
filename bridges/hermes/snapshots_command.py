"""`/context-bridge`: what earlier sessions knew, listed, shown, brought back, removed.

    /context-bridge list | restore [id] | show ID | clear [id|all] | help

The command names no session.  On the thread of a gateway's event loop, where it may be anybody's, it only lists.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from . import snapshots_restore as restore
from .host import home
from .settings import host_config, read_settings

if TYPE_CHECKING:
    from engines.snapshotter import Entry, SnapshotStore

__all__ = ["HINT", "NAME", "SKILL", "SKILLS", "answer", "register_snapshots"]

NAME = "context-bridge"
SKILLS = Path(__file__).parent / "skills"
SKILL = "skill-radar"
HINT = "list | restore [id] | show ID | clear [id|all] | help"
HELP = """\
/context-bridge list           the snapshots of this profile, the newest first
/context-bridge restore [id]   give the model what one of them holds, with your next message; without an id the newest
/context-bridge show ID        show one
/context-bridge clear [id]     remove one; `clear all` removes all of this profile
An id is a number of the list, or the beginning of an id; digits alone are a number, unless there are six of them or more."""
ELSEWHERE = "Here a command does not know whose session it is for, so it only lists. The model has a tool for this, context_bridge: ask it."

log = logging.getLogger(__name__)


@frozen
class _Desk:
    """Where a command works: the store of the home and profile that are current on its thread."""

    store: SnapshotStore
    tokens: int  # that a snapshot may take which goes with a message
    home: str

    @property
    def place(self) -> str:
        """For people: whose snapshots these are, and where."""
        from engines.compressor.wording import plain  # noqa: PLC0415

        return f"profile {plain(self.store.profile)}, {plain(str(self.store.directory))}"


def register_snapshots(ctx: Any) -> None:
    """Register the command and the skill with the host; it may not know some of them."""
    for register in (_register_command, _register_skill):
        try:
            register(ctx)
        except Exception as error:  # noqa: BLE001 - a host with another idea of it
            log.debug("%s was not taken: %r", register.__name__, error)


def _register_command(ctx: Any) -> None:
    ctx.register_command(
        NAME, _command, description="What earlier sessions knew: list, restore, show, clear", args_hint=HINT
    )


def _register_skill(ctx: Any) -> None:
    found = SKILLS / SKILL / "SKILL.md"
    ctx.register_skill(SKILL, found, description="Search for a skill before building one.")


def _command(raw_args: str = "") -> str | Coroutine[Any, Any, str]:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return answer(raw_args, acts=True)
    return asyncio.to_thread(answer, raw_args, acts=False)  # in the context variables of this one, so in the same home


def answer(raw: str = "", *, acts: bool) -> str:
    """Do what was typed after the name; always an answer, never an error.  `acts`: there is one user, who typed it."""
    from engines.compressor.wording import plain  # noqa: PLC0415 - a process that never chats does without
    from engines.snapshotter import SnapshotError, UnknownSnapshotError  # noqa: PLC0415

    words = str(raw or "").split()
    name = words[0].lower() if words else "list"
    if name not in _DOES or len(words) > 2:
        asked = name in {"help", "-h", "--help"}
        return HELP if asked else f"{plain(' '.join(words))[:80]!r} is none of: {HINT}\n{HELP}"
    try:
        desk = _desk()
        if not acts and name != "list":
            return f"{ELSEWHERE}\n{_list(desk, '')}"
        return _DOES[name](desk, words[1] if len(words) > 1 else "")
    except UnknownSnapshotError as error:
        return f"{error}\n{HELP}"
    except (SnapshotError, OSError) as error:
        return str(error)
    except Exception:
        log.exception("/%s %s has failed", NAME, name)
        return f"/{NAME} {name} has failed; the log says more."


def _list(desk: _Desk, _wanted: str) -> str:
    from engines.snapshotter.telling import line_of  # noqa: PLC0415

    entries = desk.store.list()
    if not entries:
        return f"There are no snapshots ({desk.place})."
    lines = [line_of(entry, number) for number, entry in enumerate(entries, 1)]
    return "\n".join([f"Snapshots ({desk.place}), the newest first:", *lines, f"/{NAME} restore [id] brings one back."])


def _restore(desk: _Desk, wanted: str) -> str:
    from engines.compressor.wording import plain  # noqa: PLC0415
    from engines.snapshotter.telling import restored  # noqa: PLC0415

    entry = _meant(desk, wanted)
    if entry is None:
        return f"There is nothing to restore ({desk.place})."
    text = restored(desk.store.load(entry.id), desk.tokens)
    seats = restore.candidates()
    if len(seats) > 1:
        return (
            f"{len(seats)} sessions run here, and a command does not know which one is yours. Ask the model to restore "
            f"snapshot {entry.id} with its tool context_bridge."
        )
    restore.wait(text, desk.home, seats[0] if seats else None)
    when = f"saved {entry.timestamp}, {entry.reason}"
    return f"The state of session {plain(entry.session_id)} ({when}) goes to the model with your next message."


def _show(desk: _Desk, wanted: str) -> str:
    from engines.snapshotter.telling import shown  # noqa: PLC0415

    if not wanted:
        return f"Say which: a number of the list, or the beginning of an id.\n{HELP}"
    entry = _meant(desk, wanted)
    return shown(desk.store.load(entry.id)) if entry is not None else f"There is nothing to show ({desk.place})."


def _clear(desk: _Desk, wanted: str) -> str:
    if not wanted:
        return f"Say what: an id, or `all` for every snapshot of this profile.\n{HELP}"
    from engines.snapshotter.telling import chosen, named  # noqa: PLC0415

    entries = desk.store.list()
    meant = entries if wanted == "all" else [chosen(entries, wanted)]
    removed = desk.store.clear() if wanted == "all" else desk.store.clear(meant[0].id)
    gone = [f"  {named(entry)}" for entry in meant if not os.path.lexists(entry.path)]
    return "\n".join([f"Removed: {removed} ({desk.place}).", *gone])


def _meant(desk: _Desk, wanted: str) -> Entry | None:
    """The entry that is meant; without a word the newest that can be restored."""
    from engines.snapshotter.telling import chosen, resumable  # noqa: PLC0415

    entries = desk.store.list()
    return chosen(entries, wanted) if wanted else resumable(entries)


_DOES: dict[str, Callable[[_Desk, str], str]] = {"list": _list, "restore": _restore, "show": _show, "clear": _clear}


def _desk() -> _Desk:
    from engines.telemetry.profile import resolve_profile  # noqa: PLC0415

    from .snapshots import Options, store_of  # noqa: PLC0415

    where = str(home())
    config = host_config()
    options = read_settings(config).of(Options)
    tokens = min(options.restore_tokens, restore.room_in(config))
    return _Desk(store_of(where, resolve_profile(os.environ, where), options), tokens, where)
