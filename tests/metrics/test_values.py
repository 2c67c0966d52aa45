"""Every metric, with the values that it has to have, scraped over HTTP."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from anarchon import MemoryBackend
from anarchon._measures import OPERATIONS
from anarchon.contrib._prometheus_families import FIRST_ENDS, FIRST_STARTS
from anarchon.contrib.prometheus import metrics
from anarchon.testing import FaultyBackend

REASONS = ("job_name", "reason")
ENDS = ("job_name", "status", "reason")
START = 1_767_225_600  # the manual clock's: 2026, in seconds since 1970


def fails(ctx):
    ctx.signal.sleep("500ms")
    raise ValueError


def test_runs_by_job_status_and_reason(make, clock, registry, scrape):
    scheduler = make()
    metrics(scheduler, registry=registry)
    scheduler.every("good", "10s", lambda ctx: ctx.signal.sleep("2s"))
    scheduler.every("bad", "20s", fails)
    scheduler.every("slow", "30s", lambda ctx: ctx.signal.sleep("1h"), timeout="35s")
    with scheduler:
        clock.advance("65s")
        scheduler.run_now("good")
        found = scrape()
        assert found("running_handlers") == 0
    assert found.counted("run_starts_total", *REASONS) == {
        ("good", "scheduled"): 6,
        ("good", "manual"): 1,
        ("bad", "scheduled"): 3,
        ("slow", "scheduled"): 1,
    }
    assert found.counted("runs_total", *ENDS) == {
        ("good", "success", "scheduled"): 6,
        ("good", "success", "manual"): 1,
        ("bad", "failed", "scheduled"): 3,
        ("slow", "failed", "scheduled"): 1,
        ("slow", "skipped", "scheduled"): 1,
    }
    assert found.histogram("run_duration_seconds", job_name="good") == ({5.0: 7}, 14.0, 7)
    assert found.histogram("run_duration_seconds", job_name="bad") == (
        {0.5: 3},
        1.5,
        3,
    )
    assert found.histogram("run_duration_seconds", job_name="slow") == ({60.0: 1}, 35.0, 1)
    # A manual run has no slot that it could be late for.
    assert found.histogram("run_lateness_seconds", job_name="good") == ({0.01: 6}, 0.0, 6)
    # The manual run was the last, on a clock that went on while it was waited for.
    assert found("last_success_timestamp_seconds", job_name="good") == START + 67
    assert found("last_success_timestamp_seconds", job_name="bad") is None


def test_lateness_and_missed_slots_of_a_busy_instance(make, clock, registry, scrape):
    scheduler = make(workers=1)
    metrics(scheduler, registry=registry)
    scheduler.every("long", "1m", lambda ctx: ctx.signal.sleep("32s"))
    scheduler.every("short", "10s", lambda: None)
    with scheduler:
        clock.advance("59s")
        assert scrape().counted("run_starts_total", *REASONS)[("short", "scheduled")] == 5
        clock.advance("40s")
        found = scrape()
    # At 60 it goes first, since it is due again sooner. Then "long" keeps 70 and 80 from it, and
    # 90 for two seconds.
    ends = found.counted("runs_total", *ENDS)
    assert ends["short", "success", "scheduled"] == 7
    assert ends["short", "missed", "scheduled"] == 2
    late = found.histogram("run_lateness_seconds", job_name="short")
    assert late == ({0.01: 6, 2.5: 1}, 2.0, 7)


def test_a_catch_up_is_late_by_the_time_since_its_slot(make, clock, registry, scrape):
    scheduler = make(catch_up="1h")
    metrics(scheduler, registry=registry)
    clock.advance("90s")
    scheduler.every("job", "1h", lambda: None)
    with scheduler:
        found = scrape()
    assert found.counted("run_starts_total", *REASONS) == {("job", "catch-up"): 1}
    assert found.counted("runs_total", *ENDS) == {("job", "success", "catch-up"): 1}
    assert found.histogram("run_lateness_seconds", job_name="job") == ({300.0: 1}, 90.0, 1)


def test_a_hand_over_and_a_takeover(make, clock, registry, scrape):
    store, began = MemoryBackend(), clock.now()
    one, two = make(store), make(store)
    metrics(one, registry=registry, name="one")
    metrics(two, registry=registry, name="two")
    for scheduler in (one, two):
        scheduler.once("job", began + timedelta(seconds=5), lambda ctx: ctx.signal.sleep("20s"))
    one.start()
    clock.advance("6s")
    two.start()
    one.stop()
    clock.advance("30s")
    two.stop()
    found = scrape()
    where = ("scheduler", "job_name", "status", "reason")
    assert found.counted("runs_total", *where) == {
        ("one", "job", "interrupted", "scheduled"): 1,
        ("two", "job", "success", "takeover"): 1,
    }
    assert found.counted("run_starts_total", "scheduler", "reason") == {
        ("one", "scheduled"): 1,
        ("two", "takeover"): 1,
    }
    # Neither what was broken off counts as a duration, nor a takeover as late for its slot.
    assert found.histogram("run_duration_seconds", scheduler="one", job_name="job")[2] is None
    assert found.histogram("run_duration_seconds", scheduler="two", job_name="job")[2] == 1
    assert found.histogram("run_lateness_seconds", scheduler="one", job_name="job")[2] == 1
    assert found.histogram("run_lateness_seconds", scheduler="two", job_name="job")[2] is None


def test_a_run_that_is_lost(make, clock, registry, scrape):
    store = MemoryBackend()
    cut_off = FaultyBackend(store)
    one, two = make(cut_off), make(store)
    metrics(one, registry=registry)
    for scheduler in (one, two):
        scheduler.once("job", clock.now() + timedelta(seconds=5), lambda ctx: ctx.signal.wait(3600))
    one.start()
    clock.advance("5s")
    cut_off.fail(times=math.inf)
    two.start()
    clock.advance("10s")
    down = scrape()
    cut_off.heal()
    clock.advance("10s")
    found = scrape()
    one.stop()
    two.stop()
    assert (down("store_up"), down("healthy")) == (0, 0)
    assert (found("store_up"), found("healthy")) == (1, 1)
    assert found.counted("runs_total", *ENDS) == {("job", "lost", "scheduled"): 1}


def test_store_calls_and_errors_by_operation(make, clock, registry, scrape):
    backend = FaultyBackend(MemoryBackend())
    scheduler = make(backend)
    metrics(scheduler, registry=registry)
    scheduler.every("job", "10s", lambda ctx: ctx.signal.sleep("3s"))
    with scheduler:
        clock.advance("15s")
        backend.fail("finish", times=2)
        backend.fail("claim")
        clock.advance("15s")
        found, called = scrape(), backend.calls
    calls = {(name,): called[name] for name in OPERATIONS if called[name]}
    assert found.counted("store_calls_total", "operation") == calls
    assert calls[("renew",)] >= 4
    assert found.counted("store_errors_total", "operation") == {("finish",): 2, ("claim",): 1}
    assert found("store_errors_total", operation="renew") == 0


def test_gauges_of_a_busy_instance(make, clock, registry, scrape):
    scheduler = make(workers=3)
    metrics(scheduler, registry=registry)
    for name in ("a", "b"):
        scheduler.every(name, "1h", lambda ctx: ctx.signal.sleep("50s"))
    idle = scrape()
    assert idle("healthy") == 0
    assert idle("store_up") is None
    assert idle("clock_offset_seconds") is None
    assert (idle("free_workers"), idle("running_handlers")) == (0, 0)
    with scheduler:
        begun = scrape()
        clock.advance("1h")
        busy = scrape()
    assert (begun("running_handlers"), begun("free_workers")) == (0, 3)
    assert (busy("running_handlers"), busy("free_workers")) == (2, 1)
    for found in (begun, busy):
        assert (found("healthy"), found("store_up"), found("stuck_handlers")) == (1, 1, 0)
        assert found("clock_offset_seconds") == pytest.approx(0, abs=0.002)
        assert found("heartbeat_delay_seconds") == 0
    stopped = scrape()
    assert (stopped("healthy"), stopped("store_up"), stopped("running_handlers")) == (0, None, 0)


def test_what_health_says_is_what_is_scraped(make, clock, registry, scrape, monkeypatch):
    from dataclasses import replace

    scheduler = make()
    metrics(scheduler, registry=registry)
    with scheduler:
        health = replace(scheduler.health(), stuck=4, running=7, free_workers=2)
        said = replace(health, heartbeat_late=1.5, clock_offset=-3.25)
        monkeypatch.setattr(scheduler, "health", lambda: said)
        found = scrape()
    assert found("stuck_handlers") == 4
    assert found("running_handlers") == 7
    assert found("free_workers") == 2
    assert found("heartbeat_delay_seconds") == 1.5
    assert found("clock_offset_seconds") == -3.25


def test_series_begin_at_0_before_anything_has_happened(make, registry, scrape):
    """Or the first failure would be no increase."""
    scheduler = make()
    metrics(scheduler, registry=registry)
    scheduler.every("job", "1h", lambda: None)
    found = scrape()
    for status, reason in FIRST_ENDS:
        assert found("runs_total", job_name="job", status=status, reason=reason) == 0
    for reason in FIRST_STARTS:
        assert found("run_starts_total", job_name="job", reason=reason) == 0
    for operation in OPERATIONS:
        assert found("store_calls_total", operation=operation) == 0
        assert found("store_errors_total", operation=operation) == 0
    for wrong in ("failed", "lost"):
        reasons = {reason for status, reason in FIRST_ENDS if status == wrong}
        assert reasons == {"scheduled", "catch-up", "takeover", "manual"}
