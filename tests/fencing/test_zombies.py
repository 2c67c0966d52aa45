"""Frozen processes that wake in the middle of a transaction, long after their lease."""

from __future__ import annotations

import signal
import time

import pytest

from tests.processes.fleet import Fleet, soon
from tests.processes.test_freeze import stop_between_writes

LEASE = 2.0
SHORT = {"lease": LEASE, "heartbeat": 0.3}


@pytest.fixture(params=["sqlite", "postgres-18"])
def place(request, shared_place_of):
    return shared_place_of(request.param)


@pytest.fixture
def fleet_on(tmp_path):
    fleets = []

    def make(place):
        fleets.append(Fleet(tmp_path, str(place.where), place.namespace))
        return fleets[-1]

    yield make
    wrong = [line for fleet in fleets for line in fleet.clean_up()]
    assert not wrong, "\n".join(wrong)


def start(fleet, job, **how):
    return fleet.start(job, program="fencing.zombie:serve", scheduler=SHORT, **how)


def serve(fleet, job, **how):
    process = start(fleet, job, **how)
    process.expect("running")
    return process


def frozen_inside(fleet, job, **how):
    """Return a process that is frozen in its transaction."""
    process = serve(fleet, job, **how)
    process.expect("inside", attempt=1)
    stop_between_writes(fleet, process)
    return process


@pytest.mark.parametrize("way", ["fenced", "complete"])
def test_a_zombie_can_t_commit(place, fleet_on, way):
    fleet = fleet_on(place)
    job = {"name": "job", "once": soon(), "do": "pay"}
    zombie = frozen_inside(fleet, job, way=way, early=False)
    backup = serve(fleet, job, way=way, early=False)
    backup.expect("committed", attempt=2)
    zombie.send(signal.SIGCONT)
    zombie.tell()
    assert zombie.expect("aborted", attempt=1)["reason"] == "lost"
    zombie.expect("run", event="lost", attempt=1)
    backup.expect("run", event="success", attempt=2)
    fleet.stop()
    assert len(place.paid()) == 1
    assert fleet.attempts("job") == [(1, "lost"), (2, "success")]


def test_without_a_fence_it_would(place, fleet_on):
    """The same, with nothing asked: this is what the two calls are there for."""
    fleet = fleet_on(place)
    job = {"name": "job", "once": soon(), "do": "pay"}
    zombie = frozen_inside(fleet, job, way="nothing", early=False)
    backup = serve(fleet, job, way="nothing", early=False)
    backup.expect("committed", attempt=2)
    zombie.send(signal.SIGCONT)
    zombie.tell()
    zombie.expect("committed", attempt=1)
    fleet.stop()
    assert len(place.paid()) == 2


def test_who_completed_before_it_froze_commits_and_nobody_follows(shared_place_of, fleet_on):
    """The takeover waits for the transaction, however long it was frozen, and finds it done."""
    postgres = shared_place_of("postgres-18")
    fleet = fleet_on(postgres)
    job = {"name": "job", "once": soon(), "do": "pay"}
    zombie = frozen_inside(fleet, job, way="complete", early=True)
    serve(fleet, job, way="complete", early=True)
    # How long it is frozen is the fault itself, so this is no wait for anything.
    time.sleep(2 * LEASE)
    assert fleet.attempts("job") == [(1, "running")]
    zombie.send(signal.SIGCONT)
    zombie.tell()
    zombie.expect("committed", attempt=1)
    fleet.expect_history("job", lambda runs: [run.status for run in runs] == ["success"])
    fleet.stop()
    assert len(postgres.paid()) == 1


def test_who_dies_right_after_its_commit_has_succeeded(place, fleet_on):
    fleet = fleet_on(place)
    job = {"name": "job", "once": soon(), "do": "pay"}
    # It may die before it has said that it runs.
    runner = start(fleet, job, way="complete", early=False, die=True)
    runner.sent.add(signal.SIGKILL)
    runner.end(-signal.SIGKILL)
    assert fleet.attempts("job") == [(1, "success")]
    backup = serve(fleet, job, way="complete", early=False)
    time.sleep(2 * LEASE)  # as long as a takeover would take
    assert backup.said("inside") == []
    fleet.stop()
    assert fleet.attempts("job") == [(1, "success")]
    assert len(place.paid()) == 1
