"""The fleet at a glance, look by look: who is there, what runs, and how each job went last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ._commands import jobs as jobs_of
from ._commands_answers import DONE, Answer, answering, missing_file
from ._commands_history import Following
from ._commands_instances import clock_words, concerns_of, instances_table
from ._commands_rows import Table, _cut, _table
from ._durations import duration_text
from ._named import NamedTuple

if TYPE_CHECKING:
    from ._commands_instances import Concern
    from ._commands_rows import JobRow
    from ._runs import Run
    from .instances import Instance
    from .scheduler import Scheduler

_ASKED_BY_NAME = 10  # jobs, in one look
_LATEST = 50  # records of such a job; of skips alone fewer are kept
_NEVER = datetime.max.replace(tzinfo=UTC)
_PAUSED = {None: "?", True: "yes", False: "-"}


class Frame(NamedTuple):
    """What one look has found."""

    at: datetime
    instances: tuple[Instance, ...]
    concerns: tuple[Concern, ...]
    running: tuple[Run, ...]
    jobs: tuple[JobRow, ...]
    last: dict[str, Run]
    remarks: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict that is ready for JSON."""
        last = {name: run.to_dict() for name, run in self.last.items()}
        names = [row.job.name for row in self.jobs] or [*self.last]
        rows: dict[str, dict[str, Any]] = {row.job.name: row.to_dict() for row in self.jobs}
        return {
            "at": self.at.isoformat(timespec="milliseconds"),
            "instances": [one.to_dict() for one in self.instances],
            "warnings": [one.to_dict() for one in self.concerns],
            "running": [run.to_dict() for run in self.running],
            "jobs": [
                {**rows.get(name, {"name": name}), "last_run": last.get(name)} for name in names
            ],
        }

    @property
    def tables(self) -> dict[str, Table]:
        """The same for people: tables by their titles."""
        return {
            "instances": instances_table(self.instances, self.concerns, self.at),
            "running": _running_table(self.running, self.at),
            "jobs": self._jobs_table(),
        }

    @property
    def text(self) -> str:
        """The same as plain text."""
        parts = [f"{title}\n{table.text}" for title, table in self.tables.items()]
        return "\n\n".join(parts)

    def _jobs_table(self) -> Table:
        if not self.jobs:
            rows = [(name, *_last_cells(run, self.at)) for name, run in self.last.items()]
            empty = Table((), (), ("no job has ended a run",))
            return _table(("job", *_LAST), rows) if rows else empty
        table = _table(("job", "next slot (UTC)", "in", "paused", *_LAST), self._job_cells())
        for remark in self.remarks:
            table = table.then(remark)
        return table

    def _job_cells(self) -> list[tuple[str, ...]]:
        rows = []
        for job, slot, remark, paused, _ in self.jobs:
            due = ("-", "-") if slot is None else (clock_words(slot, self.at), _in(slot, self.at))
            last = _last_cells(self.last.get(job.name), self.at)
            rows.append((job.name, *due, _PAUSED[paused], *last[:-1], last[-1] or remark))
        return rows


class Board:
    """Looks at the fleet, again and again. Each look is a few calls, whatever there is.

    They are one for the instances, one for the pauses of each 500 jobs, those of `Following` for
    the records, and for jobs without a record among those, ten by their names.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._following = Following(scheduler, None)
        self._has_begun = False
        self._last: dict[str, Run] = {}
        self._asked: set[str] = set()

    def look(self) -> Frame:
        """Ask the store for what there is now.

        Raises:
            BackendUnavailable: It can't be reached.
        """
        instances = tuple(self._scheduler.instances())
        self._take(self._following.news() if self._has_begun else self._following.first())
        self._has_begun = True
        answer = jobs_of(self._scheduler)
        rows: list[JobRow] = sorted(answer.rows, key=lambda row: row.next_slot or _NEVER)
        self._ask_for([row.job.name for row in rows])
        running = sorted(self._following.open_runs(), key=lambda run: run.started_at or _NEVER)
        return Frame(
            datetime.now(UTC),
            instances,
            concerns_of(instances),
            tuple(running),
            tuple(rows),
            dict(sorted(self._last.items(), key=lambda one: one[1].slot, reverse=True)),
            () if answer.table is None or not rows else answer.table.below,
        )

    def _take(self, runs: list[Run]) -> None:
        for run in runs:
            known = self._last.get(run.job)
            newest = (0, 0) if known is None else (known.slot, known.attempt)
            if run.status not in ("running", "skipped") and (run.slot, run.attempt) >= newest:
                self._last[run.job] = run

    def _ask_for(self, names: list[str]) -> None:
        """Look for the last runs of jobs that ran long ago, once each."""
        unknown = [name for name in names if name not in self._last and name not in self._asked]
        for name in unknown[:_ASKED_BY_NAME]:
            self._take(self._scheduler.history(name, limit=_LATEST))
            self._asked.add(name)


@answering
def one_look(board: Board) -> Answer:
    """Return what one look finds."""
    frame = board.look()
    note = "" if frame.instances or frame.last else missing_file(board._scheduler)  # noqa: SLF001
    return Answer(DONE, frame.text, frame.to_dict(), (frame,), note=note)


_LAST = ("last", "ended", "took", "")


def _last_cells(run: Run | None, now: datetime) -> tuple[str, ...]:
    if run is None:
        return "-", "-", "-", ""
    ended = "-" if run.finished_at is None else f"{_in(now, run.finished_at)} ago"
    took = "-" if run.duration_ms is None else f"{run.duration_ms} ms"
    return run.status, ended, took, _cut(run.error or run.detail or "")


def _running_table(runs: tuple[Run, ...], now: datetime) -> Table:
    if not runs:
        return Table((), (), ("nothing runs",))
    heads = ("job", "slot (UTC)", "attempt", "for", "reason", "instance")
    return _table(heads, [_running_cells(run, now) for run in runs])


def _running_cells(run: Run, now: datetime) -> tuple[str, ...]:
    since = "-" if run.started_at is None else _in(now, run.started_at)
    slot = clock_words(run.scheduled_at, now)
    return run.job, slot, str(run.attempt), since, run.reason, run.instance_id or "-"


def _in(moment: datetime, now: datetime) -> str:
    """Return how long it is to an instant, in whole seconds."""
    return duration_text(max((moment - now) // timedelta(seconds=1), 0) * 1000)
