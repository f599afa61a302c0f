"""Chat messages as one immutable value, shared by everybody and changed by nobody.

`Messages.of(rows)` checks once that the rows are plain JSON and copies them into read-only rows.  A `Row` reads like
the dict it was made from (`row["role"]`, `row.get("content")`, `json.dumps(row)`), lists inside it are tuples, and
whatever would change it raises.  Rows that are frozen already are taken over as they are, so slicing, joining and
`Messages.of([*messages, new])` cost next to nothing.  Who needs something to change asks for it: `messages.thaw()` is
a fresh, ordinary list of dicts.

Equality is by value with exact types: `True`, `1` and `1.0` are three values, at any depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Any, NoReturn, SupportsIndex, overload

from dataspace import immutable

from .sameness import recognised, same

__all__ = ["Messages", "NotJSONError", "Row", "thaw"]

_ATOMS = frozenset({str, int, bool, type(None)})
_DEEPEST = 100
_NEW, _UPDATE, _SET, _DEL = (
    dict.__new__,
    dict.update,
    dict.__setitem__,
    dict.__delitem__,
)  # past the methods that refuse
_COPY = dict.copy


class NotJSONError(TypeError, ValueError):
    """Something in a message list is not plain JSON.

    `path` says where, as in `messages[3].content[0].image`, and `row` is the number of the message, if it is in one.
    """

    def __init__(self, path: str, problem: str, row: int | None = None) -> None:
        super().__init__(f"{path} {problem}")
        self.path = path
        self.problem = problem
        self.row = row

    def __reduce__(self) -> tuple[Any, ...]:
        return (NotJSONError, (self.path, self.problem, self.row))


def _refuse(self: Any, *_args: Any, **_kwargs: Any) -> NoReturn:
    raise TypeError("messages are immutable; thaw() gives a copy that may be changed")


@immutable
class Row(dict[str, Any]):
    """A JSON object that nobody can change: one message, or an object inside one.

    It is a `dict` so that whatever reads dicts, `json` first, reads it at full speed.  `memo` is room for one value
    that is computed from the row (its token estimate); it takes no part in equality.
    """

    __slots__ = ("_hash", "_nested", "memo")

    _hash: int
    _nested: tuple[str, ...]  # the keys whose values are no scalars: what thawing has to look at
    memo: Any

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        raise TypeError("rows are made by Messages.of(rows)")

    def without(self, key: str) -> Row:
        """The same row without one of its keys; its `memo` is not taken along."""
        if key not in self:
            return self
        made = _NEW(Row)
        _UPDATE(made, self)
        _DEL(made, key)
        made._nested = tuple([name for name in self._nested if name != key]) if key in self._nested else self._nested
        return made

    def __hash__(self) -> int:  # type: ignore[override]
        try:
            return self._hash
        except AttributeError:
            self._hash = found = hash(frozenset(self.items()))
            return found

    def __eq__(self, other: object) -> bool:
        return same(self, other)

    def __ne__(self, other: object) -> bool:
        return not same(self, other)

    def __copy__(self) -> Row:
        return self

    def __deepcopy__(self, memo: object) -> Row:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (_row, (thaw(self),))

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return self.__reduce__()


@immutable
class Messages(Sequence[Row]):
    """An immutable list of chat messages; made by `Messages.of`, shared freely, hashable, safe across threads."""

    __slots__ = ("_hash", "_rows")

    _hash: int
    _rows: tuple[Row, ...]

    def __init__(self, rows: Iterable[Any] = ()) -> None:
        """Freeze `rows`; like `Messages.of`."""
        self._rows = rows._rows if isinstance(rows, Messages) else _freeze_all(rows)

    @classmethod
    def of(cls, rows: Iterable[Any], like: Messages | None = None) -> Messages:
        """Freeze message dicts, or take over what is frozen; raises `NotJSONError` with the path of what is not JSON.

        `like` is a list that these rows were made from: one that is still equal to its row there becomes that very row.
        It is looked for where rows stand that were kept: at the same distance from the start, or from the end.
        """
        if isinstance(rows, Messages):
            return rows
        return cls(rows if like is None else recognised(rows, like._rows))

    def thaw(self) -> list[dict[str, Any]]:
        """Return fresh dicts and lists, which share nothing that can change with this value or with each other."""
        return [thaw(row) if row._nested else _COPY(row) for row in self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Messages: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Row | Messages:
        return _wrap(self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __reversed__(self) -> Iterator[Row]:
        return reversed(self._rows)

    def __add__(self, other: Iterable[Any]) -> Messages:
        return _wrap(self._rows + Messages.of(other)._rows)

    def __radd__(self, other: Iterable[Any]) -> Messages:
        return Messages.of(other) + self

    def __eq__(self, other: object) -> bool:
        """Equal rows in equal order; also to a plain list of dicts, so that tests and scripts read well."""
        if self is other:
            return True
        if isinstance(other, Messages):
            return same(self._rows, other._rows)
        return same(self._rows, other) if isinstance(other, list) else NotImplemented

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = found = hash(self._rows)
            return found

    def __copy__(self) -> Messages:
        return self

    def __deepcopy__(self, memo: object) -> Messages:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (Messages, (self.thaw(),))

    def __repr__(self) -> str:
        roles = ", ".join(str(row.get("role")) for row in self._rows[:6])
        return f"<Messages {len(self._rows)}: {roles}{', …' if len(self._rows) > 6 else ''}>"


def thaw(value: Any) -> Any:
    """Return an ordinary copy of a frozen value: dicts for rows, lists for tuples; atoms as they are."""
    if type(value) is Row:
        made = _COPY(value)
        for key in value._nested:
            made[key] = thaw(made[key])
        return made
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    return value


def _wrap(rows: tuple[Row, ...]) -> Messages:
    made = Messages.__new__(Messages)
    made._rows = rows
    return made


def _row(value: Any) -> Row:
    """Freeze one object (what unpickling a row calls)."""
    frozen: Row = _freeze(value, 0)
    return frozen


class _NotJSON(Exception):
    pass


def _freeze_all(rows: Iterable[Any]) -> tuple[Row, ...]:
    if isinstance(rows, (str, bytes, dict)) or not isinstance(rows, Iterable):
        raise NotJSONError("messages", f"must be a list of dicts, not {_named(rows)}")
    rows = tuple(rows)
    try:
        return tuple([row if type(row) is Row else _frozen_row(row) for row in rows])
    except (_NotJSON, RecursionError):
        raise _explain(rows) from None


def _frozen_row(row: Any) -> Row:
    if not isinstance(row, dict):
        raise _NotJSON
    return _freeze_dict(row, 0)


def _freeze(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind is dict:
        return _freeze_dict(value, depth)
    if kind in _ATOMS or kind is Row:
        return value
    if isinstance(value, dict):
        return _freeze_dict(value, depth)
    if isinstance(value, (list, tuple)):
        if depth >= _DEEPEST:
            raise _NotJSON
        return tuple([item if type(item) in _ATOMS else _freeze(item, depth + 1) for item in value])
    return _freeze_atom(value)


def _freeze_dict(value: dict[Any, Any], depth: int) -> Row:
    if depth >= _DEEPEST:
        raise _NotJSON
    made = _NEW(Row)
    _UPDATE(made, value)
    nested: tuple[str, ...] = ()
    for key, item in made.items():
        if type(key) is not str:
            raise _NotJSON
        if type(item) not in _ATOMS:
            _SET(made, key, _freeze(item, depth + 1))  # an existing key: the dict keeps its size
            nested = (*nested, key)
    made._nested = nested
    return made


def _freeze_atom(value: Any) -> Any:
    """Floats, and subclasses of the scalars (enums mostly), which are taken as what they are underneath."""
    if isinstance(value, float) and isfinite(value):
        return float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    raise _NotJSON


def _explain(rows: tuple[Any, ...]) -> NotJSONError:
    """Walk once more, slowly, to say where and what."""
    for number, row in enumerate(rows):
        path = f"messages[{number}]"
        if not isinstance(row, dict):
            return NotJSONError(path, f"must be a dict, not {_named(row)}", number)
        if found := _find(row, path, 0):
            return NotJSONError(*found, number)
    return NotJSONError("messages", "changed while they were being read")  # pragma: no cover - another thread


def _find(value: Any, path: str, depth: int) -> tuple[str, str] | None:
    items: Iterable[tuple[str, Any]]
    if isinstance(value, dict):
        for key in value:
            if type(key) is not str:
                return path, f"has the key {key!r}; keys must be text"
        items = ((f"{path}.{key}", item) for key, item in value.items())
    elif isinstance(value, (list, tuple)):
        items = ((f"{path}[{number}]", item) for number, item in enumerate(value))
    elif isinstance(value, float) and not isfinite(value):
        return path, f"is {value}, which JSON does not have"
    elif value is None or isinstance(value, (str, int, float)):
        return None
    else:
        return path, f"must be plain JSON, not {_named(value)}"
    if depth >= _DEEPEST:
        return f"{path[:120]}…", f"is nested more than {_DEEPEST} deep, or holds itself"
    return next((found for key, item in items if (found := _find(item, key, depth + 1))), None)


def _named(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
