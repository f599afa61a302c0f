"""Exporting to OpenTelemetry, through its official SDK; needs the extra `otel`.

Spans for turns, tool calls and compactions and metrics for tokens go to whatever providers are given; `to_files` is for
people without a collector.  The SDK's work is done on a thread of its own, behind a bounded queue.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from attrs import evolve

from engines.facts import Asked, Compressed, ToolCalled

from .draft import said
from .locked import make_folder
from .place import expanded
from .spool import LIMIT, Spool, SpoolStatistics
from .tools import outcome

try:
    from opentelemetry.metrics import MeterProvider, get_meter_provider
    from opentelemetry.trace import TracerProvider, get_tracer_provider

    from .spans import Spans
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{error.name} is missing; in a checkout: pip install '.[otel]'", name=error.name
    ) from None

__all__ = ["OpenTelemetry", "to_files"]

NAME = "hermes-dataspace"
_PATIENCE = 10_000  # milliseconds that the SDK is given to export what it holds
log = logging.getLogger(__name__)
_Event = tuple[str, Any, float, str]


class OpenTelemetry:
    """An exporter for `engines.telemetry.telemetry(…, exporter=…)`.

    Without providers it uses those that the process has set for itself.  `content` is whether what users, models and
    tools said goes with the spans; it is off, for nobody has asked for it.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        content: bool = False,
        limit: int = LIMIT,
    ) -> None:
        self._providers = (tracer_provider or get_tracer_provider(), meter_provider or get_meter_provider())
        self._content = content
        self._spans = Spans(self._providers[0].get_tracer(NAME), self._providers[1].get_meter(NAME), content=content)
        self._spool: Spool[_Event] = Spool(
            self._export,
            whose=lambda event: event[3],
            name="telemetry-otel",
            limit=limit,
            finish=self._push,
        )
        self._pushed = True

    def appeared(self, fact: Any, at: float, profile: str) -> None:
        """A fact stands or a message was sent; it is queued without what is not exported."""
        self._spool.put(("appeared", self._light(fact), at, profile))

    def vanished(self, fact: Any, at: float) -> None:
        """A fact does not stand any more."""
        self._spool.put(("vanished", self._light(fact), at, ""))

    def flush(self, seconds: float) -> bool:
        """Wait until all is handed to the SDK and the SDK has exported it, for at most so long.

        The SDK may take as long as its collector does, or raise; it is asked on the queue's thread, and waited for here.
        """
        return self._spool.flush(seconds) and self._pushed

    def statistics(self) -> SpoolStatistics:
        """How many facts came, were exported, wait and were lost."""
        return self._spool.statistics()

    def _light(self, fact: Any) -> Any:
        """The fact without message lists and, unless they are asked for, what the tool was told and answered."""
        if isinstance(fact, (Asked, Compressed)):
            return evolve(fact, messages=None, context=None) if isinstance(fact, Asked) else evolve(fact, messages=None)
        if isinstance(fact, ToolCalled) and not self._content:
            return evolve(fact, args="", result="", status=outcome(said(fact.status), said(fact.result)))
        return fact

    def _export(self, events: Sequence[_Event], lost: Mapping[str, int]) -> tuple[int, bool]:
        if lost:
            self._spans.dropped(sum(lost.values()))
        for event in events:
            try:
                self._hand_on(*event)
            except Exception:  # what the SDK cannot take takes nothing else with it
                log.exception("telemetry: a fact (%s) could not be exported", type(event[1]).__name__)
        return len(events), True

    def _hand_on(self, what: str, fact: Any, at: float, profile: str) -> None:
        if what == "appeared":
            self._spans.appeared(fact, at, profile)
        else:
            self._spans.vanished(fact, at)

    def _push(self) -> None:
        """Have the SDK export what it holds."""
        done = True
        for one in self._providers:
            try:
                done &= bool(getattr(one, "force_flush", lambda _millis: True)(_PATIENCE))
            except Exception as error:  # noqa: BLE001 - a reader that failed, or one of somebody's own
                log.warning("telemetry: what the SDK holds could not be exported: %s", error)
                done = False
        self._pushed = done


def to_files(directory: str | PathLike[str], *, content: bool = False) -> OpenTelemetry:
    """An exporter that appends to `traces.jsonl` and `metrics.jsonl` in a directory, in OTLP's JSON.

    A collector's file receiver reads them later.  The directory is made if there is none; raises `OSError`.
    """
    from opentelemetry.exporter.otlp.json.file import FileMetricExporter, FileSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.metrics import MeterProvider as Meters  # noqa: PLC0415 - not needed for other providers
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider as Tracers  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: PLC0415

    place = expanded(directory)
    make_folder(place)
    for name in ("traces.jsonl", "metrics.jsonl"):  # as the log: what others may not read
        os.close(os.open(place / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o600))
    resource = Resource.create({"service.name": NAME})
    tracers = Tracers(resource=resource)
    tracers.add_span_processor(SimpleSpanProcessor(FileSpanExporter(place / "traces.jsonl")))  # we are off the loop
    reader = PeriodicExportingMetricReader(FileMetricExporter(place / "metrics.jsonl"))
    return OpenTelemetry(tracers, Meters([reader], resource), content=content)
