"""One noisy simulation from one seed: a small fleet, its jobs, and everything that may go wrong.

A seed chooses the settings, the jobs, what handlers do, and which kinds of faults happen how
often. After the noise everything is mended, and what was left open has to be settled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import faults
from .fleet import Fleet, Grid, Noise, job, settings
from .instance import Plan
from .referee import Referee
from .store import Store
from .world import Host, World

if TYPE_CHECKING:
    from anarchon._messages import (
        JobSpec,
        Settings,
        StartRun,
    )

    from .instance import Instance

LEASES = ((2.0, 0.5), (3.0, 1.0), (3.0, 0.6), (6.0, 2.0), (6.0, 1.0), (10.0, 2.0))
PERIODS_MS = (1000, 1000, 2000, 3000, 5000, 10_000, 20_000)
MOST_STEPS = 100_000  # few take a tenth of that
TOGETHER = 12.0  # after the noise: seconds beside what leases and handlers take


class Live:
    """One job of the fleet, as the referee knows it."""

    def __init__(self, scenario: Scenario, name: str) -> None:
        rng = scenario.world.rng
        self.name = name
        self.grid = Grid(rng.choice(PERIODS_MS), rng.choice((0, 0, 250)))
        self.catch_up = rng.choice((0.0, 5.0, 3600.0, 3600.0))
        self.budget = rng.choice((0, 1, 2, 3, 3))
        self.skip_overlap = rng.random() < 0.7
        self.jitter = rng.choice((0.0, 0.02, 0.02))
        self.timeout = rng.choice((None, None, None, None, 1.0, 4.0))
        lease = scenario.settings.lease
        self.longest = rng.choice((0.01, 0.3, 0.5 * lease, 1.5 * lease, 3 * lease))
        self._scenario = scenario

    def spec(self, settings: Settings) -> JobSpec:
        """Return the definition that every instance has, in the terms of its settings."""
        return job(
            self.name,
            self.grid,
            settings,
            budget=self.budget,
            skip_overlap=self.skip_overlap,
            catch_up=self.catch_up,
            jitter=self.jitter,
            timeout=self.timeout,
        )

    def paused(self) -> bool:
        """Whether a pause is on."""
        until = max(self._scenario.paused.get(None, 0), self._scenario.paused.get(self.name, 0))
        return self._scenario.store.time.wall_ms() < until


class Scenario:
    """Everything of one seed."""

    def __init__(self, seed: int, *, kinds: tuple[str, ...] | None = None) -> None:
        self.world = world = World(seed)
        world.most_steps = MOST_STEPS
        rng = world.rng
        lease, heartbeat = rng.choice(LEASES)
        self.settings = settings(lease, heartbeat, rng.choice((1, 2, 3, 4)))
        self.mixed = rng.random() < 0.15  # every instance has settings of its own
        if rng.random() < 0.08:  # one winner per slot and a history, and nothing else
            self.settings = self.settings._replace(leases=False)
        # A clock that steps makes runs without leases look old, which nothing can prevent.
        self.store = Store(world, steady=rng.random() < 0.6 or not self.settings.leases)
        self.store.time.offset = rng.uniform(-0.3, 0.3)
        self.referee = Referee(world, self.store, leases=self.settings.leases)
        self.noise = Noise(world, rng.choice((0.0, 0.0, 0.01, 0.05)), longest=lease)
        self.fleet = Fleet(world, self.store, self.plan, self.referee, self.noise)
        self.paused: dict[str | None, int] = {}
        self.long_until = 0.0  # handlers started before then keep all workers busy
        self.hosts = [self._host() for _ in range(rng.choice((1, 2, 2, 3, 4)))]
        self.jobs = {f"j{i}": Live(self, f"j{i}") for i in range(rng.choice((1, 2, 3, 5)))}
        self.referee.liveness.jobs = self.jobs
        self.noise_seconds = rng.uniform(20.0, 20.0 + 6 * lease)
        self.kinds = kinds or tuple(rng.sample(sorted(faults.KINDS), rng.randrange(1, 8)))
        self.mean = rng.choice((1.0, 2.0, 4.0, 8.0))  # seconds between two faults
        self.healing = False

    def _host(self) -> Host:
        rng = self.world.rng
        return Host(
            self.world,
            offset=rng.uniform(-0.3, 0.3),
            drift=rng.uniform(-50e-6, 50e-6),
            wake=rng.choice((0.0002, 0.005, 0.02)),
            hop=rng.choice((0.0002, 0.02)),
            trip=rng.choice((0.0001, 0.001, 0.005, 0.02, 0.15)) / 2,
        )

    def run(self) -> Scenario:
        """Run it all; raises `Violation`."""
        world = self.world
        for host in self.hosts:
            world.at(world.rng.choice((0.0, world.rng.uniform(0.0, 3.0))), self.start, host)
        world.after(world.rng.expovariate(1 / self.mean), self._fault)
        world.run(self.noise_seconds)
        self._heal()
        longest = max(live.longest for live in self.jobs.values())
        world.run(world.now + 3 * self.settings.lease + longest + TOGETHER)
        left = self.referee.liveness.unsettled()
        if left:
            world.fail("every-slot", f"never settled: {', '.join(left)}")
        self._stop_all()
        return self

    # --- the fleet ---

    def start(self, host: Host) -> None:
        """Start an instance on this host, unless one is up."""
        if any(inst.host is host for inst in self.fleet.up()):
            return
        if self.store.down is not None:  # as `start(retry=True)` does
            self.world.after(0.5, self.start, host)
            return
        mine = self.settings
        if self.mixed:
            lease, heartbeat = self.world.rng.choice(LEASES)
            mine = mine._replace(lease=lease, heartbeat=heartbeat)
        inst = self.fleet.start(host, mine, [live.spec(mine) for live in self.jobs.values()])
        seen = self.referee.seen[inst.token]
        seen.jobs.update(dict.fromkeys(self.jobs, self.world.now))

    def plan(self, inst: Instance, action: StartRun) -> Plan:
        """Decide what a handler will do."""
        rng = self.world.rng
        longest = self.jobs[action.lease.key.job].longest
        seconds = longest * rng.choice((0.0, 0.2, 1.0, 1.0))
        if self.world.now < self.long_until:
            seconds = 1.5 * self.settings.lease
        return Plan(
            seconds,
            rng.random() < 0.15,
            rng.choice(("obey", "obey", "return", "raise", "ignore")),
            rng.choice((0.0, 0.01, 0.3)),
            rng.random() < 0.01,
        )

    # --- noise ---

    def _fault(self) -> None:
        rng = self.world.rng
        if self.healing:
            return
        faults.KINDS[rng.choice(self.kinds)](self)
        self.world.after(rng.expovariate(1 / self.mean), self._fault)

    def _heal(self) -> None:
        """End all noise; whoever is down comes back, so that all can be settled."""
        self.healing = True
        self.noise.rate = 0.0
        self.store.down = None
        self.long_until = 0.0
        faults.resume(self, None)
        for name in self.jobs:
            faults.resume(self, name)
        if abs(self.store.time.offset) > 0.5:
            faults.step_store(self, -self.store.time.offset)
        for host in self.hosts:
            faults.set_host(self, host, self.world.rng.uniform(-0.2, 0.2))
        for inst in self.fleet.up():
            inst.keeper_delay = 0.0
            if inst.frozen:
                inst.wake()
            faults.complete(self, inst)
        for host in self.hosts:
            self.start(host)

    def _stop_all(self) -> None:
        """Stop gracefully, together: each within its bound, and silent afterwards."""
        for inst in self.fleet.up():
            inst.stop(1.0)
        self.world.run(self.world.now + 1.0 + 2 * self.settings.heartbeat)
        for inst in self.fleet.up():
            self.world.fail("stop-bound", f"{inst} has not stopped")
