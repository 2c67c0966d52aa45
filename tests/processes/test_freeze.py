"""Frozen processes: SIGSTOP for two leases and SIGCONT, and a handler that stops all threads."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from contextlib import closing, suppress

import pytest

from tests.processes.fleet import since, soon
from tests.processes.ledger import by_slot, check_tellings

LEASE, HEARTBEAT = 2.0, 0.3
SLACK = 1.4  # what a busy machine may take on top
EARLY = 0.7  # as late a last heartbeat may have been
SHORT = {"lease": LEASE, "heartbeat": HEARTBEAT}


def stop_between_writes(fleet, process):
    """Stop a process that doesn't hold the lock of a file; return the moment.

    One that does keeps everybody from writing, which is another story: an outage.
    """
    while True:
        at = process.send(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        if "://" in str(fleet.database):
            return at
        connection = sqlite3.connect(fleet.database, isolation_level=None, timeout=0.2)
        with closing(connection), suppress(sqlite3.OperationalError):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
            return at
        process.send(signal.SIGCONT)


def freeze(fleet, process, until):
    """Stop a process for two leases at least, and until something has happened."""
    frozen = stop_between_writes(fleet, process)
    until()
    # How long it is frozen is the fault itself, so this is no wait for anything.
    time.sleep(max(0.0, frozen + 2 * LEASE - time.monotonic()))
    return frozen, process.send(signal.SIGCONT)


@pytest.mark.parametrize("do", ["cooperative", "returning"])
def test_a_frozen_runner_aborts_itself_and_records_nothing_over_the_takeover(fleet, do):
    job = {"name": "work", "once": soon(), "do": do, "seconds": 60}
    frozen = fleet.serve(job, scheduler=SHORT)
    frozen.expect("begin", attempt=1)
    backup = fleet.serve({**job, "do": "quick"}, scheduler=SHORT)
    stopped, woken = freeze(fleet, frozen, lambda: backup.expect("run", event="success", attempt=2))
    end = frozen.expect("end")
    assert end["abort"] == "lost"
    assert end["at"] - woken < HEARTBEAT + SLACK
    frozen.expect("run", event="lost", attempt=1)
    begun = backup.said("begin")[0]
    assert begun["at"] - stopped < LEASE + 2 * HEARTBEAT + SLACK
    assert begun["at"] - stopped > LEASE - HEARTBEAT - EARLY
    fleet.stop()
    assert fleet.attempts("work") == [(1, "lost"), (2, "success")]
    assert frozen.said("run", event="success") == []
    check_tellings(fleet, "work")


def test_a_frozen_runner_wakes_while_the_next_attempt_is_running(fleet):
    job = {"name": "work", "once": soon(), "do": "returning", "seconds": 60}
    frozen = fleet.serve(job, scheduler=SHORT)
    frozen.expect("begin", attempt=1)
    backup = fleet.serve({**job, "seconds": 3 * LEASE}, scheduler=SHORT)
    freeze(fleet, frozen, lambda: backup.expect("begin", attempt=2))
    assert frozen.expect("end")["abort"] == "lost"
    frozen.expect("run", event="lost", attempt=1)
    # The one that woke is a backup now: it takes over again if the other one dies.
    backup.kill()
    assert frozen.expect("begin", attempt=3)["reason"] == "takeover"
    frozen.send(signal.SIGTERM)
    frozen.end()
    assert fleet.attempts("work") == [(1, "lost"), (2, "lost"), (3, "success")]


def test_a_result_after_a_freeze_counts_when_nobody_took_over(fleet):
    """A lease that only ran out is no reason to do the work again."""
    job = {"name": "work", "once": soon(), "do": "returning", "seconds": 60}
    alone = fleet.serve(job, scheduler=SHORT)
    alone.expect("begin")
    freeze(fleet, alone, lambda: None)
    assert alone.expect("end")["abort"] == "lost"
    alone.expect("run", event="success")
    alone.stop()
    assert fleet.attempts("work") == [(1, "success")]


def test_a_process_frozen_over_many_slots_runs_at_most_one_late(fleet):
    """BR-046."""
    alone = fleet.serve({"name": "tick", "every": "500ms"}, scheduler=SHORT)
    alone.expect("run", event="success", count=2)
    alone.send(signal.SIGSTOP)
    asleep = soon()
    time.sleep(2 * LEASE)
    awake = soon()
    alone.send(signal.SIGCONT)
    alone.expect("run", event="success", slot=since((awake // 500 + 2) * 500))
    alone.stop()
    slots = by_slot(fleet.history("tick"))
    late = [
        slot for slot in slots if asleep + 100 < slot < awake and slots[slot][0].status == "success"
    ]
    assert len(late) <= 1
    check_tellings(fleet, "tick")


def test_a_handler_that_stops_all_threads_of_its_process_records_no_second_success(fleet):
    """BR-050: it holds the interpreter's lock for longer than the lease."""
    job = {"name": "work", "once": soon(), "do": "grabbing", "seconds": 3.5}
    backup = fleet.hold({**job, "do": "quick"}, scheduler=SHORT)
    grabbed = fleet.start(job, scheduler=SHORT)
    grabbed.expect("begin", attempt=1)
    backup.go()
    backup.expect("run", event="success", attempt=2)
    assert grabbed.expect("end")["abort"] in ("lost", None)
    grabbed.expect("run", event="lost", attempt=1)
    fleet.stop()
    assert any("heartbeat late by" in text for text in grabbed.log("WARNING"))
    assert fleet.attempts("work") == [(1, "lost"), (2, "success")]


@pytest.mark.serial
def test_a_process_full_of_busy_threads_keeps_its_lease(fleet):
    """BR-050: eight threads that only compute delay heartbeats, but not past a lease."""
    job = {"name": "work", "once": soon(), "do": "busy", "seconds": 2 * LEASE}
    backup = fleet.hold({**job, "do": "quick"}, scheduler=SHORT)
    busy = fleet.start(job, scheduler=SHORT)
    busy.expect("begin")
    backup.go()
    busy.expect("run", event="success")
    fleet.stop()
    assert fleet.attempts("work") == [(1, "success")]
