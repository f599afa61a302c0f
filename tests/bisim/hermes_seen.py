"""What can be seen of a side of the host pair: where the two part, and what is wrong with the right."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

from bridges.hermes.fields import FIELDS
from engines.facts import Session
from tests.bisim.hermes_side import Report, Rows, Side
from tests.bisim.hermes_sound import problems, summed_up
from tests.hermes_adapter.desk import facts

__all__ = [
    "built_in",
    "follow",
    "happened",
    "one_conversation",
    "one_session",
    "parted_in",
    "seen",
    "unnumbered",
    "unsound",
    "verifies",
]

PLAIN = (bool, int, float, str, type(None))
NOT_SEEN = {"_session_db"}
STATUS = ("last_prompt_tokens", "threshold_tokens", "context_length", "usage_percent", "compression_count")


def built_in(side: Side) -> Any:
    """The compressor of a side."""
    seat = side.engine.__dict__.get("_seat")
    return side.engine if seat is None else seat.in_charge().front


def seen(side: Side) -> dict[str, Any]:
    """What the host can see of an engine, and all that the compressor keeps in itself."""
    seen = {name: getattr(side.engine, name, default) for name, default in FIELDS.items()}
    kept = {
        f"its {name}": value
        for name, value in vars(built_in(side)).items()
        if isinstance(value, PLAIN) and name not in NOT_SEEN
    }
    stored = {} if side.store is None else {"cooldowns": side.store.cooldowns, "streaks": side.store.streaks}
    # The built-in has no status while its reading is no number.
    status = side.engine.get_status() if type(side.engine.last_prompt_tokens) is int else {}
    told = {f"status {name}": value for name, value in status.items() if name in STATUS}
    resting = side.engine.get_active_compression_failure_cooldown()
    return {**seen, **kept, **copy.deepcopy(stored), **told, "resting": resting, "session": side.session}


def parted_in(mine: Side, other: Side) -> dict[str, Any]:
    """Where the two are not equal.  What the adapter says of a compress call itself is not the built-in's to say."""
    one, two = seen(mine), seen(other)
    parted = {name: (one[name], two[name]) for name in one.keys() & two.keys() if one[name] != two[name]}
    parted |= {name: name for name in one.keys() ^ two.keys() if not name.startswith("status")}
    parted = {name: both for name, both in parted.items() if name not in other.engine.seat.told}
    # A number of the built-in's that is none, after a report that it could not read, is not shown.
    odd = {name for name, was in FIELDS.items() if type(was) is int and type(one[name]) is not int}
    assert all(type(two[name]) is int for name in odd), odd
    parted = {name: both for name, both in parted.items() if name not in odd}
    if mine.rows != other.rows:
        parted["rows"] = (mine.rows, other.rows)
    return parted


def follow(mine: Side, other: Side) -> None:
    """Make the left be as the right is."""
    kept = {name: value for name, value in vars(built_in(other)).items() if name not in NOT_SEEN}
    own = vars(mine.engine)
    for name in own.keys() - kept.keys() - NOT_SEEN:
        del own[name]
    own.update(copy.deepcopy(kept))
    mine.rows = copy.deepcopy(other.rows)
    mine.session, mine.sessions = other.session, other.sessions
    if mine.store is not None and other.store is not None:
        mine.store.take(other.store)


def unnumbered(value: Any) -> Any:
    """A text without the number of the conversation that an engine is named after."""
    return re.sub(r"\bbuiltin#\d+", "builtin#n", value) if isinstance(value, str) else value


def verifies(side: Side) -> bool:
    """Whether the next reading is going to be held against a compaction."""
    return bool(side.engine._verify_compaction_cleared_threshold)


def happened(report: Report) -> Iterator[str]:
    """What is counted of a step."""
    if report.before is not None:
        yield "compress calls"
        if report.taken:
            yield "compactions"
        elif report.aborted:
            yield "aborts"


# -- the right --------------------------------------------------------------------------------------------------------


def unsound(side: Side) -> list[str]:
    """What is wrong with the right after a step in which the left was unsound."""
    return list(_wrong(side, side.report))


def _wrong(side: Side, report: Report) -> Iterator[str]:
    engine = side.engine
    threshold = engine.threshold_tokens
    signs = {
        "a reading that is no number": type(engine.last_prompt_tokens) is not int,
        "misreads a report": report.misread and engine.last_prompt_tokens <= 0,
        "another threshold, still above what is reported": report.plateau
        and threshold != report.threshold
        and threshold > side.readings[-1],
        "another threshold than the host has set": report.forgets
        and threshold != int(engine.context_length * side.share),
    }
    yield from (raised for raised in report.raised if "KeyboardInterrupt" not in raised)
    yield from (name for name, seen in signs.items() if seen)
    if report.before is not None:
        yield from _carried(side) if report.late else _wrongly_compacted(side, report, report.before)


def _wrongly_compacted(side: Side, report: Report, before: Rows) -> Iterator[str]:
    engine = side.engine
    if report.changed:
        yield "the list it was given is changed"
    if report.done is not None and report.done != before:
        yield from problems(report.done, before)
        if report.made and not summed_up(report):
            yield "no summary"
        if report.useless:
            yield "a summary that says nothing"
    elif side.rows != before:
        yield "a list that nobody has given"
    if report.manual and (engine._ineffective_compression_count > report.strikes or (report.taken and verifies(side))):
        yield "a strike"
    declined = report.made and report.done is None  # it gave back what it got, and counts that
    if not report.taken and not declined and engine.compression_count != report.count:
        yield "a compaction is counted that is none"


def _carried(side: Side) -> Iterator[str]:
    """What of a session that is over has got into the next one."""
    if side.rows or side.report.taken:
        yield "messages of another session"
    if side.engine.compression_count or built_in(side)._previous_summary:
        yield "a compaction of another session"
    if side.engine.get_active_compression_failure_cooldown():
        yield "a failure of another session"


def one_conversation(side: Side, where: Any) -> None:
    """A conversation goes on until the host says that another begins, and not longer."""
    cell = side.engine.seat.cell
    if cell is None:
        return
    assert side.known.setdefault(side.conversations, cell.sid) == cell.sid, where


def one_session(side: Side, seed: int) -> None:
    """One session stands for a side, under the id that the host has given it last."""
    if side.engine.seat.cell is None:
        return
    standing = facts(Session, side.engine)
    assert 1 == len(standing), seed
    assert standing[0].host_session in {side.session, None}, (seed, standing[0].host_session, side.session)
