"""What a store on one machine keeps beside runs, or shows of them: pauses, instances, history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._values import Presences
from . import _rules_end as ends
from ._rules import FOREVER, public_run
from ._storable import names, position_of

if TYPE_CHECKING:
    from .._runs import Run
    from .._values import Owner, Status
    from ._rows import Rows
    from ._rules import Moment

GONE_AFTER_MS = 24 * 3_600_000  # of an instance that was expected, until it is forgotten


def note(rows: Rows, now: Moment, owner: Owner) -> None:
    """Keep what the asker says of itself, if it does."""
    if owner.presence is not None:
        rows.put_present(owner.token, now.wall_ms, owner.presence)


def present(rows: Rows, now: Moment, owner: Owner) -> None:
    """Keep what the asker says of itself, or forget it, and forget who is long gone."""
    rows.drop_present("" if owner.presence else owner.token, now.wall_ms - GONE_AFTER_MS)
    note(rows, now, owner)


def instances(rows: Rows, now: Moment) -> Presences:
    """Return the instances that the store has heard from."""
    return Presences(tuple(rows.presents()), now.wall_ms)


def pause(rows: Rows, now: Moment, job: str | None, duration_ms: int | None) -> None:
    """Pause a job or all of them; a duration of 0 ends the pause."""
    until_ms = FOREVER if duration_ms is None else min(FOREVER, now.wall_ms + duration_ms)
    if duration_ms == 0:
        until_ms = 0
    if job is None:
        rows.put_paused(until_ms)
    else:
        rows.put_job(job, rows.job(job)._replace(paused_until_ms=until_ms))


def history(
    rows: Rows, now: Moment, job: str | None, limit: int, before: Run | None, status: Status | None
) -> list[Run]:
    """Return lines of history, newest first, as they read now."""
    if limit <= 0 or (job is not None and not names([job])):
        return []
    position = None if before is None else position_of(before)
    wanted: tuple[str, ...] = ()
    if status is not None:
        wanted = (status, "running") if status == "lost" else (status,)
    found: list[Run] = []
    for row in rows.lines(job, position, wanted):
        lost = row.status == "running" and ends.reads_lost(rows.run(row.key), row, now)
        shown = row._replace(status="lost", detail="runner died") if lost else row
        if status is None or shown.status == status:
            found.append(public_run(shown))
            if len(found) == limit:
                break
    return found
