"""The scheduler of a service in memory, and in a time that the test moves."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from anarchon import ConfigurationError, JobNotFound, MemoryBackend, NotRunning, Scheduler
from anarchon.testing import ClaimOnly, FaultyBackend, assert_ran_once, manual_time

NINE = datetime(2026, 10, 10, 9, tzinfo=UTC)


@pytest.fixture
def store():
    """The store of the service, which nobody asks."""
    return FaultyBackend(MemoryBackend())


@pytest.fixture
def seen():
    return []


@pytest.fixture
def scheduler(store, seen):
    made = Scheduler(store, enabled=False)
    made.cron("report", "0 * * * *", seen.append)
    made.every("plain", "10s", lambda: seen.append("plain"))
    yield made
    assert store.calls == {}
    assert made.state == "idle"


def test_a_scheduler_in_manual_time(scheduler, seen):
    with manual_time(scheduler, start="2026-10-10T09:30Z") as clock:
        assert clock.now() == NINE.replace(minute=30)
        scheduler.every("more", "1h", lambda: seen.append("more"), catch_up=0)
        clock.advance("31m")
        slots = [one.slot for one in seen if hasattr(one, "slot")]
        assert slots == [int(NINE.timestamp() * 1000) + 3_600_000]
        assert assert_ran_once(scheduler, "report", "2026-10-10T10:00Z").slot == slots[0]
    with pytest.raises(NotRunning, match="enabled=False"):
        scheduler.run_now("report")
    assert {job.name: job.catch_up for job in scheduler.jobs} == {
        "report": 3600.0,
        "plain": 3600.0,
        "more": 0.0,
    }


def test_nothing_is_caught_up_unless_it_is_asked_for(scheduler, seen):
    with manual_time(scheduler) as clock:
        clock.advance("1s")
    assert seen == []
    with manual_time(scheduler, catch_up=True) as clock:
        clock.advance("1s")
    assert {getattr(one, "name", one) for one in seen} == {"report", "plain"}


@pytest.mark.parametrize("only", ["report", ["report"], ("report",)])
def test_only_some_jobs(scheduler, seen, only):
    with manual_time(scheduler, only=only) as clock:
        clock.advance("1h")
    assert [one.name for one in seen] == ["report"]
    assert all(job.enabled for job in scheduler.jobs)
    with pytest.raises(JobNotFound, match="reprot"), manual_time(scheduler, only=["reprot"]):
        pass


def test_each_block_has_an_empty_store(scheduler):
    for _ in range(2):
        with manual_time(scheduler) as clock:
            assert scheduler.history() == []
            clock.advance("10s")
            assert len(scheduler.history()) == 1


def test_all_is_as_before_when_the_block_fails(scheduler, store):
    before = scheduler._options, scheduler._clock, scheduler.jobs
    with pytest.raises(ZeroDivisionError), manual_time(scheduler):
        _ = 1 / 0
    assert (scheduler._options, scheduler._clock, scheduler.jobs) == before
    assert scheduler._options.backend is store


def test_jobs_that_change_in_the_block_stay_changed(scheduler, seen):
    with manual_time(scheduler):
        scheduler.remove("plain")
        scheduler.every("report", "2h", seen.append, replace=True)
    assert [job.name for job in scheduler.jobs] == ["report"]
    assert scheduler.jobs[0].schedule.period_ms == 7_200_000


def test_it_is_refused_while_the_scheduler_runs():
    scheduler = Scheduler(ClaimOnly(MemoryBackend()))
    with scheduler:
        with pytest.raises(RuntimeError, match="before start"), manual_time(scheduler):
            pass
        assert scheduler.state == "running"
    with pytest.raises(ConfigurationError, match="start"), manual_time(scheduler, start="now"):
        pass
    with pytest.raises(ConfigurationError, match="is no scheduler"), manual_time("scheduler"):
        pass
