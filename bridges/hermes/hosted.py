"""A context engine written for the host, run unmodified.

The built-in's cheap calls are made by the thread the host came on.  Those of an engine of somebody else are made in a
thread that the host's waits for only so long (`bounded`); while one of them is overdue the engine counts as stuck: it
is asked nothing, its word does not count, and what it should hear is told it when it returns.  What reaches it is its
own copy, so that it can change nothing that is the host's.

`compress` is the work of an asked engine, in a worker thread, on messages of its own and in the context variables of
the host's call.  What the engine keeps in its attributes is kept from before that call until the host has taken the
result over, so that it can be put back: the built-in compressor works in a second instance meanwhile, another engine
in place, with its attributes written down first.
"""

from __future__ import annotations

import copy
import inspect
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from types import MemberDescriptorType
from typing import Any

from dataspace import Facet
from engines.compressor.redact import redact
from engines.engine import blocking, serve
from engines.facts import Asked
from engines.messages import Messages

from .bounded import in_time

__all__ = ["Hosted", "HostedError", "accepted", "left_running", "shallow_twin", "without_secrets"]

MOST_UNHEARD = 100
"""So many things that a stuck engine should have heard are told it when it returns; older ones are not."""
MOST_OVERRUNS = 3
"""An engine that was overdue so often is asked nothing cheap any more until a new session."""

log = logging.getLogger(__name__)
_PLAIN = (str, int, float, bool, bytes, type(None))
_running: Counter[str] = Counter()
_running_lock = threading.Lock()


class HostedError(Exception):
    """A hosted engine's compress failed; the message holds no secret."""


def left_running(kind: str) -> int:
    """How many calls of engines of this kind nobody waits for any more and still run, in this process."""
    return _running[kind]


class Hosted:
    """One hosted engine of one agent, and the calls it gets.

    `twin` makes a second instance with the same state, or is None where that cannot be done from outside.  `patience`
    is how many seconds a cheap call may take; None: it is made on the calling thread and may take for ever.
    """

    def __init__(
        self, kind: str, engine: Any, twin: Callable[[Any], Any] | None = None, *, patience: float | None = None
    ) -> None:
        self.kind = kind
        self.front = engine
        """The instance whose attributes count now."""
        self.declined = False
        self.aborted = False
        self.fell_back = False
        self.call: dict[str, Any] = {}
        self._twin = twin
        self._patience = patience
        self._working: Any = None
        self._kept: Any = None  # the instance, or its attributes, from before the call
        self._missed: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []  # since then
        self._unheard: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []  # while it was stuck
        self._lock = threading.Lock()
        self._calls = 0
        self._compressing = self._abandoned = False
        self._overdue: list[str] = []  # calls that nobody waits for any more, by what they are
        self._overruns = 0
        self._failed: set[str] = set()
        self._is_plain: dict[str, bool] = {}
        self._key = ""

    @property
    def stuck(self) -> bool:
        """A call has not returned, and may hold what other calls need; or it has been overdue too often."""
        return self._compressing or bool(self._overdue) or self._overruns >= MOST_OVERRUNS

    # -- cheap calls --------------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether the engine has such a method."""
        return bool(self._bounded(name, lambda: callable(getattr(self.front, name, None)), False))

    def cheap(
        self,
        name: str,
        *args: Any,
        default: Any = None,
        shape: Callable[[Any], Any] | None = None,
        seconds: float | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call a method; what it raises is logged once and answered with `default`, as is all of a stuck engine.

        `shape` makes of the result what the caller needs: a result of somebody else's may fail or hang as its makers do.
        """
        return self._bounded(name, partial(self._on, self.front, name, args, kwargs, default, shape), default, seconds)

    def lifecycle(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Tell it about sessions, models and usage; an instance that may come back is told when it does."""
        key = kwargs.get("api_key")
        if isinstance(key, str) and key:
            self._key = key
        if name == "on_session_reset":
            self._overruns = 0
        with self._lock:
            if self._kept is not None:
                self._missed.append((name, args, kwargs))
            waits = self.stuck
            if waits:
                self._unheard.append((name, args, kwargs))
                del self._unheard[:-MOST_UNHEARD]
        if not waits:
            self.cheap(name, *args, **kwargs)
        working = self._working
        if working is not None:  # the host may tell it from another thread while it is at work
            self._bounded(name, partial(self._on, working, name, args, kwargs, None, None), None)

    def get(self, name: str, otherwise: Any = None) -> Any:
        """An attribute; `otherwise` where there is none, or it cannot be had."""
        if self._patience is None or self._readable(name):
            try:
                return getattr(self.front, name, otherwise)
            except Exception as error:  # noqa: BLE001 - a property may raise anything
                self._complain(name, error)
                return otherwise
        return self._bounded(name, lambda: getattr(self.front, name, otherwise), otherwise)

    def set(self, name: str, value: Any) -> None:
        """Set an attribute, as the host does; an engine may refuse it."""
        self._bounded(name, lambda: setattr(self.front, name, value), None)

    def secret(self) -> str:
        """What must not be shown; empty where there is none."""
        key = self.get("api_key", "")
        return key if isinstance(key, str) and key else self._key

    # -- compress -----------------------------------------------------------------------------------------------------

    def boot(self, sid: str, seconds: float) -> Callable[[Facet], None]:
        """The boot function of its actor for one conversation."""

        async def work(me: Facet, asked: Asked) -> Any:
            rows = asked.messages.thaw()
            done = await blocking(me, asked, self._compressed, rows, asked.focus)
            # An abort is what the host looks at first: whatever else came back is not taken then.
            if done is None or asked.messages == done:
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
            raise type(type(error).__name__, (HostedError,), {})(self._cleaned(_said(error))) from None
        finally:
            self._returned(number)

    def compress_in_time(self, rows: list[dict[str, Any]], seconds: float) -> Any:
        """The same from another thread, waited for so long at most."""
        done = in_time(partial(self.compress, rows), seconds, lambda: None)
        if done.overdue:
            self.put_back()
            raise HostedError(f"it did not answer within {seconds:g} s")
        if done.error is not None:
            raise done.error
        return done.result

    def _compressed(self, rows: list[dict[str, Any]], focus: str | None) -> Messages | None:
        """What its `compress` gave, frozen; None: it aborted.  All on this thread, for what it gives is its own too."""
        done = self.compress(rows, focus)
        if self.aborted:
            return None
        if not isinstance(done, list):
            raise HostedError(f"it gave {'nothing' if done is None else 'a ' + type(done).__name__} instead of a list")
        return Messages.of(done)

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
            if self._compressing and not self._abandoned:
                self._abandoned = True
                _count(self.kind, 1)
            if self._kept is None:
                return
            self._restore()
            if self._compressing:
                return  # what it does until it returns is undone then
            self._kept = None
            missed, self._missed = self._missed, []
        for name, args, kwargs in missed:
            self.lifecycle(name, *args, **kwargs)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _bounded(self, what: str, call: Callable[[], Any], default: Any, seconds: float | None = None) -> Any:
        if self._patience is None:
            try:
                return call()
            except Exception as error:  # noqa: BLE001 - the host would take it for a failed request, or die of it
                self._complain(what, error)
                return default
        if self.stuck:
            return default
        allowed = self._patience if seconds is None else seconds
        late = partial(self._came_back, what)
        try:
            done = in_time(call, allowed, late)
        except BaseException:
            self._overran(what)  # an interrupt: the call runs on, or is over in a moment
            late()
            raise
        if done.overdue:
            self._overran(what)
            log.warning(
                "the context engine %s did not return from %s within %g s; it is left alone until it does",
                self.kind,
                what,
                allowed,
            )
        elif done.error is not None:
            self._complain(what, done.error)
        else:
            return done.result
        return default

    def _on(
        self,
        engine: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        default: Any,
        shape: Callable[[Any], Any] | None,
    ) -> Any:
        method = getattr(engine, name, None)
        if not callable(method):
            return default
        if self._patience is not None:
            args, kwargs = tuple(map(_its_own, args)), {key: _its_own(value) for key, value in kwargs.items()}
        result = method(*args, **accepted(method, kwargs))
        return result if shape is None else shape(result)

    def _begin(self) -> tuple[int, Any]:
        with self._lock:
            if self._overdue:
                raise HostedError(f"it has not returned from {self._overdue[0]}")
            self._calls += 1
            self._missed.clear()
            self.declined = self.aborted = self.fell_back = False
            if self._twin is not None:
                self._working = self._twin(self.front)
                return self._calls, self._working
            self._kept = _written_down(self.front)
            self._compressing = True  # until it returns: its other methods may need what it holds
            return self._calls, self.front

    def _returned(self, number: int) -> None:
        with self._lock:
            if self._abandoned:
                self._abandoned = False
                _count(self.kind, -1)
            self._compressing = False
            heard, self._unheard = self._unheard, []
            if number != self._calls and self._twin is None and self._kept is not None:
                self._restore()
                self._kept = None
                heard, self._missed = self._missed, []
        for name, args, kwargs in heard:
            self.cheap(name, *args, **kwargs)

    def _overran(self, what: str) -> None:
        with self._lock:
            self._overdue.append(what)
            self._overruns += 1
        _count(self.kind, 1)

    def _came_back(self, what: str) -> None:
        """An overdue call has returned, on whose thread this is: tell what came meanwhile, then it counts again."""
        _count(self.kind, -1)
        while True:
            with self._lock:
                if not self._unheard or len(self._overdue) > 1:
                    self._overdue.remove(what)
                    return
                name, args, kwargs = self._unheard.pop(0)
            try:
                self._on(self.front, name, args, kwargs, None, None)
            except BaseException as error:  # noqa: BLE001 - as in any other call of it
                self._complain(name, error)

    def _readable(self, name: str) -> bool:
        """Whether reading an attribute runs no code of the engine's, so that it cannot hang."""
        found = self._is_plain.get(name)
        if found is None:
            found = self._is_plain[name] = _plain_attribute(type(self.front), name)
        return found

    def _restore(self) -> None:
        if self._twin is not None:
            self.front = self._kept
            return
        own = vars(self.front)
        for name in [name for name in own if name not in self._kept]:
            del own[name]
        own.update(_plain_copy(self._kept))

    def _cleaned(self, text: str) -> str:
        return without_secrets(text, self.secret())

    def _complain(self, name: str, error: BaseException) -> None:
        if name not in self._failed:
            self._failed.add(name)
            log.warning(
                "the context engine %s failed in %s: %s",
                self.kind,
                name,
                self._cleaned(f"{type(error).__name__}: {_said(error)}"),
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


def _its_own(value: Any) -> Any:
    """What an engine is handed: lists and dicts of plain data as copies, whatever else as it is."""
    if type(value) is list:
        return [_its_own(item) for item in value]
    if type(value) is dict:
        return {key: _its_own(item) for key, item in value.items()}
    return value


def _plain_attribute(cls: type, name: str) -> bool:
    if cls.__getattribute__ is not object.__getattribute__:
        return False
    for base in cls.__mro__:
        if name in vars(base):
            found = vars(base)[name]
            return isinstance(found, MemberDescriptorType) or not hasattr(type(found), "__get__")
    return not hasattr(cls, "__getattr__")


def _said(error: BaseException) -> str:
    """The words of an error that somebody else has made."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - nothing is sure about it
        return "(it cannot be shown)"


def _count(kind: str, by: int) -> None:
    with _running_lock:
        _running[kind] += by
