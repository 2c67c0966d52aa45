"""BR-029: killed right after each store write of a run, with a backup and alone.

A write may also be cut off: the process dies with its transaction open.
"""

from __future__ import annotations

import signal
from typing import NamedTuple

import pytest

from tests.processes.fleet import soon
from tests.processes.ledger import check_ledger, check_tellings

LEASE, HEARTBEAT = 2.0, 0.3
# What is added to a bound for a busy machine: a process that is due gets the processor late.
SLACK = 0.7
SHORT = {"lease": LEASE, "heartbeat": HEARTBEAT}
TICK = {"name": "tick", "every": "1s", "catch_up": "10s"}


class Point(NamedTuple):
    """A write, what the run's attempts then read, and what lets somebody else go on."""

    write: str
    count: int
    inside: bool
    ends: tuple[str, ...]
    by: str

    def __str__(self) -> str:
        return f"{'inside' if self.inside else 'after'}-{self.write}-{self.count}"


POINTS = [
    Point("claim", 1, True, ("success",), "slot"),
    Point("claim", 1, False, ("lost", "success"), "lease"),
    Point("renew", 1, True, ("lost", "success"), "lease"),
    Point("renew", 1, False, ("lost", "success"), "lease"),
    Point("renew", 3, False, ("lost", "success"), "lease"),
    Point("finish", 1, True, ("lost", "success"), "lease"),
    Point("finish", 1, False, ("success",), "nothing"),
    Point("release", 1, True, ("lost", "success"), "lease"),
    Point("release", 1, False, ("interrupted", "success"), "hand-over"),
]


def start_victim(fleet, point):
    """Start a service that dies at that point of its first run; it claims before others do."""
    return fleet.start(
        {**TICK, "do": "cooperative", "seconds": 0.2 if point.write == "finish" else 30},
        program="crashing:serve_and_die",
        scheduler={**SHORT, "jitter": 0},
        death={"after": point.write, "count": point.count, "inside": point.inside},
    )


def see_death(victim, point):
    """Return the moment of the victim's death, and the slot of its run."""
    if point.write == "release":
        victim.expect("begin")
        victim.expect("running")
        victim.send(signal.SIGTERM)
    line = victim.expect("dies")
    victim.sent.add(signal.SIGKILL)
    victim.end(-signal.SIGKILL)
    return line["at"], line["slot"]


def check_run(fleet, point, slot, died, since):
    """Check the attempts of the run whose instance died; return when the last one ended."""
    attempts = [run for run in fleet.history("tick") if run.slot == slot]
    assert [run.status for run in attempts] == list(point.ends)
    begun = {line["attempt"]: line for line in fleet.said("begin", slot=slot)}
    if len(attempts) == 2:
        assert begun[2]["reason"] == "takeover"
    if point.by == "hand-over":
        assert begun[2]["at"] - max(died, since) < 2 * HEARTBEAT + SLACK
    if point.by == "lease":
        # The last renewal was before the death, at most one heartbeat (a late one).
        assert begun[2]["at"] - died > LEASE - HEARTBEAT - SLACK
        assert begun[2]["at"] - max(died + LEASE, since) < 2 * HEARTBEAT + SLACK


def check_rest(service):
    """See the next two slots run at once, by the only instance that is left, and stop it."""
    first = soon() // 1000 * 1000 + 1000
    for slot in range(first, first + 2000, 1000):
        service.expect("run", event="success", slot=slot, attempt=1, within=5)
    service.stop()


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_a_backup_goes_on_after_a_death_at_any_write(fleet, point):
    backup = fleet.serve(TICK, scheduler={**SHORT, "jitter": "1s"})
    victim = start_victim(fleet, point)
    died, slot = see_death(victim, point)
    if point.by != "nothing":
        backup.expect("run", event="success", slot=slot, attempt=len(point.ends))
    check_rest(backup)
    check_run(fleet, point, slot, died, died)
    check_ledger(fleet.history("tick"), slot, soon(-1), 1000)
    check_tellings(fleet, "tick")


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_a_single_instance_goes_on_after_a_death_at_any_write_and_a_restart(fleet, point):
    victim = start_victim(fleet, point)
    died, slot = see_death(victim, point)
    again = fleet.serve(TICK, scheduler=SHORT)
    since = again.said("running")[0]["at"]
    whole = soon()
    if len(point.ends) > 1:
        again.expect("run", event="success", slot=slot, attempt=2)
    check_rest(again)
    if point.by != "slot":
        check_run(fleet, point, slot, died, since)
    # Slots that passed while nobody lived have nobody to explain them.
    check_ledger(fleet.history("tick"), whole, soon(-1), 1000)
    check_tellings(fleet, "tick")


def test_a_slot_that_was_closed_as_missed_stays_so_after_a_death(fleet):
    """The only worker is taken, so `tick` is missed; its writer dies right after that."""
    long = {"name": "long", "every": "1h", "do": "cooperative", "seconds": 30}
    death = {"after": "skip", "count": 1, "inside": False}
    how = {"program": "crashing:serve_and_die", "death": death}
    victim = fleet.start(long, scheduler={**SHORT, "workers": 1}, **how)
    victim.expect("begin", job="long")
    victim.tell("define")
    _, slot = see_death(victim, Point("skip", 1, False, (), ""))
    again = fleet.serve({**long, "seconds": 0.1}, TICK, scheduler=SHORT)
    again.expect("run", event="success", job="long", attempt=2)
    check_rest(again)
    attempts = [run.status for run in fleet.history("tick") if run.slot == slot]
    assert attempts == ["missed"]
    check_tellings(fleet, "tick")


@pytest.mark.parametrize("write", ["record_manual", "renew"])
def test_a_manual_run_whose_process_died_reads_lost_and_is_never_followed(fleet, write):
    fleet.start(
        program="crashing:run_now_and_die",
        scheduler=SHORT,
        death={"after": write, "count": 1, "inside": False},
    )
    victim = fleet.processes[0]
    backup = fleet.serve({"name": "call", "every": "1d", "catch_up": 0}, scheduler=SHORT)
    see_death(victim, Point(write, 1, False, (), ""))
    fleet.expect_history("call", lambda runs: [run.status for run in runs] == ["lost"], within=5)
    backup.stop()
    assert [(run.manual, run.attempt) for run in fleet.history("call")] == [(True, 1)]
    assert backup.said("begin") == []
