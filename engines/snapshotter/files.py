"""Files of one folder: written whole or not at all, never through a link, readable by their owner only.

Everything here blocks and raises `OSError`.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["TEMPORARY", "make_private", "read_file", "remove", "sweep", "write_file"]

TEMPORARY = ".tmp"
"""How names of files end that are being written."""

_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_READ = os.O_RDONLY | _NO_LINKS | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a pipe must not hang us
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS | getattr(os, "O_BINARY", 0)
_OTHERS = 0o077


def make_private(folder: Path) -> None:
    """Make the folder if there is none, and see to it that nobody else can look into it; a link in its place is refused."""
    if not os.path.lexists(folder):
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder} is {'a link' if stat.S_ISLNK(found.st_mode) else 'no folder'}; remove it")
    if found.st_mode & _OTHERS:
        folder.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)


def write_file(path: Path, data: bytes) -> None:
    """Write a file so that whoever looks sees what stood there before or all of this, also after a power failure."""
    temporary = path.with_name(f"{path.stem}.{secrets.token_hex(8)}{TEMPORARY}")
    descriptor = os.open(temporary, _WRITE, 0o600)
    try:
        try:
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, 0o600)  # whatever the umask takes away, the owner can read it
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _settle(path.parent)


def read_file(path: Path, most: int) -> bytes:
    """Read an ordinary file of at most `most` bytes; raises `OSError` for anything else."""
    descriptor = os.open(path, _READ)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise IsADirectoryError(f"{path.name} is no ordinary file")
        if found.st_size > most:
            raise OSError(f"{path.name} is larger than {most:,} bytes")
        parts, left = [], most
        while left > 0 and (part := os.read(descriptor, min(left, 65_536))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def remove(path: Path) -> bool:
    """Remove a file or a link, or a folder that is empty; False if it is not there."""
    try:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
    except FileNotFoundError:
        return False
    return True


def sweep(folder: Path) -> None:
    """Remove what writers have left that were killed.  Only whoever holds the folder's lock may call this."""
    with os.scandir(folder) as found:
        left = [Path(entry.path) for entry in found if entry.name.endswith(TEMPORARY)]
    for path in left:
        with suppress(OSError):
            remove(path)


def _settle(folder: Path) -> None:
    """Make a change of names in a folder last; not every system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:  # as on Windows, which has no such thing
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
