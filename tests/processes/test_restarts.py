"""Instances that come and go, with the same jobs and with others."""

from __future__ import annotations

import random
import signal
import time

import pytest

from anarchon import SqliteBackend
from anarchon._values import Limits, Owner, Pace, Result, RunKey, Terms, Wish
from tests.processes.fleet import since, soon
from tests.processes.ledger import by_slot, check_ledger, check_tellings, grid

LEASE, HEARTBEAT = 2.0, 0.3
SLACK = 1.4  # what a busy machine may take on top
SHORT = {"lease": LEASE, "heartbeat": HEARTBEAT}
TICK = {"name": "tick", "every": "1s"}


def test_a_service_restarted_more_often_than_its_interval_runs_every_slot(fleet):
    """BR-003: the grid is fixed in time, not counted from the start of a process."""
    job = {"name": "tick", "every": "2s"}
    first = soon(1.9) // 2000 * 2000
    begun = time.monotonic()
    following = fleet.hold(job, scheduler=SHORT)
    while time.monotonic() - begun < 8:
        process, following = following, fleet.hold(job, scheduler=SHORT)
        process.go()
        # It lives for less than an interval; how long is what is tried here.
        time.sleep(0.7)
        process.stop()
    following.go()
    following.stop()
    last = soon() // 2000 * 2000 - 2000
    slots = check_ledger(fleet.history("tick"), first, last, 2000)
    # A stop that hits a run hands it over to the next process.
    assert {runs[-1].status for runs in slots.values()} == {"success"}
    assert {run.status for runs in slots.values() for run in runs[:-1]} <= {"interrupted"}
    assert len(slots) >= 3
    check_tellings(fleet, "tick")


def test_a_single_instance_killed_inside_a_handler_goes_on_after_a_restart(fleet):
    """BR-011, BR-010."""
    job = {**TICK, "do": "cooperative", "later": "quick"}
    victim = fleet.serve(job, scheduler=SHORT)
    slot = victim.expect("begin")["slot"]
    killed = victim.kill()
    again = fleet.serve(TICK, scheduler=SHORT)
    begun = again.expect("begin", slot=slot, attempt=2)
    since = max(killed + LEASE, again.said("running")[0]["at"])
    assert begun["at"] - since < 2 * HEARTBEAT + SLACK
    expect_slots(again, 3)
    again.stop()
    assert [run.status for run in by_slot(fleet.history("tick"))[slot]] == ["lost", "success"]


def expect_slots(process, count):
    """See the next slots of `tick` run at their times."""
    first = soon() // 1000 * 1000 + 1000
    for slot in range(first, first + count * 1000, 1000):
        process.expect("run", event="success", job="tick", slot=slot, within=5)


def test_a_slot_due_while_everybody_was_down_is_caught_up_once_inside_its_window(fleet):
    """BR-013."""
    slot = soon(-2)
    jobs = (
        {"name": "inside", "once": slot, "catch_up": "1m"},
        {"name": "outside", "once": slot, "catch_up": "1s"},
    )
    first = fleet.serve(*jobs)
    fleet.expect("run", event="success", job="inside")
    second = fleet.serve(*jobs)
    fleet.stop()
    (run,) = fleet.history("inside")
    assert (run.slot, run.status, run.reason, run.attempt) == (slot, "success", "catch-up", 1)
    assert fleet.history("outside") == []
    assert fleet.said("begin", job="outside") == []
    for process in (first, second):
        assert [text for text in process.log("WARNING") if text.startswith("outside @ ")]


def test_random_kills_stops_and_starts_lose_no_slot(fleet):
    """BR-024, BR-104: with a fixed seed; at least one instance is alive at any moment."""
    rng = random.Random(20261010)
    jobs = (
        {"name": "fast", "every": "500ms", "overlap": "allow"},
        {"name": "tick", "every": "1s", "do": "cooperative", "seconds": 0.4},
        {"name": "long", "every": "3s", "do": "cooperative", "seconds": 1.5, "max_attempts": 99},
    )
    alive = [fleet.serve(*jobs, scheduler=SHORT) for _ in range(3)]
    first, records = soon(), {}
    for _ in range(14):
        time.sleep(rng.uniform(0.1, 1.2))  # when somebody strikes is part of the seed
        records.update(read_all(fleet, jobs))
        victim = alive.pop(rng.randrange(len(alive)))
        alive[0].expect("running")
        victim.send(rng.choice([signal.SIGTERM, signal.SIGKILL]))
        alive.append(fleet.start(*jobs, scheduler=SHORT))
        if len(alive) < 3 or rng.random() < 0.7:
            alive[-1].expect("running")
        victim.end(0 if signal.SIGTERM in victim.sent else -signal.SIGKILL)
    for process in alive:
        process.expect("running")
    last = soon()
    # What the last ones left behind is taken over by those who are there now.
    for job in jobs:
        fleet.expect_history(job["name"], lambda runs: is_decided(runs, last))
    fleet.stop()
    records.update(read_all(fleet, jobs))
    for job, period_ms in (("fast", 500), ("tick", 1000), ("long", 3000)):
        runs = [run for run in records.values() if run.job == job]
        check_ledger(runs, first, last, period_ms)
        check_tellings(fleet, job)


def read_all(fleet, jobs):
    """Return the records of all jobs, by run and attempt: only so many skips are kept for long."""
    runs = [run for job in jobs for run in fleet.history(job["name"])]
    return {(run.run_id, run.attempt): run for run in runs}


def is_decided(runs, until_ms):
    """Say whether what was due by then has ended, with a later slot to show it."""
    slots = by_slot(runs)
    ends = [attempts[-1].status for slot, attempts in slots.items() if slot <= until_ms]
    decided = all(end not in ("running", "interrupted") for end in ends)
    return decided and any(
        attempts[-1].status == "success" for s, attempts in slots.items() if s > until_ms
    )


def test_stops_and_starts_around_a_slot_lose_none(fleet):
    """Stopped at many offsets around the slots, while another instance stays."""
    steady = fleet.serve({"name": "tick", "every": "500ms"}, scheduler=SHORT)
    flapping = fleet.start(
        {"name": "tick", "every": "500ms"}, program="flapping:flap", rounds=17, scheduler=SHORT
    )
    first = soon()
    flapping.end()
    last = soon()
    steady.expect("run", event="success", slot=since((last // 500 + 1) * 500))
    steady.stop()
    slots = check_ledger(fleet.history("tick"), first, last, 500)
    # A run that is handed over right before the next slot may still be open then.
    ends = {(runs[-1].status, runs[-1].detail) for runs in slots.values()}
    assert ends <= {("success", None), ("success", "after stop"), ("skipped", "overlap")}
    assert ("success", None) in ends
    check_tellings(fleet, "tick")


def test_a_changed_schedule_leaves_nothing_of_the_old_one(fleet):
    """BR-038: instances are rolled one by one."""
    old, new = {"name": "job", "every": "1s"}, {"name": "job", "every": "1500ms"}
    trio = [fleet.serve(old, scheduler=SHORT) for _ in range(3)]
    fleet.expect("run", event="success", job="job", count=2)
    first = soon()
    for process in trio:
        fleet.serve(new, scheduler=SHORT)
        process.stop()
    rolled = soon()
    after = (rolled // 1500 + 3) * 1500
    fleet.expect("run", event="success", slot=since(after))
    fleet.stop()
    slots = by_slot(fleet.history("job"))
    assert set(grid(rolled, after, 1500)) == {slot for slot in slots if rolled <= slot <= after}
    both = {*grid(first, rolled, 1000), *grid(first, rolled, 1500)}
    assert both >= {slot for slot in slots if first <= slot < rolled}
    assert all(len(runs) == 1 for runs in slots.values())
    check_tellings(fleet, "job")


def test_a_job_that_left_the_code_is_left_alone(fleet):
    """BR-039."""
    gone = {"name": "gone", "every": "1s", "do": "cooperative"}
    victim = fleet.serve(gone, scheduler=SHORT)
    victim.expect("begin")
    victim.kill()
    # Its own calls may take longer, so that a busy machine has nothing to complain of.
    after = fleet.serve({**TICK, "catch_up": 0}, scheduler={"lease": "6s", "heartbeat": "2s"})
    # Its lease and all bounds for a takeover pass.
    expect_slots(after, 4)
    after.stop()
    assert after.said("begin", job="gone") == []
    assert after.log("WARNING", "ERROR") == []
    assert [run.attempt for run in fleet.history("gone")] == [1]


@pytest.mark.parametrize(("back", "window"), [("1h", "1d"), ("3d", "30d")])
def test_after_a_long_downtime_only_the_latest_slot_is_caught_up(fleet, back, window):
    """BR-042, BR-043."""
    long_ago = soon(-3600 if back == "1h" else -3 * 86400) // 1000 * 1000
    run_once(fleet.database, "tick", long_ago)
    process = fleet.hold({**TICK, "catch_up": window}, scheduler=SHORT)
    began = time.monotonic()
    process.go()
    started_ms = soon()
    assert time.monotonic() - began < 3
    expect_slots(process, 2)
    process.stop()
    slots = [slot for slot in by_slot(fleet.history("tick")) if slot != long_ago]
    assert min(slots) > started_ms - 3000
    late = [run for run in fleet.history("tick") if run.reason == "catch-up"]
    assert len(late) <= 1


def run_once(database, job, slot_ms):
    """Put a run into a store that happened long ago."""
    backend, owner = SqliteBackend(database, namespace="test"), Owner("long", "ago")

    class LongAgo:
        def wall_ms(self):
            return slot_ms + 10

        def lease_ms(self):
            return 10

    backend._time = LongAgo()
    backend.open(Limits())
    terms = Terms(30_000, 10_000, 3, True, 3_600_000)
    wish = Wish(RunKey(job, slot_ms), 1, "scheduled", terms)
    backend.claim([wish], owner=owner, wins=1, pace=Pace(0.0))
    result = Result(RunKey(job, slot_ms), 1, "success", "scheduled", slot_ms + 5, 5)
    backend.finish([result], owner=owner)
    backend.close()
