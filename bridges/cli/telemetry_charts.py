"""Charts as SVG, drawn by hand: lines over time, bars by name.  Pure: figures in, text out; colours are the page's.

Everything drawn has a `<title>`, so a pointer that rests on it shows the figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from math import ceil, floor, log10

from attrs import frozen

__all__ = ["Bar", "Mark", "Reading", "amount", "bars", "lines"]

_WIDTH, _HEIGHT = 860, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 18, 14, 30
_ROW, _NAME = 30, 130
_POINTS = 1_500  # more than this many readings are thinned: a line is no wider than the page


@frozen
class Reading:
    """How full the context was at a response, and the threshold then (0: not known)."""

    at: datetime
    tokens: int
    threshold: int


@frozen
class Mark:
    """A compaction: when, by whom, from how many tokens to how many; failed: nobody could do it."""

    at: datetime
    by: str
    before: int
    after: int
    failed: bool = False


@frozen
class Bar:
    """One row: its name, and its parts as class, name and value."""

    name: str
    parts: tuple[tuple[str, str, float], ...]

    @property
    def total(self) -> float:
        """All parts together."""
        return sum(value for _, _, value in self.parts)


def amount(value: float) -> str:
    """A figure as people read it: 950, 12.3k, 4.1M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def lines(readings: Sequence[Reading], marks: Sequence[Mark], caption: str) -> str:
    """Context size over time, the threshold as a dashed line, compactions as marks."""
    times = [one.at for one in readings] + [mark.at for mark in marks]
    start, span = min(times), max((max(times) - min(times)).total_seconds(), 1e-6)
    sizes = [size for one in readings for size in (one.tokens, one.threshold)]
    steps = _ticks(max([*sizes, *(mark.before for mark in marks), 1]))
    top = steps[-1]

    def x(at: datetime) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * (at - start).total_seconds() / span, 1)

    def y(tokens: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * tokens / top, 1)

    parts = [_grid(step, y(step)) for step in steps] + _clock(span)
    points = [(x(one.at), y(one.tokens), one) for one in _thinned(readings)]
    course = [(one.at, one.tokens) for _, _, one in points]
    course += [(mark.at, size) for mark in marks if not mark.failed for size in (mark.before, mark.after)]
    course.sort(key=lambda point: point[0])  # stable: a compaction falls from what was before to what is after
    path = " ".join(f"{x(at)},{y(tokens)}" for at, tokens in course)
    parts.append(f'<polyline class="size" points="{path}"/>')
    if len(points) <= 300:
        parts += [
            f'<circle class="reading" cx="{left}" cy="{high}" r="2.4"><title>{one.tokens:,} tokens, {one.at:%H:%M:%S}</title></circle>'
            for left, high, one in points
        ]
    parts += [_mark(x(one.at), y(one.before), y(one.after), one) for one in marks]
    parts += _thresholds([(x(one.at), y(one.threshold), one.threshold) for one in readings if one.threshold])
    return _svg(_HEIGHT, caption, parts)


def bars(rows: Sequence[Bar], unit: str, caption: str) -> str:
    """One bar a row, its parts side by side, the sum at its end."""
    top = max([row.total for row in rows] + [1e-9])
    room = _WIDTH - _NAME - 110
    parts = []
    for number, row in enumerate(rows):
        high, left = _TOP + number * _ROW, float(_NAME)
        parts.append(f'<text class="name" x="{_NAME - 8}" y="{high + 15}">{escape(_short(row.name, 18))}</text>')
        for cls, name, value in row.parts:
            width = room * value / top
            if value > 0:
                told = f"{escape(row.name)}: {value:,.2f}".rstrip("0").rstrip(".") + f" {unit} {escape(name)}"
                parts.append(
                    f'<rect class="{cls}" x="{left:.1f}" y="{high}" width="{max(width, 1):.1f}" height="20"><title>{told}</title></rect>'
                )
            left += width
        parts.append(f'<text class="sum" x="{left + 8:.1f}" y="{high + 15}">{amount(row.total)} {unit}</text>')
    return _svg(_TOP + len(rows) * _ROW + 6, caption, parts)


# -- pieces -----------------------------------------------------------------------------------------------------------


def _svg(height: int, caption: str, parts: Iterable[str]) -> str:
    inside = "\n".join(parts)
    told = escape(caption, quote=True)
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{told}">\n{inside}\n</svg>'


def _ticks(most: float) -> list[float]:
    """Round figures from 0 to just above `most`."""
    rough = most / 4
    size = 10.0 ** floor(log10(rough)) if rough > 0 else 1.0
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough)
    return [step * number for number in range(max(2, ceil(most / step) + 1))]


def _grid(step: float, high: float) -> str:
    return (
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{high}" y2="{high}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{high + 4}">{amount(step)}</text>'
    )


def _clock(span: float) -> list[str]:
    """Four times since the start, in the unit that suits."""
    unit, size = next(((name, size) for name, size in _UNITS if span >= _ENOUGH[name] * size), ("ms", 0.001))
    parts = []
    for quarter in range(5):
        left = _LEFT + (_WIDTH - _LEFT - _RIGHT) * quarter / 4
        anchor = "start" if quarter == 0 else "end" if quarter == 4 else "middle"
        told = amount(round(span * quarter / 4 / size, 1))
        parts.append(f'<text class="time" text-anchor="{anchor}" x="{left}" y="{_HEIGHT - 10}">{told} {unit}</text>')
    return parts


_ENOUGH = {"d": 2, "h": 2, "min": 2, "s": 1}
_UNITS = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0))


def _thinned(readings: Sequence[Reading]) -> list[Reading]:
    """So many that a line can show; of each stretch the fullest one, for that is what matters."""
    if len(readings) <= _POINTS:
        return list(readings)
    size = ceil(len(readings) / _POINTS)
    return [max(readings[at : at + size], key=lambda one: one.tokens) for at in range(0, len(readings), size)]


def _thresholds(points: list[tuple[float, float, int]]) -> list[str]:
    """The threshold as steps: it stays until it changes, and to the end of the page."""
    if not points:
        return []
    path, last = [f"M{_LEFT},{points[0][1]}"], points[0]
    for point in points[1:]:
        if point[2] != last[2]:
            path.append(f"H{point[0]}V{point[1]}")
            last = point
    path.append(f"H{_WIDTH - _RIGHT}")
    label = f'<text class="limit" x="{_WIDTH - _RIGHT}" y="{last[1] - 5}">threshold {last[2]:,}</text>'
    return [f'<path class="threshold" d="{"".join(path)}"><title>threshold {last[2]:,}</title></path>', label]


def _mark(left: float, before: float, after: float, mark: Mark) -> str:
    if mark.failed:
        low = _HEIGHT - _BOTTOM
        return (
            f'<g class="failed"><line x1="{left}" x2="{left}" y1="{_TOP}" y2="{low}"/>'
            f"<title>compaction failed, {mark.at:%H:%M:%S}</title></g>"
        )
    told = f"{escape(mark.by)}: {mark.before:,} to {mark.after:,} tokens, {mark.at:%H:%M:%S}"
    return (
        f'<g class="compaction"><line x1="{left}" x2="{left}" y1="{before}" y2="{after}"/>'
        f'<circle cx="{left}" cy="{before}" r="4"/><path d="M{left - 5},{after - 7}h10l-5,7z"/><title>{told}</title></g>'
    )


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
