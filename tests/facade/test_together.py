"""Several schedulers on one store, as several processes are, on one manual clock."""

from __future__ import annotations

import dataclasses
import json
import logging
import threading
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from anarchon import MemoryBackend, Run, SqliteBackend
from anarchon._values import Status
from anarchon.testing import ManualClock
from tests.facade.helpers import until

RUN_EVENTS = (
    *("started", "success", "failure", "interrupted"),
    *("skipped", "missed", "takeover", "lost"),
)
LEASE, HEARTBEAT = 6, 1


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def fleet(make, clock):
    """Make schedulers on one store and one clock; what they tell is in their `told`."""
    store = MemoryBackend()

    def make_one(name, **options):
        timing = {"lease": LEASE, "heartbeat": HEARTBEAT, "instance_id": name}
        scheduler = make(store, **{**timing, **options})
        clock.attach(scheduler)
        scheduler.told = []
        for event in RUN_EVENTS:
            scheduler.on(event, lambda run, event=event: scheduler.told.append((event, run)))
        return scheduler

    return make_one


def names(scheduler):
    return [event for event, _ in scheduler.told]


def attempts(scheduler, job):
    """Return attempt, status and instance of each record, oldest first."""
    return [(r.attempt, r.status, r.instance_id) for r in scheduler.history(job)[::-1]]


# --- who is who ---


def test_two_of_one_name_are_different_owners(fleet, clock):
    """BR-006: the name is for people; a slot is run by one of them, and only that one ends it."""
    ran = []
    pair = [fleet("same") for _ in range(2)]
    for number, scheduler in enumerate(pair):
        scheduler.every("job", "10s", lambda ctx, n=number: ran.append((ctx.slot, n)))
        scheduler.start()
    clock.advance("65s")
    for scheduler in pair:
        scheduler.stop()
    slots = [slot for slot, _ in ran]
    assert len(slots) == len(set(slots)) >= 6
    assert {run.status for run in pair[0].history("job")} == {"success"}


def test_each_start_has_a_token_of_its_own(fleet):
    scheduler = fleet("web")
    tokens = set()
    for _ in range(3):
        with scheduler:
            tokens.add(scheduler._life().owner.token)
    assert len(tokens) == 3


# --- what becomes of runs ---


def test_a_run_that_nobody_ends_is_taken_over_though_its_handler_goes_on(fleet, clock):
    """The handler ignores its abort: two attempts overlap, and each is recorded as it was."""
    first, second = fleet("first"), fleet("second")
    go_on, ended = threading.Event(), []

    def stubborn():
        go_on.wait(20)
        ended.append("late")

    first.once("job", clock.now() + timedelta(seconds=10), stubborn)
    second.once("job", clock.now() + timedelta(seconds=10), lambda: None)
    first.start()
    clock.advance("12s")
    until(lambda: names(first) == ["started"])
    second.start()
    first.stop(1)
    clock.advance(LEASE + 2 * HEARTBEAT + 5)
    assert ended == []
    assert attempts(second, "job") == [(1, "lost", "first"), (2, "success", "second")]
    go_on.set()
    until(lambda: ended)
    assert attempts(second, "job") == [(1, "lost", "first"), (2, "success", "second")]


def test_every_run_event_carries_a_run(fleet, clock):
    """One job for each way in which a run can go, and a stop while one of them runs."""
    one, two = fleet("one", workers=1), fleet("two", workers=1)
    begun = clock.now()
    one.once("interrupted", begun + timedelta(seconds=5), lambda ctx: ctx.signal.sleep("1h"))
    one.start()
    clock.advance("6s")
    two.once("interrupted", begun + timedelta(seconds=5), lambda ctx: ctx.signal.sleep("25s"))
    two.every("late", "10s", lambda: None, catch_up=0)
    two.start()
    one.stop()
    clock.advance("31s")
    two.remove("late")
    three = fleet("three", workers=2)
    three.every("slow", "10s", lambda ctx: ctx.signal.sleep("12s"), catch_up=0)
    with three:
        clock.advance("25s")
    two.every("bad", "10s", lambda: 1 / 0, catch_up=0)
    clock.advance("15s")
    two.stop()
    told = [*one.told, *two.told, *three.told]
    assert {event for event, _ in told} == {*RUN_EVENTS} - {"lost"}
    assert {type(run) for _, run in told} == {Run}
    expected = {
        "started": "running",
        "takeover": "running",
        "failure": "failed",
        "success": "success",
    }
    assert all(run.status == expected.get(event, event) for event, run in told)


def test_a_run_that_may_be_lost_is_told_of(fleet, clock):
    """`on_crash="abandon"`: what was left behind is lost, and one instance says so."""
    first, second = fleet("first"), fleet("second")
    go_on = threading.Event()
    due = clock.now() + timedelta(seconds=10)
    first.once("job", due, lambda: go_on.wait(20), on_crash="abandon")
    second.once("job", due, lambda: None, on_crash="abandon")
    first.start()
    clock.advance("12s")
    second.start()
    first.stop(1)
    clock.advance(LEASE + 2 * HEARTBEAT + 5)
    go_on.set()
    until(lambda: second.told)
    assert [(event, run.job) for event, run in second.told] == [("lost", "job")]
    assert attempts(second, "job") == [(1, "lost", "first")]


def test_a_run_is_a_frozen_value_with_one_of_seven_statuses(fleet):
    scheduler = fleet("web")
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    with scheduler:
        run = scheduler.run_now("job")
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.status = "failed"
    told = json.loads(json.dumps(run.to_dict()))
    assert (told["job"], told["slot"], told["status"]) == ("job", run.slot, "success")
    assert datetime.fromisoformat(told["scheduled_at"]) == run.scheduled_at
    seven = {"running", "success", "failed", "interrupted", "skipped", "missed", "lost"}
    assert set(get_args(Status)) == seven


# --- jobs ---


def test_a_disabled_job_never_runs(fleet, clock):
    scheduler = fleet("web")
    ran = []
    scheduler.every("off", "1s", lambda: ran.append("off"), enabled=False)
    scheduler.every("on", "1s", lambda: ran.append("on"))
    scheduler.start()
    clock.advance("5s")
    assert set(ran) == {"on"}
    assert scheduler.history("off") == []


def test_a_schedule_of_ones_own_is_run(fleet, clock):
    class Odd:
        """Every odd second."""

        def next_after(self, t):
            t = t.replace(microsecond=0) + timedelta(seconds=1)
            return t if t.second % 2 else t + timedelta(seconds=1)

        def latest(self, t):
            t = t.replace(microsecond=0)
            return t if t.second % 2 else t - timedelta(seconds=1)

    slots = []
    scheduler = fleet("web")
    scheduler.schedule("odd", Odd(), lambda ctx: slots.append(ctx.scheduled_at.second), catch_up=0)
    scheduler.start()
    clock.advance("6500ms")
    assert slots == [1, 3, 5]


def test_a_new_job_of_a_removed_name_has_its_history_and_its_guard(fleet, clock):
    scheduler = fleet("web")
    scheduler.every("job", "10s", lambda ctx: ctx.signal.sleep("15s"), catch_up=0)
    scheduler.start()
    clock.advance("11s")
    assert scheduler.remove("job")
    scheduler.every("job", "10s", lambda: None, catch_up=0)
    clock.advance("20s")
    statuses = [(run.status, run.detail) for run in scheduler.history("job")[::-1]]
    assert statuses == [("success", None), ("skipped", "overlap"), ("success", None)]


def test_a_job_can_be_told_to_others():
    from anarchon import Scheduler

    scheduler = Scheduler(MemoryBackend())
    scheduler.every("sync", "10s", print, tags=["a"], description="copies", pass_context=True)
    (job,) = scheduler.jobs
    told = json.loads(json.dumps(job.to_dict()))
    assert (told["name"], told["tags"], told["description"]) == ("sync", ["a"], "copies")
    assert told["schedule"] == "Every('10s')"


# --- pauses ---


def test_a_pause_holds_on_every_instance_and_ends_on_every_instance(fleet, clock):
    pair = [fleet("one"), fleet("two")]
    ran = []
    for scheduler in pair:
        scheduler.every("job", "10s", lambda: ran.append("job"), catch_up=0)
        scheduler.every("other", "10s", lambda: ran.append("other"), catch_up=0)
        scheduler.start()
    pair[0].pause("job")
    clock.advance("35s")
    assert set(ran) == {"other"}
    skips = pair[1].history("job")
    assert {(run.status, run.detail) for run in skips} == {("skipped", "paused")}
    assert len(skips) == 3
    pair[1].resume("job")
    clock.advance("1s")
    assert "job" not in ran  # what was due in the pause is not caught up
    clock.advance("10s")
    assert "job" in ran


def test_a_store_that_is_emptied_ends_a_pause(make, tmp_path):
    scheduler = make(SqliteBackend(tmp_path / "jobs.db"))
    ran = threading.Event()
    scheduler.every("job", "100ms", ran.set)
    scheduler.pause()
    scheduler.start()
    until(lambda: scheduler.history("job", status="skipped"))
    assert not ran.is_set()
    for end in ("", "-wal", "-shm"):
        (tmp_path / f"jobs.db{end}").unlink(missing_ok=True)
    assert ran.wait(10)


def test_the_log_line_of_a_lost_claim_is_all_there_is_of_it(fleet, clock, caplog):
    pair = [fleet("one"), fleet("two")]
    for scheduler in pair:
        scheduler.every("job", "10s", lambda ctx: ctx.signal.sleep("1s"), catch_up=0)
        scheduler.start()
    with caplog.at_level(logging.INFO, "anarchon"):
        clock.advance("12s")
        for scheduler in pair:
            scheduler.stop()
    assert sum(r.message.endswith(": skipped (taken)") for r in caplog.records) == 1
    assert sorted([*names(pair[0]), *names(pair[1])]) == ["started", "success"]
    assert [run.status for run in pair[0].history("job")] == ["success"]


def test_a_naive_moment_is_never_guessed(make):
    scheduler = make()
    scheduler.once("launch", "2030-05-06T09:00:00", lambda: None, timezone="Europe/Athens")
    assert scheduler.next_slots("launch") == [datetime(2030, 5, 6, 6, tzinfo=UTC)]
