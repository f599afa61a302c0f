"""Handles: what `publish` and `observe` give back, to let go of what they began."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, ClassVar

from ._actions import RETRACT, UNOBSERVE, Op
from ._index import Index
from ._leaves import Record
from ._paths import form
from ._pattern import Pattern
from ._state import State

if TYPE_CHECKING:
    from ._bodies import Enter
    from ._facet import Facet

__all__ = ["Callbacks", "During", "FactHandle", "Handle", "Observer"]


class Handle:
    """One publication or observation.  As a context manager it is let go of at the end of the block."""

    __slots__ = ("age", "facet", "state")
    release: ClassVar[Op]

    facet: Facet
    age: int
    state: State

    @property
    def standing(self) -> bool:
        """Has it not been let go of?"""
        return self.state is not State.STOPPED

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.facet.retract(self)


class FactHandle(Handle):
    """Stands behind one fact."""

    __slots__ = ("index", "record")
    release = RETRACT

    index: Index
    record: Record

    def __repr__(self) -> str:
        return f"<handle of {self.record.fact!r}>"


class Observer(Handle):
    """Stands for one observation; the index files it by its pattern and orders it by its age."""

    __slots__ = ("gone", "interest", "lifetimes", "pattern")
    release = UNOBSERVE

    # What it does; a kind of change for which it has None passes it by.
    appeared: Callable[..., object] | None
    vanished: Callable[..., object] | None
    heard: Callable[..., object] | None

    def __init__(self, facet: Facet, age: int, pattern: Pattern[Any]) -> None:
        self.facet = facet
        self.age = age
        self.state = State.ALIVE
        self.pattern = pattern
        self.interest: Record | None = None
        self.gone: Callable[[], object] | None = None  # told when the observation is over
        self.lifetimes: dict[Hashable, Facet] | None = None  # of a `during`: by what appeared

    def __repr__(self) -> str:
        return f"<observer of {self.pattern!r}>"


class Callbacks(Observer):
    """Calls functions."""

    __slots__ = ("appeared", "heard", "vanished")

    def __init__(self, facet: Facet, age: int, pattern: Pattern[Any]) -> None:
        super().__init__(facet, age, pattern)
        self.appeared = self.vanished = self.heard = None


class During(Observer):
    """Runs a body in a lifetime of its own for as long as each thing stands."""

    __slots__ = ("body", "enter")
    heard = None

    def __init__(
        self, facet: Facet, age: int, pattern: Pattern[Any], body: Callable[..., object], enter: Enter
    ) -> None:
        super().__init__(facet, age, pattern)
        self.body = body
        self.enter = enter

    def appeared(self, *args: Any) -> None:
        lifetime = self.facet._child()
        if self.lifetimes is None:
            self.lifetimes = {}
        self.lifetimes[self._key(args)] = lifetime
        self.enter(self.body, lifetime, args)

    def vanished(self, *args: Any) -> None:
        assert self.lifetimes is not None
        self.facet.ds._stop(self.lifetimes.pop(self._key(args)))

    def _key(self, args: tuple[Any, ...]) -> Hashable:
        return form(args) if self.pattern.captures else self.pattern.kind.key(args[0])
