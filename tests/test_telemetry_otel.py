"""Spans and metrics: names of the GenAI conventions, parents, and what goes with them only if it is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dataspace import Dataspace
from engines import facts as f
from engines.telemetry import Telemetry
from engines.telemetry.otel import OpenTelemetry, to_files
from tests.conftest import CHECKOUT


class Stage:
    """A host whose facts are exported into memory."""

    def __init__(self, **options: Any) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])
        self.otel = OpenTelemetry(tracers, self.meters, **options)
        self.now = 1_000.0
        ds = Dataspace()
        self.engine = Telemetry(lambda _session: None, exporter=self.otel, env={}, clock=lambda: self.now)
        self.actor = ds.spawn(self.engine.boot, name="telemetry")
        self.host = ds.actor("host")
        self.session = self.host.publish(f.Session("s1", profile="fin", model="m1", provider="gemini"))

    def spans(self) -> list[ReadableSpan]:
        """All that have ended, in the order of their ends."""
        assert self.engine.flush(10)
        return list(self.exporter.get_finished_spans())

    def metrics(self) -> dict[str, list[tuple[dict[str, Any], float]]]:
        """Attributes and sum of each point, by name of the metric."""
        assert self.engine.flush(10)
        data = json.loads(self.reader.get_metrics_data().to_json())  # type: ignore[union-attr]
        found = data["resource_metrics"][0]["scope_metrics"][0]["metrics"] if data["resource_metrics"] else []
        return {
            one["name"]: [
                (point["attributes"], point.get("sum", point.get("value"))) for point in one["data"]["data_points"]
            ]
            for one in found
        }


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A stage that is put away."""
    made = Stage()
    yield made
    made.meters.shutdown()


def at(span: ReadableSpan) -> tuple[float, float]:
    """When it began and ended, in seconds."""
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time / 1e9, span.end_time / 1e9


def parent(span: ReadableSpan) -> int | None:
    """The span it is within."""
    return None if span.parent is None else span.parent.span_id


def test_a_turn_and_what_is_in_it(stage: Stage) -> None:
    """The turn is an agent's span, tool calls and the compaction are within it, each with its own times."""
    host = stage.host
    host.send(f.TurnStarted("s1", "t1", text="secret question"))
    stage.now = 1_010.0
    host.send(
        f.ToolCalled("s1", "c1", "read_file", args='{"path": "secret"}', status="ok", result="secret", seconds=4.0)
    )
    host.send(f.ToolCalled("s1", "c2", "terminal", status="ok", result='{"exit_code": 2}', seconds=1.0))
    host.publish(f.Asked("s1", 1, 1, "a", tokens=90, threshold=80))
    stage.now = 1_012.0
    host.publish(f.Asked("s1", 1, 2, "b", tokens=90, threshold=80))
    stage.now = 1_015.0
    host.publish(f.Compressed("s1", 1, "b", tokens_before=90, tokens_after=30, seconds=5.0))
    stage.now = 1_020.0
    host.send(f.TurnEnded("s1", "t1", text="secret answer"))
    read, terminal, compaction, turn = stage.spans()
    assert ["execute_tool read_file", "execute_tool terminal", "ctx.compaction", "invoke_agent fin"] == [
        span.name for span in (read, terminal, compaction, turn)
    ]
    assert [None] + [turn.context.span_id] * 3 == [parent(span) for span in (turn, read, terminal, compaction)]
    assert [(1_006, 1_010), (1_009, 1_010), (1_010, 1_015), (1_000, 1_020)] == [
        at(span) for span in (read, terminal, compaction, turn)
    ]
    assert {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "fin", "gen_ai.conversation.id": "s1", "ctx.turn.id": "t1",
        "gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": "m1",
    } == dict(turn.attributes or {})  # fmt: skip
    assert {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read_file", "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function", "gen_ai.conversation.id": "s1",
    } == dict(read.attributes or {})  # fmt: skip
    assert ("tool_error", False) == ((terminal.attributes or {})["error.type"], terminal.status.is_ok)
    assert {
        "ctx.compaction.ask": 1, "ctx.compaction.engine": "b", "ctx.compaction.threshold": 80, "gen_ai.conversation.id": "s1",
        "ctx.compaction.tokens_before": 90, "ctx.compaction.tokens_after": 30,
    } == dict(compaction.attributes or {})  # fmt: skip
    assert "secret" not in "".join(span.to_json() for span in (read, terminal, compaction, turn))


def test_content_goes_along_if_it_is_asked_for() -> None:
    """Then texts, arguments and results are attributes of the names that the conventions have for them."""
    stage = Stage(content=True)
    stage.host.send(f.TurnStarted("s1", "t1", text="Why?"))
    stage.host.send(f.ToolCalled("s1", "c1", "x", args='{"a": 1}', result="fine"))
    stage.host.send(f.TurnEnded("s1", "t1", text="Because."))
    tool, turn = (dict(span.attributes or {}) for span in stage.spans())
    assert ('{"a": 1}', "fine") == (tool["gen_ai.tool.call.arguments"], tool["gen_ai.tool.call.result"])
    said = [json.loads(str(turn[f"gen_ai.{way}.messages"]))[0] for way in ("input", "output")]
    assert [("user", "Why?"), ("assistant", "Because.")] == [(one["role"], one["parts"][0]["content"]) for one in said]
    stage.meters.shutdown()


def test_content_goes_without_secrets_and_within_bounds() -> None:
    """In each attribute that holds what was said; halves of letters, which no exporter can spell, are escaped."""
    stage = Stage(content=True)
    stage.host.send(f.TurnStarted("s1", "t1", text="API_KEY=sk-abcdefghijkl12 \ud800"))
    result = "Authorization: Bearer abcdefgh1234 " + "x" * 1_000_000
    stage.host.send(f.ToolCalled("s1", "c1", "x", args='{"password": "hunter2"}', result=result))
    stage.host.send(f.TurnEnded("s1", "t1", text="token=abcdefgh1234"))
    text = "".join(span.to_json() for span in stage.spans())
    assert not any(secret in text for secret in ("sk-abc", "hunter2", "abcdefgh1234"))
    assert "[redacted]" in text
    assert 300_000 > len(text)
    text.encode("utf-8")
    stage.meters.shutdown()


def test_what_cannot_be_exported_takes_nothing_else_with_it(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """A fact that the SDK cannot take is logged; those before and after it are exported."""
    for call, now in (("c1", stage.now), ("c2", float("inf")), ("c3", stage.now)):
        stage.otel.appeared(f.ToolCalled("s1", call, "x", seconds=0.1), now, "fin")
    assert ["c1", "c3"] == [(span.attributes or {})["gen_ai.tool.call.id"] for span in stage.spans()]
    assert "could not be exported" in caplog.text
    assert 0 == stage.otel.statistics().lost


@pytest.mark.parametrize("seconds", [None, -3.0, 1e30, float("inf"), float("-inf"), "3"])
def test_a_duration_that_is_none_costs_no_span(stage: Stage, seconds: Any) -> None:
    """A call whose time nobody can have measured is a span all the same, without a duration, and so is a compaction."""
    stage.host.send(f.ToolCalled("s1", "c1", "x", seconds=seconds))
    stage.host.send(f.ToolCalled("s1", "c2", "x", status="error", seconds=seconds))
    stage.host.publish(f.Compressed("s1", 1, "compressor", tokens_before=9, tokens_after=1, seconds=seconds))
    assert [0.0] * 3 == [end - start for start, end in map(at, stage.spans())]
    assert 3 == len(stage.spans())
    assert 0.0 == stage.metrics()["ctx.compaction.duration"][0][1]


class Slow(TracerProvider):
    """Its collector does not answer until it may."""

    def __init__(self) -> None:
        super().__init__(shutdown_on_exit=False)
        self.may = threading.Event()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """As the SDK does: it takes its time, whatever it is given."""
        del timeout_millis
        return self.may.wait(60)


def test_a_collector_that_does_not_answer_holds_nobody_up() -> None:
    """Whoever waits at the end of a session waits for his own time and no longer; a later one finds all exported."""
    slow = Slow()
    otel = OpenTelemetry(slow, MeterProvider(shutdown_on_exit=False))
    engine = Telemetry(lambda _session: None, exporter=otel, env={})
    Dataspace().spawn(engine.boot, name="telemetry")
    assert not any(engine.flush(0.01) for _ in range(3))
    slow.may.set()
    assert engine.flush(60)


def test_a_reader_that_fails_costs_nobody_his_flush(caplog: pytest.LogCaptureFixture) -> None:
    """The SDK raises then: it is logged, and whoever waits is told that not all was exported."""

    class Broken(InMemoryMetricReader):
        def force_flush(self, timeout_millis: float = 10_000) -> bool:
            raise OSError("no route to the collector")

    meters = MeterProvider([Broken()], shutdown_on_exit=False)
    otel = OpenTelemetry(TracerProvider(), meters)
    assert not otel.flush(10)
    assert "no route to the collector" in caplog.text
    meters.shutdown()


def test_t09_parallel_calls_of_one_tool(stage: Stage) -> None:
    """T09: two calls of one tool in one batch are two spans, told apart by their ids."""
    stage.host.send(f.TurnStarted("s1", "t1"))
    for call in ("c1", "c2"):
        stage.host.send(f.ToolCalled("s1", call, "skill_view", seconds=0.1))
    assert ["c1", "c2"] == [(span.attributes or {})["gen_ai.tool.call.id"] for span in stage.spans()]


def test_a_delegated_conversation_is_within_the_turn_that_handed_it_over(stage: Stage) -> None:
    """By the message or by the child's own word, whichever comes; what it does before a turn of its own is there too."""
    stage.host.send(f.TurnStarted("s1", "t1"))
    stage.host.send(f.Delegated("s1", "c1"))
    stage.host.publish(f.Session("c2", profile="fin", parent="s1"))
    for child in ("c1", "c2"):
        stage.host.send(f.ToolCalled(child, "k0", "early"))
        stage.host.send(f.TurnStarted(child, "u1"))
        stage.host.send(f.ToolCalled(child, "k1", "x"))
        stage.host.send(f.TurnEnded(child, "u1"))
    stage.host.send(f.TurnEnded("s1", "t1"))
    *inner, outer = stage.spans()
    assert [outer.context.span_id] * 2 == [parent(span) for span in inner if span.name.startswith("invoke_agent")]
    assert [outer.context.span_id] * 2 == [parent(span) for span in inner if span.name.endswith("early")]
    assert 1 == len({span.context.trace_id for span in [*inner, outer]})


def test_tokens_with_cached_input_inside_input(stage: Stage) -> None:
    """Input is all that the prompt held; each response is recorded once, an estimate not at all; the turn has the sums."""
    host = stage.host
    host.send(f.TurnStarted("s1", "t1"))
    host.publish(
        f.Usage("s1", 1, prompt=100, completion=7, cache_read=60, cache_write=10, reasoning=3, response_id="r1")
    )
    host.publish(f.Usage("s1", 2, prompt=100, completion=7, cache_read=60, response_id="r1"))
    host.publish(f.Usage("s1", 3, prompt=900, estimated=True))
    host.publish(f.Usage("s1", 4, prompt=50, completion=1, side_prompt=180, side_completion=4))
    host.send(f.TurnEnded("s1", "t1"))
    (turn,) = stage.spans()
    assert {"input_tokens": 150, "output_tokens": 8, "cache_read.input_tokens": 60, "cache_creation.input_tokens": 10, "reasoning.output_tokens": 3} == {
        name.removeprefix("gen_ai.usage."): value for name, value in (turn.attributes or {}).items() if "usage" in name
    }  # fmt: skip
    metrics = stage.metrics()
    whose = {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": "fin",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.request.model": "m1",
    }
    for name, sums in (("gen_ai.client.token.usage", (150, 8)), ("ctx.compaction.side.tokens", (180, 4))):
        assert [
            ({**whose, "gen_ai.token.type": kind}, total) for kind, total in zip(("input", "output"), sums, strict=True)
        ] == metrics[name]


def test_compactions_are_measured(stage: Stage) -> None:
    """Time, tokens saved and failures, for which the conventions have no names."""
    stage.host.publish(f.Compressed("s1", 1, "c", tokens_before=90, tokens_after=30, seconds=2.0))
    stage.host.publish(f.CompactionFailed("s1", 2, reason="a secret"))
    done, failed = stage.spans()
    assert (998.0, 1_000.0) == at(done)
    assert ("compaction_failed", None) == ((failed.attributes or {})["error.type"], failed.status.description)
    metrics = stage.metrics()
    assert [2.0, 60, 1] == [
        metrics[f"ctx.compaction.{name}"][0][1] for name in ("duration", "tokens.saved", "failures")
    ]


def test_how_a_turn_went(stage: Stage) -> None:
    """Interrupted or not completed is an error; the end of another turn ends nothing."""
    for turn, said in (("t1", {"interrupted": True}), ("t2", {"completed": False}), ("t3", {})):
        stage.host.send(f.TurnStarted("s1", turn))
        stage.host.send(f.TurnEnded("s1", "another"))
        stage.host.send(f.TurnEnded("s1", turn, **said))
    assert ["interrupted", "incomplete", None] == [(span.attributes or {}).get("error.type") for span in stage.spans()]


@pytest.mark.parametrize("way", ["ended", "gone", "next"])
def test_no_span_stays_open(stage: Stage, way: str) -> None:
    """A session that ends, or is gone, or begins another turn, ends what was still open."""
    stage.host.send(f.TurnStarted("s1", "t1"))
    stage.host.publish(f.Asked("s1", 1, 1, "c"))
    stage.now += 5
    if way == "ended":
        stage.host.replace(stage.session, f.Session("s1", "ended"))
    elif way == "gone":
        stage.host.retract(stage.session)
    else:
        stage.host.send(f.TurnStarted("s1", "t2"))
    assert (["invoke_agent fin"] if way == "next" else ["invoke_agent fin", "ctx.compaction"]) == [
        s.name for s in stage.spans()
    ]
    assert 1_005.0 == at(stage.spans()[0])[1]


def test_open_spans_have_a_bound(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns and compactions that nobody ever ends do not pile up."""
    monkeypatch.setattr("engines.telemetry.spans._MOST", 3)
    for number in range(8):
        stage.host.publish(f.Session(f"x{number}"))
        stage.host.send(f.TurnStarted(f"x{number}", "t"))
        stage.host.publish(f.Asked(f"x{number}", 1, 1, "c"))
    names = [span.name for span in stage.spans()]
    assert (5, 5) == (names.count("ctx.compaction"), len(names) - 5)


def test_dropped_facts_are_counted() -> None:
    """Where the exporter cannot keep up the oldest facts go, and a metric says how many."""
    stage = Stage(limit=2)
    inside = stage.otel._spool._lock
    with inside:  # nobody takes anything out meanwhile
        queue = stage.otel._spool._queue
        queue.extend([("appeared", f.TurnStarted("s1", "t"), 1.0, "fin")] * 2)
        stage.otel._spool._put += 2
    stage.host.send(f.TurnStarted("s1", "t9"))
    lost = stage.otel.statistics().lost
    assert lost > 0
    assert [lost] == [total for _, total in stage.metrics()["ctx.telemetry.dropped"]]
    stage.meters.shutdown()


def test_files_for_people_without_a_collector(tmp_path: Path) -> None:
    """Two files of JSON lines in OTLP's form, complete once it has been waited for."""
    otel = to_files(tmp_path / "otel")
    ds = Dataspace()
    engine = Telemetry(lambda _session: None, exporter=otel)
    ds.spawn(engine.boot, name="telemetry")
    host = ds.actor("host")
    host.publish(f.Session("s1", profile="fin"))
    host.publish(f.Usage("s1", 1, prompt=5))
    host.send(f.ToolCalled("s1", "c1", "x"))
    assert engine.flush(10)
    traces, metrics = (
        (tmp_path / "otel" / name).read_text(encoding="utf-8") for name in ("traces.jsonl", "metrics.jsonl")
    )
    (span,) = json.loads(traces)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert "execute_tool x" == span["name"]
    assert "gen_ai.client.token.usage" in metrics
    modes = [path.stat().st_mode & 0o077 for path in ((tmp_path / "otel"), *(tmp_path / "otel").iterdir())]
    assert [0, 0, 0] == modes
    for provider in otel._providers:
        provider.shutdown()  # type: ignore[attr-defined]


def test_without_the_extra_it_says_what_to_install() -> None:
    """The engine itself needs nothing of it; who wants the exporter is told what is missing."""
    program = (
        "import sys\nsys.modules['opentelemetry.metrics'] = None\nimport engines.telemetry\n"
        "assert 'opentelemetry' not in sys.modules or True\n"
        "try:\n    import engines.telemetry.otel\nexcept ModuleNotFoundError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert "in a checkout: pip install '.[otel]'" in done.stdout


def test_who_only_logs_does_not_import_the_sdk() -> None:
    """Importing the engine costs neither trio nor OpenTelemetry."""
    program = "import sys, engines.telemetry; print(*sorted({'trio', 'opentelemetry'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert "" == done.stdout.strip()
