"""The subcommands that run one session with several sets of engines."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from .errors import BadInput
from .experiment import HEADS, Trial, compare, rows_of, summary_of, try_out, unreached
from .options import tokens
from .replay import Settings
from .session import Session, read_session, read_stdin
from .setting import settings_of
from .terminal import ascii_json, tell

__all__ = ["bisim_command", "experiment_command"]

_NAME = 24  # columns in which the name of an engine is not broken on a narrow terminal
_WIDE = 100_000  # columns, where no terminal has a number of them
_session = click.argument("session", metavar="SESSION.jsonl")
_length = click.option(
    "--context-length",
    type=tokens,
    metavar="N",
    help="Tokens the model can hold.  [default: 128000, or the threshold if that is more]",
)
_threshold = click.option("--threshold", type=tokens, metavar="N", help="Tokens at which to compact.  [default: 75 %]")


@click.command("experiment")
@_session
@click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar="NAME,…",
    help="Engines of one arm, separated by commas; repeatable.  [default: compressor]",
)
@_length
@_threshold
@click.option("--json", "as_json", is_flag=True, help="Print the arms as one JSON object.")
def experiment_command(
    session: str, arms: tuple[str, ...], context_length: int | None, threshold: int | None, as_json: bool
) -> int:
    """Run a session with several sets of engines.

    Shows what each made of it, side by side; an arm that does not start is told, and the others are shown.
    """
    settings = [arm_of(arm, "--arm", context_length, threshold) for arm in arms or ("compressor",)]
    recorded = read(session)
    trials = [try_out(recorded, each) for each in settings]
    if as_json:
        click.echo(ascii_json({"session": recorded.name, "arms": [summary_of(trial) for trial in trials]}))
    else:
        _print(trials, f"{len(recorded.lines)} messages, threshold {settings[0].threshold:,} tokens")
    for trial in trials:
        for problem in trial.problems:
            tell(f"{', '.join(trial.engines)}: {problem}")
    results = [trial.result for trial in trials if trial.result is not None]
    if results:
        crossings = max(result["crossings"] for result in results)
        _note(unreached(crossings, settings[0].threshold, max(result["tokens"]["peak"] for result in results)))
    return 1 if any(trial.problems for trial in trials) else 0


def _print(trials: Sequence[Trial], title: str) -> None:
    """A table: as wide as the terminal, and where there is none as wide as it comes, for programs read that by words."""
    table = Table(box=SIMPLE, title=title, padding=(0, 1, 0, 0))
    longest = max(len(name) + 1 for trial in trials for name in trial.engines)  # with its comma
    table.add_column(HEADS[0], overflow="fold", min_width=min(longest, _NAME))
    for head in HEADS[1:]:
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows_of(trials):
        table.add_row(*row)
    drawn, screen = io.StringIO(), sys.stdout.isatty()  # written by itself it would end the process where nobody reads
    width = Console().width if screen else _WIDE
    Console(file=drawn, force_terminal=screen, highlight=False, width=width).print(table)
    click.echo(drawn.getvalue(), nl=False)


def _note(said: str | None) -> None:
    if said is not None:
        tell(said)


@click.command("bisim")
@_session
@click.option("--left", required=True, metavar="NAME,…", help="Engines of the one side, separated by commas.")
@click.option("--right", required=True, metavar="NAME,…", help="Engines of the other side.")
@_length
@_threshold
def bisim_command(session: str, left: str, right: str, context_length: int | None, threshold: int | None) -> int:
    """Tell where two sets of engines part, if they do.

    Runs a session with each, and compares what the loop says.
    """
    sides = [
        arm_of(given, option, context_length, threshold) for option, given in (("--left", left), ("--right", right))
    ]
    found = compare(read(session), *sides)
    if found.difference is None:
        click.echo(f"no difference in {found.same:,} steps")
    else:
        click.echo(f"the same for {found.same:,} steps, then {found.difference}")
    _note(unreached(found.crossings, sides[0].threshold, found.peak))
    return 0 if found.difference is None else 1


def arm_of(given: str, option: str, context_length: int | None, threshold: int | None) -> Settings:
    """The engines of one arm as settings; raises `BadInput`."""
    names = tuple(name.strip() for name in given.split(","))
    if not all(names):
        raise BadInput(f"{option} {given!r} names no engine, or has a comma too many; it is for example compressor")
    return settings_of(context_length, threshold, names, (), option)


def read(session: str) -> Session:
    """The session that is meant; `-` is what comes on stdin.  Raises `BadInput`."""
    return read_stdin() if session == "-" else read_session(Path(session))
