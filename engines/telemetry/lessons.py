"""Lessons: entries that tell of the same thing again and again, put together by their words.

Entries with the same words are one; then a group takes in whatever shares three tenths of its words with any of its
members, as the portable brain's own tools do it.  Words come through an index, so that only entries that have one in
common are compared.  What became of two skills are two lessons, however alike the sentences are; and nothing is said
in the name of all entries of a lesson that only some of them say.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from attrs import frozen

from .history import Past

__all__ = ["Lesson", "lessons"]

ALIKE = 0.3
"""The share of words that two entries of a lesson have in common, at least."""

MOST = 20_000
"""How many entries are looked at, the newest."""

_COMMON = 400  # entries that share a word, past which it says nothing
_WORD = re.compile(r"[^\W\d_][\w.-]{2,}")
_NOISE = frozenset({"usage", "session", "skill-loaded", "delegated", "tool", "compaction"})  # where they went well
_STOP = frozenset("the and was were that for with not are has had its this from after before went well failed".split())


@frozen
class Lesson:
    """Entries of one kind of experience; `words` are those that all share.

    `claim` is what the most telling entry says, with an ellipsis for what is not in all of them; where they have too little
    in common for a sentence, it is that entry's, and says that it is one of several.
    """

    claim: str
    profiles: tuple[str, ...]
    count: int
    failures: int
    weight: float
    words: tuple[str, ...]
    evidence: tuple[str, ...]


def lessons(entries: Sequence[Past], *, per_profile: bool = False, least: int = 2) -> list[Lesson]:
    """What was experienced at least so many times, the weightiest first.

    With `per_profile` no lesson holds entries of two profiles: what one specialist has learnt is not another's.
    """
    told = [past for past in entries if past.failed or past.kind not in _NOISE][-MOST:]
    apart: dict[tuple[str, str], list[Past]] = defaultdict(list)
    for past in told:
        apart[past.profile if per_profile else "", _fate(past)].append(past)
    groups = [group for _key, those in sorted(apart.items()) for group in _groups(those)]
    found = [_lesson(group) for group in groups if len(group) >= least]
    return sorted(found, key=lambda lesson: (-lesson.weight, lesson.claim))


def _fate(past: Past) -> str:
    """What became of which skill, where an entry tells that; empty: it tells something else."""
    return f"{past.kind} {past.entry.get('skill')}" if past.kind.startswith("skill-") else ""


def _groups(entries: Iterable[Past]) -> list[list[Past]]:
    same: dict[frozenset[str], list[Past]] = defaultdict(list)
    for past in entries:
        words = _words(past)
        if words:
            same[words].append(past)
    sets = list(same)
    parent = list(range(len(sets)))

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    index: dict[str, list[int]] = defaultdict(list)
    for at, words in enumerate(sets):
        rare = [word for word in words if len(index[word]) <= _COMMON]
        shared = Counter(other for word in rare for other in index[word])
        for other, known in shared.items():
            # So many words in common make them that much alike; less a rounding error.
            enough = ALIKE / (1 + ALIKE) * (len(words) + len(sets[other])) - 1e-9
            if known + len(words) - len(rare) >= enough and len(words & sets[other]) >= enough:
                parent[root(at)] = root(other)
        for word in words:
            index[word].append(at)
    joined: dict[int, list[Past]] = defaultdict(list)
    for at, words in enumerate(sets):
        joined[root(at)] += same[words]
    return list(joined.values())


def _words(past: Past) -> frozenset[str]:
    """The words of an entry; of a detail that holds figures only what they are called by tells nothing."""
    return _telling(" ".join(_texts(past)))


def _texts(past: Past) -> list[str]:
    entry = past.entry
    texts = [str(entry.get("action") or ""), str(entry.get("reflection") or "")]
    detail = str(entry.get("detail") or "")
    return texts if detail.startswith("{") else [*texts, detail]


def _telling(text: str) -> frozenset[str]:
    found = (word.strip(".-").lower() for word in _WORD.findall(text))
    return frozenset(word for word in found if len(word) > 2 and word not in _STOP)


def _claim(best: Past, group: list[Past]) -> str:
    """What the best one says, as far as all say it."""
    whole = str(best.entry.get("reflection") or best.entry.get("action") or "").strip()
    common = frozenset.intersection(*{frozenset(map(_bare, " ".join(_texts(past)).split())) for past in group})
    said: list[str] = []
    for word in whole.split():
        if not _bare(word) or _bare(word) in common:
            said.append(word)
        elif said[-1:] != ["…"]:
            said.append("…")
    if "…" not in said:
        return whole
    claim = " ".join(said)
    return claim if _telling(claim) else f"{whole} (one of several that are alike)"


def _bare(word: str) -> str:
    return re.sub(r"^\W+|\W+$", "", word).lower()


def _lesson(group: list[Past]) -> Lesson:
    best = max(group, key=lambda past: (_salience(past), past.at))
    shared = frozenset.intersection(*(_words(past) for past in group))
    return Lesson(
        claim=_claim(best, group),
        profiles=tuple(sorted({past.profile for past in group})),
        count=len(group),
        failures=sum(past.failed for past in group),
        weight=round(_salience(best) * min(len(group), 3), 2),
        words=tuple(sorted(shared)),
        evidence=tuple(str(past.entry.get("timestamp") or "") for past in group),
    )


def _of_ten(value: float) -> float:
    return max(0, min(value, 10))


def _salience(past: Past) -> float:
    """How much one entry weighs: its pain and its importance, each out of ten."""
    pain, importance = (past.entry.get(name) for name in ("pain_score", "importance"))
    known = [_of_ten(value) for value in (pain, importance) if isinstance(value, (int, float)) and value == value]  # noqa: PLR0124 - NaN is not
    return known[0] * known[1] / 10 if len(known) == 2 else 0.0
