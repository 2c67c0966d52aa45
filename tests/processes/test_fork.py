"""BR-022, BR-006: forks of a process whose scheduler runs."""

from __future__ import annotations

import pytest

from tests.processes.fleet import soon
from tests.processes.ledger import check_tellings

WAYS = ["exit", "end", "multiprocessing"]
# From 3.12 on Python warns of any fork beside threads; here that is the point.
QUIET = {"warnings": ["error", "ignore::DeprecationWarning"]}


def start_parent(fleet, way, child):
    """Start a parent with a run going on, and let it fork."""
    work = {"name": "work", "once": soon(), "do": "cooperative", "seconds": 4}
    backup = fleet.hold({**work, "do": "quick"})
    parent = fleet.start(
        work,
        {"name": "ping", "every": "1d", "catch_up": 0},
        program="forking:fork_once",
        way=way,
        child=child,
        how=QUIET,
    )
    parent.expect("begin")
    backup.go()
    parent.tell()
    return parent, backup


def check_parent(fleet, parent, backup):
    """Check that the parent's run came to its end as if nothing had happened."""
    assert parent.expect("child ended")["status"] == 0
    parent.expect("run", event="success", job="work")
    parent.stop()
    backup.stop()
    assert fleet.attempts("work") == [(1, "success")]
    assert backup.said("begin") == []
    assert len([text for text in parent.log() if "forked while the scheduler runs" in text]) == 1
    check_tellings(fleet, "work")


def check_idle(line):
    assert line["state"] == line["health"] == "idle"
    assert line["running"] == 0
    assert "was started in another process" in line["refused"]
    assert line["read"] == ["running"]
    assert line["waited"] is None


@pytest.mark.parametrize("way", WAYS)
def test_a_child_is_idle_and_leaves_the_parents_run_alone(fleet, way):
    parent, backup = start_parent(fleet, way, "look_round")
    check_idle(parent.expect("child"))
    check_parent(fleet, parent, backup)


@pytest.mark.parametrize("way", WAYS)
def test_a_child_can_start_an_instance_of_its_own(fleet, way):
    parent, backup = start_parent(fleet, way, "start_again")
    looked, ran = parent.expect("child"), parent.expect("child ran")
    check_idle(looked)
    assert ran["state"] == "running"
    instances = {line["instance"] for line in fleet.said("running")}
    assert ran["instance"] == ran["by"] == looked["instance"]
    assert ran["instance"].endswith(f":{looked['pid']}")
    assert ran["instance"] not in {parent.said("ready")[0]["instance"], *instances}
    check_parent(fleet, parent, backup)


@pytest.mark.parametrize("way", ["end", "multiprocessing"])
def test_a_child_that_ends_hands_its_own_run_over(fleet, way):
    parent, backup = start_parent(fleet, way, "leave_running")
    assert parent.expect("child leaves")["state"] == "running"
    check_parent(fleet, parent, backup)
    (run,) = fleet.history("childs")
    assert (run.attempt, run.status, run.detail) == (1, "interrupted", "handed over")


def test_many_forks_at_any_moment_never_hang(fleet):
    """Locks may be held by threads that the child doesn't have."""
    process = fleet.start(
        {"name": "work", "once": soon(), "do": "cooperative", "seconds": 60},
        {"name": "ping", "every": "1d", "catch_up": 0},
        program="forking:fork_often",
        # Calls have a share of the heartbeat, and thirty forks leave them little of it.
        scheduler={"lease": "6s", "heartbeat": "2s"},
        forks=30,
        how=QUIET,
    )
    process.expect("begin", job="work")
    process.tell()
    ended = process.expect_all("child ended", count=30)
    assert {line["status"] for line in ended} == {0}
    assert {line["state"] for line in process.said("child")} == {"idle"}
    assert len({line["pid"] for line in process.said("child")}) == 30
    process.expect("running")
    process.stop()
    assert fleet.attempts("work") == [(1, "interrupted")]
