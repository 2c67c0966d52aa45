"""The contract of backends on PostgreSQL, directly and through a pooler in transaction mode."""

from __future__ import annotations

import uuid

import pytest

from anarchon.testing import LeaseBackendContract
from tests.stores.postgres_clock import ByHand, TableClock, prepare
from tests.stores.postgres_places import database_on


@pytest.fixture(scope="module", params=["postgres-18", "postgres-15", "pgbouncer-15"])
def database(request, shared_server):
    """Give a database to all tests of a variant; each takes a namespace of its own."""
    with database_on(shared_server, request.param) as database:
        prepare(database)
        yield database


class TestPostgresByHand(LeaseBackendContract):
    """On a clock in a table, so that leases end, days pass and clocks step at once."""

    lease_clock = "may step"
    clock_can_be_set = True
    clock_stands_still = True

    @pytest.fixture(autouse=True)
    def _clock(self, database):
        self.url = database.url
        self.clock = TableClock(database)
        yield
        self.clock.close()

    def make_backend(self, folder):
        return ByHand(self.url, clock=self.clock, namespace=f"contract {uuid.uuid4()}")

    def make_clock(self, backend):
        return self.clock
