"""Who looks on at the right side of the host pair: actors that observe everything, one that crashes on and on, a trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from bridges.hermes.runtime import current_runtime
from dataspace import Crashed, Facet, Observe
from dataspace.trace import Recording, dump_turns, recording
from engines.facts import FACTS, Serving, Session, SnapshotSaved, Transcript, Usage
from engines.supervisor import Patience, supervised
from engines.wire import vocabulary_wire

__all__ = ["WATCHING", "Seen", "watching"]

WATCHING = ("telemetry", "snapshots", "crashes", "trace", "all of them")
"""Who may look on."""


class Seen:
    """What they saw, so that a test knows that they were there."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()


@contextmanager
def watching(who: str, seen: Seen) -> Iterator[None]:
    """Have them look on while the block runs."""
    runtime = current_runtime()
    assert runtime is not None
    kinds = WATCHING[:-1] if who == WATCHING[-1] else (who,)
    began: list[Facet] = []
    with ExitStack() as record:

        def begin(desk: Any) -> None:
            for kind in kinds:
                if kind == "trace":
                    turns = record.enter_context(recording(desk.me.ds))
                    record.callback(_written, turns, seen)
                else:
                    began.append(desk.me.spawn(_boots(kind, seen), name=f"{kind} that looks on"))

        def end(_desk: Any) -> None:
            record.pop_all().close()
            for facet in began:
                facet.stop()

        runtime.ask(begin)
        try:
            yield
        finally:
            runtime.ask(end)


def _boots(kind: str, seen: Seen) -> Any:
    if kind == "telemetry":
        return lambda me: _telemetry(me, seen)
    if kind == "snapshots":
        return lambda me: _snapshots(me, seen)
    often = Patience(pause_first=0.001, pause_last=0.001, most=1_000_000)
    return supervised(_crashes, seen, name="one that crashes", patience=often)


def _telemetry(me: Facet, seen: Seen) -> None:
    """Notes every fact and message, who observes what, and who has crashed."""

    def note(what: object) -> None:
        seen.counts[type(what).__name__] += 1
        repr(what)

    for kind in (*FACTS.values(), Observe, Crashed):
        me.observe(kind, appeared=note, vanished=note, heard=note)
    me.publish(Serving(me.name, "observer"))


def _snapshots(me: Facet, seen: Seen) -> None:
    """For each session writes every transcript down in a thread, and says so; what it holds it may ruin."""

    async def write(fact: Transcript) -> None:
        rows = fact.messages.thaw()
        for row in rows:
            row.clear()
        seen.counts["written"] += len(await me.blocking(repr, rows)) > 0

    def session(scope: Facet, session: Session) -> None:
        def changed(fact: Transcript) -> None:
            if fact.sid == session.sid:
                scope.task(write, fact)
                scope.send(SnapshotSaved(fact.sid, "nowhere", "changed", 0.0))

        scope.observe(Transcript, appeared=changed)

    me.during(Session, session)


def _crashes(me: Facet, seen: Seen) -> None:
    """Cannot bear a reading."""

    def broken(_fact: Usage) -> None:
        seen.counts["crashes"] += 1
        raise RuntimeError("once more")

    me.observe(Usage, appeared=broken)


def _written(turns: Recording, seen: Seen) -> None:
    seen.counts["turns"] += sum(1 for _line in dump_turns(turns, vocabulary_wire()))
