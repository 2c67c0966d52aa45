"""Prometheus: what a scheduler does, as metrics of the official client.

::

    from anarchon.contrib.prometheus import metrics

    metrics(scheduler)  # where the scheduler is made

Nothing is sent anywhere, and no port is opened: the metrics are in the client's registry, which
the service shows as it shows its own, for example with ``prometheus_client.make_wsgi_app()``.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from .._durations import check_askable, shown
from ..errors import ConfigurationError
from ._found import checked
from ._prometheus_families import DURATION, LATENESS, Bounds, client

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    from prometheus_client import CollectorRegistry

    from ..scheduler import Scheduler
    from ._prometheus_shared import SharedCollector, SharedMeter
    from ._prometheus_tally import Collector, Tally

    AnyCollector: TypeAlias = Collector | SharedCollector
    AnyMeter: TypeAlias = Tally | SharedMeter

__all__ = ["Metrics", "metrics"]

_PREFIX = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")

# The collectors of each registry by their prefixes; with files for several processes, of all.
_collectors: WeakKeyDictionary[Any, dict[str, AnyCollector]] = WeakKeyDictionary()
_shared: dict[str, SharedCollector] = {}
_changing = Lock()


def metrics(
    scheduler: Scheduler,
    *,
    registry: CollectorRegistry | None = None,
    prefix: str = "anarchon",
    name: str | None = None,
    lateness_buckets: Iterable[float] = LATENESS,
    duration_buckets: Iterable[float] = DURATION,
) -> Metrics:
    """Have a scheduler counted, and the counts in a registry of the client's.

    Called once for each scheduler, before or after its start; what it has run before the call
    isn't known. Counts go on when it is stopped and started again, and begin at 0 in a forked
    child. A job that is removed takes its series along.

    With ``PROMETHEUS_MULTIPROC_DIR`` the counts are in the client's files as well, a second
    late at most, and ``MultiProcessCollector`` sums up those of all processes.

    Args:
        scheduler: The scheduler.
        registry: The registry; None for ``prometheus_client.REGISTRY``.
        prefix: What the names of the metrics begin with.
        name: The label ``scheduler``, which keeps several schedulers apart; None for the
            namespace of the scheduler's store.
        lateness_buckets: The upper bounds of ``run_lateness_seconds``, in seconds.
        duration_buckets: The upper bounds of ``run_duration_seconds``, in seconds.

    Returns:
        What takes the metrics off again.

    Raises:
        ImportError: The client is missing; the message names the extra.
        ConfigurationError: An argument can't be meant, or the registry has metrics of these
            names already.

    Threads: any.
    """
    checked(scheduler, "metrics()")
    label = scheduler._options.backend.namespace if name is None else _checked_name(name)  # noqa: SLF001
    bounds = Bounds(
        _checked_bounds(lateness_buckets, "lateness_buckets"),
        _checked_bounds(duration_buckets, "duration_buckets"),
    )
    made = client()
    given = made.REGISTRY if registry is None else registry
    if not isinstance(given, made.CollectorRegistry):
        raise ConfigurationError(
            f"metrics(registry): {shown(given)} is no registry; give a CollectorRegistry of"
            " prometheus_client, or None for its own"
        )
    with _changing:
        collector = _collector(given, _checked_prefix(prefix), bounds)
        _refuse_twin(collector, scheduler, label)
        meter = collector.meter(scheduler, label)
    scheduler._measures.meters.append(meter)  # noqa: SLF001 - of this package
    if scheduler.state != "idle":
        meter.begin()
    return Metrics(collector, meter, given)


class Metrics:
    """The metrics of one scheduler in one registry, as `metrics` returns them."""

    def __init__(
        self, collector: AnyCollector, meter: AnyMeter, registry: CollectorRegistry
    ) -> None:
        self._collector = collector
        self._meter = meter
        self._registry = registry

    def __repr__(self) -> str:
        return f"<Metrics {self._collector.prefix}_* of scheduler {self._meter.name!r}>"

    def close(self) -> None:
        """Take the metrics of this scheduler off the registry; harmless when that was done.

        With files for several processes, what is in them stays there.
        """
        with _changing:
            collector, meter = self._collector, self._meter
            meters: list[Any] = collector.meters
            if meter not in meters:
                return
            meter.scheduler._measures.meters.remove(meter)  # noqa: SLF001 - of this package
            collector.leave(meter)  # type: ignore[arg-type]
            if not meters:
                self._registry.unregister(collector)
                _collectors[self._registry].pop(collector.prefix)


def _collector(registry: Any, prefix: str, bounds: Bounds) -> AnyCollector:
    """Return the collector of this prefix, made and registered where there is none."""
    known = _collectors.setdefault(registry, {})
    collector = known.get(prefix)
    if collector is None:
        collector = _made(prefix, bounds)
    if collector.bounds != bounds:
        raise ConfigurationError(
            f"metrics(): another scheduler has the prefix {prefix!r} with other buckets, and one"
            " metric has one set of them; give the same, or another prefix"
        )
    if prefix not in known:
        try:
            registry.register(collector)
        except ValueError as error:
            raise ConfigurationError(
                f"metrics(prefix={prefix!r}): the registry has metrics of these names already"
                f" ({error}); give another prefix"
            ) from error
        known[prefix] = collector
    return collector


def _made(prefix: str, bounds: Bounds) -> AnyCollector:
    from prometheus_client import values

    # The client chose when it was imported, and what it chose is what counts.
    if not getattr(values.ValueClass, "_multiprocess", False):
        from ._prometheus_tally import Collector

        return Collector(prefix, bounds)
    if prefix not in _shared:
        from ._prometheus_shared import SharedCollector

        # Metrics that were made twice would write over each other in one file.
        _shared[prefix] = SharedCollector(prefix, bounds)
    return _shared[prefix]


def _refuse_twin(collector: AnyCollector, scheduler: Scheduler, name: str) -> None:
    meters: tuple[AnyMeter, ...] = tuple(collector.meters)
    if any(meter.scheduler is scheduler for meter in meters):
        raise ConfigurationError(
            f"metrics(): this scheduler has metrics with the prefix {collector.prefix!r} already;"
            " call it once"
        )
    if any(meter.name == name for meter in meters):
        raise ConfigurationError(
            f"metrics(): another scheduler has metrics of the name {name!r} already; give this one"
            ' a name of its own, as in metrics(scheduler, name="reports")'
        )


def _checked_name(name: object) -> str:
    check_askable(name, "metrics(name)")
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"metrics(name): {shown(name)} is no name; give some text")
    return str.__str__(name)


def _checked_prefix(prefix: object) -> str:
    check_askable(prefix, "metrics(prefix)")
    if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
        raise ConfigurationError(
            f"metrics(prefix): {shown(prefix)} can't begin the name of a metric; give letters,"
            ' digits and underscores, such as "anarchon"'
        )
    return str.__str__(prefix)


def _checked_bounds(given: Iterable[float], what: str) -> tuple[float, ...]:
    check_askable(given, f"metrics({what})")
    try:
        bounds = tuple(map(float, given))
    except (TypeError, ValueError):
        bounds = ()
    if bounds and bounds[-1] == math.inf:
        bounds = bounds[:-1]
    rising = all(low < high for low, high in pairwise(bounds))
    if not bounds or not rising or not all(0 < bound < math.inf for bound in bounds):
        raise ConfigurationError(
            f"metrics({what}): {shown(given)} are no buckets; give numbers of seconds above 0 that"
            " grow, such as (0.1, 1, 10)"
        )
    return bounds
