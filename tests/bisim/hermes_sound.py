"""What makes a step unsound: the named weaknesses, found in what a side reports, with nothing of the guard's own code.

They are the only licence for a difference between the two sides where the guard repairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engines.transcript import check, text_of
from tests.bisim.hermes_side import Report, Rows
from tests.bisim.hermes_summary import USELESS

__all__ = ["NAMES", "PLATEAU", "problems", "summed_up", "weaknesses"]

_BY_CODE = {
    "orphan_result": "orphans a result",
    "open_call_cut": "cuts off an open call",
    "not_smaller": "grows the list",
    "current_user_changed": "merges or loses the request",
    "no_user": "merges or loses the request",
}
RULE = "breaks a transcript rule"
PLATEAU = "waits for a size that is not reported"
NAMES = (
    "raises",
    RULE,
    *dict.fromkeys(_BY_CODE.values()),
    "counts a compaction by hand as a strike",
    *(f"takes a summary: {mood}" for mood in USELESS),
    "goes on in another session",
    # found later, each with a test of its own
    "drops rows and puts in no summary",
    "counts what the host has dropped",
    "misreads a report",
    "forgets the threshold that the host has set",
    PLATEAU,
)
"""Every weakness, as it is counted."""
SUMMARY = "[CONTEXT COMPACTION"


def weaknesses(report: Report, strikes: int, *, verifies: bool) -> set[str]:
    """What was unsound in a step of the built-in; `strikes` and `verifies` are its counter and its mark after it."""
    signs = {
        "raises": bool(report.raised),
        "misreads a report": report.misread,
        "forgets the threshold that the host has set": report.forgets,
        PLATEAU: report.plateau,
    }
    found = {name for name, seen in signs.items() if seen}
    if report.before is not None:
        found.update(_of_a_compaction(report, report.before, strikes, verifies))
    return found


def _of_a_compaction(report: Report, before: Rows, strikes: int, verifies: bool) -> Iterator[str]:
    if report.changed and not report.late:
        yield RULE
    if report.manual and (strikes > report.strikes or (report.taken and verifies)):
        yield "counts a compaction by hand as a strike"
    if report.late and report.done is not None:
        yield "goes on in another session"
    if report.done is None or report.aborted or report.done == before:
        return
    yield from (_BY_CODE.get(code, RULE) for code in problems(report.done, before))
    if report.made and not summed_up(report):
        yield "drops rows and puts in no summary"
    if report.made and report.dropped:
        yield "counts what the host has dropped"
    if report.useless:
        yield f"takes a summary: {report.useless}"


def problems(done: Rows, before: Rows) -> list[str]:
    """What is wrong with a list that came of another one: codes of `check`, and rules of the host's own."""
    report = check(_unmarked(done), _unmarked(before))
    found: list[str] = [problem.code for problem in (*report.errors, *report.faults)]
    if "system_changed" in found and _noted(done, before):
        found.remove("system_changed")  # that is meant to be
    found += _naive(done, before)
    if any("_db_persisted" in row for row in done):
        found.append("stored_mark")
    sent = [(row["api_content"], row.get("content")) for row in before if "api_content" in row]
    if any("api_content" in row and (row["api_content"], row.get("content")) not in sent for row in done):
        found.append("stale_sidecar")
    return found


def summed_up(report: Report) -> bool:
    """Whether the answer holds the summary that was written for it; without a model, whether it holds a new one."""
    known = [row.get("content") for row in report.before or ()]
    return any(
        (report.wrote and report.wrote in text_of(row)) or (SUMMARY in text_of(row) and row.get("content") not in known)
        for row in report.done or ()
    )


def _naive(done: Rows, before: Rows) -> Iterator[str]:
    """Pairs of calls and results once more, by hand: each result answers a call before it, no call is answered twice."""
    open_calls: list[Any] = []
    known = [row.get("tool_call_id") for row in before if _strays(row, before)]
    for row in done:
        if row.get("role") == "tool":
            if row.get("tool_call_id") in open_calls:
                open_calls.remove(row["tool_call_id"])
            elif row.get("tool_call_id") not in known:
                yield "orphan_result"
        open_calls.extend(call.get("id") for call in row.get("tool_calls") or ())


def _strays(row: dict[str, Any], rows: Rows) -> bool:
    """Whether a result has no call anywhere."""
    if row.get("role") != "tool":
        return False
    return not any(call.get("id") == row.get("tool_call_id") for one in rows for call in one.get("tool_calls") or ())


def _unmarked(rows: Rows) -> Rows:
    return [{key: value for key, value in row.items() if key != "_db_persisted"} for row in rows]


def _noted(rows: Rows, before: Rows) -> bool:
    """Whether all that is new about the system message is a note at its end: the built-in says there that it has been."""
    if not rows or not before or not rows[0].get("role") == "system" == before[0].get("role"):
        return False
    now, was = rows[0].get("content"), before[0].get("content")
    return isinstance(now, str) and isinstance(was, str) and now.startswith(was)
