"""The store's clock as it is read while a store is opened, before any other reply.

Whatever else the opening takes, a handshake or the loading of a driver, is no part of that round
trip: half of it would be taken for an offset of the clocks, and slots that are due right after
the start for passed ones.
"""

from __future__ import annotations

import time

import pytest

from anarchon._values import Limits

LAG = 0.2  # seconds, each way
# The ways there and back are alike, but for what the machine does.
ERROR = 0.1


@pytest.mark.parametrize("store", ["redis-8.2", "postgres-18"], indirect=True)
def test_opening_tells_which_part_of_it_asked_for_the_time(backend, proxy):
    backend.open(Limits())  # a Redis has its scripts afterwards
    backend.close()
    proxy.delay(LAG)
    info = backend.open(Limits())
    returned = time.time()
    read = returned - info.age - info.trip / 2
    assert abs(info.store_ms / 1000 - read) < ERROR
    assert info.age > LAG  # it asked for more afterwards
    proxy.passing()
