"""The report: one HTML page that needs nothing beside itself, no script and no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from importlib.resources import files

from attrs import define, field

from engines.telemetry.history import Account, Past, accounts, figures, session_of
from engines.telemetry.lessons import Lesson, lessons

from .telemetry_charts import Bar, Mark, Reading, amount, bars, lines

__all__ = ["page"]

_CHARTS = 12  # sessions that are drawn, the latest
_LESSONS = 8


@define
class _Course:
    """What is drawn of a session."""

    profile: str
    session: str
    readings: list[Reading] = field(factory=list)
    marks: list[Mark] = field(factory=list)


def page(entries: Sequence[Past], *, bad: int = 0, made: datetime) -> str:
    """The whole page for some entries; `bad` counts lines that were none."""
    told = accounts(entries)
    style = files("bridges.cli").joinpath("telemetry_report.css").read_text(encoding="utf-8")
    parts = [_head(entries, bad, made), _table(told)]
    if told:
        parts += _profiles(told)
    parts += _courses(entries)
    parts += _lessons(lessons(entries, per_profile=True)[:_LESSONS])
    body = (
        "\n".join(parts).encode("utf-8", "backslashreplace").decode("utf-8")
    )  # halves of letters, as JSON can hold them
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Telemetry</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{style}</style></head>\n<body><main>\n{body}\n</main></body></html>\n"
    )


def _head(entries: Sequence[Past], bad: int, made: datetime) -> str:
    if not entries:
        return "<h1>Telemetry</h1><p>The log holds no entries yet.</p>"
    lines_ = f"{len(entries):,} entries, {entries[0].at:%Y-%m-%d %H:%M} to {entries[-1].at:%Y-%m-%d %H:%M} UTC"
    unread = f"; {bad:,} lines could not be read" if bad else ""
    return f"<h1>Telemetry</h1><p>{lines_}{unread}. Made {made:%Y-%m-%d %H:%M} UTC.</p>"


_COLUMNS = (
    ("sessions", "sessions"),
    ("turns", "turns"),
    ("prompt", "tokens in"),
    ("completion", "tokens out"),
    ("compactions", "compactions"),
    ("saved", "tokens saved"),
    ("waited", "waited, s"),
    ("skills_loaded", "skills loaded"),
    ("deduplicated", "dedupl."),
    ("pruned", "pruned"),
    ("failures", "failures"),
)


def _table(told: Sequence[Account]) -> str:
    if not told:
        return ""
    head = "".join(f"<th>{escape(title)}</th>" for _, title in _COLUMNS)
    rows = []
    for account in told:
        values = account.told()
        cells = "".join(f'<td title="{values[name]:,}">{amount(values[name])}</td>' for name, _ in _COLUMNS)
        rows.append(f"<tr><th>{escape(account.profile)}</th>{cells}</tr>")
    return f'<div class="wide"><table><thead><tr><th>profile</th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _profiles(told: Sequence[Account]) -> list[str]:
    tokens = [Bar(one.profile, _tokens(one)) for one in told]
    lost = [
        Bar(
            one.profile,
            (
                ("wait", "waiting for compactions", one.sums.waited),
                ("fail", "in tool calls that failed", one.sums.tool_lost),
            ),
        )
        for one in told
    ]
    return [
        "<h2>Tokens per profile</h2>",
        _legend(("fresh", "input, not cached"), ("cached", "input, from the cache"), ("out", "output")),
        bars(tokens, "", "Tokens per profile"),
        "<h2>Time lost per profile</h2>",
        _legend(("wait", "waiting for compactions"), ("fail", "in tool calls that failed")),
        bars(lost, "s", "Time lost per profile"),
    ]


def _tokens(account: Account) -> tuple[tuple[str, str, float], ...]:
    cached = min(account.sums.cache_read, account.sums.prompt)
    fresh = account.sums.prompt - cached
    return (
        ("fresh", "tokens of input, not cached", fresh),
        ("cached", "tokens of input, from the cache", cached),
        ("out", "tokens of output", account.sums.completion),
    )


def _legend(*entries: tuple[str, str]) -> str:
    return '<p class="legend">' + "".join(f'<span class="{cls}"></span>{name}' for cls, name in entries) + "</p>"


def _courses(entries: Sequence[Past]) -> list[str]:
    found: dict[tuple[str, str, str], _Course] = {}
    done: list[_Course] = []
    for past in entries:
        key = session_of(past)
        if past.kind == "session":
            done += [found.pop(key)] if key in found else []
        elif past.session:
            _draw(found.setdefault(key, _Course(past.profile, past.session)), past)
    courses = [course for course in [*done, *found.values()] if course.readings]
    courses.sort(key=lambda course: course.readings[-1].at)
    parts = ["<h2>Context size over time</h2>"] if courses else []
    if len(courses) > _CHARTS:
        parts.append(f"<p>The latest {_CHARTS} of {len(courses)} sessions.</p>")
    if courses:
        legend = (("size", "tokens in the prompt"), ("threshold", "threshold"), ("compaction", "compaction"))
        parts.append(_legend(*legend, ("failed", "compaction failed")))
    for course in courses[-_CHARTS:]:
        title = f"{course.session} ({course.profile})"
        parts += [f"<h3>{escape(title)}</h3>", lines(course.readings, course.marks, f"Context size of {title}")]
    return parts


def _draw(course: _Course, past: Past) -> None:
    told = {name: value for name, value in figures(past.entry).items() if type(value) is int}
    if past.kind == "usage" and "prompt" in told:
        course.readings.append(Reading(past.at, told["prompt"], told.get("threshold", 0)))
    elif past.kind == "compaction":
        by = str(figures(past.entry).get("by", ""))
        course.marks.append(Mark(past.at, by, told.get("before", 0), told.get("after", 0)))
    elif past.kind == "compaction-failed":
        course.marks.append(Mark(past.at, "", 0, 0, failed=True))


def _lessons(found: Iterable[Lesson]) -> list[str]:
    rows = [
        f"<tr><td>{escape(', '.join(one.profiles))}</td><td>{one.count}</td><td>{one.failures}</td><td>{escape(one.claim[:200])}</td></tr>"
        for one in found
    ]
    if not rows:
        return []
    head = "<tr><th>profile</th><th>times</th><th>failed</th><th>what</th></tr>"
    return [
        "<h2>What came again and again</h2>",
        f'<div class="wide"><table class="lessons"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>',
    ]
