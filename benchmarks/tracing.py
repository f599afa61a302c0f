"""What recording costs a turn, while it is on and once it is off again, beside the same turn never recorded."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from dataspace import where
from dataspace.trace import recording

from .measure import Calls, Row, Slice, Times, each
from .scenes import PING, Core, Operation, Ping, ignore

__all__ = ["ROWS"]

NAME = "publish+retract, "


def _scene() -> tuple[Core, Operation]:
    core = Core()
    core.observer.observe(where(Ping, n=7), ignore, ignore)
    me = core.publisher
    return core, lambda: me.retract(me.publish(PING))


def _on(clock: Callable[[], float] | None) -> Slice:
    """A recording for each slice, or the record would grow and grow; to begin and end one is not counted."""
    core, operate = _scene()
    slice_ = each(operate)

    def run(number: int) -> float:
        with recording(core.ds, clock=clock):
            return slice_(number)

    return run


def _off() -> Operation:
    """A dataspace that was recorded once."""
    core, operate = _scene()
    with recording(core.ds):
        operate()
    return operate


def _never() -> Operation:
    return _scene()[1]


def _counted_on() -> tuple[Operation, Operation]:
    core, operate = _scene()
    block = recording(core.ds)
    block.__enter__()

    def recorded(_open: object = block) -> None:
        operate()

    return recorded, _never()


ROWS: list[Row] = [
    Times(f"{NAME}recorded", "not recorded", 2, lambda: (_on(None), each(_never()))),
    Times(f"{NAME}recorded with times", "not recorded", 2, lambda: (_on(monotonic), each(_never()))),
    Calls(f"{NAME}recorded", "not recorded", 2, _counted_on),
    Times(f"{NAME}no longer recorded", "never recorded", 1.1, lambda: (each(_off()), each(_never()))),
    Calls(f"{NAME}no longer recorded", "never recorded", 1, lambda: (_off(), _never())),
]
