"""The table, a line as soon as it is known, and the same as JSON."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import asdict

from .measure import Result, Row

__all__ = ["Table", "as_json"]

WIDTHS = (9, 9, 9, 9, 9, 7)
HEADS = ("what", "beside", "best", "median", "best", "median", "ratio", "budget")


class Table:
    """The table of `rows`, plain text in columns."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._widths = (max(len(row.name) for row in rows), max(len(row.beside) for row in rows), *WIDTHS)

    def head(self) -> str:
        """The first lines: the names of the columns."""
        titles = self._columns(HEADS)
        above = self._columns(("", "", "", "ours", "", "beside", "", ""))
        return f"{above.rstrip()}\n{titles}\n{'-' * len(titles)}"

    def line(self, result: Result) -> str:
        """A row; the ratio is that of the bests."""
        show = {"s": _time, "B": _bytes, "calls": _count}[result.unit]
        weighed = result.unit == "B"
        cells = (
            result.name,
            result.beside,
            show(result.best),
            show(result.median),
            "" if result.beside_best is None else show(result.beside_best),
            "" if result.beside_median is None else show(result.beside_median),
            f"{result.ratio / result.budget:.2f}" if weighed else f"{result.ratio:.3g}x",
            show(result.budget) if weighed else f"{result.budget:g}x",
        )
        return f"{self._columns(cells)}  {'ok' if result.met else 'MISSED'}"

    def _columns(self, cells: Sequence[str]) -> str:
        left = [cell.ljust(width) for cell, width in zip(cells[:2], self._widths[:2], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(cells[2:], self._widths[2:], strict=True)]
        return " ".join([*left, *right])


def as_json(results: Iterable[Result], failed: dict[str, str]) -> str:
    """One object: where it ran, every row, the names of those that miss their budget, and the errors of those that failed."""
    rows: list[dict[str, Any]] = [{**asdict(result), "met": result.met} for result in results]
    return json.dumps(
        {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "rows": rows,
            "missed": [row["name"] for row in rows if not row["met"]],
            "failed": failed,
        },
        indent=1,
    )


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _bytes(size: float) -> str:
    return f"{size:,.0f} B"


def _count(calls: float) -> str:
    return f"{calls:,.0f} c"
