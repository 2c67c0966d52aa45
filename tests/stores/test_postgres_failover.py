"""A PostgreSQL store whose server stops, or gives way to its standby."""

from __future__ import annotations

import time
import uuid

import psycopg
import pytest

from anarchon._values import Held, Limits, Recorded, Won
from anarchon.backends.postgres import PostgresBackend
from anarchon.errors import BackendUnavailable
from tests.servers.postgres import Postgres
from tests.stores.helpers import claim, finish, now_ms

LIMITS = Limits(5.0, 5.0, 5.0)


def opened(connection, **options) -> PostgresBackend:
    backend = PostgresBackend(connection, namespace=f"failover {uuid.uuid4()}", **options)
    backend.open(LIMITS)
    backend.prepare([])
    return backend


def again(call, seconds: float = 10.0):
    """Call until it answers."""
    until = time.monotonic() + seconds
    while True:
        try:
            return call()
        except BackendUnavailable:
            assert time.monotonic() < until


@pytest.fixture
def group(own_server):
    primary = own_server(Postgres("postgres-15"))
    standby = own_server(Postgres("postgres-15", primary=primary))
    return primary, standby


def test_a_standby_is_refused_and_its_promotion_noticed(group):
    primary, standby = group
    both = (
        f"host={primary.host},{standby.host} port={standby.port},{primary.port} "
        "user=postgres dbname=postgres"
    )
    backend = opened(both)
    slot_ms = now_ms()
    assert isinstance(claim(backend, "job", slot_ms), Won)
    standby.catch_up(primary)
    for connection in (standby.url(), lambda: psycopg.connect(standby.url())):
        other = PostgresBackend(connection, namespace=backend.namespace)
        with pytest.raises(BackendUnavailable, match="give the address of the primary"):
            other.open(LIMITS)
        other.close()
    primary.kill()
    with pytest.raises(BackendUnavailable):
        claim(backend, "job", slot_ms)
    standby.promote()
    held = again(lambda: claim(backend, "job", slot_ms, by="b"))
    assert isinstance(held, Held)
    assert isinstance(finish(backend, "job", slot_ms), Recorded)
    backend.close()


def test_a_connection_to_a_server_that_turned_read_only_is_thrown_away(group):
    primary, _ = group
    backend = opened(primary.url())
    primary.configure(default_transaction_read_only="on")
    with pytest.raises(BackendUnavailable, match="read-only"):
        again_until_refused(backend)
    assert backend._idle == []
    primary.configure(default_transaction_read_only="off")
    assert isinstance(again(lambda: claim(backend, "after", now_ms())), Won)
    backend.close()


def again_until_refused(backend):
    until = time.monotonic() + 5
    while time.monotonic() < until:  # the server tells its processes one after another
        claim(backend, f"job {time.monotonic()}", now_ms())


def test_a_restart_is_survived(own_server):
    server = own_server(Postgres("postgres-18"))
    backend = opened(server.url())
    slot_ms = now_ms()
    assert isinstance(claim(backend, "job", slot_ms), Won)
    server.restart()
    with pytest.raises(BackendUnavailable):
        claim(backend, "job", slot_ms)
    assert isinstance(again(lambda: claim(backend, "job", slot_ms)), Won)
    server.stop()
    with pytest.raises(BackendUnavailable, match="shut down"):
        claim(backend, "job", slot_ms)
    with pytest.raises(BackendUnavailable, match="refused"):
        claim(backend, "job", slot_ms)
    backend.close()


def test_a_full_server_is_told(own_server):
    server = own_server(
        Postgres(
            "postgres-15", settings={"max_connections": 8, "superuser_reserved_connections": 1}
        )
    )
    server.create_role("service")
    taken = [psycopg.connect(server.conninfo(user="service")) for _ in range(7)]
    backend = PostgresBackend(server.conninfo(user="service"))
    with pytest.raises(BackendUnavailable, match="raise max_connections"):
        backend.open(LIMITS)
    backend.close()
    for connection in taken:
        connection.close()
