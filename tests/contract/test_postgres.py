"""The contract of backends on PostgreSQL, directly and through a pooler in transaction mode."""

from __future__ import annotations

import uuid

import pytest

from anarchon.backends.postgres import PostgresBackend
from anarchon.testing import LeaseBackendContract
from tests.servers.places import place_on


@pytest.fixture(scope="module", params=["postgres-18", "postgres-15", "pgbouncer-15"])
def store(request, shared_server):
    with place_on(request.param, shared_server) as place:
        yield place
        assert place.errors() == []


class TestPostgres(LeaseBackendContract):
    """With short leases, whose end its tests wait for."""

    lease_ms = 2000

    @pytest.fixture(autouse=True)
    def _on(self, store):
        self.store = store

    def make_backend(self, folder):
        return PostgresBackend(self.store.url, namespace=f"contract {uuid.uuid4()}")
