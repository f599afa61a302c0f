"""Where the result goes and where the session comes from: what cannot be is said before anything is run."""

from __future__ import annotations

import errno
import io
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bridges.cli import main, output, setting
from bridges.cli.belongings import belongings
from bridges.cli.errors import BadInput, RunFailed
from bridges.cli.output import check_target, write_messages, write_whole
from tests.conftest import CHECKOUT
from tests.replay_driver import KINDS, jsonl, rows

LIMITS = ["--context-length", "1000", "--threshold", "300", "--engine", "keeper"]


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session file in the current directory; the engines of the tests are known."""
    monkeypatch.setattr(setting, "KINDS", {**setting.KINDS, **KINDS})
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "recording.jsonl"
    path.write_bytes(jsonl(rows(9)))
    return path


def names(directory: Path) -> list[str]:
    """What is in a directory."""
    return sorted(path.name for path in directory.iterdir())


# -- targets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("out", "problem"),
    [
        ("loop", "--out loop: it cannot be written to (Too many levels of symbolic links); choose another"),
        ("dangling", "/nowhere; make it first"),
        ("a" * 300, "it cannot be written to (File name too long); choose another"),
        ("newdir/", "--out newdir/ is a directory; give the name of a file in it"),
        ("newdir/.", "--out newdir/. is a directory"),
        ("..", "--out .. is a directory"),
        ("", "--out is empty; give the name of a file"),
        ("recording.jsonl/out", "it cannot be written to (Not a directory); choose another"),
        ("a\0b", "it cannot be written to (embedded null byte); choose another"),
        pytest.param(
            "/proc/foo",
            "the directory /proc cannot be written to",
            marks=pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc here"),
        ),
    ],
)
def test_a_target_that_cannot_be_written_is_refused_before_the_run(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], out: str, problem: str
) -> None:
    """One line that says why and what to do, exit 2, nothing run, nothing made."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "out")
    before = names(tmp_path)
    assert 2 == main(["replay", str(recording), *LIMITS, "--out", out])
    said, err = capsys.readouterr()
    assert ("", 1) == (said, err.count("\n"))
    assert problem in err
    assert before == names(tmp_path)


@pytest.mark.parametrize("name", ["out", "\N{GRINNING FACE}" * 63, "a" * 255, "link"])
def test_a_target_that_is_taken_can_be_written(recording: Path, tmp_path: Path, name: str) -> None:
    """Names as long as a name may be, and a link to what does not exist yet in a directory that does."""
    (tmp_path / "link").symlink_to(tmp_path / "later")
    assert 0 == main(["replay", str(recording), *LIMITS, "--out", name])
    assert (tmp_path / name).read_bytes()
    assert (tmp_path / "link").is_symlink()
    assert not [left for left in names(tmp_path) if left.endswith(".new")]


def test_what_the_system_refuses_is_told_with_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where asking about the file is not allowed."""

    def forbidden(*_args: object, **_options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "stat", forbidden)
    with pytest.raises(BadInput, match=r"out: it cannot be written to \(Permission denied\); choose another"):
        check_target("--out", tmp_path / "out", None)


def test_half_a_character_is_not_written(tmp_path: Path) -> None:
    """One line that names the message, and the file as it was."""
    target = tmp_path / "out.jsonl"
    target.write_text("kept")
    messages = [{"role": "user", "content": "fine"}, {"role": "user", "content": "half \ud83d"}]
    with pytest.raises(RunFailed, match=r"was not written: message 2 holds \\ud83d, half of a surrogate pair"):
        write_messages(target, messages)
    assert ("kept", ["out.jsonl"]) == (target.read_text(), names(tmp_path))


def test_what_a_killed_process_left_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an hour and for the same target; what is younger may be in use, what is named otherwise is not ours."""
    target = tmp_path / "out.jsonl"

    def left_by(killed: Path) -> Path:
        with monkeypatch.context() as killing, pytest.raises(RunFailed):
            killing.setattr(Path, "replace", _killed)
            killing.setattr(Path, "unlink", lambda *_args, **_options: None)
            write_whole(killed, "half")
        (left,) = set(tmp_path.iterdir()) - known
        known.add(left)
        return left

    def _killed(*_args: object) -> None:
        raise OSError

    known: set[Path] = set()
    old, young, other = left_by(target), left_by(target), left_by(tmp_path / "out.jsonl2")
    alike = old.with_name(old.name + "er")
    alike.write_text("")
    for path in (old, other, alike):
        os.utime(path, (time.time() - 2 * output._LEFT_BEHIND,) * 2)
    write_whole(target, "whole")
    assert {target, young, other, alike} == set(tmp_path.iterdir())
    assert "whole" == target.read_text()


# -- streams ----------------------------------------------------------------------------------------------------------


def test_a_session_may_come_on_stdin(
    recording: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-` stands for it; errors call it stdin."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(recording.read_bytes())))
    assert 0 == main(["replay", "-", *LIMITS, "--out", "out.jsonl"])
    assert capsys.readouterr().out.startswith("start line=0 session=stdin messages=37 ")
    for stream, problem in (
        (io.TextIOWrapper(io.BytesIO(b"\n{")), "stdin, line 2: is not JSON"),
        (None, "stdin: is closed; give the path of a session file"),
        (_Broken(), "stdin: cannot be read (Input/output error)"),
    ):
        monkeypatch.setattr(sys, "stdin", stream)
        assert 2 == main(["replay", "-"])
        assert f"hermes-dataspace: {problem}" in capsys.readouterr().err


class _Broken:
    """A stdin whose terminal is gone."""

    @property
    def buffer(self) -> _Broken:
        return self

    def read(self) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_the_file_behind_stdin_is_not_written_over(
    recording: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the session file, under whatever name."""
    before = recording.read_bytes()
    with recording.open(encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert 2 == main(["replay", "-", *LIMITS, "--out", str(recording)])
    assert "is the session file itself" in capsys.readouterr().err
    assert before == recording.read_bytes()


@pytest.mark.parametrize("extra", [[], ["--json"], ["--swap", "c99:keeper="]], ids=["lines", "json", "remark"])
@pytest.mark.parametrize("closed", [("stdout",), ("stderr",), ("stdin", "stdout", "stderr")])
def test_a_closed_stream_keeps_nothing_from_being_written(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: tuple[str, ...], extra: list[str]
) -> None:
    """`>&-` leaves no stream at all; the file is written, and the streams of the caller are as they were."""
    for stream in closed:
        monkeypatch.setattr(sys, stream, None)
    assert 0 == main(["replay", str(recording), *LIMITS, "--out", "out.jsonl", *extra])
    assert (tmp_path / "out.jsonl").exists()
    assert [None] * len(closed) == [getattr(sys, stream) for stream in closed]


@pytest.mark.slow
@pytest.mark.parametrize("closing", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_process_with_closed_streams_writes_its_file(recording: Path, tmp_path: Path, closing: str) -> None:
    """Exit 0 and no traceback; and the file is not opened in place of the closed stream."""
    out = tmp_path / "out.jsonl"
    command = f'exec "$0" -m bridges.cli replay "$1" --threshold 300 --out "$2" {closing}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, str(recording), str(out)],
        cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (0, "") == (done.returncode, done.stderr)
    assert out.read_text(encoding="utf-8").startswith("{")
    bad = subprocess.run(
        ["sh", "-c", command, sys.executable, str(tmp_path / "missing"), str(out)],
        cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert 2 == bad.returncode
    assert "Traceback" not in bad.stderr


# -- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("--threshold", "32k"), "'--threshold': '32k' is not a whole number of tokens from 1, such as 32000"),
        (("--context-length", "0"), "'0' is not a whole number of tokens from 1"),
        (("--context-length", "1.5"), "'1.5' is not a whole number"),
        (("--threshold", "9" * 5000), "is not a whole number of tokens from 1, such as 32000"),
        (("--pace", "fast"), "'--pace': 'fast' is not a number of seconds from 0 to 60, such as 0.05"),
        (("--pace", "nan"), "'nan' is not a number of seconds from 0 to 60"),
        (("--pace", "61"), "'61' is not a number of seconds from 0 to 60"),
    ],
)
def test_a_number_that_is_none_is_told_what_it_should_be(
    recording: Path, capsys: pytest.CaptureFixture[str], args: tuple[Any, ...], problem: str
) -> None:
    """The option, what was given, and an example."""
    assert 2 == main(["replay", str(recording), *args])
    err = capsys.readouterr().err
    assert problem in err
    assert len(err) < 450


def test_a_home_is_made_with_what_is_above_it(tmp_path: Path) -> None:
    """For its owner only; what is no directory on the way is told."""
    home = tmp_path / "a" / "b" / "home"
    assert home == belongings(None, str(home))["home"]
    assert [0o700] * 3 == [stat.S_IMODE(one.stat().st_mode) for one in (home, home.parent, home.parent.parent)]
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(BadInput, match="is not a directory"):
            belongings(None, str(wrong))
