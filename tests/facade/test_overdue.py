"""Slots that nobody has finished in time: told of by one instance, to its log and listeners."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from anarchon import ConfigurationError, Explanation, MemoryBackend, Scheduler, SqliteBackend
from anarchon.testing import ClaimOnly, FaultyBackend, ManualClock
from tests.facade.helpers import until

START = datetime(2026, 10, 10, 9, 59, tzinfo=UTC)
SLOT_MS = 1_791_626_400_000  # ten o'clock


@pytest.fixture
def clock():
    return ManualClock(START)


def fleet(backend, handler, clock, told, size=3, **options):
    """Return instances that tell a list of what is overdue; nobody has started."""
    made = []
    for number in range(size):
        scheduler = Scheduler(backend, lease=30, catch_up=0, instance_id=f"i{number}")
        scheduler.every("job", "1h", handler, expect_within="5m", **options)
        scheduler.on("overdue", lambda found, number=number: told.append((number, found)))
        clock.attach(scheduler)
        made.append(scheduler)
    return made


@pytest.mark.parametrize("make", [MemoryBackend, None])
def test_one_of_three_tells_of_a_run_that_takes_too_long(make, clock, tmp_path, caplog):
    told = []
    backend = make() if make else SqliteBackend(tmp_path / "jobs.db")
    instances = fleet(backend, lambda ctx: ctx.signal.wait(1200), clock, told)
    with caplog.at_level(logging.WARNING, "anarchon"), instances[0], instances[1], instances[2]:
        clock.advance("1m")
        clock.advance("4m59s")
        assert told == []
        clock.advance("2s")
        until(lambda: told, "the event")
        [(_, found)] = told
        assert isinstance(found, Explanation)
        assert (found.job, found.slot, found.outcome) == ("job", SLOT_MS, "running")
        assert [run.status for run in found.runs] == ["running"]
        clock.advance("40m")
        assert [run.status for run in instances[0].history("job")] == ["success"]
    assert len(told) == 1
    lines = [line for line in caplog.messages if "overdue" in line]
    assert lines == ["job @ 2026-10-10T10:00:00.000Z: overdue: nobody has finished it within 5m"]


def test_what_is_finished_in_time_is_told_of_by_nobody_and_costs_no_call(clock):
    told = []
    backend = FaultyBackend(MemoryBackend())
    instances = fleet(backend, lambda: None, clock, told)
    with instances[0], instances[1], instances[2]:
        clock.advance("3h")
        assert len(instances[0].history("job")) == 3
    assert told == []
    assert backend.calls["alert"] <= 6  # of who won a slot none, of who lost it at most one


def test_a_failure_is_an_end_as_well(clock):
    told = []
    instances = fleet(MemoryBackend(), lambda: 1 / 0, clock, told)
    with instances[0], instances[1]:
        clock.advance("2h")
    assert told == []


def test_a_paused_job_is_not_overdue(clock):
    told = []
    instances = fleet(MemoryBackend(), lambda: None, clock, told)
    with instances[0], instances[1]:
        instances[0].pause("job")
        clock.advance("2h")
        assert {run.detail for run in instances[0].history("job")} == {"paused"}
    assert told == []


def test_a_slot_that_finds_no_worker_is(clock):
    told = []
    scheduler = Scheduler(MemoryBackend(), lease=30, catch_up="30m", workers=1)
    scheduler.once("busy", "2026-10-10T09:59:30Z", lambda ctx: ctx.signal.wait(1800))
    scheduler.every("job", "1h", lambda: None, expect_within="5m").on("overdue", told.append)
    clock.attach(scheduler)
    with scheduler:
        clock.advance("7m")
    assert [(found.job, found.outcome) for found in told] == [("job", "due")]


def test_what_a_listener_raises_harms_nobody(clock, caplog):
    told = []
    instances = fleet(MemoryBackend(), lambda ctx: ctx.signal.wait(1200), clock, told, size=1)
    instances[0].on("overdue", lambda found: 1 / 0)
    with instances[0]:
        clock.advance("10m")
        clock.advance("1h")
    assert [found.slot for _, found in told] == [SLOT_MS, SLOT_MS + 3_600_000]
    assert "ZeroDivisionError" in caplog.text


def test_a_store_without_leases_is_refused_for_it():
    scheduler = Scheduler(ClaimOnly(MemoryBackend()))
    with pytest.raises(ConfigurationError, match="expect_within"):
        scheduler.every("job", "1h", lambda: None, expect_within="5m")
    assert scheduler.jobs == ()
    scheduler.every("job", "1h", lambda: None, expect_within=None)
