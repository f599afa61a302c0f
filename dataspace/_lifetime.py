"""Lifetimes: what is held in them, how they nest, and whether one may act now.

`Facet` adds what its users call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self, cast

from ._actions import NOTE, OBSERVE, TASK
from ._handles import Handle, Observer
from ._state import State
from ._tasks import Task, is_async
from .errors import Stopped, TurnError

if TYPE_CHECKING:
    from ._facet import Actor, Facet

__all__ = ["Lifetime"]

ALIVE = State.ALIVE


class Lifetime:
    """The state of a facet."""

    __slots__ = ("actor", "children", "ds", "handles", "parent", "pending", "state", "stop_actions", "tasks")

    def __init__(self, actor: Actor, parent: Self | None) -> None:
        self.actor = actor
        self.ds = actor.ds
        self.parent = parent
        self.state = ALIVE
        self.handles: dict[Handle, None] = {}
        # Most lifetimes are short and have none of these: they are made when the first comes.
        self.children: dict[Self, None] | None = None
        self.tasks: set[Task] | None = None
        self.stop_actions: list[Callable[[Facet], object]] | None = None
        self.pending = 0  # turns asked for with `later`

    def __repr__(self) -> str:
        return f"<{self.state.value} {'actor' if self.parent is None else 'facet of'} {self.actor.name}>"

    def _may_act(self) -> bool:
        """Raise unless this facet may act here and now; False while its stop actions run."""
        ds = self.ds
        ds._check_thread()
        if ds._actor is not None and ds._actor is not self.actor:
            ds._refuse(self.actor)
        if self.state is State.STOPPED:
            raise Stopped(f"{self!r} acts no more")
        return self.state is ALIVE

    def _unseen(self) -> Handle:
        handle = Handle()
        handle.facet, handle.age = cast("Facet", self), 0
        handle.state = State.STOPPED
        return handle

    def _child(self) -> Self:
        """A lifetime within this one."""
        child = type(self)(self.actor, self)
        if self.children is None:
            self.children = {}
        self.children[child] = None
        return child

    def _begin(self, observer: Observer) -> Handle:
        if self.state is not ALIVE:
            return self._unseen()
        self.handles[observer] = None
        self.ds._act(OBSERVE, observer, self.actor)
        return observer

    def _link(self, task: Task) -> None:
        if self.tasks is None:
            self.tasks = set()
        self.tasks.add(task)
        self.ds._act(TASK, task, self.actor)

    def _register(self, hooks: list[Any], hook: Callable[..., object]) -> None:
        if not callable(hook) or is_async(hook):
            raise TypeError(f"a hook is a synchronous function, not {hook!r}")
        if self._may_act():
            hooks.append(hook)
            self.ds._act(NOTE, hooks.pop, self.actor)  # undone newest first, so it is the last

    def _check_runtime(self, what: str) -> None:
        self.ds._check_thread()
        if self.ds._runtime is None:
            raise TurnError(f"{what} needs an event loop: use open_dataspace() under trio instead of Dataspace()")

    def _cancel_tasks(self) -> None:
        for task in list(self.tasks or ()):
            if task.cancel is not None:
                task.cancel()

    def _tree(self) -> Iterator[Self]:
        left = [self]
        while left:
            facet = left.pop()
            yield facet
            left += facet.children or ()
