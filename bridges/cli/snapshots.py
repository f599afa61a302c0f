"""`hermes-dataspace snapshots`: what earlier sessions knew, as `/context-bridge` in a session has it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from attrs import frozen

from engines.snapshotter import FOLDER, Entry, SnapshotError, SnapshotStore, restored
from engines.snapshotter.telling import DEFAULT_TOKENS, LEAST_TOKENS, chosen, line_of, named, resumable, shown
from engines.telemetry import resolve_profile

from .enabling import hermes_home
from .errors import BadInput, RunFailed
from .options import tokens
from .session import reason_of
from .terminal import ascii_json, clean

__all__ = ["snapshots_command"]


class _Snapshots(click.Group):
    """The subcommands, with the words that the command in a session has."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without a subcommand it is `list`; `help` is `--help`."""
        if args[:1] == ["help"]:
            args = ["--help"]
        elif not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("snapshots", cls=_Snapshots)
def snapshots_command() -> None:
    """What sessions knew, to look at and restore.

    Without a command they are listed.  Snapshots are written when a session is compacted, reset or ended.
    """


@frozen
class _Place:
    """Whose snapshots are meant, and how to say what is found."""

    store: SnapshotStore
    as_json: bool

    def said(self, text: str, /, **told: Any) -> list[str]:
        """The lines to be printed: those of a text, or with --json what is told, and where that is."""
        if self.as_json:
            where = {"profile": self.store.profile, "directory": str(self.store.directory)}
            return [ascii_json({**where, **told})]
        return [clean(line) for line in text.splitlines()]

    def meant(self, wanted: str | None) -> Entry:
        """The snapshot that is meant: a list number, the beginning of an id, or the newest.  Raises `BadInput`."""
        entries = self.store.list()
        found = resumable(entries) if wanted is None or not entries else chosen(entries, wanted)
        if found is None:
            raise BadInput(f"there is no snapshot of profile {self.store.profile} in {self.store.directory}")
        return found


def _placed(command: Callable[..., list[str]]) -> Callable[..., int]:
    """The options that say whose snapshots are meant, and what goes wrong with these as an error of the command.

    Lines are printed here, after that: what the terminal or the next program in a pipe does is no fault of snapshots.
    """

    @click.option("--home", metavar="DIR", help="The home they are in.  [default: HERMES_HOME, else ~/.hermes]")
    @click.option("--profile", metavar="NAME", help="The profile they are of.  [default: that of the home]")
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
    @wraps(command)
    def placed(home: str | None, profile: str | None, as_json: bool, **more: Any) -> int:
        try:
            lines = command(place=_Place(_store(home, profile), as_json), **more)
        except SnapshotError as error:
            raise BadInput(str(error)) from None
        except OSError as error:
            raise RunFailed(f"the snapshots cannot be reached: {reason_of(error)}") from None
        for line in lines:
            click.echo(line)
        return 0

    return placed


@snapshots_command.command("list")
@_placed
def list_command(place: _Place) -> list[str]:
    """List them, the newest first.

    One that cannot be read is marked [CORRUPT].
    """
    entries = place.store.list()
    lines = [line_of(entry, number) for number, entry in enumerate(entries, 1)]
    head = f"profile {place.store.profile}, {place.store.directory}"
    return place.said("\n".join([f"{head}: {len(entries)}", *lines]), snapshots=[_told(entry) for entry in entries])


@snapshots_command.command("show")
@click.argument("id_", metavar="ID")
@_placed
def show_command(id_: str, place: _Place) -> list[str]:
    """Show one whole.

    ID is a number of the list, or the beginning of an id; digits alone are a number, unless there are six or more.
    """
    entry = place.meant(id_)
    snapshot = place.store.load(entry.id)
    return place.said(
        f"{entry.path}\n{shown(snapshot)}", id=entry.id, path=str(entry.path), snapshot=snapshot.as_json()
    )


@snapshots_command.command("restore")
@click.argument("id_", metavar="[ID]", required=False)
@click.option(
    "--tokens",
    "most",
    type=tokens,
    default=DEFAULT_TOKENS,
    metavar="N",
    show_default=True,
    help="At most; 200 or more.",
)
@_placed
def restore_command(id_: str | None, most: int, place: _Place) -> list[str]:
    """Print what a model is told of one.

    It can be given to a session.  ID is as for show; without one it is the newest.
    """
    if most < LEAST_TOKENS:
        raise BadInput(f"--tokens {most} is too little for any snapshot; give {LEAST_TOKENS} or more")
    entry = place.meant(id_)
    text = restored(place.store.load(entry.id), most)
    return place.said(text, id=entry.id, path=str(entry.path), text=text)


@snapshots_command.command("clear")
@click.argument("id_", metavar="ID|all")
@_placed
def clear_command(id_: str, place: _Place) -> list[str]:
    """Remove one, or all of the profile.

    ID is as for show; what is removed is named.
    """
    meant = place.store.list() if id_ == "all" else [place.meant(id_)]
    removed = place.store.clear() if id_ == "all" else place.store.clear(meant[0].id)
    gone = [entry for entry in meant if not os.path.lexists(entry.path)]
    return place.said(
        "\n".join([f"removed: {removed}", *map(named, gone)]),
        removed=removed,
        snapshots=[_told(entry) for entry in gone],
    )


def _store(home: str | None, profile: str | None) -> SnapshotStore:
    """The store that is meant.  A profile of the host has a home of its own, where no home is given.  Raises `BadInput`."""
    if profile is not None and not profile.strip():
        raise BadInput("--profile is empty; give the name of a profile, such as default")
    base = hermes_home(home)
    if home is None:
        named = profile if profile is not None else None if os.environ.get("HERMES_HOME", "").strip() else _active(base)
        base = _home_of(base, named)
    return SnapshotStore(base.absolute() / FOLDER, profile or resolve_profile(os.environ, base.absolute()))


def _active(base: Path) -> str | None:
    """The profile that the host works in where nothing else is said: the name in a file of its home."""
    try:
        return (base / "active_profile").read_text(encoding="utf-8").strip()[:100] or None
    except (OSError, ValueError):
        return None


def _home_of(base: Path, profile: str | None) -> Path:
    """The home of a profile beside or below this one, if it has one; otherwise this one."""
    root = base.parent.parent if base.parent.name == "profiles" else base
    if profile is None:
        return base
    if profile == "default":
        return root
    there = root / "profiles" / profile
    return there if there.parent == root / "profiles" and there.name == profile != ".." and there.is_dir() else base


def _told(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "session_id": entry.session_id,
        "reason": entry.reason,
        "timestamp": entry.timestamp,
        "path": str(entry.path),
        "corrupt": entry.corrupt,
        **({"problem": entry.problem} if entry.problem else {}),
    }
