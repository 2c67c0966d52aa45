"""Cancelling runs of the fleet."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from anarchon import BackendUnavailable, MemoryBackend, Scheduler
from anarchon.testing import FaultyBackend, ManualClock

START = datetime(2026, 10, 10, 9, 59, tzinfo=UTC)
SLOT = datetime(2026, 10, 10, 10, tzinfo=UTC)


@pytest.fixture
def clock():
    return ManualClock(START)


def instance(backend, handler, clock):
    scheduler = Scheduler(backend, lease=30, catch_up=0, jitter=0)
    scheduler.every("job", "1h", handler)
    clock.attach(scheduler)
    return scheduler


def test_a_run_ends_at_its_runners_next_heartbeat_and_nobody_goes_on(clock):
    backend, reasons = MemoryBackend(), []

    def handler(ctx):
        ctx.signal.wait(3000)
        reasons.append(ctx.signal.reason)
        ctx.signal.raise_if_aborted()

    one, other = (instance(backend, handler, clock) for _ in range(2))
    with one, other:
        clock.advance("1m")
        assert [run.status for run in one.history("job")] == ["running"]
        assert Scheduler(backend).cancel("job", SLOT) is True
        clock.advance("10s")
        assert reasons == ["cancel"]
        clock.advance("5m")
        [run] = one.history("job")
        assert (run.status, run.detail, run.duration_ms) == ("interrupted", "cancelled", 10_000)
        assert one.cancel("job", SLOT) is False
        clock.advance("1h")
    assert reasons == ["cancel", "stop"]


def test_one_that_returns_all_the_same_is_a_success(clock):
    def handler(ctx):
        ctx.signal.wait(3000)

    scheduler = instance(MemoryBackend(), handler, clock)
    with scheduler:
        clock.advance("1m")
        assert scheduler.cancel("job", SLOT)
        clock.advance("10s")
        assert [run.status for run in scheduler.history("job")] == ["success"]


def test_a_run_that_waits_is_closed(clock):
    def handler(ctx):
        ctx.signal.wait(3000)
        ctx.signal.raise_if_aborted()

    backend = MemoryBackend()
    with (scheduler := instance(backend, handler, clock)):
        clock.advance("1m")
    assert [run.detail for run in scheduler.history("job")] == ["handed over"]
    assert scheduler.cancel("job", SLOT) is True
    with (other := instance(backend, handler, clock)):
        clock.advance("1m")
        assert [run.detail for run in other.history("job")] == ["cancelled"]


def test_what_was_never_claimed_is_not_cancelled(clock):
    backend = MemoryBackend()
    assert Scheduler(backend).cancel("job", SLOT) is False
    assert Scheduler(backend).history() == []


def test_a_store_that_is_down(clock):
    backend = FaultyBackend(MemoryBackend())
    backend.fail("cancel")
    with pytest.raises(BackendUnavailable):
        Scheduler(backend).cancel("job", SLOT)
