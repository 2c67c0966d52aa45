"""Three processes on every server: each slot once, a hand-over, and a takeover.

`ANARCHON_TEST_SLOTS` asks for the long form.
"""

from __future__ import annotations

import os

from tests.processes.fleet import since, soon
from tests.processes.ledger import by_slot, check_ledger, check_tellings

SLOTS = int(os.environ.get("ANARCHON_TEST_SLOTS", "20"))
LEASE, HEARTBEAT = 6.0, 1.0
# What is added to a bound for a busy machine: a process that is due gets the processor late.
SLACK = 1.5
EARLY = 1.0  # as late a last heartbeat may have been
TIMES = {"lease": LEASE, "heartbeat": HEARTBEAT}
TICK = {"name": "tick", "every": "1s", "catch_up": "1m"}
# Its slot is long past, so that no other one falls due meanwhile.
REPORT = {"name": "report", "every": "52w", "do": "cooperative", "seconds": 300, "catch_up": "52w"}


def runner_of(fleet, attempt):
    """Wait for an attempt of the report; return its process, and when it began."""
    line = fleet.expect("begin", job="report", attempt=attempt)
    return next(one for one in fleet.processes if one.pid == line["pid"]), line["at"]


def test_three_processes_share_slots_hand_one_over_and_take_one_over(fleet):
    for _ in range(3):
        fleet.start(TICK, REPORT, scheduler=TIMES)
    for process in fleet.processes:
        process.expect("running")
    first = (soon() // 1000 + 1) * 1000
    runner, _ = runner_of(fleet, attempt=1)
    asked = runner.send(15)
    follower, begun = runner_of(fleet, attempt=2)
    assert begun - asked < 2 * HEARTBEAT + SLACK  # far below the lease, so it can't be its end
    runner.end()
    fleet.serve(TICK, REPORT, scheduler=TIMES)
    killed = follower.kill()
    _, begun = runner_of(fleet, attempt=3)
    # The last renewal was at most one heartbeat before the death, give or take a late one.
    assert LEASE - HEARTBEAT - EARLY < begun - killed < LEASE + 2 * HEARTBEAT + SLACK
    last = max(first + (SLOTS - 1) * 1000, soon() // 1000 * 1000)
    fleet.expect("run", event="success", job="tick", slot=since(last), within=SLOTS + 30)
    fleet.stop()
    check_report(fleet)
    check_ticks(fleet, first, last)


def check_report(fleet):
    """See attempts that were given up and died; the last ones were given up at the end."""
    (attempts,) = by_slot(fleet.history("report")).values()
    statuses = [run.status for run in attempts]
    assert statuses[:2] == ["interrupted", "lost"]
    assert set(statuses[2:]) == {"interrupted"}
    check_tellings(fleet, "report")


def check_ticks(fleet, first, last):
    """See every slot run once, but for one that the killed process may have had in hand."""
    slots = check_ledger(fleet.history("tick"), first, last, 1000)
    assert {attempts[-1].status for attempts in slots.values()} <= {"success", "skipped"}
    assert sum(len(attempts) > 1 for attempts in slots.values()) <= 1
    check_tellings(fleet, "tick")
    errors = [text for process in fleet.processes for text in process.log("ERROR")]
    assert errors == []
