"""`enable` and `disable`: the two lines in the host's config.yaml, with everything else in it left as it was.

Comments, order and style of the file survive, for it belongs to its user.  What changes is decided on the plain mapping.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from .errors import BadInput
from .output import write_whole
from .session import reason_of, shown

__all__ = ["Config", "disable", "enable", "hermes_home", "read_config", "write_config"]

NAME = "dataspace"
OWN_ENGINES = frozenset({"", "compressor", NAME})
"""What `context.engine` may be without anybody else's engine being in charge."""


@frozen
class Config:
    """A configuration file that was read: its contents may be changed, then written back."""

    path: Path
    data: MutableMapping[str, Any]
    existed: bool


def hermes_home(given: str | None) -> Path:
    """The home that is meant: the one given, `HERMES_HOME`, or where the host has it by default.  Raises `BadInput`."""
    if given is not None and not given.strip():
        raise BadInput("--home is empty; give the directory that holds Hermes' config.yaml")
    named = given or os.environ.get("HERMES_HOME", "").strip()
    home = Path(named).expanduser() if named else _default_home()
    if not home.is_dir():
        raise BadInput(
            f"there is no Hermes home at {shown(home)}; start hermes once, or give its directory with --home"
        )
    return home


def read_config(home: Path) -> Config:
    """The file `config.yaml` of a home; an empty one where there is none.  Raises `BadInput`."""
    path = home / "config.yaml"
    named = shown(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Config(path, {}, existed=False)
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot be read ({reason_of(error)}); mend it first", file=named) from None
    try:
        data = _yaml().load(text)
    except Exception as error:  # noqa: BLE001 - a parser has many ways to fail
        told = " ".join(str(getattr(error, "problem", None) or error).split())
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise BadInput(f"is not YAML ({told}); mend it first", file=named, line=line) from None
    if data is None:
        return Config(path, {}, existed=True)
    if not isinstance(data, MutableMapping):
        raise BadInput("holds no settings but a list or a bare value; mend it first", file=named)
    return Config(path, data, existed=True)


def write_config(config: Config) -> None:
    """Put the file in its place in one step.  Raises `RunFailed`."""
    text = io.StringIO()
    _yaml().dump(config.data, text)
    write_whole(config.path, text.getvalue())


def enable(config: MutableMapping[str, Any], engines: Sequence[str] = ()) -> list[str]:
    """Make the dataspace the context engine, and `engines` those that compact; returns what was changed.

    Raises `BadInput` where another engine is in charge and nobody said what is to become of it.
    """
    context = _block(config, "context")
    plugins = _block(config, "plugins")
    present = str(context.get("engine") or "")
    enabled = _names(plugins, "enabled")
    if present not in OWN_ENGINES and not engines:
        others = ", ".join(name for name in enabled if name != NAME) or "none"
        raise BadInput(
            f"context.engine is {present} now. To go on with it behind the dataspace give its plugin's name with --engine"
            f" (enabled plugins: {others}); to go back to Hermes' own compressor give --engine builtin"
        )
    changed = []
    if present != NAME:
        context["engine"] = NAME
        changed.append("context.engine: dataspace" + (f" (was {present})" if present else ""))
    if engines:
        block = _block(context, NAME)
        if list(block.get("engines") or ()) != list(engines):
            block["engines"] = list(engines)
            changed.append(f"context.dataspace.engines: [{', '.join(engines)}]")
    for name in [name for name in enabled if name in engines]:  # the host takes one context engine, and hosts no second
        enabled.remove(name)
        changed.append(f"plugins.enabled without {name}, which is hosted by the dataspace from now on")
    if NAME not in enabled:
        enabled.append(NAME)
        changed.append("plugins.enabled with dataspace")
    if NAME in _names(plugins, "disabled", make=False):
        plugins["disabled"].remove(NAME)
        changed.append("plugins.disabled without dataspace")
    return changed


def disable(config: MutableMapping[str, Any]) -> list[str]:
    """Take back what `enable` does; settings in the block `context.dataspace` stay.  Returns what was changed."""
    changed = []
    context, plugins = config.get("context"), config.get("plugins")
    if isinstance(context, MutableMapping) and context.get("engine") == NAME:
        del context["engine"]
        changed.append("context.engine: Hermes' own")
    if isinstance(plugins, MutableMapping):
        enabled = _names(plugins, "enabled", make=False)
        if NAME in enabled:
            enabled.remove(NAME)
            changed.append("plugins.enabled without dataspace")
    return changed


def _block(config: MutableMapping[str, Any], name: str) -> MutableMapping[str, Any]:
    found = config.get(name)
    if found is None:
        config[name] = found = {}
    if not isinstance(found, MutableMapping):
        raise BadInput(f"{name} in config.yaml is {found!r}, where a block of settings belongs; mend it first")
    return found


def _names(block: MutableMapping[str, Any], name: str, *, make: bool = True) -> list[Any]:
    found = block.get(name)
    if found is None:
        found = []
        if make:
            block[name] = found
    if isinstance(found, str):
        block[name] = found = [found]
    if not isinstance(found, list):
        raise BadInput(f"plugins.{name} in config.yaml is {found!r}, where a list of names belongs; mend it first")
    return found


def _default_home() -> Path:
    local = os.environ.get("LOCALAPPDATA", "").strip()
    if sys.platform == "win32":
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "hermes"
    return Path.home() / ".hermes"


def _yaml() -> Any:
    try:
        from ruamel.yaml import YAML  # noqa: PLC0415 - only these two subcommands need it
    except ImportError:
        raise BadInput("reading config.yaml needs ruamel.yaml; run: pip install 'hermes-dataspace[cli]'") from None
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096  # long lines stay lines
    return yaml
