"""A SQLite file that somebody damages while jobs run: what it costs, and that it heals."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.processes.fleet import soon

TICK = {"name": "tick", "every": "1s"}
OTHER = {"name": "other", "every": "1s"}
# Calls may take longer, so that no stall of a busy machine is told as an outage.
UNHURRIED = {"lease": "6s", "heartbeat": "2s"}


def damage(fleet, statement):
    with closing(sqlite3.connect(fleet.database, timeout=5)) as connection, connection:
        connection.execute(statement)


def expect_next_slots(fleet, *jobs, count=2):
    """See the slots after the next one run at their times; the next one may be the cost."""
    first = soon() // 1000 * 1000 + 2000
    for slot in range(first, first + count * 1000, 1000):
        for job in jobs:
            fleet.expect("run", event="success", job=job, slot=slot, within=5)


@pytest.mark.parametrize("ends", [("-wal", "-shm"), ("-shm",), ("", "-wal", "-shm")])
def test_files_that_are_removed_between_two_processes_cost_one_slot(fleet, ends):
    first = fleet.serve(TICK, scheduler=UNHURRIED)
    first.expect("run", event="success")
    for end in ends:
        Path(f"{fleet.database}{end}").unlink()
    second = fleet.serve(TICK, scheduler=UNHURRIED)
    expect_next_slots(fleet, "tick", count=4)
    fleet.stop()
    begun = Counter(line["slot"] for line in fleet.said("begin", job="tick"))
    assert len([slot for slot, times in begun.items() if times > 1]) <= 1, begun
    assert first.said("store_down") == second.said("store_down") == []
    # What was recorded last is there for everybody.
    assert {run.slot for run in fleet.history("tick")} >= set(sorted(begun)[-4:])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE anarchon_job SET fence = 'abc', floor_ms = 'q' WHERE job = 'tick'",
        "UPDATE anarchon_job SET records = 'x', paused_until_ms = x'00ff' WHERE job = 'tick'",
        "UPDATE anarchon_run SET end_ms = 'x', owner = x'00ff' WHERE job = 'tick'",
        "UPDATE anarchon_attempt SET started_ms = 'abc', reason = 5 WHERE job = 'tick'",
        "UPDATE anarchon_attempt SET error = CAST(x'ff' AS TEXT) WHERE job = 'tick'",
        "UPDATE OR IGNORE anarchon_attempt SET slot_ms = 9e18 WHERE job = 'tick'",
        "INSERT OR REPLACE INTO anarchon_namespace VALUES ('test', 'abc')",
        "UPDATE anarchon_format SET version = 'abc'",
        "DELETE FROM anarchon_format",
    ],
)
def test_a_strange_row_stops_no_job(fleet, statement):
    process = fleet.serve(TICK, OTHER, scheduler=UNHURRIED)
    process.expect("run", event="success", job="other")
    process.expect("run", event="success", job="tick")
    damage(fleet, statement)
    expect_next_slots(fleet, "tick", "other")
    process.stop()
    assert process.said("store_down") == []
    damage(fleet, "DELETE FROM anarchon_format WHERE version = 'abc'")
    assert len(fleet.history("other")) >= 3
    assert fleet.scheduler.last_run("tick").status == "success"
    for run in fleet.scheduler.history():
        assert str(run)


@pytest.mark.parametrize("table", ["anarchon_run", "anarchon_job", "anarchon_attempt"])
def test_a_table_that_is_dropped_is_made_again_at_once(fleet, table):
    """The call that misses it fails, and its repeat on a new connection makes it."""
    process = fleet.serve(TICK, OTHER, scheduler=UNHURRIED)
    process.expect("run", event="success", job="tick")
    damage(fleet, f"DROP TABLE {table}")
    expect_next_slots(fleet, "tick", "other")
    process.stop()
    assert process.said("store_down") == []
