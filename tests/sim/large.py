"""A large fleet for a long time: every invariant, and what it costs to look."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .faults import KINDS
from .fleet import settings
from .scenario import Fault, Scenario
from .shape import Shape
from .sweep import closing
from .versions import Live
from .world import Violation

if TYPE_CHECKING:
    from random import Random

    from anarchon._messages import (
        Settings,
    )

MEAN = 30.0  # seconds between two faults
PROGRESS = 300.0  # virtual seconds between two lines
LEFT_OUT = {"restarts", "break_schedule"}  # of all instances at once, and of a job for ever


class Large(Scenario):
    """Three jobs a minute, of moments, of twenty seconds, and of longer than a lease."""

    periods_ms = (60_000,)

    def __init__(self, seed: int, instances: int, seconds: float) -> None:
        self._seconds = seconds
        super().__init__(seed, Shape(instances=instances))
        self.mixed = False
        self.noise.rate = 0.001
        self.referee.interval = 1.0
        self.world.most_steps *= 50

    def _settings(self, rng: Random) -> Settings:
        del rng
        return settings()

    def _size(self, rng: Random, most: int) -> int:
        del rng
        return most

    def _jobs(self, rng: Random) -> list[Live]:
        jobs = [Live(f"j{i}", rng, self.settings.lease, self.periods_ms) for i in range(3)]
        for live, seconds in zip(jobs, (0.1, 20.0, 100.0), strict=True):
            live.longest, live.timeout, live.budget = seconds, None, 3
        return jobs

    def _plan_faults(self, rng: Random, kinds: tuple[str, ...] | None) -> list[Fault]:
        del kinds
        self.noise_seconds, at = self._seconds, 0.0
        planned: list[Fault] = []
        while (at := at + rng.expovariate(1 / MEAN)) < self._seconds:
            planned.append(Fault(len(planned), at, rng.choice(sorted(KINDS.keys() - LEFT_OUT))))
        return planned


def large(instances: int, hours: float, seed: int = 0) -> int:
    """Simulate a large fleet, and tell of it; return how many violations there were."""
    began, cpu = time.perf_counter(), time.process_time()
    scenario = Large(seed, instances, hours * 3600)
    world = scenario.world

    def tell() -> None:
        spent = time.perf_counter() - began
        print(f"{world.now:.0f} virtual seconds, {world.steps:,} events, {spent:.0f} s", flush=True)
        world.after(PROGRESS, tell)

    world.after(PROGRESS, tell)
    text = ""
    try:
        scenario.run()
    except Violation as violation:
        text = str(violation)
    spent = time.process_time() - cpu
    print("\n".join(closing(scenario.counted(), spent, time.perf_counter() - began)))
    print(text or "every invariant held")
    return int(bool(text))
