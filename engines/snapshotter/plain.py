"""Anything at all as plain JSON: bounded, readable, and without what looks like a secret.

What a host, a tool or a user hands over may be huge, deep, cyclic, no JSON, or hold halves of letters.  None of that may
keep a snapshot from being written, so everything that goes into one comes through here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from math import isfinite
from typing import Any

from ..compressor.redact import REDACTED, redact
from ..compressor.wording import excerpt

__all__ = ["CUT", "plain", "plain_text", "whole_letters"]

CUT = "[cut]"
"""Marks a text of which a part was left out."""

_DEEPEST = 20
_MOST = 20_000  # values that are looked at; of what is left, nothing is kept
_LONGEST = 20_000  # characters of one text that are looked at
_SHORT = 80
_SURROGATE = re.compile("[\ud800-\udfff]")
_TELLING = re.compile(r"(?i)key|secret|token|pass|pwd|credential|authorization|cookie|bearer")


def plain(value: Any) -> Any:
    """Return the value as fresh plain JSON without secrets; what JSON has no word for is named by its type."""
    return _Reader().read(value, 0)


def plain_text(text: str, name: str = "") -> str:
    """Return a text without secrets that can be written as UTF-8; `name` is what it is called where it stands.

    A value beside a telling name is a secret whatever it looks like.
    """
    text = str.__str__(text)
    if len(text) > _LONGEST:
        text = excerpt(text, _LONGEST)
    text = redact(text)
    if name and _TELLING.search(name) and REDACTED not in text and REDACTED in redact(f'"{name}": "{_unquoted(text)}"'):
        return REDACTED
    return whole_letters(text)


def whole_letters(text: str) -> str:
    """Return a text that can be written as UTF-8: halves of letters become their escapes."""
    return text if text.isascii() else _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def _unquoted(text: str) -> str:
    return text.replace('"', " ").replace("\\", " ").replace("\n", " ")


class _Reader:
    """Reads one value; counts what it has read, so that neither size nor depth can hurt."""

    def __init__(self) -> None:
        self._left = _MOST
        self._seen: dict[tuple[str, str], str] = {}  # names and short texts come again and again

    def read(self, value: Any, depth: int, name: str = "") -> Any:
        self._left -= 1
        if isinstance(value, str):
            return self._text(value, name)
        if value is None or isinstance(value, (bool, int, float)):
            return _number(value)
        if isinstance(value, (bytes, bytearray)):
            return plain_text(bytes(value[:_LONGEST]).decode("utf-8", "backslashreplace"), name)
        if depth >= _DEEPEST or self._left <= 0:
            return CUT
        try:
            return self._inner(value, depth, name)
        except Exception:  # noqa: BLE001 - a container that cannot even be walked is named, like all that is no JSON
            return _named(value)

    def _inner(self, value: Any, depth: int, name: str) -> Any:
        if isinstance(value, Mapping):
            made: dict[str, Any] = {}
            called = value.get(
                "name", value.get("key")
            )  # {"name": "DB_PASSWORD", "value": …}, as environments are told
            for key, item in value.items():
                if self._left <= 0:
                    made[CUT] = True
                    break
                told = key if isinstance(key, str) else str(_number(key)) if _is_number(key) else _named(key)
                of = called if told == "value" and isinstance(called, str) else told
                made[self._text(told, "")] = self.read(item, depth + 1, of)
            return made
        if isinstance(value, (list, tuple, Set)):
            items = list(value)
            newest = items[-max(self._left, 0) :] if self._left < len(items) else items
            return [self.read(item, depth + 1, name) for item in newest]
        return _named(value)

    def _text(self, text: str, name: str) -> str:
        text, name = str.__str__(text), str.__str__(name)  # a subclass of str may do anything in its methods
        if len(text) > _SHORT:
            return plain_text(text, name)
        found = self._seen.get((text, name))
        if found is None:
            found = self._seen[text, name] = plain_text(text, name)
        return found


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float))


def _number(value: Any) -> Any:
    """Nothing, yes and no, and numbers; those that JSON does not have or nobody can read, as a text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() <= 256 else "<a very large number>"
    return float(value) if isfinite(value) else str(float(value))


def _named(value: Any) -> str:
    """What something is, and no word of what it says: that may be a secret, or never end."""
    return f"<{type(value).__name__}>"
