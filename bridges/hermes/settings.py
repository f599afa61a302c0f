"""The block `context.dataspace` in the host's config.yaml, and the switch that turns everything off.

Whatever is wrong in the block is said once, in the log, and costs that one setting: the default stands in.  An observer
has a block of its own in it, which is read by a class of its own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from attrs import Factory, evolve, field, frozen

from .blocks import boolean, choice, names, read_block, seconds, setting
from .host import load_config
from .observers import available, wanted

__all__ = ["Settings", "host_config", "read_settings"]

BEFORE = "before"
"""What the command `enable` remembers for `disable`; it is nothing to us."""

SWITCH = "HERMES_DATASPACE"
"""An environment variable; `off` is the kill switch."""

T = TypeVar("T")
log = logging.getLogger(__name__)


def _all_observers() -> tuple[str, ...]:
    return tuple(one.name for one in available())


@frozen
class Settings:
    """What is configured.

    `enabled` off leaves the hosted built-in compressor alone in charge.  `guard`: what becomes of a hosted engine's
    answer.  `engines`: who compacts, in the order in which they are asked; `builtin` is the host's own compressor,
    `compressor` ours, any other name a context engine written for the host.  `deadline`: seconds that one engine may
    take for an answer, `patience`: for anything else that the host's thread waits for.  `observers`: what runs beside them; `options` are their blocks, where there are any.
    """

    EXAMPLE = "guard"

    enabled: bool = setting(True, boolean, "write true or false")
    guard: Literal["repair", "record"] = setting("repair", choice("repair", "record"), "write repair or record")
    engines: tuple[str, ...] = setting(
        ("builtin",), names, "write a list of names without '#', as in [builtin, compressor]"
    )
    deadline: float = setting(300.0, seconds, "write a number of seconds above 0")
    patience: float = setting(5.0, seconds, "write a number of seconds above 0")
    observers: tuple[str, ...] = setting(Factory(_all_observers), names, "write a list of names, as in [skills]")
    options: tuple[object, ...] = field(default=())

    def of(self, cls: type[T]) -> T:
        """The block of an observer, by its class; its defaults where nothing is configured."""
        return next((block for block in self.options if isinstance(block, cls)), None) or cls()


def read_settings(config: Mapping[str, Any]) -> Settings:
    """The settings in the host's whole configuration; the switch in the environment wins."""
    context = config.get("context")
    block = context.get("dataspace") if isinstance(context, Mapping) else None
    where = "context.dataspace"
    settings = read_block(Settings, block, where, more=[*(one.block for one in available()), BEFORE])
    if os.environ.get(SWITCH, "").strip().lower() in {"off", "0", "false", "no"}:
        settings = evolve(settings, enabled=False)
    if not settings.enabled:
        return settings
    those = wanted(settings.observers)
    options: list[object] = [
        read_block(one.options, block[one.block], f"{where}.{one.block}")
        for one in available()
        if isinstance(block, Mapping) and one.block in block and one.options is not None
    ]
    return evolve(settings, observers=tuple(one.name for one in those), options=tuple(options))


def host_config() -> Mapping[str, Any]:
    """The host's configuration for the home that is current on this thread; empty where it cannot be read."""
    try:
        return load_config()
    except Exception as error:  # noqa: BLE001 - a broken configuration is the host's to report
        log.debug("the host's configuration could not be read: %r", error)
        return {}
