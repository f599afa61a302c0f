"""What is particular to each user request, however much they share.

Requests are often one long template with the matter at hand somewhere in the middle, so neither their beginnings nor
their ends tell them apart.  They are compared instead: words that stand in a run of four shared with another request
are common, the others particular.  Each request keeps its particular pieces first and then, as room allows, others:
earlier and more telling ones before the rest, and what many have in common only where it stands first.  Every request
keeps something that no other one has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

from attrs import define, field, frozen

from .fingerprint import Fingerprint
from .wording import bytes_of, clip, clip_bytes, mentions, one_line, sentences, worth

__all__ = ["Compared", "compare", "share_out"]

_RUN = 4  # words in a row that make two requests alike
_LONG = 24  # words of a sentence before it is cut
_FLOOR = 48  # bytes that a request keeps as long as there is room for it
_LEAST = 16  # bytes that it keeps even where there is none
_COMMON = 3  # as alike as it gets
_SAME = 60  # a shorter request is repeated rather than referred to
Gram = tuple[str, ...]
H = TypeVar("H", bound=Hashable)


@frozen
class _Piece:
    """Words `start` to `stop` of a request, a run of words that are equally `alike`: 1 stand only here, 2 in one other request, 3 in more.

    `own` are those of its words that no other request has, `worth` what it tells by itself, `repeated` whether an earlier
    request says the same.
    """

    start: int
    stop: int
    alike: int
    own: tuple[str, ...]
    worth: float
    repeated: bool
    text: str


@frozen
class Compared:
    """Requests held against each other, ready to be shortened to any size.

    `texts` are whole; `first` says which is the first of equal ones; `pieces` are those of every one that stands for
    itself; `seen` is the wording of all.
    """

    texts: tuple[str, ...]
    first: dict[str, int]
    pieces: dict[int, list[_Piece]]
    seen: Fingerprint

    def shorten(self, room: int, most: int = 0) -> list[str]:
        """Return the short forms of all requests, together about `room` bytes long.

        Where that is too little for a few words of each, it may be up to `most` bytes.  Beyond that each keeps a word or
        two that no other one has, whatever room that takes.
        """
        floor = min(max(most // max(len(self.pieces), 1), _LEAST), _FLOOR)
        sizes = share_out([bytes_of(self.texts[at]) for at in self.pieces], room, floor)
        made = {}
        for (at, pieces), size in zip(self.pieces.items(), sizes, strict=True):
            made[at] = self.texts[at] if bytes_of(self.texts[at]) <= size else _pick(pieces, size)
        _tell_apart(made, self.texts)
        return [made[at] if at in made else f"same as r{self.first[text] + 1}" for at, text in enumerate(self.texts)]


def compare(
    requests: Sequence[str],
    kept: Sequence[str] = (),
    known: int = 0,
    seen: Fingerprint = Fingerprint(),  # noqa: B008 - immutable
    wanted: tuple[str, ...] = (),
) -> Compared:
    """Compare requests (oldest first) with each other and with those `kept` in the list as they are.

    The first `known` are short forms from an earlier comparison; `seen` holds the wording of what they were made from.
    """
    texts = tuple(map(one_line, requests))
    first = {text: at for at, text in reversed(list(enumerate(texts)))}
    cut = {at: _words(requests[at]) for at, text in enumerate(texts) if first[text] == at or len(text) < _SAME}
    everybody = [words for words, _ in cut.values()] + [_words(text)[0] for text in kept if one_line(text) not in first]
    spread = _spread(map(_grams, everybody))
    common = {gram: min(times, _COMMON) for gram, times in spread.items() if times > 1}
    others = _Others(common, _spread(everybody), wanted)
    pieces, fresh = {}, seen
    for at, (words, breaks) in cut.items():
        others.earlier = seen if at >= known else Fingerprint()
        pieces[at] = _pieces(words, breaks, others)
        if at >= known:
            fresh = fresh.with_all([*words, *(" ".join(words[start:stop]) for start, stop in pairwise([0, *breaks]))])
    return Compared(texts, first, pieces, fresh)


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


def _spread(texts: Iterable[Iterable[H]]) -> Counter[H]:
    """In how many texts each thing stands."""
    found: Counter[H] = Counter()
    for things in texts:
        found.update(set(things))
    return found


@define
class _Others:
    """What a request is compared with: runs of four that others have too, in how many each word stands, what was known before.

    `told` are the runs of the requests before this one.
    """

    common: dict[Gram, int]
    own: Counter[str]
    wanted: tuple[str, ...]
    earlier: Fingerprint = Fingerprint()
    told: set[Gram] = field(factory=set)


def _pieces(words: list[str], breaks: list[int], others: _Others) -> list[_Piece]:
    grams = list(_grams(words))
    cover = _cover([others.common.get(gram, 1) for gram in grams], len(words))
    alone = {word for word in words if others.own[word] == 1 and word not in others.earlier}
    found, start = [], 0
    for stop in breaks:
        _with_context(cover, start, stop)
        if others.earlier.bits and " ".join(words[start:stop]) in others.earlier:
            cover[start:stop] = [_COMMON] * (stop - start)
        for begin, end in _runs(cover, start, stop):
            text = " ".join(words[begin:end])
            early = 1.0 - 0.4 * begin / len(words)
            repeated = cover[begin] > 1 and grams[min(begin, len(grams) - 1)] in others.told
            rated = early * worth(text) * (4.0 if mentions(text, others.wanted) else 1.0) / cover[begin]
            own = tuple(word for word in words[begin:end] if word in alone)
            found.append(_Piece(begin, end, cover[begin], own, rated / (1 + repeated), repeated, text))
        start = stop
    others.told.update(grams)
    return found


def _cover(alike: list[int], size: int) -> list[int]:
    """How alike each word is: as the most common run of four that it stands in."""
    if size < _RUN:
        return alike * size
    one = [1]
    shifted = (one * before + alike + one * (_RUN - 1 - before) for before in range(_RUN))
    return list(map(max, *shifted))


def _with_context(cover: list[int], start: int, stop: int) -> None:
    """Let what is particular in a sentence take in the two words before it and the one after."""
    for at in range(start, stop - 1):
        if cover[at] > 1 and cover[at + 1] == 1:
            cover[max(at - 1, start) : at + 1] = [1] * (at + 1 - max(at - 1, start))
    for at in range(stop - 1, start, -1):
        if cover[at] > 1 and cover[at - 1] == 1:
            cover[at] = 1


def _runs(cover: list[int], start: int, stop: int) -> Iterable[tuple[int, int]]:
    """Cut a sentence where its words change from particular to common; a mostly particular one stays whole."""
    if sum(alike == 1 for alike in cover[start:stop]) * 2 > stop - start:
        cover[start:stop] = [1] * (stop - start)
    begin = start
    for at in range(start + 1, stop + 1):
        if at == stop or cover[at] != cover[begin]:
            yield begin, at
            begin = at


def _pick(pieces: list[_Piece], size: int) -> str:
    """Fill half the room with what no other request has, the other half with what tells most about this one."""
    alone = [piece for piece in pieces if piece.alike == 1]
    alone.sort(key=lambda piece: (not piece.own, -piece.worth - min(len(piece.own), 4) / 2))
    best = sorted(pieces, key=lambda piece: -piece.worth)
    telling = [piece for piece in best if piece.alike < _COMMON or not piece.repeated]
    chosen: dict[int, _Piece] = {}
    used = 0
    for order, room in ((alone[:1], size), (alone, size // 2), (telling, size)):
        for piece in order:
            cost = bytes_of(piece.text) + 3
            tells = piece.stop - piece.start > 1 or piece.own or piece.worth > 1
            if piece.start not in chosen and used + cost <= room and tells:
                chosen[piece.start] = piece
                used += cost
    if not chosen:
        return _barest(alone, best, size)
    return _joined([chosen[at] for at in sorted(chosen)])


def _barest(alone: list[_Piece], best: list[_Piece], size: int) -> str:
    """A few words, those that no other request has if there are any, the longest first as they tell most."""
    own = list(dict.fromkeys(word for piece in alone for word in piece.own))
    if not own:
        return clip_bytes((alone or best)[0].text, size) if best else ""
    chosen: set[str] = set()
    for word in sorted(own, key=len, reverse=True):
        cost = bytes_of(word) + 1
        if cost <= size or not chosen:
            chosen.add(word)
            size -= cost
    return clip_bytes(" ".join(word for word in own if word in chosen), max(size + _SAME, _FLOOR))


def _joined(chosen: list[_Piece]) -> str:
    parts = [chosen[0].text]
    for one, other in pairwise(chosen):
        parts.append(other.text if one.stop == other.start else f"… {other.text}")
    return " ".join(parts)


def _tell_apart(made: dict[int, str], texts: Sequence[str]) -> None:
    """Where two short forms came out equal though the requests differ, add the first words in which they do."""
    seen: dict[str, int] = {}
    for at, form in made.items():
        short = form
        while texts[other := seen.get(short, at)] != texts[at]:
            short = f"{short} … {_difference(texts[other].split(), texts[at].split())}"
        seen.setdefault(short, at)
        made[at] = short


def _difference(one: list[str], two: list[str]) -> str:
    """The words of the second at the place where it begins to differ from the first."""
    places = (place for place, (word, other) in enumerate(zip(one, two, strict=False)) if word != other)
    place = next(places, min(len(one), len(two)))
    own = " ".join(two[place : place + _RUN]) or "[ends]"
    return f"{clip(own, 80)} [word {place + 1}]"
