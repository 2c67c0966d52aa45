"""A service's own scheduler in a test: in memory, and in a time that the test moves."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ._instants import instant_ms
from ._testing_clock import ManualClock
from ._values import instant
from .backends.memory import MemoryBackend
from .contrib._found import checked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ._testing_context import Moment
    from .jobs import Job
    from .scheduler import Scheduler


@contextmanager
def manual_time(
    scheduler: Scheduler,
    *,
    start: Moment | None = None,
    only: str | Iterable[str] | None = None,
    catch_up: bool = False,
) -> Iterator[ManualClock]:
    """Run a scheduler in a block, in memory and on a clock of its own, and yield the clock.

    For the scheduler of a service, which has another store: while the block runs it has an empty
    `MemoryBackend`, and starts also where it was made with ``enabled=False``. Afterwards it is
    stopped, and all is as before::

        with manual_time(scheduler, start="2026-10-10T09:30Z") as clock:
            clock.advance("3h")
            assert_ran_once(scheduler, "report", "2026-10-10T10:00Z")

    Args:
        scheduler: An idle scheduler.
        start: The wall time to begin with: an aware datetime, milliseconds since 1970 UTC, or text
            with an offset; default 2026-01-01 UTC.
        only: The name of the one job that is to run, or the names of several; None for all that
            are defined. What is defined in the block runs as well.
        catch_up: True to run also what was due before the start, as far as the ``catch_up`` of
            each job goes.

    Raises:
        RuntimeError: The scheduler isn't idle.
        JobNotFound: There is no job of a name in `only`.
        ConfigurationError: That is no scheduler, or no instant.
    """
    checked(scheduler, "manual_time()")
    clock = ManualClock() if start is None else ManualClock(instant(instant_ms(start, "start")))
    changes = _changes(scheduler, only, catch_up=catch_up)
    before, clock_before = scheduler._options, scheduler._clock  # noqa: SLF001 - of this package
    store = MemoryBackend()
    scheduler._options = before._replace(backend=store, enabled=True)  # noqa: SLF001
    try:
        clock.attach(scheduler)
        with _changed(scheduler, changes), scheduler:
            yield clock
    finally:
        scheduler._options, scheduler._clock = before, clock_before  # noqa: SLF001


def _changes(
    scheduler: Scheduler, only: str | Iterable[str] | None, *, catch_up: bool
) -> list[tuple[Job, Job]]:
    """Return the jobs that are others in the block, each with what it is there."""
    names = [only] if isinstance(only, str) else only
    registry = scheduler._registry  # noqa: SLF001 - of this package
    wanted = None if names is None else {registry.get(name).name for name in names}
    changes = []
    for job in registry.jobs:
        other = job if catch_up else replace(job, catch_up=0.0)
        if wanted is not None and job.name not in wanted:
            other = replace(other, enabled=False)
        changes.append((job, other))
    return changes


@contextmanager
def _changed(scheduler: Scheduler, changes: list[tuple[Job, Job]]) -> Iterator[None]:
    """Have these jobs changed in a block, and put back those that nobody else changed there."""
    registry = scheduler._registry  # noqa: SLF001 - of this package
    for _, other in changes:
        registry.add(other, replace=True)
    try:
        yield
    finally:
        for job, other in changes:
            if registry.find(job.name) is other:
                registry.add(job, replace=True)
