"""The result of a replay as plain data: what `--json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .replay import End
from .session import Session
from .story import Story
from .words import counted

__all__ = ["problems", "remarks", "result_of"]


def result_of(session: Session, story: Story, end: End) -> Mapping[str, Any]:
    """One JSON object; its keys are documented in `docs/reference/command.md`."""
    return {
        "sessions": 1,
        "messages": len(session.lines),
        "responses": session.responses,
        "crossings": story.count("crossing"),
        "compactions": len(story.compactions),
        "refused": story.count("refused"),
        "failed": story.count("failed"),
        "tokens": {"before": end.before, "after": end.after, "peak": story.peak},
        "results": [
            {
                "ask": done.ask,
                "by": done.by,
                "tokens_before": done.tokens_before,
                "tokens_after": done.tokens_after,
                "seconds": round(done.seconds, 4),
            }
            for done in story.compactions
        ],
        "skills": story.skills.counts(),
        "engines": list(story.served),
        "crashes": story.count("crashed"),
    }


def problems(end: End) -> tuple[str, ...]:
    """Why the run counts as failed, one line each; none: it does not."""
    standing = () if end.standing is None else (f"{end.standing}; plug another engine with --engine or --swap",)
    return (*end.failed_swaps, *standing)


def remarks(story: Story, end: End) -> tuple[str, ...]:
    """What should not go unsaid although the run may have gone well, one line each."""
    crossings = counted(story.count("crossing"), "crossing")
    return (
        *(f"engine {name} crashed: {reason}" for name, reason in story.crashes.items()),
        *(f"--swap {one} was not done, for it did not come to that: {crossings}" for one in end.unreached),
    )
