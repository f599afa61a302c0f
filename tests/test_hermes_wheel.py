"""The built wheel beside the real host, as somebody installs it: first chat, upgrade, uninstall."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from bridges.hermes.hooks import _HOOKS
from tests.conftest import CHECKOUT
from tests.hermes_adapter.model import Model, Say

pytestmark = pytest.mark.hermes

OURS = ("dataspace", "engines", "bridges")
LATER = "999.1"
TIMEOUT = 300


def version() -> str:
    """The version of the checkout."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def build(root: Path, number: str | None = None) -> Path:
    """Build a wheel of the checkout with the build backend it names, perhaps under another version."""
    source = root / f"source-{number}"
    source.mkdir(parents=True)
    for name in (*OURS, "pyproject.toml", "README.md", "LICENSE"):
        place = CHECKOUT / name
        if place.is_dir():
            shutil.copytree(place, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(place, source / name)
    if number is not None:
        project = source / "pyproject.toml"
        text = project.read_text(encoding="utf-8")
        project.write_text(text.replace(f'\nversion = "{version()}"', f'\nversion = "{number}"', 1), encoding="utf-8")
    pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(root / "wheels"), str(source))
    return root / "wheels" / f"hermes_dataspace-{number or version()}-py3-none-any.whl"


def pip(python: str | Path, *args: str) -> str:
    """Run pip for an environment; it needs no network and looks for none."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--no-input"]
    if args[0] != "uninstall":
        args = (args[0], "--no-index", *args[1:])
    done = subprocess.run(
        [*command, *args], capture_output=True, text=True, timeout=TIMEOUT, check=False, stdin=subprocess.DEVNULL
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


class Place:
    """An empty environment beside the host, a home of its own, and what a user does there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home" / ".hermes"
        self.home.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / "env")], check=True, timeout=TIMEOUT)
        self.python = root / "env" / "bin" / "python"
        self.packages = next((root / "env" / "lib").glob("python*")) / "site-packages"
        (self.packages / "host.pth").write_text(f"{self._host()}\n", encoding="utf-8")
        self.hermes = root / "env" / "bin" / "hermes"
        script = "import sys\nfrom hermes_cli.main import main\nsys.exit(main())\n"
        self.hermes.write_text(f"#!{self.python}\n{script}", encoding="utf-8")
        self.hermes.chmod(0o755)

    def _host(self) -> Path:
        """All that is installed with this Python, the host among it, except for what the checkout has put there."""
        beside = self.root / "host"
        beside.mkdir()
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            name = entry.name.lower().lstrip("_")
            if name.startswith(("hermes_dataspace", "editable", "lossless")) or name in OURS or name.endswith(".pth"):
                continue
            (beside / entry.name).symlink_to(entry)
        return beside

    def configure(self, url: str, **more: object) -> None:
        """What the user has had in the file, and the two lines (JSON is YAML)."""
        model = {"provider": "custom", "base_url": url, "api_key": "none", "context_length": 64_000}
        config = {
            "model": {"default": "scripted", **model},
            "auxiliary": {"compression": {**model, "model": "summariser"}, "title_generation": {"enabled": False}},
            "agent": {"environment_probe": False, "verify_on_stop": False},
            "security": {"allow_lazy_installs": False},
            **more,
        }
        (self.home / "config.yaml").write_text(json.dumps(config), encoding="utf-8")

    def run(self, *command: object) -> str:
        """What it says on standard output."""
        environ = {
            "HOME": str(self.home.parent),
            "HERMES_HOME": str(self.home),
            "TMPDIR": str(self.root),
            "PATH": f"{self.root / 'env' / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "OPENAI_API_KEY": "none",
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.home.parent,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert 0 == done.returncode, done.stdout[-2000:] + done.stderr[-2000:]
        assert "Traceback" not in done.stdout + done.stderr
        return done.stdout

    def listed(self) -> list[str]:
        """The line of `hermes plugins list` that names the plugin."""
        lines = self.run(self.hermes, "plugins", "list", "--plain", "--no-bundled").splitlines()
        return [line for line in lines if "dataspace" in line.split()]

    def chat(self, said: str) -> str:
        """A question, and the answer on the screen."""
        return self.run(self.hermes, "chat", "-q", said, "--toolsets", "file")

    def log(self) -> str:
        """What the host has logged since the last look."""
        text = ""
        for path in sorted((self.home / "logs").glob("*.log")):
            text += path.read_text(encoding="utf-8", errors="replace")
            path.unlink()
        return text


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """The environment of a new user."""
    return Place(tmp_path)


@pytest.mark.slow
def test_installed_upgraded_uninstalled(place: Place) -> None:
    """Two lines and a first chat; a later wheel goes on with the session; without the package the host chats as before."""
    wheel = build(place.root)
    later = build(place.root, LATER)
    two_lines = {"context": {"engine": "dataspace"}, "plugins": {"enabled": ["dataspace"]}}
    with Model(Say(f"Hello number {at}.") for at in range(4)) as model:
        place.configure(model.url)
        assert [] == place.listed()
        assert "Hello number 0." in place.chat("Who is there?")
        place.log()

        pip(place.python, "install", "--no-deps", str(wheel))
        where = place.run(place.python, "-c", "import bridges, engines, dataspace; print(bridges.__file__)")
        assert where.startswith(str(place.packages))
        place.configure(model.url, **two_lines)
        (line,) = place.listed()
        assert "enabled" in line
        assert version() in line
        assert "Hello number 1." in place.chat("And now?")
        log = place.log()
        assert "Plugin 'dataspace' registered context engine: dataspace" in log
        assert "falling back to built-in" not in log

        pip(place.python, "install", "--no-deps", "--upgrade", str(later))
        (line,) = place.listed()
        assert LATER in line
        assert "Hello number 2." in place.run(
            place.hermes, "chat", "--continue", "-q", "Still there?", "--toolsets", "file"
        )
        log = place.log()
        assert "Plugin 'dataspace' registered context engine: dataspace" in log
        assert "falling back to built-in" not in log

        pip(place.python, "uninstall", "--yes", "hermes-dataspace")
        assert [] == [path.name for path in place.packages.iterdir() if path.name != "host.pth"]
        assert [] == place.listed()
        assert "Hello number 3." in place.chat("Who is there now?")
        assert "Context engine 'dataspace' not found" in place.log()  # the two lines are still there
    asked = [[row["content"] for row in request["messages"] if row["role"] == "user"] for request in model.turns]
    assert [["Who is there?"], ["And now?"], ["And now?", "Still there?"], ["Who is there now?"]] == asked


@pytest.mark.slow
def test_what_the_wheel_holds(tmp_path: Path) -> None:
    """The three packages with their data, the licence, both entry points, and nothing else."""
    with zipfile.ZipFile(build(tmp_path)) as wheel:
        names = wheel.namelist()
        entries = next(name for name in names if name.endswith("entry_points.txt"))
        points = wheel.read(entries).decode()
    tops = {name.partition("/")[0] for name in names}
    assert {*OURS, f"hermes_dataspace-{version()}.dist-info"} == tops
    for name in ("bridges/hermes/directory/plugin.yaml", "bridges/cli/demo.jsonl", "dataspace/py.typed"):
        assert name in names
    assert any(name.endswith("LICENSE") for name in names)
    assert "[hermes_agent.plugins]\ndataspace = bridges.hermes.plugin" in points
    assert "[console_scripts]\nhermes-dataspace = bridges.cli:main" in points


def test_the_directory_says_what_the_package_is() -> None:
    """The manifest of the plugin as a directory: the version of the package, and every hook that may be registered."""
    manifest = yaml.safe_load((CHECKOUT / "bridges/hermes/directory/plugin.yaml").read_text(encoding="utf-8"))
    assert version() == manifest["version"]
    assert sorted(_HOOKS) == sorted(manifest["hooks"])
