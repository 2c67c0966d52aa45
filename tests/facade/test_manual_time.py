"""Whole schedulers on a `ManualClock`: time moves only by hand, and nothing is left to chance."""

from __future__ import annotations

import math
import random
import threading
from datetime import UTC, datetime, timedelta

import pytest

from anarchon import MemoryBackend, Scheduler, SqliteBackend
from anarchon._clock import Clock
from anarchon.testing import FaultyBackend, ManualClock

START = datetime(2026, 1, 1, tzinfo=UTC)


class Impatient(ManualClock):
    """Gives every busy thread up at once: the worst that a loaded machine can do."""

    def enrol(self, thread, *, patience=0.0):
        super().enrol(thread, patience=0.0)


class SlowToEnrol(ManualClock):
    """Has the thread that starts another one wait for the processor before it goes on."""

    def enrol(self, thread, *, patience=2.0):
        if thread.ident is not None and thread.name == "anarchon-life":
            threading.Event().wait(0.5)
        super().enrol(thread, patience=patience)


class SlowToShow(SqliteBackend):
    """Takes its time where a start, with the engine running already, looks for twins."""

    def __repr__(self):
        threading.Event().wait(0.05)
        return super().__repr__()


def on_clock(clock, backend, interval="10s", **options):
    """Return a scheduler on a clock, and when its job ran."""
    ran = []
    scheduler = Scheduler(backend)
    scheduler.every("tick", interval, lambda: ran.append(clock.now()), **options)
    clock.attach(scheduler)
    return scheduler, ran


@pytest.mark.parametrize("make_clock", [Impatient, SlowToEnrol])
def test_no_time_passes_in_a_start(tmp_path, make_clock):
    clock = make_clock()
    scheduler, ran = on_clock(clock, SlowToShow(tmp_path / "jobs.db"), catch_up=0)
    scheduler.start()
    assert clock.now() == START
    scheduler.stop(2)
    assert ran == []


def test_a_start_returns_when_what_it_sets_off_is_done():
    scheduler, ran = on_clock(ManualClock(), MemoryBackend())
    with scheduler:
        assert ran == [START]


@pytest.mark.parametrize("interval", ["10s", "1s", "100ms", "333ms"])
def test_a_slot_has_run_when_time_has_come_to_it(interval):
    clock = ManualClock()
    scheduler, ran = on_clock(clock, MemoryBackend(), interval, catch_up=0)
    with scheduler:
        first = scheduler.next_slots("tick", 1)[0]
        clock.advance(first - clock.now())
        for number in range(1, 50):
            assert (len(ran), clock.now()) == (number, ran[-1])
            clock.advance(interval)


def test_only_the_manual_clock_draws_the_earliest_time():
    rng = ManualClock().rng()
    assert [rng.random(), rng.uniform(0.5, 1.0), rng.uniform(-1, 1)] == [0.0, 0.5, -1.0]
    assert len({Clock().rng().random() for _ in range(10)}) == 10
    assert isinstance(rng, random.Random)


def test_an_outage_is_told_in_the_time_of_the_clock(caplog):
    clock, told = ManualClock(), []
    backend = FaultyBackend(MemoryBackend())
    scheduler, _ = on_clock(clock, backend, catch_up=0)
    scheduler.on("store_down", told.append).on("store_up", told.append)
    with scheduler:
        backend.fail(times=math.inf)
        clock.advance("70s")
        backend.heal()
        clock.advance("60s")
    down, up = told
    assert down.at == down.since == up.since
    assert START < down.at <= START + timedelta(seconds=70)
    assert START + timedelta(seconds=70) <= up.at <= START + timedelta(seconds=130)
    words = next(line for line in caplog.messages if "store up again" in line).split()
    assert float(words[-2]) == pytest.approx((up.at - up.since).total_seconds(), abs=0.06)
