"""Patterns as text: `(should-compress ?sid #:reason manual)`.

The label is the class name in kebab-case; what follows are fields in order, which may stop early, and `#:field value`
for others.  A value is `?name` (captured), `_` (anything), a pattern in parentheses, or a literal:

    7  7.5  #inf  #-inf  "text"  text  #t  #f  #nil  #x"00ff"  [tuple]  #{set}  '(quoted pattern)  'quoted-class  '?

A bare word is the string of that name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

from ._pattern import CAPTURE, Literal, Pattern, literal, where
from ._values import kind_of
from .errors import NotAFact, PatternError

__all__ = ["format_pattern", "label_of", "parse_pattern"]

MAX_DEPTH = 50

_token = re.compile(
    r"""\s*(?:
      (?P<open>\#\{|[(\[]) | (?P<close>[)\]}]) | (?P<quote>') | (?P<field>\#:[^\s()\[\]{}"']+)
    | (?P<bytes>\#x"[0-9a-fA-F]*") | (?P<string>"(?:[^"\\]|\\.)*") | (?P<word>[^\s()\[\]{}"']+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_integer = re.compile(r"[+-]?\d+", re.ASCII)
_float = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_symbol = re.compile(r"[a-z][a-z0-9-]*")
_escape = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|(.))", re.DOTALL)
_simple_escapes = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_constants = {"#t": True, "#f": False, "#nil": None, "#inf": math.inf, "#-inf": -math.inf}
_pairs = {"(": ")", "[": "]", "#{": "}"}


def label_of(cls: type) -> str:
    """The kebab-case of a class name: `ShouldCompress` is `should-compress`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", cls.__name__).lower()


def parse_pattern(text: str, vocabulary: Iterable[type] | Mapping[str, type]) -> Pattern[Any]:
    """Read a pattern whose labels name classes of `vocabulary`.

    Raises `PatternError`, whose `column` (from 1) says where.
    """
    classes = vocabulary.values() if isinstance(vocabulary, Mapping) else vocabulary
    labels: dict[str, type] = {}
    for cls in classes:
        if labels.setdefault(label_of(cls), cls) is not cls:
            raise PatternError(f"the vocabulary has two classes that are written {label_of(cls)}")
    return _Reader(text, labels).read()


class _Token(NamedTuple):
    kind: str
    text: str
    column: int


class _Reader:
    """Reads one text, token by token."""

    def __init__(self, text: str, labels: dict[str, type]) -> None:
        self._text = text
        self._labels = labels
        self._at = 0
        self._depth = 0
        self._names: set[str] = set()

    def read(self) -> Pattern[Any]:
        token = self._next("a pattern")
        if token.text != "(":
            self._fail(f"a pattern begins with '(', not {token.text!r}", token)
        pattern = self._pattern(token)
        if self._text[self._at :].strip():
            token = self._next("the end")
            self._fail(f"there is {token.text!r} after the end of the pattern", token)
        return pattern

    def _fail(self, message: str, token: _Token) -> NoReturn:
        raise PatternError(message if len(message) <= 500 else message[:499] + "…", token.column)

    def _next(self, wanted: str) -> _Token:
        match = _token.match(self._text, self._at)
        if match is None or match.lastgroup is None:
            rest = len(self._text) - len(self._text[self._at :].lstrip())
            if rest < len(self._text):
                what = (
                    "a string that does not end"
                    if self._text[rest] == '"'
                    else f"{self._text[rest]!r} has no meaning here"
                )
                raise PatternError(what, rest + 1)
            raise PatternError(f"the text ends where {wanted} is missing", len(self._text) + 1)
        self._at = match.end()
        return _Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1)

    def _deeper(self, token: _Token) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"nested more than {MAX_DEPTH} deep", token)

    def _pattern(self, opening: _Token) -> Pattern[Any]:
        self._deeper(opening)
        label = self._next("a label")
        cls = self._class(label)
        fields = kind_of(cls).fields
        parts: dict[str, Any] = {}
        position = 0
        while (token := self._next("')'")).text != ")" or token.kind != "close":
            if token.kind == "field":
                name, value = token.text[2:], self._value(self._next("a value"))
            elif position < len(fields):
                name, value = fields[position], self._value(token)
                position += 1
            else:
                self._fail(f"{label.text} has {len(fields)} fields, this is one more", token)
            if name not in fields:
                self._fail(f"{label.text} has no field {name!r}; it has: {', '.join(fields)}", token)
            if name in parts:
                self._fail(f"{label.text} is given {name!r} twice", token)
            parts[name] = value
        self._depth -= 1
        try:
            return where(cls, **{name: value for name, value in parts.items() if value is not _anything})
        except NotAFact as error:
            self._fail(str(error), label)

    def _class(self, token: _Token) -> type:
        cls = self._labels.get(token.text)
        if cls is None:
            near = get_close_matches(token.text, self._labels, n=3) or sorted(self._labels)
            self._fail(f"there is no fact {token.text!r}; there is: {', '.join(near)}", token)
        return cls

    def _value(self, token: _Token) -> Any:
        if token.kind == "word" and token.text == "_":
            return _anything
        if token.kind == "word" and token.text.startswith("?"):
            name = token.text[1:]
            if name in self._names:
                self._fail(f"?{name} is there twice; a pattern does not compare what it captures", token)
            if name:
                self._names.add(name)
            return CAPTURE
        if token.text == "(":
            return self._pattern(token)
        return literal(self._literal(token))

    def _literal(self, token: _Token) -> Any:
        readers = {"string": self._string, "bytes": self._bytes, "quote": self._quoted, "word": self._word}
        if token.text in ("[", "#{"):
            return self._many(token)
        if token.kind not in readers:
            self._fail(f"a value is missing before {token.text!r}", token)
        return readers[token.kind](token)

    def _bytes(self, token: _Token) -> bytes:
        if len(token.text) % 2:
            self._fail("bytes are written with two digits each", token)
        return bytes.fromhex(token.text[3:-1])

    def _many(self, opening: _Token) -> tuple[Any, ...] | frozenset[Any]:
        self._deeper(opening)
        closing, items = _pairs[opening.text], []
        while (token := self._next(repr(closing))).text != closing or token.kind != "close":
            items.append(self._literal(token))
        self._depth -= 1
        return tuple(items) if opening.text == "[" else frozenset(items)

    def _word(self, token: _Token) -> Any:
        text = token.text
        if text in _constants:
            return _constants[text]
        if _integer.fullmatch(text) or _float.fullmatch(text):
            try:
                return int(text) if _integer.fullmatch(text) else float(text)
            except ValueError as error:
                self._fail(f"not a number: {error}", token)
        if text == "_":
            self._fail("'_' stands for a whole field only; the text is written in quotes", token)
        if text[0] in "#?":
            self._fail(f"{text!r} is no value; text with such a beginning is written in quotes", token)
        return text

    def _quoted(self, quote: _Token) -> Any:
        token = self._next("what is quoted")
        if token.text == "(":
            names, self._names = self._names, set()
            pattern = self._pattern(token)
            self._names = names
            return pattern
        return CAPTURE if token.text == "?" else self._class(token)

    def _string(self, token: _Token) -> str:
        def unescape(match: re.Match[str]) -> str:
            code, simple = match[1], match[2]
            if code is not None and int(code, 16) <= 0x10FFFF:
                return chr(int(code, 16))
            if simple in _simple_escapes:
                return _simple_escapes[simple]
            raise PatternError(f"there is no escape {match[0]!r}", token.column + 1 + match.start())

        return _escape.sub(unescape, token.text[1:-1])


_anything = object()


def format_pattern(pattern: Pattern[Any]) -> str:
    """The text that reads back as an equal pattern; `PatternError` where it holds a value that has no text."""
    return _Writer().pattern(pattern, 1)


class _Writer:
    def __init__(self) -> None:
        self._names: set[str] = set()

    def pattern(self, pattern: Pattern[Any], depth: int) -> str:
        _check_depth(depth)
        words, in_order = [label_of(pattern.cls)], True
        for name in pattern.kind.fields:
            if name not in pattern.parts:
                in_order = False
                continue
            text = self._part(name, pattern.parts[name], depth + 1)
            words.append(text if in_order else f"#:{name} {text}")
        return f"({' '.join(words)})"

    def _part(self, name: str, part: Any, depth: int) -> str:
        if part is CAPTURE:
            return f"?{self._free(name)}"
        if isinstance(part, Pattern):
            return self.pattern(part, depth)
        assert isinstance(part, Literal)
        return _format(part.value, depth)

    def _free(self, name: str) -> str:
        numbered, n = name, 1
        while numbered in self._names:
            n += 1
            numbered = f"{name}-{n}"
        self._names.add(numbered)
        return numbered


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise PatternError(f"nested more than {MAX_DEPTH} deep, which could not be read back")


def _format(value: Any, depth: int) -> str:
    cls = type(value)
    if cls is str:
        return value if _symbol.fullmatch(value) else _quote(value)
    if cls is bytes:
        return f'#x"{value.hex()}"'
    if cls is tuple or cls is frozenset:
        _check_depth(depth)
        items = [_format(item, depth + 1) for item in value]
        return f"[{' '.join(items)}]" if cls is tuple else f"#{{{' '.join(sorted(items))}}}"
    if cls is Pattern:
        return "'" + _Writer().pattern(value, depth)
    if value is CAPTURE:
        return "'?"
    if isinstance(value, type):
        return "'" + label_of(value)
    for text, constant in _constants.items():
        if type(constant) is cls and value == constant:
            return text
    return _number(value)


def _number(value: Any) -> str:
    if type(value) in (int, float):
        try:
            return repr(value)
        except ValueError as error:
            raise PatternError(f"a number has too many digits to be written as text: {error}") from None
    raise PatternError(f"{value!r} cannot be written as text")


def _quote(text: str) -> str:
    escaped = [c if c.isprintable() and c not in '"\\' else f"\\u{{{ord(c):x}}}" for c in text]
    return f'"{"".join(escaped)}"'
