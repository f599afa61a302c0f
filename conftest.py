"""The code blocks of README and docs are tests: each file runs from top to bottom in one namespace."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser


def _leave_for_a_while(namespace: dict[str, Any]) -> None:
    """Blocks write files where they stand; let that be nowhere."""
    namespace["_home"], namespace["_away"] = Path.cwd(), tempfile.TemporaryDirectory()
    os.chdir(namespace["_away"].name)


def _come_home(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_home"])
    namespace["_away"].cleanup()


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "docs/**/*.md"],
    setup=_leave_for_a_while,
    teardown=_come_home,
).pytest()
