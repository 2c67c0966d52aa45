"""Schedules that users wrote: each wrong one suspends its own job, and nothing else."""

from __future__ import annotations

import itertools
import threading
from datetime import UTC, datetime, timedelta

import pytest

from anarchon import ConfigurationError, Every, MemoryBackend, Scheduler, either
from anarchon._clock import ENGINE_PATIENCE
from anarchon.testing import ManualClock
from tests.conftest import anarchon_threads
from tests.facade.helpers import PATIENCE_SECONDS, until

EVERY = Every("10s")


class Own:
    """A lawful grid, until `fault` does something when it is asked."""

    def __init__(self):
        self.fault = lambda t, slot: slot
        self.asked = 0

    def next_after(self, t):
        self.asked += 1
        return self.fault(t, EVERY.next_after(t))

    def latest(self, t):
        self.asked += 1
        return self.fault(t, EVERY.latest(t))

    def __repr__(self):
        return "Own()"


class Hold:
    """A fault that keeps its caller until `go_on`, once it is closed."""

    def __init__(self):
        self.is_closed = False
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.callers = 0

    def __call__(self, t, slot):
        if self.is_closed:
            self.callers += 1
            self.begun.set()
            assert self.go_on.wait(PATIENCE_SECONDS)
        return slot


@pytest.fixture
def clock():
    return Hurried()


class Hurried(ManualClock):
    """A clock that doesn't wait long for a thread that asks schedules."""

    def enrol(self, thread, *, patience=ENGINE_PATIENCE):
        is_asking = thread.name == "anarchon-schedules"
        super().enrol(thread, patience=0.05 if is_asking else patience)


def running(clock, **schedules):
    """Return a scheduler with a job for each schedule, and when each of them ran."""
    scheduler, ran = Scheduler(MemoryBackend()), {name: [] for name in schedules}
    for name, schedule in schedules.items():
        scheduler.schedule(
            name, schedule, lambda ctx: ran[ctx.name].append(ctx.slot // 1000), catch_up=0
        )
    clock.attach(scheduler)
    scheduler.start()
    return scheduler, ran


def raise_error(t, slot):
    raise ZeroDivisionError("bad day")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (raise_error, "ZeroDivisionError: bad day"),
        (lambda t, slot: t - timedelta(hours=1) if slot > t else t + timedelta(1), "which is"),
        (lambda t, slot: slot.replace(tzinfo=None), "return an aware datetime"),
        (lambda t, slot: 5, "return an aware datetime"),
    ],
)
def test_one_that_breaks_a_law_suspends_its_own_job_and_is_tried_each_minute(
    clock, caplog, fault, words
):
    own = Own()
    scheduler, ran = running(clock, own=own, other=EVERY)
    clock.advance("25s")
    own.fault = fault
    clock.advance("5m")
    # The slot that was known runs still; then it is asked each minute, and no more.
    assert len(ran["own"]) <= 4
    lines = [record for record in caplog.records if "own" in record.message]
    assert len([r for r in lines if words in r.getMessage()]) == 1
    asked = own.asked
    clock.advance("3m")
    assert own.asked - asked == 3
    assert len(ran["other"]) == 50
    own.fault = lambda t, slot: slot
    clock.advance("2m")
    assert len(ran["own"]) > 6
    scheduler.stop(2)


def test_one_that_hangs_holds_up_nobody_and_goes_on_when_it_answers(clock, caplog):
    own, hold = Own(), Hold()
    own.fault = hold
    scheduler, ran = running(clock, own=own, other=EVERY)
    clock.advance("25s")
    assert ran["own"] == ran["other"] != []
    hold.is_closed = True
    clock.advance("5m")
    assert len(ran["other"]) == 32
    told = [r.getMessage() for r in caplog.records if "no answer within 1 s" in r.getMessage()]
    assert len(told) == 1
    assert "own" in told[0]
    # While it hangs nobody asks it again, and no other thread gets stuck in it.
    assert hold.callers == 1
    names = [thread.name for thread in anarchon_threads()]
    assert names.count("anarchon-schedules") == 1
    hold.is_closed = False
    hold.go_on.set()
    until(lambda: "anarchon-schedules" not in {t.name for t in anarchon_threads()}, "its end")
    count = len(ran["own"])
    clock.advance("2m")
    assert len(ran["own"]) > count + 5
    assert scheduler.health().ok
    scheduler.stop(2)


def test_one_that_hangs_keeps_nobody_from_stopping(clock):
    own, hold = Own(), Hold()
    own.fault = hold
    scheduler, _ = running(clock, own=own)
    hold.is_closed = True
    clock.advance("30s")
    assert hold.begun.is_set()
    scheduler.stop(2)
    assert scheduler.state == "idle"
    hold.go_on.set()
    until(lambda: anarchon_threads() == [], "the end of its thread")


def test_one_that_hangs_at_the_start_holds_up_its_own_job(clock):
    own, hold = Own(), Hold()
    hold.is_closed = True
    own.fault = hold
    scheduler, ran = running(clock, own=own, other=EVERY)
    clock.advance("25s")
    assert ran["own"] == []
    assert len(ran["other"]) == 2
    hold.go_on.set()
    scheduler.stop(2)
    until(lambda: anarchon_threads() == [], "the end of its thread")


def test_many_that_hang_from_the_start_hold_up_nobody():
    hold, ran = Hold(), []
    hold.is_closed = True
    scheduler = Scheduler(MemoryBackend())
    scheduler.every("other", "200ms", lambda ctx: ran.append(ctx.slot))
    for number in range(20):
        own = Own()
        own.fault = hold
        scheduler.schedule(f"own {number}", own, lambda: None, catch_up=0)
    scheduler.start()
    until(lambda: len(ran) >= 5, "the other job's fifth run")
    until(lambda: hold.callers == 20, "each schedule's question")
    hold.go_on.set()
    scheduler.stop(2)
    until(lambda: anarchon_threads() == [], "the end of their threads")


def test_what_is_made_of_one_that_hangs_is_held_to_the_same(clock):
    own, hold = Own(), Hold()
    own.fault = hold
    mixed = either(own, Every("1h")).between("2020-01-01T00:00:00Z", None).except_on([])
    scheduler, ran = running(clock, mixed=mixed, other=EVERY)
    clock.advance("25s")
    hold.is_closed = True
    clock.advance("60s")
    assert len(ran["other"]) == 8
    hold.is_closed = False
    hold.go_on.set()
    clock.advance("2m")
    assert len(ran["mixed"]) > 6
    scheduler.stop(2)


def test_our_own_need_no_thread(clock):
    mixed = either(EVERY, Every("1h")).between("2020-01-01T00:00:00Z", None).except_on([])
    scheduler, _ = running(clock, mixed=mixed)
    clock.advance("25s")
    assert "anarchon-schedules" not in {thread.name for thread in anarchon_threads()}
    scheduler.stop(2)


def test_jobs_on_one_object_share_what_it_says(clock):
    own = Own()
    scheduler, ran = running(clock, **{f"job {n}": own for n in range(9)})
    clock.advance("25s")
    assert all(len(times) == 2 for times in ran.values())
    asked = own.asked
    clock.advance("10s")
    assert own.asked - asked == 1
    scheduler.stop(2)


def test_a_handler_waits_for_the_previous_slot_on_its_own_thread(clock):
    own, asked_by, previous = Own(), [], []

    def note(t, slot):
        asked_by.append(threading.current_thread().name)
        return slot

    scheduler = Scheduler(MemoryBackend())
    scheduler.schedule("own", own, lambda ctx: previous.append(ctx.slot - ctx.previous_slot))
    clock.attach(scheduler)
    own.fault = note
    scheduler.start()
    clock.advance("15s")
    assert previous[-1] == 10_000
    assert {name.rstrip("-0123456789") for name in asked_by} == {
        "anarchon-schedules",
        "anarchon-worker",
    }
    scheduler.stop(2)


def test_asking_for_slots_waits_as_long_as_it_takes():
    own = Own()
    scheduler = Scheduler(MemoryBackend()).schedule("own", own, lambda: None)
    found = scheduler.next_slots("own", 3)
    assert [b - a for a, b in itertools.pairwise(found)] == [timedelta(seconds=10)] * 2
    assert found[0] > datetime.now(UTC)
    assert anarchon_threads() == []


def test_a_job_that_is_suspended_is_seen_and_told_of_until_it_works(clock, caplog):
    caplog.set_level("INFO", logger="anarchon")
    own = Own()
    scheduler, _ = running(clock, own=own, other=EVERY)
    clock.advance("15s")
    assert scheduler.health().reasons == ()
    own.fault = raise_error
    clock.advance("30s")
    health = scheduler.health()
    assert health.reasons == ("job 'own' is suspended: its schedule can't be computed",)
    assert health.ok
    own.fault = lambda t, slot: slot
    clock.advance("2m")
    assert scheduler.health().reasons == ()
    lines = [r.getMessage() for r in caplog.records if "schedule can" in r.getMessage()]
    assert [line.split(": ", 1)[1] for line in lines] == [
        "suspended, its schedule can't be computed: ZeroDivisionError: bad day",
        "goes on, its schedule can be computed again",
    ]
    scheduler.stop(2)


def test_slots_that_cannot_be_computed_are_told_with_the_job():
    own = Own()
    own.fault = raise_error
    scheduler = Scheduler(MemoryBackend()).schedule("own", own, lambda: None)
    words = r"job 'own': its schedule Own\(\) can't be computed: ZeroDivisionError: bad day"
    with pytest.raises(ConfigurationError, match=words) as caught:
        scheduler.next_slots("own")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("start", ["2026-10-24T22:00:00Z", 5, datetime(2026, 1, 1)])  # noqa: DTZ001
def test_a_clock_starts_at_an_aware_time(start):
    with pytest.raises(ConfigurationError, match="is no time with a zone; give an aware datetime"):
        ManualClock(start)
