"""A context engine written for the host, run unmodified.

Its cheap calls are `forward`'s; `compress` is the work of an asked engine, in a worker thread, on messages of its own
and in the context variables of the host's call.  What the engine keeps in its attributes is kept from before that call
until the host has taken the result over, so that it can be put back: the built-in compressor works in a second
instance meanwhile, another engine in place, with its attributes written down first.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from dataspace import Facet
from engines.facts import Asked
from engines.messages import Messages

from .bounded import in_time
from .exchange import Exchange
from .forward import Forward, accepted, left_running, said
from .hidden import remember

if TYPE_CHECKING:
    from .errand import ShortWay

__all__ = ["Hosted", "HostedError", "accepted", "shallow_twin"]

_CONTAINERS = frozenset({list, dict, set})


class HostedError(Exception):
    """A hosted engine's compress failed; the message holds no secret."""


class StillAtWorkError(HostedError):
    """It has not returned from an earlier call, and may hold what it would need."""


class NotAListError(HostedError):
    """What it gave is no list of messages."""


class OverdueError(HostedError):
    """It did not answer in time."""


class Hosted(Forward):
    """One hosted engine of one agent, and the calls it gets.

    `twin` makes a second instance with the same state, or is None where that cannot be done from outside.  `patience`
    is how many seconds a cheap call may take; None: it is made on the calling thread and may take for ever.
    """

    def __init__(
        self, kind: str, engine: Any, twin: Callable[[Any], Any] | None = None, *, patience: float | None = None
    ) -> None:
        super().__init__(kind, engine, patience)
        self.exchange = Exchange(lends=patience is None)
        self.declined = False
        self.aborted = False
        self.fell_back = False
        self.wrote: str | None = None
        """The summary of its latest answer, as far as it tells: None where it does not, empty where it had none."""
        self.call: dict[str, Any] = {}
        self._twin = twin
        self._working: Any = None
        self._kept: Any = None  # the instance, or its attributes, from before the call
        self._missed: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []  # since then
        self._calls = 0
        self._abandoned = False

    def lifecycle(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Tell it about sessions and models; an instance that may come back is told when it does."""
        remember(kwargs.get("api_key"))
        if name == "on_session_reset":
            self._overruns = 0
        if self._kept is not None:
            self._missed.append((name, args, kwargs))
        self.tell(name, *args, **kwargs)
        working = self._working
        if working is not None:  # the host may tell it from another thread while it is at work
            self._bounded(name, partial(self._on, working, name, args, kwargs), None)

    def set(self, name: str, value: Any) -> None:
        """Set an attribute, as the host does: of the instance at work too, and of one that may come back."""
        if self._kept is not None:
            self._missed.append(("__setattr__", (name, value), {}))
        super().set(name, value)
        working = self._working
        if working is not None:
            self._bounded(name, partial(setattr, working, name, value), None)

    # -- compress -----------------------------------------------------------------------------------------------------

    def boot(self, sid: str, seconds: float, way: ShortWay | None = None) -> Callable[[Facet], None]:
        """The boot function of its actor for one conversation; `way` leads past the dataspace's thread."""

        def work(asked: Asked) -> Messages | None:
            done = self._compressed(asked.messages, asked.focus)
            # An abort is what the host looks at first: whatever else came back is not taken then.
            if done is None or asked.messages == done:
                self.declined = True
                return None
            self.exchange.foresee(done, asked.messages)
            return done

        def boot(me: Facet) -> None:
            from .errand import serve_in_thread  # noqa: PLC0415 - only where there is an event loop

            serve_in_thread(me, work, sid=sid, seconds=seconds, way=way)

        return boot

    def compress(
        self, rows: list[dict[str, Any]], focus: str | None = None, *, called_off: Callable[[], bool] = lambda: False
    ) -> Any:
        """Call its `compress` on this thread, with a state that can be put back; raises `HostedError`."""
        number, engine = self._begin(called_off)
        try:
            self._keep()
            told = self.call if focus is None else {**self.call, "focus_topic": focus}
            # The host's own call looks the same: the optional arguments are filtered by the signature.
            done = engine.compress(rows, **accepted(engine.compress, told))
            self._note(number, engine)
            if not self.aborted and not isinstance(done, list):
                found = "nothing" if done is None else f"a {type(done).__name__}"
                raise NotAListError(f"it gave {found} instead of a list of messages")
            return done if self.aborted or type(done) is list else list(done)
        except BaseException as error:  # noqa: BLE001 - even an exit is this engine's affair
            raise self._as_ours(error) from None
        finally:
            self._returned(number)

    def compress_in_time(self, rows: list[dict[str, Any]], seconds: float) -> Any:
        """The same from another thread, waited for so long at most."""
        gone = threading.Event()  # it may not even have begun when nobody waits for it any more
        done = in_time(partial(self.compress, rows, called_off=gone.is_set), seconds, gone.set)
        if done.overdue:
            self.put_back()
            raise OverdueError(f"it did not answer within {seconds:g} s")
        if done.error is not None:
            raise done.error
        return done.result

    def _compressed(self, before: Messages, focus: str | None) -> Messages | None:
        """What its `compress` gave, frozen; None: it aborted.  All on this thread, for what it gives is its own too."""
        done = self.compress(self.exchange.rows(before), focus)
        try:
            return None if self.aborted else self.exchange.freeze(done, before)
        except BaseException as error:  # noqa: BLE001 - what is in the list may be objects of its own, with code of its own
            raise self._as_ours(error) from None

    def take_over(self) -> None:
        """What the call left in its attributes counts from now on; what was before can still be put back."""
        with self._lock:
            if self._working is not None:
                self._kept, self.front, self._working = self.front, self._working, None

    def commit(self) -> None:
        """The host has taken the result: what was before is not needed any more."""
        with self._lock:
            self._kept = None
            self._missed.clear()

    def forsake(self) -> None:
        """The session it works for is over: the instance at work hears nothing of the next one, or it would meddle there."""
        with self._lock:
            self._working = None

    def put_back(self) -> None:
        """The result is refused, abandoned or dropped: be as before the call, and hear what came since."""
        self.exchange.forget()
        with self._lock:
            self._calls += 1  # a call that is still running is nobody's any more
            self._working = None
            if self._compressing and not self._abandoned:
                self._abandoned = True
                left_running(self.kind, 1)
            if self._kept is None:
                return
            self._restore()
            if self._compressing:
                return  # what it does until it returns is undone then
            self._kept = None
            missed, self._missed = self._missed, []
        for name, args, kwargs in missed:
            self.tell(name, *args, **kwargs)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _begin(self, called_off: Callable[[], bool]) -> tuple[int, Any]:
        with self._lock:
            if called_off():
                raise OverdueError("it was not begun in time")
            if self._overdue:
                raise StillAtWorkError(f"it has not returned from {self._overdue[0]}")
            if self._compressing:
                raise StillAtWorkError("it has not returned from compress")
            self._calls += 1
            missed, self._missed = self._missed, []
            self.declined = self.aborted = self.fell_back = False
            self.wrote = None
            if self._twin is not None:
                self._working = self._twin(self.front)
                return self._calls, self._working
            if self._kept is None:
                missed = []
            else:
                self._restore()  # an earlier call's result was neither taken nor put back: another call came in between
            self._compressing = True  # until it returns: its other methods may need what it holds
            number = self._calls
        for name, args, kwargs in missed:
            self._hear(name, args, kwargs)
        return number, self.front

    def _keep(self) -> None:
        """Write down what it has in its attributes, where it works in place."""
        if self._twin is None:
            self._kept = _written_down(self.front)

    def _as_ours(self, error: BaseException) -> HostedError:
        """What it has raised, by the name it had, for a user to read; its words may hold secrets."""
        made: HostedError = type(type(error).__name__, (HostedError,), {})(self._cleaned(said(error)))
        return made

    def _note(self, number: int, engine: Any) -> None:
        """What it says of the answer it has just given; of a call that is nobody's any more that is of no interest."""
        with self._lock:
            if number != self._calls:
                return
            self.aborted = bool(getattr(engine, "_last_compress_aborted", False))
            self.fell_back = bool(getattr(engine, "_last_summary_fallback_used", False))
            made = getattr(engine, "_last_compression_made_progress", False) is True
            if made and hasattr(engine, "_previous_summary"):
                self.wrote = "" if self.fell_back else str(engine._previous_summary or "")

    def _returned(self, number: int) -> None:
        with self._lock:
            if self._abandoned:
                self._abandoned = False
                left_running(self.kind, -1)
            self._compressing = False
            heard, self._unheard = self._unheard, []
            if number != self._calls and self._twin is None and self._kept is not None:
                self._restore()
                self._kept = None
                heard, self._missed = self._missed, []
        for name, args, kwargs in heard:
            self.tell(name, *args, **kwargs)

    def _restore(self) -> None:
        if self._twin is not None:
            self.front = self._kept
            return
        own = getattr(self.front, "__dict__", {})
        for name in [name for name in own if name not in self._kept]:
            del own[name]
        own.update(_plain_copy(self._kept))


def shallow_twin(engine: Any) -> Any:
    """A second instance that shares what is in its attributes; for engines that only ever set them."""
    return copy.copy(engine)


def _written_down(engine: Any) -> dict[str, Any]:
    return _plain_copy(vars(engine)) if hasattr(engine, "__dict__") else {}


def _plain_copy(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of plain data, at any depth; anything else is shared, for it cannot be copied from outside.

    What is in it twice, or holds itself, is so in the copy.  Each list, dict and set is copied at a stroke before it is
    walked through: a thread of the engine's may be changing it.
    """
    made: dict[int, tuple[Any, Any]] = {}  # by the id of a container: itself, so that it goes on existing, and its copy
    waiting: list[Any] = []

    def own(value: Any) -> Any:
        if type(value) not in _CONTAINERS:
            return value
        known = made.get(id(value))
        if known is None:
            known = made[id(value)] = (value, value.copy())
            waiting.append(known[1])
        return known[1]

    copied = {name: own(value) for name, value in dict(attributes).items()}
    while waiting:
        one = waiting.pop()
        if type(one) is list:
            one[:] = map(own, one)
        elif type(one) is dict:
            for key, value in one.items():
                one[key] = own(value)
    return copied
