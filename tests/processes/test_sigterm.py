"""SIGTERM to a program that is `scheduler.run()`: hand-over, results, and what is left behind.

The lease is six heartbeats, so a hand-over can't be mistaken for a lease that ran out.
"""

from __future__ import annotations

import signal
import time

from anarchon._lifecycle_signals import REPEAT_SECONDS
from tests.processes.fleet import soon
from tests.processes.ledger import check_tellings

LEASE, HEARTBEAT = 3.0, 0.5  # as instances have them by default
# What a busy machine may take on top; even so a hand-over can't be mistaken for a lease's end.
SLACK = 1.4
EARLY = 0.7  # as late a last heartbeat may have been
HAND_OVER = 2 * HEARTBEAT + SLACK
assert LEASE - HEARTBEAT > HAND_OVER  # even the shortest rest of a lease is longer


def start_both(fleet, do, **more):
    """Start a runner of one long run, and a backup."""
    job = {"name": "work", "once": soon(), "do": do, "seconds": 60, **more}
    backup = fleet.hold({**job, "do": "quick"})
    runner = fleet.serve(job)
    runner.expect("begin", attempt=1)
    backup.go()
    return runner, backup


def test_a_handler_that_raises_is_handed_over(fleet):
    """BR-023."""
    runner, backup = start_both(fleet, "cooperative")
    sent = runner.send(signal.SIGTERM)
    assert runner.expect("end")["abort"] == "stop"
    begun = backup.expect("begin", attempt=2)
    assert begun["reason"] == "takeover"
    assert begun["at"] - sent < HAND_OVER
    assert runner.end() - sent < HAND_OVER
    assert runner.said("stopped")[0]["state"] == "idle"
    backup.expect("run", event="success")
    backup.stop()
    assert fleet.attempts("work") == [(1, "interrupted"), (2, "success")]
    assert "handed over to another instance" in " ".join(runner.log("WARNING"))


def test_a_handler_that_returns_has_succeeded_and_nobody_continues_it(fleet):
    runner, backup = start_both(fleet, "returning")
    runner.send(signal.SIGTERM)
    runner.end()
    assert runner.said("run", event="success")[0]["detail"] == "after stop"
    backup.stop()
    assert backup.said("begin") == []
    assert fleet.attempts("work") == [(1, "success")]


def test_a_stubborn_handler_is_waited_for_within_the_timeout(fleet):
    runner, backup = start_both(fleet, "stubborn", seconds=4)
    runner.send(signal.SIGTERM)
    runner.end()
    assert runner.said("end")[0]["abort"] == "stop"
    assert runner.said("run", event="success")[0]["detail"] == "after stop"
    backup.stop()
    assert backup.said("begin") == []
    assert fleet.attempts("work") == [(1, "success")]


def test_a_second_signal_ends_a_stubborn_program_and_its_lease_runs_out(fleet):
    runner, backup = start_both(fleet, "stubborn")
    runner.send(signal.SIGTERM)
    runner.expect("ignores", abort="stop")
    time.sleep(2 * REPEAT_SECONDS)  # what comes sooner only repeats the first
    runner.send(signal.SIGTERM)
    died = runner.end(-signal.SIGTERM)
    begun = backup.expect("begin", attempt=2)
    assert LEASE - HEARTBEAT - EARLY < begun["at"] - died < LEASE + HAND_OVER
    backup.expect("run", event="success")
    backup.stop()
    assert fleet.attempts("work") == [(1, "lost"), (2, "success")]


def test_more_deploys_than_attempts_are_no_deaths(fleet):
    """BR-023: hand-overs don't use `max_attempts` up."""
    job = {"name": "work", "once": soon(), "do": "cooperative", "seconds": 60, "max_attempts": 2}
    runner = fleet.serve(job)
    runner.expect("begin", attempt=1)
    for attempt in range(2, 7):
        fresh = fleet.serve(job)
        sent = runner.send(signal.SIGTERM)
        begun = fresh.expect("begin", attempt=attempt)
        assert begun["at"] - sent < HAND_OVER
        runner.end()
        runner = fresh
    last = fleet.serve({**job, "do": "quick"})
    runner.stop()
    last.expect("run", event="success", attempt=7)
    last.stop()
    assert fleet.attempts("work") == [*((n, "interrupted") for n in range(1, 7)), (7, "success")]
    check_tellings(fleet, "work")


def test_a_signal_at_any_moment_of_a_start_ends_the_program(fleet):
    """Before `run()` it does what it always does, later it stops the scheduler."""
    starting = [fleet.start({"name": "tick", "every": "1s"}) for _ in range(8)]
    began = time.monotonic()
    for number, process in enumerate(starting):
        # The moments are the point: from before the first import until everything runs.
        time.sleep(max(0.0, began + number * 0.1 - time.monotonic()))
        process.send(signal.SIGTERM)
    for process in starting:
        process.end(0, -signal.SIGTERM)
        assert (process.code == 0) == bool(process.said("stopped"))
    check_tellings(fleet, "tick")


def test_a_signal_that_another_thread_gets_is_noticed_all_the_same(fleet):
    runner = fleet.start(program="instance:serve_and_raise")
    runner.expect("running")
    runner.sent.add(signal.SIGTERM)
    raised = runner.expect("raises")["at"]
    assert runner.end() - raised < SLACK + 1
