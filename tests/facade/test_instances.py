"""Who shares a store: told with the calls that are made anyway, and taken back by a stop."""

from __future__ import annotations

import json
import os
import socket
from datetime import UTC, datetime, timedelta

import pytest

import anarchon
from anarchon import Instance, MemoryBackend, Scheduler, SqliteBackend
from anarchon._values import Owner, Presence
from anarchon.instances import doubled_names
from anarchon.testing import ClaimOnly, FaultyBackend, ManualClock

START = datetime(2026, 10, 10, 9, 59, tzinfo=UTC)


@pytest.fixture
def clock():
    return ManualClock(START)


def instance(backend, clock, name="one", **options):
    scheduler = Scheduler(backend, lease=30, catch_up=0, jitter=0, instance_id=name, **options)
    clock.attach(scheduler)
    return scheduler


def states(scheduler):
    return {one.instance_id: one.state for one in scheduler.instances()}


@pytest.mark.parametrize("make", [MemoryBackend, None])
def test_an_instance_says_who_it_is(make, clock, tmp_path):
    backend = make() if make else SqliteBackend(tmp_path / "jobs.db")
    scheduler = instance(backend, clock)
    scheduler.every("job", "1h", lambda: None)
    scheduler.cron("digest", "0 8 * * 1", lambda: None)
    assert scheduler.instances() == []
    with scheduler:
        clock.advance("1s")
        [one] = Scheduler(backend).instances()
        assert isinstance(one, Instance)
        assert one == Instance(
            instance_id="one",
            host=socket.gethostname(),
            pid=os.getpid(),
            version=anarchon.__version__,
            jobs=("digest", "job"),
            started_at=START,
            last_seen=START,
            next_due=START + timedelta(minutes=1),
            clock_offset=0.0,
            state="idle",
            expected_at=START + timedelta(minutes=1),
            running=0,
            tzdata=one.tzdata,
        )
        assert json.loads(json.dumps(one.to_dict()))["last_seen"] == START.isoformat()
    assert scheduler.instances() == []


def test_one_without_work_is_idle_until_its_slot_is_due_and_silent_a_lease_after_that(clock):
    backend = MemoryBackend()
    scheduler = instance(backend, clock)
    scheduler.every("job", "1h", lambda: None)
    with scheduler:
        clock.advance("1m")
        clock.advance("59m")
        assert states(scheduler) == {"one": "idle"}
        (one,) = backend.instances().instances
    # It was killed: nobody takes its word back.
    backend.present = lambda owner: None
    killed = Owner("gone", "one", Presence(one.expected_ms, one.state, one.about))
    backend.open(anarchon._values.Limits())
    type(backend).present(backend, killed)
    later = clock.advance
    reader = Scheduler(backend)
    clock.attach(reader)
    assert states(reader) == {"one": "idle"}
    later("1m")
    assert states(reader) == {"one": "idle"}
    later("1m")
    assert states(reader) == {"one": "silent"}


def test_who_runs_something_is_heard_with_each_renewal(clock):
    scheduler = instance(MemoryBackend(), clock)
    scheduler.every("job", "1h", lambda ctx: ctx.signal.wait(1800))
    with scheduler:
        clock.advance("5m")
        [one] = scheduler.instances()
        assert (one.state, one.running) == ("running", 1)
        assert clock.now() - one.last_seen <= timedelta(seconds=11)
        clock.advance("40m")
        [one] = scheduler.instances()
    assert one.state in ("running", "idle")


def test_it_costs_no_call_of_its_own(clock):
    backend = FaultyBackend(MemoryBackend())
    scheduler = instance(backend, clock)
    scheduler.every("job", "10s", lambda: None)
    with scheduler:
        clock.advance("10m")
        assert backend.calls["present"] == 0
        [one] = scheduler.instances()
        assert clock.now() - one.last_seen <= timedelta(seconds=21)
    assert backend.calls["present"] == 1  # it says good-bye


def test_a_stop_while_the_store_is_down_says_no_good_bye_and_waits_for_none(clock):
    backend = FaultyBackend(MemoryBackend())
    scheduler = instance(backend, clock)
    scheduler.every("job", "1h", lambda: None)
    with scheduler:
        clock.advance("1s")
        backend.fail("present")
    assert [one.instance_id for one in scheduler.instances()] == ["one"]


def test_schedules_that_differ_are_named_on_each(clock):
    backend = MemoryBackend()
    old, new = instance(backend, clock, "old"), instance(backend, clock, "new")
    for scheduler, interval in ((old, "1h"), (new, "2h")):
        scheduler.every("changed", interval, lambda: None)
        scheduler.every("same", "1h", lambda: None)
    old.every("gone", "1h", lambda: None)
    with old, new:
        clock.advance("1s")
        found = {one.instance_id: one.differs for one in new.instances()}
        assert found == {"old": ("changed",), "new": ("changed",)}
    assert new.instances() == []


def test_jobs_that_come_and_go_are_told_with_the_next_call(clock):
    scheduler = instance(MemoryBackend(), clock)
    scheduler.every("job", "10s", lambda: None)
    with scheduler:
        clock.advance("1s")
        scheduler.every("more", "10s", lambda: None)
        clock.advance("30s")
        [one] = scheduler.instances()
        assert one.jobs == ("job", "more")
        scheduler.remove("job")
        clock.advance("30s")
        [one] = scheduler.instances()
        assert one.jobs == ("more",)


def test_two_of_one_name_are_found(clock):
    backend = MemoryBackend()
    one, two, other = (instance(backend, clock, name) for name in ("a", "a", "b"))
    for scheduler in (one, two, other):
        scheduler.every("job", "1h", lambda: None)
    with one, two, other:
        clock.advance("1s")
        assert {name: len(same) for name, same in doubled_names(one.instances()).items()} == {
            "a": 2
        }


def test_a_flushed_store_is_told_again(clock):
    backend = MemoryBackend()
    scheduler = instance(backend, clock)
    scheduler.every("job", "10s", lambda: None)
    with scheduler:
        clock.advance("1m")
        backend.abandon()
        backend.open(anarchon._values.Limits())
        clock.advance("1m")
        [one] = scheduler.instances()
        assert one.next_due is not None


def test_what_others_have_written_is_shown_as_unknown():
    backend = MemoryBackend()
    backend.open(anarchon._values.Limits())
    for number, (state, about) in enumerate(
        [
            ("", ""),
            ("[]", "7"),
            ('{"next": "x", "offset": "y", "running": -1}', '{"jobs": {"a": 1}, "pid": "p"}'),
            ('{"next": 1e400, "running": true}', '{"jobs": [], "name": 3, "started": -5}'),
        ]
    ):
        backend.present(Owner(f"t{number}", "", Presence(2**53, state, about)))
    for one in Scheduler(backend).instances():
        assert (one.instance_id, one.jobs, one.running) == ("unknown", (), 0)
        json.dumps(one.to_dict())


def test_a_store_without_leases_shows_who_claims(clock):
    scheduler = instance(ClaimOnly(MemoryBackend()), clock)
    scheduler.every("job", "10s", lambda: None)
    with scheduler:
        clock.advance("30s")
        assert states(scheduler) == {"one": "idle"}


def test_a_schedule_whose_repr_raises_is_no_reason_not_to_start(clock):
    class Odd:
        def next_after(self, t):
            return None

        def latest(self, t):
            return None

        def __repr__(self):
            raise RuntimeError("not now")

    scheduler = instance(MemoryBackend(), clock)
    scheduler.schedule("odd", Odd(), lambda: None)
    scheduler.every("job", "10s", lambda: None)
    with scheduler:
        clock.advance("1s")
        [one] = scheduler.instances()
        assert one.jobs == ("job", "odd")
