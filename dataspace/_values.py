"""Which values may be published, and when two of them are the same.

A value is *canonical* when Python's `==` tells apart what facts tell apart: `True`, `1` and `1.0` are equal to Python and
are three different values here.  Strings, ints, bytes and None stand for themselves; anything else becomes a tuple that
begins with its exact type, so that a canonical tuple can never be mistaken for a plain value.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import types
import uuid
from collections.abc import Callable, Hashable
from typing import Any, NoReturn, TypeVar

import attrs

from .errors import NotAFact

__all__ = ["PLAIN", "Key", "Kind", "canon", "immutable", "is_fact_class", "kind_of", "no_fact"]

Key = tuple[Hashable, ...]
C = TypeVar("C", bound=type)

PLAIN: set[type] = {str, int, bytes, type(None)}
"""Types whose values are their own canonical form; `==` never takes one for a value of another type."""

_immutable: set[type] = {
    *(
        complex,
        decimal.Decimal,
        fractions.Fraction,
        uuid.UUID,
        range,
        type,
        types.FunctionType,
        types.BuiltinFunctionType,
    ),
    *(datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone),
    *(pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath),
}


def immutable(cls: C) -> C:
    """Declare that instances of `cls` never change and hash by value; from then on facts may hold them.

    Use it as a decorator.  What it promises is the caller's word: nothing can check it.
    """
    _immutable.add(cls)
    return cls


def canon(value: Any, where: str = "the value") -> Hashable:
    """The canonical form of `value`; raises `NotAFact`, naming `where`, for what could change later."""
    cls: type = type(value)
    if cls in PLAIN:
        return value  # type: ignore[no-any-return]
    if cls is bool:
        return (bool, value)
    if cls is float:
        if value != value:  # noqa: PLR0124 - that is how it shows
            _refuse_nan(where)
        return (float, value)
    if cls is tuple:
        return (tuple, *[canon(item, f"{where}[{i}]") for i, item in enumerate(value)])
    if cls is frozenset:
        return (frozenset, frozenset([canon(item, f"an item of {where}") for item in value]))
    if cls in _immutable or isinstance(value, (enum.Enum, type)):
        return (cls, _comparable(value, where))
    if is_fact_class(cls):
        return (cls, *kind_of(cls).key(value, where))
    raise NotAFact(f"{where} is {_describe(cls)}; {_advice(cls)}")


def _comparable(value: Any, where: str) -> Any:
    """`value`, if it can be looked up again: a commit, which files it, must not fail any more."""
    _check_itself(value, where)
    try:
        hash(value)
    except Exception as error:
        raise NotAFact(f"{where}, a {type(value).__qualname__}, cannot be hashed: {error}") from error
    return value


def _check_itself(value: Any, where: str) -> None:
    try:
        itself = bool(value == value)  # noqa: PLR0124 - NaN is not, in every type that has one
    except Exception as error:
        raise NotAFact(f"{where}, a {type(value).__qualname__}, cannot be compared: {error}") from error
    if not itself:
        _refuse_nan(where)


def _refuse_nan(where: str) -> NoReturn:
    raise NotAFact(f"{where} is not a number (NaN), which is not even equal to itself; leave it out or use None")


def _describe(cls: type) -> str:
    return f"a {cls.__qualname__}"


def _advice(cls: type) -> str:
    if issubclass(cls, (list, set, dict, bytearray)):
        better = {list: "a tuple", set: "a frozenset", dict: "a frozen attrs class"}.get(cls, "an immutable value")
        return f"only what cannot change is published, use {better}"
    if attrs.has(cls):
        return "only frozen attrs classes compared by value are published, use @attrs.frozen"
    return "only immutable values are published; if its instances never change, register it with dataspace.immutable"


def no_fact(value: Any) -> str:
    """Why `value` is no fact, and what to do about it."""
    if is_fact_class(value):
        return f"it is the class, give an instance: {value.__name__}(...)"
    if attrs.has(type(value)):
        return "its class can change or is not compared by value, use @attrs.frozen"
    if dataclasses.is_dataclass(value):
        return "facts are attrs classes, use @attrs.frozen instead of @dataclass"
    return "a fact is an instance of a frozen attrs class (@attrs.frozen)"


def is_fact_class(cls: Any) -> bool:
    """Is `cls` a frozen attrs class that compares and hashes by value?"""
    if not (isinstance(cls, type) and attrs.has(cls)) or "__attrs_attrs__" not in cls.__dict__:
        return False
    props = attrs.inspect(cls)
    return bool(props.is_frozen) and bool(props.added_eq)


class Kind:
    """What is known of a fact class: its fields, and how to make the key of an instance."""

    __slots__ = ("cls", "fields", "identity", "key")

    def __init__(self, cls: type) -> None:
        if not is_fact_class(cls):
            name = getattr(cls, "__qualname__", cls)
            raise NotAFact(f"{name} is not a fact class: a fact is an instance of a frozen attrs class (@attrs.frozen)")
        self.cls = cls
        self.fields: tuple[str, ...] = tuple([a.name for a in attrs.fields(cls)])
        """All fields, in order."""
        self.identity: tuple[str, ...] = tuple([a.name for a in attrs.fields(cls) if a.eq])
        """Those that make a fact this fact and not another, in order."""
        self.key: Callable[..., Key] = _key_maker(self.fields, self.identity, self._careful_key)
        """`key(fact)` is its canonical identity; raises `NotAFact` naming the field that cannot be published."""

    def _careful_key(self, fact: Any, where: str | None = None) -> Key:
        where = where or self.cls.__qualname__
        try:
            forms = {name: self._form(name, getattr(fact, name), f"{where}.{name}") for name in self.fields}
        except RecursionError:
            raise NotAFact(f"{where} is nested too deeply to be published") from None
        return tuple([forms[name] for name in self.identity])

    def _form(self, name: str, value: Any, where: str) -> Hashable:
        """Readings take no part in the key, so they need not be hashed; but what is published may not change either."""
        if type(value) in _immutable and name not in self.identity:
            _check_itself(value, where)
            return None
        return canon(value, where)


def _key_maker(fields: tuple[str, ...], identity: tuple[str, ...], careful: Callable[..., Key]) -> Callable[..., Key]:
    """Write the function that makes keys for one class, as attrs writes `__init__`: it runs at every publish.

    It is quick where all values are their own canonical form, and leaves the rest to `careful`.
    """
    if not fields:
        return lambda fact, where=None: ()
    local = {name: f"v{i}" for i, name in enumerate(fields)}
    loads = "".join([f"    {v} = fact.{name}\n" for name, v in local.items()])
    plain = " and ".join([f"type({v}) in plain" for v in local.values()])
    key = "".join([f"{local[name]}, " for name in identity])
    source = (
        f"def key(fact, where=None):\n{loads}    if {plain}:\n        return ({key})\n    return careful(fact, where)\n"
    )
    namespace: dict[str, Any] = {"plain": PLAIN, "careful": careful}
    exec(source, namespace)  # noqa: S102 - of field names only, which are identifiers
    return namespace["key"]  # type: ignore[no-any-return]


_kinds: dict[type, Kind] = {}


def kind_of(cls: type) -> Kind:
    """The `Kind` of a fact class, made once a class; raises `NotAFact`."""
    kind = _kinds.get(cls)
    if kind is None:
        kind = _kinds[cls] = Kind(cls)
    return kind
