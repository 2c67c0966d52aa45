"""What each page shows: read from the scheduler and its store, in a few bounded questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, get_args

from .._commands_instances import (
    concerns_of,
    host_and_pid,
    job_count,
    offset_words,
    shows_instances,
    state_words,
)
from .._commands_rows import SlotRow
from .._explanations import Lines, is_passed_over, told, told_of
from .._named import NamedTuple
from .._runs import Run, called_for
from .._texts import message_of
from .._values import LATEST_MS, Status, instant, moment
from ..backends._pauses import pauses_in
from ..backends.base import LeaseBackend
from ..errors import ConfigurationError, JobNotFound
from ._answers import Refused
from ._figures import numbers, stories, strip, timeline
from ._words import schedule_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from .._explanations import Explanation
    from ..backends._pauses import Pauses
    from ..instances import Instance
    from ..jobs import Job
    from ..scheduler import Scheduler
    from ._figures import Story, Strip

JOBS = 25
STRIP = 24
LANES = 40
RUNS = 50
ATTEMPTS = 50
INSTANCES = 50
NEXT = 5
_FURTHEST = 1000
STATUSES: tuple[Status, ...] = get_args(Status)


class JobRow(NamedTuple):
    """A job in the list. `paused` is None where the store can't say."""

    job: Job
    words: str
    next_slot: datetime | None
    remark: str
    strip: Strip
    last: Story | None
    paused: bool | None


# --- jobs ---------------------------------------------------------------------------


def jobs_page(scheduler: Scheduler, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the list of jobs: one question for pauses, one for each job that is shown."""
    wanted, tag, start = query.get("q", ""), query.get("tag", ""), whole(query.get("from", ""))
    all_jobs = scheduler.jobs
    found = [job for job in all_jobs if _matches(job, wanted, tag)]
    shown = found[start : start + JOBS]
    pauses = pauses_of(scheduler, shown)
    return {
        "rows": [_job_row(scheduler, job, pauses) for job in shown],
        "all_paused": pauses is not None and pauses.every,
        "asked": {"q": wanted, "tag": tag},
        "tags": sorted({tag for job in all_jobs for tag in job.tags}),
        "count": len(found),
        "defined": len(all_jobs),
        "start": start,
        "newer": max(start - JOBS, 0) if start else None,
        "older": start + JOBS if start + JOBS < len(found) else None,
        "health": scheduler.health(),
    }


def _matches(job: Job, wanted: str, tag: str) -> bool:
    if tag and tag not in job.tags:
        return False
    text = "\n".join((job.name, job.description, *job.tags)).casefold()
    return all(word in text for word in wanted.casefold().split())


def pauses_of(scheduler: Scheduler, jobs: Sequence[Job]) -> Pauses | None:
    """Return which of these jobs are paused, and if all are; None for a store that can't say."""
    backend = scheduler._options.backend  # noqa: SLF001 - of this package
    return scheduler._ask(lambda _: pauses_in(backend, [job.name for job in jobs]))  # noqa: SLF001


def _job_row(scheduler: Scheduler, job: Job, pauses: Pauses | None) -> JobRow:
    slots, remark = next_slots(scheduler, job, 1)
    recent = stories(scheduler.history(job.name, limit=STRIP))
    ran = [one for one in recent if one.last.status != "skipped"]
    return JobRow(
        job,
        schedule_words(job),
        slots[0].at if slots else None,
        remark,
        strip(recent, STRIP),
        next(iter(ran or recent), None),
        None if pauses is None else pauses.every or job.name in pauses.jobs,
    )


def next_slots(scheduler: Scheduler, job: Job, count: int) -> tuple[list[SlotRow], str]:
    """Return the next slots of a job, or why there are none; asks no store."""
    if not job.enabled:
        return [], "disabled"
    zone = getattr(job.schedule, "timezone", None) or "UTC"
    try:
        found = scheduler.next_slots(job.name, count)
    except (ConfigurationError, JobNotFound) as error:
        return [], message_of(error)
    return [SlotRow(job.name, slot, zone) for slot in found], "" if found else "no more slots"


# --- one job ------------------------------------------------------------------------


def job_page(scheduler: Scheduler, query: Mapping[str, str]) -> dict[str, Any]:
    """Return a job with the lanes of its runs: two questions.

    A job that isn't defined here is shown as long as it has records.
    """
    name = given(query, "name")
    job = scheduler._registry.find(name)  # noqa: SLF001 - of this package
    before = placed(query.get("before", ""), name)
    runs = scheduler.history(name, limit=LANES + 1, before=before)
    if job is None and not runs and before is None:
        raise Refused(404, "No such job", f"“{name}” is not defined here and has no records.")
    pauses = None if job is None else pauses_of(scheduler, [job])
    page, more = runs[:LANES], len(runs) > LANES
    told_runs = stories(page)
    slots, remark = ([], "not defined here") if job is None else next_slots(scheduler, job, NEXT)
    return {
        "name": name,
        "job": job,
        "words": "" if job is None else schedule_words(job),
        "slots": slots,
        "in_zone": bool(slots) and slots[0].zone != "UTC",
        "remark": remark,
        "all_paused": pauses is not None and pauses.every,
        "paused": None if pauses is None else name in pauses.jobs,
        "numbers": numbers(told_runs),
        "timeline": timeline(told_runs, now_ms(scheduler)),
        "older": place_of(page[-1]) if more else None,
        "is_newest": before is None,
    }


# --- runs ---------------------------------------------------------------------------


def runs_page(scheduler: Scheduler, query: Mapping[str, str]) -> dict[str, Any]:
    """Return attempts, newest first: one question."""
    name, status = query.get("job", ""), query.get("status", "")
    if status not in ("", *STATUSES):
        raise Refused(400, "No such status", f"A status is one of {', '.join(STATUSES)}.")
    asked = cast("Status | None", status or None)
    before = placed(query.get("before", ""), name or query.get("at", ""))
    runs = scheduler.history(name or None, limit=RUNS + 1, before=before, status=asked)
    names = [job.name for job in scheduler.jobs]
    page = runs[:RUNS]
    return {
        "runs": page,
        "asked": {"job": name, "status": status},
        "names": names if name in ("", *names) else [*names, name],
        "statuses": STATUSES,
        "older": {"before": place_of(page[-1]), "at": page[-1].job} if len(runs) > RUNS else None,
        "is_newest": before is None,
    }


# --- one run ------------------------------------------------------------------------


def run_page(scheduler: Scheduler, query: Mapping[str, str]) -> dict[str, Any]:
    """Return a run with all its attempts, or why there is none.

    One question where there are records. A slot without one may have been closed together with a
    later one, for which at most `_FURTHEST` attempts are looked through.
    """
    name, token = given(query, "name"), query.get("run", "")
    slot_ms = slot_of(query)
    after = _at(name, min(slot_ms + 1, LATEST_MS - 1))
    lines = scheduler.history(name, limit=ATTEMPTS, before=after)
    at_slot = [run for run in lines if run.slot == slot_ms]
    own = [run for run in at_slot if token == (run.run_id * run.manual)]
    older = [run for run in lines if run.slot < slot_ms]
    around = Lines((), tuple(at_slot), tuple(older), complete=len(lines) < ATTEMPTS)
    explained: Explanation | None = None
    if token and not own:
        raise Refused(404, "No such run", "It was trimmed from history, or never was.")
    if token:
        explained = told_of(name, slot_ms, tuple(reversed(own)), around, None)
    elif own and not is_passed_over(own):
        explained = told(name, slot_ms, around, scheduler._plan(name))  # noqa: SLF001
    else:
        explained = _without_record(scheduler, name, slot_ms)
    if explained is None:
        raise Refused(404, "No such run", "It was trimmed from history, or never was.")
    story = stories(reversed(explained.runs))
    return {
        "name": name,
        "slot_ms": slot_ms,
        "slot": instant(slot_ms),
        "explained": explained,
        "sentence": _sentence(explained),
        "story": story[0] if story else None,
        "is_backfill": bool(story) and called_for(story[0].last) == "backfilled",
        "timeline": timeline(story[:1], now_ms(scheduler)),
        "is_open": _is_open(scheduler, explained.runs),
        "previous": stories(older)[0].last if older else None,
    }


def _without_record(scheduler: Scheduler, name: str, slot_ms: int) -> Explanation:
    newest = scheduler.history(name, limit=_FURTHEST)
    if len(newest) == _FURTHEST and newest[-1].slot > slot_ms:
        raise Refused(
            404,
            "No such run",
            f"The slot has no record of its own, and is older than the last {_FURTHEST} attempts.",
        )
    try:
        return scheduler.explain(name, slot_ms)
    except JobNotFound as error:
        raise Refused(404, "No such run", message_of(error)) from error


def _sentence(explained: Explanation) -> str:
    """Return what is said of a run, without what the page shows beside it: which, and the outcome.

    Names of jobs have no line breaks.
    """
    head = f"{explained.job} @ {moment(instant(explained.slot))}: "
    text = explained.text.partition("\n")[0].removeprefix(head)
    return text.removeprefix(explained.outcome).removeprefix(": ").strip()


def _is_open(scheduler: Scheduler, runs: Sequence[Run]) -> bool:
    """Whether a run goes on, or waits to be gone on with, so that it can be cancelled."""
    if not runs or runs[-1].manual:
        return False
    if not isinstance(scheduler._options.backend, LeaseBackend):  # noqa: SLF001 - of this package
        return False
    last = runs[-1]
    return last.status == "running" or (last.status, last.detail) == ("interrupted", "handed over")


# --- instances ------------------------------------------------------------------------


class InstanceRow(NamedTuple):
    """An instance in the list; `words` are its state and what there is to say of it."""

    one: Instance
    place: str
    words: tuple[str, str]
    jobs: str
    offset: str


_PILLS = {"running": "running", "idle": "success", "silent": "lost"}
_SIGNS = {"running": "▸", "idle": "✓", "silent": "?"}


def instances_page(scheduler: Scheduler, query: Mapping[str, str]) -> dict[str, Any]:
    """Return who shares the store, and what they disagree about: one question."""
    found, start = scheduler.instances(), whole(query.get("from", ""))
    now = instant(now_ms(scheduler))
    shown = found[start : start + INSTANCES]
    return {
        "rows": [_instance_row(one, now) for one in shown],
        "pills": _PILLS,
        "signs": _SIGNS,
        "concerns": concerns_of(found),
        "shows": shows_instances(scheduler),
        "count": len(found),
        "start": start,
        "newer": max(start - INSTANCES, 0) if start else None,
        "older": start + INSTANCES if start + INSTANCES < len(found) else None,
    }


def _instance_row(one: Instance, now: datetime) -> InstanceRow:
    words = state_words(one, now)
    more = "" if one.state == "running" else words.removeprefix(one.state).lstrip(", ")
    offset = "" if one.clock_offset is None else offset_words(one.clock_offset)
    state = one.state if more else words
    return InstanceRow(one, host_and_pid(one), (state, more), job_count(one), offset)


# --- places in history ----------------------------------------------------------------


def given(query: Mapping[str, str], what: str) -> str:
    """Return a value that an address has to have."""
    value = query.get(what, "")
    if not value:
        raise Refused(400, "Not understood", f"The address says no {what}.")
    return value


def slot_of(query: Mapping[str, str]) -> int:
    """Return the slot that is asked for: milliseconds since 1970 UTC."""
    text = given(query, "slot")
    slot_ms = whole(text, digits=15)
    if not text.isascii() or not text.isdigit() or not 0 <= slot_ms < LATEST_MS:
        raise Refused(400, "Not understood", "A slot is a number of milliseconds since 1970 UTC.")
    return slot_ms


def place_of(run: Run) -> str:
    """Return the text for a place in history, without the name of the job."""
    return f"{run.slot}.{run.attempt}.{run.run_id if run.manual else ''}"


def placed(text: str, name: str) -> Run | None:
    """Return a run at the place that a text names; None if it names none."""
    slot, _, rest = text.partition(".")
    attempt, _, token = rest.partition(".")
    slot_ms, number = whole(slot, digits=15), whole(attempt)
    if not text or not name or number < 1 or not 0 <= slot_ms < LATEST_MS:
        return None
    return _at(name, slot_ms, number, token)


def _at(name: str, slot_ms: int, attempt: int = 1, token: str = "") -> Run:
    run_id = token or f"{name}@{slot_ms}"
    at = instant(slot_ms)
    return Run(run_id, name, slot_ms, at, attempt, "success", manual=bool(token))


def whole(text: str, *, digits: int = 9) -> int:
    """Return a number from an address, 0 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else 0


def now_ms(scheduler: Scheduler) -> int:
    """Return the time as the scheduler has it, in milliseconds since 1970 UTC."""
    return int(scheduler._clock.wall() * 1000)  # noqa: SLF001 - of this package


PAGES: dict[str, tuple[str, Callable[[Scheduler, Mapping[str, str]], dict[str, Any]]]] = {
    "/": ("jobs.html", jobs_page),
    "/job": ("job.html", job_page),
    "/runs": ("runs.html", runs_page),
    "/run": ("run.html", run_page),
    "/instances": ("instances.html", instances_page),
}
