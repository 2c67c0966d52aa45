"""What to say when a SQLite store can't be used: what went wrong, and what to do about it."""

# ruff: noqa: PTH112, PTH116, PTH120 (`os.path` is loaded anyway, `pathlib` costs milliseconds)

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ..errors import BackendUnavailable
from . import _sqlite_files as files

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_PATH = 512  # bytes; SQLite's own limit, with the ends of the names of its side files


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Raise the driver's errors about the database at `path` with what to do about them.

    To be entered while a connection that failed is still open: closing it changes what can
    be found out.
    """
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        advice = _advice(path, files.code_of(error))
        raise BackendUnavailable(
            f"The SQLite store {path} can't be used ({error}): {advice}"
        ) from error


_LOCKED = (
    "another program holds its lock, or this one does for longer than a call may take; end that "
    "program or its transaction, or try again."
)
_FORBIDDEN = "this user may not open or create it; give write permission on file and folder."
_ADVICE = {
    files.ERROR: "its tables aren't as anarchon makes them; name another file, or drop its tables "
    "anarchon_*, and with them its history.",
    files.BUSY: _LOCKED,
    files.LOCKED: _LOCKED,
    files.PROTOCOL: _LOCKED,
    files.FULL: "its disk, or its quota, is full; make room.",
    files.CORRUPT: "it is no sound SQLite database; name another file, or restore this one.",
    files.NOTADB: "it is no SQLite database; name another file.",
    files.READONLY: "this user may not write it; give write permission on the file and its folder.",
    files.IOERR: "its disk fails or is full; see the system's log.",
    files.CANTOPEN: _FORBIDDEN,
}
_PROBLEMS = {
    **files.TOO_MANY_FILES,
    errno.ENAMETOOLONG: "its name or its path is too long; give a shorter one (with 8 bytes more, "
    "a name may have 255, a path 512).",
    errno.EACCES: _FORBIDDEN,
    errno.ENOTDIR: "a part of its path is a file and no folder; name another file.",
    errno.ELOOP: "its path is a circle of links; name another file.",
}


def _advice(path: str, code: int) -> str:
    if code != files.CANTOPEN:
        return _ADVICE.get(code, "see the cause.")
    problem = _PROBLEMS.get(_problem_with(path))
    if problem is not None:
        return problem
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        return f"the folder {folder} doesn't exist; create it."
    if os.path.isdir(path):
        return "it is a folder; name a file in it."
    return _FORBIDDEN


def _problem_with(path: str) -> int:
    """Return the number of the error that opening a file there meets, 0 for none.

    The file itself is not opened: to close it would drop SQLite's locks on it.
    """
    beside = f"{path}-journal"  # the longest name that SQLite gives to a file
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        for name in (path, beside):
            with suppress(FileNotFoundError):
                os.stat(name)
    except OSError as error:
        return error.errno or 0
    return errno.ENAMETOOLONG if len(os.fsencode(beside)) > LONGEST_PATH else 0
