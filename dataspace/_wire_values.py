"""What `wire` says of single values: how those are written that JSON has no word for, and what is wrong with others."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, get_args, get_origin

import attrs
from attrs import frozen

from ._values import kind_of
from .errors import DataspaceError, NotAFact

__all__ = [
    "BYTES",
    "FLOAT",
    "SET",
    "TAG",
    "Value",
    "WireError",
    "bounded",
    "exact",
    "fields_of",
    "guarded",
    "inside",
    "meant",
    "short",
    "shown",
]

T = TypeVar("T")

TAG = "fact"
"""The key that names the class."""


class WireError(DataspaceError, ValueError):
    """Data is not what the vocabulary says, or a value has no JSON form; `path` says where, from `$`."""

    def __init__(self, problem: str, path: str = "$") -> None:
        super().__init__(f"{path}: {problem}")
        self.problem = problem
        self.path = path

    def inside(self, step: str) -> WireError:
        """The same error, seen from one level further out."""
        return WireError(self.problem, f"${step}{self.path[1:]}")


@frozen
class Value:
    """How a value type that is no fact is written: as `{name: dump(value)}`.

    `dump` gives plain JSON; `load` takes what came and raises an error of any kind if it is wrong.  `part` is for values
    that share much with each other: iterating over one gives its parts, which `json` can write as they are; `part` loads
    one of them, and `load` takes a list of what `part` gave, too.  A trace then writes every part once.
    """

    name: str
    cls: type
    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]
    part: Callable[[Any], Any] | None = None


_NAMES = {
    str: "a string",
    int: "a whole number",
    float: "a number with a point",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    types.NoneType: "null",
}
_ARTICLES = {True: "an", False: "a"}


def exact(data: Any, cls: Any) -> Any:
    """`data`, if it is of this class and not just like it."""
    if type(data) is not cls:
        wanted = _NAMES.get(cls) or f"{_ARTICLES[cls.__name__[0] in 'AEIOUaeiou']} {cls.__name__}"
        raise WireError(f"{wanted} is wanted here, not {shown(data)}")
    return data


def shown(data: Any) -> str:
    """A few words on what came instead; what is large is not shown, for it may be very large."""
    name = _NAMES.get(type(data), type(data).__qualname__)
    if isinstance(data, (list, dict)):
        return f"{name} of {len(data)}" if data else f"{name} with nothing in it"
    if isinstance(data, int) and not isinstance(data, bool) and data.bit_length() > 200:
        return f"{name} of {data.bit_length()} bits"
    return name if data is None else f"{name} ({short(data)})"


def short(data: Any) -> str:
    """The beginning of something, as Python writes it."""
    if isinstance(data, str):
        data = data[:60]
    text = repr(data)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _load_bytes(data: Any) -> bytes:
    loaded = bytes.fromhex(exact(data, str))
    if loaded.hex() != data:
        raise WireError("bytes are written with two small hexadecimal digits each, and nothing between them")
    return loaded


def _load_infinity(data: Any) -> float:
    if type(data) is not str or data not in ("inf", "-inf"):
        raise WireError(f'"inf" or "-inf" is wanted here, not {shown(data)}')
    return math.inf if data == "inf" else -math.inf


def _load_set(data: Any) -> Any:
    return exact(data, list)


BYTES = Value("bytes", bytes, bytes.hex, _load_bytes)
SET = Value("set", frozenset, list, _load_set)
FLOAT = Value("float", float, str, _load_infinity)


def fields_of(cls: type) -> dict[str, tuple[str, Any]]:
    """The fields that go on the wire: name -> (name in `__init__`, annotation)."""
    try:
        kind_of(cls)
        attrs.resolve_types(cls)
    except NotAFact as error:
        raise WireError(str(error)) from None
    except Exception as error:  # noqa: BLE001 - annotations are evaluated, and may hold anything
        raise WireError(f"the annotations of {cls.__name__} cannot be understood: {error}") from None
    for a in attrs.fields(cls):
        if a.metadata.get("wire", True):
            if not a.init:
                raise WireError(f"{cls.__name__}.{a.name} is not an argument of {cls.__name__}, so it cannot be loaded")
            if a.name == TAG:
                raise WireError(f'{cls.__name__} has a field called "{TAG}", which names the class on the wire')
        elif a.init and a.default is attrs.NOTHING:
            raise WireError(f"{cls.__name__}.{a.name} stays at home and has no default, so a fact cannot be loaded")
    shared = [a for a in attrs.fields(cls) if a.metadata.get("wire", True)]
    return {a.name: (a.alias or a.name, Any if a.type is None else a.type) for a in shared}


def inside(step: str, fn: Callable[..., T], *args: Any) -> T:
    """`fn(*args)`, whose errors are one level further in."""
    try:
        return fn(*args)
    except WireError as error:
        raise error.inside(step) from None


def bounded(fn: Callable[..., T], *args: Any) -> T:
    """`fn(*args)`, for which something may be nested more deeply than the stack reaches."""
    try:
        return fn(*args)
    except RecursionError:
        raise WireError("nested too deeply") from None


def guarded(fn: Callable[[Any], Any], value: Any) -> Any:
    """`fn(value)`, where `fn` is somebody else's."""
    try:
        return fn(value)
    except (WireError, RecursionError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the value is not right
        raise WireError(str(error) or type(error).__name__) from None


def meant(hint: Any) -> Any:
    """What an annotation comes down to: `Annotated`, new types and aliases only give names."""
    if get_origin(hint) is Annotated:
        return get_args(hint)[0]
    for name in ("__supertype__", "__value__"):
        if hasattr(hint, name) and not isinstance(hint, type):
            return getattr(hint, name)
    return hint
