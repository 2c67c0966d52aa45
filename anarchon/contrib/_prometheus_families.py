"""The metrics by name, and what of a scheduler becomes which of their values."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Literal, TypeAlias

from .._named import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType

    from .._runs import Run
    from .._values import Reason, RunEvent, Status
    from ..health import Health

    Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
    Several: TypeAlias = Literal["all", "livemax", "livemin", "livesum", "max"]

# Instances of a fleet claim within milliseconds; a catch-up may be late by an hour.
LATENESS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
DURATION = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 1800.0, 3600.0)


class Bounds(NamedTuple):
    """The buckets of the two histograms, in seconds."""

    lateness: tuple[float, ...] = LATENESS
    duration: tuple[float, ...] = DURATION


class Family(NamedTuple):
    """One metric. `several` is what the client makes of a gauge of several processes."""

    kind: Kind
    name: str
    labels: tuple[str, ...]
    help: str
    several: Several = "all"


# `job` and `instance` are labels of what Prometheus scrapes, and it renames those of others.
JOB = "job_name"

FAMILIES = (
    Family(
        "counter",
        "run_starts",
        (JOB, "reason"),
        "Attempts at runs that were started here, by reason: scheduled, catch-up, takeover, or"
        " manual.",
    ),
    Family(
        "counter",
        "runs",
        (JOB, "status", "reason"),
        "Attempts at runs whose end was recorded here, by status: success, failed, interrupted,"
        " skipped, missed, lost.",
    ),
    Family(
        "histogram",
        "run_lateness_seconds",
        (JOB,),
        "How long after their slots runs were started, by schedule or as catch-ups.",
    ),
    Family(
        "histogram",
        "run_duration_seconds",
        (JOB,),
        "How long handlers took until they succeeded or failed.",
    ),
    Family(
        "gauge",
        "last_success_timestamp_seconds",
        (JOB,),
        "When the last run that succeeded here had ended, in seconds since 1970.",
        "max",
    ),
    Family(
        "counter",
        "store_calls",
        ("operation",),
        "Calls of the store by the scheduler, those that failed included.",
    ),
    Family(
        "counter",
        "store_errors",
        ("operation",),
        "Calls of the store by the scheduler that failed.",
    ),
    Family("gauge", "running_handlers", (), "Handlers that are running.", "livesum"),
    Family("gauge", "free_workers", (), "How many more handlers may run.", "livesum"),
    Family("gauge", "stuck_handlers", (), "Handlers that ignore their abort.", "livesum"),
    Family(
        "gauge",
        "heartbeat_delay_seconds",
        (),
        "By how much the last heartbeat was late, or the next one is.",
        "livemax",
    ),
    Family(
        "gauge",
        "clock_offset_seconds",
        (),
        "The store's clock minus that of this host.",
        "livemax",
    ),
    Family(
        "gauge",
        "store_up",
        (),
        "1 while the store answers, 0 while it does not; not there while the scheduler is idle.",
        "livemin",
    ),
    Family("gauge", "healthy", (), "1 while health().ok is true, else 0.", "livemin"),
)

# Series that are there from the beginning, at 0: what counts up from nothing without ever
# having been 0 is no increase for Prometheus, and the first failure would raise no alarm.
FIRST_STARTS: tuple[Reason, ...] = ("scheduled", "takeover")
FIRST_ENDS: tuple[tuple[Status, Reason], ...] = (
    ("success", "scheduled"),
    ("failed", "scheduled"),
    ("failed", "catch-up"),
    ("failed", "takeover"),
    ("failed", "manual"),
    ("interrupted", "scheduled"),
    ("skipped", "scheduled"),
    ("missed", "scheduled"),
    ("lost", "scheduled"),
    ("lost", "catch-up"),
    ("lost", "takeover"),
    ("lost", "manual"),
)


class Told(NamedTuple):
    """What a run event counts as. A start has no status; its seconds are how late it was."""

    job: str
    reason: Reason
    status: Status | None = None
    seconds: float | None = None
    succeeded_at: float | None = None


def told_of(event: RunEvent, run: Run) -> Told | None:
    """Return what an event counts as; None for ``takeover``, which is a start as well."""
    if event == "takeover":
        return None
    if event == "started":
        in_turn = run.reason in ("scheduled", "catch-up") and run.started_at is not None
        late = (run.started_at - run.scheduled_at).total_seconds() if in_turn else None  # type: ignore[operator]
        return Told(run.job, run.reason, None, None if late is None else max(0.0, late))
    took = None
    if run.status in ("success", "failed") and run.duration_ms is not None:
        took = run.duration_ms / 1000
    ended = run.finished_at if run.status == "success" else None
    at = None if ended is None else ended.timestamp()
    return Told(run.job, run.reason, run.status, took, at)


class Buckets:
    """The counts of one histogram. A value on a bound belongs below it."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


def gauges(health: Health) -> Iterator[tuple[str, float]]:
    """Yield the gauges of a scheduler by name, but for those that nobody can know now."""
    yield "running_handlers", health.running
    yield "free_workers", health.free_workers
    yield "stuck_handlers", health.stuck
    yield "heartbeat_delay_seconds", health.heartbeat_late
    if health.clock_offset is not None:
        yield "clock_offset_seconds", health.clock_offset
    if health.state != "idle":
        yield "store_up", float(health.store_up)
    yield "healthy", float(health.ok)


def client() -> ModuleType:
    """Import the client; the error names what to install."""
    try:
        import prometheus_client
    except ImportError as error:
        raise ImportError(
            "metrics() needs prometheus-client, which is not installed:"
            " pip install 'anarchon[prometheus]'"
        ) from error
    return prometheus_client


def names(families: Iterable[Family] = FAMILIES, *, prefix: str = "anarchon") -> list[str]:
    """Return the names of all samples, as they are queried."""
    ends = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
    return [f"{prefix}_{family.name}{end}" for family in families for end in ends[family.kind]]
