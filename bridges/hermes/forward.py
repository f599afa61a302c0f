"""The calls of the host that an engine of somebody else answers at once, or does not.

The built-in's are made by the thread the host came on.  Those of any other engine are made in a thread that the host's
waits for only so long (`bounded`); while one of them is overdue the engine counts as stuck: it is asked nothing, its
word does not count, and what it should hear is told it when it returns.  What reaches such an engine is its own copy,
and what it says is made into what the caller needs within the same call.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import FunctionType, MemberDescriptorType
from typing import Any

from .bounded import in_time
from .hidden import without_secrets

__all__ = ["Forward", "accepted", "left_running", "said"]

MOST_UNHEARD = 100
"""So many things that a stuck engine should have heard are told it when it returns; older ones are not."""
MOST_OVERRUNS = 3
"""An engine that was overdue so often is asked nothing cheap any more until a new session."""

log = logging.getLogger(__name__)
_running: Counter[str] = Counter()
_running_lock = threading.Lock()


def left_running(kind: str, by: int = 0) -> int:
    """How many calls of engines of this kind still run though nobody waits for them, in this process; `by` more now."""
    with _running_lock:
        _running[kind] += by
        return _running[kind]


class Forward:
    """An engine and its cheap calls.

    `patience` is how many seconds one may take; None: it is made on the calling thread and may take for ever.
    """

    def __init__(self, kind: str, engine: Any, patience: float | None) -> None:
        self.kind = kind
        self.front = engine
        """The instance whose attributes count now."""
        self._patience = patience
        self._lock = threading.Lock()
        self._unheard: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._compressing = False
        self._overdue: list[str] = []  # calls that nobody waits for any more, by what they are
        self._overruns = 0
        self._failed: set[str] = set()
        self._is_plain: dict[str, bool] = {}

    @property
    def stuck(self) -> bool:
        """A call has not returned, and may hold what other calls need; or it has been overdue too often."""
        return self._compressing or bool(self._overdue) or self._overruns >= MOST_OVERRUNS

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

        `shape` makes of the result what the caller needs; `seconds` is how long it may take, where not as ever.
        """
        if self._patience is None:
            try:
                return self._on(self.front, name, args, kwargs, default, shape)
            except Exception as error:  # noqa: BLE001 - the host would take it for a failed request, or die of it
                self._complain(name, error)
                return default
        return self._bounded(name, partial(self._on, self.front, name, args, kwargs, default, shape), default, seconds)

    def tell(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Have it hear something: now, or if it is stuck when it is not any more."""
        with self._lock:
            waits = self.stuck
            if waits:
                self._unheard.append((name, args, kwargs))
                del self._unheard[:-MOST_UNHEARD]
        if not waits:
            self.cheap(name, *args, **kwargs)

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
        done = in_time(call, allowed, partial(self._overran, what, allowed), partial(self._came_back, what))
        if done.error is not None:
            self._complain(what, done.error)
        return default if done.overdue or done.error is not None else done.result

    def _on(
        self,
        engine: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        default: Any = None,
        shape: Callable[[Any], Any] | None = None,
    ) -> Any:
        method = getattr(engine, name, None)
        if not callable(method):
            return default
        if self._patience is not None:
            args, kwargs = tuple(map(_its_own, args)), {key: _its_own(value) for key, value in kwargs.items()}
        result = method(*args, **accepted(method, kwargs)) if kwargs else method(*args)
        return result if shape is None else shape(result)

    def _overran(self, what: str, seconds: float) -> None:
        with self._lock:
            self._overdue.append(what)
            self._overruns += 1
        left_running(self.kind, 1)
        log.warning(
            "the context engine %s did not return from %s within %g s; it is left alone until it does",
            *(self.kind, what, seconds),
        )

    def _came_back(self, what: str) -> None:
        """An overdue call has returned, on whose thread this is: tell what came meanwhile, then the engine counts again."""
        left_running(self.kind, -1)
        while True:
            with self._lock:
                if not self._unheard or len(self._overdue) > 1 or self._compressing:
                    self._overdue.remove(what)
                    return
                name, args, kwargs = self._unheard.pop(0)
            self._hear(name, args, kwargs)

    def _hear(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Tell it something late, on a thread that is the engine's already."""
        try:
            self._on(self.front, name, args, kwargs)
        except BaseException as error:  # noqa: BLE001 - as in any other call of it
            self._complain(name, error)

    def _readable(self, name: str) -> bool:
        """Whether reading an attribute runs no code of the engine's, so that it cannot hang."""
        found = self._is_plain.get(name)
        if found is None:
            found = self._is_plain[name] = _plain_attribute(type(self.front), name)
        return found

    def _cleaned(self, text: str) -> str:
        return without_secrets(text, getattr(self.front, "__dict__", {}).get("api_key"))

    def _complain(self, name: str, error: BaseException) -> None:
        if name not in self._failed:
            self._failed.add(name)
            text = self._cleaned(f"{type(error).__name__}: {said(error)}")
            log.warning("the context engine %s failed in %s: %s", self.kind, name, text)


def accepted(method: Callable[..., Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the keyword arguments that a method takes."""
    if not told:
        return {}
    function = getattr(method, "__func__", None)
    names = _names_of_a_method(function) if type(function) is FunctionType else _names(method)
    return dict(told) if names is None else {name: value for name, value in told.items() if name in names}


def _names(method: Callable[..., Any]) -> frozenset[str] | None:
    """The arguments it takes by name; None: any."""
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return None
    return frozenset(parameters)


_names_of_a_method = lru_cache(256)(_names)  # to read a signature takes longer than most calls


def said(error: BaseException) -> str:
    """The words of an error that somebody else has made."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - nothing is sure about it
        return "(it cannot be shown)"


def _its_own(value: Any) -> Any:
    """What an engine is handed: lists and dicts of plain data as copies, whatever else as it is."""
    if type(value) is list:
        return [_its_own(item) for item in value]
    if type(value) is dict:
        return {key: _its_own(item) for key, item in value.items()}
    return value


def _plain_attribute(cls: type, name: str) -> bool:
    if getattr(cls, "__getattribute__", None) is not object.__getattribute__:
        return False
    for base in cls.__mro__:
        if name in vars(base):
            found = vars(base)[name]
            return isinstance(found, MemberDescriptorType) or not hasattr(type(found), "__get__")
    return not hasattr(cls, "__getattr__")
