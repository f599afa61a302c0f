"""Engines of one's own, several sets of engines on one session, and whether two sets make the same of it."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

import pytest

from bridges.cli import main, setting
from tests.replay_driver import KINDS, crasher, jsonl, rows

ENGINE = '''
from engines import serve

def boot(me):
    """Keep what fits."""
    serve(me, lambda me, asked: [*asked.messages[:1], *asked.messages[-7:]])

def made():
    return boot

value = 7
'''


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a session that crosses its threshold three times, and a module with an engine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(setting, "KINDS", {**setting.KINDS, **KINDS, "shaky": crasher(99)})
    Path("s.jsonl").write_bytes(jsonl(rows(30)))
    Path("mine.py").write_text(ENGINE)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    return tmp_path


def run(*args: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*args])
    return code, out.getvalue(), err.getvalue()


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", ["mine:boot", "mine:made", "mine:boot#2"])
def test_an_engine_of_ones_own_is_plugged_by_its_name(name: str) -> None:
    """A boot function, or a function that returns one, in a module of the current directory."""
    code, out, err = run("replay", "s.jsonl", "--threshold", "300", "--engine", name, "--json")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["engines"] == [name]
    assert result["compactions"] > 0


@pytest.mark.usefixtures("place")
def test_an_engine_of_ones_own_can_be_swapped_in() -> None:
    """Its name has a colon, as the swap has."""
    code, out, _ = run(
        "replay", "s.jsonl", "--threshold", "300", "--engine", "keeper", "--swap", "c2:keeper=mine:boot", "--json"
    )
    assert code == 0
    assert [done["by"] for done in json.loads(out)["results"]][:2] == ["keeper", "mine:boot"]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", ["nowhere:boot", "mine:nothing", "mine:value", "mine:", ":boot", "mine boot"])
def test_an_engine_that_cannot_be_had_is_bad_input(name: str) -> None:
    """One line, which names it."""
    code, out, err = run("replay", "s.jsonl", "--engine", name)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert repr(name) in err


# -- experiment -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("place")
def test_arms_are_told_side_by_side() -> None:
    """Every arm has the whole result, what it saved and what is still found."""
    args = ("experiment", "s.jsonl", "--threshold", "300", "--arm", "keeper", "--arm", "mine:boot,decliner", "--json")
    code, out, err = run(*args)
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["session"] == "s"
    first, second = told["arms"]
    assert (first["engines"], second["engines"]) == (["keeper"], ["mine:boot", "decliner"])
    for arm in (first, second):
        results = arm["result"]["results"]
        assert arm["saved"] == sum(done["tokens_before"] - done["tokens_after"] for done in results) > 0
        assert arm["kept"]["requests"] > 0
    alone = json.loads(run("replay", "s.jsonl", "--threshold", "300", "--engine", "keeper", "--json")[1])
    timeless = [{**done, "seconds": 0} for done in first["result"]["results"]]
    assert timeless == [{**done, "seconds": 0} for done in alone["results"]]


@pytest.mark.usefixtures("place")
def test_a_table_is_for_people() -> None:
    """One row an arm."""
    code, out, _ = run("experiment", "s.jsonl", "--threshold", "300", "--arm", "keeper", "--arm", "mine:boot")
    assert code == 0
    assert "keeper" in out
    assert "mine:boot" in out


@pytest.mark.usefixtures("place")
def test_an_arm_that_failed_is_told() -> None:
    """The others are shown all the same; the run counts as failed."""
    code, out, err = run("experiment", "s.jsonl", "--threshold", "300", "--arm", "decliner", "--arm", "keeper")
    assert code == 1
    assert "keeper" in out
    assert err.startswith("hermes-dataspace: decliner: crossing 1 stands unanswered")


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("broken", ["stillborn", "decliner,stillborn", "mine:unmade"])
def test_an_arm_that_does_not_start_costs_the_others_nothing(broken: str) -> None:
    """Their rows and results are there; its own says why, on stderr too, and the run counts as failed."""
    with Path("mine.py").open("a", encoding="utf-8") as module:
        module.write("def unmade():\n    raise OSError('no licence')\n")
    args = ("experiment", "s.jsonl", "--threshold", "300", "--arm", "keeper", "--arm", broken, "--arm", "mine:boot")
    code, out, err = run(*args, "--json")
    first, failed, last = json.loads(out)["arms"]
    assert (1, 1) == (code, err.count("\n"))
    assert [first["result"]["compactions"] > 0, last["result"]["compactions"] > 0] == [True, True]
    assert (None, None, 0) == (failed["result"], failed["kept"], failed["saved"])
    (problem,) = failed["problems"]
    assert problem in err
    assert broken.rpartition(",")[2] in problem
    code, out, _ = run(*args)
    rows_ = [line.split() for line in out.splitlines()]
    assert code == 1
    assert ["-"] * 8 in [row[-8:] for row in rows_]
    assert {"keeper", "mine:boot"} <= {row[0] for row in rows_ if row}


@pytest.mark.usefixtures("place")
def test_refused_and_failed_are_two_columns_and_no_name_is_broken() -> None:
    """On a pipe a table is as wide as its names; each column has the number of its name in the result."""
    long = ",".join(["keeper", *(f"decliner#{'x' * 40}{n}" for n in range(4))])
    args = ("experiment", "s.jsonl", "--threshold", "300", "--arm", "decliner", "--arm", long)
    code, out, _ = run(*args)
    assert code == 1
    assert long.replace(",", ", ") in out
    heads = next(line.split() for line in out.splitlines() if "engines" in line)
    row = next(line.split() for line in out.splitlines() if line.split()[:1] == ["decliner"])
    told = dict(zip(heads, row, strict=True))
    result = json.loads(run(*args, "--json")[1])["arms"][0]["result"]
    assert (told["done"], told["refused"], told["failed"]) == tuple(
        str(result[name]) for name in ("compactions", "refused", "failed")
    )
    assert result["failed"] > 0
    assert result["refused"] == 0


@pytest.mark.usefixtures("place")
def test_no_name_is_broken_on_a_terminal_of_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several engines stand on several lines, each whole."""

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stdout", Screen())
    names = ("keeper", "decliner", "decliner#second")
    assert 0 == main(["experiment", "s.jsonl", "--threshold", "300", "--arm", ",".join(names)])
    words = sys.stdout.getvalue().replace(",", " ").split()
    assert set(names) <= set(words)


@pytest.mark.usefixtures("place")
def test_a_threshold_that_was_never_reached_is_told() -> None:
    """With one that would be; on stderr, so that what stdout has is what it was."""
    code, out, err = run("experiment", "s.jsonl", "--arm", "keeper", "--json")
    assert (code, json.loads(out)["arms"][0]["result"]["crossings"]) == (0, 0)
    assert "0 crossings: nothing was compacted" in err
    tried = err.split()[-2:]
    assert tried[0] == "--threshold"
    code, out, err = run("experiment", "s.jsonl", "--arm", "keeper", "--json", *tried)
    assert (err, json.loads(out)["arms"][0]["result"]["crossings"] > 0) == ("", True)
    code, out, err = run("bisim", "s.jsonl", "--left", "keeper", "--right", "decliner")
    assert (code, out[:13], err.split()[-2:]) == (0, "no difference", tried)
    Path("short.jsonl").write_bytes(jsonl(rows(1, 4)))
    assert "take a longer session" in run("experiment", "short.jsonl", "--arm", "keeper")[2]


class Gone(io.StringIO):
    """A pipe that nobody reads any more."""

    def write(self, _text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    "args",
    [
        ("experiment", "s.jsonl", "--threshold", "300", "--arm", "keeper"),
        ("experiment", "s.jsonl", "--threshold", "300", "--arm", "keeper", "--json"),
        ("bisim", "s.jsonl", "--threshold", "300", "--left", "keeper", "--right", "keeper"),
        ("trace", "t.jsonl"),
        ("doctor", "--home", "."),
        ("telemetry", "summary", "--home", "."),
        ("replay", "s.jsonl", "--engine", "keeper"),
        (),
    ],
)
def test_a_reader_that_has_seen_enough_is_no_error(args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every subcommand ends with 0 and no word, as `head` expects of what it reads."""
    if args[:1] == ("trace",):
        assert run("replay", "s.jsonl", "--engine", "keeper", "--trace", "t.jsonl")[0] == 0
    if args[:1] == ("telemetry",):
        assert run("replay", "s.jsonl", "--engine", "keeper", "--engine", "telemetry", "--home", ".")[0] == 0
    err = io.StringIO()
    monkeypatch.setattr(sys, "stdout", Gone())
    monkeypatch.setattr(sys, "stderr", err)
    assert (0, "") == (main([*args]), err.getvalue())


@pytest.mark.usefixtures("place")
def test_the_session_of_the_demo_can_be_had() -> None:
    """As a file for the other subcommands, on which they show something."""
    code, out, err = run("demo", "--save", "demo.jsonl")
    assert (code, err) == (0, "")
    assert "replay demo.jsonl --threshold 20000" in out
    args = ("replay", "demo.jsonl", "--threshold", "20000", "--context-length", "32000", "--engine", "compressor")
    assert json.loads(run(*args, "--json")[1])["crossings"] > 3
    assert run("demo", "--save", "nowhere/demo.jsonl")[0] == 2


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("arm", ["", "keeper,", "keeper,,keeper", "keeper,keeper", "nobody"])
def test_an_arm_that_is_none_is_bad_input(arm: str) -> None:
    """One line that names the option."""
    code, _, err = run("experiment", "s.jsonl", "--arm", arm)
    assert code == 2
    assert err.startswith("hermes-dataspace: --arm")


# -- bisim ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("place")
def test_an_engine_that_only_crashes_changes_nothing() -> None:
    """What the loop's users see is the same with it and without, whoever was asked first."""
    code, out, _ = run("bisim", "s.jsonl", "--threshold", "300", "--left", "keeper", "--right", "shaky,keeper")
    assert (code, out.startswith("no difference in ")) == (0, True)


@pytest.mark.usefixtures("place")
def test_the_first_difference_is_told() -> None:
    """With the line, what each side did there, and the message that differs."""
    code, out, _ = run("bisim", "s.jsonl", "--threshold", "300", "--left", "keeper", "--right", "mine:boot")
    assert code == 1
    assert "the same for " in out
    assert "left: line " in out
    assert "is the first that differs)" in out


@pytest.mark.usefixtures("place")
def test_a_side_that_does_less_is_told() -> None:
    """Where one compacts and the other does not, the facts part."""
    code, out, _ = run("bisim", "s.jsonl", "--threshold", "300", "--left", "keeper", "--right", "decliner")
    assert code == 1
    assert "right: line " in out


@pytest.mark.usefixtures("place")
def test_both_sides_are_needed() -> None:
    """There is nothing to compare otherwise."""
    assert run("bisim", "s.jsonl", "--left", "keeper")[0] == 2


def test_a_difference_where_one_side_has_ended() -> None:
    """It says so."""
    from bridges.cli.experiment import Difference

    assert str(Difference(3, None, (1, "Usage appears", (("prompt", 7),)))) == (
        "step 3: left: nothing more; right: line 1, Usage appears (prompt=7)"
    )
