"""`enable` and `disable`: the two lines in the host's config.yaml, with everything else in it left as it was.

What was there before is remembered in the file, as `context.dataspace.before`, so that it can be given back.  How comments,
order and style of the file survive is in `yaml_text`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from .errors import BadInput
from .output import write_whole
from .session import reason_of, shown
from .yaml_text import dumped, exchange, keep_flow, load, prune, put, put_before, remark

__all__ = ["Config", "disable", "enable", "hermes_home", "read_config", "write_config"]

NAME = "dataspace"
BEFORE = "before"
"""The block in which `enable` remembers what `disable` gives back."""
OWN_ENGINES = frozenset({"", "compressor", NAME})
"""What `context.engine` may be without anybody else's engine being in charge."""


@frozen
class Config:
    """A configuration file that was read: its contents may be changed, then written back."""

    path: Path
    data: MutableMapping[str, Any]
    existed: bool
    text: str = ""


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
        data = load(text)
    except Exception as error:
        if isinstance(error, BadInput):
            raise
        told = " ".join(str(getattr(error, "problem", None) or error).split())
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise BadInput(f"is not YAML ({told}); mend it first", file=named, line=line) from None
    if data is None:
        return Config(path, {}, existed=True, text=text)
    if not isinstance(data, MutableMapping):
        raise BadInput("holds no settings but a list or a bare value; mend it first", file=named)
    return Config(path, data, existed=True, text=text)


def write_config(config: Config) -> None:
    """Put the file in its place in one step; one in which nothing is left is removed.  Raises `RunFailed`."""
    text = dumped(config.data, config.text)
    if text or not config.existed or config.path.is_symlink():
        write_whole(config.path, text)
    else:
        config.path.unlink(missing_ok=True)


def enable(config: MutableMapping[str, Any], engines: Sequence[str] = ()) -> list[str]:
    """Make the dataspace the context engine, and `engines` those that compact; returns what was changed.

    What it puts out of place is remembered in the file, for `disable`.  Raises `BadInput` where another engine is in charge
    and nobody said what is to become of it.
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
        if present:
            _former(context)["engine"] = context["engine"]
        put(context, "engine", NAME)
        changed.append("context.engine: dataspace" + (f" (was {present})" if present else ""))
    if engines:
        block = _settings(context)
        if list(block.get("engines") or ()) != list(engines):
            block["engines"] = list(engines)
            changed.append(f"context.dataspace.engines: [{', '.join(engines)}]")
    hosted = [name for name in enabled if name in engines]  # the host takes one context engine, and hosts no second
    if hosted:
        former = _former(context)
        former["plugins"] = [*former.get("plugins", ()), *hosted]
        changed += [f"plugins.enabled without {name}, which is hosted by the dataspace from now on" for name in hosted]
    if NAME not in enabled:
        changed.append("plugins.enabled with dataspace")
    exchange(enabled, hosted, [] if NAME in enabled else [NAME])
    if NAME in _names(plugins, "disabled", make=False):
        plugins["disabled"].remove(NAME)
        changed.append("plugins.disabled without dataspace")
    return changed


def disable(config: MutableMapping[str, Any]) -> list[str]:
    """Take back what `enable` does: the engine and plugins that were there are there again.  Returns what was changed.

    Other settings in the block `context.dataspace` stay.
    """
    changed = []
    context, plugins = config.get("context"), config.get("plugins")
    back: list[Any] = []
    if isinstance(context, MutableMapping) and context:
        former = _taken(context)
        if context.get("engine") == NAME:
            engine = former.get("engine") or ""
            back = _names(former, "plugins", make=False)
            if engine or remark(context, "engine"):  # a comment needs its line
                put(context, "engine", engine or "compressor")
            else:
                del context["engine"]
            changed.append(f"context.engine: {engine}" if engine else "context.engine: Hermes' own")
        prune(config, "context")
    enabled = _names(plugins, "enabled", make=False) if isinstance(plugins, MutableMapping) else []
    if NAME in enabled:
        back = [name for name in back if name not in enabled]
        exchange(enabled, [NAME], back)
        changed.append("plugins.enabled without dataspace")
        changed += [f"plugins.enabled with {name}" for name in back]
        prune(config["plugins"], "enabled")
        prune(config, "plugins")
    return changed


def _settings(context: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The block of the dataspace in `context`, made before the line of the engine, behind which comments may follow."""
    found = context.get(NAME)
    if isinstance(found, bool):  # short for this
        context[NAME] = {"enabled": found}
    elif found is None and NAME not in context:
        put_before(context, "engine", NAME, {})
    return _block(context, NAME)


def _former(context: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What was there before, as far as it is remembered; made if need be."""
    return _block(_settings(context), BEFORE)


def _taken(context: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What was there before, taken out of the file; empty where nothing is remembered."""
    block = context.get(NAME)
    if not isinstance(block, MutableMapping) or BEFORE not in block:
        return {}
    found = block.pop(BEFORE)
    prune(context, NAME, ours=True)
    return found if isinstance(found, MutableMapping) else {}


def _block(config: MutableMapping[str, Any], name: str) -> MutableMapping[str, Any]:
    found = config.get(name)
    if found is None:
        config[name] = found = {}
    if not isinstance(found, MutableMapping):
        raise BadInput(f"{name} in config.yaml is {found!r}, where a block of settings belongs; mend it first")
    keep_flow(found)
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
