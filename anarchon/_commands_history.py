"""The records of a store as they come, and all of them: ``tail`` and ``export``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ._commands_answers import DONE, Answer, answering, in_one_line, is_known, missing_file
from ._durations import shown
from .errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._runs import Run
    from ._values import Status
    from .scheduler import Scheduler

_PAGE = 100
_MOST_PAGES = 10  # of one look; more new records than that between two looks are passed over
_MOST = 1000  # records that one call reads
_MOST_SEEN = 20_000
_MOST_JOBS = 20  # that one look asks for by their names
_RARELY = 30  # looks
_EXPORTED = 500


@answering
def export(
    scheduler: Scheduler,
    write: Callable[[str], object],
    name: str | None = None,
    *,
    status: Status | None = None,
) -> Answer:
    """Write every record of a store as a line of JSON, newest first.

    It is read in pages, so memory doesn't grow with it. What is recorded meanwhile is not there.

    Args:
        scheduler: Whose store is asked.
        write: Told each line, without an end.
        name: The job; None for all.
        status: Only attempts with this status.
    """
    page = scheduler.history(name, limit=_EXPORTED, status=status)
    note = "" if page else _note(scheduler, name)
    while page:
        for run in page:
            write(json.dumps(run.to_dict()))
        if len(page) < _EXPORTED:
            break
        page = scheduler.history(name, limit=_EXPORTED, before=page[-1], status=status)
    return Answer(DONE, note=note)


@answering
def tail(
    scheduler: Scheduler,
    tell: Callable[[Run], object],
    name: str | None = None,
    *,
    say: Callable[[str], object],
    rest: Callable[[], object],
    last: int = 10,
    status: Status | None = None,
) -> Answer:
    """Tell of the last records, and then of each that is new or has changed, for ever.

    A store that is down in between is waited for.

    Args:
        scheduler: Whose store is asked.
        tell: Told each record, the oldest first.
        name: The job; None for all.
        say: Told when the store is down, and when it is there again, in one line each; and first,
            if there is nothing of this job, or no store yet.
        rest: Waits between two looks. What it raises ends the tail.
        last: So many records that are there already are told first, 0 to 1000.
        status: Only attempts with this status.
    """
    following = Following(scheduler, name)
    there = following.first()
    if not there and (note := _note(scheduler, name)):
        say(note)
    wanted = [run for run in there if status in (None, run.status)]
    for run in wanted[len(wanted) - min(last, len(wanted)) :]:
        tell(run)
    is_down = False
    while True:
        rest()
        try:
            news = following.news()
        except BackendUnavailable as error:
            if not is_down:
                say(f"waiting for the store: {in_one_line(error)}")
            is_down = True
            continue
        if is_down:
            say("the store is there again")
        is_down = False
        for run in news:
            if status in (None, run.status):
                tell(run)


def _note(scheduler: Scheduler, name: str | None) -> str:
    """Return what to say where no record was found; raises for a misspelled name.

    A command that then writes nothing looks the same for a job that nobody has as for one that
    hasn't run yet.
    """
    known = is_known(scheduler, name)
    unknown = "" if known else f"the store has no record of a job {shown(name)}"
    return missing_file(scheduler) or unknown


class Following:
    """What is new in a history, look by look. Each look is a few calls, whatever has happened.

    History is in the order of slots. So new records are mostly on its first page. A run that
    goes on is followed by its job when it has left that page. What begins further back, as an
    old slot that is caught up, is found by its status; a store may have to read all of its
    records for that, so not each look asks.
    """

    def __init__(self, scheduler: Scheduler, name: str | None) -> None:
        self._scheduler = scheduler
        self._name = name
        self._seen: dict[tuple[str, int], Run] = {}
        self._looks = 0

    def first(self) -> list[Run]:
        """Return the records that are there, the oldest first, up to 1000; and all that run."""
        page = self._scheduler.history(self._name, limit=_MOST)
        return self._taken([*page, *self._running()])

    def news(self) -> list[Run]:
        """Return the records that are new or have changed since, the oldest first."""
        self._looks += 1
        page, fresh = self._newest()
        there = {run.run_id for run in page}
        away = [run for run in self.open_runs() if run.run_id not in there]
        jobs = sorted({run.job for run in away})
        first = self._looks * _MOST_JOBS % len(jobs) if len(jobs) > _MOST_JOBS else 0
        for job in [*jobs, *jobs][first : first + min(_MOST_JOBS, len(jobs))]:
            fresh += self._of_job(job, {run.run_id for run in away if run.job == job})
        if self._looks % _RARELY == 0:
            fresh += self._running()
        return self._taken(fresh)

    def _of_job(self, job: str, run_ids: set[str]) -> list[Run]:
        """Return the attempts of some runs of a job; forget those that history has forgotten."""
        lines = [run for run in self._scheduler.history(job, limit=_MOST) if run.run_id in run_ids]
        kept = {run.run_id for run in lines}
        for key, run in list(self._seen.items()):
            if run.run_id in run_ids - kept and run.status == "running":
                del self._seen[key]
        return lines

    def _newest(self) -> tuple[list[Run], list[Run]]:
        """Return the newest records, and the new ones among them.

        It is the first page, and the next ones as long as there is news on each.
        """
        found: list[Run] = []
        fresh: list[Run] = []
        for _ in range(_MOST_PAGES):
            before = found[-1] if found else None
            page = self._scheduler.history(self._name, limit=_PAGE, before=before)
            news = [run for run in page if self._is_new(run)]
            found += page
            fresh += news
            if len(page) < _PAGE or not news:
                break
        return found, fresh

    def _running(self) -> list[Run]:
        return self._scheduler.history(self._name, limit=_MOST, status="running")

    def open_runs(self) -> list[Run]:
        """Return the attempts that go on, as far as the looks have seen."""
        return [run for run in self._seen.values() if run.status == "running"]

    def _is_new(self, run: Run) -> bool:
        known = self._seen.get((run.run_id, run.attempt))
        return known is None or (known.status, known.detail) != (run.status, run.detail)

    def _taken(self, runs: list[Run]) -> list[Run]:
        """Remember records, and return those that are new, once each."""
        news: dict[tuple[str, int], Run] = {}
        for run in runs:
            if self._is_new(run):
                news[run.run_id, run.attempt] = self._seen[run.run_id, run.attempt] = run
        if len(self._seen) > _MOST_SEEN:
            self._forget()
        return sorted(news.values(), key=lambda run: (run.slot, run.attempt))

    def _forget(self) -> None:
        """Forget the older half of what has ended; no look goes back as far as that."""
        ended = sorted(run.slot for run in self._seen.values() if run.status != "running")
        middle = ended[len(ended) // 2]
        self._seen = {
            key: run
            for key, run in self._seen.items()
            if run.slot > middle or run.status == "running"
        }
