"""A connection to a SQLite store: made ready, used for one transaction at a time, closed once."""

# ruff: noqa: PTH116 (`os.path` is loaded anyway, `pathlib` costs milliseconds)

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from ..errors import BackendError
from . import _sqlite_files as files
from ._sqlite_forks import inside
from ._sqlite_rows import TABLES, ReadOnlyRows, SqliteRows
from .base import FORMAT_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._local import Operation
    from ._rules import Moment

T = TypeVar("T")

# Connections of the process that this one was forked from. SQLite allows neither to use nor
# to close them here, so they are kept for as long as the process lives.
GRAVEYARD: list[object] = []


class Link:
    """One connection, of one thread in one process.

    Only its thread uses it; another thread may close it, at once when it is idle and else
    as soon as its call has ended.
    """

    __slots__ = (
        "__weakref__",
        "_connection",
        "_doomed",
        "_file",
        "_lock",
        "_path",
        "_pid",
        "_queue",
        "_synchronous",
    )

    def __init__(self, path: str, synchronous: str) -> None:
        import sqlite3

        self._pid = os.getpid()
        self._path = path
        self._queue = f"{os.path.realpath(path)}-queue"  # the same one behind every link to it
        self._lock = threading.Lock()
        self._doomed = False
        self._file: tuple[int, int] | None = None
        # No time-out and no transactions of the driver's own: who waits, and how, is said here.
        with inside:
            self._connection = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False
            )
        self._synchronous = synchronous

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            self.close()

    def is_current(self) -> bool:
        """Whether this connection is ours, whole, and still that of the file at its path."""
        if self._doomed or self._pid != os.getpid():
            return False
        return self._file is not None and self._file == _identity(self._path)

    def close(self) -> None:
        """Close the connection, or have it closed when its call ends; never raises."""
        self._doomed = True
        if self._pid != os.getpid():
            GRAVEYARD.append(self._connection)
        elif self._lock.acquire(blocking=False):
            try:
                with suppress(Exception), inside:
                    self._connection.close()
            finally:
                self._lock.release()

    # --- transactions -----------------------------------------------------------

    def use(self, work: Callable[[Link], T]) -> T:
        """Call `work` with nobody closing the connection meanwhile; a failed one is closed."""
        import sqlite3

        try:
            with self._lock, inside:
                return work(self)
        except sqlite3.Error:
            self._doomed = True
            raise
        finally:
            if self._doomed:
                self.close()

    def read(
        self, operation: Operation[T], namespace: str, now: Callable[[], Moment], deadline: float
    ) -> T:
        """Run an operation on a snapshot; it raises `WouldWrite` at its first write."""
        connection = self._connection

        def attempt() -> T:
            connection.execute("BEGIN")
            try:
                return operation(ReadOnlyRows(connection, namespace), now())
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

        return files.patiently(attempt, deadline)

    def write(
        self, operation: Operation[T], namespace: str, now: Callable[[], Moment], deadline: float
    ) -> T:
        """Run an operation in a transaction that had the write lock from its beginning."""
        connection = self._connection
        with files.writers_queue(self._queue, deadline):
            files.patiently(lambda: connection.execute("BEGIN IMMEDIATE"), deadline)
            try:
                answer = operation(SqliteRows(connection, namespace), now())
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        return answer

    def try_writing(self, deadline: float) -> None:
        """Take the write lock once: that the file can't be written is better known early."""
        with files.writers_queue(self._queue, deadline):
            files.patiently(lambda: self._connection.execute("BEGIN IMMEDIATE"), deadline)
            self._connection.execute("ROLLBACK")

    # --- what is stored ---------------------------------------------------------

    def has_tables(self, deadline: float) -> bool:
        """Whether the tables are there; raises `BackendError` if they are of a newer format."""
        version = files.patiently(self._version, deadline)
        if version > FORMAT_VERSION:
            raise BackendError(
                f"The SQLite store {self._path} has format {version}, written by a newer "
                f"anarchon; this one knows format {FORMAT_VERSION}: upgrade it, or use another "
                "file."
            )
        return version > 0

    def prepare(self, deadline: float) -> None:
        """Create the tables where they are missing; any number of processes may do so at once."""
        with inside:
            self._make_ready(deadline)

    def _make_ready(self, deadline: float) -> None:
        ready = self.has_tables(deadline)
        if ready:
            files.patiently(self._use_log, deadline)
        else:
            with files.writers_queue(self._queue, deadline):
                files.patiently(self._use_log, deadline)
                files.patiently(lambda: self._connection.execute("BEGIN IMMEDIATE"), deadline)
                self._create()
            self.has_tables(deadline)
        self._connection.execute(f"PRAGMA synchronous={self._synchronous}")
        self._file = _identity(self._path)

    def _version(self) -> int:
        execute = self._connection.execute
        found = execute("SELECT 1 FROM sqlite_master WHERE name = 'anarchon_format'").fetchone()
        if found is None:
            return 0
        return int(execute("SELECT max(version) FROM anarchon_format").fetchone()[0] or 0)

    def _use_log(self) -> None:
        """Switch the file to a write-ahead log, which lets readers and a writer pass."""
        mode = self._connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise BackendError(
                f"The SQLite store {self._path} can't have a write-ahead log (its journal stays "
                f'"{mode}"): use a file on a local disk.'
            )

    def _create(self) -> None:
        try:
            if not self._version():
                for statement in TABLES:
                    self._connection.execute(statement)
                self._connection.execute(
                    "INSERT INTO anarchon_format VALUES (?)", (FORMAT_VERSION,)
                )
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


def _identity(path: str) -> tuple[int, int] | None:
    """Return what tells the file at `path` from one that was put in its place."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
