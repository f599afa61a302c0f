"""What is particular to each user request, however much they share.

Requests are often one long template with the matter at hand somewhere in the middle, so neither their beginnings nor
their ends tell them apart.  They are compared instead: words that stand in a run of four shared with another request
are common, the others particular.  Each request keeps its particular pieces first and then, as room allows, the common
ones, earlier and more telling ones before others.  Every request keeps something that no other one has.

A request that is folded when its like is long gone is compared with *shared wording*: the sentences that earlier
requests had in common, shortened to their first and last words, which a summary carries along for this purpose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import frozen

from .wording import bytes_of, clip, clip_bytes, mentions, one_line, sentences, worth

__all__ = ["Compared", "compare", "needed", "share_out"]

_RUN = 4  # words in a row that make two requests alike
_LONG = 30  # words of a sentence before it is cut
_FLOOR = 48  # bytes that a request keeps even where there is no room
_SAME = 60  # a shorter request is repeated rather than referred to
Gram = tuple[str, ...]


@frozen
class _Piece:
    """Words `start` to `stop` of a request, in how many requests they stand, and what they are worth."""

    start: int
    stop: int
    spread: int
    worth: float
    text: str


def needed(texts: Iterable[str]) -> int:
    """Return the bytes that requests take when they are kept whole."""
    return sum(bytes_of(text) for text in texts)


@frozen
class Compared:
    """Requests held against each other, ready to be shortened to any size.

    `texts` are whole; `first` says which is the first of equal ones; `pieces` are those of every one that stands for
    itself; `shared` is the wording known to be common, with what these requests add to it.
    """

    texts: tuple[str, ...]
    first: dict[str, int]
    pieces: dict[int, list[_Piece]]
    shared: tuple[str, ...]

    def shorten(self, room: int) -> list[str]:
        """Return the short forms of all requests, together about `room` bytes long."""
        sizes = share_out([bytes_of(self.texts[at]) for at in self.pieces], room, _FLOOR)
        made = {}
        for (at, pieces), size in zip(self.pieces.items(), sizes, strict=True):
            made[at] = self.texts[at] if bytes_of(self.texts[at]) <= size else _pick(pieces, size)
        _tell_apart(made, self.texts)
        return [made[at] if at in made else f"same as r{self.first[text] + 1}" for at, text in enumerate(self.texts)]


def compare(
    requests: Sequence[str], kept: Sequence[str] = (), shared: Sequence[str] = (), wanted: tuple[str, ...] = ()
) -> Compared:
    """Compare requests (oldest first) with each other and with those `kept` in the list as they are."""
    texts = tuple(map(one_line, requests))
    first = {text: at for at, text in reversed(list(enumerate(texts)))}
    cut = {at: _words(requests[at]) for at, text in enumerate(texts) if first[text] == at or len(text) < _SAME}
    others = [_words(text)[0] for text in kept if one_line(text) not in first]
    spread = _spread([words for words, _ in cut.values()] + others)
    known = set(shared)
    pieces = {at: _pieces(words, breaks, spread, known, wanted) for at, (words, breaks) in cut.items()}
    long = (piece for found in pieces.values() for piece in found if piece.spread > 1 and piece.stop - piece.start > _RUN)
    usual = [_key(piece.text) for piece in long if piece.spread * 2 >= len(cut)]
    return Compared(texts, first, pieces, tuple(dict.fromkeys([*shared, *usual])))


def share_out(needs: Sequence[int], room: int, floor: int = 0) -> list[int]:
    """Divide `room` so that who needs little gets it all and the rest share alike, none less than `floor`."""
    given = [0] * len(needs)
    order = sorted(range(len(needs)), key=needs.__getitem__)
    for done, at in enumerate(order):
        given[at] = min(needs[at], max(room // (len(needs) - done), floor))
        room = max(room - given[at], 0)
    return given


def _words(text: str) -> tuple[list[str], list[int]]:
    """The words of a text and where its sentences (or parts of very long ones) end."""
    words: list[str] = []
    breaks: list[int] = []
    for sentence in sentences(text):
        said = one_line(sentence).split()
        for at in range(0, len(said), _LONG):
            words.extend(said[at : at + _LONG])
            breaks.append(len(words))
    return words, breaks


def _grams(words: Sequence[str]) -> Iterable[Gram]:
    if len(words) < _RUN:
        return [tuple(words)] if words else []
    return zip(*[words[at:] for at in range(_RUN)], strict=False)


def _spread(texts: Sequence[Sequence[str]]) -> Counter[Gram]:
    found: Counter[Gram] = Counter()
    for words in texts:
        found.update(set(_grams(words)))
    return found


def _pieces(
    words: list[str], breaks: list[int], spread: Counter[Gram], known: set[str], wanted: tuple[str, ...]
) -> list[_Piece]:
    cover = [1] * len(words)
    for at, gram in enumerate(_grams(words)):
        alike = spread[gram]
        if alike > 1:
            for place in range(at, min(at + _RUN, len(words))):
                cover[place] = max(cover[place], alike)
    found, start = [], 0
    most = max([*cover, 2])
    for stop in breaks:
        _with_context(cover, start, stop)
        if _key(" ".join(words[start:stop])) in known:
            cover[start:stop] = [most] * (stop - start)
        found += [_rated(words, begin, end, cover[begin], most, wanted) for begin, end in _runs(cover, start, stop)]
        start = stop
    return found


def _with_context(cover: list[int], start: int, stop: int) -> None:
    """Let what is particular in a sentence take in the two words before it and the one after."""
    own = [at for at in range(start, stop) if cover[at] == 1]
    for at in own:
        for near in (at - 2, at - 1, at + 1):
            if start <= near < stop:
                cover[near] = 1


def _runs(cover: list[int], start: int, stop: int) -> Iterable[tuple[int, int]]:
    """Cut a sentence where its words change from particular to common; a mostly particular one stays whole."""
    if sum(alike == 1 for alike in cover[start:stop]) * 2 > stop - start:
        cover[start:stop] = [1] * (stop - start)
    begin = start
    for at in range(start + 1, stop + 1):
        if at == stop or cover[at] != cover[begin]:
            yield begin, at
            begin = at


def _rated(words: list[str], start: int, stop: int, spread: int, most: int, wanted: tuple[str, ...]) -> _Piece:
    text = " ".join(words[start:stop])
    rarity = 1.0 / spread if spread < most or spread == 1 else 0.2 / spread
    early = 1.0 - 0.6 * start / max(len(words), 1)
    focus = 2.0 if mentions(text, wanted) else 1.0
    return _Piece(start, stop, spread, rarity * early * worth(text) * focus, text)


def _pick(pieces: list[_Piece], size: int) -> str:
    """Choose pieces worth most: first one that no other request has, then whatever still fits."""
    order = sorted(pieces, key=lambda piece: -piece.worth)
    lead = next((piece for piece in order if piece.spread == 1), order[0] if order else None)
    if lead is None:
        return ""
    chosen, used = [lead], bytes_of(lead.text)
    if used > size:
        return clip_bytes(lead.text, size)
    rare = max(2, len({piece.spread for piece in pieces}))
    for piece in order:
        cost = bytes_of(piece.text) + 3
        if piece is not lead and used + cost <= size and piece.spread <= rare and (piece.stop - piece.start > 1 or piece.worth > 1):
            chosen.append(piece)
            used += cost
    return _joined(sorted(chosen, key=lambda piece: piece.start))


def _joined(chosen: list[_Piece]) -> str:
    parts = [chosen[0].text]
    for one, other in zip(chosen, chosen[1:], strict=False):
        parts.append(other.text if one.stop == other.start else f"… {other.text}")
    return " ".join(parts)


def _tell_apart(made: dict[int, str], texts: Sequence[str]) -> None:
    """Where two short forms came out equal though the requests differ, add the first words in which they do."""
    seen: dict[str, int] = {}
    for at, short in made.items():
        other = seen.setdefault(short, at)
        if texts[other] != texts[at]:
            one, two = texts[other].split(), texts[at].split()
            place = next((n for n, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]), min(len(one), len(two)))
            own = " ".join(two[place : place + _RUN]) or f"[ends after {place} words]"
            made[at] = short = f"{short} … {clip(own, 80)} [word {place + 1}]"
            seen.setdefault(short, at)


def _key(sentence: str) -> str:
    """The short form under which a shared sentence is remembered."""
    words = sentence.split()
    if len(words) <= 9:
        return sentence
    return f"{' '.join(words[:5])} .. {' '.join(words[-2:])} [{len(words)}]"
