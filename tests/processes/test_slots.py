"""Many processes on one SQLite file: each slot is run once, by one of them.

`ANARCHON_TEST_SLOTS` and `ANARCHON_TEST_TRIES` ask for the long form.
"""

from __future__ import annotations

import os
import signal

import pytest

from tests.processes.fleet import soon
from tests.processes.ledger import by_slot, check_faultless, check_tellings

SLOTS = int(os.environ.get("ANARCHON_TEST_SLOTS", "20"))
TRIES = int(os.environ.get("ANARCHON_TEST_TRIES", "1"))
UNHURRIED = {"lease": "30s", "heartbeat": "10s"}
# Without a catch-up: one that is due right before the next slot reads missed, and is a warning.
TICK = {"name": "tick", "every": "1s", "catch_up": 0}


@pytest.mark.parametrize("_attempt", range(TRIES))
def test_three_processes_run_each_slot_once(fleet, _attempt):
    """BR-001, BR-025, BR-106."""
    zones = ("UTC", "Asia/Tokyo", "America/Los_Angeles")
    trio = [fleet.start(TICK, scheduler=UNHURRIED, how={"env": {"TZ": zone}}) for zone in zones]
    for process in trio:
        process.expect("running")
    first = (soon() // 1000 + 1) * 1000
    last = first + (SLOTS - 1) * 1000
    fleet.expect("run", event="success", slot=last, within=SLOTS + 30)
    fleet.stop()
    check_faultless(fleet, "tick", first, last, 1000)
    assert [text for process in trio for text in process.log("WARNING", "ERROR")] == []


@pytest.mark.serial
def test_fifty_processes_that_start_at_once_run_each_of_a_few_slots_once(fleet):
    """BR-031, BR-037, BR-069."""
    job = {**TICK, "every": "2s"}
    fifty = [fleet.start(job, scheduler=UNHURRIED, hold=True) for _ in range(50)]
    for process in fifty:
        process.expect("ready", within=60)
    for process in fifty:
        process.tell()
    for process in fifty:
        process.expect("running", within=60)
    first = (soon() // 2000 + 1) * 2000
    last = first + 4000
    fleet.expect("run", event="success", slot=last)
    for process in fifty:
        process.send(signal.SIGTERM)
    for process in fifty:
        process.end()
    check_faultless(fleet, "tick", first, last, 2000)
    assert [text for process in fifty for text in process.log("WARNING", "ERROR")] == []
    assert len({line["instance"] for line in fleet.said("running")}) == 50


def test_a_due_slot_is_run_once_by_five_processes_that_start_at_once(fleet):
    """BR-037: there is no first run of its own for each process."""
    job = {"name": "tick", "every": "1h"}
    five = [fleet.start(job, scheduler=UNHURRIED, hold=True) for _ in range(5)]
    for process in five:
        process.expect("ready")
    for process in five:
        process.tell()
    for process in five:
        process.expect("running")
    fleet.expect("run", event="success")
    fleet.stop()
    for slot, runs in by_slot(fleet.history("tick")).items():
        assert slot % 3_600_000 == 0
        assert [(run.attempt, run.status) for run in runs] == [(1, "success")]
    check_tellings(fleet, "tick")
