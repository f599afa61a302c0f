"""What a text says that a successor should know: conclusions and errors, the next step, an open question.

No model is asked.  Sentences are told apart by how they begin and by what they name; `compressor.wording` rates them.
English words of reason and result count; in any language so do names and numbers, errors, and a label before a colon.
"""

from __future__ import annotations

import re

from ..compressor.text import parse
from ..compressor.wording import LEFT_OUT, bytes_of, clip, no_heading, one_line, plain, sentences, worth
from ..skills.wording import without_sections
from ..transcript import split_summary

__all__ = ["findings_in", "findings_of_summary", "plan_in", "question_in"]

_READ = 12_000  # characters of a text that are looked at, at its end
_LONGEST = 200
_CODE = re.compile(r"```.*?(?:```|\Z)|<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_BULLET = re.compile(r"^(?:[-*+>•|]|\d{1,3}[.)]|#{1,6})\s+")
_PLAN = re.compile(
    r"(?i)^(?:(?:now|next|first|then|so|ok(?:ay)?|alright|great|good|sure|finally|after that)\b[,:;!.]?\s+)*"
    r"(?:let(?:'s| me| us)\b|(?:i|we)(?:'ll|’ll| will| am going| are going|'m going|’m going| need to| want to| should| still have to| have to)\b|"
    r"(?:the )?next step\b|next[,:]|todo[:\b]|remaining[:\b]|still to do\b)"
)
_HOST = re.compile(r"(?i)^(?:\[?operation )?(?:interrupted|cancelled|canceled)\b")  # what a host says for the model
_ANNOUNCED = re.compile(
    r"(?i)^(?:now |next |still )?(?!(?:every|any|no|some)thing\b|during\b|according\b)[a-z]{3,}ing\b"
)  # "Reading file 3." tells of no result
_TOLD = re.compile(
    r"(?i)^(?:finding|conclusion|root cause|cause|result|decision|decided|fixed|error|lesson|learned|confirmed|summary|note|verdict|answer|solution)s?\b"
)
_ERROR = re.compile(r"\b\w*(?:Error|Exception)\b|\bfail(?:s|ed|ure|ing)?\b|\bcrash(?:es|ed)?\b|\btimed out\b")
_LABEL = re.compile(r"[^\W\d_][^:\uff1a.!?\d]{1,30}(?::\s|\uff1a)\s*\S")
_WIDE = re.compile(r"(?<=[\u3002\uff01\uff1f\u0964])")  # where sentences end in scripts that need no blank after that
_ASKING = ("?", "\uff1f", "\u061f")
_HEADED = re.compile(r"^#{1,6} ", re.MULTILINE)
_MARKED = re.compile(r"^\[CONTEXT [^\]\n]{0,80}\]:?(?:.{300,})?|^--- END OF CONTEXT SUMMARY.*$", re.MULTILINE)
_ENOUGH = 1.5  # a name, a number, or a word of reason or result


def findings_in(text: str, *, final: bool = False, most: int = 4) -> tuple[str, ...]:
    """Return what a text of the model concludes, in its order, at most so much.

    Of a `final` answer at least one sentence is kept, if it has one that says something.
    """
    found: list[tuple[float, str]] = []
    for sentence in _sentences(text):
        if (
            sentence.endswith(_ASKING)
            or _PLAN.match(sentence)
            or _HOST.match(sentence)
            or not _says_something(sentence)
        ):
            continue
        told = (2.0 if _TOLD.match(sentence) else 0.0) + (1.0 if _ERROR.search(sentence) else 0.0)
        if not told and _ANNOUNCED.match(sentence):
            continue
        found.append((worth(sentence) + told + _in_other_words(sentence, told), sentence))
    good = [item for item in found if item[0] >= _ENOUGH]
    best = sorted(good, key=lambda item: -item[0])[:most] or (
        sorted(found, key=lambda item: -item[0])[:1] if final else []
    )
    return tuple(dict.fromkeys(sentence for item in found if item in best for sentence in (clip(item[1], _LONGEST),)))


def findings_of_summary(text: str, most: int = 12) -> tuple[str, ...]:
    """Return what the summary of a compaction holds: what was found in ours, and the most telling sentences of others."""
    text = without_sections(text)
    ours = split_summary(text)[1]
    if not ours:
        head = _HEADED.search(text)  # what stands before the first heading tells what a summary is
        return findings_in(_MARKED.sub("", text[head.start() :] if head else text), final=True, most=most)
    summary = parse(ours)
    items = [item.text for item in (*summary.decided, *summary.errors, *summary.notes)]
    return tuple(clip(plain(item), _LONGEST) for item in items[-most:]) + findings_in(summary.prose, most=most)


def plan_in(text: str) -> str:
    """Return the last thing that a text announces, or nothing."""
    return next((clip(one, _LONGEST) for one in reversed(_sentences(text)) if _PLAN.match(one)), "")


def question_in(text: str) -> str:
    """Return the last question of a text, if it is at its end; or nothing."""
    return next((clip(one, _LONGEST) for one in _sentences(text)[-2:] if one.endswith(_ASKING)), "")


def _sentences(text: str) -> list[str]:
    ours = LEFT_OUT.sub(
        "\n", without_sections(text[-_READ:])
    )  # without what this program has put there: nobody found it
    told = _CODE.sub("\n", ours).replace("**", "")
    lines = [
        one_line(no_heading(_BULLET.sub("", plain(part).strip())))
        for line in told.splitlines()
        for part in (_WIDE.split(line) if not line.isascii() else [line])
    ]
    found: list[str] = []
    for line in lines:
        label = ""
        for part in () if line.startswith("|") else sentences(line):
            label = f"{label} {one_line(part).strip('_ ')}".strip()
            if not label.endswith(":"):  # what stands before a colon belongs to what follows
                found.append(label)
                label = ""
    return [sentence for sentence in found if sentence]


def _in_other_words(sentence: str, told: float) -> float:
    """What the rating of a sentence misses where it is not in English: a label as in English, and that letters say more."""
    if sentence.isascii():
        return 0.0
    short = 0.8 if len(sentence) < 25 <= bytes_of(sentence) else 0.0
    return short + (0.5 if not told and _LABEL.match(sentence) else 0.0)


def _says_something(sentence: str) -> bool:
    return (
        len(sentence) >= 12 if sentence.isascii() and " " in sentence else len(sentence) >= 8 and not sentence.isascii()
    )
