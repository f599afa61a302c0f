"""Patterns: what an observer is interested in, as a value.

A pattern names a class and says, for some of its fields, what must be there: a literal, a pattern again, or `CAPTURE`,
which takes anything and hands it to the observer.  Fields it does not name may hold anything.  Two patterns are equal
when they mean the same, however they were written down.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar, cast

import attrs

from ._values import PLAIN, Kind, canon, immutable, is_fact_class, kind_of
from .errors import NotAFact, PatternError

__all__ = ["CAPTURE", "Capture", "Literal", "Observe", "Pattern", "literal", "pattern_of", "where"]

T = TypeVar("T")
Names = tuple[str, ...]
Path = tuple[str | type, ...]


class Capture(enum.Enum):
    """The type of `CAPTURE`."""

    CAPTURE = "CAPTURE"

    def __repr__(self) -> str:
        return "CAPTURE"


CAPTURE = Capture.CAPTURE
"""In a pattern: any value, handed to the observer."""


class Literal:
    """A quoted value, see `literal`."""

    __slots__ = ("form", "value")

    def __init__(self, value: Any, where: str = "the literal") -> None:
        self.value = value
        try:
            self.form = canon(value, where)
        except RecursionError:
            raise NotAFact(f"{where} is nested too deeply") from None

    def __repr__(self) -> str:
        return f"literal({self.value!r})"


def literal(value: Any) -> Literal:
    """Quote `value`: in a pattern it then means itself, even where it is a class, a pattern or `CAPTURE`.

    Raises `NotAFact` for what could change.
    """
    return Literal(value)


Part = Any  # Literal | Capture | Pattern; recursive aliases are not worth their trouble here


@immutable
class Pattern(Generic[T]):
    """Matches facts of exactly the class `cls` whose fields are as `parts` says.  Made by `where`; never changes."""

    __slots__ = ("_hash", "_meaning", "captures", "cls", "kind", "parts")

    def __init__(self, cls: type[T], parts: dict[str, Part]) -> None:
        self.cls = cls
        self.kind: Kind = kind_of(cls)
        self.parts: dict[str, Part] = {name: parts[name] for name in self.kind.fields if name in parts}
        self.captures: tuple[Names, ...] = tuple(self._capture_paths())
        """Where the captured values are, in field order, outer before inner."""
        self._meaning = (cls, tuple([(name, _meaning(part)) for name, part in self.parts.items()]))
        # A bare class and the pattern that says no more than that are equal, so they hash alike.
        self._hash = hash(self._meaning) if self.parts else hash(cls)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Pattern):
            return self is other or self._meaning == other._meaning
        return other is self.cls and not self.parts

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        fields = "".join(f", {name}={_show(part)}" for name, part in self.parts.items())
        return f"where({self.cls.__qualname__}{fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Pattern, (self.cls, self.parts))

    def __copy__(self) -> Pattern[T]:
        return self

    def __deepcopy__(self, memo: object) -> Pattern[T]:
        return self

    def _capture_paths(self) -> Iterator[Names]:
        for name, part in self.parts.items():
            if part is CAPTURE:
                yield (name,)
            elif isinstance(part, Pattern):
                yield from ((name, *path) for path in part.captures)

    def constants(self) -> Iterator[tuple[Path, Hashable]]:
        """Each path that must hold a literal, with the literal's canonical form.

        A path leads through field names and, where a nested pattern fixes it, the class of the fact held there.  A
        nested pattern without literals is the path that ends in its class.
        """
        for name, part in self.parts.items():
            if isinstance(part, Literal):
                yield (name,), part.form
            elif isinstance(part, Pattern):
                cls: type = part.cls
                inner = list(part.constants())
                yield from (((name, cls, *path), form) for path, form in inner)
                if not inner:
                    yield (name, cls), cls

    def match(self, fact: object) -> tuple[Any, ...] | None:
        """What an observer of this pattern gets of `fact`: its captures, or the fact alone; None if it does not match."""
        captured: list[Any] = []
        if not self._match(fact, captured):
            return None
        return tuple(captured) if self.captures else (fact,)

    def _match(self, fact: object, captured: list[Any]) -> bool:
        if type(fact) is not self.cls:
            return False
        for name, part in self.parts.items():
            value = getattr(fact, name)
            if part is CAPTURE:
                captured.append(value)
            elif isinstance(part, Pattern):
                if not part._match(value, captured):
                    return False
            elif part.form != canon(value):
                return False
        return True


# A pattern is equal to patterns only, as far as values that may stand in a fact go; so it is its own canonical form.
PLAIN.add(Pattern)


def _meaning(part: Part) -> Hashable:
    if part is CAPTURE:
        return "?"
    if isinstance(part, Pattern):
        return part._meaning
    return ("=", part.form)


def _show(part: Part) -> str:
    if isinstance(part, Literal):
        quoted = part.value is CAPTURE or isinstance(part.value, (Pattern, type))
        return repr(part) if quoted else repr(part.value)
    return repr(part)


def where(cls: type[T], /, **fields: Any) -> Pattern[T]:
    """The pattern of facts of exactly this class whose named fields hold what is given.

    A field takes a literal value, a pattern or fact class (matched against a fact held there), `CAPTURE`, or
    `literal(x)`.  Raises `PatternError` for a field that the class has not, `NotAFact` for a value that could change.
    """
    if not is_fact_class(cls):
        raise PatternError(f"{cls!r} is no fact class: a pattern begins with a frozen attrs class")
    kind = kind_of(cls)
    for name in fields:
        if name not in kind.fields:
            has = ", ".join(kind.fields) or "none"
            raise PatternError(f"{cls.__qualname__} has no field {name!r}; it has: {has}")
    quoted: Any = fields.get("pattern")
    if cls is Observe and (isinstance(quoted, Pattern) or is_fact_class(quoted)):
        # What stands there is a pattern, never a fact: so the pattern itself is meant.
        fields["pattern"] = literal(pattern_of(quoted))
    try:
        return Pattern(cls, {name: _part(value, f"{cls.__qualname__}.{name}") for name, value in fields.items()})
    except RecursionError:
        raise PatternError(f"a pattern of {cls.__qualname__} is nested too deeply") from None


def _part(value: Any, where_: str) -> Part:
    if value is CAPTURE or isinstance(value, Pattern):
        return value
    if isinstance(value, Literal):
        value, quoted = value.value, True
    else:
        quoted = False
    if is_fact_class(value) and not quoted:
        return Pattern(value, {})
    if is_fact_class(type(value)):
        return _exactly(value, where_)
    if not quoted:
        _refuse_hidden(value, where_)
    return Literal(value, where_)


def _exactly(fact: Any, where_: str) -> Pattern[Any]:
    """A fact as a literal means: that class, with those fields; written as the pattern it is, so that both are equal."""
    kind = kind_of(type(fact))
    kind.key(fact, where_)
    parts = {}
    for name in kind.identity:
        value = getattr(fact, name)
        parts[name] = _part(literal(value), f"{where_}.{name}")
    return Pattern(type(fact), parts)


def _refuse_hidden(value: Any, where_: str) -> None:
    """A capture or pattern inside a tuple would be taken literally and never match: say so instead."""
    if isinstance(value, (tuple, frozenset)):
        for item in value:
            if item is CAPTURE or isinstance(item, (Pattern, Literal)):
                raise PatternError(
                    f"{where_}: patterns do not look inside tuples and sets; quote the whole with literal()"
                )
            _refuse_hidden(item, where_)


def pattern_of(pattern: Pattern[T] | type[T]) -> Pattern[T]:
    """A bare class as the pattern it stands for; raises `PatternError` for what is neither."""
    if isinstance(pattern, Pattern):
        return pattern
    if is_fact_class(pattern):
        return cast("Pattern[T]", Pattern(pattern, {}))
    hint = "; text is read by dataspace.parse_pattern" if isinstance(pattern, str) else ""
    raise PatternError(f"{pattern!r} is no pattern: give a fact class or where(cls, ...){hint}")


@attrs.frozen
class Observe:
    """Interest is a fact: actor `by` observes `pattern`."""

    pattern: Pattern[Any]
    by: str
