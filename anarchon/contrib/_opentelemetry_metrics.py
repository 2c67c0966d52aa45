"""The metrics of runs, by OpenTelemetry's API: counted once each, by whoever recorded the run."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from opentelemetry import metrics
from opentelemetry.metrics import Observation

from .. import __version__
from ._watching import ENDS, Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider

    from .._runs import Run
    from ..scheduler import Scheduler

SCOPE = "anarchon"

# From a millisecond to an hour: OpenTelemetry's own buckets are made for milliseconds.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)


class Instruments:
    """The instruments, made once for each provider: schedulers of one process share them."""

    def __init__(self, meter: Meter) -> None:
        self.runs = meter.create_counter(
            "anarchon.runs", "{run}", "Attempts that ended and slots that nobody ran, by outcome."
        )
        self.duration = meter.create_histogram(
            "anarchon.run.duration",
            "s",
            "How long an attempt took.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self.lateness = meter.create_histogram(
            "anarchon.run.lateness",
            "s",
            "How long after its slot a first attempt started.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self.successes: dict[tuple[tuple[str, str], ...], float] = {}
        # Observed at each collection; a gauge that is set is exported once and then forgotten by
        # some versions of the SDK, which is too little for a job that runs each night.
        meter.create_observable_gauge(
            "anarchon.run.last_success",
            [self._last_success],
            "s",
            "When the job last succeeded in this process, in seconds since 1970.",
        )

    def _last_success(self, _: CallbackOptions) -> Iterator[Observation]:
        for attributes, moment in tuple(self.successes.items()):
            yield Observation(moment, dict(attributes))


_of_providers: WeakKeyDictionary[MeterProvider, Instruments] = WeakKeyDictionary()
_of_global: list[Instruments] = []


def instruments_of(provider: MeterProvider | None) -> Instruments:
    """Return the instruments of a provider; of the global one, where none is given."""
    if provider is None:
        # Those of the global provider work as soon as one is set.
        if not _of_global:
            _of_global.append(Instruments(metrics.get_meter(SCOPE, __version__)))
        return _of_global[0]
    if provider not in _of_providers:
        _of_providers[provider] = Instruments(provider.get_meter(SCOPE, __version__))
    return _of_providers[provider]


class Metrics(Watcher):
    """Counts the runs of a scheduler, on the thread of its listeners."""

    def __init__(self, scheduler: Scheduler, provider: MeterProvider | None) -> None:
        super().__init__(scheduler, "instrument()")
        self._instruments = instruments_of(provider)
        backend = scheduler._options.backend  # noqa: SLF001 - of this package
        self._namespace = str(getattr(backend, "namespace", ""))

    def attach(self) -> None:
        """Begin to listen."""
        self.watch({"started": self._started, **dict.fromkeys(ENDS, self._ended)}, None)

    def _attributes(self, run: Run) -> dict[str, str]:
        return {"anarchon.namespace": self._namespace, "anarchon.job.name": run.job}

    def _started(self, run: Run) -> None:
        # A later attempt is late for another reason: the first one took its time to die.
        if run.attempt > 1 or run.manual or run.started_at is None:
            return
        late = (run.started_at - run.scheduled_at).total_seconds()
        attributes = {**self._attributes(run), "anarchon.run.reason": run.reason}
        self._instruments.lateness.record(max(late, 0.0), attributes)

    def _ended(self, run: Run) -> None:
        plain = self._attributes(run)
        attributes = {**plain, "anarchon.run.outcome": run.status}
        self._instruments.runs.add(1, attributes)
        if run.duration_ms is not None:
            self._instruments.duration.record(run.duration_ms / 1000, attributes)
        if run.status == "success" and run.finished_at is not None:
            self._instruments.successes[tuple(plain.items())] = run.finished_at.timestamp()
