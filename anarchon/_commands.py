"""What the commands do, whoever offers them: anarchon's own, Flask's and Django's.

Each function answers with an `Answer`: rows as plain data, a text for people, JSON for
programs, and the exit status. Nothing here prints, and nothing needs click or rich.

The statuses are

- 0: done; of `run_now`, the run was a success;
- 1: it could not be done, or not now: the run was no success, the store can't be reached,
  too many manual runs are going on;
- 2: it can't be meant: there is no such job, an option is wrong, a package is missing.

A command that did not get as far as its rows has an `error` instead, in one line for stderr.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext, redirect_stdout
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ._commands_answers import (
    DONE,
    NOT_DONE,
    NOT_MEANT,
    Answer,
    answering,
    in_one_line,
    is_known,
    missing_file,
    refusal,
)
from ._commands_fleet import MOST_AT_ONCE, backfill, read_json, trigger
from ._commands_instances import instances
from ._commands_orders import cancel, pause, resume
from ._commands_rows import JobRow, SlotRow, history_table, jobs_table, run_text, slots_table
from ._commands_slots import explain, in_zone, zone_key
from ._listening import UNSET
from ._texts import counted, message_of
from .errors import BackendUnavailable, ConfigurationError, JobNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from ._runs import Run
    from ._values import Status
    from .backends._pauses import Pauses
    from .jobs import Job
    from .scheduler import Scheduler

__all__ = [
    "DONE",
    "MOST_AT_ONCE",
    "NOT_DONE",
    "NOT_MEANT",
    "Answer",
    "backfill",
    "cancel",
    "explain",
    "history",
    "instances",
    "jobs",
    "next_slots",
    "pause",
    "prints_aside",
    "refusal",
    "resume",
    "run",
    "run_now",
    "trigger",
]

_MOST_ASKED = 500  # jobs whose pauses one call asks for


@answering
def jobs(scheduler: Scheduler, *, zone: str | None = None) -> Answer:
    """List the jobs with their next slots and what is paused, in the order of definition.

    A store that can't be reached leaves open what is paused, and that is said.

    Args:
        scheduler: Whose jobs.
        zone: The key of a zone in which the slots are shown as well.
    """
    key = zone_key(zone)
    defined = scheduler.jobs
    pauses, problem = _pauses(scheduler, [job.name for job in defined])
    rows = tuple(_job_row(scheduler, job, pauses, key) for job in defined)
    every = None if pauses is None else pauses.every
    data: dict[str, Any] = {"all_paused": every, "jobs": [row.to_dict() for row in rows]}
    table = jobs_table(rows, _now(), key)
    if every:
        table = table.then("every job is paused")
    if problem:
        data["problem"] = problem
        table = table.then(f"what is paused is not known: {problem}")
    return Answer(DONE, table.text, data, rows, table=table)


@answering
def next_slots(scheduler: Scheduler, name: str, n: int = 5) -> Answer:
    """List the next `n` slots of a job (1 to 1000); asks no store."""
    slots = scheduler.next_slots(name, n)
    job = scheduler._registry.find(name)  # noqa: SLF001 - of this package
    zone = getattr(job and job.schedule, "timezone", None) or "UTC"
    rows = tuple(SlotRow(name, slot, zone) for slot in slots)
    data = {"job": name, "timezone": zone, "slots": [row.to_dict() for row in rows]}
    table = slots_table(rows, _now(), ended=len(slots) < n)
    return Answer(DONE, table.text, data, rows, table=table)


@answering
def history(
    scheduler: Scheduler,
    name: str | None = None,
    *,
    limit: int = 20,
    status: Status | None = None,
    zone: str | None = None,
) -> Answer:
    """List attempts of a job or of all, newest first, from the store.

    A job that is not defined here (any more) is listed as long as it has records.

    Args:
        scheduler: Whose store is asked; it needn't be running.
        name: The job; None for all.
        limit: At most so many, 1 to 1000.
        status: Only attempts with this status.
        zone: The key of a zone in which the slots are shown as well.
    """
    key = zone_key(zone)
    runs = tuple(scheduler.history(name, limit=limit, status=status))
    if not runs:
        is_known(scheduler, name)  # raises where it is misspelled
    data = {"runs": [in_zone(run.to_dict(), run.scheduled_at, key) for run in runs]}
    table = history_table(runs, key)
    note = "" if runs else missing_file(scheduler)
    return Answer(DONE, table.text, data, runs, table=table, note=note)


@answering
def run_now(scheduler: Scheduler, name: str, *, data_json: str | None = None) -> Answer:
    """Run a job now in this process, and wait until it has ended.

    If the scheduler is idle here, the process takes part in nothing else: no slot is
    claimed and no run taken over. SIGTERM and Ctrl-C interrupt the run, which is recorded.

    Args:
        scheduler: Where the job is defined.
        name: The job.
        data_json: What the handler finds as ``ctx.data``, as JSON; None for the job's own.
    """
    data = UNSET if data_json is None else read_json(data_json)
    if scheduler.state == "idle":
        run = _run_alone(scheduler, name, data)
    else:
        run = scheduler.run_now(name, data=data)
    status = DONE if run.status == "success" else NOT_DONE
    return Answer(status, run_text(run), run.to_dict(), (run,))


@answering
def run(
    scheduler: Scheduler,
    *,
    say: Callable[[str], object],
    tell: Callable[[Run], object] | None = None,
) -> Answer:
    """Be an instance in the foreground until SIGTERM or Ctrl-C; called in the main thread.

    A store that is down is waited for.

    Args:
        scheduler: What runs.
        say: Told, in one line each, how many jobs there are and how to end it, before it starts;
            and what is waited for: the store, or runs that don't end.
        tell: Told of each run that ends here, or is found missed or lost, on a thread of the
            scheduler's.
    """
    options = scheduler._options  # noqa: SLF001 - of this package
    if not options.enabled:
        raise ConfigurationError(
            "the scheduler has enabled=False, so nothing would run; set it to True where jobs are"
            " to run"
        )
    many = counted(len(scheduler.jobs), "job")
    say(f"{many} on {options.backend!r}; Ctrl-C or SIGTERM stops it")
    from ._commands_run import be_instance, listening

    with nullcontext() if tell is None else listening(scheduler, tell):
        be_instance(scheduler, say)
    return Answer(DONE)


def prints_aside(*, aside: bool) -> AbstractContextManager[object]:
    """Have what handlers print go to stderr in this block, where stdout is for JSON alone.

    `sys.stdout` is exchanged for the whole process, since handlers run on threads of the
    scheduler's. So whoever writes in the block takes hold of stdout before.
    """
    return _printing_to_stderr() if aside else nullcontext()


# --- inside ---


@contextmanager
def _printing_to_stderr() -> Iterator[None]:
    with redirect_stdout(sys.stderr) as aside:
        try:
            yield
        finally:
            if aside is not None:  # in a process without any output
                aside.flush()  # its buffer may be that of something that is read now


def _now() -> datetime:
    return datetime.now(UTC)


def _pauses(scheduler: Scheduler, names: list[str]) -> tuple[Pauses | None, str]:
    """Return which jobs are paused, and what is wrong where that isn't known."""
    from .backends._pauses import Pauses, pauses_in

    every, paused = False, set[str]()
    try:
        for first in range(0, len(names), _MOST_ASKED):
            part = names[first : first + _MOST_ASKED]
            found = scheduler._ask(lambda store, part=part: pauses_in(store, part))  # type: ignore[misc] # noqa: SLF001 - of this package
            if found is None:
                return None, "this store can't be asked"
            every, paused = found.every, paused | found.jobs
    except (BackendUnavailable, ImportError) as error:
        return None, in_one_line(error)
    return Pauses(every, frozenset(paused)), ""


def _job_row(scheduler: Scheduler, job: Job, pauses: Pauses | None, zone: str | None) -> JobRow:
    paused = None if pauses is None else pauses.every or job.name in pauses.jobs
    if not job.enabled:
        return JobRow(job, None, "disabled", paused, zone)
    try:
        slots = scheduler.next_slots(job.name, 1)
    except ConfigurationError as error:
        return JobRow(job, None, message_of(error), paused, zone)
    except JobNotFound:  # removed a moment ago
        slots = []
    if slots:
        return JobRow(job, slots[0], "", paused, zone)
    return JobRow(job, None, "no more slots", paused, zone)


def _run_alone(scheduler: Scheduler, name: str, data: Any) -> Run:
    from ._commands_alone import alone

    scheduler.next_slots(name, 1)  # raises JobNotFound with the nearest names
    job = scheduler._registry.get(name)  # noqa: SLF001 - of this package
    if not job.enabled:
        raise JobNotFound(
            f"job {name!r} is defined with enabled=False here, so it does not run; define it with"
            " enabled=True, or call its function"
        )
    with alone(scheduler, job) as made:
        made.install_signal_handlers()
        return made.run_now(name, data=data)
