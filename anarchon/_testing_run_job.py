"""Running a job's handler in a test as a scheduler would, on the thread of the test."""

from __future__ import annotations

import contextvars
import os
from typing import TYPE_CHECKING

from ._durations import shown
from ._instants import instant_ms
from ._one_process import end_child
from ._runs import Run
from ._signal import _in_event_loop
from ._testing_context import ManualContext, make_context
from ._threads_handler import Attempt, _enter
from ._values import Lease, RunKey, instant, moment
from .contrib._found import checked
from .errors import ConfigurationError
from .schedules import slot_source

if TYPE_CHECKING:
    from ._testing_context import Moment
    from .jobs import Job
    from .scheduler import Scheduler


def run_job(
    scheduler: Scheduler,
    name: str,
    slot: Moment | None = None,
    *,
    context: ManualContext | None = None,
) -> Run:
    """Run a job's handler here and now, as the scheduler would, and return a record.

    Inside the scheduler's ``around``, in a fresh context of context variables, with a context if
    the handler takes one, and to the end if it is async. But on the thread of the caller, so that
    the handler sees what the test has open, such as a transaction. The scheduler needn't run; a
    job or a scheduler with ``enabled=False`` will do. Nothing is sent to a store, nothing is
    recorded, no listener is called, and the job's ``timeout`` doesn't count.

    Args:
        scheduler: Where the job is defined.
        name: The job.
        slot: When the run is due: a slot of the job's schedule, as an aware datetime, milliseconds
            since 1970 UTC, or text such as ``"2026-10-10T09:00Z"``. None for the latest one, or
            for the first where all are in the future.
        context: What `make_context` has made, to say more, and to look at afterwards. The slot,
            the data and the previous slot that it doesn't say are those of the job.

    Returns:
        The record of a success, as history would have it.

    Raises:
        Exception: What the handler raises, or `around`: also an `Aborted`, and what ends an async
            handler whose signal aborts, `asyncio.CancelledError`.
        JobNotFound: There is no job of this name.
        ConfigurationError: That is no slot of the job, or a context of another job.
        RuntimeError: An event loop is running on this thread, on which no scheduler runs jobs.
    """
    __tracebackhide__ = True  # a test's report shows the handler, not this
    job = checked(scheduler, "run_job()")._registry.get(name)  # noqa: SLF001 - of this package
    if _in_event_loop():
        raise RuntimeError(
            "run_job() was called where an event loop is running, and a job never runs in one of"
            " somebody else's: await asyncio.to_thread(run_job, ...)"
        )
    ctx = _context_of(scheduler, job, slot, context)
    key = RunKey(job.name, ctx.slot, os.urandom(8).hex() if ctx.manual else "")
    clock = scheduler._clock  # noqa: SLF001
    began, started_ms = ctx._clock.mono(), int(clock.wall() * 1000)  # noqa: SLF001
    around = scheduler._options.around  # noqa: SLF001
    lease, switch = Lease(key, ctx.attempt), ctx._switch  # noqa: SLF001
    _call(Attempt(lease, ctx, switch, job.handler, job.pass_context, around))
    took_ms = int((ctx._clock.mono() - began) * 1000)  # noqa: SLF001
    return Run(
        key.run_id,
        job.name,
        ctx.slot,
        ctx.scheduled_at,
        ctx.attempt,
        "success",
        reason=ctx.reason,
        manual=ctx.manual,
        instance_id=ctx.instance_id,
        started_at=instant(started_ms),
        finished_at=instant(started_ms + took_ms),
        duration_ms=took_ms,
    )


def _call(attempt: Attempt) -> None:
    """Call the handler; a child that it forks ends where the handler does."""
    __tracebackhide__ = True
    pid = os.getpid()
    attempt.switch.bind()
    try:
        contextvars.Context().run(_enter, attempt)
    except BaseException as error:
        if os.getpid() != pid:
            end_child(error)
        raise
    if os.getpid() != pid:
        end_child(None)


def _context_of(
    scheduler: Scheduler, job: Job, slot: Moment | None, given: ManualContext | None
) -> ManualContext:
    """Return the context of a run, checked against the job and filled up by it."""
    ctx = make_context() if given is None else given
    if not isinstance(ctx, ManualContext):
        raise ConfigurationError(
            f"run_job(context): {shown(given)} was not made by make_context(); give one that was"
        )
    if ctx.says("name") and ctx.name != job.name:
        raise ConfigurationError(
            f"run_job(context): it is a context of {ctx.name!r}, not of {job.name!r}; make one with"
            " that name, or without any"
        )
    if slot is not None and ctx.says("slot") and instant_ms(slot, "slot") != ctx.slot:
        raise ConfigurationError("run_job(): the slot and that of the context differ; give one")
    if ctx.says("slot"):
        slot = ctx.slot
    now_ms = int(scheduler._clock.wall() * 1000)  # noqa: SLF001
    if ctx.manual:
        slot_ms = now_ms if slot is None else instant_ms(slot, "slot")
    elif slot is None:
        slot_ms = _near(job, now_ms)
    else:
        slot_ms = instant_ms(slot, "slot")
        if not is_due(job, slot_ms):
            raise ConfigurationError(f"slot: {not_due(job, slot_ms)}")
    before = slot_source(job.schedule).latest_ms(slot_ms - 1)
    ctx.belongs_to(job.name, slot_ms, before, job.data)
    return ctx


def _near(job: Job, now_ms: int) -> int:
    source = slot_source(job.schedule)
    found = source.latest_ms(now_ms)
    found = source.next_after_ms(now_ms) if found is None else found
    if found is None:
        raise ConfigurationError(
            f"job {job.name!r}: its schedule {shown(job.schedule)} has no slot"
        )
    return found


def is_due(job: Job, slot_ms: int) -> bool:
    """Say whether a job's schedule has this slot."""
    return slot_source(job.schedule).latest_ms(slot_ms) == slot_ms


def not_due(job: Job, slot_ms: int) -> str:
    """Return the words for a time that is no slot of a job, with its slots around that."""
    return f"job {job.name!r} is not due at {told(slot_ms)}: {neighbours(job, slot_ms, slot_ms)}"


def neighbours(job: Job, first_ms: int, last_ms: int) -> str:
    """Return the words for the slots before one time, and after another."""
    source = slot_source(job.schedule)
    before, after = source.latest_ms(first_ms - 1), source.next_after_ms(last_ms)
    return (
        f"its schedule {shown(job.schedule)} has {told(before)} before that and {told(after)}"
        " after it"
    )


def told(slot_ms: int | None) -> str:
    """Return the text of a slot, or of there being none."""
    return "no slot" if slot_ms is None else moment(instant(slot_ms))
