"""Metrics of several processes, as under gunicorn: in files that any of them reads when scraped.

There (`PROMETHEUS_MULTIPROC_DIR`) only the client's own metrics count. Each of their values has
a lock that any thread of the service may hold, and writing may have to wait for a disk. So it is
left to a thread of its own, and the scheduler's threads wait for nothing.
"""

from __future__ import annotations

import os
from collections import deque
from itertools import chain
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from .. import _log_lines as lines
from ._prometheus_families import FAMILIES, FIRST_ENDS, FIRST_STARTS, client, gauges, told_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .._runs import Run
    from .._values import RunEvent
    from ..scheduler import Scheduler
    from ._prometheus_families import Bounds, Told

PERIOD = 1.0  # seconds between two writings, and so what a process that is killed loses
END = 1.0  # seconds that a stop waits for the last one


class SharedMeter:
    """Writes what one scheduler does into the files of this process, a moment later.

    Threads: `begin` and `end` any, `run` the scheduler's; the rest belongs to the writer.
    """

    def __init__(self, metrics: dict[str, Any], scheduler: Scheduler, name: str) -> None:
        self.scheduler = scheduler
        self.name = name
        self._metrics = metrics
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._told: deque[Told] = deque()
        self._known: set[str] = set()
        self._counted: dict[tuple[str, str], int] = {}
        self._failing = False
        self._lock = Lock()
        self._bell: SimpleQueue[bool] = SimpleQueue()
        self._thread: Thread | None = None

    def begin(self) -> None:
        """Write from now on; in a forked child, into files of its own."""
        if self._pid != os.getpid():
            self._renew()
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._bell = SimpleQueue()
                self._thread = Thread(
                    target=self._keep_writing,
                    args=[self._bell],
                    name="anarchon-metrics",
                    daemon=True,
                )
                self._thread.start()

    def run(self, event: RunEvent, run: Run) -> None:
        """Have an event counted."""
        if (told := told_of(event, run)) is not None:
            self._told.append(told)

    def end(self) -> None:
        """Write what is left, and wait for that for a moment."""
        thread = self._thread
        if thread is not None and self._pid == os.getpid():
            self._bell.put(True)
            thread.join(END)

    def _keep_writing(self, bell: SimpleQueue[bool]) -> None:
        over = False
        while not over:
            self._write()
            try:
                over = bell.get(timeout=PERIOD)
            except Empty:
                # Whoever began this may have come too late to be told of the end.
                over = self.scheduler.state == "idle"
        self._write()

    def _write(self) -> None:
        try:
            with self._lock:
                self._write_runs()
                self._write_store()
                for name, value in gauges(self.scheduler.health()):
                    self._of(name).set(value)
            self._failing = False
        except Exception as error:
            if not self._failing:
                self._failing = True
                logger = self.scheduler._options.logger  # noqa: SLF001 - of this package
                lines.write(lines.trouble("the metrics can't be written", error), logger)

    def _write_runs(self) -> None:
        for job in self.scheduler.jobs:
            self._meet(job.name)
        while self._told:
            told = self._told.popleft()
            self._meet(told.job)
            if told.status is None:
                self._of("run_starts", told.job, told.reason).inc()
            else:
                self._of("runs", told.job, told.status, told.reason).inc()
            if told.seconds is not None:
                name = "run_lateness_seconds" if told.status is None else "run_duration_seconds"
                self._of(name, told.job).observe(told.seconds)
            if told.succeeded_at is not None:
                self._of("last_success_timestamp_seconds", told.job).set(told.succeeded_at)

    def _meet(self, job: str) -> None:
        """Have the first series of a job there, at 0."""
        if job not in self._known:
            self._known.add(job)
            for reason in FIRST_STARTS:
                self._of("run_starts", job, reason)
            for status, why in FIRST_ENDS:
                self._of("runs", job, status, why)

    def _write_store(self) -> None:
        store = self.scheduler._measures.store()  # noqa: SLF001 - of this package
        for name, numbers in (("store_calls", store.calls), ("store_errors", store.errors)):
            for operation, number in numbers.items():
                before = self._counted.get((name, operation), 0)
                self._of(name, operation).inc(number - before)
                self._counted[name, operation] = number

    def _of(self, name: str, *labels: str) -> Any:
        return self._metrics[name].labels(self.name, *labels)


class SharedCollector:
    """The client's metrics for all schedulers that share a prefix.

    A registry that is asked for them gives the values of this process, as it does of all of
    the client's metrics in this mode; `MultiProcessCollector` gives those of all processes.
    """

    def __init__(self, prefix: str, bounds: Bounds) -> None:
        self.prefix = prefix
        self.bounds = bounds
        self.meters: list[SharedMeter] = []
        made = client()
        self._metrics: dict[str, Any] = {}
        buckets = {
            "run_lateness_seconds": bounds.lateness,
            "run_duration_seconds": bounds.duration,
        }
        for family in FAMILIES:
            about = (f"{prefix}_{family.name}", family.help, ("scheduler", *family.labels))
            if family.kind == "counter":
                metric = made.Counter(*about, registry=None)
            elif family.kind == "gauge":
                metric = made.Gauge(*about, registry=None, multiprocess_mode=family.several)
            else:
                metric = made.Histogram(*about, registry=None, buckets=buckets[family.name])
            self._metrics[family.name] = metric

    def meter(self, scheduler: Scheduler, name: str) -> SharedMeter:
        """Return what counts along with a scheduler."""
        meter = SharedMeter(self._metrics, scheduler, name)
        self.meters.append(meter)
        return meter

    def leave(self, meter: SharedMeter) -> None:
        """Count along no longer; what is in the files stays there."""
        self.meters.remove(meter)
        meter.end()

    def describe(self) -> Iterable[Any]:
        """Return the metrics without values."""
        return chain.from_iterable(metric.describe() for metric in self._metrics.values())

    def collect(self) -> Iterable[Any]:
        """Return the metrics with what this process has written."""
        return chain.from_iterable(metric.collect() for metric in self._metrics.values())
