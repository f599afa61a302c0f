"""Looking at a Hermes home: will the host find the plugin, choose it, and understand its settings?"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attrs import frozen

from engines.named import is_named, maker

from .enabling import NAME, read_config
from .errors import BadInput
from .terminal import one_line

__all__ = ["Finding", "examine", "missing_engines"]

KNOWN_HOSTS = ("0.19.0",)
"""Releases of the host that the adapter is tested with."""

GROUP = "hermes_agent.plugins"


@frozen
class Finding:
    """What was looked at; `todo` says what to do about it, `bad` that it will not work as it is."""

    what: str
    todo: str = ""
    bad: bool = False

    @property
    def mark(self) -> str:
        """How it went, in a word."""
        return "bad" if self.bad else "mind" if self.todo else "ok"


def examine(home: Path) -> list[Finding]:
    """Look at everything; what cannot be read is a finding too."""
    found = [*_installed(), *_switches()]
    try:
        config = read_config(home)
    except BadInput as error:
        return [*found, Finding(str(error), "Mend the file; the host cannot read it either.", bad=True)]
    if not config.existed:
        return [*found, Finding("there is no config.yaml", "Run: hermes-dataspace enable", bad=True)]
    return [*found, *_chosen(config.data), *_settings(config.data, home), *_writable(home)]


def _installed() -> Iterator[Finding]:
    yield Finding(f"hermes-dataspace {version('hermes-dataspace')}, Python {sys.version.split()[0]}")
    try:
        host = version("hermes-agent")
    except PackageNotFoundError:
        yield Finding(
            "hermes-agent is not installed in this environment",
            "Install hermes-dataspace into the environment that Hermes runs in, and run this command from there.",
            bad=True,
        )
    else:
        tested = ", ".join(KNOWN_HOSTS)
        todo = "" if host in KNOWN_HOSTS else f"It is tested with {tested}; with other releases look closely."
        yield Finding(f"hermes-agent {host}", todo)
    if any(entry.name == NAME for entry in entry_points(group=GROUP)):
        yield Finding("the plugin's entry point is installed")
    else:
        yield Finding("the plugin's entry point is missing", "Install hermes-dataspace again with pip.", bad=True)


def _switches() -> Iterator[Finding]:
    if os.environ.get("HERMES_SAFE_MODE", "").strip().lower() in {"1", "true", "yes", "on"}:
        yield Finding("HERMES_SAFE_MODE is set", "Unset it: with it Hermes loads no plugin.", bad=True)
    if os.environ.get("HERMES_DATASPACE", "").strip().lower() in {"off", "0", "false", "no"}:
        yield Finding("HERMES_DATASPACE is off", "Unset it: with it Hermes' own compressor works alone.", bad=True)


def _chosen(config: Mapping[str, Any]) -> Iterator[Finding]:
    enable = "Run: hermes-dataspace enable"
    plugins, context = _mapping(config, "plugins"), _mapping(config, "context")
    enabled, disabled = _list(plugins, "enabled"), _list(plugins, "disabled")
    if NAME in disabled:
        yield Finding("plugins.disabled names dataspace", enable, bad=True)
    elif NAME in enabled:
        yield Finding("plugins.enabled names dataspace")
    else:
        yield Finding("plugins.enabled does not name dataspace", enable, bad=True)
    engine = context.get("engine")
    if engine == NAME:
        yield Finding("context.engine is dataspace")
    else:
        yield Finding(f"context.engine is {engine or 'not set'}", enable, bad=True)
    compression = _mapping(config, "compression")
    if str(compression.get("enabled")).lower() in {"false", "no", "off"}:
        yield Finding("compression.enabled is false", "Nothing will be compacted until you set it to true.")
    for name in _list(_mapping(config, "context").get(NAME) or {}, "engines"):
        if name in enabled:
            yield Finding(
                f"{name} is in plugins.enabled and in context.dataspace.engines",
                f"Take it out of plugins.enabled: it would be refused there, and is hosted here. (--engine {name} does so)",
            )


def _settings(config: Mapping[str, Any], home: Path) -> Iterator[Finding]:
    """The block, read as the adapter reads it, with what the adapter would say of it."""
    from bridges.hermes.settings import read_settings  # noqa: PLC0415 - the other commands do without

    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("bridges.hermes")
    log.addHandler(handler)
    propagate, log.propagate = log.propagate, False
    try:
        settings = read_settings(config)
    finally:
        log.propagate = propagate
        log.removeHandler(handler)
    for warning in told:
        yield Finding(warning, "Correct it in config.yaml.", bad=True)
    if not settings.enabled and "HERMES_DATASPACE" not in os.environ:
        yield Finding("context.dataspace.enabled is false", "Hermes' own compressor works alone until it is true.")
    yield Finding(f"engines in the order in which they are asked: {', '.join(settings.engines) or 'none'}")
    missing = missing_engines(settings.engines, home)
    rest = "the others serve" if len(missing) < len(settings.engines) else "Hermes' own compressor (builtin) stands in"
    for problem, todo in missing:
        yield Finding(problem, f"{todo}; until then {rest}.")
    yield from _observers(settings.observers)


def missing_engines(names: Iterable[str], home: Path) -> list[tuple[str, str]]:
    """Which of these engines cannot be had in a home: what is wrong with each, and what to do."""
    known = {"builtin", "compressor", *(entry.name for entry in entry_points(group=GROUP))}
    found = []
    for name in names:
        if is_named(name):
            why = _failure(partial(maker, name))
            if why:
                found.append(
                    (f"the engine {name} cannot be loaded ({why})", "Correct its name, or install its package")
                )
        elif name not in known and not (home / "plugins" / name).is_dir():
            todo = f"Install it, or put it into plugins/{name} of the home"
            found.append((f"the engine {name} is no installed plugin", todo))
    return found


def _observers(names: Iterable[str]) -> Iterator[Finding]:
    for name in names:
        why = _failure(partial(import_module, name)) if "." in name else ""
        if why:
            todo = "Correct its name, or install its package; until then sessions go on without it."
            yield Finding(f"the observer {name} cannot be loaded ({why})", todo)
        if name == "snapshotter" and find_spec("filelock") is None:
            todo = "Install it where Hermes runs: pip install '.[hermes]' in a checkout."
            yield Finding("filelock is missing: no snapshots will be kept", todo)


def _failure(load: Callable[[], object]) -> str:
    """Why somebody's code cannot be had; empty: it can.  Loading it can raise anything."""
    try:
        load()
    except Exception as error:  # noqa: BLE001
        return one_line(f"{type(error).__name__}: {error}", 160)
    return ""


def _writable(home: Path) -> Iterator[Finding]:
    if os.access(home, os.W_OK | os.X_OK):
        yield Finding("the home can be written to")
    else:
        yield Finding("the home cannot be written to", "Snapshots and logs will not be kept; mend its permissions.")


def _mapping(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(name)
    return found if isinstance(found, Mapping) else {}


def _list(block: Any, name: str) -> list[Any]:
    found = block.get(name) if isinstance(block, Mapping) else None
    return [found] if isinstance(found, str) else list(found) if isinstance(found, list) else []
