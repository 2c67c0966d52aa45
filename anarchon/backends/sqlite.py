"""The store in a SQLite file: for all processes of one machine.

A claim first judges on a read snapshot, which blocks nobody and costs microseconds. Only
when there is something to write does it queue for the write lock and judge again, so a
race is lost without waiting. Every other write is one short transaction as well.

A connection serves one call at a time. The scheduler makes at most two calls at once, so at
most two are kept, the first of them from `start` on: a renewal in a busy process has no time
to open one. What users ask has a short one of its own. One that failed is thrown away, and
so is one whose file was removed or replaced. One that came through a fork is neither used
nor closed: SQLite forbids both.
"""
# ruff: noqa: PTH100 (`os.path` is loaded anyway, `pathlib` would cost milliseconds at import)

from __future__ import annotations

import os
import time
import weakref
from typing import TYPE_CHECKING, TypeVar

from .._durations import shown
from .._values import ServerInfo
from ..errors import BackendUnavailable, ConfigurationError, ServerTooOld
from . import _sqlite_files as files
from ._aside import aside
from ._sqlite_link import GRAVEYARD, connected, in_place
from ._sqlite_rows import WouldWrite
from ._sqlite_shared import SharedTransactions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._local import Operation
    from ._rules import Moment
    from ._sqlite_link import Link

T = TypeVar("T")

MINIMUM = (3, 31, 0)
MOST_IDLE = 2


class SqliteBackend(SharedTransactions):
    """A store in a file, for every process of one machine.

    Nothing is opened before `start`; the file is created then, its folder is not. The
    database may hold other tables as well. Every method may be called from any thread.

    Args:
        database: The path of the file; made absolute here and now, so that a later change
            of the working directory means nothing.
        namespace: Two services on one file use two namespaces and never see each other.
        synchronous: With ``"FULL"`` a power cut loses no claim; ``"NORMAL"`` is faster, and
            a power cut may lose the last ones. The crash of a process never does.

    Raises:
        ConfigurationError: The path, the namespace or `synchronous` can't be meant.
    """

    def __init__(
        self,
        database: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        *,
        namespace: str = "anarchon",
        synchronous: str = "FULL",
    ) -> None:
        super().__init__(namespace)
        if not isinstance(synchronous, str) or synchronous not in ("FULL", "NORMAL"):
            raise ConfigurationError(
                f'synchronous={shown(synchronous)} is unknown: give "FULL" or "NORMAL".'
            )
        self.database = _absolute(database)
        self._synchronous = synchronous
        self._file_system_of = files.file_system_of

    def _begin(self) -> None:
        super()._begin()
        self._idle: list[Link] = []
        self._links: list[weakref.ref[Link]] = []  # those in use as well

    def __repr__(self) -> str:
        return f"<SqliteBackend {self.database!r} namespace={self.namespace!r}>"

    # --- opening and closing ----------------------------------------------------

    def _connect(self) -> ServerInfo:
        return aside(self._try_out)

    def _try_out(self) -> ServerInfo:
        import sqlite3

        if sqlite3.sqlite_version_info < MINIMUM:
            raise ServerTooOld(
                f"SQLite {sqlite3.sqlite_version} is too old: use a Python whose sqlite3 has "
                f"{'.'.join(map(str, MINIMUM[:2]))} or newer."
            )
        kind = self._file_system_of(self.database)
        if files.is_network(kind):
            raise BackendUnavailable(
                f"The SQLite store {self.database} is on a network file system ({kind}), where "
                "its locks don't hold: use a file on a local disk, or a server as the store."
            )
        deadline = time.monotonic() + self._limits.connect
        # On a connection that ends: the last to end writes the log back, new tables and all.
        self._once(lambda link: link.try_writing(deadline), deadline)
        self._often(lambda link: link.look(deadline), deadline)
        return ServerInfo("sqlite", sqlite3.sqlite_version, self._time.wall_ms(), self._steady)

    def _left_over(self) -> list[Link]:
        links, self._links, self._idle = self._links, [], []
        return [link for reference in links if (link := reference()) is not None]

    def abandon(self) -> None:
        """Forget every connection and lock without touching it: this is a forked child."""
        GRAVEYARD.append([reference() for reference in self._links])
        super().abandon()

    # --- transactions -----------------------------------------------------------

    def _read(self, operation: Operation[T], seconds: float) -> T:
        deadline = time.monotonic() + seconds
        return self._often(
            lambda link: link.read(operation, self.namespace, self._now, deadline), deadline
        )

    def _write(self, operation: Operation[T], seconds: float) -> T:
        deadline = time.monotonic() + seconds
        return self._often(
            lambda link: link.write(operation, self.namespace, self._now, deadline), deadline
        )

    def _decide(self, operation: Operation[T], seconds: float) -> T:
        deadline = time.monotonic() + seconds
        try:
            return self._read(operation, seconds)
        except WouldWrite:
            return self._write(operation, deadline - time.monotonic())

    def _read_once(self, operation: Operation[T], seconds: float) -> T:
        from .memory import MemoryRows

        deadline = time.monotonic() + seconds

        def look(link: Link) -> T:
            if link.can_be_read(deadline):
                return link.read(operation, self.namespace, self._now, deadline)
            return operation(MemoryRows(), self._now())

        if files.is_missing(self.database):
            return operation(MemoryRows(), self._now())
        return self._once(look, deadline, ready=False)

    def _write_once(self, operation: Operation[T], seconds: float) -> T:
        deadline = time.monotonic() + seconds
        return self._once(
            lambda link: link.write(operation, self.namespace, self._now, deadline), deadline
        )

    def _now(self) -> Moment:
        if not self._boot:
            self._boot = files.boot_id()
        return super()._now()

    # --- connections ------------------------------------------------------------

    def _often(self, work: Callable[[Link], T], deadline: float) -> T:
        """Work on a connection that stays for the next call."""

        def attempt() -> T:
            link = self._taken() or self._new(deadline)
            try:
                return link.use(work)
            finally:
                self._give_back(link)

        return in_place(attempt, self.database, deadline)

    def _once(self, work: Callable[[Link], T], deadline: float, *, ready: bool = True) -> T:
        """Work on a connection of its own, also when this backend isn't open.

        This is what users call, on the main thread perhaps, where Ctrl-C may come.
        """
        self._notice_fork()

        def attempt() -> T:
            link = self._make(deadline, ready=ready)
            try:
                return link.use(work)
            finally:
                link.close()

        return aside(lambda: in_place(attempt, self.database, deadline))

    def _taken(self) -> Link | None:
        """Take an idle connection that is still to the files at the path, if there is one."""
        self._notice_fork()
        while True:
            with self._guard:
                if not self._idle:
                    return None
                link = self._idle.pop()
            if link.is_current():
                return link
            link.close()

    def _new(self, deadline: float) -> Link:
        """Return a new connection, which `close` will close if nobody does so before."""
        link = self._make(deadline)
        with self._guard:
            if self._users:  # else the store was closed meanwhile: this is its last use
                alive = [one for one in self._links if one() is not None]
                self._links = [*alive, weakref.ref(link)]
        return link

    def _give_back(self, link: Link) -> None:
        """Keep a connection for the next call.

        Unless it failed, the store was closed meanwhile, or handlers asked, many at once
        perhaps, and what the scheduler itself needs is there already.
        """
        with self._guard:
            if self._users and link.is_whole and len(self._idle) < MOST_IDLE:
                self._idle.append(link)
                return
        link.close()

    def _make(self, deadline: float, *, ready: bool = True) -> Link:
        """Return a new connection; `ready`: to a file that has all tables."""
        return connected(self.database, self._synchronous, deadline, ready=ready)


def _absolute(database: object) -> str:
    """Return the path of a database file, absolute; refuse what is meant for something else."""
    try:
        path = os.fsdecode(database)  # type: ignore[arg-type] # it raises TypeError itself
        os.fsencode(path)
    except Exception as error:
        raise ConfigurationError(
            f"The database {shown(database)} is no path: give the path of a file."
        ) from error
    if path.strip() in ("", ":memory:") or path.startswith("file::memory:"):
        raise ConfigurationError(
            f"The database {shown(path)} would be in memory, one for each connection: give the "
            "path of a file, or use MemoryBackend() for one process."
        )
    if path.startswith(("file:", "sqlite:")) or "\0" in path:
        raise ConfigurationError(
            f"The database {shown(path)} is no path: give the path of a file, without a scheme."
        )
    return os.path.abspath(path)
