"""The attributes that the host reads and writes on its context engine.

Each is an ordinary attribute to the host: it can be read and set at any time, from any thread.  Behind it is whatever
is in charge, so that what the host sees is what that one says, and a write is heard.
"""

from __future__ import annotations

from math import isfinite
from types import NoneType
from typing import Any, Protocol

__all__ = ["FIELDS", "SMALLEST", "VERDICT", "WORDS", "Field", "plausible"]

FIELDS: dict[str, Any] = {
    # the budget
    "context_length": 0,
    "threshold_tokens": 0,
    "threshold_percent": 0.75,
    "protect_first_n": 3,
    "protect_last_n": 6,
    "max_tokens": None,
    # the model; `api_key` is handed on to hosted engines and to the host itself, never anywhere else
    "model": "",
    "base_url": "",
    "api_key": "",
    "provider": "",
    "api_mode": "",
    # readings
    "last_prompt_tokens": 0,
    "last_completion_tokens": 0,
    "last_total_tokens": 0,
    "last_real_prompt_tokens": 0,
    "last_compression_rough_tokens": 0,
    "last_rough_tokens_when_real_prompt_fit": 0,
    "awaiting_real_usage_after_compression": False,
    # compactions
    "compression_count": 0,
    "_ineffective_compression_count": 0,
    "_verify_compaction_cleared_threshold": False,
    # the latest compress call
    "_last_compress_aborted": False,
    "_last_summary_error": None,
    "_last_compression_made_progress": False,
    "_last_summary_fallback_used": False,
    "_last_summary_dropped_count": 0,
    "_last_aux_model_failure_model": None,
    "_last_aux_model_failure_error": None,
    # the session and its window
    "_session_id": "",
    "_context_probed": False,
    "_context_probe_persistable": False,
}
"""Every attribute with what it is before anything has happened."""

VERDICT = tuple(name for name in FIELDS if name.startswith("_last_"))  # no reading begins with an underscore
"""What the host looks at after a compress call."""


WORDS = frozenset({"_last_summary_error", "_last_aux_model_failure_model", "_last_aux_model_failure_error"})
"""What the host shows its user as it is: text, or None."""

SMALLEST = 64_000  # tokens: the host works with no smaller window


_KINDS = {name: type(default) for name, default in FIELDS.items()}
_WINDOW = frozenset({"context_length", "threshold_tokens"})


def plausible(name: str, value: Any, own: Any) -> Any:
    """What a hosted engine says of an attribute, where the host can reckon with it; otherwise `own`."""
    kind = _KINDS[name]
    if type(value) is kind and kind is not float and (name not in _WINDOW or value >= SMALLEST):
        return value  # nearly always, and the host reads often
    try:
        return _reckoned(name, kind, value, own)
    except Exception:  # noqa: BLE001 - a number that is none, or one that no number holds
        return own


def _reckoned(name: str, kind: type, value: Any, own: Any) -> Any:
    if name in WORDS:
        return value if value is None or type(value) is str else own
    if kind is bool:
        return value if type(value) in {bool, int, NoneType} else own
    if kind is str:  # a key may also be what has to be called for one, and a model may have none of these
        return value if isinstance(value, (str, NoneType)) or (name == "api_key" and callable(value)) else own
    if kind is NoneType and value is None:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        return own
    if name in _WINDOW and value <= 0:
        return own
    if name == "context_length" and value < SMALLEST <= own:
        return own  # an agent does not start with such a window
    return float(value) if kind is float else int(value)


class Holder(Protocol):
    """What stands behind the attributes."""

    def read(self, name: str) -> Any:
        """The value now."""
        ...

    def write(self, name: str, value: Any) -> None:
        """The host sets a value."""
        ...


class Field:
    """One attribute of the adapter."""

    def __init__(self, name: str, default: Any) -> None:
        self.name = name
        self.default = default

    def __get__(self, engine: Any, owner: type | None = None) -> Any:
        """The value; on the class, what it is at first."""
        if engine is None:
            return self.default
        seat: Holder = engine._seat or engine.seat
        return seat.read(self.name)

    def __set__(self, engine: Any, value: Any) -> None:
        """Hand the value on."""
        seat: Holder = engine.seat
        seat.write(self.name, value)
