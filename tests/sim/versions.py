"""The jobs of a noisy simulation, and the versions of them that deploys bring.

A version is what one release of a service defines. Two versions that differ in a job's
schedule, or in whether they have it, may run side by side for as long as a roll-out takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fleet import Grid, job

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from anarchon._messages import (
        JobSpec,
        Settings,
    )

PERIODS_MS = (1000, 1000, 1000, 2000, 2000, 3000, 5000, 10_000)


class Live:
    """One definition of a job."""

    def __init__(
        self, name: str, rng: Random, lease: float, periods_ms: tuple[int, ...] = PERIODS_MS
    ) -> None:
        self.name = name
        self.grid = Grid(rng.choice(periods_ms), rng.choice((0, 0, 250)))
        self.catch_up = rng.choice((0.0, 5.0, 3600.0, 3600.0))
        self.budget = rng.choice((0, 1, 2, 3, 5, 9))
        self.skip_overlap = rng.random() < 0.7
        self.jitter = rng.choice((0.0, 0.02, 0.02))
        self.timeout: float | None = rng.choice((None, None, None, None, 1.0, 4.0))
        self.longest = rng.choice((0.01, 0.3, 0.5 * lease, 1.5 * lease, 3 * lease, 6 * lease))

    def lasting(self, rng: Random, lease: float) -> Live:
        """Have its runs outlive their runners, so that there is something to take over."""
        self.budget = rng.choice((2, 3, 5, 9))
        self.longest = rng.choice((1.5, 3, 6)) * lease
        self.timeout = None
        return self

    def spec(self, settings: Settings) -> JobSpec:
        """Return the definition that an instance has, in the terms of its settings."""
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

    def with_schedule(self, period_ms: int, phase_ms: int) -> Live:
        """Return the same job on another schedule."""
        other = Live.__new__(Live)
        vars(other).update(vars(self))
        other.grid = Grid(period_ms, phase_ms)
        return other


class Version:
    """The jobs of one release, by name."""

    def __init__(self, number: int, jobs: Iterable[Live]) -> None:
        self.number = number
        self.jobs = {live.name: live for live in jobs}

    def next(self, number: int, rng: Random, lease: float, periods_ms: tuple[int, ...]) -> Version:
        """Return another release: a schedule changed, a job more, one fewer, or one renamed."""
        jobs = dict(self.jobs)
        changes = ("schedule", "schedule", "add", "remove", "rename")
        for change in rng.sample(changes, rng.choice((1, 1, 2))):
            live = jobs[rng.choice(sorted(jobs))]
            new = f"v{number}{live.name}"
            if change == "schedule":
                phase_ms = rng.choice((0, live.grid.phase_ms, 500))
                jobs[live.name] = live.with_schedule(rng.choice(periods_ms), phase_ms)
            elif change == "add":
                jobs[new] = Live(new, rng, lease, periods_ms)
            elif change == "rename":
                renamed = live.with_schedule(live.grid.period_ms, live.grid.phase_ms)
                renamed.name = new
                jobs[new] = renamed
                del jobs[live.name]
            elif len(jobs) > 1:
                del jobs[live.name]
        return Version(number, jobs.values())
