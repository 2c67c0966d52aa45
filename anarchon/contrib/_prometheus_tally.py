"""Metrics of one process: plain numbers, counted as runs begin and end, read when scraped."""

from __future__ import annotations

import os
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ._prometheus_families import (
    FAMILIES,
    FIRST_ENDS,
    FIRST_STARTS,
    Buckets,
    gauges,
    told_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .._runs import Run
    from .._values import RunEvent
    from ..scheduler import Scheduler
    from ._prometheus_families import Bounds


class JobTally:
    """What is counted of one job."""

    __slots__ = ("duration", "ends", "lateness", "starts", "succeeded_at")

    def __init__(self, bounds: Bounds) -> None:
        self.starts = dict.fromkeys(FIRST_STARTS, 0)
        self.ends = dict.fromkeys(FIRST_ENDS, 0)
        self.lateness = Buckets(bounds.lateness)
        self.duration = Buckets(bounds.duration)
        self.succeeded_at: float | None = None


class Tally:
    """Counts the runs of one scheduler.

    Threads: the scheduler's counts, any reads. Each dict is copied in one step before it is
    gone through, so neither waits for the other, and no lock is there to be held at a fork.
    """

    def __init__(self, scheduler: Scheduler, name: str, bounds: Bounds) -> None:
        self.scheduler = scheduler
        self.name = name
        self._bounds = bounds
        self._pid = os.getpid()
        self._jobs: dict[str, JobTally] = {}

    def begin(self) -> None:
        """Begin at 0 in a forked child: the parent counts what it has run itself."""
        if self._pid != os.getpid():
            self._jobs = {}
            self._pid = os.getpid()

    def end(self) -> None:
        """Keep all counts: they go on when the scheduler is started again."""

    def run(self, event: RunEvent, run: Run) -> None:
        """Count an event."""
        told = told_of(event, run)
        if told is None:
            return
        job = self._jobs.get(told.job) or self._met(told.job)
        if told.status is None:
            job.starts[told.reason] = job.starts.get(told.reason, 0) + 1
            if told.seconds is not None:
                job.lateness.observe(told.seconds)
            return
        end = (told.status, told.reason)
        job.ends[end] = job.ends.get(end, 0) + 1
        if told.seconds is not None:
            job.duration.observe(told.seconds)
        if told.succeeded_at is not None:
            job.succeeded_at = max(told.succeeded_at, job.succeeded_at or 0.0)

    def jobs(self) -> list[tuple[str, JobTally]]:
        """Return the counts of the jobs that are defined now; those of others are forgotten."""
        self.begin()
        defined = [job.name for job in self.scheduler.jobs]
        for gone in self._jobs.copy().keys() - set(defined):
            self._jobs.pop(gone, None)
        return [(name, self._counts_of(name)) for name in defined]

    def _met(self, name: str) -> JobTally:
        """Return the counts of a job that has none yet, perhaps because it was removed."""
        if len(self._jobs) >= len(self.scheduler.jobs):  # nobody scrapes, and jobs come and go
            self.jobs()
        return self._counts_of(name)

    def _counts_of(self, name: str) -> JobTally:
        return self._jobs.get(name) or self._jobs.setdefault(name, JobTally(self._bounds))


class Collector:
    """What a registry asks: the metrics of all schedulers that share a prefix in it."""

    def __init__(self, prefix: str, bounds: Bounds) -> None:
        self.prefix = prefix
        self.bounds = bounds
        self.meters: list[Tally] = []

    def meter(self, scheduler: Scheduler, name: str) -> Tally:
        """Return what counts along with a scheduler."""
        tally = Tally(scheduler, name, self.bounds)
        self.meters.append(tally)
        return tally

    def leave(self, tally: Tally) -> None:
        """Show a scheduler no longer."""
        self.meters.remove(tally)

    def describe(self) -> Iterable[Any]:
        """Return the metrics without values, so that a registry notices names that clash."""
        return self._empty().values()

    def collect(self) -> Iterable[Any]:
        """Return the metrics with the values of this moment."""
        families = self._empty()
        for tally in tuple(self.meters):
            jobs = tally.jobs()
            for name, labels, value in _samples(tally, jobs):
                families[name].add_metric((tally.name, *labels), value)
            for name, labels, buckets in _histograms(jobs):
                families[name].add_metric((tally.name, *labels), *_cumulated(buckets))
        return families.values()

    def _empty(self) -> dict[str, Any]:
        from prometheus_client import core

        made = {
            "counter": core.CounterMetricFamily,
            "gauge": core.GaugeMetricFamily,
            "histogram": core.HistogramMetricFamily,
        }
        return {
            family.name: made[family.kind](
                f"{self.prefix}_{family.name}", family.help, labels=("scheduler", *family.labels)
            )
            for family in FAMILIES
        }


def _samples(
    tally: Tally, jobs: Iterable[tuple[str, JobTally]]
) -> Iterator[tuple[str, tuple[str, ...], float]]:
    for job, counts in jobs:
        for reason, number in counts.starts.copy().items():
            yield "run_starts", (job, reason), number
        for (status, why), number in counts.ends.copy().items():
            yield "runs", (job, status, why), number
        if counts.succeeded_at is not None:
            yield "last_success_timestamp_seconds", (job,), counts.succeeded_at
    store = tally.scheduler._measures.store()  # noqa: SLF001 - of this package
    for operation, number in store.calls.items():
        yield "store_calls", (operation,), number
    for operation, number in store.errors.items():
        yield "store_errors", (operation,), number
    for name, value in gauges(tally.scheduler.health()):
        yield name, (), value


def _histograms(
    jobs: Iterable[tuple[str, JobTally]],
) -> Iterator[tuple[str, tuple[str, ...], Buckets]]:
    for job, counts in jobs:
        for name, buckets in (
            ("run_lateness_seconds", counts.lateness),
            ("run_duration_seconds", counts.duration),
        ):
            if any(buckets.counts):
                yield name, (job,), buckets


def _cumulated(buckets: Buckets) -> tuple[list[tuple[str, float]], float]:
    """Return a histogram as the client wants it: each bucket with all below it, and the sum."""
    total = buckets.total
    bounds = [*map(str, buckets.bounds), "+Inf"]
    return list(zip(bounds, accumulate(buckets.counts.copy()), strict=True)), total
