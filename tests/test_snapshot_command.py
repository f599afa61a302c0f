"""`hermes-dataspace snapshots`, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bridges.cli.main import main
from engines.snapshotter import FOLDER, Snapshot, SnapshotStore

Said = Any


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No home but the test's own."""
    for name in ("HERMES_HOME", "AGENT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))


def home_with(path: Path, *names: str, profile: str = "default") -> Path:
    """A home with a snapshot of each of these sessions, the last one the newest."""
    store = SnapshotStore(path / FOLDER, profile)
    for at, name in enumerate(names):
        store.save(
            Snapshot(
                name,
                timestamp=1_700_000_000 + at,
                profile=profile,
                task_state={"request": f"Mend \x1b[31m{name}."},
                key_findings=["x " * 400] * 9,
            )
        )
    return path


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """The command: its exit code, what it says, what it complains of."""
    code = main(["snapshots", *args])
    out, err = capsys.readouterr()
    return code, out, err


def test_list_show_restore_clear(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By number or the beginning of an id; what is printed acts on no terminal; restoring keeps to its budget."""
    home = ("--home", str(home_with(tmp_path, "first", "second")))
    code, out, _ = run(capsys, "list", *home)
    lines = out.splitlines()
    assert (0, f"profile default, {tmp_path / FOLDER}: 2") == (code, lines[0])
    assert ["second", "first"] == [line.split()[-1] for line in lines[1:]]
    code, out, _ = run(capsys, "show", "2", *home)
    assert (0, True, False) == (code, "Mend first." in out, "\x1b" in out)
    code, out, _ = run(capsys, "restore", *home, "--tokens", "300")
    assert (0, True) == (code, "session second" in out)
    assert len(out) < 1_300
    id_ = lines[2].split()[1]
    assert "session first" in run(capsys, "restore", id_[:7], *home)[1]
    code, out, err = run(capsys, "clear", "2", *home)
    assert (0, ["removed: 1", f"{id_} (session first, 2023-11-14 22:13:20, session_end)"], "") == (
        code,
        out.splitlines(),
        err,
    )
    code, out, _ = run(capsys, "clear", "all", *home)
    assert (0, True, True) == (code, out.startswith("removed: 1\n"), "(session second, " in out)
    assert [] == SnapshotStore(tmp_path / FOLDER).list()


def test_the_words_of_the_command_in_a_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a subcommand it lists, with the options of `list`; `help` helps."""
    home = str(home_with(tmp_path / "home", "a", "b"))
    listed = run(capsys, "list", "--home", home)
    assert 0 == listed[0]
    assert listed == run(capsys, "--home", home)
    assert "snapshots" in json.loads(run(capsys, "--json", "--home", home)[1])
    helped = run(capsys, "--help")
    assert 0 == helped[0]
    assert helped == run(capsys, "help") == run(capsys, "-h")
    assert "restore" in helped[1]


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json each says one object, with profile and folder."""
    home = ("--home", str(home_with(tmp_path, "first")), "--json")
    (tmp_path / FOLDER / "bad.json").touch()
    told = json.loads(run(capsys, "list", *home)[1])
    assert ("default", str(tmp_path / FOLDER)) == (told["profile"], told["directory"])
    good, bad = told["snapshots"]
    assert ("first", "session_end", False, True) == (
        good["session_id"],
        good["reason"],
        good["corrupt"],
        Path(good["path"]).exists(),
    )
    assert (True, "it is not JSON") == (bad["corrupt"], bad["problem"])
    assert "Mend" in json.loads(run(capsys, "show", "1", *home)[1])["snapshot"]["task_state"]["request"]
    assert "session first" in json.loads(run(capsys, "restore", *home)[1])["text"]
    told = json.loads(run(capsys, "clear", "all", *home)[1])
    assert (2, {good["id"], "bad"}) == (told["removed"], {one["id"] for one in told["snapshots"]})


def test_profiles_have_homes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """N15: without a home it is that of the profile that is named, or active, or that HERMES_HOME is; which it is, is said."""
    root = home_with(tmp_path / "user" / ".hermes", "root's")
    home_with(root / "profiles" / "fin", "fin's", profile="fin")
    home_with(root / "profiles" / "law", "law's", profile="law")
    assert "root's" in run(capsys, "list")[1]
    assert "fin's" in run(capsys, "list", "--profile", "fin")[1]
    (root / "active_profile").write_text("law\n", encoding="utf-8")
    code, out, _ = run(capsys, "list")
    assert (0, True, True) == (code, out.startswith("profile law, "), "law's" in out)
    assert "root's" in run(capsys, "list", "--profile", "default")[1]
    monkeypatch.setenv("HERMES_HOME", str(root / "profiles" / "fin"))
    assert "fin's" in run(capsys, "list")[1]
    assert "law's" in run(capsys, "list", "--profile", "law")[1]
    assert ": 0" in run(capsys, "list", "--profile", "../law")[1]
    assert ": 0" in run(capsys, "list", "--home", str(root), "--profile", "fin")[1]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("show", "9"), "a number from 1 to 1"),
        (("restore", "zz"), "a number from 1 to 1"),
        (("clear", "zz"), "a number from 1 to 1"),
        (("clear",), "Missing argument"),
        (("clear", ""), "a number from 1 to 1"),
        (("clear", "0"), "a number from 1 to 1"),
        (("show", ""), "a number from 1 to 1"),
        (("restore", "--tokens", "10"), "give 200 or more"),
        (("restore", "--tokens", "199"), "give 200 or more"),
        (("list", "--profile", " "), "--profile is empty"),
        (("restore", "--profile", "nobody"), "there is no snapshot of profile nobody"),
        (("frobnicate",), "No such command"),
    ],
)
def test_bad_input(args: tuple[str, ...], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that says what to do, exit 2, and nothing is changed."""
    home = home_with(tmp_path, "first")
    code, out, err = run(capsys, *args, *(() if args == ("frobnicate",) else ("--home", str(home))))
    assert (2, "", 1) == (code, out, err.count("\n"))
    assert problem in err
    assert 1 == len(SnapshotStore(home / FOLDER).list())


def test_no_home(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A home that is not there is bad input."""
    code, _, err = run(capsys, "list", "--home", str(tmp_path / "nowhere"))
    assert (2, True) == (code, "there is no Hermes home" in err)


def test_corrupt_and_unreachable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A corrupt one is marked and not restored; a folder that is none is a run that failed."""
    home = ("--home", str(home_with(tmp_path, "first")))
    (entry,) = SnapshotStore(tmp_path / FOLDER).list()
    entry.path.write_text("{", encoding="utf-8")
    assert "[CORRUPT]" in run(capsys, "list", *home)[1]
    code, _, err = run(capsys, "restore", "1", *home)
    assert (2, True) == (code, "is corrupt and cannot be restored" in err)
    other = tmp_path / "other"
    (other / FOLDER).parent.mkdir(parents=True)
    (other / FOLDER).touch()
    code, _, err = run(capsys, "list", "--home", str(other))
    assert (1, True) == (code, "cannot be reached" in err)


def test_a_wrong_number_removes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not even where one of the ids begins with it: each of the ten digits begins one here, and the list has fewer."""
    folder = home_with(tmp_path, "one") / FOLDER
    (entry,) = SnapshotStore(folder).list()
    text = entry.path.read_text(encoding="utf-8")
    for digit in range(4, 10):
        (folder / f"{digit}{entry.id[1:]}.json").write_text(text, encoding="utf-8")
    count = len(SnapshotStore(folder).list())
    for wanted in ("0", "8", "9", "09", "10"):
        if wanted not in map(str, range(1, count + 1)) and wanted != "09":
            code, _, err = run(capsys, "clear", wanted, "--home", str(tmp_path))
            assert (2, True) == (code, f"a number from 1 to {count}" in err)
    assert count == len(SnapshotStore(folder).list())


class Gone:
    """A stream that nobody reads any more, or on a disk that is full."""

    def __init__(self, error: OSError) -> None:
        self.error = error

    def write(self, _text: str) -> int:
        raise self.error

    def flush(self) -> None:
        pass


@pytest.mark.parametrize("what", ["list", "show", "restore"])
@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_who_has_read_enough(
    what: str,
    as_json: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reader of a pipe may go: that is no error, and none of snapshots; what the disk refuses is one of the output."""
    args = (
        "snapshots",
        what,
        *(("1",) if what == "show" else ()),
        "--home",
        str(home_with(tmp_path, "first")),
        *as_json,
    )
    monkeypatch.setattr("sys.stdout", Gone(BrokenPipeError(32, "Broken pipe")))
    assert 0 == main(args)
    monkeypatch.setattr("sys.stdout", Gone(OSError(28, "No space left on device")))
    assert 1 == main(args)
    monkeypatch.undo()
    err = capsys.readouterr().err
    assert ("snapshots cannot be reached" in err, "could not be written: No space" in err, err.count("\n")) == (
        False,
        True,
        1,
    )
