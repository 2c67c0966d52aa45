"""Fifty processes race for the same runs on every server: one winner each, nothing raised."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.processes.fleet import soon

COUNT, JOBS, TICKS = 50, 100, 2
RACE = {"count": COUNT, "jobs": JOBS, "ticks": TICKS, "opening": 2.0, "pause": 1.0}


@pytest.mark.serial
def test_fifty_processes_have_one_winner_for_each_of_a_hundred_jobs(fleet):
    """They also open an empty store at once, which is prepared once."""
    racers = fleet.start(program="on_servers.racing:race", slot_ms=soon(-10), **RACE)
    racers.expect("over", within=60)
    racers.end()
    assert racers.said("raised") == []
    assert len(racers.said("done")) == COUNT
    won = Counter(job for line in racers.said("won") for job in line["jobs"])
    assert won == Counter(f"{tick} {job}" for job in range(JOBS) for tick in range(TICKS))
    assert {kind for line in racers.said("won") for kind in line["settled"]} == {"Recorded"}
    history = fleet.scheduler.history(limit=1000)
    assert {(run.attempt, run.status) for run in history} == {(1, "success")}
    assert len(history) == JOBS * TICKS
