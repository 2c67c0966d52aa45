"""What the pages of the admin show: jobs and runs as rows, read from scheduler and store."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, get_args

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..._durations import shown
from ..._named import NamedTuple
from ..._runs import Run
from ..._texts import message_of
from ..._values import Status, instant
from ...backends._pauses import pauses_in
from ...errors import AnarchonError, ConfigurationError, JobNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from ...backends._pauses import Pauses
    from ...jobs import Job
    from ...scheduler import Scheduler

PAGE = 50  # runs
JOBS = 50
STATUSES: tuple[Status, ...] = get_args(Status)

_STATUS_WORDS = {
    "running": gettext_lazy("running"),
    "success": gettext_lazy("success"),
    "failed": gettext_lazy("failed"),
    "interrupted": gettext_lazy("interrupted"),
    "skipped": gettext_lazy("skipped"),
    "missed": gettext_lazy("missed"),
    "lost": gettext_lazy("lost"),
}
_REASON_WORDS = {
    "scheduled": gettext_lazy("scheduled"),
    "manual": gettext_lazy("manual"),
    "catch-up": gettext_lazy("catch-up"),
    "takeover": gettext_lazy("takeover"),
}


class JobLine(NamedTuple):
    """A job in the list. `paused` is None where the store can't say."""

    job: Job
    words: str
    next_slot: datetime | None
    remark: str
    last: RunLine | None
    paused: bool | None


class RunLine(NamedTuple):
    """A run in the list, with its times in the current zone."""

    run: Run
    key: str
    status: str
    reason: str
    due: datetime
    started: datetime | None
    finished: datetime | None


class Asked(NamedTuple):
    """What the pages got out of the store, and in words why not."""

    lines: list[Any]
    trouble: str | None


def local_time(moment: datetime) -> datetime:
    """Return an instant in the current zone; without TIME_ZONE, which Django allows, the host's."""
    zone = None
    with suppress(Exception):  # whatever it says of such a name
        zone = timezone.get_current_timezone()
    try:
        return moment.astimezone(zone)
    except OverflowError:  # at the ends of the calendar
        return moment


# --- jobs ---------------------------------------------------------------------------


def job_lines(scheduler: Scheduler, start: int = 0) -> Asked:
    """Return the jobs from a number on, at most `JOBS`; of a store that is down, without facts."""
    jobs = scheduler.jobs[start : start + JOBS]
    trouble: str | None = None
    pauses: Pauses | None = None
    last: dict[str, Run | None] = {}
    try:
        pauses = pauses_of(scheduler, *(job.name for job in jobs))
        last = {job.name: scheduler.last_run(job.name) for job in jobs}
    except AnarchonError as error:
        trouble = message_of(error)
    return Asked([_job_line(scheduler, job, pauses, last.get(job.name)) for job in jobs], trouble)


def _job_line(scheduler: Scheduler, job: Job, pauses: Pauses | None, last: Run | None) -> JobLine:
    slot, remark = _next_slot(scheduler, job)
    paused = None if pauses is None else pauses.every or job.name in pauses.jobs
    line = None if last is None else run_line(last)
    return JobLine(job, words_of(job), slot, remark, line, paused)


def pauses_of(scheduler: Scheduler, *names: str) -> Pauses | None:
    """Return which of these jobs are paused, and if all are; None for a store that can't say.

    Raises:
        AnarchonError: The store can't be asked.
    """
    return pauses_in(scheduler._options.backend, names)  # noqa: SLF001 - of this package


def words_of(job: Job) -> str:
    """Return the schedule in words, as far as it has any."""
    describe: Callable[[], str] | None = getattr(job.schedule, "describe", None)
    if describe is not None:
        # The package for the words of cron expressions may be missing; a schedule may be anything.
        with suppress(Exception):
            return str(describe())
    return shown(job.schedule)


def _next_slot(scheduler: Scheduler, job: Job) -> tuple[datetime | None, str]:
    if not job.enabled:
        return None, _("disabled")
    try:
        slots = scheduler.next_slots(job.name, 1)
    except (ConfigurationError, JobNotFound) as error:
        return None, message_of(error)
    return (local_time(slots[0]), "") if slots else (None, _("no more slots"))


def idle_words(scheduler: Scheduler) -> str | None:
    """Return why "Run now" can't work in this process, and what to do; None where it may."""
    if not scheduler._options.enabled:  # noqa: SLF001 - of this package
        return _(
            "The scheduler of this project has enabled=False, so “Run now” can't run anything here."
        )
    if scheduler.state != "idle":
        return None
    return _(
        "No scheduler runs in the process that shows this page, so “Run now” can't run anything"
        " here. Start one in this process, or run a job with: python manage.py anarchon run-now"
    )


# --- runs ---------------------------------------------------------------------------


def status_words(status: str) -> str:
    """Return a status in the language of the page."""
    return str(_STATUS_WORDS.get(status, status))


def run_line(run: Run) -> RunLine:
    """Return a run with its words and local times."""

    def local(moment: datetime | None) -> datetime | None:
        return None if moment is None else local_time(moment)

    return RunLine(
        run,
        key_of(run),
        status_words(run.status),
        str(_REASON_WORDS.get(run.reason, run.reason)),
        local_time(run.scheduled_at),
        local(run.started_at),
        local(run.finished_at),
    )


def run_lines(scheduler: Scheduler, asked: Mapping[str, str]) -> Asked:
    """Return a page of runs, one more than is shown if there are more.

    Args:
        scheduler: Whose store is asked.
        asked: The parameters of the page: `job`, `status` and `before`.
    """
    by_text: dict[str, Status] = {status: status for status in STATUSES}
    try:
        runs = scheduler.history(
            asked.get("job") or None,
            limit=PAGE + 1,
            before=placed(asked.get("before", "")),
            status=by_text.get(asked.get("status", "")),
        )
    except AnarchonError as error:
        return Asked([], message_of(error))
    return Asked([run_line(run) for run in runs], None)


def find_run(scheduler: Scheduler, key: str) -> Run | None:
    """Return the attempt that a key names, or None.

    Raises:
        AnarchonError: The store can't be asked.
    """
    place = placed(key, attempts_later=1)
    if place is None:
        return None
    found = scheduler.history(place.job, limit=1, before=place)
    return found[0] if found and key_of(found[0]) == key else None


def key_of(run: Run) -> str:
    """Return the text that names an attempt in the address of a page."""
    token = run.run_id if run.manual else ""
    return f"{run.slot}:{run.attempt}:{token}:{run.job}"


def placed(key: str, *, attempts_later: int = 0) -> Run | None:
    """Return a run at the place in history that a key names; None if it names none."""
    slot, attempt, token, job = [*key.split(":", 3), "", "", ""][:4]
    try:
        slot_ms, number = int(slot), int(attempt) + attempts_later
        scheduled_at = instant(slot_ms)
    except (ValueError, OverflowError):
        return None
    if not job or number < 1:
        return None
    manual = bool(token)
    run_id = token or f"{job}@{slot_ms}"
    return Run(run_id, job, slot_ms, scheduled_at, number, "success", manual=manual)
