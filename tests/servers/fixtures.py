"""Fixtures of servers, for every test; nothing starts before a test asks for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import Postgres
from tests.servers.processes import Bringer, Missing
from tests.servers.redis import RedisServer
from tests.servers.redis_groups import RedisCluster

if TYPE_CHECKING:
    from tests.servers.processes import Server
    from tests.servers.redis_groups import Group


class SharedServers:
    """One running server of each variant for all tests of this process."""

    def __init__(self) -> None:
        self._started: dict[str, Server | Group] = {}

    def __call__(self, variant: str) -> Server | Group:
        """Return the server, started when it isn't running."""
        if variant not in self._started:
            self._started[variant] = self._make(variant)
        server = self._started[variant]
        if not server.is_running:
            server.start()
        return server

    def close(self) -> None:
        for server in self._started.values():
            server.delete()

    def _make(self, variant: str) -> Server | Group:
        if variant == "pgbouncer-15":
            return PgBouncer(self("postgres-15"))
        if variant == "redis-cluster":
            return RedisCluster()
        return Postgres(variant) if variant.startswith("postgres") else RedisServer(variant)


@pytest.fixture(scope="session")
def shared_server():
    """Give tests the server of a variant, as in `shared_server("redis-8.2")`.

    Variants are those of `redis.py` and `postgres.py`, "pgbouncer-15" and "redis-cluster".
    A test that uses it leaves it as it was, or takes a database, a prefix or users of its own.
    """
    servers = SharedServers()
    yield servers
    servers.close()


@pytest.fixture
def own_server():
    """Let a test start servers, or groups, that are deleted after it: `own_server(Postgres())`."""
    servers = []

    def start(server):
        servers.append(server)
        server.start()
        return server

    yield start
    for server in reversed(servers):
        server.delete()


def _skip_what_may_be_missing(missing: Missing) -> None:
    is_in_ci = os.environ.get("CI") or os.environ.get("ANARCHON_CI")
    must_be_there = {Bringer.WHEEL, Bringer.SYSTEM} if is_in_ci else {Bringer.WHEEL}
    if missing.bringer not in must_be_there:
        pytest.skip(str(missing))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup():
    try:
        return (yield)
    except Missing as missing:
        _skip_what_may_be_missing(missing)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    try:
        return (yield)
    except Missing as missing:
        _skip_what_may_be_missing(missing)
        raise
