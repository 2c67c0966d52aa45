"""The contract on a Redis whose scripts are told the time, so that it is exact to a millisecond.

A server's clock moves on by itself, also one that is stepped. On this one a claim can come
in the very millisecond in which a lease ends or a pause is over.
"""

from __future__ import annotations

import pytest

from anarchon.testing import LeaseBackendContract
from tests.contract.test_redis import namespace
from tests.stores.redis_clock import ByHand, KeptClock

VARIANT = "redis-8.2"


class TestRedisByHand(LeaseBackendContract):
    lease_clock = "may step"
    clock_can_be_set = True
    clock_stands_still = True

    @pytest.fixture(autouse=True)
    def _clock(self, shared_server):
        server = shared_server(VARIANT)
        self.url = server.url
        self.clock = KeptClock(server)
        yield
        self.clock.close()

    def make_backend(self, folder):
        return ByHand(self.url, clock=self.clock, namespace=namespace())

    def make_clock(self, backend):
        return self.clock
