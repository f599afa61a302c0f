"""Observers: what runs beside the compressors, for every conversation of this process.

This is the table, and the only place where an observer is named.  An observer is a module; it is imported when
somebody's settings want it, on that agent's thread, so it imports no event loop at its top.  It has any of

    Options                       an attrs class made with `blocks.setting`: the block of that name in the settings
    boot(settings, of) -> boot    makes the boot function of its engine, on the dataspace's thread, where it is then
                                  supervised: one engine a process.  `settings` are those of the first conversation that
                                  wants it; `of(sid)` are those of a conversation, None where it does not want this
                                  observer.  Home and profile of a conversation are in its `Session`
    aide(standing) -> Aide | None what answers at once for one conversation, on the host's threads (see `aides`)
    tools(settings) -> schemas    tools for the model, each `{name, description, parameters}`; asked for before there is a
                                  conversation.  Its aide's `handle_tool_call` answers
    status(me) -> lines           what it has to say in `/dataspace status`; on the dataspace's thread, never in gateways
    show(me, text) -> text        `/dataspace <its block> <text>`; likewise

A dotted name in the settings is a module of somebody else's with the same parts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from attrs import frozen

from .aides import Aide
from .blocks import warn

if TYPE_CHECKING:
    from dataspace import Facet

    from .aides import Standing
    from .settings import Settings

__all__ = ["OBSERVERS", "Observer", "available", "observer", "wanted"]

log = logging.getLogger(__name__)


@frozen
class Observer:
    """One entry: the name in `observers`, the name of its block (empty: it has none), and the module."""

    name: str
    block: str
    module: str

    @property
    def options(self) -> type[Any] | None:
        """The class of its block."""
        found = self._part("Options")
        return found if isinstance(found, type) else None

    def boot(self, settings: Settings, of: Callable[[str], Settings | None]) -> Callable[[Facet], object] | None:
        """The boot function of its engine; None: it has none, or cannot be had, which is logged."""
        made: Callable[[Facet], object] | None = self._made("boot", settings, of)
        return made

    def aide(self, standing: Standing) -> Aide | None:
        """What answers at once for one conversation; None: nothing does, or it cannot be had, which is logged."""
        made = self._made("aide", standing)
        if made is None or isinstance(made, Aide):
            found: Aide | None = made
            return found
        warn(
            f"context.dataspace.observers: the aide of {self.name} is {type(made).__name__} and no Aide; it is left out"
        )
        return None

    def tools(self, settings: Settings) -> list[dict[str, Any]]:
        """The tools that come with it."""
        said = self._made("tools", settings, shape=lambda said: list(said or ()))
        return [schema for schema in said or () if isinstance(schema, dict)]

    def status(self, me: Facet) -> list[str]:
        """What it has to say of itself."""
        said: list[str] | None = self._made("status", me, shape=lambda said: list(map(str, said or ())))
        return said or []

    def show(self, me: Facet, text: str) -> str | None:
        """Its own view; None: it has none."""
        shown: str | None = self._made("show", me, text, shape=lambda said: None if said is None else str(said))
        return shown

    def _made(self, part: str, *args: Any, shape: Callable[[Any], Any] = lambda made: made) -> Any:
        make = self._part(part)
        if make is None:
            return None
        try:
            return shape(make(*args))
        except KeyboardInterrupt:
            raise  # it is the user's, on a thread of the host
        except BaseException:
            log.exception("the observer %s cannot be had; the session goes on without it", self.name)
            return None

    def _part(self, name: str) -> Any:
        return getattr(_module(self.name, self.module), name, None)


OBSERVERS: dict[str, Observer] = {
    one.name: one
    for one in (
        Observer("skills", "skills", "bridges.hermes.skill_observer"),
        Observer("snapshotter", "snapshots", "bridges.hermes.snapshots"),
        Observer("telemetry", "telemetry", "bridges.hermes.telemetry"),
    )
}
"""Every observer of ours, in the order in which aides are heard."""


@cache
def available() -> tuple[Observer, ...]:
    """Those whose module is installed."""
    return tuple(one for one in OBSERVERS.values() if find_spec(one.module) is not None)


def observer(name: str) -> Observer | None:
    """The observer of that name, ours or (with a dot in the name) a module of somebody else's; None: there is none."""
    found = next((one for one in available() if one.name == name), None)
    theirs = "." in name and ":" not in name  # with a colon it is a class, and a context engine
    return Observer(name, "", name) if found is None and theirs else found


def wanted(names: Iterable[str]) -> tuple[Observer, ...]:
    """Those of these names, each once; a name that is none is said once in the log."""
    found: list[Observer] = []
    for name in names:
        one = observer(name)
        if one is None:
            known = ", ".join(one.name for one in available()) or "none in this installation"
            warn(
                f"context.dataspace.observers: there is no observer {name!r}; known are {known}, and a module of your own is package.module"
            )
        elif one not in found:
            found.append(one)
    return tuple(found)


@cache
def _module(name: str, module: str) -> Any:
    try:
        return import_module(module)
    except KeyboardInterrupt:
        raise  # as above
    except BaseException as error:  # noqa: BLE001 - whatever it is, an exit even, the session goes on without it
        warn(f"context.dataspace.observers: the observer {name} cannot be loaded: {type(error).__name__}: {error}")
        return None
