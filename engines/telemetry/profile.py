"""Whose work it is: the name under which what happens is remembered."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import PurePosixPath, PureWindowsPath

__all__ = ["DEFAULT", "resolve_profile"]

DEFAULT = "default"
"""The profile of whoever has no other."""


def resolve_profile(env: Mapping[str, str] | None = None, hermes_home: str | PathLike[str] | None = None) -> str:
    """The name of the profile that a session belongs to.

    `env` is the environment of this process by default.  `AGENT_PROFILE` in it comes first, as it is given; then the
    name of a home `…/profiles/<name>`, where the home is `hermes_home` or, without one, `HERMES_HOME` in `env`; else it
    is `default`.  Something blank counts as not given.
    Looks at names only, not at the disk.  One process may serve several profiles, so ask at the start of each session.
    """
    env = os.environ if env is None else env
    named = env.get("AGENT_PROFILE", "")
    if named.strip():
        return named
    return _profile_of(fspath(hermes_home or "") or env.get("HERMES_HOME", "")) or DEFAULT


def _profile_of(home: str) -> str:
    """The name of a home that lies right under `profiles`; a base home below some other `profiles` is none."""
    path = PureWindowsPath(home) if "\\" in home and not home.startswith("/") else PurePosixPath(home)
    return path.name if path.parent.name == "profiles" else ""
