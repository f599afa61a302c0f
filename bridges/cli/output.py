"""Files that are written whole or not at all."""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .errors import BadInput, RunFailed
from .session import reason_of, shown

__all__ = ["check_target", "write_messages", "write_whole"]

_LEFT_BEHIND = 3600.0  # seconds after which nobody is still writing a fresh file


def check_target(option: str, target: Path | str, source: Path | int | None) -> None:
    """Raise `BadInput` for a file that could not be written in the end, or that is the input itself.

    `target` is best given as it was typed: a `Path` does not keep the slash that makes a directory of it.  `source`
    may be a file descriptor.  Where the file is to be made one is made and taken away, for nothing else tells surely.
    """
    named = f"{option} {shown(target)}"
    if target == "":
        raise BadInput(f"{option} is empty; give the name of a file")
    if os.path.basename(target) in {"", ".", ".."}:  # noqa: PTH119 - as it was typed
        raise BadInput(f"{named} is a directory; give the name of a file in it")
    try:
        problem = _problem(Path(target), source)
    except (OSError, ValueError) as error:
        problem = f": it cannot be written to ({reason_of(error)}); choose another"
    if problem is not None:
        raise BadInput(named + problem)


def _problem(target: Path, source: Path | int | None) -> str | None:
    state, real = _state(target), _real(target)
    if state is None and not real.parent.is_dir():
        return f": there is no directory {shown(real.parent)}; make it first"
    if state is not None and stat.S_ISDIR(state.st_mode):
        return " is a directory; give the name of a file in it"
    if state is not None and source is not None and os.path.samestat(state, os.stat(source)):  # noqa: PTH116
        return " is the session file itself; give another name"
    if state is not None and not stat.S_ISREG(state.st_mode):
        return None if os.access(target, os.W_OK) else ": it may not be written to; choose another"
    try:
        _try_out(_fresh(real))
    except OSError as error:
        return f": the directory {shown(real.parent)} cannot be written to ({reason_of(error)}); choose another"
    return None


def write_messages(target: Path, messages: Iterable[Any]) -> None:
    """Write a message list, one JSON object a line.  Raises `RunFailed`."""
    lines = []
    for number, row in enumerate(messages, 1):
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        try:
            lines[-1].encode("utf-8")
        except UnicodeEncodeError as error:
            half = f"\\u{ord(lines[-1][error.start]):04x}"
            raise RunFailed(
                f"{shown(target)} was not written: message {number} holds {half}, half of a surrogate pair and no"
                " character; see which engine made it"
            ) from None
    write_whole(target, "".join(lines))


def write_whole(target: Path, text: str) -> None:
    """Put `text` into a file in one step: whoever reads it sees the old contents or the new.  Raises `RunFailed`."""
    try:
        state = _state(target)
        if state is not None and not stat.S_ISREG(state.st_mode):  # a pipe or a device is written to, not replaced
            target.write_text(text, encoding="utf-8")
        else:
            _replace(_real(target), text)
    except OSError as error:
        raise RunFailed(f"{shown(target)} was not written: {reason_of(error)}") from None


def _state(target: Path) -> os.stat_result | None:
    try:
        return target.stat()
    except FileNotFoundError:
        return None


def _real(target: Path) -> Path:
    """What the links end at, whether it is there or not."""
    return Path(os.path.realpath(target))


# -- fresh files ------------------------------------------------------------------------------------------------------


def _prefix(target: Path) -> str:
    """How the names of fresh files for `target` begin; short enough in any encoding, and with no other's in common."""
    return f".{target.name[:40]}.{zlib.crc32(os.fsencode(target.name)):08x}"


def _fresh(target: Path) -> Path:
    return target.with_name(f"{_prefix(target)}{secrets.token_hex(4)}.new")


def _try_out(fresh: Path) -> None:
    try:
        fresh.open("xb").close()
    finally:
        fresh.unlink(missing_ok=True)


def _replace(target: Path, text: str) -> None:
    _sweep(target)
    fresh = _fresh(target)
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


def _sweep(target: Path) -> None:
    """Take away what a process that was killed in the midst of writing `target` has left."""
    name = re.compile(re.escape(_prefix(target)) + r"[0-9a-f]{8}\.new")
    limit = time.time() - _LEFT_BEHIND
    with suppress(OSError):
        for left in [path for path in target.parent.iterdir() if name.fullmatch(path.name)]:
            state = left.lstat()
            if stat.S_ISREG(state.st_mode) and state.st_mtime < limit:
                left.unlink()
