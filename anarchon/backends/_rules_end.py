"""The guards of every operation but a claim; pure, as everything in `_rules`.

Finish, release, save and renew compare owner and attempt and never the lease's end: a
store clock that steps forward must not take runs from healthy owners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._states import UNCOMMITTED
from .._values import (
    HISTORY_MS,
    Early,
    Held,
    Lease,
    Lost,
    Recorded,
    Released,
    Waiting,
)
from ._rules import (
    AttemptRow,
    Ending,
    RunState,
    Step,
    alive,
    close_new,
    close_run,
    closed_answer,
    continuable,
    died_text,
    holds,
    open_run,
    too_old,
    trimmed,
)

if TYPE_CHECKING:
    from .._values import (
        Answer,
        OpenRun,
        Owner,
        Result,
        RunKey,
        Settlement,
        SkipWish,
    )
    from ._rules import (
        Ask,
        JobState,
        Moment,
    )

# History per job: lines of attempts, and of skips, which must not push the others out.
KEPT_RECORDS = 100
KEPT_SKIPS = 20
KEPT_ALWAYS = 10
KEPT_MS = HISTORY_MS

_MANUAL_TOO_OLD_MS = 3_600_000  # a manual run has no catch-up of its own: the default one


def _closed_by(run: RunState, lease: Lease, owner: Owner) -> bool:
    """Whether this attempt was the asker's, and closed by the asker."""
    return (
        run.state == "closed"
        and run.owner == run.decided_by == owner.token
        and run.attempt == lease.attempt
    )


def finish(run: RunState | None, result: Result, ask: Ask, job: JobState) -> Step[Settlement]:
    """Close an attempt with its result; a result without a record is a fact as well."""
    lease = Lease(result.key, result.attempt)
    if run is None:
        if not result.key.manual and result.key.slot_ms <= job.floor_ms:
            return Step(Lost(lease))
        return _insert(result, ask, "closed")
    if holds(run, lease.attempt, ask.owner):
        ending = _ending(result, ask.now)
        step = close_run(run, ask, ending)
        return step.with_answer(Recorded(lease, ending.status, ending.detail))
    if _closed_by(run, lease, ask.owner):
        return Step(Recorded(lease, run.status or result.status, run.detail))
    return Step(Lost(lease))


def release(run: RunState | None, result: Result, ask: Ask) -> Step[Settlement]:
    """Hand an attempt over; or close it when it was cancelled, or was its last death."""
    lease = Lease(result.key, result.attempt)
    if run is None:
        return Step(Lost(lease))
    if holds(run, lease.attempt, ask.owner):
        return _release(run._replace(deaths=run.deaths + result.counted), lease, result, ask)
    if run.owner == ask.owner.token and run.attempt == result.attempt:
        if run.state == "waiting":
            return Step(Released(lease))
        if _closed_by(run, lease, ask.owner):
            return Step(Recorded(lease, run.status or "interrupted", run.detail))
    return Step(Lost(lease))


def _release(run: RunState, lease: Lease, result: Result, ask: Ask) -> Step[Settlement]:
    ending = _ending(result, ask.now)._replace(status="interrupted")
    if run.cancel:
        ending = ending._replace(detail="cancelled")
    elif result.counted and run.deaths >= run.budget:
        ending = _last_death(run, ending)
    else:
        ending = ending._replace(detail=result.detail or "handed over")
        now = ask.now
        waiting = run._replace(state="waiting", wall_end_ms=now.wall_ms, since_ms=now.wall_ms)
        return Step(Released(lease), run=waiting, ended=run.attempt, ending=ending)
    step = close_run(run, ask, ending)
    return step.with_answer(Recorded(lease, ending.status, ending.detail))


def _last_death(run: RunState, ending: Ending) -> Ending:
    if not run.budget:
        return ending._replace(status="lost", detail="runner died")
    said = f": {ending.error}" if ending.error else ""
    return ending._replace(status="failed", detail=None, error=died_text(run.deaths) + said)


def _ending(result: Result, now: Moment) -> Ending:
    """Return how a result ends its line; the end is as far from the start as was measured.

    A success that was to be recorded in a transaction of the handler's, and was not, is none.
    """
    if result.completes and result.status == "success":
        result = result._replace(status="failed", error=UNCOMMITTED)
    started = result.started_ms > 0
    return Ending(
        result.status,
        result.detail,
        result.started_ms + result.duration_ms if started else now.wall_ms,
        result.error,
        result.traceback,
        result.started_ms if started else None,
        result.duration_ms if started else None,
    )


def record_manual(
    run: RunState | None, result: Result, ask: Ask, lease_ms: int
) -> Step[Settlement]:
    """Insert a manual run as running; a repeat by its owner changes nothing."""
    lease = Lease(result.key, result.attempt)
    if run is None:
        return _insert(result, ask, "running", lease_ms)
    if run.owner == ask.owner.token and run.attempt == result.attempt:
        return Step(Recorded(lease, run.status or "running", run.detail))
    return Step(Lost(lease))


def _insert(result: Result, ask: Ask, state: str, lease_ms: int = 0) -> Step[Settlement]:
    """Record an attempt that the store doesn't know: a manual one, or one that it lost."""
    now, token = ask.now, ask.owner.token
    run = RunState(
        result.key,
        "running",
        result.attempt,
        owner=token,
        end_ms=now.lease_ms + lease_ms,
        wall_end_ms=now.wall_ms + lease_ms,
        boot=now.boot,
        lease_ms=lease_ms,
        heartbeat_ms=lease_ms // 3,
        fence=result.fence,
        since_ms=now.wall_ms,
    )
    ending = _ending(result, now)
    row = AttemptRow(
        result.key,
        result.attempt,
        "running",
        result.detail,
        result.reason,
        ask.owner.instance_id,
        started_ms=ending.started_ms or now.wall_ms,
    )
    lease = Lease(result.key, result.attempt)
    if state == "running":
        return Step(Recorded(lease, "running", result.detail), run=run, opened=row)
    step = close_run(run, ask, ending)
    closed = row._replace(
        status=ending.status,
        started_ms=ending.started_ms,
        finished_ms=ending.finished_ms,
        duration_ms=ending.duration_ms,
        error=ending.error,
        traceback=ending.traceback,
    )
    return Step(Recorded(lease, ending.status, ending.detail), run=step.run, opened=closed)


def skip(run: RunState | None, wish: SkipWish, ask: Ask, job: JobState) -> Step[Answer]:
    """Close a slot as missed, once the job's next slot is due by the store's clock."""
    if run is not None:
        if run.state == "closed":
            return Step(closed_answer(run))
        if run.state == "waiting":
            return Step(Waiting(run.key, run.attempt))
        return Step(Held(run.key, open_run(run, ask.owner, ask.now)))
    if wish.key.slot_ms <= job.floor_ms:
        return Step(trimmed(wish.key))
    wait_ms = wish.next_ms - ask.now.wall_ms
    if wait_ms > ask.pace.tolerance_ms:
        return Step(Early(wish.key, wait_ms))
    return close_new(wish.key, ask, "missed", wish.detail)


def cancel(run: RunState | None, ask: Ask) -> Step[bool]:
    """Close a waiting run, flag a running one."""
    if run is None or run.state == "closed":
        return Step(answer=False)
    if run.state == "waiting":
        ending = Ending("interrupted", "cancelled", None)
        return close_run(run, ask, ending).with_answer(answer=True)
    return Step(answer=True, run=run._replace(cancel=1))


def ordered(key: RunKey, now: Moment) -> RunState:
    """Return a run that the fleet is asked for: it waits for its first attempt."""
    return RunState(key, "waiting", 0, wall_end_ms=now.wall_ms, since_ms=now.wall_ms)


def may_tell(run: RunState | None, key: RunKey, told: tuple[int, str] | None, owner: Owner) -> bool:
    """Whether the asker is to tell that nobody has finished a slot.

    `told` is the newest slot of the job that was told of, and by whom.
    """
    if run is not None and run.state == "closed":
        blocked = run.status == "skipped" and run.detail == "overlap"
        if run.status not in {"missed", "lost"} and not blocked:
            return False
    if told is None or told[0] < key.slot_ms:
        return True
    return told == (key.slot_ms, owner.token)


def is_forgotten(run: RunState, now: Moment) -> bool:
    """Whether an ordered run has waited, or been dead, for as long as history is kept."""
    return not alive(run, now) and now.wall_ms - run.since_ms > KEPT_MS


# --- looks ------------------------------------------------------------------------


def is_wrong(run: OpenRun) -> bool:
    """Whether a look must name this run: handed over, late, ended, or renewed after now."""
    if run.state == "waiting" or run.left_ms <= 0 or run.left_ms > run.lease_ms:
        return True
    return run.lease_ms - run.left_ms >= 1.5 * run.heartbeat_ms


def next_end_ms(runs: list[OpenRun]) -> int | None:
    """Return the time until the earliest lease end still ahead of a run that isn't mine."""
    ahead = [run.left_ms for run in runs if not run.mine and run.left_ms > 0]
    return min(ahead, default=None)


# --- history ----------------------------------------------------------------------


def reads_lost(run: RunState | None, row: AttemptRow, now: Moment) -> bool:
    """Whether a line that says running belongs to a runner that nobody will follow."""
    if row.status != "running":
        return False
    if run is None or run.state != "running" or run.attempt != row.attempt:
        return True
    return not alive(run, now) and not continuable(run, now, run.catch_up_ms)


def may_trim(run: RunState, now: Moment) -> bool:
    """Whether a run may leave history: closed, or a manual one whose runner is long gone."""
    if run.key.slot_ms > now.wall_ms:
        return False
    if run.state == "closed":
        return True
    if not run.key.manual or run.state == "waiting" or alive(run, now):
        return False
    return too_old(run, now, _MANUAL_TOO_OLD_MS)


def is_worn(run: RunState, now: Moment, count: int, kept: int) -> bool:
    """Whether the oldest run of its kind should leave, `count` lines being there."""
    return count > kept or now.wall_ms - run.since_ms > KEPT_MS
