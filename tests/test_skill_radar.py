"""The skill that comes with the plugin: valid, loadable in the host, and every command in it is one of the host's."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bridges.hermes.snapshots_command import SKILL, SKILLS
from tests.conftest import CHECKOUT

FOLDER = SKILLS / SKILL
TEXT = (FOLDER / "SKILL.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"^```bash\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if line.strip() and not line.startswith("#")
]
OFFLINE = re.compile(r"hermes skills (?:list|audit|inspect)\b|.*--source official")


def environment(root: Path) -> dict[str, str]:
    """A home of its own, with the plugin enabled and one official skill to be had without a network."""
    home = root / ".hermes"
    home.mkdir()
    (home / "config.yaml").write_text(
        "plugins: {enabled: [dataspace]}\ncontext: {engine: dataspace}\n", encoding="utf-8"
    )
    shutil.copytree(CHECKOUT / "tests" / "hermes" / "skills", root / "official" / "dev")
    return {
        "HOME": str(root),
        "HERMES_HOME": str(home),
        "HERMES_OPTIONAL_SKILLS": str(root / "official"),
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": str(CHECKOUT),
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }


def run(root: Path, env: dict[str, str], *command: str) -> str:
    """What a command of the host says; it must end well."""
    done = subprocess.run(
        command, cwd=root, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )
    assert 0 == done.returncode, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def test_it_is_valid() -> None:
    """By the specification's own validator: name as its folder, description, no field of anybody's invention."""
    from skills_ref.validator import validate

    assert [] == validate(FOLDER)


def test_it_is_short_enough_to_be_read() -> None:
    """Under the limits that the specification names for what is loaded at once."""
    assert len(TEXT.splitlines()) < 500
    assert len(TEXT) / 4 < 5_000


def test_it_says_what_it_is_to_say() -> None:
    """Search before browse before build, several keywords, a table of decisions, trust, and what to write down."""
    places = [TEXT.index(f"hermes skills {word}") for word in ("list", "search", "browse", "inspect", "install")]
    assert sorted(places) == places
    assert {"list", "search", "browse", "inspect", "install", "audit"} == {shlex.split(line)[2] for line in COMMANDS}
    for part in ("| what you found | do this |", "keywords", "trust", "Nearest:", "--force"):
        assert part in TEXT, part


def test_it_is_in_the_wheel() -> None:
    """It lies in a package, beside the modules, where the wheel takes it along."""
    assert FOLDER.is_relative_to(CHECKOUT / "bridges" / "hermes")
    packages = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'packages = ["dataspace", "engines", "bridges"]' in packages


@pytest.mark.hermes
def test_the_host_loads_it_by_its_name(tmp_path: Path) -> None:
    """As `dataspace:skill-radar`, whole; the command and the tool's observer are registered with it."""
    pytest.importorskip("hermes_cli")
    program = (
        "import json\n"
        "from hermes_cli.plugins import discover_plugins, get_plugin_commands\n"
        "discover_plugins()\n"
        "from tools.skills_tool import skill_view\n"
        "view = json.loads(skill_view('dataspace:skill-radar'))\n"
        "print(json.dumps([view['success'], view['content'], sorted(get_plugin_commands())]))\n"
    )
    said = run(tmp_path, environment(tmp_path), sys.executable, "-c", program)
    success, content, commands = json.loads(said.splitlines()[-1])
    assert success
    assert TEXT.strip() in content
    assert {"context-bridge", "dataspace"} <= set(commands)


@pytest.mark.hermes
def test_every_command_in_it_runs(tmp_path: Path) -> None:
    """What needs no network runs as it stands, with an installed skill for the identifier; of the rest the host knows each flag.

    `inspect` reads the sources of the hub and no folder of installed skills, so the one that is inspected was installed
    from the one source that needs no network, the host's own.
    """
    pytest.importorskip("hermes_cli")
    env = environment(tmp_path)
    name = min(path.name for path in (tmp_path / "official" / "dev").iterdir())
    identifier = f"official/dev/{name}"
    run(tmp_path, env, "hermes", "skills", "install", identifier, "--yes")
    (installed,) = (tmp_path / ".hermes" / "skills").rglob(f"{name}/SKILL.md")
    helps: dict[str, str] = {}
    for line in COMMANDS:
        words = shlex.split(line.replace("IDENTIFIER", identifier))
        if OFFLINE.match(line):
            said = run(tmp_path, env, *words)
            assert "Error" not in said, line
            if "inspect" in words or words[-1] == "hub":
                assert name in said.replace("\n", "")
            if "inspect" in words:
                heading = next(
                    line for line in installed.read_text(encoding="utf-8").splitlines() if line.startswith("# ")
                )
                assert "SKILL.md Preview" in said
                assert heading in said
        known = (
            helps.setdefault(words[2], run(tmp_path, env, *words[:3], "--help"))
            if words[2] not in helps
            else helps[words[2]]
        )
        for flag in (word for word in words if word.startswith("-")):
            assert flag in known, line
