"""Whether a summary repeats what it should sum up.

It does if most of its runs of eight words stand word for word in the messages that it stands for.  Nearly every summary
says something of its own, so at first only a few places of it are looked for; the messages are cut up for those that
are not cleared by that.  Of a summary that repeats nearly everything, hardly a place is missing, and it is always found;
one that is an echo by a hair is taken for none in about three of a hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["echoes"]

RUN = 8  # words
SHARE = 0.6
"""More than this share of the runs makes an echo."""
LEAST = 40
"""With fewer words there is no telling."""
PROBES = 24
"""So many places are looked for at most."""
LENGTH = 30  # characters of a place: some five words, well within a run
_GOLDEN = 0.618034  # multiples of it spread evenly, however many there will be


def echoes(body: str, rough: Sequence[str], texts: Callable[[], Iterable[str]]) -> bool:
    """Whether `body` is an echo of `texts()`, which are only asked for where `rough` does not tell.

    `rough` is what holds all of those texts, and may hold more.
    """
    words = body.split()
    if len(words) < LEAST or _is_its_own(body, "\n".join(rough)):
        return False
    runs = list(_runs(words))
    wanted, firsts = set(runs), {run[0] for run in runs}
    found: set[tuple[str, ...]] = set()
    for text in texts():
        spoken = text.split()
        starts = [at for at, word in enumerate(spoken) if word in firsts]
        found.update(run for at in starts if (run := tuple(spoken[at : at + RUN])) in wanted)
    return sum(run in found for run in runs) > SHARE * len(runs)


def _is_its_own(body: str, text: str) -> bool:
    """Look for some places of `body`, as they are written; so many are missing that it can hardly be an echo.

    Were it one, two of five would be missing at most: four of four are by chance in three of a hundred, and so are the
    other outcomes that are taken for an answer.
    """
    missing = there = 0
    for probe in range(PROBES):
        at = int(probe * _GOLDEN % 1 * (len(body) - LENGTH))
        if body[at : at + LENGTH] in text:
            there += 1
        else:
            missing += 1
        if missing >= 4 + there * 1.25:
            return True
    return False


def _runs(words: list[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1))
