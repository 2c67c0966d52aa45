"""Rows that commands answer with, and plain tables of them: aligned text without colour."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from typing import TYPE_CHECKING, Any

from ._durations import duration_text, shown
from ._named import NamedTuple
from ._values import milliseconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ._commands_doctor import Finding
    from ._runs import Run
    from .jobs import Job

_LONGEST_ERROR = 80
_MILLISECOND = timedelta(milliseconds=1)


class Table(NamedTuple):
    """Rows below their heads, and lines below them; the cells are printable."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    below: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Plain text, with columns as wide as their widest cells."""
        cells = [self.heads, *self.rows] if self.rows else []
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        return "\n".join([*lines, *self.below])

    def then(self, line: str) -> Table:
        """Return the table with one more line below it."""
        return self._replace(below=(*self.below, _printable(line)))


class JobRow(NamedTuple):
    """A job, its next slot if there is one, and why there is none.

    `paused` is None where that isn't known, `zone` the key of one to show the slot in.
    """

    job: Job
    next_slot: datetime | None
    remark: str
    paused: bool | None = None
    zone: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the job's fields, with the next slot as ISO text."""
        at = None if self.next_slot is None else _iso(self.next_slot)
        more: dict[str, Any] = {"next_slot": at, "paused": self.paused, "remark": self.remark}
        if self.zone and self.next_slot:
            more["next_local"] = local_iso(self.next_slot, self.zone)
        return {**self.job.to_dict(), **more}


class SlotRow(NamedTuple):
    """A slot of a job, which is in a zone."""

    job: str
    at: datetime
    zone: str

    @property
    def local(self) -> datetime:
        """The slot in the zone of the job, with its offset."""
        return local_time(self.at, self.zone)

    @property
    def slot_ms(self) -> int:
        """The slot in milliseconds since 1970 UTC."""
        return milliseconds(self.at)

    def to_dict(self) -> dict[str, Any]:
        """Return the slot as a number, in UTC and in the zone of the job."""
        local = local_iso(self.at, self.zone)
        return {"slot": self.slot_ms, "utc": _iso(self.at), "local": local}


def jobs_table(rows: Sequence[JobRow], now: datetime, zone: str | None = None) -> Table:
    """Return the jobs as a table."""
    if not rows:
        return Table((), (), ("no job is defined",))
    heads = ("job", "schedule", "next slot (UTC)", *_zone_head(zone), "in", "paused", "")
    return _table(heads, [_job_cells(row, now) for row in rows])


_PAUSED = {None: "?", True: "yes", False: "-"}


def _job_cells(row: JobRow, now: datetime) -> tuple[str, ...]:
    first, paused = (row.job.name, shown(row.job.schedule)), _PAUSED[row.paused]
    if row.next_slot is None:
        return *first, "-", *("-" for _ in _zone_head(row.zone)), "-", paused, row.remark
    local = _zone_cell(row.next_slot, row.zone)
    left = _left(row.next_slot, now)
    return *first, _spaced(row.next_slot), *local, left, paused, row.job.description


def slots_table(rows: Sequence[SlotRow], now: datetime, *, ended: bool) -> Table:
    """Return the slots of one job as a table; `ended`: there are no more."""
    if not rows:
        return Table((), (), ("no more slots",))
    zone = None if rows[0].zone == "UTC" else rows[0].zone
    heads = ("slot (UTC)", *_zone_head(zone), "in")
    cells = [(_spaced(row.at), *_zone_cell(row.at, zone), _left(row.at, now)) for row in rows]
    table = _table(heads, cells)
    return table.then("no more slots") if ended else table


def history_table(runs: Sequence[Run], zone: str | None = None) -> Table:
    """Return attempts as a table."""
    if not runs:
        return Table((), (), ("no runs",))
    heads = ("job", "slot (UTC)", *_zone_head(zone), "attempt", "status", "took", "reason")
    return _table((*heads, "instance", ""), [_run_cells(run, zone) for run in runs])


def _run_cells(run: Run, zone: str | None) -> tuple[str, ...]:
    return (
        run.job,
        _spaced(run.scheduled_at),
        *_zone_cell(run.scheduled_at, zone),
        str(run.attempt),
        run.status,
        "-" if run.duration_ms is None else f"{run.duration_ms} ms",
        run.reason,
        run.instance_id or "-",
        _cut(run.error or run.detail or ""),
    )


def finding_line(found: Finding) -> str:
    """Return a finding as a line, which begins with its level."""
    return _printable(f"{found.level:5}  {found.name}: {found.text}")


def run_line(run: Run) -> str:
    """Return how a run went, in one line."""
    error = f": {_cut(run.error.strip())}" if run.error else ""
    return _printable(f"{run}{error}")


def run_text(run: Run) -> str:
    """Return how a run went, with the traceback of a failure."""
    more = run.traceback or run.error
    return f"{run}\n{printable_text(more.rstrip())}" if more else str(run)


def printable_text(text: str) -> str:
    """Return lines that move no cursor elsewhere."""
    return _printable(text, keep="\n")


# --- tables -----------------------------------------------------------------------


def _table(heads: tuple[str, ...], rows: Sequence[Sequence[str]]) -> Table:
    """Return rows below their heads, in which nothing moves a cursor."""
    return Table(heads, tuple(tuple(map(_printable, row)) for row in rows))


def _zone_head(zone: str | None) -> tuple[str, ...]:
    return (f"in {zone}",) if zone else ()


def _zone_cell(moment: datetime, zone: str | None) -> tuple[str, ...]:
    return (local_time(moment, zone).isoformat(" ", _precision(moment)),) if zone else ()


def _printable(text: str, keep: str = "") -> str:
    """Return a text that moves no cursor: what an exception says may hold anything."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def _cut(text: str) -> str:
    first = text.partition("\n")[0]
    return first if len(first) <= _LONGEST_ERROR else f"{first[: _LONGEST_ERROR - 1]}…"


def local_time(moment: datetime, zone: str) -> datetime:
    """Return an instant in a zone, with its offset."""
    from ._schedules_wall import load_zone

    offset = load_zone(zone).offset(milliseconds(moment) // 1000)
    return moment.astimezone(timezone(timedelta(seconds=offset)))


def local_iso(moment: datetime, zone: str) -> str:
    """Return an instant in a zone as ISO text."""
    return local_time(moment, zone).isoformat(timespec="milliseconds")


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _spaced(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(" ", _precision(moment)).removesuffix("+00:00")


def _precision(moment: datetime) -> str:
    return "milliseconds" if moment.microsecond else "seconds"


def _left(moment: datetime, now: datetime) -> str:
    ms = max((moment - now) // _MILLISECOND, 0)
    return duration_text(ms if ms < 1000 else ms // 1000 * 1000)
