"""Operations of a SQLite store in a transaction of the user's, on a connection of the user's.

Whoever writes to a SQLite file is alone: from the first write of the transaction to its end
nobody else can renew, take over or finish anything. So an attempt that is still held when
the transaction has the write lock is held when it is committed.
"""
# ruff: noqa: PTH121 (`os.path` is loaded anyway, `pathlib` would cost milliseconds at import)

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import BackendError, ConfigurationError
from . import _operations as operations
from . import _rules_end as ends
from ._local import LocalBackend
from ._rules import has_succeeded, holds
from ._sqlite_link import as_text
from ._sqlite_rows import SqliteRows
from ._user_connections import sqlite_connection, with_plain_rows

if TYPE_CHECKING:
    import sqlite3

    from .._values import Lease, Owner, Result
    from ._local import Operation
    from ._rows import Rows
    from ._rules import Moment
    from .base import Holding

# A write that changes nothing. What comes after it is read from the last state of the file.
_TAKE_LOCK = "UPDATE anarchon_format SET version = version"


class SharedTransactions(LocalBackend):
    """The part of a SQLite store that works in transactions of the user's."""

    database: str

    def fence(self, connection: object, lease: Lease, *, owner: Owner) -> Holding:
        """Keep everybody else from writing until a transaction ends; see `LeaseBackend.fence`.

        Nobody can renew meanwhile either, so half of the lease has to be left.
        """
        return self._shared(connection, lambda rows, now: held_for(rows, now, lease, owner))

    def complete(self, connection: object, result: Result, *, owner: Owner) -> Holding:
        """Record a success in a transaction; see `LeaseBackend.complete`."""
        return self._shared(connection, lambda rows, now: completed(rows, now, result, owner))

    def refuse(self, connection: object) -> None:
        """Roll a transaction back; see `LeaseBackend.refuse`."""
        with suppress(Exception):
            sqlite_connection(connection).rollback()

    def _shared(self, connection: object, operation: Operation[Holding]) -> Holding:
        """Run an operation in the user's transaction, which has the write lock from then on.

        Raises:
            ConfigurationError: It is no connection to this file, or has no transaction.
            sqlite3.OperationalError: Somebody else writes to the file for longer than the
                connection waits.
        """
        self._check_open()
        raw = sqlite_connection(connection)

        def work() -> Holding:
            _check_file(raw, self.database)
            if not raw.in_transaction:  # the driver would only begin it later
                raw.execute("BEGIN IMMEDIATE")
            raw.execute(_TAKE_LOCK)
            return operation(SqliteRows(raw, self.namespace), self._now())

        word: Holding = with_plain_rows(raw, work, as_text)
        return word


def held_for(rows: Rows, now: Moment, lease: Lease, owner: Owner) -> Holding:
    """Say whether an attempt is the asker's, with half of its lease still to come."""
    run = rows.run(lease.key)
    if run is None:
        # Nobody ever takes a manual run over, and it may not be recorded yet.
        return "held" if lease.key.manual else "lost"
    if not holds(run, lease.attempt, owner):
        return "done" if has_succeeded(run, lease.attempt, owner) else "lost"
    if lease.key.manual:
        return "held"
    left_ms = run.end_ms - now.lease_ms
    if 2 * left_ms < run.lease_ms:
        raise BackendError(
            f"Only {max(0, left_ms)} ms of a lease of {run.lease_ms} ms are left, which nobody "
            "can renew while this transaction lasts: roll it back and try again, in a shorter "
            "transaction if it had begun long before."
        )
    return "held"


def completed(rows: Rows, now: Moment, result: Result, owner: Owner) -> Holding:
    """Close an attempt with its success, unless it has ended in another way."""
    run = rows.run(result.key)
    if run is None and not result.key.manual:
        return "lost"
    if run is not None and not holds(run, result.attempt, owner):
        return "done" if has_succeeded(run, result.attempt, owner) else "lost"
    operations.settle(rows, now, [result], owner, ends.finish)
    return "held"


def _check_file(raw: sqlite3.Connection, path: str) -> None:
    """Raise unless the connection's main database is this file."""
    file = next((row[2] for row in raw.execute("PRAGMA database_list") if row[1] == "main"), "")
    try:
        is_same = bool(file) and os.path.samefile(file, path)
    except OSError:
        is_same = False
    if not is_same:
        raise ConfigurationError(
            f"The connection is to {file or 'a database in memory'}, the scheduler's store is "
            f"{path}: only a transaction on that very file can decide about its runs."
        )
