"""The block `context.dataspace` in the host's config.yaml, and the switch that turns everything off.

Whatever is wrong in the block is said once, in the log, and costs that one setting: the default stands in.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from threading import Lock
from typing import Any, Literal

from attrs import field, fields, frozen

from .host import load_config

__all__ = ["Settings", "host_config", "read_settings"]

SWITCH = "HERMES_DATASPACE"
"""An environment variable; `off` is the kill switch."""

log = logging.getLogger(__name__)
_said: set[str] = set()
_lock = Lock()


@frozen
class Settings:
    """What is configured.

    `enabled` off leaves the hosted built-in compressor alone in charge.  `guard`: what becomes of a hosted engine's
    answer.  `engines`: who compacts, in the order in which they are asked; `builtin` is the host's own compressor,
    `compressor` ours, any other name a context engine written for the host.  `deadline`: seconds that one engine may
    take for an answer.
    """

    enabled: bool = True
    guard: Literal["repair", "record"] = "repair"
    engines: tuple[str, ...] = ("builtin",)
    deadline: float = field(default=300.0)


NAMES = tuple(attribute.name for attribute in fields(Settings))


def read_settings(config: Mapping[str, Any]) -> Settings:
    """The settings in the host's whole configuration; the switch in the environment wins."""
    block = _block(config)
    unknown = sorted(str(name) for name in block if name not in NAMES)
    if unknown:
        _warn(
            f"context.dataspace: unknown setting {', '.join(unknown)} in config.yaml is ignored; known are {', '.join(NAMES)}"
        )
    told: dict[str, Any] = {}
    for name, read in _READERS.items():
        if name in block:
            value = read(block[name])
            if value is None:
                _warn(
                    f"context.dataspace.{name}: {block[name]!r} is ignored; {_EXPECTED[name]}. The default is"
                    f" {_shown(getattr(Settings(), name))}"
                )
            else:
                told[name] = value
    if os.environ.get(SWITCH, "").strip().lower() in {"off", "0", "false", "no"}:
        told["enabled"] = False
    return Settings(**told)


def host_config() -> Mapping[str, Any]:
    """The host's configuration for the home that is current on this thread; empty where it cannot be read."""
    try:
        return load_config()
    except Exception as error:  # noqa: BLE001 - a broken configuration is the host's to report
        log.debug("the host's configuration could not be read: %r", error)
        return {}


def _block(config: Mapping[str, Any]) -> Mapping[str, Any]:
    context = config.get("context")
    block = context.get("dataspace") if isinstance(context, Mapping) else None
    if block is None:
        return {}
    if isinstance(block, Mapping):
        return block
    if isinstance(block, bool):  # `dataspace: false` can mean only one thing
        return {"enabled": block}
    _warn(f"context.dataspace: {block!r} is ignored; write a block of settings, as in `dataspace: {{guard: repair}}`")
    return {}


def _boolean(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}.get(
        str(value).strip().lower()
    )


def _guard(value: Any) -> str | None:
    return value if value in {"repair", "record"} else None


def _names(value: Any) -> tuple[str, ...] | None:
    named = [value] if isinstance(value, str) else value
    if not isinstance(named, (list, tuple)):
        return None
    if not all(isinstance(name, str) and name.strip() and "#" not in name for name in named):
        return None
    return tuple(dict.fromkeys(name.strip() for name in named))


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        return None
    return float(value)


_READERS = {"enabled": _boolean, "guard": _guard, "engines": _names, "deadline": _seconds}
_EXPECTED = {
    "enabled": "write true or false",
    "guard": "write repair or record",
    "engines": "write a list of names without '#', as in [builtin, compressor]",
    "deadline": "write a number of seconds above 0",
}


def _shown(value: Any) -> str:
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else str(value).lower()


def _warn(text: str) -> None:
    """Say it once in this process: the settings are read for every agent."""
    with _lock:
        if text in _said:
            return
        _said.add(text)
    log.warning("%s", text)
