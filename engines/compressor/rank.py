"""Which identifiers are worth their room in a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .lexer import KIND_WORTH, Kind, count, lex
from .wording import mentions

__all__ = ["ranked"]


def ranked(
    gone: Sequence[Mapping[str, Kind]], old: Mapping[str, Kind], asked: str, wanted: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Rank the identifiers of rows that go (oldest first) together with the `old` ones (best first): most useful first.

    Counted are kind, how many rows name it, how late, whether the user named it, and how little room it takes.
    """
    seen, kinds, last = count(gone)
    named = lex(asked)
    scores: dict[str, float] = {}
    for rank, (token, kind) in enumerate(old.items()):
        scores[token] = _score(token, kind, 2.0 - rank / len(old), False, token in named, wanted)
    for token, times in seen.items():
        late = last[token] * 2 >= len(gone)
        fresh = _score(token, kinds[token], float(min(times, 8)), late, token in named, wanted)
        scores[token] = max(fresh, scores.get(token, 0.0))
    return tuple(sorted(scores, key=scores.__getitem__, reverse=True))


def _score(token: str, kind: Kind, times: float, late: bool, named: bool, wanted: tuple[str, ...]) -> float:
    worth = KIND_WORTH[kind] * (0.6 + times**0.5) * (1.25 if late else 1.0) * (2.0 if named else 1.0)
    focused = 6.0 if wanted and mentions(token, wanted) else 1.0
    return float(worth * focused / (len(token) + 4) ** 0.6)
