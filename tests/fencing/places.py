"""Stores whose transactions a user can share: a store, and the user's own table beside it."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import contextmanager

import psycopg

from anarchon import PostgresBackend, SqliteBackend
from anarchon._testing_contract.bench import Bench, RealClock
from tests.stores.postgres_places import database_on

KINDS = ("sqlite", "postgres-15", "postgres-18", "pgbouncer-15")
LEASE_MS = 60_000  # nothing ends by itself while a test runs


class SharedPlace:
    """A database with a store and a table of the user's, which has no key.

    `mark` is how the driver marks a parameter; `expect` adds an error that the server may log.
    """

    def __init__(self, kind, where, database=None):
        self.kind = kind
        self.where = where
        self.namespace = "test"
        self.database = database
        self.mark = "?" if kind == "sqlite" else "%s"
        with self.transaction() as connection:
            connection.execute("CREATE TABLE paid (job TEXT, slot BIGINT)")

    def clear(self):
        """Begin anew: another namespace, and nothing is paid."""
        self.namespace = f"test {uuid.uuid4()}"
        with self.transaction() as connection:
            connection.execute("DELETE FROM paid")

    def backend(self, **options):
        options = {"namespace": self.namespace, **options}
        if self.kind == "sqlite":
            return SqliteBackend(self.where, **options)
        return PostgresBackend(self.where, **options)

    def bench(self, **options):
        return Bench(self.backend(**options), RealClock(), LEASE_MS)

    def connect(self):
        """Return a connection of the user's, which begins its transactions by itself."""
        if self.kind == "sqlite":
            return sqlite3.connect(self.where, timeout=5)
        return psycopg.connect(self.where, prepare_threshold=None)

    @contextmanager
    def transaction(self):
        """Give a connection; what is done on it is committed at the end, if nothing is raised."""
        connection = self.connect()
        try:
            yield connection
            connection.commit()
        finally:
            connection.close()

    def pay(self, connection, job="job", slot=0):
        """Do what may be done once only."""
        connection.execute(f"INSERT INTO paid VALUES ({self.mark}, {self.mark})", (job, slot))

    def paid(self):
        with self.transaction() as connection:
            return connection.execute("SELECT job, slot FROM paid ORDER BY slot").fetchall()

    def bench_history(self):
        """Return the statuses of the job's runs, as anybody may read them."""
        return [run.status for run in self.backend().history("job", limit=10)]

    def server_database(self, name):
        """Return the URL of another database of the same server."""
        return self.database.server.url(name)

    def waiting(self):
        """Return how many sessions of this database wait for a lock."""
        (row,) = self.database.ask(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return row[0]

    def expect(self, words):
        if self.database is not None:
            self.database.allowed += (words,)


@contextmanager
def shared_place(kind, tmp_path, shared_server):
    if kind == "sqlite":
        yield SharedPlace(kind, tmp_path / "store.db")
        return
    with database_on(shared_server, kind) as database:
        database.allowed += ("must not be committed",)  # what fails a transaction that isn't held
        yield SharedPlace(kind, database.url, database)


def fence(bench, connection, by="a", attempt=1):
    return bench.any.fence(connection, bench.lease(0, attempt), owner=bench.owner(by))


def complete(bench, connection, by="a", attempt=1, **fields):
    result = bench.result(0, attempt, **fields)
    return bench.any.complete(connection, result, owner=bench.owner(by))


def take_over(bench, attempt=2, beat=0, by="b"):
    """Claim the next attempt as somebody who watched the run for a whole lease."""
    return bench.claim(0, by=by, wants=attempt, beat=beat, unseen=LEASE_MS)
