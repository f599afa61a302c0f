"""Where logs lie: a home's own, and a portable brain's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from time import monotonic

__all__ = ["Commit", "NoBrainError", "brain_log", "expanded", "local_log", "logs_in", "real_home", "run_id"]

_IN_BRAIN = Path("memory", "episodic", "AGENT_LEARNINGS.jsonl")
_ENOUGH = 2.0  # seconds git may take to name a commit
_FRESH = 60.0  # seconds for which its answer is good


class NoBrainError(ValueError):
    """A directory holds no portable brain."""


def real_home() -> Path:
    """The user's home as the system knows it, even where a host has set another `$HOME`."""
    try:
        import pwd  # noqa: PLC0415 - not on every system

        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):
        return Path.home()


def expanded(path: str | PathLike[str]) -> Path:
    """A path with `~` as the user's real home."""
    found = Path(path)
    if found.parts[:1] == ("~",):
        return real_home().joinpath(*found.parts[1:])
    return found.expanduser()


def local_log(home: str | PathLike[str]) -> Path:
    """The log that belongs to a home (of a profile, of a replay)."""
    return expanded(home) / "dataspace" / "telemetry" / "episodic.jsonl"


def logs_in(home: str | PathLike[str]) -> list[Path]:
    """The logs there are below a home: its own, and those of the profiles in it, by name."""
    place = expanded(home)
    homes = [place, *sorted(path for path in (place / "profiles").glob("*") if path.is_dir())]
    return [log for log in map(local_log, homes) if log.exists()]


def brain_log(directory: str | PathLike[str]) -> Path:
    """The log where a portable brain's own tools read; `directory` is the brain `.agent` or what holds it.

    Raises `NoBrainError` where there is none: a brain is not made by writing to it.
    """
    given = expanded(directory)
    for root in (given / ".agent", given):
        if (root / "memory").is_dir():
            return root / _IN_BRAIN
    raise NoBrainError(f"{given} holds no portable brain: neither it nor a directory .agent in it has memory/")


def run_id(env: Mapping[str, str]) -> str:
    """The name of this run: `AGENT_RUN_ID`, else the process."""
    return env.get("AGENT_RUN_ID") or f"pid-{os.getpid()}"


class Commit:
    """The commit a brain is at; empty where there is none.  Asks git, for at most two seconds, once a minute."""

    def __init__(self, log: Path) -> None:
        in_brain = log.parts[-len(_IN_BRAIN.parts) :] == _IN_BRAIN.parts
        self._root = log.parents[len(_IN_BRAIN.parts) - 1] if in_brain else None
        self._asked: float | None = None
        self._sha = ""

    def sha(self) -> str:
        """The latest answer."""
        if self._root is not None and (self._asked is None or monotonic() - self._asked > _FRESH):
            self._sha = _head(self._root)
            self._asked = monotonic()
        return self._sha


def _head(root: Path) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607 - whichever git the user has
            cwd=root,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ENOUGH,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
