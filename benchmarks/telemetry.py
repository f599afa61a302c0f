"""What telemetry costs the run loop for each fact, how fast it writes, and whether it grows."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Callable
from itertools import count, cycle
from pathlib import Path
from time import thread_time

from dataspace import Dataspace, Facet
from engines import facts as f
from engines.telemetry import EpisodicLog, Telemetry
from engines.telemetry.draft import call_of, drafted
from engines.telemetry.entry import Entry
from engines.telemetry.ledger import Ledger
from engines.telemetry.log import Line
from engines.telemetry.otel import OpenTelemetry

from .measure import Memory, Row, Slice, Times, each

__all__ = ["ROWS"]

LOOP = 20e-6  # seconds of the loop's time that a fact may take
ENTRY = 1e-4  # seconds for an entry at 10,000 a second
BATCH = 1_000
FACTS = 1_000_000
RESULT = '{"output": "' + "a line of what a command says " * 20 + '", "exit_code": 0, "error": null}'
LONG = '{"output": "' + "a line of what a command says " * 4_000 + '", "exit_code": 0, "error": null}'


def _allowed(seconds: float) -> Slice:
    """A reference that takes just what is allowed."""
    return lambda number: number * seconds


def _host(*, otel: bool = False) -> tuple[Facet, Telemetry]:
    ds = Dataspace()
    engine = Telemetry(lambda _session: EpisodicLog(os.devnull), exporter=OpenTelemetry() if otel else None)
    ds.spawn(engine.boot, name="telemetry")
    host = ds.actor("host")
    host.publish(f.Session("s1", profile="fin"))
    return host, engine


def _calls(result: str, *, otel: bool = False) -> Callable[[], tuple[Slice, Slice]]:
    """Tool calls, sent to nobody but telemetry; the dataspace's own part is in it."""

    def make() -> tuple[Slice, Slice]:
        host, _engine = _host(otel=otel)
        numbers = count()

        def call() -> None:
            host.send(f.ToolCalled("s1", f"c{next(numbers)}", "terminal", args='{"command": "ls -l"}', result=result))

        return each(call), _allowed(LOOP)

    return make


def _readings() -> tuple[Slice, Slice]:
    host, _engine = _host()
    numbers, held = count(1), [host.publish(f.Usage("s1", 0))]

    def read() -> None:
        number = next(numbers)
        held[0] = host.replace(held[0], f.Usage("s1", number, prompt=9_000, completion=80, response_id=f"r{number}"))

    return each(read), _allowed(LOOP)


def _entries() -> tuple[Slice, Slice]:
    """From drafts to lines in a real file: words, secrets, timestamps, JSON, one write each, a lock for each batch."""
    directory = tempfile.TemporaryDirectory()
    log = EpisodicLog(Path(directory.name) / "log")
    ledger = Ledger(lambda session: (session.profile, ()))
    fact = f.ToolCalled("s1", "c1", "terminal", args='{"command": "ls -l"}', result=RESULT)
    draft = next(iter(ledger.appeared(fact, 1.0)))._replace(told=call_of(fact, bad=False))

    def write(number: int) -> float:
        start = thread_time()
        for _ in range(max(1, number // BATCH)):
            lines = [Line(_entry(draft, log), None, "fin") for _ in range(BATCH)]
            log.write(lines)
        took = thread_time() - start
        os.truncate(Path(directory.name) / "log", 0)
        return took * number / (max(1, number // BATCH) * BATCH)

    return write, _allowed(ENTRY)


def _entry(draft: object, log: EpisodicLog) -> Entry:
    return drafted(draft, log.redact)  # type: ignore[arg-type]


def _grown() -> float:
    """Bytes by which the process has grown after a million facts of two thousand sessions.

    What is remembered of the latest responses and sessions, and what the allocator keeps for it, is full before that.
    """
    host, engine = _host()
    happen = cycle(range(500))
    numbers = count()

    def run(facts: int) -> None:
        session = usage = None
        for at in range(facts):
            step, number = next(happen), next(numbers)
            sid = f"s{number // 500}"
            if step == 0:
                session, usage = host.publish(f.Session(sid, profile="fin")), None
            elif step % 3:
                usage = host.replace(usage, f.Usage(sid, number, prompt=9_000, response_id=f"r{number}"))
            else:
                host.send(f.ToolCalled(sid, f"c{number}", "terminal", result=RESULT))
            if step == 499:
                host.retract(usage)
                host.retract(session)
            if at % 5_000 == 4_999:
                engine.flush(60)

    run(800_000)
    before = _resident()
    run(FACTS)
    return _resident() - before


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


ROWS: list[Row] = [
    Times("telemetry: the loop's time for a reading", "20 µs", 1.0, _readings),
    Times("telemetry: the loop's time for a tool call", "20 µs", 1.0, _calls(RESULT)),
    Times("telemetry: the loop's time for a call with a long result", "20 µs", 1.0, _calls(LONG)),
    Times("telemetry: the loop's time for a call, exported too", "20 µs", 1.0, _calls(RESULT, otel=True)),
    Times("telemetry: an entry into a file, 1,000 a lock", "10,000 a second", 1.0, _entries, rounds=5),
]
if Path("/proc/self/statm").exists():
    ROWS.append(Memory("telemetry: growth over 1,000,000 facts", "all in all", 2_000_000, _grown))
