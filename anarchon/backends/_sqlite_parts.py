"""The files that a SQLite store is made of, and whether they are still the same ones.

A store is its file and, beside it, the log (``-wal``) and the log's index (``-shm``). A
connection goes on with what it has opened, also when somebody removes or replaces one of
them; whoever connects then gets other files, and the two sides never see each other's
records again. So what a connection has opened is compared with what lies at the names.
"""

# ruff: noqa: PTH116, PTH208 (`os.path` is loaded anyway, `pathlib` costs milliseconds)

from __future__ import annotations

import os
from contextlib import suppress
from typing import TypeAlias

Identity: TypeAlias = tuple[int, int] | None  # device and number of a file; None: no file

_OPEN_FILES = "/proc/self/fd"


class Parts:
    """The files of one store, as one connection found them."""

    __slots__ = ("_names", "_seen")

    def __init__(self, path: str) -> None:
        real = os.path.realpath(path)  # where SQLite puts the side files, whatever the link
        self._names = (path, f"{real}-wal", f"{real}-shm")
        self._seen: tuple[Identity, ...] | None = None

    @property
    def are_known(self) -> bool:
        """Whether they were looked at before."""
        return self._seen is not None

    def remember(self) -> None:
        """Look at them, to know them again."""
        self._seen = tuple(map(_identity, self._names))

    def are_the_same(self) -> bool:
        """Whether they are those that were remembered. It costs three looks, a few µs."""
        return self._seen == tuple(map(_identity, self._names))

    def log_is_another(self) -> bool:
        """Whether somebody else's log, or index of it, lies in the place of those remembered."""
        if self._seen is None:
            return False
        now = map(_identity, self._names[1:])
        pairs = zip(self._seen[1:], now, strict=True)
        return any(found is not None and found != seen for seen, found in pairs)

    def log_is_empty(self) -> bool:
        """Whether there is a log with nothing in it."""
        try:
            return os.stat(self._names[1]).st_size == 0
        except OSError:
            return False

    def are_open_here(self) -> bool:
        """Whether this process has open what lies at the names, and not what lay there before.

        All connections of a process to one file share the index of its log, by SQLite's
        own doing: as long as an old one is open, a new one is given the old index. A log
        without an index belongs to one that lies nowhere any more. Where the system doesn't
        tell which files are open, they are taken to be these.
        """
        try:
            numbers = os.listdir(_OPEN_FILES)
        except OSError:
            return True
        found = set()
        for number in numbers:
            with suppress(OSError):  # closed meanwhile, or the one that lists them
                status = os.fstat(int(number))
                found.add((status.st_dev, status.st_ino))
        file, log, index = map(_identity, self._names)
        if log is not None and index is None:
            return False
        return found.issuperset(filter(None, (file, log, index)))


def _identity(name: str) -> Identity:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_dev, found.st_ino
