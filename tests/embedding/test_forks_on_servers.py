"""Forks of a process whose scheduler runs on a server: neither meets the other's connections."""

from __future__ import annotations

import uuid

import pytest

from tests.processes.fleet import Fleet, soon
from tests.processes.ledger import check_tellings
from tests.servers.places import place_on

pytestmark = pytest.mark.serial
# From 3.12 on Python warns of any fork beside threads; here that is the point.
QUIET = {"warnings": ["error", "ignore::DeprecationWarning"]}


@pytest.fixture(params=["redis-8.2", "postgres-18"])
def fleet(request, tmp_path, shared_server):
    with place_on(request.param, shared_server) as place:
        fleet = Fleet(tmp_path, place.url, f"test {uuid.uuid4()}")
        yield fleet
        wrong = fleet.clean_up()
        assert not wrong, "\n".join(wrong)
        assert place.errors() == []


@pytest.mark.parametrize(
    ("way", "child"), [("exit", "look_round"), ("multiprocessing", "start_again")]
)
def test_a_child_leaves_the_parents_run_alone(fleet, way, child):
    """It asks, it stops, it ends, or starts an instance of its own; all within its time."""
    work = {"name": "work", "once": soon(), "do": "returning", "seconds": 60}
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
    looked = parent.expect("child")
    assert (looked["state"], looked["read"]) == ("idle", ["running"])
    if child == "start_again":
        ran = parent.expect("child ran")
        assert ran["instance"] == ran["by"] != parent.said("ready")[0]["instance"]
    assert parent.expect("child ended")["status"] == 0
    parent.expect("running")
    backup.expect("running")
    parent.stop()  # at which the handler returns
    backup.stop()
    assert fleet.attempts("work") == [(1, "success")]
    assert backup.said("begin") == []
    check_tellings(fleet, "work")
