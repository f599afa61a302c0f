"""A file that others append to and rewrite as well: the lock, the right file under it, whole lines."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # a system without it: writers of one process still take turns
    fcntl = None  # type: ignore[assignment]

__all__ = ["LockedFile", "locked", "make_folder", "read_whole"]

_PATIENCE = 300.0  # seconds in which a file is replaced again and again before it is given up
_NAP = 50e-6  # seconds between two looks of somebody in haste
_CALM = 5.0  # seconds without a replacement after which haste is of no use
_PIECE = 65_536  # bytes that are read at once on the way back to the beginning of the last line
_LONGEST = 4_000_000  # bytes of a line that are read in search of its beginning
_PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)


@contextmanager
def locked(path: Path, root: Path | None = None) -> Iterator[LockedFile]:
    """The file, made if there is none, under an exclusive lock on itself.  Waits for whoever holds it.

    Its folders are made, too, below `root` if that is there; nothing is made where it is not.
    """
    fd = _held(path, root)
    try:
        yield LockedFile(fd)
    finally:
        _let_go(fd)


def _let_go(fd: int) -> None:
    """Unlock and close.  To close it would not do: a child forked meanwhile has the file open, and with it the lock."""
    try:
        if fcntl is not None:
            fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        os.close(fd)


def _held(path: Path, root: Path | None) -> int:
    """The file that has the name, open and locked.

    A tool that rewrites the file by renaming another to its name leaves those that waited with the lock of a file that is
    gone, and takes that of the new one before they are awake.  Whoever has met that waits no more for the system to wake
    it: it looks again and again whether the file, or the one that has its name by then, is free.
    """
    end = time.monotonic() + _PATIENCE
    haste = False
    while time.monotonic() < end:
        fd, mine = _opened(path, root), False
        try:
            mine = _lock(path, fd, haste=haste)
            if mine:
                return fd
        finally:
            if not mine:
                _let_go(fd)
        haste = True
    raise OSError(f"{path} is replaced again and again, faster than it can be written to")


def _lock(path: Path, fd: int, *, haste: bool) -> bool:
    """Wait for the lock of an open file; False once another file has its name."""
    calm = time.monotonic() + _CALM
    while fcntl is not None and haste and time.monotonic() < calm:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return _still(path, fd)
        except BlockingIOError:
            time.sleep(_NAP)
        if not _still(path, fd):
            return False
    if fcntl is not None:
        fcntl.flock(fd, fcntl.LOCK_EX)
    return _still(path, fd)


def _opened(path: Path, root: Path | None) -> int:
    flags = os.O_APPEND | os.O_CREAT | _PLAIN
    try:
        pipe = stat.S_ISFIFO(path.stat().st_mode)
    except FileNotFoundError:
        make_folder(path.parent, root)
        pipe = False
    return os.open(path, flags | (os.O_WRONLY if pipe else os.O_RDWR), 0o600)


def _still(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def make_folder(folder: Path, root: Path | None = None) -> None:
    """Make a folder, and what it lies in, where there is none; nobody but the owner can look into what is made.

    Raises `FileNotFoundError` where there is no `root`, and makes nothing then.
    """
    if root is not None and not root.is_dir():
        raise FileNotFoundError(errno.ENOENT, "what it belongs to is not there", str(root))
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)


def read_whole(path: Path) -> bytes:
    """All that is in the file, not in the midst of somebody's rewriting it.  Raises `OSError`.

    A pipe that nobody writes to holds nothing, and is not waited for.
    """
    fd = os.open(path, os.O_RDONLY | _NO_WAIT | _PLAIN)
    try:
        if hasattr(os, "set_blocking"):  # not on every system, and then it has no such pipes
            os.set_blocking(fd, True)
        if fcntl is not None:
            fcntl.flock(fd, fcntl.LOCK_SH)  # if it is replaced now, this is what it was, and whole
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read()
    except OSError as error:
        error.filename = os.fspath(path)  # which the system does not know of an open file
        raise
    finally:
        _let_go(fd)


class LockedFile:
    """What may be done to the file while it is locked."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.state = os.fstat(fd)
        self._regular = stat.S_ISREG(self.state.st_mode)

    def last_line(self) -> bytes:
        """The last line, without its end; empty where there is none, or where nothing can be read (a pipe).

        Of one that is longer than any entry only the end.
        """
        end, tail = self.state.st_size if self._regular else 0, b""
        while end > 0 and len(tail) < _LONGEST and b"\n" not in tail.rstrip(b"\n"):
            start = max(0, end - _PIECE)
            tail = self._read(end - start, start) + tail
            end = start
        return tail.rstrip(b"\n").rpartition(b"\n")[2]

    def mend(self) -> None:
        """End a line that another writer was kept from ending, so that it takes none of ours with it."""
        size = os.fstat(self._fd).st_size
        if self._regular and size and self._read(1, size - 1) != b"\n":
            os.write(self._fd, b"\n")

    def _read(self, count: int, start: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self._fd, count, start)
        os.lseek(self._fd, start, os.SEEK_SET)  # where it is read from is no matter to what is appended
        return os.read(self._fd, count)

    def write(self, line: bytes) -> None:
        """Append a line with one write.  Where it does not fit whole, nothing of it stays, and an `OSError` is raised."""
        done = os.write(self._fd, line)
        if done == len(line):
            return
        try:
            while done < len(line):  # a signal came in between, or the disk is full, which the next write says
                done += os.write(self._fd, line[done:])
        except OSError:
            if self._regular:
                os.ftruncate(self._fd, os.fstat(self._fd).st_size - done)
            raise

    def size(self) -> int:
        """Bytes in it now."""
        return os.fstat(self._fd).st_size
