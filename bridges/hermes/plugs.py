"""The engines that are plugged in for one conversation each, and how they are changed under way.

Everything in this module runs on the dataspace's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field

from dataspace import Facet, Handle, where
from engines.facts import Serving
from engines.supervisor import supervised

__all__ = ["Boot", "Plugs"]

Boot = Callable[[Facet], object]


@define
class _Plugged:
    """What is plugged in for a conversation; while it is being changed: who is waited for, who is to go, who is to hear."""

    facets: dict[str, Facet] = field(factory=dict)
    names: set[str] = field(factory=set)  # of all that were ever in it
    missing: set[str] = field(factory=set)
    leaving: list[str] = field(factory=list)
    told: list[Callable[[], object]] = field(factory=list)
    watch: Handle | None = None


class Plugs:
    """Plugs supervised engines in, as `me`, by conversation and actor name."""

    def __init__(self, me: Facet) -> None:
        self._me = me
        self._all: dict[str, _Plugged] = {}
        self._for: dict[str, str] = {}

    def sid_of(self, serving: Serving) -> str | None:
        """For which conversation an engine serves: one that is plugged in for a single one serves that one only.

        Somebody's boot function calls `serve` for everybody; here each conversation has an engine of its own.
        """
        return self._for.get(serving.engine, serving.sid)

    def begin(self, sid: str, boots: Mapping[str, Boot]) -> None:
        """The first engines of a conversation."""
        self._all[sid] = _Plugged()
        self._plug(sid, boots)

    def end(self, sid: str) -> None:
        """Stop all that was plugged in for a conversation."""
        plugged = self._all.pop(sid, None)
        if plugged is None:
            return
        self._unwatch(plugged)
        for facet in plugged.facets.values():
            facet.stop()
        for name in plugged.names:
            del self._for[name]

    def change(self, sid: str, come: Mapping[str, Boot], gone: tuple[str, ...], done: Callable[[], object]) -> None:
        """Plug in the engines `come`, as compressors; once they serve, stop `gone` and call `done`.

        As long as one of them does not come to serve, those that were there go on.  One that is there already is started
        anew.
        """
        plugged = self._all.get(sid)
        if plugged is None:
            return
        for name in come:
            if name in plugged.facets:
                plugged.facets.pop(name).stop()
        plugged.missing = (plugged.missing - set(gone)) | set(come)
        plugged.leaving = [name for name in (*plugged.leaving, *gone) if name not in come]
        plugged.told.append(done)
        if plugged.watch is None:
            plugged.watch = self._me.observe(
                where(Serving, role="compressor"), appeared=lambda serving: self._serves(plugged, serving)
            )
        self._plug(sid, come)
        self._settle(plugged)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _plug(self, sid: str, boots: Mapping[str, Boot]) -> None:
        plugged = self._all[sid]
        for name, boot in boots.items():
            plugged.names.add(name)
            self._for[name] = sid
            plugged.facets[name] = self._me.spawn(supervised(boot, name=name), name=f"supervisor of {name}")

    def _serves(self, plugged: _Plugged, serving: Serving) -> None:
        if serving.engine in plugged.missing:
            plugged.missing.discard(serving.engine)
            self._me.later(lambda: self._settle(plugged))

    def _settle(self, plugged: _Plugged) -> None:
        if plugged.missing or plugged.watch is None:
            return
        self._unwatch(plugged)
        leaving, plugged.leaving = plugged.leaving, []
        for name in leaving:
            if name in plugged.facets:
                plugged.facets.pop(name).stop()
        told, plugged.told = plugged.told, []
        for done in told:
            done()

    def _unwatch(self, plugged: _Plugged) -> None:
        watch, plugged.watch = plugged.watch, None
        if watch is not None:
            self._me.retract(watch)
