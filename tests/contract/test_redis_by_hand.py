"""The contract on a Redis whose scripts are told the time, so that it is exact to a millisecond.

A server's clock moves on by itself, also one that is stepped. On this one a claim can come
in the very millisecond in which a lease ends or a pause is over.
"""

from __future__ import annotations

import pytest

from anarchon._testing_contract.bench import HandClock
from anarchon.backends import _redis_scripts
from anarchon.backends.redis import RedisBackend
from anarchon.testing import LeaseBackendContract
from tests.contract.test_redis import namespace

VARIANT = "redis-8.2"
ASKS, READS = "call('TIME')", "call('HMGET', 'time by hand', 's', 'us')"


class KeptClock(HandClock):
    """The time in a key of the server."""

    def __init__(self, server) -> None:
        super().__init__()
        self._client = server.client()
        self._store()

    def advance(self, ms):
        super().advance(ms)
        self._store()

    def step(self, ms):
        super().step(ms)
        self._store()

    def close(self):
        self._client.close()

    def _store(self):
        seconds, ms = divmod(self.wall_ms(), 1000)
        self._client("HSET", "time by hand", "s", seconds, "us", 1000 * ms)


class ByHand(RedisBackend):
    """A store on that clock."""

    def __init__(self, url, *, clock, **options):
        super().__init__(url, **options)
        self.clock = clock

    def open(self, limits):
        return super().open(limits)._replace(store_ms=self.clock.wall_ms())


@pytest.fixture(scope="module")
def scripts():
    """Return the scripts with another way to know the time."""
    found = {}
    for name, script in _redis_scripts.scripts().items():
        text = script.text.replace(ASKS, READS)
        assert text != script.text
        found[name] = _redis_scripts._script(name, text)
    return found


class TestRedisByHand(LeaseBackendContract):
    lease_clock = "may step"
    clock_can_be_set = True
    clock_stands_still = True

    @pytest.fixture(autouse=True)
    def _clock(self, shared_server, scripts, monkeypatch):
        monkeypatch.setattr(_redis_scripts, "scripts", lambda: scripts)
        server = shared_server(VARIANT)
        self.url = server.url
        self.clock = KeptClock(server)
        yield
        self.clock.close()

    def make_backend(self, folder):
        return ByHand(self.url, clock=self.clock, namespace=namespace())

    def make_clock(self, backend):
        return self.clock
