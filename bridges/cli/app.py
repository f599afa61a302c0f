"""The command line: what can be said, and what is done for it."""

from __future__ import annotations

import os
import shlex
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import click
from attrs import evolve

from .belongings import belongings
from .errors import BadInput, ReaderGone
from .kinds import KINDS
from .options import seconds, tokens
from .output import check_target, write_whole
from .perform import perform
from .session import parse_session, read_session, read_stdin, shown, stdin_descriptor
from .setting import settings_of
from .setting_up import disable_command, doctor_command, enable_command
from .snapshots import snapshots_command
from .swaps import check_swaps
from .telemetry import telemetry_command
from .telemetry_brain import with_brain
from .terminal import tell
from .tracing import chain, chosen, facts_at_end, read_trace, told, why_none
from .trying import bisim_command, experiment_command

__all__ = ["command"]

_DEMO_SWAP = "c2:compressor=compressor#b"
_DEMO_TELLS = (
    "Whenever the context reached the threshold, the run loop asked and an engine answered.",
    "Just before crossing 2, compressor#b took over from compressor while the session ran.",
)
_DEMO_NEXT = (
    "What to try next: leave nobody to ask for a while; then a session of your own.",
    "  hermes-dataspace demo --swap c2:compressor= --swap 150:=compressor#b",
    "  hermes-dataspace replay SESSION.jsonl --threshold 20000 --out OUT.jsonl",
)
_DEMO_KEPT = (
    "What was kept of it:",
    "  hermes-dataspace snapshots list --home {home}",
    "  hermes-dataspace telemetry summary --home {home}",
)


class _Command(click.Group):
    """The group of all subcommands; `click` by itself would make a failure of a pipe whose reader has gone."""

    def invoke(self, ctx: click.Context) -> object:
        """Run what was asked for; raises `ReaderGone`."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderGone from None


@click.group(cls=_Command, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("hermes-dataspace"), prog_name="hermes-dataspace")
@click.pass_context
def command(context: click.Context) -> None:
    """Context engines for agents, observed at work."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@command.command()
@click.argument("session", metavar="SESSION.jsonl")
@click.option(
    "--context-length",
    type=tokens,
    metavar="N",
    help="Tokens the model can hold.  [default: 128000, or the threshold if that is more]",
)
@click.option("--threshold", type=tokens, metavar="N", help="Tokens at which to compact.  [default: 75 % of that]")
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="NAME",
    help=f"Engine to plug: {', '.join(KINDS)}, or package.module:function; repeatable.  [default: all of ours]",
)
@click.option(
    "--swap",
    "swaps",
    multiple=True,
    metavar="AT:OLD=NEW",
    help="Swap engines before line AT, or before crossing N with cN; repeatable.",
)
@click.option("--profile", metavar="NAME", help="Profile that the session belongs to.  [default: as in Hermes]")
@click.option(
    "--home", metavar="DIR", help="Directory where engines keep snapshots and logs.  [default: they keep none]"
)
@click.option("--brain", metavar="DIR", help="Portable brain that is to learn of it.  [default: none]")
@click.option("--out", metavar="FILE", help="Write the final message list here.")
@click.option("--trace", metavar="FILE", help="Write every turn here, as JSON lines; also if the run fails.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("--pace", type=seconds, default=0.0, metavar="SECONDS", help="Pause after each line, on a terminal.")
def replay(
    session: str,
    context_length: int | None,
    threshold: int | None,
    engines: tuple[str, ...],
    swaps: tuple[str, ...],
    profile: str | None,
    home: str | None,
    brain: str | None,
    out: str | None,
    trace: str | None,
    as_json: bool,
    pace: float,
) -> int:
    """Run a recorded session, with real engines.

    It goes through the run loop as it would have gone live; `-` is what comes on stdin.
    """
    settings = evolve(settings_of(context_length, threshold, engines, swaps), **belongings(profile, home))
    settings = with_brain(settings, brain)
    read = read_stdin() if session == "-" else read_session(Path(session))
    source = stdin_descriptor() if session == "-" else Path(session)
    for option, target in (("--out", out), ("--trace", trace)):
        if target is not None:
            check_target(option, target, source)
    if out is not None and trace is not None and os.path.realpath(out) == os.path.realpath(trace):
        raise BadInput(f"--out and --trace are the same file, {trace}; give each its own")
    check_swaps(settings.swaps, settings.engines, read.length)
    files_ = [None if target is None else Path(target) for target in (out, trace)]
    return perform(read, settings, out=files_[0], trace=files_[1], as_json=as_json, pace=pace)


@command.command()
@click.option(
    "--swap", "swaps", multiple=True, metavar="AT:OLD=NEW", help="Swap otherwise than the demo does; repeatable."
)
@click.option(
    "--pace",
    type=seconds,
    default=0.01,
    metavar="SECONDS",
    show_default=True,
    help="Pause after each line, on a terminal.",
)
@click.option(
    "--home", metavar="DIR", help="Directory where engines keep snapshots and logs.  [default: they keep none]"
)
@click.option("--brain", metavar="DIR", help="Portable brain that is to learn of it.  [default: none]")
@click.option("--save", metavar="FILE", help="Write the session to FILE instead, for the other subcommands.")
def demo(swaps: tuple[str, ...], pace: float, home: str | None, brain: str | None, save: str | None) -> int:
    """Replay the session that comes along.

    It crosses the threshold several times, and engines are swapped in between.
    """
    recording = files("bridges.cli").joinpath("demo.jsonl").read_bytes()
    if save is not None:
        return _save(recording, save)
    session = parse_session(recording, file="demo.jsonl", name="demo")
    settings = evolve(settings_of(32_000, 20_000, (), swaps or (_DEMO_SWAP,)), **belongings(None, home))
    settings = with_brain(settings, brain)
    check_swaps(settings.swaps, settings.engines, session.length)
    kept = () if settings.home is None else tuple(line.format(home=shown(settings.home)) for line in _DEMO_KEPT)
    return perform(session, settings, pace=pace, closing=_DEMO_TELLS[: 1 if swaps else 2] + _DEMO_NEXT + kept)


def _save(recording: bytes, target: str) -> int:
    check_target("--save", target, None)
    write_whole(Path(target), recording.decode("utf-8"))
    click.echo(f"{shown(target)}: the session of the demo; --threshold 20000 makes it cross.  Next:")
    click.echo(f"  hermes-dataspace replay {shlex.quote(shown(target))} --threshold 20000")
    return 0


@command.command()
@click.argument("file", metavar="TRACE.jsonl", type=click.Path(path_type=Path))
@click.option("--actor", metavar="NAME", help="Only turns of this actor.")
@click.option("--session", "sid", metavar="SID", help="Only turns about this session.")
@click.option("--why", type=click.IntRange(min=1), metavar="N", help="Only turn N and what led to it, from outside in.")
@click.option("--facts", is_flag=True, help="Show the facts that stand at the end instead.")
def trace(file: Path, actor: str | None, sid: str | None, why: int | None, facts: bool) -> int:
    """Show what `replay --trace` has written.

    Who acted, why, what was done and who was told.
    """
    turns = read_trace(file)
    if why is not None:
        turns = chain(turns, why)
    shown_ = turns if facts else chosen(turns, actor, sid)
    for line in facts_at_end(turns) if facts else told(shown_):
        click.echo(line)
    if not shown_:
        tell(why_none(turns, actor, sid))
    return 0


for _subcommand in (
    *(experiment_command, bisim_command, enable_command, disable_command, doctor_command),
    *(snapshots_command, telemetry_command),
):
    command.add_command(_subcommand)
