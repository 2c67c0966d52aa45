"""Handlers that write an invoice, and their run's success, in one transaction of their own.

The table has no unique key: that each slot has one invoice is up to `ctx.complete` alone.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import threading
from collections import Counter
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from anarchon import Aborted
from tests.chaos.checker import Violation
from tests.chaos.work import Job

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from tests.chaos.story import Story

TABLE = "CREATE TABLE invoices (job text NOT NULL, slot bigint NOT NULL, attempt int NOT NULL)"
# How long a transaction may take before its connection is given up for dead.
TRANSACTION_SECONDS = 1.0
PAUSE_SECONDS = 0.2
# A transaction whose client is gone without a word holds its run for as long as the server keeps
# it, and nobody else can complete that run, or take it over.
ENDS_WHAT_IS_LEFT = "-c idle_in_transaction_session_timeout=2s"


class Invoices:
    """The work: each slot writes one invoice."""

    def __init__(self, url: str) -> None:
        if url.startswith("redis"):
            raise ValueError("only PostgreSQL and SQLite have transactions to share")
        self._database = Server(url) if url.startswith("postgres") else File(url)

    def prepare(self) -> None:
        with closing(self._database.connect()) as connection:
            connection.execute(TABLE)
            connection.commit()

    def jobs(self, version: int) -> list[Job]:
        every_ms = 1000 if version % 2 == 0 else 1500
        return [
            Job("order", 500, "bill", 0.05, overlap="allow"),
            Job("invoice", every_ms, "bill", 0.3),
            Job("statement", 4000, "bill", 3.0),
            Job("beside", 2000, "bill", 2.5, overlap="allow"),
        ]

    def run(self, job: Job, ctx, lines) -> None:
        """Work, then write the invoice, as often as the way to the database fails.

        While it waits for a lock it can't see its signal, and goes on into the next attempt's
        time. It can't complete the run any more: that is what is tried here.
        """
        try:
            with ctx.signal.on_abort(lines.aborted):
                ctx.signal.sleep(job.seconds)
                while not self._write(ctx, lines):
                    ctx.signal.sleep(PAUSE_SECONDS)
        except Aborted:
            lines.ended("raised")
            raise
        lines.ended("returned")

    def _write(self, ctx, lines) -> bool:
        """Try once; False when the database can't be reached, or the commit got no answer."""
        row = (ctx.name, ctx.slot, ctx.attempt)
        with suppress(*self._database.errors):
            with self._database.session(ctx.signal) as connection:
                self._database.insert(connection, row)
                ctx.complete(connection)
                lines.completing()
                connection.commit()
            return True
        return False

    def check(self, story: Story) -> list[Violation]:
        """See that there is one invoice for each success, by that attempt, and no other."""
        with closing(self._database.connect()) as connection:
            rows = connection.execute("SELECT job, slot, attempt FROM invoices").fetchall()
        written = Counter(map(tuple, rows))
        due = Counter(key for key, run in story.records.items() if run["status"] == "success")
        return [
            *(_wrong(row, f"{count} invoices too many") for row, count in (written - due).items()),
            *(_wrong(key, "success without an invoice") for key in due - written),
        ]


WORK = Invoices


def _wrong(key: tuple[str, int, int], text: str) -> Violation:
    job, slot, number = key
    return Violation("invoices", job, slot, f"attempt {number}: {text}")


class File:
    """The invoices in the scheduler's own SQLite file."""

    errors = (sqlite3.OperationalError,)

    def __init__(self, path: str) -> None:
        self._path = path

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=TRANSACTION_SECONDS)

    def insert(self, connection: sqlite3.Connection, row: tuple) -> None:
        connection.execute("INSERT INTO invoices VALUES (?, ?, ?)", row)

    @contextmanager
    def session(self, signal) -> Iterator[sqlite3.Connection]:
        with closing(self.connect()) as connection:  # it waits for nothing but the lock
            yield connection


class Server:
    """The invoices in the scheduler's own database of a PostgreSQL server."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._psycopg = psycopg
        self._url = url
        self.errors = (psycopg.OperationalError,)

    def connect(self) -> psycopg.Connection:
        return self._psycopg.connect(self._url, connect_timeout=2, options=ENDS_WHAT_IS_LEFT)

    def insert(self, connection, row: tuple) -> None:
        connection.execute("INSERT INTO invoices VALUES (%s, %s, %s)", row)

    @contextmanager
    def session(self, signal) -> Iterator[psycopg.Connection]:
        """Connect; cut the connection when it takes too long, or the run is aborted."""
        with closing(self.connect()) as connection, _limited(connection, signal):
            yield connection


@contextmanager
def _limited(connection: psycopg.Connection, signal) -> Iterator[None]:
    line = socket.socket(fileno=os.dup(connection.fileno()))

    def cut() -> None:
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(TRANSACTION_SECONDS, cut)
    timer.start()
    try:
        with signal.on_abort(cut):
            yield
    finally:
        timer.cancel()
        timer.join()
        line.close()
