"""The door to the runtime, which is imported when it is first opened: who only wants the core need not load trio."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._crash import Crashed
    from ._runtime import AsyncDataspace

__all__ = ["open_dataspace"]


def open_dataspace(
    *,
    on_crash: Callable[[Crashed, BaseException], object] | None = None,
    max_depth: int = 10_000,
    max_turns: int = 1_000_000,
    guest: bool = False,
) -> AbstractAsyncContextManager[AsyncDataspace]:
    """A dataspace under trio, for the length of an `async with` block: the same core, and actors may have tasks.

    At the end of the block all actors are stopped, the newest first, and their tasks awaited.  An actor's crash goes to
    `on_crash(crashed, error)`, by default to the log, and never ends the block.  `SystemExit` and what else is no
    `Exception` does, for it ends the program; with `guest` it is a crash too: for a dataspace in somebody else's process,
    where an actor has no program to end.  For the rest see `Dataspace`.
    """
    from ._runtime import run_dataspace  # noqa: PLC0415 - brings trio

    return run_dataspace(on_crash, max_depth, max_turns, guest=guest)
