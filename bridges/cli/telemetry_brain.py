"""`--brain`: a portable brain that is to learn of what happens, written to where its own tools read."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from engines.facts import Session
from engines.loop.policy import kind_of
from engines.telemetry import BRAIN_LEAST, EpisodicLog, NoBrainError, brain_log, local_log, telemetry

from .errors import BadInput
from .kinds import Boot
from .replay import Settings

__all__ = ["log_of", "with_brain"]


def log_of(brain: str) -> Path:
    """The log of the brain in a directory; raises `BadInput` where there is none."""
    if not brain.strip():
        raise BadInput("--brain is empty; give the directory that holds .agent")
    try:
        return brain_log(brain)
    except NoBrainError as error:
        raise BadInput(f"--brain: {error}") from None


def with_brain(settings: Settings, brain: str | None) -> Settings:
    """The settings with a telemetry that writes to a brain as well; the same where there is none.  Raises `BadInput`."""
    if brain is None:
        return settings
    if "telemetry" not in {kind_of(name) for name in settings.engines}:
        raise BadInput("--brain is written to by the engine telemetry; plug it too, with --engine telemetry")
    path = log_of(brain)

    def made() -> Boot:
        learnt = EpisodicLog(path, least=BRAIN_LEAST)

        def log_for(session: Session) -> list[EpisodicLog]:
            return [learnt] if session.home is None else [EpisodicLog(local_log(session.home)), learnt]

        return telemetry(log_for)

    return evolve(settings, kinds={**settings.kinds, "telemetry": made})
