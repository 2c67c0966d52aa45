"""The contract of backends on every Redis and Valkey, alone and in a cluster."""

from __future__ import annotations

import functools
import itertools
import os
import time
from contextlib import ExitStack

import pytest

from anarchon.backends.redis import RedisBackend
from anarchon.testing import LeaseBackendContract
from tests.servers.faketime import SteppedClock
from tests.servers.redis import RedisServer
from tests.servers.redis_groups import RedisCluster

NUMBERS = itertools.count(1)


def namespace():
    """Return a namespace that no other test has, so that they can share a server."""
    return f"test-{os.getpid()}-{next(NUMBERS)}"


class OnServer(LeaseBackendContract):
    """On a server with a clock of its own: tests wait for real leases."""

    lease_clock = "may step"
    clock_can_be_set = False
    clock_stands_still = False
    lease_ms = 1000
    variant = ""

    @pytest.fixture(autouse=True)
    def server(self, shared_server):
        self.url = shared_server(self.variant).url

    def make_backend(self, folder):
        return RedisBackend(self.url, namespace=namespace())


class TestRedis70(OnServer):
    variant = "redis-7.0"


class TestValkey8(OnServer):
    variant = "valkey-8"


@pytest.fixture(scope="module")
def cluster():
    with RedisCluster() as cluster:
        yield cluster


class TestCluster(OnServer):
    """Asked for by the URL of any of its nodes."""

    @pytest.fixture(autouse=True)
    def server(self, cluster):
        self.url = cluster.nodes[0].url


class MovedClock:
    """The clock of a server that is moved by hand, and goes on by itself as well."""

    def __init__(self):
        self._server = SteppedClock()
        self._passed_ms = self._stepped_ms = 0.0
        self.environment = self._server.environment

    def mono(self):
        return time.monotonic() + self._passed_ms / 1000

    def advance(self, ms):
        self._passed_ms += ms
        self._set()

    def step(self, ms):
        self._stepped_ms += ms
        self._set()

    def _set(self):
        self._server.set((self._passed_ms + self._stepped_ms) / 1000)


@pytest.fixture(scope="module")
def moved_server():
    """Give the URL of a running server of a variant, and its clock."""
    with ExitStack() as stack:

        @functools.cache
        def start(variant):
            clock = MovedClock()
            server = stack.enter_context(RedisServer(variant, clock=clock))
            return server.url, clock

        yield start


class OnMovedClock(LeaseBackendContract):
    """On a server whose clock is moved: no test waits."""

    lease_clock = "may step"
    clock_can_be_set = True
    clock_stands_still = False
    variant = ""

    @pytest.fixture(autouse=True)
    def server(self, moved_server):
        self.url, self.clock = moved_server(self.variant)

    def make_backend(self, folder):
        return RedisBackend(self.url, namespace=namespace())

    def make_clock(self, backend):
        return self.clock


class TestRedis62(OnMovedClock):
    variant = "redis-6.2"


class TestRedis82(OnMovedClock):
    variant = "redis-8.2"
