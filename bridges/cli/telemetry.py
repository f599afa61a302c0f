"""`hermes-dataspace telemetry`: looking at what was written down."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import click

from engines.telemetry import EpisodicLog
from engines.telemetry.history import Account, Past, accounts, read_logs
from engines.telemetry.lessons import Lesson, lessons
from engines.telemetry.place import expanded, local_log, logs_in

from .enabling import hermes_home
from .errors import BadInput, RunFailed
from .output import check_target, write_whole
from .session import reason_of, shown
from .telemetry_brain import log_of
from .telemetry_charts import amount
from .telemetry_report import page
from .terminal import ascii_json, clean, one_line, tell

__all__ = ["telemetry_command"]

_AGO = re.compile(r"(\d{1,6})\s*(s|m|min|h|d|w)")
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@click.group("telemetry", invoke_without_command=True)
@click.pass_context
def telemetry_command(context: click.Context) -> None:
    """Who did what, for which profile.

    Reads the logs that sessions have left.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _of_logs(command: Callable[..., int]) -> Callable[..., int]:
    """The options that say which entries are meant, read into `past` and `bad`."""

    @click.option("--home", metavar="DIR", help="The home whose logs are read.  [default: HERMES_HOME, else ~/.hermes]")
    @click.option("--brain", metavar="DIR", help="Read a portable brain's log instead.")
    @click.option("--log", "logs", multiple=True, metavar="FILE", help="Read this log instead; repeatable.")
    @click.option("--profile", metavar="NAME", help="Only what belongs to this profile.")
    @click.option(
        "--since", metavar="WHEN", help="Only from then on: a date, a time, or how long ago, as in 36h or 7d."
    )
    @wraps(command)
    def reading(
        home: str | None, brain: str | None, logs: Sequence[str], profile: str | None, since: str | None, **more: Any
    ) -> int:
        start = None if since is None else moment_of(since, datetime.now(UTC))
        paths = _paths(home, brain, logs)
        try:
            past, bad = read_logs(paths, profile=profile, since=start)
            there = past or read_logs(paths)[0]
        except OSError as error:
            raise BadInput(f"a log cannot be read: {shown(error.filename)}: {reason_of(error)}") from None
        code = command(past=past, bad=bad, **more)
        if not past:
            place = brain or home or str(hermes_home(None)) if not logs else ""
            tell(_why_none(paths, place, there, profile, since, bad))
        return code

    return reading


def _why_none(
    paths: Sequence[Path], place: str, there: Sequence[Past], profile: str | None, since: str | None, bad: int
) -> str:
    """What to say where no entry was found: what was looked for, where, and what there is."""
    if not paths:
        return f"there is no log below {shown(place)}; give another place with --home, --brain or --log"
    files = ", ".join(shown(path) for path in paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    if not there and bad:
        lines = "its one line is none" if bad == 1 else f"none of its {bad:,} lines is one"
        return f"there are no entries in {files}: {lines}; a log is a file that telemetry has written"
    if not there:
        return f"there are no entries in {files}"
    profiles = sorted({past.profile for past in there})
    if profile is not None and profile not in profiles:
        return f"there are no entries of profile {profile!r} in {files}; there are some of: {', '.join(profiles)}"
    return f"there are no entries since {since} in {files}; the latest is of {there[-1].at:%Y-%m-%d %H:%M} UTC"


def moment_of(text: str, now: datetime) -> datetime:
    """The instant that `--since` names; a time without an offset is local.  Raises `BadInput`."""
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago is not None:
            return now - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(
            f"--since {shown(text)} is neither a date or time such as 2026-05-01 or 2026-05-01T18:00, nor how long ago, as in"
            " 36h or 7d"
        ) from None


def _paths(home: str | None, brain: str | None, logs: Sequence[str]) -> list[Path]:
    """The files that are meant.  Raises `BadInput`."""
    if sum((home is not None, brain is not None, bool(logs))) > 1:
        raise BadInput("--home, --brain and --log each say what is read; give one of them")
    if logs:
        return [expanded(log) for log in logs]
    if brain is not None:
        path = log_of(brain)
        return [path] if path.exists() else []
    place = hermes_home(None) if home is None else expanded(home)
    if not place.is_dir():
        raise BadInput(f"there is no directory {shown(place)}; give the home whose logs are meant with --home")
    return logs_in(place)


# -- summary ----------------------------------------------------------------------------------------------------------

_COLUMNS = (
    ("sessions", "sessions"),
    ("turns", "turns"),
    ("prompt", "in"),
    ("completion", "out"),
    ("compactions", "compactions"),
    ("saved", "saved"),
    ("waited", "waited-s"),
    ("skills_loaded", "loaded"),
    ("deduplicated", "deduplicated"),
    ("pruned", "pruned"),
    ("failures", "failures"),
)


@telemetry_command.command("summary")
@_of_logs
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def summary_command(past: list[Past], bad: int, as_json: bool) -> int:
    """What each profile has used and gained.

    Sessions, tokens, compactions, skills and failures of each.
    """
    told = accounts(past)
    if as_json:
        click.echo(
            ascii_json({"profiles": {one.profile: one.told() for one in told}, "entries": len(past), "unreadable": bad})
        )
        return 0
    for line in _table(told):
        click.echo(line)
    for note in _notes(told, bad):
        click.echo(note)
    return 0


def _table(told: Sequence[Account]) -> list[str]:
    if not told:
        return []
    rows = [["profile", *(title for _, title in _COLUMNS)]]
    for account in told:
        values = account.told()
        rows.append([one_line(account.profile, 40), *(amount(values[name]) for name, _ in _COLUMNS)])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


def _notes(told: Sequence[Account], bad: int) -> list[str]:
    open_, lost = sum(one.open for one in told), sum(one.lost for one in told)
    said = []
    if open_:
        said.append(f"{open_} of the sessions have no end in the log; what it tells of them is counted.")
    if lost:
        said.append(f"{lost} entries were dropped while a disk stalled; sums of ended sessions hold all the same.")
    if bad:
        said.append(f"{bad} lines are no entries and were passed over.")
    return said


# -- tail, cluster, report --------------------------------------------------------------------------------------------


@telemetry_command.command("tail")
@_of_logs
@click.option(
    "-n", "--lines", "count", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="So many."
)
@click.option("--json", "as_json", is_flag=True, help="Print the entries as they are, one a line.")
def tail_command(past: list[Past], bad: int, count: int, as_json: bool) -> int:
    """The latest entries, the last one last."""
    del bad
    for one in past[-count:]:
        click.echo(ascii_json(one.entry) if as_json else _told(one))
    return 0


def _told(past: Past) -> str:
    entry = past.entry
    mark = "failed" if past.failed else "ok"
    action, detail = (
        one_line(str(entry.get(name) or ""), length) for name, length in (("action", 80), ("detail", 160))
    )
    return f"{past.at:%Y-%m-%d %H:%M:%S}  {clean(past.profile)}  {mark:<6}  {action}" + (
        f"  {detail}" if detail else ""
    )


@telemetry_command.command("cluster")
@_of_logs
@click.option("--per-profile", is_flag=True, help="Keep profiles apart: no lesson holds entries of two.")
@click.option(
    "--least", type=click.IntRange(min=1), default=2, show_default=True, metavar="N", help="Entries a lesson has."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def cluster_command(past: list[Past], bad: int, per_profile: bool, least: int, as_json: bool) -> int:
    """What came again and again.

    The weightiest first.
    """
    del bad
    found = lessons(past, per_profile=per_profile, least=least)
    if as_json:
        click.echo(ascii_json({"lessons": [_lesson(one) for one in found]}))
        return 0
    if not found and past:
        click.echo("Nothing came again.")
    for one in found:
        names = clean(", ".join(one.profiles))
        click.echo(f"{one.weight:>6.2f}  {one.count}x, {one.failures} failed  [{names}]  {one_line(one.claim, 160)}")
    return 0


def _lesson(one: Lesson) -> dict[str, Any]:
    told = {"claim": one.claim, "profiles": list(one.profiles), "count": one.count, "failures": one.failures}
    return {**told, "weight": one.weight, "words": list(one.words), "evidence_ids": list(one.evidence)}


@telemetry_command.command("report")
@_of_logs
@click.option("--out", metavar="FILE", required=True, help="Write the page here.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as one JSON object.")
def report_command(past: list[Past], bad: int, out: str, as_json: bool) -> int:
    """A page with charts, in one HTML file.

    It needs nothing else.
    """
    check_target("--out", out, None)
    text = page(past, bad=bad, made=datetime.now(UTC))
    write_whole(Path(out), text)
    told = {"file": out, "entries": len(past), "bytes": len(text.encode("utf-8"))}
    click.echo(json.dumps(told) if as_json else f"{shown(Path(out))}: {len(past)} entries; open it in a browser.")
    return 0


# -- writing ----------------------------------------------------------------------------------------------------------


@telemetry_command.command("append")
@click.option("--home", metavar="DIR", help="The home whose log is written to.  [default: HERMES_HOME, else ~/.hermes]")
@click.option("--brain", metavar="DIR", help="Write to a portable brain's log instead.")
@click.option("--json", "as_json", is_flag=True, help="Print the entry as it was written.")
def append_command(home: str | None, brain: str | None, as_json: bool) -> int:
    """Append what comes on stdin to the log.

    An entry, or what a tool hook is given, as JSON; for hooks of other programs.
    """
    if home is not None and brain is not None:
        raise BadInput("--home and --brain each say what is written to; give one of them")
    env = dict(os.environ)
    if brain is not None:
        path = log_of(brain)
    else:
        place = hermes_home(home and str(expanded(home)))
        path, env["HERMES_HOME"] = local_log(place), str(place)  # it is the home that says whose log it is
    try:
        entry = EpisodicLog(path, env=env).append(sys.stdin.buffer.read())
    except OSError as error:
        raise RunFailed(f"{shown(path)} cannot be written to: {reason_of(error)}") from None
    if as_json:
        click.echo(ascii_json(entry))
    return 0
