"""A server that goes away, in every way, under a scheduler at work: it comes back by itself.

One line when the outage begins and one when it is over, runs that gave up in time, and a
stop within its bound.
"""

from __future__ import annotations

import time

import pytest

from tests.on_servers.service import LEASE, Service
from tests.processes.places import backend_at

SOME = ("redis-8.2", "valkey-8", "postgres-18", "pgbouncer-15")
MARGIN = 0.3
# What is added to a bound for a busy machine.
SLACK = 2.0
LATE = 0.5  # an abort at most

some_stores = pytest.mark.parametrize("store", SOME, indirect=True)


@pytest.fixture
def service(backend, caplog):
    service = Service(backend, caplog)
    yield service
    service.scheduler.stop(5)


@pytest.fixture
def unhurried(backend, caplog):
    service = Service(backend, caplog, unhurried=True)
    yield service
    service.scheduler.stop(5)


@some_stores
def test_a_black_hole_longer_than_a_lease(service, proxy):
    """The run gives itself up before anybody else could take it, and everything comes back."""
    service.scheduler.start()
    service.expect_ticks(1)
    assert service.holds.wait(10)
    begun = time.monotonic()
    proxy.black_hole()
    aborted = service.expect_abort("lost", LEASE + SLACK)
    # The last renewal was sent at most a heartbeat, give or take, before the hole.
    assert aborted - begun < LEASE - MARGIN + LATE
    time.sleep(max(0.0, begun + LEASE + 1 - time.monotonic()))
    proxy.passing()
    service.expect_ticks(2)
    assert service.outages() == (1, 1)
    service.scheduler.stop(10)
    service.check()


@some_stores
def test_a_connection_that_is_reset_at_every_command(unhurried, proxy):
    service = unhurried
    service.scheduler.start()
    service.expect_ticks(1)
    proxy.reset()
    time.sleep(2.0)
    proxy.passing()
    service.expect_ticks(2)
    assert service.aborted == []  # it was shorter than a lease
    assert service.outages() == (1, 1)
    service.scheduler.stop(10)
    service.check()


@some_stores
@pytest.mark.parametrize("fault", ["black_hole", "reset", "refuse", "half_open"])
def test_stop_keeps_its_bound_without_a_store(service, proxy, fault):
    service.scheduler.start()
    assert service.holds.wait(10)
    getattr(proxy, fault)()
    proxy.reset_all() if fault == "refuse" else None
    begun = time.monotonic()
    service.scheduler.stop(3)
    assert time.monotonic() - begun < 3 + SLACK
    assert service.scheduler.state == "idle"
    proxy.passing()


@some_stores
def test_connections_that_died_without_a_word(unhurried, proxy):
    """Both are half open; the calls on them end in time, and the next ones are new."""
    service = unhurried
    service.scheduler.start()
    service.expect_ticks(1)
    proxy.half_open()
    service.expect_ticks(3)
    assert service.aborted == []
    service.scheduler.stop(10)
    service.check()


@some_stores
def test_a_store_that_is_not_there_at_start(store, proxy, namespace, caplog):
    """It is waited for, with one line."""
    proxy.refuse()
    backend = backend_at(store.through(proxy), namespace=namespace)
    service = Service(backend, caplog, unhurried=True)
    service.scheduler.start(retry=True)
    time.sleep(1.5)
    assert service.scheduler.state == "starting"
    proxy.passing()
    service.expect_ticks(1, within=35)
    service.scheduler.stop(10)
    assert service.outages() == (1, 1)
