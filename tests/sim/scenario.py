"""One noisy simulation from one seed: a small fleet, its jobs, and everything that may go wrong.

A seed chooses the settings, the jobs, what handlers do, and which kinds of faults happen how
often. After the noise everything is mended, and what was left open has to be settled.
"""

from __future__ import annotations

from collections import Counter
from math import exp, log
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from . import faults, faults_fleet, faults_store
from .fleet import Fleet, Noise, settings
from .instance import Plan
from .referee import Referee
from .shape import WHOLE
from .store import Store
from .versions import PERIODS_MS, Live, Version
from .world import Host, World

if TYPE_CHECKING:
    from anarchon._messages import (
        Settings,
        StartRun,
    )

    from .instance import Instance
    from .shape import Shape

LEASES = ((2.0, 0.5), (2.0, 0.6), (3.0, 1.0), (3.0, 0.6), (4.0, 1.0), (6.0, 2.0), (10.0, 2.0))
MOST_STEPS = 100_000  # for each four instances; few take a tenth of that
TOGETHER = 12.0  # after the noise: seconds beside what leases and handlers take
DEADLY = ("crash", "crash", "crash", "stop", "stop", "stop", "restarts", "deploy", "step_clock")
ORDERS = ("trigger", "backfill")
ORDERING = 0.4  # the share of simulations in which the fleet is asked for runs
LARGE = 0.1  # the share of fleets that have more than four instances, where they may


class Fault(NamedTuple):
    """Something that goes wrong: its number, when, and what."""

    number: int
    at: float
    kind: str


class Scenario:
    """Everything of one seed."""

    periods_ms = PERIODS_MS

    def __init__(self, seed: int, shape: Shape = WHOLE) -> None:
        self.world = world = World(seed)
        rng = world.rng
        self.settings = self._settings(rng)
        lease = self.settings.lease
        self.mixed = rng.random() < 0.15  # every instance has settings of its own
        # A clock that steps makes runs without leases look old, which nothing can prevent.
        self.store = Store(world, steady=rng.random() < 0.5 or not self.settings.leases)
        self.store.time.offset = rng.uniform(-0.3, 0.3)
        self.referee = Referee(world, self.store, leases=self.settings.leases)
        self.paused = self.referee.liveness.until
        self.figures: Counter[str] = Counter()
        self.noise = Noise(rng.choice((0.0, 0.0, 0.01, 0.05)), longest=lease)
        self.fleet = Fleet(world, self.store, self.plan, self.referee, self.noise)
        self.long_until = 0.0  # handlers started before then keep all workers busy
        self.healing = False
        self.replica: faults_store.Replica | None = None
        self.deploying = False
        self.restarting = 0.0  # until when instances are restarted all the time
        size = self._size(rng, shape.instances)
        self.hosts = [self._host(i) for i in range(size)][: shape.hosts]
        world.most_steps = MOST_STEPS * (1 + len(self.hosts) // 4)
        first = Version(1, self._jobs(rng)[: shape.jobs])
        self.versions = [first]
        self.version_of = dict.fromkeys(self.hosts, first)
        self.runs: dict[Instance, Version] = {}
        planned = self._plan_faults(rng, shape.kinds)
        self.controls = self._plan_orders(planned, shape.kinds)
        self.faults = [one for one in planned if shape.faults is None or one.number in shape.faults]
        if shape.seconds is not None:
            self.noise_seconds = shape.seconds

    # --- what a seed draws ---

    def _settings(self, rng: Random) -> Settings:
        lease, heartbeat = rng.choice(LEASES)
        drawn = settings(lease, heartbeat, rng.choice((1, 2, 3, 4)))
        # Some have one winner per slot and a history, and nothing else.
        return drawn._replace(leases=rng.random() >= 0.06)

    def _size(self, rng: Random, most: int) -> int:
        """Draw how many instances there are: mostly few, where races are; sometimes many."""
        few = rng.choice((1, 2, 2, 3, 4))
        share, size = rng.random(), rng.random()
        if most <= 4 or share >= LARGE:
            return min(few, most)
        return round(exp(log(5) + size * (log(most) - log(5))))

    def _jobs(self, rng: Random) -> list[Live]:
        names = [f"j{i}" for i in range(rng.choice((1, 2, 3, 4, 5, 6)))]
        lease, lasting = self.settings.lease, rng.choice((1, 3, 5))
        jobs = [Live(name, self.world.stream(name), lease) for name in names]
        return [live.lasting(rng, lease) for live in jobs[:lasting]] + jobs[lasting:]

    def _plan_faults(self, rng: Random, kinds: tuple[str, ...] | None) -> list[Fault]:
        """Draw when what goes wrong; much of it ends attempts."""
        self.noise_seconds = rng.uniform(30.0, 30.0 + 6 * self.settings.lease)
        drawn = kinds or kinds_of(self.world.seed)
        mean = rng.choice((0.5, 0.8, 1.2))  # seconds between two faults
        deadly = 0.0 if kinds else rng.choice((0.2, 0.4, 0.6))
        planned: list[Fault] = []
        rng, at = self.world.stream("faults"), 0.0
        while (at := at + rng.expovariate(1 / mean)) < self.noise_seconds:
            kind = rng.choice(DEADLY if rng.random() < deadly else drawn)
            planned.append(Fault(len(planned), at, kind))
        return planned

    def _plan_orders(
        self, planned: list[Fault], kinds: tuple[str, ...] | None
    ) -> tuple[float | None, ...]:
        """Draw when the fleet is asked for runs, and who looks for that how often.

        From randomness of their own, so that all else is as it is without them.
        """
        rng = self.world.stream("orders")
        if not set(ORDERS).intersection(kinds or ORDERS) or (
            kinds is None and rng.random() >= ORDERING
        ):
            return (None,)
        at = 0.0
        while kinds is None and (at := at + rng.expovariate(1 / 4.0)) < self.noise_seconds:
            planned.append(Fault(len(planned), at, rng.choice(ORDERS)))
        return (None, rng.choice((0.7, 2.0, 5.0)))

    @property
    def jobs(self) -> dict[str, Live]:
        """The jobs of the newest version."""
        return self.versions[-1].jobs

    def _host(self, number: int) -> Host:
        rng = self.world.stream(f"host {number}")
        return Host(
            self.world,
            offset=rng.uniform(-0.3, 0.3),
            drift=rng.uniform(-50e-6, 50e-6),
            wake=rng.choice((0.0002, 0.005, 0.02)),
            hop=rng.choice((0.0002, 0.02)),
            trip=rng.choice((0.0001, 0.001, 0.005, 0.02, 0.15)) / 2,
            rng=rng,
            name=f"h{number}",
        )

    def run(self) -> Scenario:
        """Run it all; raises `Violation`."""
        world = self.world
        for host in self.hosts:
            world.at(host.rng.choice((0.0, host.rng.uniform(0.0, 3.0))), self.start, host)
        for fault in self.faults:
            world.at(fault.at, self._fault, fault)
        world.run(self.noise_seconds)
        self._heal()
        longest = max(live.longest for version in self.versions for live in version.jobs.values())
        world.run(world.now + 3 * self.settings.lease + longest + TOGETHER)
        left = self.referee.liveness.unsettled()
        if left:
            world.fail("every-slot", f"never settled: {', '.join(left)}")
        self._stop_all()
        return self

    def counted(self) -> Counter[str]:
        """Return what happened, and how often."""
        also = Counter({"seeds": 1, "instances": len(self.fleet.instances)})
        also["events"] = self.world.steps
        also["virtual seconds"] = round(self.world.now)
        return self.figures + self.referee.ledger.figures + also

    # --- the fleet ---

    def start(self, host: Host) -> None:
        """Start an instance on this host, unless one is up."""
        if any(inst.host is host for inst in self.fleet.up()):
            return
        if self.store.down is not None or host.asleep:  # as `start(retry=True)` does
            self.world.after(0.5, self.start, host)
            return
        mine, version = self.settings, self.version_of[host]
        if self.mixed:
            lease, heartbeat = host.rng.choice(LEASES)
            mine = mine._replace(lease=lease, heartbeat=heartbeat)
        control = self.world.stream(f"control {host.name}").choice(self.controls)
        mine = mine._replace(control=control)
        lives = list(version.jobs.values())
        inst = self.fleet.start(host, mine)
        self.runs[inst] = version
        self.referee.defines(inst, lives)
        inst.begin([live.spec(mine) for live in lives])

    def next_version(self, rng: Random) -> Version:
        """Make another version of the jobs."""
        number, lease = len(self.versions) + 1, self.settings.lease
        version = self.versions[-1].next(number, rng, lease, self.periods_ms)
        self.versions.append(version)
        return version

    def plan(self, inst: Instance, action: StartRun) -> Plan:
        """Decide what a handler will do."""
        lease = action.lease
        rng = self.world.stream(f"{lease.key} {lease.attempt} {inst.token}")
        longest = self.runs[inst].jobs[lease.key.job].longest
        seconds = longest * rng.choice((0.0, 0.3, 1.0, 1.0, 1.0))
        if self.world.now < self.long_until:
            seconds = 1.5 * self.settings.lease
        return Plan(
            seconds,
            rng.random() < 0.15,
            rng.choice(("obey", "obey", "obey", "return", "raise", "ignore")),
            rng.choice((0.0, 0.01, 0.3)),
            rng.random() < 0.01,
        )

    # --- noise ---

    def _fault(self, fault: Fault) -> None:
        if self.healing:
            return
        happens = faults.KINDS[fault.kind](self, self.world.stream(f"fault {fault.number}"))
        self.figures[fault.kind] += happens
        self.referee.say("fault", fault.number, fault.kind, "" if happens else "(nothing to do)")

    def _heal(self) -> None:
        """End all noise; whoever is down comes back, so that all can be settled."""
        self.healing = True
        self.referee.say("healing")
        self.noise.rate = 0.0
        self.store.down = None
        self.long_until = 0.0
        faults_store.quicken(self)
        faults_store.promote(self)
        faults_store.resume(self, None)
        for name in {name for version in self.versions for name in version.jobs}:
            faults_store.resume(self, name)
        if abs(self.store.time.offset) > 0.5:
            faults_store.step_store(self, -self.store.time.offset)
        for host in self.hosts:
            host.slew(0.0)
            faults_store.set_host(self, host, host.rng.uniform(-0.2, 0.2))
        for inst in self.fleet.up():
            inst.keeper_delay = 0.0
            faults.resume_host(self, inst)
            faults_fleet.complete(self, inst)
        for host in self.hosts:
            self.start(host)

    def _stop_all(self) -> None:
        """Stop gracefully, together: each within its bound, and silent afterwards."""
        for inst in self.fleet.up():
            inst.stop(1.0)
        self.world.run(self.world.now + 1.0 + 2 * self.settings.heartbeat)


def kinds_of(seed: int) -> tuple[str, ...]:
    """Return the faults of a seed: four seeds in a row have all of them between them."""
    kinds = sorted(faults.KINDS.keys() - set(ORDERS))
    Random(seed // 4).shuffle(kinds)
    return tuple(kinds[seed % 4 :: 4])
