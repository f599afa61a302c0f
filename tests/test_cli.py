"""The command as its users meet it: exit codes, streams, files."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from bridges.cli import app, main, setting
from bridges.cli.errors import BadInput, RunFailed
from bridges.cli.output import check_target, write_whole
from bridges.cli.words import _SENTENCES
from engines import recall
from engines.messages import Messages
from engines.transcript import check
from tests.conftest import CHECKOUT
from tests.replay_driver import KINDS, crasher, jsonl, rows

KEYS = {
    "sessions", "messages", "responses", "crossings", "compactions", "refused", "failed", "tokens", "results", "skills",
    "engines", "crashes",
}  # fmt: skip
LIMITS = ["--context-length", "1000", "--threshold", "300"]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command here, with the engines of the tests beside the real one."""
    monkeypatch.setattr(setting, "KINDS", {**setting.KINDS, **KINDS})

    def call(*args: Any) -> tuple[int, str, str]:
        code = main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A session file that crosses a threshold of 300 tokens several times."""
    path = tmp_path / "recording.jsonl"
    path.write_bytes(jsonl(rows(9)))
    return path


def process(*args: Any, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own."""
    command = [sys.executable, "-m", "bridges.cli", *map(str, args)]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False, **more)


# -- a run that goes well ---------------------------------------------------------------------------------------------


def test_a_pipe_gets_one_line_for_each_event(run: Run, recording: Path) -> None:
    """The first word of each line is the event; the last line has the sums; nothing goes to stderr."""
    code, out, err = run("replay", recording, *LIMITS, "--engine", "keeper")
    words = [line.split()[0] for line in out.splitlines()]
    assert (0, "") == (code, err)
    assert ["start", "serving", "crossing", "asked", "answered", "compressed"] == words[:6]
    assert "end" == words[-1]
    assert "left" not in words  # that the engines go home with the dataspace is no news
    assert out.isascii()


def test_json_is_all_there_is_on_stdout(run: Run, recording: Path) -> None:
    """One object on one line, with exactly the documented keys."""
    code, out, err = run("replay", recording, *LIMITS, "--engine", "keeper", "--json")
    result = json.loads(out)
    assert (0, "", 1) == (code, err, out.count("\n"))
    assert set(result) == KEYS
    assert {"before", "after", "peak"} == set(result["tokens"])
    assert {"loaded": 0, "deduplicated": 0, "pruned": 0, "available": 0} == result["skills"]
    assert all({"ask", "by", "tokens_before", "tokens_after", "seconds"} == set(one) for one in result["results"])
    assert (1, 37, 18, ["keeper"]) == tuple(result[key] for key in ("sessions", "messages", "responses", "engines"))
    assert result["crossings"] == result["compactions"] == len(result["results"]) >= 3


def test_out_holds_the_final_list(run: Run, recording: Path, tmp_path: Path) -> None:
    """A session file again: valid, readable by the command, with the newest rows unchanged."""
    out = tmp_path / "out.jsonl"
    assert 0 == run("replay", recording, *LIMITS, "--engine", "keeper", "--out", out)[0]
    written = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert check(written).ok
    assert rows(9)[-3:] == written[-3:]
    assert len(written) < len(rows(9))
    assert 0 == run("replay", out)[0]


def test_help_version_and_nothing(run: Run) -> None:
    """Help is shown where it is asked for, and where nothing is."""
    for args in ([], ["--help"], ["-h"]):
        code, out, _ = run(*args)
        assert (0, True) == (code, "replay" in out and "demo" in out)
    assert (0, True) == ((shown := run("--version"))[0], shown[1].startswith("hermes-dataspace"))


@pytest.mark.slow
def test_the_demo_crosses_and_swaps(run: Run) -> None:
    """The recording that ships with the package: at least two crossings, both instances at work, what to try next."""
    code, out, err = run("demo")
    lines = out.splitlines()
    assert (0, "") == (code, err)
    compressed = [line for line in lines if line.startswith("compressed ")]
    assert len(compressed) >= 2
    assert "by=compressor " in compressed[0]
    assert all("by=compressor#b " in line for line in compressed[1:])
    assert [line for line in lines if line.startswith("swap ")] == [next(x for x in lines if "at=c2" in x)]
    assert "replay SESSION.jsonl" in lines[-1]


@pytest.mark.slow
def test_the_demo_can_be_varied(run: Run) -> None:
    """What it tells to try next works: nobody answers for a while, then somebody does."""
    code, out, _ = run("demo", "--swap", "c2:compressor=", "--swap", "150:=compressor#b")
    assert 0 == code
    assert "failed line=" in out
    assert "took over" not in out


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--threshold", "40000", "--context-length", "32000"], "--threshold 40000 is above --context-length 32000"),
        (["--threshold", "0"], "--threshold"),
        (["--threshold", "many"], "--threshold"),
        (["--engine", "nope"], "--engine: there is no engine 'nope'; there are: compressor"),
        (["--engine", "compressor", "--engine", "compressor"], "--engine: compressor is given twice"),
        (["--swap", "c2:compressor=nope"], "there is no engine 'nope'; there are: compressor"),
        (["--swap", "c2"], "--swap 'c2' cannot be read"),
        (["--swap", "38:compressor=compressor#b"], "the file has 37 lines"),
        (["--swap", "c1:compressor#z="], "compressor#z is never plugged"),
        (["--pace", "-1"], "--pace"),
        (["--nope"], "--nope"),
        (["another.jsonl"], "another.jsonl"),
        (["--out", "missing/out.jsonl"], "/missing; make it first"),
        (["--out", "."], "is a directory"),
    ],
)
def test_options_that_cannot_be_meant(
    run: Run, recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], problem: str
) -> None:
    """One line on stderr that names the option and says what to do, exit 2, nothing on stdout, nothing written."""
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out.jsonl"
    out.write_text("kept")
    code, said, err = run("replay", recording, "--out", out, *args)
    assert (2, "", 1) == (code, said, err.count("\n"))
    assert err.startswith("hermes-dataspace: ")
    assert problem in err
    assert "kept" == out.read_text()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"role": "user", "content": "a"}\n{"role": \n', "bad.jsonl, line 2: is not JSON"),
        (b'{"content": "a"}\n', "bad.jsonl, line 1: has no role"),
        (b'{"role": "tool", "tool_call_id": "c", "content": ""}\n', "bad.jsonl, line 1: is a tool result"),
        (b'{"role": "user", "content": "\xff"}\n', "bad.jsonl, line 1: byte 30 of the line is not UTF-8"),
        (b"", "bad.jsonl: the file is empty"),
        (None, "bad.jsonl: there is no such file"),
    ],
)
def test_session_files_that_cannot_be_replayed(run: Run, tmp_path: Path, data: bytes | None, problem: str) -> None:
    """One line that names file and line, exit 2, outputs untouched."""
    bad, out = tmp_path / "bad.jsonl", tmp_path / "out.jsonl"
    if data is not None:
        bad.write_bytes(data)
    out.write_text("kept")
    for extra in ([], ["--json"]):
        code, said, err = run("replay", bad, "--out", out, *extra)
        assert (2, "", 1) == (code, said, err.count("\n"))
        assert problem in err
    assert "kept" == out.read_text()
    assert {"bad.jsonl", "out.jsonl"} >= {path.name for path in tmp_path.iterdir()}


def test_the_input_is_never_written_to(run: Run, recording: Path, tmp_path: Path) -> None:
    """Not under its own name, nor through a link of either kind."""
    before = recording.read_bytes()
    (tmp_path / "soft.jsonl").symlink_to(recording)
    (tmp_path / "hard.jsonl").hardlink_to(recording)
    for name in ("recording.jsonl", "soft.jsonl", "hard.jsonl"):
        code, _, err = run("replay", recording, "--out", tmp_path / name)
        assert (2, True) == (code, "is the session file itself" in err)
    assert before == recording.read_bytes()


# -- runs that fail ---------------------------------------------------------------------------------------------------


def test_a_crossing_that_stands_fails_the_run(run: Run, recording: Path, tmp_path: Path) -> None:
    """Exit 1, the reason on stderr, the result all the same, and the output as it was."""
    out = tmp_path / "out.jsonl"
    out.write_text("kept")
    code, said, err = run(
        "replay", recording, *LIMITS, "--engine", "keeper", "--swap", "c2:keeper=", "--json", "--out", out
    )
    assert (1, 1) == (code, err.count("\n"))
    assert "crossing 2 stands unanswered: no compressor is serving; plug another engine" in err
    assert (2, 1, 1) == tuple(json.loads(said)[key] for key in ("crossings", "compactions", "failed"))
    assert "kept" == out.read_text()


def test_a_question_that_is_answered_late_is_no_failure(run: Run, recording: Path) -> None:
    """Plugged again, an engine answers what stands: exit 0, and the failure in between is counted."""
    swaps = ["--swap", "c2:keeper=", "--swap", "30:=keeper#b"]
    code, out, err = run("replay", recording, *LIMITS, "--engine", "keeper", *swaps, "--json")
    result = json.loads(out)
    assert (0, "", 1) == (code, err, result["failed"])
    assert {"keeper", "keeper#b"} == {one["by"] for one in result["results"]}


def test_an_engine_that_does_not_come_up(run: Run, recording: Path) -> None:
    """At the start it ends the run; in a swap the run goes on and fails in the end."""
    code, out, err = run("replay", recording, *LIMITS, "--engine", "stillborn", "--json")
    assert (1, "") == (code, out)
    assert "engine stillborn did not come to serve" in err
    code, out, err = run("replay", recording, *LIMITS, "--engine", "keeper", "--swap", "c1:keeper=stillborn", "--json")
    assert (1, 0) == (code, json.loads(out)["failed"])
    assert "--swap c1:keeper=stillborn: engine stillborn did not come to serve" in err


def test_a_crash_is_told_on_stderr(run: Run, recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the reason, although the run went well and its events are not shown."""
    monkeypatch.setattr(setting, "KINDS", {"shaky": crasher(2)})
    code, out, err = run("replay", recording, *LIMITS, "--engine", "shaky", "--json")
    assert (0, 2) == (code, json.loads(out)["crashes"])
    assert "hermes-dataspace: engine shaky crashed: RuntimeError: it fell\n" == err


def test_a_swap_that_was_never_due_is_remarked(run: Run, recording: Path) -> None:
    """The run went well; that something asked for did not happen is said on stderr."""
    code, _, err = run("replay", recording, *LIMITS, "--engine", "keeper", "--swap", "c99:keeper=keeper#b")
    assert 0 == code
    assert "--swap c99:keeper=keeper#b was not done" in err


def test_an_output_that_cannot_be_written_fails_the_run(
    run: Run, recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is said, and no half of a file is left."""

    def full(_file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    out = tmp_path / "out.jsonl"
    code, _, err = run("replay", recording, "--engine", "keeper", "--out", out)
    assert 1 == code
    assert f"{out} was not written: No space left on device" in err
    assert ["recording.jsonl"] == [path.name for path in tmp_path.iterdir()]


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """It keeps its permissions, and a link to it stays a link."""
    target, link = tmp_path / "file", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_whole(link, "new\u2028\n")
    assert "new\u2028\n" == target.read_text(encoding="utf-8")
    assert link.is_symlink()
    assert 0o640 == stat.S_IMODE(target.stat().st_mode)
    assert {"file", "link"} == {path.name for path in tmp_path.iterdir()}


def test_a_device_is_written_to_and_not_replaced() -> None:
    """Its node is what it was."""
    before = Path(os.devnull).stat()
    check_target("--out", Path(os.devnull), None)
    write_whole(Path(os.devnull), "x")
    assert before.st_ino == Path(os.devnull).stat().st_ino


def test_a_directory_that_cannot_be_written_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is run for it."""

    def read_only(*_args: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "open", read_only)
    with pytest.raises(BadInput, match=r"cannot be written to \(Read-only file system\); choose another"):
        check_target("--out", tmp_path / "out", None)


def test_a_pipe_that_may_not_be_written_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe is opened only when there is something to write; whether it may be is asked before."""
    os.mkfifo(tmp_path / "pipe")
    check_target("--out", tmp_path / "pipe", None)
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    with pytest.raises(BadInput, match="may not be written to; choose another"):
        check_target("--out", tmp_path / "pipe", None)


def test_what_fails_in_writing_is_told(tmp_path: Path) -> None:
    """As one sentence with the name of the file."""
    with pytest.raises(RunFailed, match="was not written: No such file or directory"):
        write_whole(tmp_path / "missing" / "file", "")


# -- as a process -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_exit_codes_and_streams_of_the_process(recording: Path, tmp_path: Path) -> None:
    """0, 1 and 2, each with its streams; never a traceback."""
    good = process("replay", recording, *LIMITS, "--json", "--out", tmp_path / "out.jsonl")
    assert (0, "") == (good.returncode, good.stderr)
    assert set(json.loads(good.stdout)) == KEYS
    failed = process("replay", recording, *LIMITS, "--swap", "c1:compressor=")
    assert 1 == failed.returncode
    assert "crossing 1 stands unanswered" in failed.stderr
    bad = process("replay", tmp_path / "missing.jsonl")
    assert (2, "", 1) == (bad.returncode, bad.stdout, bad.stderr.count("\n"))


@pytest.mark.slow
def test_who_closes_the_pipe_hears_no_complaint(recording: Path, tmp_path: Path) -> None:
    """The reader leaves after one line; the run goes on, writes its file and ends as it would have."""
    out = tmp_path / "out.jsonl"
    command = [sys.executable, "-m", "bridges.cli", "replay", str(recording), *LIMITS, "--out", str(out)]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline().startswith("start ")
        child.stdout.close()
        assert "" == child.stderr.read()
        assert 0 == child.wait(60)
    assert out.exists()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_behind_stdout_is_told(recording: Path) -> None:
    """One line on stderr, exit 1."""
    command = [sys.executable, "-m", "bridges.cli", "replay", str(recording)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=CHECKOUT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (1, 1) == (done.returncode, done.stderr.count("\n"))
    assert "No space left" in done.stderr


class Closed(io.StringIO):
    """A stream that nobody reads any more, or that fails otherwise."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._error = OSError(number, os.strerror(number))  # EPIPE makes it a BrokenPipeError

    def write(self, _text: str) -> int:
        raise self._error


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(("number", "expected"), [(errno.EPIPE, 0), (errno.ENOSPC, 1)])
def test_where_stdout_fails_the_output_is_written_all_the_same(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool, number: int, expected: int
) -> None:
    """A reader that went away is no failure, a full disk is one; the file is there in both cases."""
    out, err = tmp_path / "out.jsonl", io.StringIO()
    monkeypatch.setattr(sys, "stdout", Closed(number))
    monkeypatch.setattr(sys, "stderr", err)
    assert expected == main(["replay", str(recording), "--out", str(out), *(["--json"] if as_json else [])])
    assert expected == err.getvalue().count("\n")
    assert out.exists()


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["click", "rich"])
def test_a_missing_extra_says_what_to_install(missing: str) -> None:
    """One line with the command that installs it."""
    program = f"import sys; sys.modules[{missing!r}] = None; from bridges.cli import main; sys.exit(main(['demo']))"
    done = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (1, "") == (done.returncode, done.stdout)
    assert f"hermes-dataspace: {missing} is missing; in a checkout: pip install '.[cli]'\n" == done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("snapshots", "show"), "(hermes-dataspace snapshots show --help tells more)"),
        (("replay", "x", "--nothing"), "(hermes-dataspace replay --help tells more)"),
        (("nothing",), "(hermes-dataspace --help tells more)"),
        (("telemetry", "tail", "-n", "0"), "(hermes-dataspace telemetry tail --help tells more)"),
    ],
)
def test_a_slip_is_told_where_help_is(args: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the subcommand that was meant."""
    assert 2 == main([*args])
    assert capsys.readouterr().err.rstrip().endswith(said)


def test_a_group_alone_shows_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Line by line on stdout, as the command does; a list of commands squeezed into one line of error helps nobody."""
    for group in ((), ("telemetry",)):
        assert 0 == main([*group])
        out, err = capsys.readouterr()
        assert ("", True) == (err, out.startswith("Usage: hermes-dataspace"))
        assert all(line.startswith("  ") for line in out.partition("Commands:\n")[2].splitlines())


def test_another_missing_module_is_not_taken_for_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a fault of the installation, and shown whole."""
    monkeypatch.delitem(sys.modules, "bridges.cli.app")
    monkeypatch.setitem(sys.modules, "bridges.cli.swaps", None)
    with pytest.raises(ModuleNotFoundError, match=r"bridges\.cli\.swaps"):
        main(["demo"])


@pytest.mark.parametrize(
    "raised", [KeyboardInterrupt(), BaseExceptionGroup("", [KeyboardInterrupt()])], ids=["alone", "grouped"]
)
def test_an_interrupt_is_quiet(
    run: Run, recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: BaseException
) -> None:
    """130, no word, output untouched."""

    def interrupted(*_args: object, **_options: object) -> None:
        raise raised

    out = tmp_path / "out.jsonl"
    out.write_text("kept")
    monkeypatch.setattr(trio, "run", interrupted)
    assert (130, "", "") == run("replay", recording, "--out", out)
    assert "kept" == out.read_text()


def test_an_interrupt_outside_of_a_replay_ends_the_command_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it comes, 130."""

    def interrupted(*_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "read_session", interrupted)
    assert 130 == run("replay", "x")[0]


def test_a_bug_is_shown_whole(run: Run, recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is nobody's mistake but ours is no one-line error."""

    def broken(*_args: object, **_options: object) -> None:
        raise BaseExceptionGroup("", [ZeroDivisionError()])

    monkeypatch.setattr(trio, "run", broken)
    with pytest.raises(BaseExceptionGroup):
        run("replay", recording)


# -- the recorded sessions --------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("swaps", [[], ["--swap", "c2:compressor=compressor#b"]], ids=["one engine", "swapped"])
def test_a_long_session_is_compacted_and_nothing_is_lost(
    run: Run, shared: Path, tmp_path: Path, swaps: list[str]
) -> None:
    """Two compactions or more, each below the threshold, no new transcript problem, every request found again."""
    source, out = shared / "sessions" / "coding-long-with-skills.jsonl", tmp_path / "out.jsonl"
    limits = ["--context-length", "32000", "--threshold", "20000"]
    code, said, err = run("replay", source, *limits, *swaps, "--json", "--out", out)
    result = json.loads(said)
    assert (0, "", 0, 0) == (code, err, result["failed"], result["crashes"])
    assert result["compactions"] >= 2
    assert all(one["tokens_after"] < 20_000 <= one["tokens_before"] for one in result["results"])
    by = list(dict.fromkeys(one["by"] for one in result["results"]))
    assert (["compressor", "compressor#b"] if swaps else ["compressor"]) == by
    before, after = (Messages.of(map(json.loads, path.read_text().splitlines())) for path in (source, out))
    assert check(after, before).ok
    assert 8 == sum(found.found for found in recall.requests_found(before, after))


@pytest.mark.shared
@pytest.mark.slow
def test_a_short_session_needs_no_compaction(run: Run, shared: Path, tmp_path: Path) -> None:
    """It comes out as it went in, the reports of usage apart."""
    source, out = shared / "sessions" / "coding-short.jsonl", tmp_path / "out.jsonl"
    code, said, _ = run("replay", source, "--json", "--out", out)
    result = json.loads(said)
    assert (0, 0, 0) == (code, result["crossings"], result["compactions"])
    assert result["tokens"]["before"] == result["tokens"]["after"]
    recorded = [json.loads(line) for line in source.read_text().splitlines()]
    assert [{k: v for k, v in row.items() if k != "usage"} for row in recorded] == [
        json.loads(line) for line in out.read_text().splitlines()
    ]


def test_signals_are_left_as_they_were(run: Run, recording: Path) -> None:
    """A program that calls `main` keeps its own handler for interrupts."""
    before = signal.getsignal(signal.SIGINT)
    run("replay", recording, "--engine", "keeper")
    assert before is signal.getsignal(signal.SIGINT)


# -- what the reference says ------------------------------------------------------------------------------------------


def test_the_reference_names_every_option_event_and_key() -> None:
    """And nothing that does not exist."""
    text = (CHECKOUT / "docs" / "reference" / "command.md").read_text(encoding="utf-8")
    options = {
        option
        for top in app.command.commands.values()
        for sub in (top, *getattr(top, "commands", {}).values())
        for param in sub.params
        for option in param.opts
        if option.startswith("--")
    }
    assert options | {"--help", "--version"} == set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
    events = {"start", "end", "swap", *_SENTENCES}
    assert events == set(re.findall(r"^\| `([a-z][a-z-]*) ", text, re.MULTILINE))
    for key in KEYS:
        assert f"`{key}`" in text
