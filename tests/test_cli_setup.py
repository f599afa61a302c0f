"""`enable`, `disable` and `doctor`: a Hermes home is set up, and looked at, with nothing of its user's lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from bridges.cli import main as cli_main
from bridges.cli.doctor import examine
from bridges.cli.enabling import read_config
from bridges.hermes import blocks

CONFIG = """\
# my own notes
model:
  default: some/model   # the good one
  api_key: "secret-key"

plugins:
    enabled: [weather]
context:
    engine: compressor
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a configuration that its user has written by hand."""
    for name in ("HERMES_HOME", "HERMES_SAFE_MODE", "HERMES_DATASPACE"):
        monkeypatch.delenv(name, raising=False)
    blocks._said.clear()
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "config.yaml").chmod(0o600)
    return tmp_path


def run(*args: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    import contextlib
    import io

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli_main(list(args))
    return code, out.getvalue(), err.getvalue()


def loaded(home: Path) -> dict:  # type: ignore[type-arg]
    """The configuration as the host reads it."""
    return YAML(typ="safe").load((home / "config.yaml").read_text())


def test_enable_writes_the_two_lines_and_leaves_the_rest(home: Path) -> None:
    """Comments, quotes and permissions of the file survive; a second time there is nothing to do."""
    code, out, err = run("enable", "--home", str(home))
    assert (code, err) == (0, "")
    assert "context.engine: dataspace (was compressor)" in out
    text = (home / "config.yaml").read_text()
    assert "# my own notes" in text
    assert "# the good one" in text
    assert '"secret-key"' in text
    assert (home / "config.yaml").stat().st_mode & 0o777 == 0o600
    data = loaded(home)
    assert data["context"]["engine"] == "dataspace"
    assert data["plugins"]["enabled"] == ["weather", "dataspace"]
    assert "secret-key" not in out
    before = (home / "config.yaml").read_bytes()
    assert "nothing to change" in run("enable", "--home", str(home))[1]
    assert (home / "config.yaml").read_bytes() == before


def test_disable_takes_it_back(home: Path) -> None:
    """The host's default engine is in charge again, other plugins stay."""
    run("enable", "--home", str(home))
    code, _out, _err = run("disable", "--home", str(home))
    assert code == 0
    assert (home / "config.yaml").read_text() == CONFIG
    assert "nothing to change" in run("disable", "--home", str(home))[1]


def test_a_dry_run_changes_nothing(home: Path) -> None:
    """It only says what would change."""
    before = (home / "config.yaml").read_bytes()
    code, out, _ = run("enable", "--home", str(home), "--dry-run")
    assert code == 0
    assert "plugins.enabled with dataspace" in out
    assert (home / "config.yaml").read_bytes() == before


def test_another_engine_is_not_put_out_unasked(home: Path) -> None:
    """Who has chosen one says what is to become of it; hosted, it is no plugin of the host's any more."""
    text = CONFIG.replace("[weather]", "[weather, hermes-lcm, dataspace]").replace("engine: compressor", "engine: lcm")
    (home / "config.yaml").write_text(text)
    code, _out, err = run("enable", "--home", str(home))
    assert code == 2
    assert "context.engine is lcm now" in err
    assert (home / "config.yaml").read_text() == text
    code, _out, _err = run("enable", "--home", str(home), "--engine", "hermes-lcm", "--engine", "compressor")
    assert code == 0
    data = loaded(home)
    assert data["plugins"]["enabled"] == ["weather", "dataspace"]
    assert data["context"]["dataspace"]["engines"] == ["hermes-lcm", "compressor"]


def test_a_home_without_a_file_gets_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host has not been started yet, or works with its defaults; `HERMES_HOME` names the home."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    assert run("enable")[0] == 0
    assert loaded(tmp_path) == {"context": {"engine": "dataspace"}, "plugins": {"enabled": ["dataspace"]}}


def test_a_disabled_plugin_is_enabled_again(home: Path) -> None:
    """`disabled` wins in the host, so it has to go from there."""
    (home / "config.yaml").write_text("plugins: {enabled: dataspace, disabled: [dataspace, x]}\n")
    assert run("enable", "--home", str(home))[0] == 0
    assert loaded(home)["plugins"] == {"enabled": ["dataspace"], "disabled": ["x"]}


def test_a_link_to_the_file_stays_a_link(home: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Many keep their settings elsewhere and link to them."""
    elsewhere = tmp_path_factory.mktemp("dotfiles") / "config.yaml"
    elsewhere.write_text(CONFIG)
    (home / "config.yaml").unlink()
    (home / "config.yaml").symlink_to(elsewhere)
    assert run("enable", "--home", str(home))[0] == 0
    assert (home / "config.yaml").is_symlink()
    assert "dataspace" in elsewhere.read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "is not YAML"),
        ("- a\n- b\n", "holds no settings"),
        ("context: on\n", "context in config.yaml is 'on'"),
        ("plugins: {enabled: {a: 1}}\n", "plugins.enabled in config.yaml"),
        ("a: 1\na: 2\n", "is not YAML"),
    ],
)
def test_a_file_that_is_wrong_is_left_alone(home: Path, text: str, said: str) -> None:
    """One line says what to do, and not a byte is changed."""
    (home / "config.yaml").write_text(text)
    code, _out, err = run("enable", "--home", str(home))
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert (home / "config.yaml").read_text() == text


def test_a_file_that_cannot_be_read_is_told(home: Path) -> None:
    """Not text at all, or a directory."""
    (home / "config.yaml").write_bytes(b"\xff\xfe\x00")
    assert run("enable", "--home", str(home))[0] == 2
    (home / "config.yaml").unlink()
    (home / "config.yaml").mkdir()
    code, _out, err = run("enable", "--home", str(home))
    assert code == 2
    assert "cannot be read" in err


@pytest.mark.parametrize(
    "args", [("--home", ""), ("--home", "/nowhere/at/all"), ("--engine", "a#b"), ("--engine", " ")]
)
def test_wrong_options_are_refused(home: Path, args: tuple[str, str]) -> None:
    """Each in one line."""
    given = args if args[0] == "--home" else (*args, "--home", str(home))
    code, _out, err = run("enable", *given)
    assert code == 2
    assert err.count("\n") == 1


LOSSLESS = """\
context:
  # which one
  engine: lossless-hermes  # because

# the rest
plugins:
  enabled:
    - weather
    - lossless-hermes   # good
    - maps

# at the end
model: some/model
"""

FILES = {
    "none chosen": "model: x\n",
    "by hand": CONFIG,
    "quoted": 'context:\n  engine: "compressor"   # mine\n  other: [1, 2]\n',
    "comments only": "# nothing yet\n",
    "empty list": "plugins:\n  enabled: []\n  disabled: []\n",
    "dashes at the margin": "plugins:\n  enabled:\n  - a   # b\n  - c\n\n# next\nmodel: x\n",
    "dashes further in": "plugins:\n    enabled:\n      - a\nlist:\n      - 1\n",
    "block of ours": "context:\n  engine: compressor\n  dataspace:\n    guard: record  # to compare\n# end\n",
    "no end of line": "model: x  # y",
    "flow": "context: {engine: compressor, x: 1}\nplugins: {enabled: [a, b]}\n",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_what_was_there_is_there_again(home: Path, text: str) -> None:
    """After `enable` and `disable` the file is byte for byte what it was, and in between all its comments are there."""
    (home / "config.yaml").write_text(text)
    assert run("enable", "--home", str(home))[0] == 0
    between = (home / "config.yaml").read_text()
    assert loaded(home)["context"]["engine"] == "dataspace"
    assert [line for line in text.splitlines() if line.lstrip().startswith("#") and line not in between] == []
    assert run("disable", "--home", str(home))[0] == 0
    assert (home / "config.yaml").read_text() == text + ("" if text.endswith("\n") else "\n")


def test_a_hosted_engine_gets_its_places_back(home: Path) -> None:
    """It is the context engine and an enabled plugin again, in its old place; the settings of engines stay."""
    (home / "config.yaml").write_text(LOSSLESS)
    args = ("--engine", "lossless-hermes", "--engine", "compressor", "--home", str(home))
    assert run("enable", *args)[0] == 0
    data = loaded(home)
    assert data["plugins"]["enabled"] == ["weather", "dataspace", "maps"]
    assert data["context"]["dataspace"] == {
        "before": {"engine": "lossless-hermes", "plugins": ["lossless-hermes"]},
        "engines": ["lossless-hermes", "compressor"],
    }
    assert "context.dataspace: unknown" not in doctor(home)[1]
    assert "nothing to change" in run("enable", *args)[1]
    code, out, _ = run("disable", "--home", str(home))
    assert (code, "context.engine: lossless-hermes" in out, "enabled with lossless-hermes" in out) == (0, True, True)
    kept = "  dataspace:\n    engines:\n      - lossless-hermes\n      - compressor\n"
    assert (home / "config.yaml").read_text().replace(kept, "") == LOSSLESS


def test_several_hosted_plugins_come_back(home: Path) -> None:
    """All of them, beside each other; lines that cannot be kept as they were typed are written anew, and mean the same."""
    text = (
        "# top\ncontext:\n       engine: lcm\n       x:\n        - 1\n"
        "plugins:\n  enabled:\n  - a\n  - lcm\n  - b\n  - lossless-hermes  # second\n"
    )
    (home / "config.yaml").write_text(text)
    args = ("--engine", "lcm", "--engine", "lossless-hermes", "--home", str(home))
    assert run("enable", *args)[0] == 0
    assert loaded(home)["plugins"]["enabled"] == ["a", "dataspace", "b"]
    assert loaded(home)["context"]["x"] == [1]
    assert run("disable", "--home", str(home))[0] == 0
    data = loaded(home)
    assert data["plugins"]["enabled"] == ["a", "lcm", "lossless-hermes", "b"]
    assert (data["context"]["engine"], data["context"]["x"]) == ("lcm", [1])
    assert "# second" in (home / "config.yaml").read_text()


def test_what_was_chosen_meanwhile_stays(home: Path) -> None:
    """Who has picked another engine by hand keeps it, and gets no plugin back; nothing is remembered any more."""
    (home / "config.yaml").write_text(LOSSLESS)
    assert run("enable", "--engine", "lossless-hermes", "--home", str(home))[0] == 0
    text = (home / "config.yaml").read_text()
    (home / "config.yaml").write_text(text.replace("engine: dataspace", "engine: other"))
    assert run("disable", "--home", str(home))[0] == 0
    data = loaded(home)
    assert data["context"] == {"dataspace": {"engines": ["lossless-hermes"]}, "engine": "other"}
    assert data["plugins"]["enabled"] == ["weather", "maps"]


def test_no_comment_is_lost_with_what_it_hangs_on(home: Path) -> None:
    """What the user has written below our lines stays where it is."""
    (home / "config.yaml").write_text(
        "plugins:\n  enabled:\n  - dataspace\n\n# mine\ncontext:\n  engine: dataspace   # this\n# end\n"
    )
    assert run("disable", "--home", str(home))[0] == 0
    assert (home / "config.yaml").read_text() == (
        "plugins:\n  enabled: []\n\n# mine\ncontext:\n  engine: compressor   # this\n# end\n"
    )
    (home / "config.yaml").write_text(
        "context:\n  engine: dataspace\n  dataspace:\n    before: {engine: lcm}\n    # a note\n"
    )
    assert run("disable", "--home", str(home))[0] == 0
    assert "# a note" in (home / "config.yaml").read_text()


def test_a_file_that_enable_has_made_goes_again(home: Path) -> None:
    """Nothing is left in it, and nothing is no `{}`; a link to somewhere else is not removed."""
    (home / "config.yaml").unlink()
    assert run("enable", "--home", str(home))[0] == 0
    assert run("disable", "--home", str(home))[0] == 0
    assert not (home / "config.yaml").exists()
    assert "nothing to change" in run("disable", "--home", str(home))[1]
    (home / "elsewhere.yaml").touch()
    (home / "config.yaml").symlink_to(home / "elsewhere.yaml")
    assert run("enable", "--home", str(home))[0] == 0
    assert run("disable", "--home", str(home))[0] == 0
    assert (home / "elsewhere.yaml").read_text() == ""


def test_an_engine_that_is_not_there_is_warned_of(home: Path) -> None:
    """It is written down all the same, for it may be installed later."""
    code, _, err = run("enable", "--engine", "bogus", "--engine", "nowhere.at_all:boot", "--home", str(home))
    assert (code, err.count("\n")) == (0, 2)
    assert "the engine bogus is no installed plugin. Install it" in err
    assert "the engine nowhere.at_all:boot cannot be loaded (ModuleNotFoundError" in err
    assert loaded(home)["context"]["dataspace"]["engines"] == ["bogus", "nowhere.at_all:boot"]


# -- doctor -----------------------------------------------------------------------------------------------------------


def doctor(home: Path) -> tuple[int, str]:
    """Exit code and what is said."""
    code, out, err = run("doctor", "--home", str(home))
    assert err == ""
    return code, out


def test_a_home_set_up_well_is_said_to_be(home: Path) -> None:
    """Exit 0, and nothing to do."""
    run("enable", "--home", str(home))
    code, out = doctor(home)
    assert code == 0
    assert " bad " not in out
    assert "context.engine is dataspace" in out


def test_what_is_missing_is_said_with_what_to_do(home: Path) -> None:
    """A fresh home: neither enabled nor chosen."""
    code, out = doctor(home)
    assert code == 1
    assert "context.engine is compressor" in out
    assert "plugins.enabled does not name dataspace" in out
    assert "Run: hermes-dataspace enable" in out


def test_no_file_and_a_broken_one_are_findings(home: Path) -> None:
    """Doctor looks on where it can."""
    (home / "config.yaml").write_text("a: [1")
    code, out = doctor(home)
    assert (code, "is not YAML" in out) == (1, True)
    (home / "config.yaml").unlink()
    code, out = doctor(home)
    assert (code, "there is no config.yaml" in out) == (1, True)


def test_the_block_is_read_as_the_adapter_reads_it(home: Path) -> None:
    """Its warnings are doctor's; each setting that is ignored is told."""
    (home / "config.yaml").write_text(
        "plugins: {enabled: [dataspace, x]}\n"
        "compression: {enabled: false}\n"
        "context: {engine: dataspace, dataspace: {guard: maybe, engines: [x], enabled: false}}\n"
    )
    code, out = doctor(home)
    assert code == 1
    for said in (
        "context.dataspace.guard: 'maybe' is ignored",
        "x is in plugins.enabled and in context.dataspace.engines",
        "the engine x is no installed plugin",
        "compression.enabled is false",
        "context.dataspace.enabled is false",
    ):
        assert said in out


def test_somebody_elses_code_is_looked_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines and observers that are named outright are loaded, and each that cannot be is told; who stands in, too."""
    start = "plugins: {enabled: [dataspace]}\ncontext: {engine: dataspace, dataspace: {"
    (home / "config.yaml").write_text(f"{start}engines: [no.such:boot], observers: [snapshotter, no.such]}}}}\n")
    code, out = doctor(home)
    assert code == 0
    assert "the engine no.such:boot cannot be loaded (ModuleNotFoundError" in out
    assert "until then Hermes' own compressor (builtin) stands in" in out
    assert "the observer no.such cannot be loaded (ModuleNotFoundError" in out
    assert "filelock" not in out
    monkeypatch.setattr("bridges.cli.doctor.find_spec", lambda _name: None)
    there = "engines: ['engines.compressor:compressor', bogus], observers: [snapshotter, json.tool, gone]"
    (home / "config.yaml").write_text(f"{start}{there}}}}}\n")
    _, out = doctor(home)
    assert "engines.compressor:compressor cannot" not in out
    assert "until then the others serve" in out
    assert "json.tool cannot" not in out
    assert "filelock is missing: no snapshots will be kept" in out
    assert "there is no observer 'gone'; known are skills, snapshotter, telemetry, and a module of your own is" in out


def test_switches_in_the_environment_are_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either makes everything else in vain."""
    run("enable", "--home", str(home))
    monkeypatch.setenv("HERMES_SAFE_MODE", "1")
    monkeypatch.setenv("HERMES_DATASPACE", "off")
    code, out = doctor(home)
    assert code == 1
    assert "HERMES_SAFE_MODE is set" in out
    assert "HERMES_DATASPACE is off" in out


def test_an_environment_without_the_host_or_the_entry_point_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The most common slip: installed into another environment."""
    from importlib.metadata import PackageNotFoundError

    from bridges.cli import doctor as module

    def known(name: str) -> str:
        if name == "hermes-agent":
            raise PackageNotFoundError(name)
        return "0"

    monkeypatch.setattr(module, "version", known)
    monkeypatch.setattr(module, "entry_points", lambda group: ())
    said = [finding.what for finding in examine(home) if finding.bad]
    assert "hermes-agent is not installed in this environment" in said
    assert "the plugin's entry point is missing" in said
    monkeypatch.setattr(module, "version", lambda _name: "9.9")
    assert any("9.9" in finding.what and finding.mark == "mind" for finding in examine(home))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_cannot_be_written_to_is_told(home: Path) -> None:
    """Nothing would be kept."""
    home.chmod(0o500)
    try:
        assert any("cannot be written" in finding.what for finding in examine(home))
    finally:
        home.chmod(0o700)


def test_a_file_of_comments_only_counts_as_empty(home: Path) -> None:
    """YAML makes nothing of it."""
    (home / "config.yaml").write_text("# nothing yet\n")
    assert read_config(home).data == {}
    assert run("enable", "--home", str(home))[0] == 0
