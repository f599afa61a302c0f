"""SIGTERM and SIGHUP end the command as Ctrl-C does: quietly, with outputs untouched and nothing left lying about."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from bridges.cli import main, setting
from bridges.cli.signals import ENDING, Stopped, interrupted_by, on_ending, stop
from dataspace import Facet
from engines.facts import Serving
from tests.conftest import CHECKOUT
from tests.replay_driver import KINDS, jsonl, rows

LIMITS = ["--context-length", "1000", "--threshold", "300"]
CODES = {signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Signals are as a process finds them at its start, and as they were afterwards."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in ENDING}
    yield
    left = {number: signal.signal(number, old) for number, old in before.items()}
    assert set(left.values()) <= {signal.SIG_DFL, signal.SIG_IGN}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A session file beside an output from before."""
    (tmp_path / "out.jsonl").write_text("kept")
    path = tmp_path / "recording.jsonl"
    path.write_bytes(jsonl(rows(9)))
    return path


def untouched(directory: Path) -> bool:
    """Whether the output is what it was and nothing has come to lie beside it."""
    files = {path.name for path in directory.iterdir()}
    return files == {"out.jsonl", "recording.jsonl"} and (directory / "out.jsonl").read_text() == "kept"


def sender(number: int) -> Callable[[Facet], None]:
    """An engine in the midst of whose work a signal comes."""

    def boot(me: Facet) -> None:
        me.publish(Serving("sender", "compressor"))
        signal.raise_signal(number)

    return boot


@pytest.mark.parametrize("number", CODES)
def test_a_signal_in_the_midst_of_a_replay_ends_it(
    recording: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    """128 and the number of the signal, no word, outputs untouched."""
    monkeypatch.setattr(setting, "KINDS", {"sender": lambda: sender(number)})
    out = tmp_path / "out.jsonl"
    assert CODES[number] == main(["replay", str(recording), *LIMITS, "--engine", "sender", "--out", str(out)])
    assert "" == capsys.readouterr().err
    assert untouched(tmp_path)


@pytest.mark.parametrize("number", CODES)
def test_a_signal_while_the_output_is_written_leaves_nothing_behind(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """Neither half a file nor a fresh one under a name of its own."""
    monkeypatch.setattr(setting, "KINDS", KINDS)
    monkeypatch.setattr(os, "fsync", lambda _file: signal.raise_signal(number))
    out = tmp_path / "out.jsonl"
    assert CODES[number] == main(["replay", str(recording), *LIMITS, "--engine", "keeper", "--out", str(out)])
    assert untouched(tmp_path)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_inside_trio_itself_is_no_bug_of_ours(
    recording: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    """Where it comes before we listen in trio, trio speaks of an internal error; it is a signal all the same."""

    def broken(*_args: object, **_options: object) -> None:
        try:
            signal.raise_signal(number)
        except Stopped as stopped:
            raise trio.TrioInternalError from stopped

    monkeypatch.setattr(trio, "run", broken)
    assert CODES[number] == main(["replay", str(recording)])
    assert "" == capsys.readouterr().err


def test_the_second_signal_is_left_to_the_system() -> None:
    """Whoever asks twice is not kept waiting by an engine that does not listen; the handlers of a caller return."""
    numbers: list[int] = []
    with on_ending(stop):
        with on_ending(numbers.append):
            signal.raise_signal(signal.SIGTERM)
            assert {signal.SIG_DFL} == {signal.getsignal(number) for number in ENDING}
        assert {signal.SIG_DFL} == {signal.getsignal(number) for number in ENDING}
    assert [signal.SIGTERM] == numbers


def test_signals_that_are_not_ours_are_left_alone() -> None:
    """Those that are ignored, as under nohup; those that the program handles; all of them in another thread."""
    numbers: list[object] = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _frame: numbers.append(number))
    before = [signal.getsignal(number) for number in ENDING]
    with on_ending(stop):
        assert before == [signal.getsignal(number) for number in ENDING]
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
    assert [signal.SIGTERM] == numbers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def elsewhere() -> None:
        with on_ending(stop):
            numbers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert signal.SIG_DFL == numbers[-1]


def test_what_a_signal_did_is_found_wherever_it_is() -> None:
    """In groups within groups and as a cause; an error that has none of it stays an error."""
    wrapped = ZeroDivisionError()
    wrapped.__cause__ = Stopped(signal.SIGHUP)
    assert signal.SIGHUP == interrupted_by(BaseExceptionGroup("", [ValueError(), ExceptionGroup("", [wrapped])]))
    assert signal.SIGINT == interrupted_by(BaseExceptionGroup("", [KeyboardInterrupt()]))
    assert None is interrupted_by(ExceptionGroup("", [ValueError()]))


@pytest.mark.slow
@pytest.mark.parametrize("number", CODES)
def test_a_process_that_waits_is_ended_by_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    """While it waits for its session too; no traceback."""
    command = [sys.executable, "-m", "bridges.cli", "replay", str(tmp_path / "pipe")]
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        with (tmp_path / "pipe").open("wb"):  # opens when the child does
            child.send_signal(number)
            _, err = child.communicate(timeout=60)
        assert CODES[number] == child.returncode
    assert b"" == err.strip()
