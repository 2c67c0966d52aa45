"""A connection to a SQLite store: made ready, used for one transaction at a time, closed once."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ..errors import BackendError, BackendUnavailable
from . import _sqlite_files as files
from . import _sqlite_schema as schema
from ._sqlite_advice import explained
from ._sqlite_forks import inside
from ._sqlite_parts import Parts
from ._sqlite_rows import ReadOnlyRows, SqliteRows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from ._local import Operation
    from ._rules import Moment

T = TypeVar("T")

# Connections of the process that this one was forked from, by something that didn't tell
# Python. SQLite allows neither to use nor to close them here, so they are kept for as long as
# the process lives.
GRAVEYARD: list[object] = []

# Every link of this process that is still there. Changes and copies are single steps.
_links: set[weakref.ref[Link]] = set()

# Bytes that are no UTF-8 must not make a row, and all others with it, unreadable.
as_text = partial(str, encoding="utf-8", errors="replace")


class Replaced(Exception):
    """The store's files were removed or replaced under a connection: ask a new one."""


class Link:
    """One connection, of one process, for one call at a time.

    Another thread than the one that calls may close it: at once when it is idle, and else as
    soon as its call has ended.
    """

    __slots__ = (
        "__weakref__",
        "_connection",
        "_doomed",
        "_gone",
        "_lock",
        "_parts",
        "_path",
        "_pid",
        "_queue",
        "_synchronous",
    )

    def __init__(self, path: str, synchronous: str) -> None:
        import sqlite3

        self._pid = os.getpid()
        self._path = path
        self._parts = Parts(path)
        self._queue = f"{os.path.realpath(path)}-queue"  # the same one behind every link to it
        self._lock = threading.Lock()
        self._doomed = False
        self._gone = False
        # No time-out and no transactions of the driver's own: who waits, and how, is said here.
        with inside:
            self._connection = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False
            )
            _links.add(weakref.ref(self, _links.discard))
        self._connection.text_factory = as_text
        self._synchronous = synchronous

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            self.close()

    @property
    def is_whole(self) -> bool:
        """Whether this connection is ours, and neither failed nor is to be closed."""
        return not self._doomed and self._pid == os.getpid()

    def is_current(self) -> bool:
        """Whether this connection is whole, and still that of the files at its path."""
        return self.is_whole and self._parts.are_the_same()

    def is_stale(self) -> bool:
        """Whether this connection is ours, and goes on with files that others don't see."""
        ours = self._pid == os.getpid() and self._parts.are_known
        return ours and not self._parts.are_the_same()

    def close(self) -> None:
        """Close the connection, or have it closed when its call ends; never raises."""
        self._doomed = True
        if self._pid != os.getpid():
            GRAVEYARD.append(self._connection)
        elif self._lock.acquire(blocking=False):
            try:
                with suppress(Exception), inside:
                    if self._parts.log_is_another():
                        _leave_log_alone(self._connection)
                    self._connection.close()
            finally:
                self._lock.release()

    def drop(self) -> None:
        """Close the connection under a thread that waits to use it, or naps; nobody is inside."""
        self._doomed = self._gone = True
        if self._pid == os.getpid():
            with suppress(Exception):
                self._connection.close()

    def is_closed_by(self, deadline: float) -> bool:
        """Close the connection, and wait for a call under way until then (monotonic seconds)."""
        self.close()
        if not self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return False
        self._lock.release()
        self.close()
        return True

    # --- transactions -----------------------------------------------------------

    def use(self, work: Callable[[Link], T]) -> T:
        """Call `work` with nobody closing the connection meanwhile; a failed one is closed.

        Raises `Replaced` when somebody has closed it before, or while it waited to begin.
        """
        try:
            with self._lock, inside, explained(self._path):
                _replaced_unless(not self._doomed)
                return work(self)
        except (BackendUnavailable, Replaced) as error:
            self._doomed = True
            if self._gone:
                raise Replaced from error
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
        """Run an operation in a transaction that had the write lock from its beginning.

        Raises `Replaced` when the files changed while it waited: nobody would see the write.
        """
        connection = self._connection
        with files.writers_queue(self._queue, deadline):
            files.patiently(lambda: connection.execute("BEGIN IMMEDIATE"), deadline)
            try:
                _replaced_unless(self._parts.are_the_same())
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

    def look(self, deadline: float) -> None:
        """Read for the first time; raises `Replaced` when that wasn't in the files at the path.

        While an old connection of this process goes on with files that were removed, a new
        one shares their index. Nothing that it reads can be believed then, no error either.
        Another process can have kept the index alone: then the log is too short for it.
        """
        import sqlite3

        try:
            files.patiently(self._read_schema, deadline)
        except sqlite3.DatabaseError as error:
            if self._parts.are_open_here():
                raise
            raise Replaced from error
        self._settle()
        if self._parts.log_is_empty():
            self._check_index()

    def _check_index(self) -> None:
        """Copy what the index says is in an empty log: nothing, or else it is of another log."""
        import sqlite3

        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.OperationalError as error:
            if files.code_of(error) == files.IOERR:
                raise Replaced from error
            raise

    def _read_schema(self) -> None:
        self._connection.execute("SELECT 1 FROM sqlite_master").fetchone()

    def _settle(self) -> None:
        """Take the files at the path for those of this connection, if they are."""
        mode = self._connection.execute("PRAGMA journal_mode").fetchone()[0]
        if mode == "wal" and not self._parts.are_open_here():
            raise Replaced
        self._parts.remember()

    def can_be_read(self, deadline: float) -> bool:
        """Whether there is history in the file; raises `BackendError` as `prepare` does."""
        return files.patiently(partial(schema.can_be_read, self._connection, self._path), deadline)

    def prepare(self, deadline: float) -> None:
        """Create the tables where they are missing; any number of processes may do so at once.

        Raises:
            BackendError: What is stored has a newer format, or one that can't be read.
        """
        is_complete = partial(schema.is_complete, self._connection, self._path)
        if files.patiently(is_complete, deadline):
            files.patiently(self._use_log, deadline)
        else:
            with files.writers_queue(self._queue, deadline):
                files.patiently(self._use_log, deadline)
                files.patiently(lambda: self._connection.execute("BEGIN IMMEDIATE"), deadline)
                schema.create(self._connection, self._path)
        files.patiently(self._read_schema, deadline)  # the log is there from then on
        self._connection.execute(f"PRAGMA synchronous={self._synchronous}")
        self._settle()

    def _use_log(self) -> None:
        """Switch the file to a write-ahead log, which lets readers and a writer pass."""
        mode = self._connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise BackendError(
                f"The SQLite store {self._path} can't have a write-ahead log (its journal stays "
                f'"{mode}"): use a file on a local disk.'
            )


def _replaced_unless(is_so: bool) -> None:  # noqa: FBT001 - it is the whole of the question
    """Raise `Replaced` where a connection is not, or no longer, what is to be asked."""
    if not is_so:
        raise Replaced


def connected(path: str, synchronous: str, deadline: float, *, ready: bool) -> Link:
    """Return a new connection to the files at the path; `ready`: with all tables in them.

    The connections of this process that go on with files which were removed or replaced
    are closed first: SQLite would give the new one the old index of the log, too.
    """

    def attempt() -> Link:
        _close_stale(deadline)
        with explained(path):
            link = Link(path, synchronous)
        try:
            link.use(lambda link: link.look(deadline))
            if ready:
                link.use(lambda link: link.prepare(deadline))
        except BaseException:
            link.close()
            raise
        return link

    return in_place(attempt, path, deadline)


def in_place(attempt: Callable[[], T], path: str, deadline: float) -> T:
    """Call `attempt` again when the files were replaced under it, until the deadline."""
    while True:
        try:
            return attempt()
        except Replaced:
            if time.monotonic() >= deadline:
                raise BackendUnavailable(
                    f"The SQLite store {path} can't be used: its files were removed or replaced "
                    "while they were in use, and a program still has the old ones open; end it, "
                    f"or the other connections to this file of this process ({os.getpid()})."
                ) from None
        files.nap(0.02)


def _close_stale(deadline: float) -> None:
    """Close every link of this process whose files are gone."""
    if [link for link in _living() if link.is_stale() and not link.is_closed_by(deadline)]:
        raise Replaced


def _drop_all() -> None:
    for link in _living():
        link.drop()


def _living() -> list[Link]:
    return [link for reference in tuple(_links) if (link := reference()) is not None]


inside.close_all = _drop_all


def _leave_log_alone(connection: sqlite3.Connection) -> None:
    """Let the end of this connection neither write its old log back nor remove the new one.

    Python 3.11 can't say so; there SQLite refrains while another process has the file open.
    """
    if sys.version_info >= (3, 12):
        import sqlite3

        connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)
