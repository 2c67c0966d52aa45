"""The contract of backends on PostgreSQL, directly, from a pool, and through a pooler."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, NamedTuple

import pytest
from psycopg_pool import ConnectionPool

from anarchon.testing import LeaseBackendContract
from tests.stores.postgres_clock import ByHand, TableClock, prepare
from tests.stores.postgres_places import database_on

if TYPE_CHECKING:
    from psycopg import Connection


@pytest.fixture(scope="module", params=["postgres-18", "postgres-15", "pgbouncer-15"])
def database(request, shared_server):
    """Give a database to all tests of a variant; each takes a namespace of its own."""
    with database_on(shared_server, request.param) as database:
        prepare(database)
        yield database


class Kept(NamedTuple):
    """Connections that all tests use: what a server compiles for one, it compiles once."""

    pool: ConnectionPool
    of_clocks: Connection

    def connect(self):
        return self.of_clocks


@pytest.fixture(scope="module")
def kept(shared_server):
    with database_on(shared_server, "postgres-18") as database:
        prepare(database)
        pool = ConnectionPool(database.url, min_size=1, max_size=20, open=True)
        with pool, database.connect() as of_clocks:
            yield Kept(pool, of_clocks)


class OnATable(LeaseBackendContract):
    """On a clock in a table, so that leases end, days pass and clocks step at once."""

    lease_clock = "may step"
    clock_can_be_set = True
    clock_stands_still = True

    def make_backend(self, folder):
        return ByHand(self.connection, clock=self.clock, namespace=f"contract {uuid.uuid4()}")

    def make_clock(self, backend):
        return self.clock


class TestPostgresByHand(OnATable):
    @pytest.fixture(autouse=True)
    def _clock(self, database):
        self.connection = database.url
        self.clock = TableClock(database)
        yield
        self.clock.close()


class TestPostgresPoolByHand(OnATable):
    """As quick as a server can be, which is why mutants are tried with it."""

    @pytest.fixture(autouse=True)
    def _clock(self, kept):
        self.connection = kept.pool
        self.clock = TableClock(kept)
