"""Engines that others have written: context engines for the host, and engines of the dataspace; made for one agent.

A name is looked for where the host looks for plugins: the directories `$HERMES_HOME/plugins/<name>`, then the entry
points `hermes_agent.plugins`.  The plugin's own `register` is called with a stand-in for the host's context that keeps
its context engine and hands everything else on.  `package.module:name` names an engine outright: a class of context
engines, or a boot function of the dataspace or what makes one.  Each agent gets a deep copy of a context engine, as in
the host, or where that fails another one; each conversation a boot function of its own where one is made.
"""

from __future__ import annotations

import copy
import importlib.util
import logging
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from threading import Lock
from typing import Any

from attrs import frozen

from dataspace import Facet
from engines.engine import is_async
from engines.named import is_named, maker

from .bounded import in_time
from .forward import left_running, said
from .hooks import host_context
from .host import home
from .hosted import Hosted

__all__ = ["EngineNotFoundError", "Native", "third_party"]

GROUP = "hermes_agent.plugins"
MOST_LEFT = 8
"""An engine of which so many calls hang in this process is not made for another agent."""
LOADING = 6
"""How many times the patience of a cheap call it may take to load and make an engine."""

log = logging.getLogger(__name__)
_prototypes: dict[str, Any] = {}
_locks: dict[str, Lock] = {}
_lock = Lock()


class EngineNotFoundError(LookupError):
    """No context engine of that name can be had; the message says what was looked for."""


@frozen
class Native:
    """An engine of the dataspace, written as for any other: nothing of the host reaches it but facts.

    `boot` may be run any number of times, on the dataspace's thread.
    """

    boot: Callable[[Facet], object]


class _StandIn:
    """A plugin context that keeps the context engine."""

    def __init__(self, host: Any) -> None:
        self.engine: Any = None
        self._host = host

    def register_context_engine(self, engine: Any) -> None:
        """Keep it."""
        self.engine = engine

    def __getattr__(self, name: str) -> Any:
        if self._host is not None and hasattr(self._host, name):
            return getattr(self._host, name)
        return lambda *args, **kwargs: None


def third_party(name: str, patience: float) -> Hosted | Native:
    """The engine `name` for one agent, hosted with so many seconds for each cheap call; raises `EngineNotFoundError`.

    It is looked for and made in another thread too, for its code runs then.
    """
    if left_running(name) >= MOST_LEFT:
        raise EngineNotFoundError(
            f"the context engine {name!r} is left out: {MOST_LEFT} of its calls in this process have not returned"
        )
    made = in_time(
        partial(_made, name), LOADING * patience, partial(left_running, name, 1), partial(left_running, name, -1)
    )
    if made.overdue:
        raise EngineNotFoundError(f"the context engine {name!r} could not be made within {LOADING * patience:g} s")
    if made.error is not None and not isinstance(made.error, Exception):  # an exit is that of its own thread
        raise EngineNotFoundError(
            f"the context engine {name!r} cannot be made: {type(made.error).__name__}: {said(made.error)}"
        )
    if made.error is not None:
        raise made.error
    return made.result if isinstance(made.result, Native) else Hosted(name, made.result, patience=patience)


def _made(name: str) -> Any:
    with _lock:
        lock = _locks.setdefault(name, Lock())
    if not lock.acquire(timeout=LOADING):
        raise EngineNotFoundError(f"the context engine {name!r} is still being made for another agent")
    try:
        prototype = _prototypes.get(name)
        if prototype is None:
            prototype = _found(name)
            if isinstance(prototype, Native):
                return prototype
            _prototypes[name] = prototype
        try:
            return copy.deepcopy(prototype)
        except Exception as error:  # noqa: BLE001 - whatever it holds that cannot be copied
            log.debug("the context engine %s cannot be copied (%r); another one is made", name, error)
            return _found(name)
    finally:
        lock.release()


def _found(name: str) -> Any:
    try:
        if is_named(name):
            return _named(name)
        module_found = _directory(name) or _entry(name)
    except Exception as error:
        raise EngineNotFoundError(
            f"the context engine {name!r} cannot be loaded: {type(error).__name__}: {said(error)}"
        ) from error
    if module_found is None:
        raise EngineNotFoundError(
            f"there is no context engine {name!r}: neither a directory plugins/{name} in the host's home, nor an installed"
            f" plugin of that name; install it, or name a class or boot function as package.module:name"
        )
    stand_in = _StandIn(host_context[0])
    try:
        module_found.register(stand_in)
    except Exception as error:
        raise EngineNotFoundError(
            f"the plugin {name!r} failed to register: {type(error).__name__}: {said(error)}"
        ) from error
    if stand_in.engine is None:
        raise EngineNotFoundError(f"the plugin {name!r} has registered no context engine")
    return stand_in.engine


def _named(name: str) -> Any:
    make = maker(name)
    made = make()
    if hasattr(made, "compress"):
        return made
    if callable(made):
        return Native(_anew(make, made))
    raise TypeError(f"it gives {type(made).__name__}, which is neither a context engine nor a boot function")


def _anew(make: Callable[[], Any], first: Any) -> Callable[[Facet], object]:
    """A boot function that has another one made each time it runs, so that nothing is left of the conversation before."""
    ready = [first]

    def boot(me: Facet) -> object:
        return (ready.pop() if ready else make())(me)

    async def boot_async(me: Facet) -> None:
        await (ready.pop() if ready else make())(me)

    return boot_async if is_async(first) else boot


def _entry(name: str) -> Any:
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            return entry.load()
    return None


def _directory(name: str) -> Any:
    try:
        plugins = home() / "plugins"
    except ImportError:
        return None
    path = plugins / name / "__init__.py"
    if Path(name).name != name or not path.is_file():
        return None
    module_name = f"hermes_dataspace_hosted.{name.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(module_name, path, submodule_search_locations=[str(path.parent)])
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module
