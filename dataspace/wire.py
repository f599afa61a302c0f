"""Facts to plain JSON and back, strictly, for a closed vocabulary.

A fact becomes an object whose `"fact"` names its class and whose other keys are its fields, all of them:

    {"fact": "Budget", "sid": "s1", "context_length": 200000, "threshold": 150000}

Nothing is coerced: `"7"` is not 7, 7.0 is not 7, 1 is not true.  What JSON has no word for is an object with one key that
says what it is: `{"bytes": "00ff"}`, `{"set": [...]}`, `{"float": "inf"}`, and `{name: ...}` for value types given with
`values`.  Tuples are lists.  A field whose metadata says `{"wire": False}` stays at home.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import attrs
import cattrs
from attrs import frozen

from ._pattern import Pattern
from ._text import format_pattern, parse_pattern
from ._values import is_fact_class, kind_of
from .errors import DataspaceError, NotAFact, PatternError

__all__ = ["Value", "Wire", "WireError"]

T = TypeVar("T")
TAG = "fact"


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
    """How a value type that is no fact is written: as `{name: dump(value)}`."""

    name: str
    cls: type
    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]


class Wire:
    """Dumps and loads the facts of one vocabulary.  Raises nothing but `WireError`, and may be used from any thread."""

    def __init__(self, vocabulary: Iterable[type] | Mapping[str, type], *, values: Iterable[Value] = ()) -> None:
        classes = tuple(vocabulary.values() if isinstance(vocabulary, Mapping) else vocabulary)
        self._classes = {cls.__name__: cls for cls in classes}
        if len(self._classes) < len(set(classes)):
            raise WireError("two classes of the vocabulary have the same name")
        self._fields = {cls: _fields_of(cls) for cls in classes}
        pattern = Value("pattern", Pattern, format_pattern, lambda text: parse_pattern(_exact(text, str), classes))
        self._values = {value.name: value for value in (_BYTES, _SET, _FLOAT, pattern, *values)}
        self._by_class = {value.cls: value for value in self._values.values()}
        self._converter = self._make_converter()

    # -- out ----------------------------------------------------------------------------------------------------------

    def dump(self, fact: Any) -> dict[str, Any]:
        """The fact as an object of plain JSON."""
        cls = type(fact)
        if cls not in self._fields:
            raise WireError(f"{cls.__qualname__} is not in the vocabulary; it has: {', '.join(sorted(self._classes))}")
        data: dict[str, Any] = {TAG: cls.__name__}
        for name in self._fields[cls]:
            try:
                data[name] = self._dump(getattr(fact, name))
            except WireError as error:
                raise error.inside(f".{name}") from None
        return data

    def _dump(self, value: Any) -> Any:
        cls = type(value)
        if cls in (str, int, bool, types.NoneType) or (cls is float and math.isfinite(value)):
            return value
        if cls is tuple:
            return [self._dump(item) for item in value]
        if cls in self._fields:
            return self.dump(value)
        codec = self._by_class.get(cls)
        if codec is None:
            raise WireError(f"a {cls.__qualname__} has no JSON form")
        try:
            plain = codec.dump(value)
        except PatternError as error:
            raise WireError(str(error)) from None
        if codec is _SET:
            plain = sorted((self._dump(item) for item in plain), key=repr)
        return {codec.name: plain}

    def dump_value(self, value: Any) -> Any:
        """A fact, or whatever a fact may hold, as plain JSON that says of itself what it is."""
        return self._dump(value)

    # -- in -----------------------------------------------------------------------------------------------------------

    def load(self, data: Any) -> Any:
        """The fact that `data` says; what `dump` gave comes back equal, type by type."""
        try:
            return self._load_fact(data, object)
        except RecursionError:
            raise WireError("nested too deeply") from None

    def load_value(self, data: Any) -> Any:
        """What `dump_value` gave."""
        try:
            return self._load_any(data, Any)
        except RecursionError:
            raise WireError("nested too deeply") from None

    def _load_fact(self, data: Any, wanted: type) -> Any:
        if type(data) is not dict:
            raise WireError(f"a fact is an object, not {_name(data)}")
        tag = data.get(TAG)
        cls = self._classes.get(tag) if isinstance(tag, str) else None
        if cls is None:
            known = ", ".join(sorted(self._classes))
            raise WireError(
                f'"{TAG}" is missing' if TAG not in data else f"no fact is called {tag!r}; there is: {known}"
            )
        if not issubclass(cls, wanted):
            raise WireError(f"a {wanted.__name__} is wanted here, not a {cls.__name__}")
        return self._build(cls, data)

    def _build(self, cls: type, data: dict[str, Any]) -> Any:
        fields = self._fields[cls]
        missing, extra = fields.keys() - data.keys(), data.keys() - fields.keys() - {TAG}
        if missing or extra:
            said = [
                f"{word} {', '.join(sorted(map(repr, names)))}"
                for word, names in (("lacks", missing), ("does not know", extra))
                if names
            ]
            raise WireError(f"{cls.__name__} {' and '.join(said)}; its fields are {', '.join(fields)}")
        values = {}
        for name, (alias, annotation) in fields.items():
            try:
                values[alias] = self._converter.structure(data[name], annotation)
            except WireError as error:
                raise error.inside(f".{name}") from None
        try:
            fact = cls(**values)
            kind_of(cls).key(fact)
        except (NotAFact, TypeError, ValueError) as error:
            raise WireError(f"{cls.__name__} refuses: {error}") from None
        return fact

    def _make_converter(self) -> cattrs.Converter:
        """What decides by annotation; each hook is `hook(data, annotation)`."""
        by_class = self._by_class

        def is_value(hint: Any) -> bool:
            return hint is not float and (_base(hint)) in by_class

        converter = cattrs.Converter(detailed_validation=False)
        for cls in (str, int, bool):
            converter.register_structure_hook(cls, _exact)
        converter.register_structure_hook(float, self._load_float)
        for applies, hook in (
            (_is(None, types.NoneType), lambda data, _: _exact(data, types.NoneType)),
            (_is(Any, object), self._load_any),
            (_is(Literal), _load_literal),
            (_is(Union, types.UnionType), self._load_union),
            (_is(tuple), self._load_tuple),
            (is_fact_class, self._load_fact),
            (is_value, self._load_value),
        ):
            converter.register_structure_hook_func(applies, hook)
        return converter

    def _load_any(self, data: Any, _hint: Any) -> Any:
        if type(data) is list:
            return self._load_items(data, [Any] * len(data))
        if type(data) is not dict:
            return data
        if TAG in data:
            return self._load_fact(data, object)
        if len(data) == 1 and (value := self._values.get(next(iter(data)))) is not None:
            return self._load_value(data, value.cls)
        raise WireError(f"an object here has one key, of: {', '.join(sorted([TAG, *self._values]))}")

    def _load_float(self, data: Any, _hint: Any) -> Any:
        return self._load_value(data, float) if type(data) is dict else _exact(data, float)

    def _load_value(self, data: Any, hint: Any) -> Any:
        value = self._by_class[_base(hint)]
        if type(data) is not dict or list(data) != [value.name]:
            raise WireError(f'this is written {{"{value.name}": ...}}, not {_name(data)}')
        try:
            loaded = value.load(data[value.name])
        except WireError as error:
            raise error.inside(f".{value.name}") from None
        except (ValueError, TypeError) as error:
            raise WireError(str(error), f"$.{value.name}") from None
        if value is not _SET:
            return loaded
        item = (get_args(hint) or (Any,))[0]
        items = self._load_items(loaded, [item] * len(loaded))
        if len(set(items)) != len(items):
            raise WireError("a set holds nothing twice")
        return frozenset(items)

    def _load_tuple(self, data: Any, hint: Any) -> Any:
        if type(data) is not list:
            raise WireError(f"a list is wanted here, not {_name(data)}")
        hints = list(get_args(hint)) or [Any, ...]
        if hints[-1] is ...:
            hints = [hints[0]] * len(data)
        if len(hints) != len(data):
            raise WireError(f"{len(hints)} items are wanted here, not {len(data)}")
        return self._load_items(data, hints)

    def _load_items(self, data: list[Any], hints: list[Any]) -> tuple[Any, ...]:
        items = []
        for i, (item, hint) in enumerate(zip(data, hints, strict=True)):
            try:
                items.append(self._converter.structure(item, hint))
            except WireError as error:
                raise error.inside(f"[{i}]") from None
        return tuple(items)

    def _load_union(self, data: Any, hint: Any) -> Any:
        problems = []
        for arm in get_args(hint):
            try:
                return self._converter.structure(data, arm)
            except WireError as error:
                problems.append(error)
        # The arm that got furthest into the data says best what is wrong.
        raise max(problems, key=lambda error: len(error.path))


def _fields_of(cls: type) -> dict[str, tuple[str, Any]]:
    """The fields that go on the wire: name -> (name in `__init__`, annotation)."""
    kind_of(cls)
    attrs.resolve_types(cls)
    shared = [a for a in attrs.fields(cls) if a.metadata.get("wire", True)]
    for a in shared:
        if not a.init:
            raise WireError(f"{cls.__name__}.{a.name} is not an argument of {cls.__name__}, so it cannot be loaded")
        if a.name == TAG:
            raise WireError(f'{cls.__name__} has a field called "{TAG}", which names the class on the wire')
    return {a.name: (a.alias or a.name, Any if a.type is None else a.type) for a in shared}


def _base(hint: Any) -> Any:
    return get_origin(hint) or hint


def _is(*bases: Any) -> Callable[[Any], bool]:
    return lambda hint: _base(hint) in bases


def _exact(data: Any, cls: Any) -> Any:
    if type(data) is not cls:
        raise WireError(f"{_names.get(cls, cls.__name__)} is wanted here, not {_name(data)}")
    return data


def _load_literal(data: Any, hint: Any) -> Any:
    for value in get_args(hint):
        if type(data) is type(value) and data == value:
            return value
    raise WireError(f"one of {', '.join(map(repr, get_args(hint)))} is wanted here, not {_name(data)}")


def _load_set(data: Any) -> list[Any]:
    return typing.cast("list[Any]", _exact(data, list))


def _load_infinity(data: Any) -> float:
    if data not in ("inf", "-inf"):
        raise WireError('"inf" or "-inf" is wanted here')
    return float(data)


_names = {
    str: "a string",
    int: "a whole number",
    float: "a number with a point",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    types.NoneType: "null",
}


def _name(data: Any) -> str:
    shown = repr(data)
    return f"{_names.get(type(data), type(data).__qualname__)} ({shown if len(shown) <= 40 else shown[:37] + '...'})"


_BYTES = Value("bytes", bytes, bytes.hex, lambda data: bytes.fromhex(_exact(data, str)))
_SET = Value("set", frozenset, list, _load_set)
_FLOAT = Value("float", float, str, _load_infinity)
