"""A whole scheduler while the clocks of its zone change, and while its own clock is stepped."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from anarchon import MemoryBackend, Scheduler
from anarchon.testing import ManualClock

BERLIN = "Europe/Berlin"
JOBS = {
    "fixed": "30 2 * * *",
    "three": "0 3 * * *",
    "often": "*/30 * * * *",
    "hours": "15 2,3 * * *",
}
MONTHLY = "DTSTART;TZID=Europe/Berlin:20260101T023000\nRRULE:FREQ=DAILY"


def at(text):
    return datetime.fromisoformat(text)


def started(begin, **options):
    """Return a scheduler that was started then, its clock, and the slots that ran."""
    clock, ran = ManualClock(at(begin)), []
    scheduler = Scheduler(MemoryBackend(), timezone=BERLIN, catch_up=0, **options)
    for name, expression in JOBS.items():
        scheduler.cron(name, expression, lambda ctx: ran.append((ctx.name, ctx.scheduled_at)))
    scheduler.rrule("rule", MONTHLY, lambda ctx: ran.append((ctx.name, ctx.scheduled_at)))
    clock.attach(scheduler)
    scheduler.start()
    return scheduler, clock, ran


def times(ran, name):
    return [f"{slot:%d %H:%M}" for job, slot in ran if job == name]


def expected(scheduler, begin, end):
    """Return the slots in (begin, end], by each schedule itself."""
    found = []
    for job in scheduler.jobs:
        t = at(begin)
        while (t := job.schedule.next_after(t)) <= at(end):
            found.append((job.name, t))
    return Counter(found)


def go(clock, end):
    while clock.now() < at(end):
        clock.advance(min(timedelta(minutes=5), at(end) - clock.now()))


def test_across_a_gap_each_slot_runs_once():
    begin, end = "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z"
    scheduler, clock, ran = started(begin)
    go(clock, end)
    assert times(ran, "fixed") == ["29 01:00", "30 00:30"]
    assert times(ran, "three") == ["29 01:00", "30 01:00"]
    assert times(ran, "hours") == ["29 01:00", "29 01:15", "30 00:15", "30 01:15"]
    assert times(ran, "rule") == ["29 01:00", "30 00:30"]
    assert Counter(ran) == expected(scheduler, begin, end)
    scheduler.stop(2)


def test_across_an_overlap_each_slot_runs_once():
    begin, end = "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z"
    scheduler, clock, ran = started(begin)
    go(clock, end)
    assert times(ran, "fixed") == ["25 00:30", "26 01:30"]
    assert times(ran, "hours") == ["25 00:15", "25 02:15", "26 01:15", "26 02:15"]
    assert times(ran, "rule") == ["25 00:30", "26 01:30"]
    assert len(times(ran, "often")) == 2 * 48
    assert Counter(ran) == expected(scheduler, begin, end)
    scheduler.stop(2)


@pytest.mark.parametrize("catch_up", [0, "3h"])
def test_a_start_in_the_second_pass_does_not_repeat_what_ran_in_the_first(catch_up):
    # A first instance runs the slots of the first pass, then it is gone.
    clock, ran, backend = ManualClock(at("2026-10-25T00:00:00Z")), [], MemoryBackend()
    schedulers = []
    for _ in range(2):
        scheduler = Scheduler(backend, timezone=BERLIN, catch_up=catch_up)
        for name, expression in JOBS.items():
            scheduler.cron(name, expression, lambda ctx: ran.append((ctx.name, ctx.scheduled_at)))
        clock.attach(scheduler)
        schedulers.append(scheduler)
    schedulers[0].start()
    go(clock, "2026-10-25T00:50:00Z")
    schedulers[0].stop(2)
    # 02:05 by the wall clock, for the second time.
    go(clock, "2026-10-25T01:05:00Z")
    schedulers[1].start()
    go(clock, "2026-10-25T02:00:00Z")
    schedulers[1].stop(2)
    assert times(ran, "fixed") == ["25 00:30"]
    assert times(ran, "hours") == ["25 00:15"]
    assert times(ran, "three") == ["25 02:00"]
    assert max(Counter(ran).values()) == 1


def test_a_clock_that_jumps_a_day_ahead_runs_the_latest_slot_at_most():
    scheduler, clock, ran = started("2026-06-01T12:05:00Z")
    go(clock, "2026-06-01T13:05:00Z")
    before = len(ran)
    clock.step_wall("1d")
    clock.advance("1m")
    # 24 hours of "often" are 48 slots; a scheduler without catch-up runs none of them.
    assert len(ran) - before <= 1
    go(clock, "2026-06-02T14:05:00Z")
    assert times(ran, "often")[-2:] == ["02 13:30", "02 14:00"]
    assert max(Counter(ran).values()) == 1
    scheduler.stop(2)


def test_a_clock_that_jumps_an_hour_back_repeats_nothing():
    scheduler, clock, ran = started("2026-06-01T00:05:00Z")
    go(clock, "2026-06-01T02:05:00Z")
    assert times(ran, "fixed") == ["01 00:30"]
    assert times(ran, "often") == ["01 00:30", "01 01:00", "01 01:30", "01 02:00"]
    clock.step_wall("-1h")
    go(clock, "2026-06-01T03:05:00Z")
    assert times(ran, "fixed") == ["01 00:30"]
    assert max(Counter(ran).values()) == 1
    # The two that come twice on the clock ran before; the store remembers.
    assert times(ran, "often")[4:] == ["01 02:30", "01 03:00"]
    assert Counter(ran) == expected(scheduler, "2026-06-01T00:05:00Z", "2026-06-01T03:05:00Z")
    scheduler.stop(2)


def test_a_clock_that_jumps_a_day_ahead_and_may_catch_up_runs_one_slot_of_each_job():
    clock, ran = ManualClock(at("2026-06-01T12:05:00Z")), []
    scheduler = Scheduler(MemoryBackend(), timezone=BERLIN, catch_up="2d")
    for name, expression in JOBS.items():
        scheduler.cron(name, expression, lambda ctx: ran.append((ctx.name, ctx.scheduled_at)))
    clock.attach(scheduler)
    scheduler.start()
    clock.advance("1m")
    before = len(ran)
    clock.step_wall("1d")
    clock.advance("2m")
    assert Counter(name for name, _ in ran[before:]) == dict.fromkeys(JOBS, 1)
    assert max(slot for _, slot in ran) <= datetime(2026, 6, 2, 12, 8, tzinfo=UTC)
    scheduler.stop(2)
