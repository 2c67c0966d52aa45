"""What a scheduler counts of its store calls, whoever looks: as often as the store was called."""

from __future__ import annotations

import os

import pytest

from anarchon import BackendUnavailable, MemoryBackend, Scheduler
from anarchon._measures import OPERATIONS, Measures, StoreCounts
from anarchon.testing import FaultyBackend, ManualClock


def made(backend):
    clock, scheduler = ManualClock(), Scheduler(backend, catch_up=0)
    clock.attach(scheduler)
    return clock, scheduler


def seen(backend):
    """Return what the backend was asked for, among what is counted."""
    return {name: backend.calls[name] for name in OPERATIONS}


def test_every_call_is_counted_once():
    backend = FaultyBackend(MemoryBackend())
    clock, scheduler = made(backend)
    scheduler.every("long", "1h", lambda ctx: ctx.signal.sleep("40s"))
    with scheduler:
        clock.advance("1h1m")
        scheduler.run_now("long")
        # Reads are not the scheduler's own.
        assert len(scheduler.history()) == 2
    counts = scheduler._measures.store()
    assert counts.calls == seen(backend)
    assert counts.calls["claim"] == counts.calls["record_manual"] == counts.calls["open"] == 1
    assert counts.calls["finish"] == 2
    assert counts.calls["renew"] > 2
    assert counts.errors == dict.fromkeys(OPERATIONS, 0)


def test_what_fails_is_counted_as_a_call_and_as_an_error():
    backend = FaultyBackend(MemoryBackend())
    clock, scheduler = made(backend)
    scheduler.every("job", "1m", lambda: None)
    with scheduler:
        backend.fail("claim", times=2)
        backend.answer("nonsense", method="finish")
        clock.advance("1m")
        clock.advance("30s")
    counts = scheduler._measures.store()
    assert counts.calls == seen(backend)
    assert counts.errors == {**dict.fromkeys(OPERATIONS, 0), "claim": 2, "finish": 1}


def test_an_open_that_fails_is_counted_and_counts_outlast_a_stop():
    backend = FaultyBackend(MemoryBackend())
    _, scheduler = made(backend)
    scheduler.start()
    scheduler.stop()
    backend.fail("open")
    with pytest.raises(BackendUnavailable):
        scheduler.start()
    scheduler.start()
    scheduler.stop()
    counts = scheduler._measures.store()
    assert (counts.calls["open"], counts.errors["open"]) == (3, 1)


def test_operations_are_methods_of_a_backend():
    from anarchon.backends.base import LeaseBackend

    assert all(callable(getattr(LeaseBackend, name)) for name in OPERATIONS)
    assert set(StoreCounts().calls) == set(OPERATIONS)


def test_a_forked_child_begins_with_nothing():
    measures = Measures()
    measures.store().calls["claim"] = 7
    assert measures.store().calls["claim"] == 7
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(writing, bytes([measures.store().calls["claim"]]))
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reading, 1) == b"\0"
    for end in (reading, writing):
        os.close(end)
