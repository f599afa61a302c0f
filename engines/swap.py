"""Changing engines while sessions run: the new one first, then the old one goes.

What stands is the first thing the newcomer sees, so a question that is open while engines change is asked of it; there
is no moment in which nobody serves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from dataspace import Facet, where
from engines.facts import Serving

if TYPE_CHECKING:
    from dataspace._runtime import AsyncDataspace

__all__ = ["SwapError", "swap"]


class SwapError(RuntimeError):
    """The new engine did not come to serve; the old one is still in place."""


async def swap(
    ds: AsyncDataspace,
    old: Facet | None,
    boot: Callable[..., object] | None,
    *args: Any,
    name: str | None = None,
    serves: str | None = None,
    timeout: float = 30.0,  # noqa: ASYNC109 - it bounds one part of this and has an error of its own
) -> Facet | None:
    """Plug `boot(me, *args)` in as `name`, wait until it serves, unplug `old`; returns the new engine's `me`.

    Without `boot` it only unplugs, without `old` it only plugs.  `serves` is the name of the engine to wait for where
    it is not the actor that is plugged (but one that a supervisor starts).  If the newcomer crashes, ends or does not
    serve within `timeout` seconds, it is stopped, `SwapError` raised, and the old one stays; so too on cancellation.
    """
    if not (old is None or isinstance(old, Facet)):
        raise TypeError(f"old is what spawn or swap returned for the engine, not {old!r}")
    new = None if boot is None else await _plug(ds, boot, args, name, serves, timeout)
    if old is not None:
        await old.stop()
    return new


async def _plug(
    ds: AsyncDataspace,
    boot: Callable[..., object],
    args: tuple[Any, ...],
    name: str | None,
    serves: str | None,
    patience: float,
) -> Facet:
    new = await ds.spawn(boot, *args, name=name)
    settled = trio.Event()
    try:
        if new.alive:
            new.on_stop(lambda _parent: settled.set())
            new.on_crash(lambda _error: settled.set())
            with new.observe(where(Serving, engine=serves or new.name), appeared=lambda _serving: settled.set()):
                with trio.move_on_after(patience):
                    await settled.wait()
        if not new.alive:
            raise SwapError(f"{new.name} ended before it served") from new.actor.error
        if not settled.is_set():
            raise SwapError(f"{new.name} did not serve within {patience:g} s")
    except BaseException:
        new.stop()
        raise
    return new
