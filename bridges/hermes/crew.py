"""The observers that run: one engine each for the whole process, supervised, plugged and unplugged while it lives.

Everything in this module runs on the dataspace's thread.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Collection, Mapping
from functools import partial

from dataspace import Facet
from engines.supervisor import supervised

from .observers import Observer, observer, wanted
from .settings import Settings

__all__ = ["Crew"]

MOST = 1000  # conversations whose settings are remembered: ended ones may still be written about

log = logging.getLogger(__name__)


class Crew:
    """Plugs observers in, as `me`, when the first conversation wants them."""

    def __init__(self, me: Facet) -> None:
        self._me = me
        self._running: dict[str, Facet] = {}
        self._left_out: set[str] = set()  # unplugged for everybody
        self._settings: OrderedDict[str, Settings] = OrderedDict()

    @property
    def names(self) -> tuple[str, ...]:
        """The observers that are plugged in, in the order in which they came."""
        return tuple(name for name, facet in self._running.items() if facet.alive)

    def join(self, sid: str, settings: Settings, new: Collection[str] = ()) -> None:
        """A conversation begins, or wants something else; what it wants and is not there yet is plugged in.

        One that was unplugged stays unplugged, unless its name is among `new`.
        """
        self._left_out.difference_update(new)
        self._settings[sid] = settings
        self._settings.move_to_end(sid)
        while len(self._settings) > MOST:
            self._settings.popitem(last=False)
        for one in wanted(settings.observers):
            if one.name not in self._left_out:
                self._start(one, settings)

    def settings_of(self, name: str, sid: str) -> Settings | None:
        """The settings of a conversation; None where it is not known or does not want the observer `name`."""
        settings = self._settings.get(sid)
        return settings if settings is not None and name in settings.observers else None

    def plug(self, name: str, those: Mapping[str, Settings]) -> bool:
        """Plug an observer in for conversations, with their settings from now on; False: it cannot be had."""
        one = observer(name)
        if one is None or not those:
            return False
        before = dict(self._settings)
        self._settings.update(those)  # before it starts: it is told of all that stands then
        self._left_out.discard(name)
        self._start(one, next(iter(those.values())))
        if name not in self.names:
            self._settings = OrderedDict(before)
        return name in self.names

    def unplug(self, name: str) -> bool:
        """Stop an observer until it is plugged in again; False: it did not run."""
        self._left_out.add(name)
        facet = self._running.pop(name, None)
        if facet is None or not facet.alive:
            return False
        facet.stop()
        return True

    def _start(self, one: Observer, settings: Settings) -> None:
        running = self._running.get(one.name)
        if running is not None and running.alive:
            return
        try:
            boot = one.boot(settings, partial(self.settings_of, one.name))
            if boot is None:
                return
            self._running[one.name] = self._me.spawn(supervised(boot, name=one.name), name=f"supervisor of {one.name}")
        except BaseException:  # such as an actor of that name that is still about to stop
            log.exception("the observer %s cannot be plugged in; the session goes on without it", one.name)
