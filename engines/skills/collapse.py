"""The model's input with each skill once, while whoever keeps the transcript keeps all of it.

Of equal texts the first one stays, so that what a provider has cached of earlier requests stays the same; of versions
the newest one does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .scan import Found, look
from .wording import notice, superseded

__all__ = ["collapsed"]


def collapsed(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]] | None:
    """The rows with repeated and older texts of skills as notices; None where there are none.

    Rows that change are fresh dicts, all others the ones given.  It is for rows as they were stored, not for its own result:
    a notice has lost the path by which the text was told from that of another skill of the same name.
    """
    changed: dict[int, str] = {}
    for found in look(messages):
        changed |= _notices(found)
    if not changed:
        return None
    return [{**row, "content": changed[at]} if at in changed else row for at, row in enumerate(messages)]


def _notices(found: Found) -> dict[int, str]:
    """What is to stand in the rows of one skill that bring no news."""
    whole = [one for one in found.seen if one.reading.kind == "whole"]
    stays = next((one for one in whole if one.reading.sha256 == found.current), None)
    if stays is None:
        return {}
    told: dict[int, str] = {}
    for one in whole:
        name, sha256 = one.reading.name, one.reading.sha256 or ""
        if one is not stays and one.call is not None:
            told[one.at] = notice(name, sha256) if sha256 == found.current else superseded(name, sha256)
    return told
