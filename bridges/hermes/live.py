"""Settings and engines that change while an agent lives.

The file is looked at when a turn begins, before requests, and before a compaction, for its time and size only; when
those are others, it is read.  What follows from it counts from then on: budget, guard, deadlines, and who compacts.  The conversation goes on, and so do its
counters: an engine that comes is told what the one before it knew.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event, RLock
from typing import Any

from attrs import asdict, evolve

from .builtin import KIND as BUILTIN
from .builtin import configured, retune
from .cell import Cell
from .fields import FIELDS
from .host import config_path
from .hosted import Hosted
from .lifecycle import Sessions
from .place import rules
from .settings import Settings, read_settings

__all__ = ["Live"]

_CARRIED = (
    *(name for name in FIELDS if name.startswith("last_") or name.endswith("_count")),
    *("awaiting_real_usage_after_compression", "_verify_compaction_cleared_threshold"),
    *("_context_probed", "_context_probe_persistable"),
)
"""Readings and counters that an engine takes over from the one before it."""

SETTLING = 2.0  # seconds that a compaction waits for engines that are about to be changed
EVERY = 1.0
"""Seconds from one look at the file to the next, except before a compaction: a look lets go of the interpreter lock, and
the host's thread would have to wait until it gets it back."""

log = logging.getLogger(__name__)


class Live(Sessions):
    """Keeps up with the configuration, and changes engines under way."""

    _file: Path | None = None
    _stamp: tuple[int, int, int] | None = None
    _looked = float("-inf")
    _told = Settings()  # what the file said last
    _pending: Event | None = None  # a change of engines that the dataspace is about to make

    def __init__(self, like: Live | None = None) -> None:
        super().__init__(like)
        self._changing = RLock()  # a turn and a command may want to at once

    def make(self, told: Mapping[str, Any]) -> None:
        """Read the settings, remember when they were written, and make the engines."""
        try:
            self._file = config_path()
        except Exception as error:  # noqa: BLE001 - without a host, or with a broken one, nothing will change
            log.debug("there is no configuration to keep up with: %r", error)
        self._looked, self._stamp = time.monotonic(), self._stamped()
        super().make(told)
        self._told = self.settings

    def refresh(self, *, anyway: bool = False) -> None:
        """If the file has been written since it was read, have what it says now count; never raises.

        It is not looked at again so soon, unless `anyway`.
        """
        at = time.monotonic()
        if not self.made or not (anyway or at >= self._looked + EVERY):
            return
        self._looked, stamp = at, self._stamped()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._changed(self.configuration())
        except Exception:
            log.exception("the changed settings could not be taken over; the ones before go on")

    def ready(self) -> Cell | None:
        """The conversation, before a compaction: with the settings of now, and with their engines if those come soon."""
        self.refresh(anyway=True)
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.wait(SETTLING)
        return self.begun()

    def engage(
        self,
        kinds: tuple[str, ...],
        then: Callable[[], object] | None = None,
        *,
        anew: bool = False,
        whole: bool = False,
    ) -> bool:
        """Have these compact from now on, in this order.  Those that come serve before those that go are stopped.

        `then` is called, on the dataspace's thread, when that has been done; `anew`: those that stay are started anew.
        One that cannot be had is left out, with a warning; with `whole` nothing is changed then, and False returned.
        """
        with self._changing:
            return self._engage(kinds, then, anew=anew, whole=whole)

    def _engage(self, kinds: tuple[str, ...], then: Callable[[], object] | None, *, anew: bool, whole: bool) -> bool:
        told, before = self._model(), self.kinds
        self.hosted = dict(self.hosted)  # others may be walking through it
        known = {name: self.read(name) for name in _CARRIED}
        those = []
        for kind in kinds:
            if kind in before or self._make_one(kind, self.config, told):
                those.append(kind)
                if kind not in before and kind in self.hosted:
                    self._acquaint(self.hosted[kind], known)
        if whole and len(those) < len(kinds):
            self._forget_others()
            return False
        if kinds and not those:
            log.warning(
                "none of the engines %s can be had; %s goes on", ", ".join(kinds), ", ".join(before) or "nobody"
            )
            those = list(before)
        self.kinds = tuple(those)
        self._replug(before, then, anew=anew)
        return True

    # -- inside -------------------------------------------------------------------------------------------------------

    def _changed(self, config: Mapping[str, Any]) -> None:
        if not _is_ours(config):
            log.warning("config.yaml does not choose this engine any more, or is empty; the settings before go on")
            return
        told, was = read_settings(config), self._told
        self._told = told
        if told.enabled != was.enabled:
            log.warning("context.dataspace.enabled counts from the next agent on")
        if self.alone or not told.enabled:
            return
        self._retune(config)
        self.config = config
        # What was changed by hand stays, unless the file says something else about it.
        others = {
            name: getattr(told, name)
            for name in asdict(told, recurse=False)
            if getattr(told, name) != getattr(was, name)
        }
        if not others:
            return
        before, self.settings = self.settings, evolve(self.settings, **others)
        settings = self.settings
        if "engines" in others or "deadline" in others:
            self.engage(settings.engines if "engines" in others else self.kinds, anew="deadline" in others)
        elif settings.guard != before.guard:
            self._rejudge()
        if "observers" in others or "options" in others:
            self.observe_anew(before)
        log.info("context.dataspace: the changed settings count from now on")

    def observe_anew(self, before: Settings) -> None:
        """Other observers are wanted, or other options for them."""
        cell, runtime, settings = self.cell, self.runtime, self.settings
        new = set(settings.observers) - set(before.observers)
        if cell is not None and runtime is not None:
            runtime.soon(lambda desk: desk.crew.join(cell.sid, settings, new))

    def _retune(self, config: Mapping[str, Any]) -> None:
        """Where the threshold, or what stays, is another now, have it count; readings and counters are kept."""
        told = self._model()
        was, will = (configured(one, str(told["model"]), str(told["provider"])) for one in (self.config, config))
        if was == will:
            return
        self.own.retune(*rules(config, told))
        hosted = self.hosted.get(BUILTIN)
        if hosted is not None:
            retune(hosted, self.config, config, told)
        self.publish_budget()

    def _acquaint(self, hosted: Hosted, known: Mapping[str, Any]) -> None:
        """Tell an engine that comes late what it would have been told."""
        if self.host_id:
            hosted.lifecycle("bind_session_state", self.session_db, self.host_id)
            told = {name: self.session[name] for name in ("platform", "model") if self.session.get(name)}
            told["hermes_home"] = self.session.get("home") or ""
            hosted.lifecycle("on_session_start", self.host_id, **told)
        missing = object()
        for name, value in known.items():
            if hosted.get(name, missing) is not missing:
                hosted.set(name, value)

    def _rejudge(self) -> None:
        cell = self.cell
        if cell is not None:
            cell.judges = {cell.names[kind]: self.judge(one) for kind, one in self.hosted.items() if kind in cell.names}

    def _replug(self, before: tuple[str, ...], then: Callable[[], object] | None, *, anew: bool) -> None:
        cell, runtime = self.cell, self.runtime
        if cell is None:
            self._forget_others()
            return
        cell.renew(self.kinds, self.settings.deadline)
        self._rejudge()
        if runtime is None:
            self._forget_others()
            return
        come = self.kinds if anew else tuple(kind for kind in self.kinds if kind not in before)
        gone = tuple(cell.names[kind] for kind in before if kind not in self.kinds)

        pending = self._pending = Event()

        def done() -> None:
            pending.set()
            self._forget_others()
            if then is not None:
                then()

        boots = self.boots(cell, come)
        runtime.soon(lambda desk: desk.change(cell, boots, gone, done))

    def _forget_others(self) -> None:
        """Who has been stopped is told nothing more; until then it is in charge as it was."""
        self.hosted = {kind: one for kind, one in self.hosted.items() if kind in self.kinds}
        self.native = {kind: one for kind, one in self.native.items() if kind in self.kinds}

    def _model(self) -> dict[str, Any]:
        """What the host would tell an engine of the model."""
        names = ("model", "context_length", "base_url", "api_key", "provider", "api_mode")
        return {name: self.own.values[name] for name in names}

    def _stamped(self) -> tuple[int, int, int] | None:
        try:
            found = self._file.stat() if self._file is not None else None
        except OSError:
            return None
        return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


def _is_ours(config: Mapping[str, Any]) -> bool:
    """Whether the file still chooses this engine: one that is just being written is empty for a moment."""
    context = config.get("context")
    return isinstance(context, Mapping) and context.get("engine") == "dataspace"
