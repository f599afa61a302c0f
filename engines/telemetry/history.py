"""Reading logs again: entries, and what they come to for each profile.

A session that has ended is told by its rollup, whose sums are exact whatever happened to single entries; one that has
not is added up from the entries there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from engines.facts import Usage

from .entry import Entry, moment
from .locked import read_whole
from .tally import NAMES, Sums

__all__ = ["Account", "Past", "accounts", "figures", "kind_of", "read_logs", "session_of"]

_HIGHEST = 10**15
_FIRST = datetime.min.replace(tzinfo=UTC)


@frozen
class Past:
    """One entry that was read: when, whose, of which session (empty: of none) and kind (empty: none of ours)."""

    at: datetime
    profile: str
    session: str
    kind: str
    entry: Entry

    @property
    def failed(self) -> bool:
        """Whether it tells of a failure."""
        return bool(self.entry.get("result") == "failure")


@define
class Account:
    """What the log tells of a profile.  `open` are sessions whose end is not told; `lost` entries that were dropped."""

    profile: str
    sessions: int = 0
    open: int = 0
    crashes: int = 0
    lost: int = 0
    sums: Sums = field(factory=Sums)

    def told(self) -> dict[str, Any]:
        """All of it by name, noughts too."""
        sums = {name: round(getattr(self.sums, name), 3) for name in NAMES}
        failures = sums.pop("failures") + self.crashes
        head = {"sessions": self.sessions, "open": self.open, **sums, "failures": failures}
        return {**head, "crashes": self.crashes, "lost": self.lost}


def read_logs(
    paths: Iterable[Path], *, profile: str | None = None, since: datetime | None = None
) -> tuple[list[Past], int]:
    """The entries of some logs by time, and how many lines are none.  Raises `OSError`.

    Each log is read under its lock, so not in the midst of its being rewritten.  An entry whose time cannot be read comes
    first, and is left out where `since` asks for a time.
    """
    found, bad = [], 0
    for path in paths:
        for line in read_whole(path).splitlines():
            if not line.strip():
                continue
            past = _past(line)
            if past is None:
                bad += 1
            elif profile in {None, past.profile} and (since is None or past.at >= since):
                found.append(past)
    return sorted(found, key=lambda past: past.at), bad


def figures(entry: Entry) -> dict[str, Any]:
    """What an entry's detail holds by name; nothing where it is text.  Numbers that nobody can have counted are left out."""
    try:
        told = json.loads(entry.get("detail") or "{}")
    except (ValueError, TypeError, RecursionError):
        return {}
    return {name: value for name, value in told.items() if _sane(value)} if isinstance(told, dict) else {}


def kind_of(entry: Entry) -> str:
    """Which of our kinds an entry is of; empty where another tool has written it."""
    skill, action = str(entry.get("skill")), str(entry.get("action"))
    if (skill, action) in _EXACT:
        return _EXACT[skill, action]
    if skill == "context" and action.startswith("compaction by "):
        return "refused" if action.endswith(" refused") else "compaction"
    if action.endswith(" crashed") and action.startswith(skill):
        return "crash"
    if action.startswith(f"skill {skill} "):
        return {"pruned": "skill-pruned", "reloaded": "skill-reloaded"}.get(action.rpartition(" ")[2], "skill-loaded")
    evidence = entry.get("evidence_ids")
    return "tool" if isinstance(evidence, list) and len(evidence) == 2 else ""


def session_of(past: Past) -> tuple[str, str, str]:
    """What tells a session apart in a log: profile, run, and its name there."""
    return past.profile, str(_source(past.entry).get("run_id", "")), past.session


def accounts(entries: Iterable[Past]) -> list[Account]:
    """What the entries, in order, come to for each profile, by name."""
    found: dict[str, Account] = {}
    going: dict[tuple[str, str, str], Sums] = {}
    for past in entries:
        account = found.setdefault(past.profile, Account(past.profile))
        if past.kind == "session":
            going.pop(session_of(past), None)
            account.sessions += 1
            account.sums.add(_sums(figures(past.entry)))
        elif past.session:
            _add(going.setdefault(session_of(past), Sums()), past)
        else:
            account.crashes += past.kind == "crash"
            account.lost += _whole(figures(past.entry).get("dropped")) if past.kind == "dropped" else 0
            account.sums.failures += past.failed and past.kind not in {"crash", "dropped"}
    for (profile, _run, _sid), sums in going.items():
        found[profile].open += 1
        found[profile].sessions += 1
        found[profile].sums.add(sums)
    return [found[name] for name in sorted(found)]


# -- inside -----------------------------------------------------------------------------------------------------------

_EXACT = {
    ("context", "usage"): "usage",
    ("context", "compaction failed"): "compaction-failed",
    ("session", "session:ended"): "session",
    ("delegation", "delegated"): "delegated",
    ("telemetry", "telemetry:dropped"): "dropped",
}


def _past(line: bytes) -> Past | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    evidence = entry.get("evidence_ids")
    kind = kind_of(entry)
    session = str(evidence[0]) if kind and isinstance(evidence, list) and evidence else ""
    profile = str(_source(entry).get("profile") or "default")
    return Past(moment(entry.get("timestamp")) or _FIRST, profile, session, kind, entry)


def _source(entry: Entry) -> Mapping[str, Any]:
    source = entry.get("source")
    return source if isinstance(source, dict) else {}


def _sums(told: Mapping[str, Any]) -> Sums:
    return Sums(**{name: _number(told.get(name)) for name in NAMES})


def _sane(value: Any) -> bool:
    """Whether a value is no number without bounds: other tools write to these files, and JSON has no bounds."""
    return not isinstance(value, (int, float)) or -_HIGHEST <= value <= _HIGHEST  # which no NaN is


def _number(value: Any) -> Any:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


def _whole(value: Any) -> int:
    return int(_number(value))


def _readings(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: told[name] for name in _READ if type(told.get(name)) is int} | {
        "estimated": told.get("estimated") is True
    }


def _add(sums: Sums, past: Past) -> None:
    """One entry of a session whose end is not told yet."""
    told = figures(past.entry)
    if past.kind == "usage":
        sums.read(Usage("", 0, **_readings(told)))
    elif past.kind == "compaction":
        sums.compactions += 1
        sums.saved += _whole(told.get("before")) - _whole(told.get("after"))
        sums.waited += _number(told.get("seconds"))
    elif past.kind == "compaction-failed":
        sums.failures += 1
        sums.waited += _number(told.get("seconds"))
    elif past.kind == "tool":
        sums.tools += 1
        sums.tool_failures += past.failed
        sums.failures += past.failed
    else:
        for name in _COUNTED.get(past.kind, ()):
            setattr(sums, name, getattr(sums, name) + 1)
        if past.kind == "skill-loaded" and told.get("outcome") == "deduplicated":
            sums.deduplicated += 1


_READ = ("prompt", "completion", "cache_read", "cache_write", "reasoning", "side_prompt", "side_completion")
_COUNTED: Mapping[str, tuple[str, ...]] = {
    "refused": ("refused",),
    "delegated": ("delegated",),
    "skill-loaded": ("skills_loaded",),
    "skill-reloaded": ("skills_loaded", "reloaded"),
    "skill-pruned": ("pruned",),
}
