"""Files that are written whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .errors import BadInput, RunFailed
from .session import shown

__all__ = ["check_target", "write_messages", "write_whole"]


def check_target(option: str, target: Path, source: Path | None) -> None:
    """Raise `BadInput` for a file that could not be written in the end, or that is the input itself."""
    named = f"{option} {shown(target)}"
    if target.is_dir():
        raise BadInput(f"{named} is a directory; give the name of a file in it")
    if not target.parent.is_dir():
        raise BadInput(f"{named}: there is no directory {shown(target.parent)}; make it first")
    if not os.access(target.parent, os.W_OK):
        raise BadInput(f"{named}: the directory {shown(target.parent)} cannot be written to; choose another")
    if source is not None and target.exists() and target.samefile(source):
        raise BadInput(f"{named} is the session file itself; give another name")


def write_messages(target: Path, messages: Iterable[Any]) -> None:
    """Write a message list, one JSON object a line."""
    write_whole(target, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in messages))


def write_whole(target: Path, text: str) -> None:
    """Put `text` into a file in one step: whoever reads it sees the old contents or the new.  Raises `RunFailed`."""
    try:
        if target.exists() and not target.is_file():  # a pipe or a device is written to, not replaced
            target.write_text(text, encoding="utf-8")
            return
        _replace(target.resolve(), text)
    except OSError as error:
        raise RunFailed(f"{shown(target)} was not written: {error.strerror or error}") from None


def _replace(target: Path, text: str) -> None:
    fresh = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.new")
    try:
        with fresh.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            fresh.chmod(target.stat().st_mode & 0o7777)
        fresh.replace(target)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise
