"""Draws the pictures of the documentation anew: `python -m tests.pictures`.

Each is what a headless browser shows of a page that the command has made, from sessions of the project's own.  Needs
Chromium or Chrome, whichever of its names is on the PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.conftest import CHECKOUT

__all__ = ["browser", "draw", "main"]

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PICTURES = CHECKOUT / "docs" / "pictures"


def browser() -> str | None:
    """The browser that can draw; None where there is none."""
    return next((found for name in _BROWSERS if (found := shutil.which(name))), None)


def draw(program: str, page: Path, picture: Path, size: tuple[int, int]) -> None:
    """A picture of a page, in a profile of its own that is thrown away; raises `CalledProcessError`."""
    with tempfile.TemporaryDirectory() as root:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb"]
        options += [f"--user-data-dir={root}", f"--window-size={size[0]},{size[1]}", f"--screenshot={picture}"]
        subprocess.run([program, *options, page.as_uri()], check=True, capture_output=True, timeout=120)


def report(root: Path) -> Path:
    """The report on the demo, and on the same session of another profile with another threshold."""
    home, page = root / "home", root / "report.html"
    env = {**os.environ, "AGENT_PROFILE": "parcels", "HERMES_HOME": str(home)}
    session = CHECKOUT / "bridges" / "cli" / "demo.jsonl"
    limits = ["--context-length", "32000", "--threshold", "26000"]
    for words in (
        ["demo", "--home", str(home), "--pace", "0"],
        ["replay", str(session), *limits, "--home", str(home), "--profile", "research"],
        ["telemetry", "report", "--home", str(home), "--out", str(page)],
    ):
        run = [sys.executable, "-m", "bridges.cli", *words]
        subprocess.run(run, cwd=CHECKOUT, env=env, check=True, stdout=subprocess.DEVNULL)
    return page


def main() -> int:
    """Draw all of them."""
    program = browser()
    if program is None:
        print(f"No browser found: install Chromium, or put one of {', '.join(_BROWSERS)} on the PATH.", file=sys.stderr)
        return 1
    _PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as root:
        draw(program, report(Path(root)), _PICTURES / "telemetry.png", (960, 1000))
    print(_PICTURES / "telemetry.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
