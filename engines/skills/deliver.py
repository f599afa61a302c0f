"""What a load puts into context, given what became of it: for hosts that hear of it by `SkillLoaded`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..facts import SkillLoaded
from ..transcript import call_id, text_of
from .wording import notice, updated

__all__ = ["delivered"]


def delivered(row: Mapping[str, Any], loads: Iterable[SkillLoaded]) -> Mapping[str, Any]:
    """Return a tool's row as it is to be kept: a skill that is in context already comes as a notice.

    `loads` are the loads that were heard of; rows that answer none of them are returned as they are.
    """
    called = call_id(row)
    for one in loads:
        if not called or one.call_id != called:
            continue
        if one.outcome == "deduplicated":
            return {**row, "content": notice(one.name, one.sha256)}
        if one.outcome == "updated":
            content = json.loads(text_of(row)).get("content")
            return {**row, "content": updated(one.name, one.sha256, content)}
    return row
