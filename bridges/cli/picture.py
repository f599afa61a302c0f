"""The picture of a replay on a terminal: a story in, something rich can print out.

At 100 columns and more the events stand beside facts and engines, below that under them.  Nothing depends on colour
alone, and the picture never takes more rows than it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from rich.box import ASCII, ROUNDED
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from .moments import Moment
from .replay import Settings
from .session import Session
from .story import Story
from .terminal import clean
from .words import bar, brief, chart, counted, sentence

__all__ = ["Picture", "Summary"]

_WIDE = 100
_ROWS = 24  # of facts, engines and events together, however tall the terminal
_FACT_ROWS, _LEAST_EVENTS, _LEAST_GAUGE = 9, 3, 10
_STYLES = {
    "crossing": "bold yellow",
    "compressed": "bold green",
    "swap": "bold magenta",
    "refused": "red",
    "failed": "bold red",
    "crashed": "bold red",
    "gave-up": "bold red",
    "erred": "red",
    "blocked": "yellow",
    "asked": "cyan",
    "answered": "cyan",
}
_DOING = {"working": "bold cyan", "serving": "green", "gone": "dim", "crashed": "bold red", "given up": "bold red"}


@frozen
class Picture:
    """What is to be seen now; `reserve` rows of the terminal are left for what follows."""

    story: Story
    session: Session
    settings: Settings
    moments: Sequence[Moment]
    reserve: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.max_width, options.size.height - 1
        ascii_only = options.ascii_only
        yield self._gauges(width, ascii_only)
        rows = max(min(height - 6 - self.reserve, _ROWS), 0)
        if rows < 2 * _LEAST_EVENTS:
            return
        if width >= _WIDE:
            yield self._side_by_side(width, rows, ascii_only)
        else:
            yield from self._stacked(width, rows, ascii_only)

    # -- the top ------------------------------------------------------------------------------------------------------

    def _gauges(self, width: int, ascii_only: bool) -> Panel:
        story, threshold = self.story, self.settings.threshold
        line, length = story.position.line, self.session.length
        share = 100 * story.pressure // threshold
        tokens = f"{story.pressure:,} of {threshold:,} tokens ({share} %)"
        file = f"line {line:,} of {length:,}"
        done = f"{counted(story.count('crossing'), 'crossing')}, {counted(len(story.compactions), 'compaction')}"
        right = max(len(tokens), len(file), len(done))
        room = width - 4 - 10 - 1 - right
        filled = max(room, 0) * line // max(length, 1)
        read = ("#" if ascii_only else "━") * filled + ("." if ascii_only else "╌") * (room - filled)
        pressure = bar(story.pressure, threshold, room, ascii_only=ascii_only)
        drawn = chart(story.readings, length, threshold, room, ascii_only=ascii_only)
        style = "bold red" if share >= 100 else "yellow" if share >= 80 else "green"
        lines = [
            _gauge("file", read, "blue", file, room, right),
            _gauge("context", pressure, style, tokens, room, right),
            _gauge("so far", drawn, "cyan", done, room, right),
        ]
        return _panel(_column(lines, width - 4, 3, ascii_only), clean(self.session.name), ascii_only)

    # -- the panels ---------------------------------------------------------------------------------------------------

    def _side_by_side(self, width: int, rows: int, ascii_only: bool) -> Table:
        left = width * 2 // 5
        engine_rows = self._engine_rows(rows)
        fact_rows = rows - engine_rows - 4
        table = Table.grid()
        table.add_column(width=left)
        table.add_column(width=width - left)
        column = Group(self._engines(left - 4, engine_rows, ascii_only), self._facts(left - 4, fact_rows, ascii_only))
        table.add_row(column, self._events(width - left - 4, rows - 2, ascii_only))
        return table

    def _stacked(self, width: int, rows: int, ascii_only: bool) -> RenderResult:
        inner = max(self._engine_rows(rows), min(_FACT_ROWS, len(self._standing())))
        inner = max(1, min(inner, rows - 4 - _LEAST_EVENTS))
        left = width // 2
        table = Table.grid()
        table.add_column(width=left)
        table.add_column(width=width - left)
        table.add_row(self._engines(left - 4, inner, ascii_only), self._facts(width - left - 4, inner, ascii_only))
        yield table
        yield self._events(width - 4, rows - inner - 4, ascii_only)

    def _engine_rows(self, rows: int) -> int:
        return max(1, min(len(self.story.engines), rows // 3))

    def _engines(self, width: int, rows: int, ascii_only: bool) -> Panel:
        lines = []
        for name, engine in list(self.story.engines.items())[-rows:]:
            line = Text(f"{clean(name)}  ", style="bold")
            line.append(engine.doing, style=_DOING.get(engine.doing, ""))
            if engine.compactions:
                line.append(f"  {engine.compactions} done", style="dim")
            lines.append(line)
        return _panel(_column(lines, width, rows, ascii_only), "engines", ascii_only)

    def _standing(self) -> list[Any]:
        return list(self.story.facts)

    def _facts(self, width: int, rows: int, ascii_only: bool) -> Panel:
        standing = self._standing()
        lines = []
        for fact in standing[-rows:]:
            name, told = brief(fact)
            line = Text(name, style="bold")
            line.append(f" {told}", style="not bold")
            lines.append(line)
        return _panel(_column(lines, width, rows, ascii_only), f"facts standing ({len(standing)})", ascii_only)

    def _events(self, width: int, rows: int, ascii_only: bool) -> Panel:
        lines = []
        for moment in self.moments[-rows:]:
            line = Text(f"{moment.line:>6}  ", style="dim")
            text = sentence(moment)
            line.append(text.replace("→", "->") if ascii_only else text, style=_STYLES.get(moment.event, "not dim"))
            lines.append(line)
        return _panel(_column(lines, width, rows, ascii_only), "line  what happened", ascii_only)


@frozen
class Summary:
    """What stays on the screen at the end, below the last picture."""

    result: Mapping[str, Any]
    closing: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        arrow = "->" if options.ascii_only else "→"
        tokens = self.result["tokens"]
        for done in self.result["results"]:
            yield Text(
                f"{done['ask']:>3}. {clean(done['by'])}: {done['tokens_before']:,} {arrow} {done['tokens_after']:,} tokens"
                f" in {done['seconds'] * 1000:,.0f} ms"
            )
        yield Text(
            f"The whole session holds {tokens['before']:,} tokens; {tokens['after']:,} are in context at the end,"
            f" {tokens['peak']:,} at most.",
            style="bold",
        )
        for sentence_ in self.closing:
            yield Text(clean(sentence_))


def _gauge(name: str, drawn: str, style: str, told: str, room: int, right: int) -> Text:
    """One line of gauges; where there is no room for a drawing worth looking at, words only."""
    line = Text(f"{name:<10}")
    if room >= _LEAST_GAUGE:
        line.append(f"{drawn:<{room}} ", style=style)
        line.append(told.rjust(right))
    else:
        line.append(told)
    return line


def _column(lines: list[Text], width: int, rows: int, ascii_only: bool) -> Text:
    """Lines of a panel, each on one row, filled up so that the panel keeps its size."""
    shown = lines[:rows]
    for line in shown:
        line.truncate(max(width, 1), overflow="crop" if ascii_only else "ellipsis")
    shown += [Text() for _ in range(rows - len(shown))]
    return Text("\n").join(shown)


def _panel(content: Any, title: str, ascii_only: bool) -> Panel:
    # As a `Text`, for of a plain string rich would read the square brackets as markup.
    return Panel(
        content, title=Text(title), title_align="left", box=ASCII if ascii_only else ROUNDED, border_style="dim"
    )
