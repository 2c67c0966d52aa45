"""What several modules of this folder need."""

from __future__ import annotations

from contextlib import closing

import pytest

from anarchon._testing_contract.bench import Bench
from tests.contract.test_redis import namespace
from tests.stores.redis_clock import ByHand, KeptClock
from tests.stores.redis_kept import Kept


@pytest.fixture
def kept(shared_server):
    """Have a store whose clock stands still, and what is in its keys."""
    server = shared_server("redis-8.2")
    name = namespace()
    with closing(KeptClock(server)) as clock:
        backend = ByHand(server.url, clock=clock, namespace=name)
        with closing(backend):
            yield Kept(server, name, Bench(backend, clock, lease_ms=30_000))
