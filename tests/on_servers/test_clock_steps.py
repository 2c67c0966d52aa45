"""Clocks that step under real schedulers, and a runner that is cut off from its store.

On servers it is the server's clock that steps, which judges leases there: a takeover needs
a second witness, the observer's own clock. On a SQLite file it is the clock of the host, as
when somebody sets it: all processes see the step, and leases know nothing of it. Moments are
compared by the one monotonic clock that all processes of the machine share.
"""

from __future__ import annotations

import functools
import signal
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from anarchon import MemoryBackend, Scheduler
from anarchon.backends._local import HostClock
from tests.processes.child import WALL_CLOCK
from tests.processes.fleet import Fleet
from tests.processes.ledger import check_tellings
from tests.servers.faketime import SteppedClock
from tests.servers.places import place_on
from tests.servers.postgres import Postgres
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator

LEASE, HEARTBEAT = 3.0, 0.5
MARGIN = 0.3
WITNESS = LEASE - MARGIN
# What is added to a bound for a busy machine: a process that is due gets the processor late.
SLACK = 1.4
# How far the moment of a renewal and the one at which its process says so may be apart.
SAID = 0.1
LATE = 0.3  # how late a busy machine may wake a handler that is told to end
HOUR = 3600.0
TIMES = {"lease": LEASE, "heartbeat": HEARTBEAT}
TICK = {"name": "tick", "every": "1s", "catch_up": 0, "overlap": "allow"}
REPORT = {"name": "report", "every": "1h", "catch_up": "2h", "do": "cooperative", "seconds": 60}

SERVERS = ["redis-8.2", "postgres-18"]
on_servers = pytest.mark.parametrize("place", SERVERS, indirect=True)
on_each_kind = pytest.mark.parametrize("place", [*SERVERS, "sqlite"], indirect=True)
everywhere = pytest.mark.parametrize("place", [*SERVERS, "redis-6.2", "sqlite"], indirect=True)


class Stepping:
    """A store whose clock can be stepped, and the processes of a test on it."""

    def __init__(self, fleet, clock, server=None) -> None:
        self.fleet = fleet
        self.step = clock.set  # to so many seconds ahead of the machine's clock
        self.server = server
        self.leases_step = server is not None
        # Of a file it is the processes that read the clock.
        file = clock.environment()["FAKETIME_TIMESTAMP_FILE"]
        self._how = {} if server else {"env": {WALL_CLOCK: file}}

    def start(self, *jobs, **options):
        how = {**options.pop("how", {}), **self._how}
        return self.fleet.start(*jobs, **{"scheduler": TIMES, **options, "how": how})

    def serve(self, *jobs, **options):
        process = self.start(*jobs, **options)
        process.expect("running")
        return process

    def hold(self, *jobs):
        """Start a service that runs at once when it is told to."""
        process = self.start(*jobs, hold=True)
        process.expect("ready")
        return process


@pytest.fixture(scope="module")
def stepped():
    """Give the running server of a variant and its clock."""
    with ExitStack() as stack:

        @functools.cache
        def start(variant):
            clock = SteppedClock()
            make = Postgres if variant.startswith("postgres") else RedisServer
            return stack.enter_context(make(variant, clock=clock)), clock

        yield start


@pytest.fixture
def place(request, stepped, tmp_path, namespace) -> Iterator[Stepping]:
    """Give a place on the store of a kind, whose clock is right at first, and afterwards."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            stepping = Stepping(Fleet(tmp_path, None, namespace), SteppedClock())
        else:
            server, clock = stepped(request.param)
            there = stack.enter_context(place_on(request.param, lambda _: server))
            stepping = Stepping(Fleet(tmp_path, there.url, namespace), clock, server)
        yield stepping
        wrong = stepping.fleet.clean_up()
        stepping.step(0.0)
        assert not wrong, "\n".join(wrong)


def stay(seconds):
    """Leave the clock as it is for a while; how long it is wrong is the fault itself."""
    time.sleep(seconds)


def expect_tick(fleet):
    """See a slot run that was not before."""
    count = len(fleet.said("run", event="success", job="tick"))
    fleet.expect("run", event="success", job="tick", count=count + 1, within=10)


def check_one_attempt(place, slot):
    """See that the report's run was never in other hands, and that its end is recorded."""
    fleet = place.fleet
    assert [run.status for run in fleet.history("report") if run.slot == slot] == ["success"]
    assert len(fleet.said("begin", job="report", slot=slot)) == 1
    for event in ("lost", "takeover", "interrupted"):
        assert fleet.said("run", event=event, slot=slot, job="report") == []
    check_tellings(fleet, "report")
    check_tellings(fleet, "tick")


# --- healthy owners ---------------------------------------------------------------

# How many seconds the clock is ahead, and for how long. The short ones come and go within a
# heartbeat, between two renewals.
STEPS = [
    *((HOUR, 1.2), (0.0, 1.2), (-HOUR, 1.2), (0.0, 1.2)),
    *((LEASE * 2 / 3, 1.2), (0.0, 1.2)),
    *((HOUR, 0.2), (-HOUR, 0.2), (HOUR, 0.2), (LEASE / 2, 0.2), (0.0, 0.2)),
]


@everywhere
def test_no_step_takes_a_run_from_a_healthy_owner(place):
    """Back and forth, by an hour and by less than a lease, while two others watch it."""
    report = {**REPORT, "do": "returning", "seconds": sum(seconds for _, seconds in STEPS) + 1}
    for _ in range(3):
        place.start(report, TICK)
    begun = place.fleet.expect("begin", job="report")
    for ahead, seconds in STEPS:
        place.step(ahead)
        stay(seconds)
    end = place.fleet.expect("end", job="report", slot=begun["slot"])
    assert (end["how"], end["abort"]) == ("returned", None)
    assert end["at"] - begun["at"] > report["seconds"] - 0.1
    place.fleet.expect("run", event="success", job="report", slot=begun["slot"])
    expect_tick(place.fleet)
    place.fleet.stop()
    check_one_attempt(place, begun["slot"])


@on_each_kind
def test_an_owner_that_misses_renewals_while_the_clock_steps_keeps_its_run(place):
    """By the store's clock its lease has ended; it comes back before anybody's witness is over."""
    report = {**REPORT, "do": "returning", "seconds": 5.0}
    backups = [place.hold(report, TICK), place.hold(report, TICK)]
    owner = place.serve(report)
    begun = owner.expect("begin", job="report")
    for backup in backups:
        backup.go()
    owner.send(signal.SIGSTOP)
    place.step(HOUR)
    stay(WITNESS / 2)
    owner.send(signal.SIGCONT)
    owner.expect("run", event="success", job="report", slot=begun["slot"])
    place.fleet.stop()
    check_one_attempt(place, begun["slot"])


def test_steps_of_the_wall_clock_are_nothing_to_leases_in_memory():
    """Two schedulers of one process; the time of their store is given."""

    class Wrong(HostClock):
        ahead_ms = 0

        def wall_ms(self):
            return super().wall_ms() + self.ahead_ms

    backend, clock = MemoryBackend(), Wrong()
    backend._time = clock
    begun, go = threading.Event(), threading.Event()
    attempts, told = [], []

    def work(ctx):
        attempts.append(ctx.attempt)
        begun.set()
        while not go.is_set():
            ctx.signal.raise_if_aborted()
            go.wait(0.02)

    schedulers = [Scheduler(backend, lease=2, heartbeat=0.3) for _ in range(2)]
    for scheduler in schedulers:
        scheduler.every("work", "1d", work, catch_up="1d")
        for event in ("lost", "takeover", "interrupted"):
            scheduler.on(event, told.append)
        scheduler.start()
    assert begun.wait(10)
    for ahead in (HOUR, 0.0, -HOUR, 0.6, 0.0):
        clock.ahead_ms = round(ahead * 1000)
        stay(0.5)
    go.set()
    for scheduler in schedulers:
        scheduler.stop(5)
    assert (attempts, told) == ([1], [])
    assert [run.status for run in backend.history("work", limit=9)] == ["success"]


# --- dead owners ------------------------------------------------------------------


@on_each_kind
@pytest.mark.parametrize("ahead", [-HOUR, HOUR, LEASE * 2 / 3], ids=["back", "forward", "little"])
def test_a_dead_owner_s_run_is_taken_over_after_the_witness(place, ahead):
    """It dies right after a renewal, and the clock steps: neither never, nor too soon."""
    backup = place.hold(REPORT, TICK)
    victim = place.start(
        REPORT,
        program="crashing:serve_and_die",
        death={"write": "renew", "count": 4, "before": False},
    )
    victim.expect("begin", job="report")
    backup.go()
    died = victim.expect("dies")
    place.step(ahead)
    victim.sent.add(signal.SIGKILL)
    victim.end(-signal.SIGKILL)
    begun = backup.expect("begin", job="report", slot=died["slot"], attempt=2)
    after = begun["at"] - died["at"]
    # After a step back only a whole lease, by the observer's clock, says that it has ended.
    whole = not place.leases_step or ahead < 0
    least = LEASE if whole else WITNESS
    assert least - SAID < after < least + 2 * HEARTBEAT + SLACK
    backup.stop()
    statuses = [run.status for run in place.fleet.history("report") if run.slot == died["slot"]]
    assert statuses == ["lost", "interrupted"]
    check_tellings(place.fleet, "report")


# --- owners that are cut off ------------------------------------------------------


@on_servers
@pytest.mark.parametrize("ahead", [0.0, -HOUR, HOUR], ids=["right", "back", "forward"])
def test_a_runner_that_is_cut_off_gives_up_before_anybody_else_begins(place, ahead):
    """Its keeper talks to a black hole; it ends its run by its own clock."""
    with Proxy(place.server) as proxy:
        url = str(place.fleet.database)
        there = url.replace(f":{place.server.port}", f":{proxy.port}", 1)
        cut_off = place.serve(REPORT, database=there)
        cut_off.expect("begin", job="report", attempt=1)
        backup = place.serve({**REPORT, "do": "quick"})
        at = time.monotonic()
        proxy.black_hole()
        place.step(ahead)
        aborted = cut_off.expect("end", job="report")
        assert aborted["abort"] == "lost"
        assert aborted["at"] - at < WITNESS + SLACK / 4
        begun = backup.expect("begin", job="report", slot=aborted["slot"], attempt=2)
        # The margin lies between them, but not when the clock steps forward just then: the
        # witness is as long as the owner's own patience, so only that it is late may show.
        assert begun["at"] > aborted["at"] - (LATE if ahead > 0 else 0)
        assert begun["at"] - at < LEASE + 2 * HEARTBEAT + SLACK
        backup.expect("run", event="success", job="report", slot=aborted["slot"], attempt=2)
        proxy.passing()
        place.step(0.0)
        cut_off.expect("run", event="lost", job="report", slot=aborted["slot"])
        place.fleet.stop()
    check_tellings(place.fleet, "report")
