"""A server that is another one afterwards: restarted, promoted, read-only, emptied."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from anarchon import Scheduler
from tests.on_servers.service import Service
from tests.processes.places import backend_at
from tests.servers.postgres import Postgres
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer


class Address:
    """Where a proxy leads; like a name that is given to another server."""

    def __init__(self, server) -> None:
        self.host, self.port = server.host, server.port

    def move(self, server, proxy) -> None:
        """Lead to another server from now on."""
        self.host, self.port = server.host, server.port
        proxy.reset_all()


@pytest.fixture
def behind(own_server, namespace, caplog):
    """Start a server and a service that comes in through a proxy; all ends with the test."""
    services = []
    proxies = []

    def make(server, *, unhurried=False):
        own_server(server)
        address = Address(server)
        proxy = Proxy(address)
        proxies.append(proxy)
        url = server.url() if isinstance(server, Postgres) else server.url
        there = url.replace(f":{server.port}", f":{proxy.port}", 1)
        service = Service(backend_at(there, namespace=namespace), caplog, unhurried=unhurried)
        services.append(service)
        return SimpleNamespace(service=service, proxy=proxy, address=address, server=server)

    yield make
    for service in services:
        service.scheduler.stop(5)
    for proxy in proxies:
        proxy.close()


SERVERS = {
    "redis-8.2": lambda: RedisServer("redis-8.2", persist=True),
    "postgres-18": lambda: Postgres("postgres-18", durable=True),
}
each_server = pytest.mark.parametrize("variant", SERVERS)


@each_server
@pytest.mark.parametrize("end", ["restart", "kill"])
def test_a_server_that_restarts_while_twenty_jobs_run(variant, end, own_server, namespace):
    """BR-074: shorter than a lease, it costs no run."""
    server = SERVERS[variant]()
    own_server(server)
    url = server.url() if isinstance(server, Postgres) else server.url
    go, inside = threading.Event(), threading.Semaphore(0)
    ended = []

    def work(ctx):
        inside.release()
        while not go.is_set() and not ctx.signal.wait(0.02):
            pass
        ended.append((ctx.name, ctx.attempt, ctx.signal.reason))

    scheduler = Scheduler(
        backend_at(url, namespace=namespace), lease="15s", heartbeat="1s", workers=25
    )
    for number in range(20):
        scheduler.every(f"job {number}", "1h", work, catch_up="1h")
    with scheduler:
        for _ in range(20):
            assert inside.acquire(timeout=10)
        if end == "kill":
            server.kill()
            server.start()
        else:
            server.restart()
        go.set()
        deadline = time.monotonic() + 30
        while any(run.status == "running" for run in scheduler.history()):
            assert time.monotonic() < deadline, scheduler.history()
            time.sleep(0.1)
        assert sorted(ended) == sorted((f"job {number}", 1, None) for number in range(20))
        assert {(run.attempt, run.status) for run in scheduler.history()} == {(1, "success")}


def test_a_redis_that_was_promoted_without_the_last_writes(behind, own_server):
    """The run is told that it is lost; its slot may run again, under a greater fence."""
    at = behind(RedisServer("redis-8.2"))
    other = own_server(RedisServer("redis-8.2"))
    at.service.scheduler.start()
    assert at.service.holds.wait(10)
    at.service.holds.clear()
    at.address.move(other, at.proxy)
    at.service.expect_abort("lost", 5)
    at.service.expect_ticks(2)
    assert at.service.holds.wait(10)
    assert at.service.fences == sorted(set(at.service.fences))
    assert at.service.outages() in {(0, 0), (1, 1)}
    assert at.service.lines("ERROR") == []


def test_a_redis_that_was_emptied(behind):
    """BR-100: renewals find nothing; what is due next runs as on a new store."""
    at = behind(RedisServer("redis-8.2"), unhurried=True)
    at.service.scheduler.start()
    assert at.service.holds.wait(10)
    at.server.ask("FLUSHALL")
    at.server.ask("SCRIPT", "FLUSH")
    at.service.expect_abort("lost", 5)
    at.service.expect_ticks(2)
    assert at.service.outages() == (0, 0)
    assert at.service.lines("ERROR") == []


def test_a_standby_that_was_promoted(behind, own_server):
    """With all writes, no run is lost."""
    at = behind(Postgres("postgres-18"), unhurried=True)
    at.service.scheduler.start()
    assert at.service.holds.wait(10)
    standby = own_server(Postgres("postgres-18", primary=at.server))
    at.service.expect_ticks(1)
    standby.catch_up(at.server)
    at.server.kill()
    standby.promote()
    at.address.move(standby, at.proxy)
    at.service.expect_ticks(2)
    assert at.service.aborted == []
    assert at.service.outages() in {(0, 0), (1, 1)}
    at.service.scheduler.stop(5)
    at.service.check()


def make_read_only(server, *, on):
    if isinstance(server, Postgres):
        server.configure(default_transaction_read_only="on" if on else "off")
    elif on:
        server.ask("REPLICAOF", "127.0.0.1", "1")
    else:
        server.ask("REPLICAOF", "NO", "ONE")


@each_server
def test_a_node_that_is_read_only_for_a_while(variant, behind):
    """A replica in place of the primary; nothing of it is written, and all comes back."""
    at = behind(SERVERS[variant](), unhurried=True)
    at.service.scheduler.start()
    at.service.expect_ticks(1)
    make_read_only(at.server, on=True)
    time.sleep(1.5)
    make_read_only(at.server, on=False)
    at.service.expect_ticks(2)
    assert at.service.aborted == []
    assert at.service.outages() == (1, 1)
    at.service.scheduler.stop(5)
    at.service.check()
