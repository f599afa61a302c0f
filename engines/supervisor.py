"""Restarting an engine that crashed.

A supervisor is an actor that starts another one, and starts it again when it has crashed: after a pause that doubles,
and not for ever.  An engine that stops in good order is not restarted.  A restarted engine sees what stands, so it
takes up the question its predecessor crashed on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
from attrs import evolve, frozen

from dataspace import Crashed, Facet, where
from engines.engine import is_async
from engines.facts import GaveUp

__all__ = ["GaveUp", "Patience", "supervised"]


@frozen
class Patience:
    """How a supervisor deals with crashes.  Times are seconds; `crashes` holds the times of those still counted."""

    pause_first: float = 1.0
    pause_last: float = 60.0
    most: int = 5
    within: float = 600.0
    crashes: tuple[float, ...] = ()

    def crashed(self, at: float) -> Patience:
        """The same after one more crash."""
        return evolve(self, crashes=(*(time for time in self.crashes if time > at - self.within), at))

    @property
    def pause(self) -> float | None:
        """How long to wait before the next start; None: there is none."""
        count = len(self.crashes)
        return None if count >= self.most else min(self.pause_first * 2.0 ** (count - 1), self.pause_last)


def supervised(
    boot: Callable[..., object], *args: Any, name: str, patience: Patience | None = None
) -> Callable[[Facet], None]:
    """A boot function for an actor that keeps `boot(me, *args)` running under `name`; needs a dataspace under trio.

    Stopping the supervisor stops the engine; when the engine stops in good order, the supervisor does.  When it gives
    up it stays, publishing `GaveUp`.
    """

    def boot_supervisor(me: Facet) -> None:
        _Supervisor(me, boot, args, name, patience or Patience()).begin()

    boot_supervisor.__name__ = f"supervisor of {name}"
    return boot_supervisor


class _Supervisor:
    def __init__(
        self, me: Facet, boot: Callable[..., object], args: tuple[Any, ...], name: str, patience: Patience
    ) -> None:
        self._me = me
        self._boot = boot
        self._args = args
        self._name = name
        self._patience = patience
        self._engine: Facet | None = None
        # Crashes that stand from earlier are those of another actor of that name.
        self._seen = max((crash.n for crash in me.facts(where(Crashed, actor=name))), default=0)

    def begin(self) -> None:
        me = self._me
        me.observe(where(Crashed, actor=self._name), appeared=self._crashed)
        me.on_stop(lambda _parent: self._stop_engine())
        self._start()

    def _start(self) -> None:
        self._engine = self._me.spawn(self._supervised(), name=self._name)

    def _supervised(self) -> Callable[..., object]:
        """The boot function, with a note of an orderly end."""
        boot, args = self._boot, self._args

        def watch(engine: Facet) -> None:
            engine.on_stop(lambda _parent: self._me.later(self._me.stop) if self._me.alive else None)

        async def boot_async(engine: Facet) -> None:
            watch(engine)
            await boot(engine, *args)  # type: ignore[misc]

        def boot_sync(engine: Facet) -> object:
            watch(engine)
            return boot(engine, *args)

        return boot_async if is_async(boot) else boot_sync

    def _crashed(self, crash: Crashed) -> None:
        if crash.n <= self._seen:
            return
        self._seen = crash.n
        self._patience = self._patience.crashed(trio.current_time())
        pause = self._patience.pause
        if pause is None:
            self._me.publish(GaveUp(self._name, len(self._patience.crashes), crash.reason))
        else:
            self._me.task(self._start_later, pause)

    async def _start_later(self, pause: float) -> None:
        await trio.sleep(pause)
        self._start()

    def _stop_engine(self) -> None:
        if self._engine is not None and self._engine.alive:
            self._engine.stop()
