"""BR-029: killed right before and after each store write of a run, with a backup and alone.

On every store. A write that is cut off leaves an open transaction in a SQLite file, and
nothing at all on a server. `ANARCHON_TEST_CRASH_POINTS=all` asks for the long form.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from typing import NamedTuple

import pytest

from tests.processes.fleet import Fleet, soon
from tests.processes.ledger import check_ledger, check_tellings
from tests.servers.places import STORES, place_on

LEASE, HEARTBEAT = 2.0, 0.3
WITNESS = LEASE - 0.25
# What is added to a bound for a busy machine: a process that is due gets the processor late.
# Even so a hand-over, within two heartbeats, is told from the shortest rest of a lease.
SLACK = 1.0
EARLY = 0.7  # as late a last heartbeat may have been
assert LEASE - HEARTBEAT > 2 * HEARTBEAT + SLACK
SHORT = {"lease": LEASE, "heartbeat": HEARTBEAT}
TICK = {"name": "tick", "every": "1s", "catch_up": "10s"}
ALL = os.environ.get("ANARCHON_TEST_CRASH_POINTS") == "all"


class Point(NamedTuple):
    """A write, what the run's attempts then read, and what lets somebody else go on."""

    write: str
    count: int
    before: bool
    ends: tuple[str, ...]
    by: str

    def __str__(self) -> str:
        return f"{'before' if self.before else 'after'}-{self.write}-{self.count}"


TAKEN_OVER = ("lost", "success")
POINTS = [
    Point("claim", 1, True, ("success",), "slot"),
    Point("claim", 1, False, TAKEN_OVER, "lease"),
    Point("renew", 1, True, TAKEN_OVER, "lease"),
    Point("renew", 1, False, TAKEN_OVER, "lease"),
    Point("renew", 3, False, TAKEN_OVER, "lease"),
    Point("finish", 1, True, TAKEN_OVER, "lease"),
    Point("finish", 1, False, ("success",), "nothing"),
    Point("release", 1, True, TAKEN_OVER, "lease"),
    Point("release", 1, False, ("interrupted", "success"), "hand-over"),
    Point("save", 1, True, TAKEN_OVER, "lease"),
    Point("save", 1, False, TAKEN_OVER, "lease"),
    Point("cancel", 1, True, TAKEN_OVER, "lease"),
    Point("cancel", 1, False, ("interrupted",), "nobody"),
    Point("pause", 1, True, TAKEN_OVER, "lease"),
    Point("pause", 1, False, TAKEN_OVER, "resume"),
]
# A few points on each of these, so that every one is tried on some.
SERVERS = ("redis-8.2", "postgres-18", "valkey-8", "pgbouncer-15", "redis-cluster")
OF_EACH = 3


def some_points():
    """Return a few points of each server, other ones of the next."""
    for number, store in enumerate(SERVERS):
        for point in range(number * OF_EACH, (number + 1) * OF_EACH):
            yield store, POINTS[point % len(POINTS)]


def shown(given):
    return str(given)


everywhere = [(store, point) for store in ("sqlite", *STORES) for point in POINTS]
with_a_backup = [("sqlite", point) for point in POINTS] + [*some_points()]
alone = [("sqlite", point) for point in POINTS if point.write not in ("save", "cancel", "pause")]
at_points = pytest.mark.parametrize(
    ("store", "point"), everywhere if ALL else with_a_backup, indirect=["store"], ids=shown
)
at_points_alone = pytest.mark.parametrize(
    ("store", "point"), everywhere if ALL else alone, indirect=["store"], ids=shown
)
on_some = pytest.mark.parametrize(
    "store", ("sqlite", *STORES) if ALL else ["sqlite"], indirect=True
)


@pytest.fixture
def store(request, shared_server):
    """Give a part of a server of a kind; None is a file in the test's folder."""
    if request.param == "sqlite":
        yield None
        return
    with place_on(request.param, shared_server) as place:
        yield place
        assert place.errors() == []


@pytest.fixture
def fleet(tmp_path, store):
    """Give a test its processes; whatever it leaves is killed, and fails it."""
    fleet = Fleet(tmp_path, store and store.url, f"test {uuid.uuid4()}")
    yield fleet
    wrong = fleet.clean_up()
    assert not wrong, "\n".join(wrong)


def job_at(point):
    """Return the job whose first run dies at a point."""
    how = {"finish": ("cooperative", 0.2), "save": ("saving", 30)}
    do, seconds = how.get(point.write, ("cooperative", 30))
    return {**TICK, "do": do, "seconds": seconds}


def start_victim(fleet, point):
    """Start a service that dies at that point of its first run; it claims before others do."""
    return fleet.start(
        job_at(point),
        program="crashing:serve_and_die",
        scheduler={**SHORT, "jitter": 0},
        death={"write": point.write, "count": point.count, "before": point.before},
    )


def start_backup(fleet, point, **scheduler):
    """Start one that goes on with the run, quickly."""
    do = "saving" if point.write == "save" else "quick"
    backup = fleet.start(
        {**TICK, "do": do, "seconds": 0}, program="crashing:serve", scheduler={**SHORT, **scheduler}
    )
    backup.expect("running")
    return backup


def see_death(victim, point):
    """Return the moment of the victim's death, and the slot of its run."""
    slot = None
    if point.write in ("release", "cancel", "pause"):
        slot = victim.expect("begin")["slot"]
        victim.expect("running")
    if point.write == "release":
        victim.send(signal.SIGTERM)
    if point.write in ("cancel", "pause"):
        victim.tell(f"cancel {slot}" if point.write == "cancel" else "pause")
    line = victim.expect("dies")
    victim.sent.add(signal.SIGKILL)
    victim.end(-signal.SIGKILL)
    return line["at"], slot or line["slot"]


def resume(fleet, slot):
    """See slots skipped, and the dead run not taken over, till the pause ends; return when."""
    paused_at = soon(LEASE + 2 * HEARTBEAT)  # by then it would have been taken over
    fleet.expect_history(
        "tick", lambda runs: any(run.slot > paused_at and run.detail == "paused" for run in runs)
    )
    assert fleet.said("begin", slot=slot, attempt=2) == []
    fleet.scheduler.resume("tick")
    return time.monotonic()


def go_on(fleet, point, service, slot, since):
    """See the run come to its end, if anybody goes on with it; return since when one could."""
    if point.by == "resume":
        since = resume(fleet, slot)
    if point.by == "nobody":
        service.expect("run", event="interrupted", slot=slot, attempt=1)
    elif len(point.ends) > 1 or point.by == "slot":
        service.expect("run", event="success", slot=slot, attempt=len(point.ends))
    return since


def check_run(fleet, point, slot, died, since, witness=0.0):
    """Check the attempts of the run whose instance died; `since` is when one could go on.

    `witness` is for how long that one has to watch the run before it takes it over.
    """
    attempts = [run for run in fleet.history("tick") if run.slot == slot]
    assert [run.status for run in attempts] == list(point.ends)
    begun = {line["attempt"]: line for line in fleet.said("begin", slot=slot)}
    if len(attempts) == 2:
        assert begun[2]["reason"] == "takeover"
    if point.by in ("hand-over", "resume"):
        assert begun[2]["at"] - max(died, since) < 2 * HEARTBEAT + SLACK
    if point.by == "lease":
        # The last renewal was before the death, at most one heartbeat (a late one).
        assert begun[2]["at"] - died > LEASE - HEARTBEAT - EARLY
        assert begun[2]["at"] - max(died + LEASE, since + witness) < 2 * HEARTBEAT + SLACK
    if point.write == "save":
        (found,) = fleet.said("found", slot=slot, attempt=2)
        assert found["checkpoint"] == (None if point.before else {"page": 7})


def check_rest(service):
    """See the next two slots run at once, by the only instance that is left, and stop it.

    Return the last slot that has to be explained.
    """
    first = soon() // 1000 * 1000 + 1000
    for slot in range(first, first + 2000, 1000):
        service.expect("run", event="success", slot=slot, attempt=1, within=5)
    service.stop()
    return first + 1000


@at_points
def test_a_backup_goes_on_after_a_death_at_any_write(fleet, point):
    backup = start_backup(fleet, point, jitter="1s")
    victim = start_victim(fleet, point)
    died, slot = see_death(victim, point)
    since = go_on(fleet, point, backup, slot, died)
    last = check_rest(backup)
    check_run(fleet, point, slot, died, since)
    check_ledger(fleet.history("tick"), slot, last, 1000)
    check_tellings(fleet, "tick")


@at_points_alone
def test_a_single_instance_goes_on_after_a_death_at_any_write_and_a_restart(fleet, point, store):
    victim = start_victim(fleet, point)
    died, slot = see_death(victim, point)
    again = start_backup(fleet, point)
    since = again.said("running")[0]["at"]
    whole = soon()
    if point.by != "slot":
        since = go_on(fleet, point, again, slot, since)
    last = check_rest(again)
    if point.by != "slot":
        # A server's clock may have stepped while nobody looked.
        check_run(fleet, point, slot, died, since, witness=WITNESS if store else 0.0)
    # Slots that passed while nobody lived have nobody to explain them.
    check_ledger(fleet.history("tick"), whole, last, 1000)
    check_tellings(fleet, "tick")


@on_some
def test_a_slot_that_was_closed_as_missed_stays_so_after_a_death(fleet):
    """The only worker is taken, so `tick` is missed; its writer dies right after that."""
    long = {"name": "long", "every": "1h", "do": "cooperative", "seconds": 30}
    death = {"write": "skip", "count": 1, "before": False}
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


@on_some
@pytest.mark.parametrize("write", ["record_manual", "renew"])
def test_a_manual_run_whose_process_died_reads_lost_and_is_never_followed(fleet, write):
    fleet.start(
        program="crashing:run_now_and_die",
        scheduler=SHORT,
        death={"write": write, "count": 1, "before": False},
    )
    victim = fleet.processes[0]
    backup = fleet.serve({"name": "call", "every": "1d", "catch_up": 0}, scheduler=SHORT)
    see_death(victim, Point(write, 1, False, (), ""))
    fleet.expect_history("call", lambda runs: [run.status for run in runs] == ["lost"], within=5)
    backup.stop()
    assert [(run.manual, run.attempt) for run in fleet.history("call")] == [(True, 1)]
    assert backup.said("begin") == []
