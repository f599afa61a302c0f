"""What must not be read by anybody: the keys that this process has been given.

A key that was another one's before, or an earlier one of the same model, may still stand in what an engine says; so all
of them are remembered, the latest of very many.  One that has something else call for it is not known here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any

from engines.compressor.redact import REDACTED, redact

__all__ = ["hidden", "hide", "remember", "without_secrets"]

MOST = 200
LEAST = 8
"""A key with fewer characters is what people write where there is none, such as `none`, and stands in ordinary words."""

_keys: OrderedDict[str, None] = OrderedDict()
_lock = Lock()


def remember(key: Any) -> None:
    """This is a key, if it is one."""
    if not isinstance(key, str) or len(key) < LEAST or (_keys and next(reversed(_keys)) == key):
        return
    with _lock:
        _keys[str(key)] = None
        _keys.move_to_end(str(key))
        if len(_keys) > MOST:
            _keys.popitem(last=False)


def hide(text: str) -> str:
    """The text without any of those keys."""
    for key in list(_keys):
        if key in text:
            text = text.replace(key, REDACTED)
    return text


def hidden(value: Any) -> Any:
    """Lists and dicts without any of those keys, however deep, and without what is called `api_key`; the rest as it is."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {key: hidden(item) for key, item in value.items() if key != "api_key"}
    if isinstance(value, (list, tuple)):
        return [hidden(item) for item in value]
    return value


def without_secrets(text: str, key: Any = None) -> str:
    """A text of somebody else's, fit to be read: no known key is in it, not this one, and nothing that looks like one."""
    text = redact(hide(text))
    return text.replace(key, REDACTED) if isinstance(key, str) and len(key) > 3 else text
