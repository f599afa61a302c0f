"""Drafts, which the run loop's thread makes, and the entries that another makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from engines.facts import SkillLoaded, SkillPruned, ToolCalled

from .entry import Entry, Redact, shortened, tool_entry, weighed
from .tools import ends_of

__all__ = ["Draft", "call_of", "drafted", "dropped", "said", "spent"]

_LONGEST = 1e9  # seconds; some thirty years


class Draft(NamedTuple):
    """What is to be written: when it happened (seconds since the epoch), of which kind, whose, where to, about what."""

    at: float
    kind: str
    profile: str
    route: Any
    evidence: tuple[str, ...]
    told: Any


class Call(NamedTuple):
    """A tool call as far as an entry may come to show it."""

    tool: str
    args: str | dict[str, Any]
    status: str
    result: str
    bad: bool


def call_of(fact: ToolCalled, bad: bool) -> Call:
    """What is kept of a call until it is written: a queue of them must not hold whole files."""
    return Call(
        said(fact.tool)[:2_200], ends_of(said(fact.args)), said(fact.status)[:200], shortened(said(fact.result)), bad
    )


def said(value: Any) -> str:
    """A text as a host gives it: whatever else it is, it costs no more than its looks."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def spent(seconds: object) -> float:
    """A span of time; none where the clock was set back meanwhile, or somebody has measured nonsense."""
    return seconds if isinstance(seconds, (int, float)) and 0.0 <= seconds <= _LONGEST else 0.0


def drafted(draft: Draft, redact: Redact) -> Entry:
    """The entry, without its timestamp and source."""
    if isinstance(draft.told, Call):
        entry = tool_entry(*draft.told[:4], bad=draft.told.bad, redact=redact)
    else:
        skill, action, detail, reflection = _WORDS[draft.kind](draft.told)
        skill, action, reflection, *values = redact(
            [skill[:2_200], action[:2_200], reflection[:20_000], *_strings(detail)]
        )
        entry = weighed(draft.kind, skill=skill[:200], action=action[:200], reflection=reflection)
        entry["detail"] = _json(_with(detail, values))
    entry["evidence_ids"] = [said(one)[:200] for one in draft.evidence if one]
    return entry


def dropped(count: int) -> Entry:
    """The entry that stands for entries that were lost."""
    told = _json({"dropped": count})
    words = "Entries came faster than they could be written; the oldest of those that waited were dropped."
    return weighed("dropped", skill="telemetry", action="telemetry:dropped", detail=told, reflection=words)


# -- words by kind: skill, action, detail, reflection ------------------------------------------------------------------

Words = tuple[str, str, dict[str, Any], str]


def _usage(told: Any) -> Words:
    usage, threshold, context_length = told
    detail = {"prompt": usage.prompt, "threshold": threshold, "context_length": context_length}
    for name in ("completion", "cache_read", "cache_write", "reasoning", "side_prompt", "side_completion"):
        detail[name] = getattr(usage, name)
    detail["estimated"] = usage.estimated or None
    return "context", "usage", {name: value for name, value in detail.items() if value is not None}, ""


def _session(told: Any) -> Words:
    parts = [f"{told.get(name, 0)} {name}" for name in ("turns", "responses", "tools", "compactions", "failures")]
    return "session", "session:ended", told, f"A session ended after {', '.join(parts)}."


def _compaction(told: Any) -> Words:
    words = f"{told['by']} compacted the context from {told['before']} to {told['after']} tokens"
    return "context", f"compaction by {told['by']}", told, words


def _failure(told: Any) -> Words:
    return "context", "compaction failed", told, f"No engine could compact the context: {told['reason']}"


def _refused(told: Any) -> Words:
    return "context", f"compaction by {told['by']} refused", told, f"{told['by']} was refused: {told['reason']}"


def _delegated(told: Any) -> Words:
    return "delegation", "delegated", told, f"Handed over: {' '.join(told['task'].split())}"


def _note(told: Any) -> Words:
    return "note", told["text"], {"by": told["by"]}, told["text"]


def _crash(told: Any) -> Words:
    return told["actor"], f"{told['actor']} crashed", told, f"{told['actor']} crashed: {told['reason']}"


def _gave_up(told: Any) -> Words:
    words = f"{told['engine']} crashed {told['crashes']} times and is not started again: {told['reason']}"
    return told["engine"], f"{told['engine']} gave up", told, words


def _skill(fact: SkillLoaded | SkillPruned) -> Words:
    what = fact.outcome if isinstance(fact, SkillLoaded) else "pruned"
    detail = {"sha256": fact.sha256[:12], "outcome": what}
    if fact.file:
        detail["file"] = fact.file
    return fact.name, f"skill {fact.name} {what}", detail, f"The skill {fact.name} was {what}."


def _blocked(fact: Any) -> Words:
    return "context", "compaction held back", {"reason": fact.reason}, fact.reason


def _loop_invalid(fact: Any) -> Words:
    names = ", ".join(fact.skills)
    detail = {"ask": fact.ask, "skills": names}
    return "context", "reasoning on pruned skills", detail, f"The reasoning rests on skills that were pruned: {names}"


def _too_large(fact: Any) -> Words:
    detail = {"tokens": fact.tokens, "limit": fact.limit}
    return fact.name, f"skill {fact.name} too large", detail, f"The skill {fact.name} takes more than it may."


def _snapshot(fact: Any) -> Words:
    return "snapshots", "snapshot failed", {"reason": fact.reason, "error": fact.error}, fact.error


_WORDS: dict[str, Callable[[Any], Words]] = {
    "usage": _usage,
    "session": _session,
    "compaction": _compaction,
    "compaction-failed": _failure,
    "refused": _refused,
    "delegated": _delegated,
    "note": _note,
    "crash": _crash,
    "gave-up": _gave_up,
    "skill-loaded": _skill,
    "skill-reloaded": _skill,
    "skill-pruned": _skill,
    "blocked": _blocked,
    "loop-invalid": _loop_invalid,
    "skill-too-large": _too_large,
    "snapshot-failed": _snapshot,
}


# -- details are JSON that fits, for figures are read out of them again ------------------------------------------------


def _strings(detail: dict[str, Any]) -> list[str]:
    return [value for value in detail.values() if isinstance(value, str)]


def _with(detail: dict[str, Any], values: list[str]) -> dict[str, Any]:
    """The same with other strings."""
    texts = iter(values)
    return {name: next(texts)[:440] if isinstance(value, str) else value for name, value in detail.items()}


def _json(detail: dict[str, Any]) -> str:
    """The detail as text that fits: long strings are halved, then the last figures go."""
    while len(text := json.dumps(detail, ensure_ascii=False, separators=(",", ":"))) > 500:
        longest = max(detail, key=lambda name: len(detail[name]) if isinstance(detail[name], str) else 0)
        if isinstance(detail[longest], str) and len(detail[longest]) > 20:
            detail = {**detail, longest: detail[longest][: len(detail[longest]) // 2]}
        else:
            detail = dict(list(detail.items())[:-1])
    return text
