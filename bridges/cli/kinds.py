"""The engines that the command can plug, by kind; each is imported when it is first wanted.

Whoever writes an engine names it as `package.module:function`, where the function is a boot function, or takes nothing and
returns one.  Modules are looked for in the current directory too, as they are by `python -m`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path

import trio

from engines.facts import Session
from engines.loop.policy import kind_of
from engines.named import is_named, maker

from .errors import BadInput

__all__ = ["ALL", "CLOSING", "KINDS", "Boot", "Kinds", "boot_of", "with_own"]

Boot = Callable[..., object]
Kinds = Mapping[str, Callable[[], Boot]]
"""For each kind a function that makes the boot function of one engine."""


def _made_by(module: str, factory: str) -> Callable[[], Boot]:
    def make() -> Boot:
        boot: Boot = getattr(import_module(module), factory)()
        return boot

    return make


def _skills() -> Boot:
    from engines.compressor import Limits  # noqa: PLC0415 - as the others
    from engines.skills import SkillPolicy, skills  # noqa: PLC0415

    return skills(SkillPolicy(keep=Limits(threshold=1).result))


def _snapshotter() -> Boot:
    from engines.snapshotter import FOLDER, SnapshotStore, snapshotter  # noqa: PLC0415 - as the others

    def store_for(session: Session) -> SnapshotStore | None:
        return None if session.home is None else SnapshotStore(Path(session.home) / FOLDER, session.profile)

    return snapshotter(store_for, closed=CLOSING.close)


def _telemetry() -> Boot:
    from engines.telemetry import EpisodicLog, local_log, telemetry  # noqa: PLC0415

    return telemetry(lambda session: None if session.home is None else EpisodicLog(local_log(session.home)))


class Closing:
    """Which sessions have everything on disk that was to be kept of them."""

    def __init__(self) -> None:
        self._closed: set[str] = set()
        self._news = trio.Event()

    def close(self, sid: str) -> None:
        """Nothing more is to come; on the event loop's thread."""
        self._closed.add(sid)
        self._news.set()

    async def closed(self, sid: str) -> None:
        """Wait until that is so, and forget it."""
        while sid not in self._closed:
            self._news = trio.Event()
            await self._news.wait()
        self._closed.discard(sid)


CLOSING = Closing()
"""Told by the snapshotter, waited for by the replay."""

KINDS: Kinds = {
    "compressor": _made_by("engines.compressor", "compressor"),
    "skills": _skills,
    "snapshotter": _snapshotter,
    "telemetry": _telemetry,
}
"""What `--engine` and `--swap` know."""

ALL = tuple(KINDS)
"""What is plugged where nobody says otherwise."""


def boot_of(engine: str, kinds: Kinds) -> Boot:
    """A boot function for an engine named `kind` or `kind#instance`; raises `KeyError`."""
    return kinds[kind_of(engine)]()


def with_own(kinds: Kinds, engines: Iterable[str]) -> Kinds:
    """`kinds`, and those among `engines` that are somebody's own; raises `BadInput` where one cannot be had."""
    own = {kind_of(name) for name in engines if is_named(name)} - kinds.keys()
    return {**kinds, **{kind: _own(kind) for kind in sorted(own)}} if own else kinds


def _own(kind: str) -> Callable[[], Boot]:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return maker(kind)
    except Exception as error:  # noqa: BLE001 - importing somebody's module can raise anything
        raise BadInput(
            f"the engine {kind!r} cannot be loaded ({type(error).__name__}: {error}); correct its name or module"
        ) from None
