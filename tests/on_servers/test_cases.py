"""What befell users of other schedulers on servers."""

from __future__ import annotations

import threading
import time

import pytest

from anarchon import PostgresBackend, RedisBackend
from tests.on_servers.service import Service
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import Postgres
from tests.servers.redis import RedisServer


@pytest.fixture
def serve(caplog, namespace):
    """Start services, and stop them with the test."""
    services = []

    def start(backend, **how):
        service = Service(backend, caplog, **how)
        services.append(service)
        service.scheduler.start()
        return service

    yield start
    for service in services:
        service.scheduler.stop(5)


def check(service):
    service.scheduler.stop(10)
    service.check()
    assert {reason for reason, _ in service.aborted} <= {"stop"}
    assert service.lines("ERROR") == []


@pytest.mark.parametrize("store", ["redis-8.2", "postgres-18"])
def test_connections_that_are_killed_again_and_again(store, own_server, serve, namespace):
    """BR-027: each one is thrown away, and the next call has a new one."""
    if store == "redis-8.2":
        server = own_server(RedisServer(store))
        service = serve(RedisBackend(server.url, namespace=namespace))
    else:
        server = own_server(Postgres(store))
        service = serve(PostgresBackend(server.url(), namespace=namespace))
    assert service.holds.wait(10)
    for _ in range(8):
        if store == "redis-8.2":
            server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        else:
            server.ask(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
        time.sleep(0.4)
    service.expect_ticks(2)
    check(service)


def test_four_instances_share_three_sessions_of_a_pooler(own_server, serve, namespace):
    """BR-072: nothing of a session is needed, prepared statements and locks neither."""
    server = own_server(Postgres("postgres-15"))
    pooler = own_server(PgBouncer(server, pool_size=3))
    backends = [PostgresBackend(pooler.url(), namespace=namespace) for _ in range(4)]
    services = [serve(backend, unhurried=True) for backend in backends]
    deadline = time.monotonic() + 30
    while len({slot for service in services for slot in service.ran}) < 5:
        assert time.monotonic() < deadline, services[0].lines()
        time.sleep(0.1)
    for service in services:
        service.scheduler.stop(10)
    slots = [slot for service in services for slot in service.ran]
    assert len(slots) == len(set(slots))
    assert server.errors() == []
    assert services[0].outages() == (0, 0)


class Watcher:
    """Looks at the sessions of a server until it is told to end."""

    def __init__(self, server) -> None:
        self.states: set[str] = set()
        self._server = server
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self):
        question = (
            "SELECT state, now() - xact_start > '2 s' FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        with self._server.connect() as connection:
            while not self._over.wait(0.02):
                self.states |= {
                    f"{state}{', for long' if long else ''}"
                    for state, long in connection.execute(question)
                }

    def end(self):
        self._over.set()
        self._thread.join()


@pytest.mark.parametrize("from_pool", [False, True], ids=["url", "pool"])
def test_no_transaction_is_left_open(from_pool, own_server, serve, namespace):
    """BR-073: not while a handler works, nor while nothing is due."""
    from psycopg_pool import ConnectionPool

    server = own_server(Postgres("postgres-18"))
    pool = ConnectionPool(server.url(), min_size=1, max_size=4, open=True) if from_pool else None
    watcher = Watcher(server)
    try:
        service = serve(PostgresBackend(pool or server.url(), namespace=namespace))
        assert service.holds.wait(10)
        service.expect_ticks(3)  # so long the handler works
        service.scheduler.stop(5)
    finally:
        watcher.end()
        if pool is not None:
            pool.close()
    # A session may be seen between two steps of one call, but never for long.
    assert not [state for state in watcher.states if "long" in state], watcher.states
    assert "idle" in watcher.states


def test_keys_that_vanish_one_by_one(own_server, serve, namespace):
    """BR-100: whatever is gone, the next slots run."""
    server = own_server(RedisServer("redis-8.2"))
    service = serve(RedisBackend(server.url, namespace=namespace), unhurried=True)
    service.expect_ticks(1)
    keys = [key.decode() for key in server.ask("KEYS", "*")]
    assert len(keys) >= 5
    for key in keys:
        server.ask("DEL", key)
        service.expect_ticks(1)
    assert service.lines("ERROR") == []
    assert service.outages() == (0, 0)


def test_a_server_that_evicts(own_server, serve, namespace):
    """BR-100: it is warned about at the start, and no loss stops a job for ever."""
    settings = {"maxmemory": "5mb", "maxmemory-policy": "allkeys-lru"}
    server = own_server(RedisServer("redis-8.2", settings=settings))
    service = serve(RedisBackend(server.url, namespace=namespace))
    service.expect_ticks(1)
    assert any("noeviction" in text for text in service.lines("WARNING"))
    with server.client() as client:
        for number in range(3000):
            client("SET", f"filler {number}", "x" * 4096)
    assert int(server.info("stats")["evicted_keys"]) > 0
    service.expect_ticks(3)
    assert service.lines("ERROR") == []
