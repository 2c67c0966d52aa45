"""OpenTelemetry: a span for each attempt, and metrics of the runs.

::

    from anarchon.contrib.opentelemetry import instrument

    instrument(scheduler)  # before scheduler.start()

The handler runs inside the span, so whatever it traces is below it. Attempts of one run, in
whichever processes, are in one trace, and each is linked to the one before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from ..scheduler import Scheduler

__all__ = ["instrument"]


def instrument(
    scheduler: Scheduler,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Trace and count what a scheduler runs, from its next start on.

    Spans are started on the handler's thread, outside of the scheduler's `around`. Metrics are
    recorded by listeners, when the store has the record.

    Args:
        scheduler: The scheduler, not started yet.
        tracer_provider: Who makes the spans; None for the global one, which may be set later.
        meter_provider: Who makes the metrics; None for the global one, which may be set later.

    Raises:
        ConfigurationError: That is no scheduler, it runs already, or it is instrumented already.
        ImportError: OpenTelemetry is missing; the message names the extra.
    """
    try:
        from ._opentelemetry_metrics import Metrics
        from ._opentelemetry_spans import Spans
    except ModuleNotFoundError as error:
        raise ImportError(
            "instrument() needs OpenTelemetry's API, which is not installed:"
            " pip install 'anarchon[opentelemetry]'"
        ) from error
    spans = Spans(scheduler, tracer_provider)
    Metrics(scheduler, meter_provider).attach()
    spans.attach()
