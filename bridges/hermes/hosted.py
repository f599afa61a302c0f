"""A context engine written for the host, run unmodified.

Its cheap calls are made by the thread the host came on; `compress` is the work of an asked engine, in a worker thread,
on messages of its own and in the context variables of the host's call.  What it keeps in its attributes is kept from
before that call until the host has taken the result over, so that it can be put back: the built-in compressor works in
a second instance meanwhile, another engine in place, with its attributes written down first.
"""

from __future__ import annotations

import copy
import inspect
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from dataspace import Facet
from engines.compressor.redact import redact
from engines.engine import blocking, serve
from engines.facts import Asked

__all__ = ["Hosted", "HostedError", "accepted", "shallow_twin", "without_secrets"]

log = logging.getLogger(__name__)
_PLAIN = (str, int, float, bool, bytes, type(None))


class HostedError(Exception):
    """A hosted engine's compress failed; the message holds no secret."""


class Hosted:
    """One hosted engine of one agent, and the calls it gets.

    `twin` makes a second instance with the same state, or is None where that cannot be done from outside.
    """

    def __init__(self, kind: str, engine: Any, twin: Callable[[Any], Any] | None = None) -> None:
        self.kind = kind
        self.front = engine
        """The instance whose attributes count now."""
        self.stuck = False
        """A call that nobody waits for any more has not returned yet; it may hold what other calls need."""
        self.declined = False
        self.aborted = False
        self.fell_back = False
        self.call: dict[str, Any] = {}
        self._twin = twin
        self._working: Any = None
        self._kept: Any = None  # the instance, or its attributes, from before the call
        self._missed: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._lock = threading.Lock()
        self._calls = 0
        self._failed: set[str] = set()

    # -- cheap calls --------------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether the engine has such a method."""
        return callable(getattr(self.front, name, None))

    def cheap(self, name: str, *args: Any, default: Any = None, **kwargs: Any) -> Any:
        """Call a method on this thread; what it raises is logged once and answered with `default`."""
        return default if self.stuck else self._on(self.front, name, args, kwargs, default)

    def lifecycle(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Tell it about sessions and models; an instance that may come back is told when it does."""
        if self._kept is not None:
            self._missed.append((name, args, kwargs))
        self.cheap(name, *args, **kwargs)
        working = self._working
        if working is not None:  # the host may tell it from another thread while it is at work
            self._on(working, name, args, kwargs, None)

    def secret(self) -> str:
        """What must not be shown; empty where there is none."""
        key = getattr(self.front, "api_key", "")
        return key if isinstance(key, str) else ""

    # -- compress -----------------------------------------------------------------------------------------------------

    def boot(self, sid: str, seconds: float) -> Callable[[Facet], None]:
        """The boot function of its actor for one conversation."""

        async def work(me: Facet, asked: Asked) -> Any:
            rows = asked.messages.thaw()
            done = await blocking(me, asked, self.compress, rows, asked.focus)
            # An abort is what the host looks at first: whatever else came back is not taken then.
            if self.aborted or asked.messages == done:
                self.declined = True
                return None
            return done

        def boot(me: Facet) -> None:
            serve(me, work, sid=sid, seconds=seconds)

        return boot

    def compress(self, rows: list[dict[str, Any]], focus: str | None = None) -> Any:
        """Call its `compress` on this thread, with a state that can be put back; raises `HostedError`."""
        number, engine = self._begin()
        try:
            told = self.call if focus is None else {**self.call, "focus_topic": focus}
            # The host's own call looks the same: the optional arguments are filtered by the signature.
            done = engine.compress(rows, **accepted(engine.compress, told))
            self.aborted = bool(getattr(engine, "_last_compress_aborted", False))
            self.fell_back = bool(getattr(engine, "_last_summary_fallback_used", False))
            return done
        except BaseException as error:  # noqa: BLE001 - even an exit is this engine's affair; its words may hold secrets
            # By the name it had: this is what a user gets to read.
            raise type(type(error).__name__, (HostedError,), {})(self._cleaned(str(error))) from None
        finally:
            self._returned(number)

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

    def put_back(self) -> None:
        """The result is refused, abandoned or dropped: be as before the call, and hear what came since."""
        with self._lock:
            self._calls += 1  # a call that is still running is nobody's any more
            self._working = None
            if self._kept is None:
                return
            self._restore()
            if self.stuck:
                return  # what it does until it returns is undone then
            self._kept = None
            missed, self._missed = self._missed, []
        self._replay(missed)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _on(self, engine: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], default: Any) -> Any:
        method = getattr(engine, name, None)
        if not callable(method):
            return default
        try:
            return method(*args, **accepted(method, kwargs))
        except Exception as error:  # noqa: BLE001 - the host would take it for a failed request, or die of it
            self._complain(name, error)
            return default

    def _begin(self) -> tuple[int, Any]:
        with self._lock:
            self._calls += 1
            self._missed.clear()
            self.declined = self.aborted = self.fell_back = False
            if self._twin is not None:
                self._working = self._twin(self.front)
                return self._calls, self._working
            self._kept = _written_down(self.front)
            self.stuck = True  # until it returns: its other methods may need what it holds
            return self._calls, self.front

    def _returned(self, number: int) -> None:
        with self._lock:
            self.stuck = False
            if number == self._calls or self._twin is not None or self._kept is None:
                return
            self._restore()
            self._kept = None
            missed, self._missed = self._missed, []
        self._replay(missed)

    def _restore(self) -> None:
        if self._twin is not None:
            self.front = self._kept
            return
        own = vars(self.front)
        for name in [name for name in own if name not in self._kept]:
            del own[name]
        own.update(_plain_copy(self._kept))

    def _replay(self, missed: list[tuple[str, tuple[Any, ...], dict[str, Any]]]) -> None:
        for name, args, kwargs in missed:
            self.cheap(name, *args, **kwargs)

    def _cleaned(self, text: str) -> str:
        return without_secrets(text, self.secret())

    def _complain(self, name: str, error: Exception) -> None:
        if name not in self._failed:
            self._failed.add(name)
            log.warning(
                "the context engine %s failed in %s: %s",
                self.kind,
                name,
                self._cleaned(f"{type(error).__name__}: {error}"),
            )


def without_secrets(text: str, key: Any) -> str:
    """A text of somebody else's, fit to be read: neither this key is in it nor what looks like one."""
    text = redact(text)
    return text.replace(key, "[redacted]") if isinstance(key, str) and len(key) > 3 else text


def accepted(method: Callable[..., Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the keyword arguments that a method takes."""
    if not told:
        return {}
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return dict(told)
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return dict(told)
    return {name: value for name, value in told.items() if name in parameters}


def shallow_twin(engine: Any) -> Any:
    """A second instance that shares what is in its attributes; for engines that only ever set them."""
    return copy.copy(engine)


def _written_down(engine: Any) -> dict[str, Any]:
    return _plain_copy(vars(engine)) if hasattr(engine, "__dict__") else {}


def _plain_copy(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _own(value) for name, value in attributes.items()}


def _own(value: Any) -> Any:
    """A copy of plain data; anything else is shared, for it cannot be copied from outside."""
    if isinstance(value, _PLAIN):
        return value
    if type(value) is list:
        return [_own(item) for item in value]
    if type(value) is dict:
        return {key: _own(item) for key, item in value.items()}
    if type(value) is set:
        return set(value)
    return value
