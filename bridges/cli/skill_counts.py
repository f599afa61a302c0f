"""What a replay tells of skills: how many loads there were, and how they stood at the end."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from engines.facts import Session, SkillAvailable, SkillLoaded, SkillPruned

__all__ = ["SkillCounts"]


@define
class SkillCounts:
    """Fed with what appears, vanishes and is heard; what stood when the session ended counts."""

    loaded: int = 0
    deduplicated: int = 0
    _standing: dict[Any, None] = field(factory=dict)
    _over: bool = False

    def take(self, change: str, fact: Any) -> None:
        """A fact has `appeared` or `vanished`, or a message was `heard`."""
        if type(fact) is SkillLoaded and change == "heard":
            self.loaded += 1
            self.deduplicated += fact.outcome == "deduplicated"
        elif type(fact) is Session and change == "appeared":
            self._over = fact.state == "ended"
        elif type(fact) in {SkillAvailable, SkillPruned} and not self._over:
            if change == "appeared":
                self._standing[fact] = None
            else:
                self._standing.pop(fact, None)

    def counts(self) -> dict[str, int]:
        """The numbers, under the names of the result."""
        kinds = [type(fact) for fact in self._standing]
        return {
            "loaded": self.loaded,
            "deduplicated": self.deduplicated,
            "pruned": kinds.count(SkillPruned),
            "available": kinds.count(SkillAvailable),
        }
