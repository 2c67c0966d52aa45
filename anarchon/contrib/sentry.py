"""Sentry: failures with what is known of their runs, and check-ins for its cron monitors.

::

    import sentry_sdk
    from anarchon.contrib.sentry import report

    sentry_sdk.init(dsn="...")
    report(scheduler, monitors=["digest"])  # before scheduler.start()

It doesn't matter which of `sentry_sdk.init` and `report` comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..scheduler import Scheduler

__all__ = ["report"]


def report(
    scheduler: Scheduler,
    *,
    monitors: bool | Collection[str] | Mapping[str, Mapping[str, Any]] = False,
) -> None:
    """Report to Sentry what fails in a scheduler, from its next start on.

    Each failure is reported once, by the instance that recorded it. Each attempt runs in an
    isolation scope of its own, outside of the scheduler's `around`.

    Args:
        scheduler: The scheduler, not started yet.
        monitors: The names of the jobs that check in with a cron monitor; a mapping adds to the
            configuration of each (``checkin_margin``, ``max_runtime``, ``slug`` …). True for
            every job whose schedule Sentry understands: a cron expression of five fields, or an
            interval of whole minutes. A name that no job has is a warning in the log at the start.

    Raises:
        ConfigurationError: That is no scheduler, it runs already, or it is reported already; or
            `monitors` is none of these.
        ImportError: Sentry's SDK is missing; the message names the extra.
    """
    try:
        from ._sentry_reports import Reports
    except ModuleNotFoundError as error:
        raise ImportError(
            "report() needs Sentry's SDK, which is not installed: pip install 'anarchon[sentry]'"
        ) from error
    Reports(scheduler, monitors).attach()
