"""Fleets where nothing goes wrong, for counting: who wins, how late, by how many calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anarchon._messages import (
    Claim,
)

from .costs import size_of
from .fleet import Fleet, Grid, Monitor, job
from .instance import Plan
from .store import Store
from .world import Host, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from anarchon._messages import (
        JobSpec,
        Settings,
        StartRun,
        StoreCall,
    )

    from .instance import Handler, Instance

TRIPS = (0.0001, 0.001, 0.005)  # round trips of the mixed fleet, in seconds
WAKES = (0.0002, 0.005, 0.02)  # how late its timed waits end, at most
PERIOD_MS = 10_000


class Tally(Monitor):
    """Counts what the bounds speak of."""

    def __init__(self, world: World, store: Store) -> None:
        self._world = world
        self._store = store
        self.wins: dict[str, int] = {}  # of each instance, all together
        self.takes: dict[int, dict[str, int]] = {}  # of each slot: how many runs who won
        self.late_ms: list[int] = []
        self.starts_at: list[tuple[float, str]] = []
        self.ended_at: list[float] = []
        self.unfree = 0  # claims that were sent though no worker was free

    def joined(self, inst: Instance) -> None:
        """Count nothing yet for a new instance."""
        self.wins[inst.name] = 0

    def starts(self, inst: Instance, action: StartRun) -> None:
        """Count a win."""
        slot_ms = action.lease.key.slot_ms
        self.wins[inst.name] += 1
        take = self.takes.setdefault(slot_ms, {})
        take[inst.name] = take.get(inst.name, 0) + 1
        self.late_ms.append(self._store.time.wall_ms() - slot_ms)
        self.starts_at.append((self._world.now, inst.name))

    def ended(self, inst: Instance, handler: Handler) -> None:
        """Count the end of a handler."""
        self.ended_at.append(self._world.now)

    def sends(self, inst: Instance, call: StoreCall) -> None:
        """Check that a claim which may win something has a worker for it."""
        if isinstance(call, Claim) and call.wins and not inst.core.view().free_workers:
            self.unfree += 1

    def fair(self) -> float:
        """Return the most wins of an instance by the mean."""
        return max(self.wins.values()) * len(self.wins) / sum(self.wins.values())

    def percentile(self, share: float) -> int:
        """Return by how many milliseconds that share of the starts was late, at most."""
        return sorted(self.late_ms)[int(share * (len(self.late_ms) - 1))]

    def biggest_take(self) -> float:
        """Return the mean, over all slots, of the most runs that one instance won."""
        return sum(max(take.values()) for take in self.takes.values()) / len(self.takes)


class Calm:
    """A fleet of n instances with m jobs that are due together."""

    def __init__(
        self,
        seed: int,
        n: int,
        m: int,
        settings: Settings,
        *,
        seconds: float = 0.001,
        period_ms: int = PERIOD_MS,
        hosts: Callable[[World, int], list[Host]] | None = None,
        budget: int = 3,
    ) -> None:
        self.world = World(seed)
        self.store = Store(self.world)
        self.tally = Tally(self.world, self.store)
        self.fleet = Fleet(self.world, self.store, self._plan, self.tally)
        self._seconds = seconds
        self._grid = Grid(period_ms)
        self.specs: list[JobSpec] = [
            job(f"j{i}", self._grid, settings, budget=budget) for i in range(m)
        ]
        self.settings = settings
        for host in (hosts or mixed)(self.world, n):
            self.fleet.start(host, settings).begin(self.specs)

    def _plan(self, *_: object) -> Plan:
        """Every handler takes about as long as every other."""
        return Plan(self._seconds * self.world.rng.uniform(0.9, 1.1))

    def run(self, seconds: float) -> Calm:
        """Let some model time pass."""
        self.world.run(self.world.now + seconds)
        return self

    def settle_in(self, ticks: int) -> Calm:
        """Let instances hear of each other and the start be over; count from here on.

        Ends a second before a tick, when all work of the last one is done.
        """
        self.run((ticks + 1) * PERIOD_MS / 1000 - 1.0)
        self.count_from_here()
        return self

    def add(self, m: int) -> None:
        """Give all instances so many jobs more, from their next slot on."""
        first = len(self.specs)
        more = [
            job(f"j{i}", self._grid, self.settings, catch_up=0.0) for i in range(first, first + m)
        ]
        self.specs += more
        for inst in self.fleet.up():
            inst.add(*more)

    def count_from_here(self) -> None:
        """Forget what was counted up to now."""
        self.tally = self.fleet.monitor = Tally(self.world, self.store)
        for inst in self.fleet.up():
            self.tally.joined(inst)
        self.store.calls.clear()

    def calls(self, name: str) -> int:
        """Return how many calls of a kind the store has had."""
        return self.store.calls.get(name, 0)

    def kept(self) -> int:
        """Return the size of the largest core."""
        return max(size_of(inst.core) for inst in self.fleet.instances)


def mixed(world: World, n: int) -> list[Host]:
    """Return hosts with mixed networks, mixed wake-ups and clocks that differ by 2 ms."""
    rng = world.rng
    trips = [TRIPS[i % 3] for i in range(n)]
    wakes = [WAKES[i % 3] for i in range(n)]
    rng.shuffle(trips)
    rng.shuffle(wakes)
    return [
        Host(
            world,
            offset=rng.uniform(-0.002, 0.002),
            drift=rng.uniform(-20e-6, 20e-6),
            wake=wake,
            hop=0.0002,
            trip=trip / 2,
        )
        for trip, wake in zip(trips, wakes, strict=True)
    ]
