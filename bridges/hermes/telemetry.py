"""Telemetry in Hermes: the observer and its settings.

    <home>/dataspace/telemetry/episodic.jsonl     the log of each profile, in its own home
    <home>/dataspace/telemetry/otel/              spans and metrics, where they are written to files

What is to be on disk before the process ends is waited for in `ends`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from engines.compressor.redact import redact_all
from engines.telemetry import BRAIN_LEAST, EpisodicLog, NoBrainError, Telemetry, brain_log, local_log

from .aides import Aide, Standing
from .blocks import boolean, names, setting, warn
from .ends import wait_for, watch_exit
from .host import home, redact

if TYPE_CHECKING:
    from dataspace import Facet
    from engines.facts import Session
    from engines.telemetry import Exporter

    from .settings import Settings

__all__ = ["Options", "aide", "boot", "redacted", "status"]

REVIEW = "review"
"""What the host's reviews in the background are called among platforms; they bear the id of the session they review."""

log = logging.getLogger(__name__)


def _directory(value: Any) -> str | None:
    if value is None or value is False:
        return ""
    return value.strip() if isinstance(value, str) else None


def _otel(value: Any) -> str | None:
    if value is False:  # YAML reads `off` so
        return "off"
    return value if value in {"off", "files", "process"} else None


@frozen
class Options:
    """What is written where.

    `log`: a log in the home of each profile.  `brain`: the directory of a portable brain, empty for none.  `otel`: spans
    and metrics to `files` in the home, or to the providers that the `process` has set.  `content`: texts, arguments and
    results go with spans.  `without`: platforms whose sessions are not logged, and `review` for reviews in the
    background.
    """

    EXAMPLE = "brain"

    log: bool = setting(True, boolean, "write true or false")
    brain: str = setting("", _directory, "write the path of a directory that holds .agent, or nothing")
    otel: str = setting("off", _otel, "write off, files or process")
    content: bool = setting(False, boolean, "write true or false")
    without: tuple[str, ...] = setting(("cron", "flush", REVIEW), names, "write a list of platforms, as in [cron]")


_engine: list[Telemetry] = []  # that of this process, once there is one
_reviews: set[str] = set()  # conversations of reviews that go on


def boot(settings: Settings, of: Callable[[str], Settings | None]) -> Callable[[Facet], None]:
    """The boot function of the engine; started again it goes on with what it had counted."""
    options = settings.of(Options)

    def log_for(session: Session) -> list[EpisodicLog]:
        wanted = of(session.sid)
        return [] if wanted is None else _logs(session, wanted.of(Options))

    # Which platforms are left out is each conversation's to say, so it is decided in `log_for`.
    engine = Telemetry(log_for, exporter=_exporter(options), without=frozenset())
    wait_for("telemetry", engine.flush)
    _engine[:] = [engine]
    return engine.boot


def status(_me: Facet) -> list[str]:
    """What `/dataspace status` shows: each log, and whether its disk keeps up."""
    lines = ["telemetry: hermes-dataspace telemetry summary"]
    for engine in _engine:
        for path, counts in engine.statistics().items():
            behind = f", {counts.waiting} wait" if counts.waiting else ""
            lost = f", {counts.lost} LOST while the disk stalled" if counts.lost else ""
            entries = "1 entry" if counts.handled == 1 else f"{counts.handled} entries"
            lines.append(f"  {path}: {entries} written{behind}{lost}")
    return lines


def aide(standing: Standing) -> Aide:
    """What notes, before a conversation is known to the engine, that it is a review, and takes note of ends."""
    if threading.current_thread().name.startswith("bg-review"):
        _reviews.add(standing.sid)
    watch_exit()
    return _Witness(standing.sid)


class _Witness(Aide):
    def __init__(self, sid: str) -> None:
        self._sid = sid

    def ended(self, reason: str) -> None:
        """The conversation is over."""
        _reviews.discard(self._sid)


def _logs(session: Session, options: Options) -> list[EpisodicLog]:
    """The logs of one conversation."""
    context = REVIEW if session.sid in _reviews else session.platform
    if context in options.without:
        return []
    found = []
    if options.log and session.home and Path(session.home).is_dir():  # a home is not made by writing to it
        found.append(EpisodicLog(local_log(session.home), redact=redacted, root=session.home))
    if options.brain:
        try:
            path = brain_log(options.brain)
            found.append(EpisodicLog(path, least=BRAIN_LEAST, redact=redacted, root=path.parents[1]))
        except (NoBrainError, OSError) as error:
            warn(f"context.dataspace.telemetry.brain: {error}; nothing is written there")
    return found


def redacted(texts: Sequence[str]) -> list[str]:
    """Texts without secrets: what the host's own redactor takes out, and then what ours still finds."""
    try:
        texts = [redact(text) for text in texts]
    except Exception as error:  # noqa: BLE001 - a host without one, or with another
        log.debug("the host's redactor could not be used: %r", error)
    return redact_all(texts)


def _exporter(options: Options) -> Exporter | None:
    if options.otel == "off":
        return None
    try:
        from engines.telemetry.otel import OpenTelemetry, to_files  # noqa: PLC0415 - an extra

        if options.otel == "process":
            return OpenTelemetry(content=options.content)
        if not Path(home()).is_dir():
            raise NotADirectoryError(f"there is no home at {home()}")
        return to_files(local_log(home()).parent / "otel", content=options.content)
    except (ImportError, OSError) as error:
        warn(f"context.dataspace.telemetry.otel: {error}; nothing is exported")
        return None
