"""Facts to plain JSON and back, strictly, for a closed vocabulary.

A fact becomes an object whose `"fact"` names its class and whose other keys are its fields, all of them:

    {"fact": "Budget", "sid": "s1", "context_length": 200000, "threshold": 150000}

Nothing is coerced: `"7"` is not 7, 7.0 is not 7, 1 is not true.  What JSON has no word for is an object with one key that
says what it is: `{"bytes": "00ff"}`, `{"set": [...]}`, `{"float": "inf"}`, `{"pattern": "(budget s1)"}`, and
`{name: ...}` for value types given with `values`.  Tuples are lists.  A field whose metadata says `{"wire": False}` stays
at home.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Union, get_args, get_origin

import cattrs

from ._pattern import Pattern
from ._text import format_pattern, parse_pattern
from ._values import is_fact_class, kind_of
from ._wire_values import (
    BYTES,
    FLOAT,
    SET,
    TAG,
    Value,
    WireError,
    bounded,
    exact,
    fields_of,
    guarded,
    inside,
    meant,
    short,
    shown,
)

__all__ = ["Value", "Wire", "WireError"]

_PLAIN = (str, int, bool, types.NoneType)


class Wire:
    """Dumps and loads the facts of one vocabulary.  Raises nothing but `WireError`, and may be used from any thread.

    What is dumped loads again, equal type by type, if the fields hold what they are annotated with.
    """

    def __init__(self, vocabulary: Iterable[type] | Mapping[str, type], *, values: Iterable[Value] = ()) -> None:
        classes = tuple(vocabulary.values() if isinstance(vocabulary, Mapping) else vocabulary)
        self._fields = {cls: fields_of(cls) for cls in classes}
        self._classes = {cls.__name__: cls for cls in classes}
        if len(self._classes) < len(self._fields):
            raise WireError("two classes of the vocabulary have the same name")
        self._own = tuple(values)
        known = (BYTES, SET, FLOAT, Value("pattern", Pattern, self._dump_pattern, self._load_pattern), *self._own)
        self._values = {value.name: value for value in known}
        self._by_class = {value.cls: value for value in known}
        if len(self._values) < len(known) or len(self._by_class) < len(known) or TAG in self._values:
            raise WireError(f"two values have the same name or class, or one is called {TAG!r}")
        self._converter = self._make_converter()

    @property
    def shared(self) -> tuple[Value, ...]:
        """The values that are made of parts."""
        return tuple(value for value in self._own if value.part is not None)

    def replaced(self, values: Iterable[Value]) -> Wire:
        """A wire for the same vocabulary in which these values take the place of those with their names."""
        others = {value.name: value for value in values}
        return Wire(self._classes, values=[others.get(value.name, value) for value in self._own])

    # -- out ----------------------------------------------------------------------------------------------------------

    def dump(self, fact: Any) -> dict[str, Any]:
        """The fact as an object of plain JSON."""
        return bounded(self._dump_fact, fact)

    def dump_value(self, value: Any) -> Any:
        """A fact, or whatever a fact may hold, as plain JSON that says of itself what it is."""
        return bounded(self._dump, value)

    def _dump_fact(self, fact: Any) -> dict[str, Any]:
        cls = type(fact)
        if cls not in self._fields:
            raise WireError(f"{cls.__qualname__} is not in the vocabulary; it has: {', '.join(sorted(self._classes))}")
        data: dict[str, Any] = {TAG: cls.__name__}
        for name in self._fields[cls]:
            data[name] = inside(f".{name}", self._dump, getattr(fact, name))
        return data

    def _dump(self, value: Any) -> Any:
        cls = type(value)
        if cls in _PLAIN or (cls is float and math.isfinite(value)):
            return value
        if cls is tuple:
            return [inside(f"[{i}]", self._dump, item) for i, item in enumerate(value)]
        if cls in self._fields:
            return self._dump_fact(value)
        codec = self._by_class.get(cls)
        if codec is None or value != value:  # noqa: PLR0124 - NaN
            raise WireError(f"{short(value) if cls is float else f'a {cls.__qualname__}'} has no JSON form")
        plain = guarded(codec.dump, value)
        if codec is SET:
            plain = sorted((self._dump(item) for item in plain), key=repr)
        return {codec.name: plain}

    def _dump_pattern(self, pattern: Pattern[Any]) -> str:
        text = format_pattern(pattern)
        if self._load_pattern(text) != pattern:
            raise WireError(f"{short(text)} would not be read as the same pattern")
        return text

    # -- in -----------------------------------------------------------------------------------------------------------

    def load(self, data: Any) -> Any:
        """The fact that `data` says; what `dump` gave comes back equal, type by type."""
        return bounded(self._load_fact, data, object)

    def load_value(self, data: Any) -> Any:
        """What `dump_value` gave."""
        return bounded(self._load_any, data, Any)

    def _load_fact(self, data: Any, wanted: type) -> Any:
        if type(data) is not dict:
            raise WireError(f"a fact is an object, not {shown(data)}")
        tag = data.get(TAG)
        cls = self._classes.get(tag) if isinstance(tag, str) else None
        if cls is None:
            known = ", ".join(sorted(self._classes))
            raise WireError(
                f'"{TAG}" is missing' if TAG not in data else f"no fact is called {shown(tag)}; there is: {known}"
            )
        if not issubclass(cls, wanted):
            raise WireError(f"a {wanted.__name__} is wanted here, not a {cls.__name__}")
        return self._build(cls, data)

    def _build(self, cls: type, data: dict[str, Any]) -> Any:
        fields = self._fields[cls]
        missing, extra = fields.keys() - data.keys(), data.keys() - fields.keys() - {TAG}
        if missing or extra:
            said = [
                f"{word} {', '.join(sorted(map(short, names)))}"
                for word, names in (("lacks", missing), ("does not know", extra))
                if names
            ]
            raise WireError(f"{cls.__name__} {' and '.join(said)}; its fields are {', '.join(fields) or 'none'}")
        given = {
            alias: inside(f".{name}", self._converter.structure, data[name], hint)
            for name, (alias, hint) in fields.items()
        }
        try:
            fact = cls(**given)
            kind_of(cls).key(fact)
        except RecursionError:
            raise
        except Exception as error:  # noqa: BLE001 - a class checks its fields as it likes
            raise WireError(f"{cls.__name__} refuses: {error}") from None
        return fact

    def _make_converter(self) -> cattrs.Converter:
        """What decides by annotation; each hook is `hook(data, annotation)`, and later ones go first."""
        by_class = self._by_class
        converter = cattrs.Converter(detailed_validation=False)
        for applies, hook in (
            (lambda _hint: True, _refuse_hint),
            (_is(None, types.NoneType), lambda data, _: exact(data, types.NoneType)),
            (_is(Any, object), self._load_any),
            (_is(Literal), self._load_literal),
            (_is(Union, types.UnionType), self._load_union),
            (_is(tuple), self._load_tuple),
            (is_fact_class, self._load_fact),
            (lambda hint: hint is not float and _base(hint) in by_class, self._load_value),
            (lambda hint: meant(hint) is not hint, lambda data, hint: converter.structure(data, meant(hint))),
        ):
            converter.register_structure_hook_func(applies, hook)
        # A converter asks what it has for a class before it asks those above, and it has something lenient for these.
        for cls in self._by_class:
            converter.register_structure_hook(cls, self._load_value)
        for cls, exactly in ((str, exact), (int, exact), (bool, exact), (float, self._load_float)):
            converter.register_structure_hook(cls, exactly)
        return converter

    def _load_any(self, data: Any, _hint: Any) -> Any:
        if type(data) is list:
            return self._load_items(data, [Any] * len(data))
        if type(data) is not dict:
            return self._load_float(data, float) if type(data) not in _PLAIN else data
        if TAG in data:
            return self._load_fact(data, object)
        if len(data) == 1 and (value := self._values.get(next(iter(data)))) is not None:
            return self._load_value(data, value.cls)
        raise WireError(f"an object here has one key, of: {', '.join(sorted([TAG, *self._values]))}")

    def _load_float(self, data: Any, _hint: Any) -> Any:
        if type(data) is dict:
            return self._load_value(data, float)
        if type(data) is float and not math.isfinite(data):
            raise WireError(f'{data!r} is no JSON; what is infinite is written {{"float": "inf"}}')
        return exact(data, float)

    def _load_value(self, data: Any, hint: Any) -> Any:
        value = self._by_class[_base(hint)]
        if type(data) is not dict or list(data) != [value.name]:
            raise WireError(f'this is written {{"{value.name}": ...}}, not {shown(data)}')
        return inside(f".{value.name}", self._load_plain, data[value.name], value, hint)

    def _load_plain(self, plain: Any, value: Value, hint: Any) -> Any:
        loaded = guarded(value.load, plain)
        if value is not SET:
            return loaded
        item = (get_args(hint) or (Any,))[0]
        items = self._load_items(loaded, [item] * len(loaded))
        if len(set(items)) != len(items):
            raise WireError("a set holds nothing twice")
        return frozenset(items)

    def _load_pattern(self, text: Any) -> Pattern[Any]:
        return parse_pattern(exact(text, str), self._classes)

    def _load_tuple(self, data: Any, hint: Any) -> Any:
        if type(data) is not list:
            raise WireError(f"a list is wanted here, not {shown(data)}")
        hints = list(get_args(hint))
        if hints and hints[-1] is ...:
            hints = [hints[0]] * len(data)
        elif get_origin(hint) is None:  # not `tuple[()]`, which has no hints either
            hints = [Any] * len(data)
        if len(hints) != len(data):
            raise WireError(f"{len(hints)} items are wanted here, not {len(data)}")
        return self._load_items(data, hints)

    def _load_items(self, data: list[Any], hints: list[Any]) -> tuple[Any, ...]:
        structure = self._converter.structure
        return tuple([inside(f"[{i}]", structure, *pair) for i, pair in enumerate(zip(data, hints, strict=True))])

    def _load_literal(self, data: Any, hint: Any) -> Any:
        loaded = self._load_any(data, Any)
        for value in get_args(hint):
            if type(loaded) is type(value) and loaded == value:
                return value
        raise WireError(f"one of {', '.join(map(repr, get_args(hint)))} is wanted here, not {shown(data)}")

    def _load_union(self, data: Any, hint: Any) -> Any:
        problems = []
        for arm in get_args(hint):
            try:
                return self._converter.structure(data, arm)
            except WireError as error:
                problems.append(error)
        # The arm that got furthest into the data says best what is wrong.
        raise max(problems, key=lambda error: len(error.path))


def _base(hint: Any) -> Any:
    return get_origin(hint) or hint


def _is(*bases: Any) -> Callable[[Any], bool]:
    return lambda hint: _base(hint) in bases


def _refuse_hint(_data: Any, hint: Any) -> Any:
    raise WireError(f"there is no JSON form for what is annotated {hint}; give one with Wire(..., values=...)")
