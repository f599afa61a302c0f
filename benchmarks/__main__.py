"""`python -m benchmarks [--only PATTERN] [--json]`: exit status 1 when a budget is missed."""

from __future__ import annotations

import argparse
import re
import sys
from time import perf_counter

from . import compaction, core, freezing, hosting, memory, scale, sessions, skills, snapshots, telemetry, tracing
from .measure import Row, settle
from .report import Table, as_json

ROWS: list[Row] = [
    *core.ROWS,
    *scale.ROWS,
    *memory.ROWS,
    *freezing.ROWS,
    *sessions.ROWS,
    *compaction.ROWS,
    *tracing.ROWS,
    *hosting.ROWS,
    *telemetry.ROWS,
    *snapshots.ROWS,
    *skills.ROWS,
]
FOOT = """\
Processor time, bytes (B) or function calls (c) of one operation.  Ours and what it is beside are measured in turns in
this process; the ratio of the bests decides (bytes: the share of the budget).  In Hermes it is time on the clock, and of
turns and commands the ratio is what the median, or 99 of 100, take more, as a share of what they may.  A row that is
missed was measured four times.
"""


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and say by the exit status whether all budgets are met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What things cost, beside their budgets.")
    parser.add_argument(
        "--only", metavar="PATTERN", default="", help="the rows whose name or reference this regular expression finds"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end instead of the table")
    options = parser.parse_args(arguments)
    try:
        wanted = re.compile(options.only, re.IGNORECASE)
    except re.error as error:
        parser.error(f"--only takes a regular expression, and {options.only!r} is none: {error}")
    rows = [row for row in ROWS if wanted.search(f"{row.name} / {row.beside}")]
    if not rows:
        parser.error(f"no row matches {options.only!r}; without --only all are measured and named")
    return run(rows, json=options.json)


def run(rows: list[Row], *, json: bool) -> int:
    """Measure `rows` and print them; what one raises fails that row and no other."""
    start = perf_counter()
    table, results = Table(rows), []
    failed: dict[str, str] = {}

    def show(text: str) -> None:
        if not json:
            print(text, flush=True)

    if hosting.SKIPPED:
        show(hosting.SKIPPED)
    show(table.head())
    for row in rows:
        try:
            results.append(settle(row))
        except Exception as error:  # noqa: BLE001 - whatever is measured, the other rows are too
            failed[row.name] = f"{type(error).__name__}: {error}"
            show(f"{row.name}  FAILED  {failed[row.name]}")
        else:
            show(table.line(results[-1]))
    missed = sum(not result.met for result in results)
    if json:
        print(as_json(results, failed))
    show(f"\n{FOOT}{len(rows)} rows in {perf_counter() - start:.0f} s; missed: {missed}; failed: {len(failed)}")
    return 1 if missed or failed else 0


if __name__ == "__main__":
    sys.exit(main())
