"""Telemetry: who did what, for which profile.

`telemetry` makes the engine, `EpisodicLog` is what it writes, `resolve_profile` says for whom.  `engines.telemetry.otel`
exports the same facts as OpenTelemetry spans and metrics; it needs the extra `otel`.
"""

from .engine import Exporter, Telemetry, telemetry
from .kinds import BRAIN_LEAST, KINDS, LOCAL_LEAST
from .log import EpisodicLog
from .place import NoBrainError, brain_log, local_log
from .profile import resolve_profile

__all__ = [
    "BRAIN_LEAST",
    "KINDS",
    "LOCAL_LEAST",
    "EpisodicLog",
    "Exporter",
    "NoBrainError",
    "Telemetry",
    "brain_log",
    "local_log",
    "resolve_profile",
    "telemetry",
]
