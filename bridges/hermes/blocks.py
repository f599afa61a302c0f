"""Blocks of settings: attrs classes whose fields know how they are read.

A field made with `setting` says how its value is read and what to write there; `read_block` reads a whole block by it.
Whatever is wrong is said once in the log, and costs that one setting: the default stands in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any, TypeVar

from attrs import AttrsInstance, Factory, field, fields

__all__ = ["boolean", "choice", "count", "names", "read_block", "seconds", "setting", "text", "warn"]

T = TypeVar("T", bound=AttrsInstance)
Read = Callable[[Any], Any]
"""Makes a value of what stands in the file; None: it cannot be one."""

READ, EXPECTED = "read", "expected"

log = logging.getLogger(__name__)
_said: set[str] = set()
_lock = Lock()


def setting(default: Any, read: Read, expected: str) -> Any:
    """A field of a block: its default (or a `Factory` of one), how it is read, and what a user is to write there."""
    return field(default=default, metadata={READ: read, EXPECTED: expected})


def read_block(cls: type[T], block: Any, where: str, *, more: Iterable[str] = (), **given: Any) -> T:
    """An instance of the attrs class `cls`, read from what the file has at `where`.

    `more` are words that are none of its settings and still belong there; `given` are fields that do not come from the
    file.  `block` may be None (there is none), and `true` and `false` are short for `enabled` where there is that.
    """
    known = {one.name: one for one in fields(cls) if READ in one.metadata}
    if isinstance(block, bool) and "enabled" in known:
        block = {"enabled": block}
    if block is not None and not isinstance(block, Mapping):
        example = f"{where.rpartition('.')[2]}: {{{_example(cls, known)}}}"
        warn(f"{where}: {block!r} is ignored; write a block of settings, as in `{example}`")
    if not isinstance(block, Mapping):
        return cls(**given)
    words = [*known, *more]
    unknown = sorted(str(name) for name in block if name not in words)
    if unknown:
        warn(f"{where}: unknown setting {', '.join(unknown)} in config.yaml is ignored; known are {', '.join(words)}")
    told: dict[str, Any] = {}
    for name, attribute in known.items():
        if name not in block:
            continue
        value = attribute.metadata[READ](block[name])
        if value is None:
            warn(
                f"{where}.{name}: {block[name]!r} is ignored; {attribute.metadata[EXPECTED]}. The default is"
                f" {_shown(_default(attribute))}"
            )
        else:
            told[name] = value
    return cls(**{**told, **given})


def warn(said: str) -> None:
    """Say it once in this process: settings are read for every agent."""
    with _lock:
        if said in _said:
            return
        _said.add(said)
    log.warning("%s", said)


# -- readers ----------------------------------------------------------------------------------------------------------


def boolean(value: Any) -> bool | None:
    """True or false, also as YAML 1.1 and people write them."""
    if isinstance(value, bool):
        return value
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    return words.get(str(value).strip().lower())


def choice(*words: str) -> Read:
    """One of some words."""
    return lambda value: value if isinstance(value, str) and value in words else None


def names(value: Any) -> tuple[str, ...] | None:
    """A list of names without `#`, each once; one name may stand without a list."""
    named = [value] if isinstance(value, str) else value
    if not isinstance(named, (list, tuple)):
        return None
    if not all(isinstance(name, str) and name.strip() and "#" not in name for name in named):
        return None
    return tuple(dict.fromkeys(name.strip() for name in named))


def seconds(value: Any) -> float | None:
    """A finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        return None
    return float(value)


def count(least: int = 0) -> Read:
    """A whole number, at least so large."""
    return lambda value: value if type(value) is int and value >= least else None


def text(value: Any) -> str | None:
    """A text that is not empty."""
    return value.strip() if isinstance(value, str) and value.strip() else None


# -- inside -----------------------------------------------------------------------------------------------------------


def _default(attribute: Any) -> Any:
    default = attribute.default
    return default.factory() if isinstance(default, Factory) else default  # type: ignore[arg-type]


def _example(cls: type, known: Mapping[str, Any]) -> str:
    name = getattr(cls, "EXAMPLE", None) or next(iter(known), "")
    return f"{name}: {_shown(_default(known[name]))}" if name in known else ""


def _shown(value: Any) -> str:
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else str(value).lower()
