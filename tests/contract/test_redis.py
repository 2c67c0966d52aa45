"""The contract of backends on every Redis and Valkey, alone and in a cluster."""

from __future__ import annotations

import itertools
import os

import pytest

from anarchon.backends.redis import RedisBackend
from anarchon.testing import LeaseBackendContract

NUMBERS = itertools.count(1)


def namespace():
    """Return a namespace that no other test has, so that they can share a server."""
    return f"test-{os.getpid()}-{next(NUMBERS)}"


class OnRedis(LeaseBackendContract):
    lease_ms = 1000
    variant = ""

    @pytest.fixture(autouse=True)
    def server(self, shared_server):
        self.url = shared_server(self.variant).url

    def make_backend(self, folder):
        return RedisBackend(self.url, namespace=namespace())


class TestRedis62(OnRedis):
    variant = "redis-6.2"


class TestRedis70(OnRedis):
    variant = "redis-7.0"


class TestRedis82(OnRedis):
    variant = "redis-8.2"


class TestValkey8(OnRedis):
    variant = "valkey-8"
