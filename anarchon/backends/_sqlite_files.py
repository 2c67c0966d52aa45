"""What a SQLite store needs from the operating system: a local disk, and a queue of writers."""
# ruff: noqa: PTH112, PTH116, PTH120, PTH123 (`os.path` is loaded anyway, `pathlib` would cost milliseconds at import)

from __future__ import annotations

import errno
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from ..errors import BackendUnavailable
from ._sqlite_forks import inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

LONGEST_QUEUE = 1.0  # seconds; fifty writers are through in a quarter of that

# SQLite's primary result codes, as far as there is something to say about them.
ERROR, BUSY, LOCKED, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, PROTOCOL, NOTADB = (
    1, 5, 6, 8, 10, 11, 13, 14, 15, 26,
)  # fmt: skip

TOO_MANY_FILES = {
    errno.EMFILE: "this process has as many files open as it may; raise its limit (ulimit -n), or "
    "close some.",
    errno.ENFILE: "this machine has as many files open as it may; raise its limit (fs.file-max), "
    "or end some programs.",
}

# File systems of other machines, on which SQLite's locks or its shared memory don't hold.
NETWORK_FILE_SYSTEMS = frozenset((
    "afs", "beegfs", "ceph", "ceph-fuse", "cifs", "davfs", "davfs2", "gcsfuse", "gfs2",
    "glusterfs", "gpfs", "juicefs", "lustre", "ncpfs", "nfs", "nfs3", "nfs4", "ocfs2",
    "orangefs", "rclone", "s3fs", "smb", "smb2", "smb3", "smbfs", "sshfs",
))  # fmt: skip


def boot_id() -> str:
    """Return what tells this boot of the host from another one; "" where nothing does.

    Raises:
        BackendUnavailable: Too many files are open. It must not be mistaken for a host that
            can't tell: every lease of the others would seem to be of another boot.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError as error:
        if error.errno in TOO_MANY_FILES:
            raise BackendUnavailable(
                f"The host's boot can't be told: {TOO_MANY_FILES[error.errno]}"
            ) from error
        return ""


def file_system_of(path: str) -> str:
    """Return the type of the file system that holds `path`; "" where it can't be told."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split() for line in file]
    except OSError:
        return ""
    found, where = "", os.path.realpath(path)
    longest = 0
    for fields in mounts:
        point = fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        inside = where == point or where.startswith(point.rstrip("/") + "/")
        # Of two mounts on one point the later one is on top.
        if inside and len(point) >= longest and "-" in fields:
            found, longest = fields[fields.index("-") + 1], len(point)
    return found


def is_missing(path: str) -> bool:
    """Whether there is a folder for this file, but no such file in it (yet)."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return os.path.isdir(os.path.dirname(path))
    except OSError:
        return False  # opening it will tell
    return False


def is_network(file_system: str) -> bool:
    """Whether files of this file system may be on another machine."""
    return file_system.lower().removeprefix("fuse.") in NETWORK_FILE_SYSTEMS


def code_of(error: BaseException) -> int:
    """Return the primary result code of a SQLite error, 0 when it has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def patiently(attempt: Callable[[], T], deadline: float) -> T:
    """Call `attempt` again while others hold the lock, until `deadline` (monotonic seconds).

    Between two tries lies a short random time, so that many waiters don't meet again.
    """
    import sqlite3

    longest = 0.001
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if code_of(error) not in (BUSY, LOCKED, PROTOCOL) or time.monotonic() >= deadline:
                raise
        nap(longest)
        longest = min(longest * 1.5, 0.02)


def nap(longest: float) -> None:
    """Sleep for a random time up to `longest` seconds, outside: a fork needn't wait for it."""
    from random import uniform

    was_inside = inside.leave()
    try:
        time.sleep(uniform(longest / 4, longest))
    finally:
        if was_inside:
            inside.come_back()


@contextmanager
def writers_queue(path: str, deadline: float) -> Iterator[None]:
    """Hold the queue of writers, or go on without it when that takes too long.

    SQLite's own waiting lets fifty writers sleep past each other; taking turns at a side
    file is far quicker. It orders writers and protects nothing, so where it can't be had
    (no `fcntl`, a folder without write permission, a frozen holder) the write goes on.
    """
    file = None
    now = time.monotonic()
    try:
        file = _enter(path, now + min(LONGEST_QUEUE, (deadline - now) / 2))
        yield
    finally:
        if file is not None:
            _leave(file)


def _enter(path: str, deadline: float) -> int | None:
    try:
        import fcntl  # noqa: F401 - where it is missing there is no queue

        file = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except (ImportError, OSError):
        return None
    locked = False
    try:
        locked = _lock(file, deadline)
    finally:
        if not locked:
            os.close(file)
    return file if locked else None


def _lock(file: int, deadline: float) -> bool:
    import fcntl

    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        except OSError:
            return False
        else:
            return True
        nap(0.001)


def _leave(file: int) -> None:
    # Unlocked by name, because a child forked meanwhile holds the same open file.
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_UN)
    finally:
        os.close(file)
