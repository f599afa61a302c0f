"""The order in which a lifetime ends: children first, then stop actions (in the parent), then what it holds.

Each step is a generator that hands out the lifetimes which have to end before it goes on, so that nesting may be deeper
than Python's stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._actions import STOP, Op
from ._handles import Handle, Observer
from ._state import State

if TYPE_CHECKING:
    from ._facet import Facet

__all__ = ["letting_go", "stopping", "walk"]

Actions = list[tuple[Op, Any]]


def walk(first: Iterator[Facet], actions: Actions) -> None:
    """Take all steps that begin with `first`."""
    steps = [first]
    while steps:
        facet = next(steps[-1], None)
        if facet is None:
            steps.pop()
        else:
            steps.append(stopping(facet, actions))


def stopping(facet: Facet, actions: Actions) -> Iterator[Facet]:
    """Stop a lifetime."""
    if facet.state is not State.ALIVE:
        return
    actions.append((STOP, facet))
    facet.state = State.STOPPING
    if facet.children:
        yield from reversed(list(facet.children))
    if facet.stop_actions:
        if facet.parent is not None:
            facet.state = State.STOPPED
        for action in list(facet.stop_actions):
            action(facet.parent or facet)
    facet.state = State.STOPPED
    for handle in reversed(facet.handles):
        yield from letting_go(handle, actions)


def letting_go(handle: Handle, actions: Actions) -> Iterator[Facet]:
    """Let go of a handle, and of the lifetimes that hang on it."""
    if handle.state is State.ALIVE:
        handle.state = State.STOPPING
        actions.append((handle.release, handle))
        if isinstance(handle, Observer) and handle.lifetimes:
            yield from reversed(list(handle.lifetimes.values()))
