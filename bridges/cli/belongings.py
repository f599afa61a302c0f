"""`--profile` and `--home`: to whom a replayed session belongs, and where its engines keep what outlasts it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from engines.telemetry import resolve_profile

from .errors import BadInput
from .session import reason_of, shown

__all__ = ["belongings"]


def belongings(profile: str | None, home: str | None) -> dict[str, Any]:
    """The two as settings; raises `BadInput`.

    A directory that does not exist is made, with those above it, readable for its owner only.
    """
    if profile is not None and not profile.strip():
        raise BadInput("--profile is empty; give the name of a profile, such as default")
    place = None if home is None else _directory(home)
    return {"home": place, "profile": profile or resolve_profile(os.environ, home)}


def _directory(home: str) -> Path:
    if not home.strip():
        raise BadInput("--home is empty; give the path of a directory")
    path = Path(home).absolute()
    try:
        for one in (*reversed(path.parents), path):
            one.mkdir(mode=0o700, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise BadInput(f"--home {shown(home)} is not a directory; give the path of one") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"--home {shown(home)} cannot be made ({reason_of(error)}); choose another") from None
    return path
