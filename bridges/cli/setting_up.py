"""The subcommands that set up a Hermes home and look whether it is set up well."""

from __future__ import annotations

import click

from .doctor import examine, missing_engines
from .enabling import Config, disable, enable, hermes_home, read_config, write_config
from .errors import BadInput
from .session import shown
from .terminal import tell

__all__ = ["disable_command", "doctor_command", "enable_command"]

_home = click.option("--home", metavar="DIR", help="Hermes' home.  [default: HERMES_HOME, else ~/.hermes]")
_dry = click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")


@click.command("enable")
@_home
@click.option("--engine", "engines", multiple=True, metavar="NAME", help="Engine that compacts; repeatable, in order.")
@_dry
def enable_command(home: str | None, engines: tuple[str, ...], dry_run: bool) -> int:
    """Choose it as Hermes' context engine.

    Writes that into Hermes' config.yaml.
    """
    if any(not name.strip() or "#" in name for name in engines):
        raise BadInput("--engine takes a name such as builtin, compressor or that of a plugin")
    place = hermes_home(home)
    config = read_config(place)
    code = _put(config, enable(config.data, engines), dry_run, "Start hermes anew, then: hermes-dataspace doctor")
    for problem, todo in missing_engines(engines, place):
        tell(f"{problem}. {todo}; until then it is passed over")
    return code


@click.command("disable")
@_home
@_dry
def disable_command(home: str | None, dry_run: bool) -> int:
    """Give Hermes back the engine it had.

    Settings of engines stay in the file.
    """
    config = read_config(hermes_home(home))
    return _put(config, disable(config.data), dry_run, "Start hermes anew.")


@click.command("doctor")
@_home
def doctor_command(home: str | None) -> int:
    """Look whether Hermes will run on it.

    Says what to do where it will not; changes nothing.
    """
    place = hermes_home(home)
    click.echo(f"Hermes' home: {shown(place)}")
    findings = examine(place)
    for finding in findings:
        click.echo(f"{finding.mark:>4}  {finding.what}" + (f"\n      {finding.todo}" if finding.todo else ""))
    return 1 if any(finding.bad for finding in findings) else 0


def _put(config: Config, changed: list[str], dry_run: bool, after: str) -> int:
    named = shown(config.path)
    if not changed:
        click.echo(f"{named}: nothing to change")
        return 0
    click.echo(f"{named}:")
    for change in changed:
        click.echo(f"  {change}")
    if dry_run:
        click.echo("Nothing was changed.")
        return 0
    write_config(config)
    click.echo(after)
    return 0
