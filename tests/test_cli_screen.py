"""The live view: pictures of every size, and the command on a real pseudo-terminal, read back by a terminal emulator."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyte
import pytest
import trio
from rich.cells import cell_len
from rich.console import Console

from bridges.cli.moments import Moment, plain
from bridges.cli.perform import display_for
from bridges.cli.picture import Picture, Summary
from bridges.cli.replay import Settings
from bridges.cli.screen import Screen
from bridges.cli.terminal import clean
from bridges.cli.words import bar, brief, chart, sentence
from engines.facts import Serving, SkillAvailable, Usage
from tests.conftest import CHECKOUT
from tests.replay_driver import Replayed, crasher, jsonl, replayed, rows, session

SETTINGS = Settings(context_length=1000, threshold=300)
RESULT = {
    "messages": 37,
    "results": [{"ask": 1, "by": "keeper", "tokens_before": 1300, "tokens_after": 400, "seconds": 0.0123}],
    "tokens": {"before": 5000, "after": 400, "peak": 1300},
    **dict.fromkeys(("crossings", "compactions", "refused", "failed", "crashes"), 1),
}


@pytest.fixture(scope="module")
def eventful() -> Replayed:
    """A replay in which much happens."""
    swaps = ("c2:shaky=keeper", "20:keeper=", "30:=keeper#b")
    return trio.run(lambda: replayed(rows(9), *swaps, engines=("shaky",), kinds={"shaky": crasher(2)}))


def drawn(picture: object, width: int, height: int, **options: bool) -> list[str]:
    """A renderable as the lines that it prints on a terminal of that size."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii" if options.get("ascii_only") else "utf-8")
    console = Console(
        file=stream, width=width, height=height, force_terminal=True, color_system=None, legacy_windows=False
    )
    with console.capture() as capture:
        console.print(picture)
    return capture.get().splitlines()


# -- pictures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [20, 40, 79, 80, 99, 100, 120, 200])
@pytest.mark.parametrize("height", [5, 8, 12, 13, 16, 24, 50])
def test_a_picture_fits_its_terminal(eventful: Replayed, width: int, height: int) -> None:
    """No line is wider and, but for the gauges, no picture is taller than the terminal has room for."""
    picture = Picture(eventful.story, session(rows(9)), SETTINGS, eventful.moments)
    lines = drawn(picture, width, height)
    assert max(map(cell_len, lines)) <= width
    assert len(lines) <= max(5, height - 1)


@pytest.mark.parametrize("width", [80, 120])
def test_a_picture_shows_what_there_is(eventful: Replayed, width: int) -> None:
    """Progress, pressure, engines with their state, standing facts, and the latest events with their lines."""
    text = "\n".join(drawn(Picture(eventful.story, session(rows(9)), SETTINGS, eventful.moments), width, 40))
    for piece in ("line 37 of 37", "300 tokens", "crossings", "keeper#b", "serving", "shaky", "gone", "facts standing", "Serving", "compressed by keeper#b", "plug keeper#b"):  # fmt: skip
        assert piece in text


def test_an_early_picture_can_be_drawn() -> None:
    """Before anything has happened too."""
    picture = Picture(trio.run(lambda: replayed(rows(1), threshold=10_000)).story, session(rows(1)), SETTINGS, [])
    assert drawn(picture, 80, 24)


def test_rows_can_be_kept_free(eventful: Replayed) -> None:
    """What follows the last picture fits on the screen with it."""
    picture = Picture(eventful.story, session(rows(9)), SETTINGS, eventful.moments, reserve=8)
    assert len(drawn(picture, 80, 24)) <= 24 - 1 - 8


@pytest.mark.parametrize("width", [40, 120])
def test_an_ascii_terminal_gets_ascii(eventful: Replayed, width: int) -> None:
    """Bars, boxes and arrows have plain forms."""
    picture = Picture(eventful.story, session(rows(9)), SETTINGS, eventful.moments)
    assert "".join(drawn(picture, width, 40, ascii_only=True)).isascii()
    assert "".join(drawn(Summary(RESULT, ()), width, 40, ascii_only=True)).isascii()


def test_the_summary_has_a_line_for_each_compaction() -> None:
    """Who did it, from what to what, in how long; the sums; and what else there is to say."""
    lines = drawn(Summary(RESULT, ["Try the other one."]), 120, 40)
    assert "  1. keeper: 1,300 → 400 tokens in 12 ms" == lines[0]
    assert "5,000" in lines[1]
    assert "Try the other one." == lines[2]


# -- bars, charts, words ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "........|."),
        (50, "####....|."),
        (100, "########|."),
        (101, "########|."),
        (125, "########|#"),
        (999, "########|#"),
    ],
)
def test_the_bar_marks_the_threshold(value: int, expected: str) -> None:
    """It is full to the mark at the threshold, and never longer than it is wide."""
    assert expected == bar(value, 100, 10, ascii_only=True)


def test_bars_without_room_or_threshold() -> None:
    """They are empty and no error."""
    assert "" == bar(5, 100, 0)
    assert "░░░┃" == bar(5, 0, 4)


def test_the_chart_follows_the_pressure() -> None:
    """Each column has the highest pressure of its part of the file; gaps go on at the height before."""
    readings = [(1, 0), (2, 50), (5, 100), (9, 20)]
    assert "_" == chart([(1, 1)], 10, 100, 10, ascii_only=True)
    drawn_ = chart(readings, 10, 100, 10, ascii_only=True)
    assert 9 == len(drawn_)
    assert "#" == drawn_[4] == drawn_[5] == drawn_[7]
    assert "█" == chart([(3, 500)], 3, 100, 3)[-1]
    assert "" == chart([], 0, 0, 10)


def test_what_would_move_the_cursor_is_taken_out() -> None:
    """A reason may hold anything."""
    assert "a [31mb c" == clean("a\x1b[31mb\r\nc")
    assert "e failed: a [2Jb" == sentence(Moment("erred", 1, (("engine", "e"), ("reason", "a\x1b[2Jb"))))


def test_every_moment_has_words_and_a_plain_line(eventful: Replayed) -> None:
    """Whatever happens in a replay can be told in both forms."""
    assert {"crossing", "asked", "answered", "compressed", "crashed", "swap", "serving", "left", "failed"} <= {
        moment.event for moment in eventful.moments
    }
    for moment in eventful.moments:
        assert sentence(moment)
        assert plain(moment).startswith(f"{moment.event} line={moment.line} ")


@pytest.mark.parametrize(
    ("moment", "words", "line"),
    [
        (Moment("withdrawn", 3, (("ask", 2),)), "question 2 withdrawn: the pressure fell", "withdrawn line=3 ask=2"),
        (Moment("declined", 3, (("engine", "e"),)), "e declined", "declined line=3 engine=e"),
        (Moment("refused", 3, (("by", "e"), ("reason", "no"))), "refused e: no", "refused line=3 by=e reason=no"),
        (Moment("blocked", 3, (("reason", "not now"),)), "held back: not now", 'blocked line=3 reason="not now"'),
        (Moment("swap", 3, (("old", "a"), ("new", None))), "unplug a", "swap line=3 old=a"),
        (Moment("swap", 3, (("old", "a"), ("new", "b"), ("note", "!"))), "swap: a → b (!)", 'swap line=3 old=a new=b note="!"'),
        (Moment("gave-up", 3, (("engine", "e"), ("crashes", 5))), "e given up after 5 crashes", "gave-up line=3 engine=e crashes=5"),
        (Moment("compressed", 3, (("by", "e"), ("before", 9), ("after", 5), ("seconds", 0.5))), "compressed by e: 9 → 5", "compressed line=3 by=e before=9 after=5 seconds=0.500"),
    ],
)  # fmt: skip
def test_moments_in_words_and_as_lines(moment: Moment, words: str, line: str) -> None:
    """The forms that the reference documents."""
    assert words == sentence(moment)
    assert line == plain(moment)


def test_any_fact_has_a_brief_form() -> None:
    """Those without words of their own are shown by name."""
    assert ("Serving", "e, compressor") == brief(Serving("e", "compressor"))
    assert ("Usage", "#2") == brief(Usage("s", 2))
    assert ("SkillAvailable", "") == brief(SkillAvailable("s", "n", "0"))


# -- which display ----------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "err", "term", "as_json", "expected"),
    [
        (Terminal, io.StringIO, "xterm", False, "Screen"),
        (Terminal, io.StringIO, "dumb", False, "Lines"),
        (Terminal, io.StringIO, "", False, "Lines"),
        (io.StringIO, Terminal, "xterm", False, "Lines"),
        (io.StringIO, Terminal, "xterm", True, "Screen"),
        (Terminal, io.StringIO, "xterm", True, "Silence"),
        (Terminal, Terminal, "dumb", True, "Silence"),
    ],
)
def test_the_display_suits_the_stream(
    monkeypatch: pytest.MonkeyPatch,
    out: Callable[[], io.StringIO],
    err: Callable[[], io.StringIO],
    term: str,
    as_json: bool,
    expected: str,
) -> None:
    """A live view on a terminal that can move its cursor, lines elsewhere; with --json stdout is left alone."""
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("FORCE_COLOR", "1")  # says something about colours, nothing about cursors
    monkeypatch.setattr(sys, "stdout", out())
    monkeypatch.setattr(sys, "stderr", err())
    assert expected == type(display_for(as_json)).__name__


def test_a_screen_is_closed_once(eventful: Replayed) -> None:
    """Whatever happened to it before, also nothing; and it draws only what is new."""
    stream = Terminal()
    screen = Screen(stream)
    screen.close()
    screen.begin(eventful.story, session(rows(9)), SETTINGS)
    screen.show(tuple(eventful.moments))
    screen.refresh()
    size = len(stream.getvalue())
    screen.refresh()
    assert size == len(stream.getvalue())
    screen.end(RESULT, ())
    screen.close()
    assert stream.getvalue().rstrip().replace("\n", " ").endswith("\x1b[1mmost.\x1b[0m")


class Gone(Terminal):
    """A terminal that was closed."""

    closed_now = False

    def write(self, text: str) -> int:
        if self.closed_now:
            raise OSError(5, "Input/output error")
        return super().write(text)


def test_a_terminal_that_is_gone_is_left_without_complaint(eventful: Replayed) -> None:
    """After a SIGHUP there is nothing to put in order."""
    stream = Gone()
    screen = Screen(stream)
    screen.begin(eventful.story, session(rows(9)), SETTINGS)
    stream.closed_now = True
    screen.close()
    screen.close()


# -- a pseudo-terminal ------------------------------------------------------------------------------------------------


class Pane:
    """The command on a terminal of its own."""

    def __init__(self, child: subprocess.Popen[bytes], master: int, columns: int, rows: int) -> None:
        self.child = child
        self._master = master
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""

    @property
    def text(self) -> str:
        """What is on the screen now."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def cursor_hidden(self) -> bool:
        return bool(self._screen.cursor.hidden)

    def read(self) -> bool:
        """Wait for something new on the screen; False at the end."""
        ready, _, _ = select.select([self._master], [], [], 30)
        assert ready, f"nothing for 30 s:\n{self.text}"
        try:
            data = os.read(self._master, 65536)
        except OSError:  # how Linux says that the other side is closed
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)

    def until(self, *pieces: str) -> str:
        """Read until all of these are on the screen together."""
        while not all(piece in self.text for piece in pieces):
            assert self.read(), f"ended without {pieces}:\n{self.text}"
        return self.text

    def finish(self) -> str:
        """Read to the end; what then stands on the screen."""
        while self.read():
            pass
        self.child.wait(30)
        return self.text


@contextmanager
def pane(*args: str, columns: int = 80, height: int = 24, **env: str) -> Iterator[Pane]:
    """Run the command on a pseudo-terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, columns, 0, 0))
    hidden = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM"}
    clean_env = {key: value for key, value in os.environ.items() if key not in hidden}
    command = [sys.executable, "-m", "bridges.cli", *args]
    child = subprocess.Popen(
        command,
        cwd=CHECKOUT,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**clean_env, "TERM": "xterm-256color", **env},
    )
    os.close(slave)
    try:
        yield Pane(child, master, columns, height)
    finally:
        child.kill()
        child.wait()
        os.close(master)


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "height"), [(80, 24), (120, 40)])
def test_the_demo_on_a_terminal(columns: int, height: int) -> None:
    """While it runs all panels are there and the swap is seen; at the end the summary stays, the cursor is back."""
    with pane("demo", "--pace", "0.002", columns=columns, height=height) as on:
        on.until("engines", "facts standing", "what happened", "compressor#b serves", "swap: compressor → compressor#b")
        assert on.cursor_hidden
        last = on.finish()
        assert 0 == on.child.returncode
        assert not on.cursor_hidden
    assert "line 213 of 213" in last or columns == 80
    assert "at most." in last.replace("\n", " ")
    assert "What to try next" in last
    assert "2. compressor#b: " in last
    assert "Traceback" not in last


@pytest.mark.slow
def test_without_colour_the_view_is_the_same() -> None:
    """NO_COLOR takes the colours and leaves the words, bars and marks."""
    with pane("demo", "--pace", "0.002", NO_COLOR="1") as on:
        on.until("┃", "█", "compressed by compressor")
        on.finish()
    assert b"\x1b[3" not in on.raw.replace(b"\x1b[39m", b"")


@pytest.mark.slow
def test_a_dumb_terminal_gets_lines() -> None:
    """Nothing moves the cursor there, and nothing pauses."""
    with pane("demo", "--pace", "60", TERM="dumb", height=60) as on:
        last = on.finish()
    assert b"\x1b" not in on.raw
    assert "end line=213" in last


@pytest.mark.slow
def test_json_on_a_terminal_comes_last(tmp_path: Path) -> None:
    """The view is on stderr; what is written last is the object."""
    recording = tmp_path / "recording.jsonl"
    recording.write_bytes(jsonl(rows(9)))
    with pane("replay", str(recording), "--threshold", "300", "--json", columns=1000) as on:
        last = on.finish()
    assert last.splitlines()[-1].startswith('{"sessions": 1,')
    assert "at most." in last


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_leaves_the_terminal_in_order(number: signal.Signals) -> None:
    """Whatever signal ends it, the exit code names it, there is no traceback, and the cursor is shown again."""
    with pane("demo", "--pace", "0.5") as on:
        on.until("compressor serves")
        on.child.send_signal(number)
        last = on.finish()
        assert 128 + number == on.child.returncode
        assert not on.cursor_hidden
    assert "Traceback" not in last
    assert "at most." not in last
