"""What the skills engine is told once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from attrs import Attribute, field, frozen, validators

__all__ = ["LOOKING", "SkillPolicy"]

LOOKING = frozenset(
    {
        "skill_view",
        "skills_list",
        "read_file",
        "search_files",
        "session_search",
        "web_search",
        "web_extract",
        "vision_analyze",
        "todo",
        "clarify",
    }
)
"""Tools that look, plan or ask, and change nothing: they are never held back."""


def _tokens(_policy: Any, attribute: Attribute[Any], value: Any) -> None:
    if value is not None and (type(value) is not int or value <= 0):
        raise ValueError(f"{attribute.name} takes a number of tokens above 0, or None for no limit, not {value!r}")


def _frozen(names: Iterable[str]) -> frozenset[str]:
    return frozenset(names)


@frozen
class SkillPolicy:
    """How skills are kept.  Sizes are estimated tokens; None: no limit.

    `once`: a skill that is in context is not delivered a second time.  `block`: what becomes of tools that act on the
    world while the reasoning rests on a pruned skill: held back (`on`), let go with a warning (`warn`), let go (`off`).
    `blocks`: for how many answers of the model they are held back, for one loss.  `total` and `each` limit what skills
    take after a compaction; `each` only warns.  `pinned` never go, by name.  `keep` is the share of the threshold up to
    which a required skill that a compaction dropped is put back.  `gather`: what stays is gathered in one block of the
    summary.  `looking`: tools that are never held back.
    """

    once: bool = True
    block: Literal["off", "warn", "on"] = field(default="on", validator=validators.in_(("off", "warn", "on")))
    blocks: int = field(default=3, validator=validators.ge(0))
    total: int | None = field(default=None, validator=_tokens)
    each: int | None = field(default=None, validator=_tokens)
    pinned: frozenset[str] = field(default=frozenset[str](), converter=_frozen)
    keep: float = field(default=0.8, validator=[validators.ge(0.0), validators.le(1.0)])
    gather: bool = False
    looking: frozenset[str] = field(default=LOOKING, converter=_frozen)
