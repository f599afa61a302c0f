"""Short forms of text: one line, clipped, sentences, and how much a sentence tells."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..transcript import SUMMARY_END, SUMMARY_HEAD

__all__ = [
    "LEFT_OUT",
    "best_sentence",
    "bytes_of",
    "clip",
    "clip_bytes",
    "excerpt",
    "focus_words",
    "lines_with",
    "lowered",
    "mentions",
    "no_heading",
    "one_line",
    "plain",
    "sentences",
    "worth",
]

_SENTENCE = re.compile(r"(?<=[.!?:;]) +(?=[^a-z\s])|[\n…]")
_CUES = frozenset(
    "because since therefore instead decide decided decision chose choose found turned turns cause issue problem bug fix fixed fixes must never "
    "always should cannot can't won't works worked fail fails failed failing wrong correct success successful successfully confirmed means only "
    "error errors exception timed agreed prefer prefers answer result root reason needs requires".split()
)
_TELLING = re.compile(r"[\d_/`]+")
_ANSI = re.compile(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\))")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_MARKS = ((SUMMARY_HEAD, "[compressed summary]"), (SUMMARY_END, "[end of summary]"))


def one_line(text: str, most: int | None = None) -> str:
    """Return the text with every run of blanks made one, clipped to `most` characters, and free of our own marks."""
    line = " ".join(text[: most * 4 + 200].split() if most else text.split())
    for mark, instead in _MARKS:
        line = line.replace(mark, instead)
    return clip(line, most) if most else line


def plain(text: str) -> str:
    """Return a text as one line fit to be shown: no control characters or escapes, no halves of letters, none of our marks."""
    if not text.isprintable():
        text = _SURROGATE.sub("\ufffd", _UNSEEN.sub(" ", _ANSI.sub("", text)))
    for mark, instead in _MARKS:
        text = text.replace(mark, instead)
    return text


def no_heading(line: str) -> str:
    """Return a line without whatever makes it a heading, however often."""
    return line.lstrip("# \t")


def clip(text: str, most: int) -> str:
    """Cut a text to at most `most` characters, at a blank where there is one near."""
    if len(text) <= most:
        return text
    if most < 2:
        return text[: max(most, 0)]
    cut = text[: most - 1]
    blank = cut.rfind(" ", most * 2 // 3)
    return (cut[:blank] if blank > 0 else cut).rstrip() + "…"


def clip_bytes(text: str, most: int) -> str:
    """Like `clip`, with the limit in UTF-8 bytes."""
    if bytes_of(text) <= most:
        return text
    cut = text.encode("utf-8", "surrogatepass")[: max(most - 3, 0)].decode("utf-8", "ignore")
    return clip(cut + " …", len(cut) + 1) if cut else ""


LEFT_OUT = re.compile(r"\n\[… [\d,]+ characters left out …\]\n")
"""Finds what `excerpt` puts where it took something out: whoever looks for what a text says does not read it."""


def excerpt(text: str, most: int) -> str:
    """Return beginning and end of a long text, at most about `most` characters, saying how much stood between."""
    if len(text) <= most:
        return text
    note = f"\n[… {len(text) - most:,} characters left out …]\n"
    room = max(most - len(note), 0)
    end = room // 3
    return text[: room - end] + note + (text[-end:] if end else "")


def sentences(text: str) -> list[str]:
    """Cut a text into sentences and lines."""
    return [sentence for sentence in _SENTENCE.split(text) if sentence and not sentence.isspace()]


def worth(sentence: str) -> float:
    """How much a sentence seems to tell: words of reason and result, names and numbers; 1 for a plain one."""
    cues = len(_CUES.intersection(sentence.lower().split()))
    names = len(_TELLING.findall(sentence))
    return 1.0 + min(cues, 3) * 0.8 + min(names, 4) * 0.5 - (0.8 if len(sentence) < 25 else 0.0)


def best_sentence(text: str, most: int, wanted: Iterable[str] = ()) -> str:
    """Return the sentence of a text that tells most, the earlier of equals, clipped to `most` characters."""
    found = sentences(text[:4000])
    if not found:
        return ""
    wanted = tuple(wanted)
    rated = [worth(item) + (6.0 if mentions(item, wanted) else 0.0) - at * 0.05 for at, item in enumerate(found)]
    return one_line(found[rated.index(max(rated))], most)


def focus_words(focus: str | None) -> tuple[str, ...]:
    """Return the words of a focus that say something, in lower case."""
    return tuple(dict.fromkeys(word for word in re.findall(r"[\w./-]{3,}", (focus or "").lower())))


def mentions(text: str, wanted: tuple[str, ...]) -> bool:
    """Whether a text holds one of the wanted words."""
    if not wanted:
        return False
    lowered = text.lower()
    return any(word in lowered for word in wanted)


def lowered(text: str) -> str:
    """Return the text in lower case, letter for letter: places in it are places in the text."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join([letter.lower() if len(letter.lower()) == 1 else letter for letter in text])


def lines_with(text: str, hints: Iterable[str], low: str | None = None) -> list[tuple[int, int]]:
    """Return where the lines begin and end that hold one of the hints (lower case), in order.

    `low` is `lowered(text)`, if it is at hand.  Searching the whole text is much faster than looking at each line.
    """
    low = lowered(text) if low is None else low
    found: dict[int, int] = {}
    for hint in hints:
        at = low.find(hint)
        while at >= 0:
            end = low.find("\n", at)
            end = len(text) if end < 0 else end
            found[low.rfind("\n", 0, at) + 1] = end
            at = low.find(hint, end)
    return sorted(found.items())


def bytes_of(text: str) -> int:
    """Return the size of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
