"""Assertions about jobs: when they are due, and that they ran. They say what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._durations import check_askable, shown
from ._instants import instant_ms
from ._testing_run_job import is_due, neighbours, not_due, told
from ._values import instant
from .contrib._found import checked
from .errors import ConfigurationError
from .schedules import slot_source

if TYPE_CHECKING:
    from datetime import datetime

    from ._runs import Run
    from ._testing_context import Moment
    from .jobs import Job
    from .scheduler import Scheduler

_PAGE = 100
_SHOWN = 5
_MOST_SLOTS = 10_000


def assert_due(scheduler: Scheduler, name: str, slot: Moment) -> None:
    """Assert that a job's schedule has this slot. No store is asked, and no time passes.

    Args:
        scheduler: Where the job is defined; it needn't run.
        name: The job.
        slot: An aware datetime, milliseconds since 1970 UTC, or text with an offset.

    Raises:
        AssertionError: It has not; the message names the slots before and after.
        JobNotFound: There is no job of this name.
        ConfigurationError: The slot is no instant.
    """
    __tracebackhide__ = True
    job, slot_ms = _job(scheduler, name, "assert_due()"), instant_ms(slot, "slot")
    if not is_due(job, slot_ms):
        raise AssertionError(not_due(job, slot_ms))


def assert_due_between(
    scheduler: Scheduler, name: str, start: Moment, end: Moment, *, times: int | None = None
) -> list[datetime]:
    """Assert that a job has slots from `start` on and before `end`; return them, in UTC.

    Args:
        scheduler: Where the job is defined; it needn't run.
        name: The job.
        start: An aware datetime, milliseconds since 1970 UTC, or text with an offset.
        end: The same, and later; a slot at this very instant doesn't count.
        times: How many there should be, 0 for none; None for at least one.

    Raises:
        AssertionError: It has none, or another number of them; the message has those that it has.
        JobNotFound: There is no job of this name.
        ConfigurationError: One of them is no instant, the end is not later, or there are more than
            10,000 slots between them.
    """
    __tracebackhide__ = True
    job = _job(scheduler, name, "assert_due_between()")
    first, last = instant_ms(start, "start"), instant_ms(end, "end")
    if last <= first:
        raise ConfigurationError(f"end: {told(last)} is not later than the start, {told(first)}")
    _check_times(times)
    slots = _slots(job, first, last)
    if slots if times is None else len(slots) == times:
        return [instant(slot) for slot in slots]
    span = f"from {told(first)} to {told(last)}"
    if not slots:
        expected = "" if times is None else f", and should be {_count(times)}"
        raise AssertionError(
            f"job {job.name!r} is not due {span}{expected}: {neighbours(job, first, last - 1)}"
        )
    assert times is not None
    raise AssertionError(
        f"job {job.name!r} is due {_count(len(slots))} {span}, not {_count(times)}:"
        f" {_listed([told(slot) for slot in slots], ', ')}"
    )


def assert_ran_once(scheduler: Scheduler, name: str, slot: Moment) -> Run:
    """Assert that a slot was run successfully, once; return the record of that attempt.

    Attempts that failed or were broken off don't count, nor do manual runs. The scheduler's store
    is asked, whether it runs or not.

    Args:
        scheduler: Where the job is defined.
        name: The job.
        slot: An aware datetime, milliseconds since 1970 UTC, or text with an offset.

    Raises:
        AssertionError: It was not, or more than once; the message has what history has.
        JobNotFound: There is no job of this name.
        ConfigurationError: The slot is no instant.
        BackendUnavailable: The store can't be reached.
    """
    __tracebackhide__ = True
    job, slot_ms = _job(scheduler, name, "assert_ran_once()"), instant_ms(slot, "slot")
    history = _history(scheduler, job.name)
    attempts = [run for run in history if run.slot == slot_ms and not run.manual]
    done = [run for run in attempts if run.status == "success"]
    if len(done) == 1:
        return done[0]
    what = f"job {job.name!r} @ {told(slot_ms)}"
    if done:
        raise AssertionError(f"{what}: it ran {_count(len(done))}, not once:{_lines(done)}")
    if attempts:
        raise AssertionError(f"{what}: no attempt is a success:{_lines(attempts)}")
    raise AssertionError(f"{what}: it did not run; {_why(job, slot_ms, history)}")


def _why(job: Job, slot_ms: int, history: list[Run]) -> str:
    """Return what there is to be said about a slot of which history has nothing."""
    if not is_due(job, slot_ms):
        return not_due(job, slot_ms)
    if not history:
        return "the history of the job is empty"
    oldest = min(run.slot for run in history)
    trimmed = f", or was trimmed: history begins at {told(oldest)}" if oldest > slot_ms else ""
    return f"the slot is not in history{trimmed}; that has:{_lines(history)}"


def _job(scheduler: Scheduler, name: str, what: str) -> Job:
    return checked(scheduler, what)._registry.get(name)  # noqa: SLF001 - of this package


def _check_times(times: object) -> None:
    check_askable(times, "times")
    if times is None or (isinstance(times, int) and not isinstance(times, bool) and times >= 0):
        return
    raise ConfigurationError(f"times: {shown(times)} is no number of slots; give one, or None")


def _slots(job: Job, first: int, last: int) -> list[int]:
    source, found = slot_source(job.schedule), []
    slot = source.next_after_ms(first - 1)
    while slot is not None and slot < last:
        found.append(slot)
        if len(found) > _MOST_SLOTS:
            raise ConfigurationError(
                f"job {job.name!r} has more than {_MOST_SLOTS} slots there; give a shorter time"
            )
        slot = source.next_after_ms(slot)
    return found


def _history(scheduler: Scheduler, name: str) -> list[Run]:
    found = page = scheduler.history(name, limit=_PAGE)
    while len(page) == _PAGE:
        page = scheduler.history(name, limit=_PAGE, before=page[-1])
        found = [*found, *page]
    return found


def _count(times: int) -> str:
    return {0: "never", 1: "once"}.get(times, f"{times} times")


def _lines(runs: list[Run]) -> str:
    return "\n    " + _listed([_line(run) for run in runs], "\n    ")


def _line(run: Run) -> str:
    return f"{run}: {run.error}" if run.error else str(run)


def _listed(texts: list[str], separator: str) -> str:
    more = [f"and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return separator.join([*texts[:_SHOWN], *more])
