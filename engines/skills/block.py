"""The block of active skills in a summary: their full texts, each with the hash that proves it whole.

A text counts only if it is exactly what its hash says, so neither a model that copies a block nor one that makes one up
can make a skill available whose text is not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape, unescape

from attrs import frozen

from .reading import Reading, hash_of

__all__ = ["BLOCK", "Body", "bodies_in", "render_block", "without_block"]

BLOCK = "<active_skills>"
"""Begins the block."""

_OPEN, _CLOSE, _END = BLOCK, "</active_skills>", "\n</skill>"
_HEAD = re.compile(
    r'<skill name="([^"\n]*)" called="([^"\n]*)" file="([^"\n]*)" path="([^"\n]*)" sha256="([0-9a-f]{64})"'
    r' chars="(\d{1,9})">\n'
)


@frozen
class Body:
    """The text of a skill that is to stay active."""

    name: str
    called: str
    text: str
    file: str | None = None
    path: str | None = None


def render_block(bodies: Iterable[Body]) -> str:
    """Write the block; an order that depends on nothing but which skills there are.  Empty without any."""
    parts = []
    for body in sorted(bodies, key=lambda body: (body.name, body.path or "", body.file or "")):
        told = [escape(" ".join(text.split())) for text in (body.name, body.called, body.file or "", body.path or "")]
        head = '<skill name="{}" called="{}" file="{}" path="{}"'.format(*told)
        parts.append(f'{head} sha256="{hash_of(body.text)}" chars="{len(body.text)}">\n{body.text}\n</skill>')
    return "\n".join([_OPEN, *parts, _CLOSE]) if parts else ""


def bodies_in(text: str) -> Iterator[Reading]:
    """The skills that stand whole in the blocks of a summary."""
    for head, body in _bodies(text):
        name, called, file, path = (unescape(part) for part in head.groups()[:4])
        yield Reading("whole", name, called or name, file or None, path or None, head[5], len(body), body)


def without_block(text: str) -> str:
    """The summary without its blocks; one that was altered goes as far as it can be told to reach."""
    while (start := text.find(_OPEN)) >= 0:
        at = start + len(_OPEN)
        while (head := _HEAD.match(text, at + 1)) is not None:
            end = head.end() + int(head[6])
            if not text.startswith(_END, end):
                break
            at = end + len(_END)
        close = text.find(_CLOSE, at)
        stop = close + len(_CLOSE) if close >= 0 else at
        text = text[:start].rstrip("\n") + text[stop:]
    return text


def _bodies(text: str) -> Iterator[tuple[re.Match[str], str]]:
    at = text.find(_OPEN)
    while at >= 0 and (head := _HEAD.search(text, at)):
        end = head.end() + int(head[6])
        body = text[head.end() : end] if text.startswith(_END, end) else ""
        whole = hash_of(body) == head[5]
        if whole:
            yield head, body
        at = head.end() + (len(body) if whole else 0)
