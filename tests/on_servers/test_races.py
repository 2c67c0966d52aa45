"""Fifty processes race for the same runs on every server: one winner each, nothing raised."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.processes.fleet import soon

COUNT, JOBS, TICKS = 50, 100, 3
RACE = {"count": COUNT, "jobs": JOBS, "ticks": TICKS, "opening": 3.0, "pause": 1.0}


@pytest.mark.serial
@pytest.mark.parametrize("wins", [JOBS, 3], ids=["all", "few"])
def test_fifty_processes_have_one_winner_for_each_of_a_hundred_jobs(fleet, wins):
    """They also open an empty store at once, which is prepared once."""
    slot_ms = soon(-10)
    racers = fleet.start(program="on_servers.racing:race", wins=wins, slot_ms=slot_ms, **RACE)
    racers.expect("over", within=60)
    racers.end()
    assert racers.said("raised") == []
    assert len(racers.said("done")) == COUNT
    won = Counter(tuple(run) for line in racers.said("won") for run in line["runs"])
    assert set(won) == {(job, slot_ms + tick) for job in range(JOBS) for tick in range(TICKS)}
    assert set(won.values()) == {1}
    assert {kind for line in racers.said("won") for kind in line["settled"]} == {"Recorded"}
    history = fleet.scheduler.history(limit=1000)
    assert {(run.attempt, run.status) for run in history} == {(1, "success")}
    assert len(history) == JOBS * TICKS
