"""One entry of the episodic log: what it holds, and what becomes of a payload that is none.

Pure: times, locks and files are the log's business (`engines.telemetry.log`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from engines.compressor.redact import REDACTED, redact_all

from .kinds import KINDS
from .tools import arguments, failed, hook_call, is_hook, label

__all__ = ["MALFORMED", "Entry", "Redact", "complete", "malformed", "moment", "shortened", "tool_entry", "weighed"]

Entry = dict[str, Any]
Redact = Callable[[Sequence[str]], list[str]]
"""Takes secrets out of texts."""

MALFORMED = "hook:malformed_payload"
"""The action of an entry that stands for a payload which is none."""

_ACTION, _DETAIL, _PAYLOAD = 200, 500, 200  # the most characters
_SLACK = 2_000  # characters past the limit that are looked at for secrets, lest half of one is left
_NAME = 200  # characters of a tool's or a skill's name
_HIGHEST = 1e300  # as much as any reader of JSON can hold
_BITS = 1_000  # of a number that JSON readers can be expected to read
_GAP = " … "
_TELLING = re.compile(r"(?i)key|secret|token|pass|pwd|credential|authorization|cookie|bearer")
_QUOTES = str.maketrans("\"'\\\n", "    ")
_KEY_END = re.compile(r"\A(?:(?!-----BEGIN ).)*?-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----", re.DOTALL)
_TEXTS = ("skill", "action", "detail", "reflection")
_NUMBERS = {"pain_score": (2, 7), "importance": (5, 5), "confidence": (0.5, 0.5)}  # defaults: success, failure


class _NotAnEntryError(ValueError):
    """The payload is none."""


def complete(payload: Any, redact: Redact = redact_all) -> Entry:
    """The payload as an entry with all keys, secrets taken out; `timestamp` and `source` as far as they were given.

    A payload is a mapping of the schema, a mapping as tool hooks get it, or either as JSON text.  Anything else becomes
    the entry that says so.
    """
    try:
        told = _mapping(payload)
        if is_hook(told):
            call = hook_call(told)
            if call is None:
                raise _NotAnEntryError
            return tool_entry(*call, redact=redact)
        return _cut(_checked(told), redact)
    except Exception:  # noqa: BLE001 - not only of the wrong shape: too deep, numbers without end, objects that raise
        return malformed(payload, redact)


def malformed(payload: Any, redact: Redact = redact_all) -> Entry:
    """The entry for a payload that is none; it shows at most 200 characters of it."""
    if isinstance(payload, bytes):
        text = payload.decode("utf-8", "replace")
    elif isinstance(payload, str):
        text = payload
    else:
        text = _shown(payload)
    told = weighed("malformed", skill="hook", action=MALFORMED, detail="")
    told["reflection"] = "What a hook was given could not be read, so what happened there is not known."
    shown = redact([text[: _PAYLOAD + _SLACK]])[0][:_PAYLOAD]
    return {**told, "detail": shown}


def weighed(kind: str, **told: Any) -> Entry:
    """An entry of one of our own kinds, with its importance, pain and outcome."""
    weight = KINDS[kind]
    entry: Entry = {
        "skill": "",
        "action": "",
        "result": weight.result,
        "detail": "",
        "reflection": "",
        "confidence": 0.5,
    }
    entry |= {"pain_score": weight.pain, "importance": weight.importance, "evidence_ids": []}
    return {**entry, **told}


def tool_entry(
    tool: str,
    args: str | dict[str, Any],
    status: str,
    result: str,
    *,
    bad: bool | None = None,
    redact: Redact = redact_all,
) -> Entry:
    """The entry for a tool call, or the one for arguments that are none; `bad` is whether it failed, if that is known."""
    named = arguments(args)
    if named is None:
        return malformed(args, redact)
    bad = failed(status, result) if bad is None else bad
    what = label(tool, named)
    how = f"failed ({status})" if bad and status not in {"", "ok"} else "failed" if bad else "went well"
    both = bad and len(result) > _DETAIL  # how it failed often stands last
    tail = _KEY_END.sub(REDACTED, result[-_DETAIL - _SLACK :]) if both else ""  # of a key that begins before it
    texts = [what[: _ACTION + _SLACK], how, result[: _DETAIL + _SLACK], tail, tool[: _NAME + _SLACK]]
    what, how, head, tail, tool = redact(texts)
    detail = _two_ends(head, tail) if both else head[:_DETAIL]
    kind = "tool-failed" if bad else "tool"
    entry = weighed(kind, skill=tool[:_NAME], action=what[:_ACTION], detail=detail)
    return {**entry, "reflection": f"{what[:_ACTION]} {how}"}


def shortened(result: str) -> str:
    """A result as far as an entry may come to show it: the two ends of a long one."""
    keep = _DETAIL + _SLACK
    return result if len(result) <= 3 * keep else f"{result[:keep]}{_GAP}{result[-keep:]}"


def moment(text: Any) -> datetime | None:
    """The instant that a timestamp names, in UTC; None for one without an offset, or that is none."""
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text)
        return None if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


# -- inside -----------------------------------------------------------------------------------------------------------


def _mapping(payload: Any) -> Mapping[Any, Any]:
    if isinstance(payload, (str, bytes)):
        try:
            payload = json.loads(payload.removeprefix("\ufeff") if isinstance(payload, str) else payload)
        except (ValueError, RecursionError) as error:
            raise _NotAnEntryError from error
    if not isinstance(payload, Mapping) or not payload or not all(isinstance(name, str) for name in payload):
        raise _NotAnEntryError
    return payload


def _checked(told: Mapping[str, Any]) -> Entry:
    """All keys of the schema, defaults where there are none; raises for what cannot stand there."""
    entry = dict(told)
    for name in _TEXTS:
        entry[name] = _text(name, told.get(name))
    if not any(entry[name].strip() for name in _TEXTS):
        raise _NotAnEntryError  # it says nothing
    result = entry["result"] = told.get("result") or "success"
    if result not in {"success", "failure"}:
        raise _NotAnEntryError
    for name, defaults in _NUMBERS.items():
        entry[name] = _number(told.get(name), defaults[result == "failure"])
    evidence = told.get("evidence_ids") or []
    if not isinstance(evidence, (list, tuple)) or not all(isinstance(one, str) for one in evidence):
        raise _NotAnEntryError
    entry["evidence_ids"] = list(evidence)
    if not isinstance(told.get("source") or {}, Mapping):
        raise _NotAnEntryError
    return entry


def _two_ends(head: str, tail: str) -> str:
    side = (_DETAIL - len(_GAP)) // 2
    return f"{head[:side]}{_GAP}{tail[-side:]}"


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if name == "detail" and isinstance(value, (Mapping, list, tuple)):
        return _shown(value)
    raise _NotAnEntryError


def _number(value: Any, default: float) -> float:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _HIGHEST:
        raise _NotAnEntryError
    return value


def _shown(value: Any) -> str:
    with suppress(Exception):
        return json.dumps(value, ensure_ascii=False, default=str)
    with suppress(Exception):  # too deep, a circle, an object that raises
        return repr(value)
    return f"<{type(value).__name__}>"


def _cut(entry: Entry, redact: Redact) -> Entry:
    """Secrets first, for half of one is not known as one; then to length.  What an entry has beside the schema stays."""
    limits = {"action": _ACTION, "detail": _DETAIL}
    texts = [entry[name][: limits[name] + _SLACK] if name in limits else entry[name] for name in _TEXTS]
    clean = dict(zip(_TEXTS, redact(texts), strict=True))
    made: Entry = {}
    for name, value in entry.items():
        if name in clean:
            made[name] = clean[name][: limits.get(name)]
        else:
            made[_key(name, redact)] = _clean(value, redact, name)
    return made


def _clean(value: Any, redact: Redact, name: str) -> Any:
    """The same without secrets, at any depth, and with nothing in it that JSON lacks; `name` is what it is called."""
    if isinstance(value, str):
        return _without_secrets(value, redact, name)
    if isinstance(value, Mapping):
        return {_key(str(key), redact): _clean(one, redact, str(key)) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(one, redact, name) for one in value]
    if value is None or (isinstance(value, int) and value.bit_length() <= _BITS):
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    return _without_secrets(str(value), redact, name)


def _without_secrets(text: str, redact: Redact, name: str) -> str:
    """Beside a telling name a text is a secret whatever it looks like."""
    if not _TELLING.search(name):
        return redact([text])[0] if len(text) > 8 else text
    quiet = text.translate(_QUOTES)
    alone, rest, beside = redact([text, quiet, f'"{name}": "{quiet}"'])
    return alone if beside == f'"{name}": "{rest}"' else REDACTED


def _key(name: str, redact: Redact) -> str:
    return redact([name])[0] if len(name) > 8 else name
