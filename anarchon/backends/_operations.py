"""The operations of a store that is shared state on one machine, each inside one transaction.

A store gives its `Rows`, an operation reads what the rules need to know, asks them, and
writes what they decided. So memory and SQLite differ in where rows are kept, and in
nothing else.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from .._texts import clean
from .._values import (
    Alerts,
    Claims,
    Closed,
    Lease,
    Looked,
    Lost,
    Owner,
    Pace,
    Renewed,
    RunKey,
    Settled,
    Won,
)
from . import _rules_end as ends
from ._operations_kept import note
from ._rules import (
    FENCE_LIMIT,
    Ask,
    AttemptRow,
    Facts,
    JobState,
    has_succeeded,
    holds,
    is_paused,
    open_run,
    public_run,
    renewed,
    takeable,
)
from ._rules_claim import claim_known, claim_new
from ._storable import (
    is_sound,
    is_storable,
    names,
    printable,
    printable_owner,
    refusal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from .._runs import Run
    from .._values import Answer, OpenRun, Result, Settlement, SkipWish, Wish
    from ._rows import Rows
    from ._rules import (
        Moment,
        RunState,
        Step,
    )

    Judge = Callable[[RunState | None, Result, Ask, JobState], Step[Settlement]]

NAMED_OPEN = 10  # how many other open runs of a job a reply names
OTHER_JOBS = 20  # of so many jobs that it doesn't ask about a claim is told of ordered runs
TRIM_AT_ONCE = 100  # how many runs one closing may remove, so that every call stays short


class _EveryJob:
    """Contains every job."""

    def __contains__(self, job: object) -> bool:
        return True


EVERY_JOB = _EveryJob()

Kind = tuple[str, bool]  # a part of history: of this job, the skips or all else


# --- claim and skip ---------------------------------------------------------------


def claim(
    rows: Rows, now: Moment, wishes: Sequence[Wish], owner: Owner, wins: int, pace: Pace
) -> Claims:
    """Decide who runs these attempts, run by run in the order sent."""
    note(rows, now, owner)
    ask = Ask(printable_owner(owner), now, pace)
    paused = is_paused(rows.paused_until(), now)
    sound = [is_sound(wish) for wish in wishes]
    known = [rows.run(wish.key) if fits else None for wish, fits in zip(wishes, sound, strict=True)]
    # What is the asker's already counts, wherever it stands: one worker, one run.
    wins -= sum(holds(run, wish.wants, owner) for run, wish in zip(known, wishes, strict=True))
    answers: list[Answer] = []
    others: list[OpenRun] = []
    closed: list[Run] = []
    touched: set[RunKey] = set()
    worn: set[Kind] = set()
    orders = dict(rows.orders(EVERY_JOB))
    for wish, before, fits in zip(wishes, known, sound, strict=True):
        if not fits:
            answers.append(refusal(wish.key))
            continue
        run = rows.run(wish.key) if wish.key in touched else before
        touched.add(wish.key)
        job = wish.key.job
        facts = Facts(JobState(), paused, wins, orders=orders.get(job, ()))
        step, rest = _judge(rows, run, wish, ask, facts)
        wins -= step.starts
        worn |= _apply(rows, step)
        answers.append(_complete(rows, step, run, owner))
        if wish.key.is_ordered:
            orders[job] = rows.orders({job}).get(job, ())
        rest = [*rest[:NAMED_OPEN], *_takeable(orders, wish.key, now)]
        others += [open_run(other, owner, now) for other in rest]
        closed += [_record(rows, other) for other in step.also]
    asked = {wish.key.job for wish, fits in zip(wishes, sound, strict=True) if fits}
    others += [open_run(other, owner, now) for other in _elsewhere(orders, asked, now)]
    _trim(rows, worn, now)
    return Claims(tuple(answers), tuple(others), tuple(closed), now.wall_ms)


def _judge(
    rows: Rows, run: RunState | None, wish: Wish, ask: Ask, facts: Facts
) -> tuple[Step[Answer], list[RunState]]:
    """Return what a wish comes to, and the job's other runs that are open afterwards."""
    key = wish.key
    # Most claims are lost, and a lost one asks nothing of its job.
    starts = run is None or (run.state != "closed" and wish.wants > run.attempt)
    job = rows.job(key.job) if starts else JobState()
    others = [other for other in rows.open_runs(key.job) if other.key != key]
    facts = facts._replace(job=job, paused=facts.paused or is_paused(job.paused_until_ms, ask.now))
    if run is not None:
        return claim_known(run, wish, ask, facts), others
    newer = rows.has_newer(key.job, key.slot_ms, ask.now.wall_ms)
    step = claim_new(wish, ask, facts._replace(newer=newer, others=tuple(others)))
    gone = {other.run.key for other in step.also if other.run is not None}
    return step, [other for other in others if other.key not in gone]


def _takeable(
    orders: Mapping[str, Sequence[RunState]], asked: RunKey, now: Moment
) -> list[RunState]:
    """Return the ordered runs of a job that a reply names beside the one asked about."""
    found = takeable(orders.get(asked.job, ()), now)
    return [run for run in found if run.key != asked][:NAMED_OPEN]


def _elsewhere(
    orders: Mapping[str, Sequence[RunState]], asked: Container[str], now: Moment
) -> list[RunState]:
    """Return the ordered runs of jobs that a claim doesn't ask about, which it names as well.

    So that whoever has such a job hears of them with whatever it claims. Jobs with triggered
    runs come first, then by their names.
    """
    jobs = sorted(orders, key=lambda job: (not any(map(_is_triggered, orders[job])), job))
    named = (_takeable(orders, RunKey(job, 0), now) for job in jobs if job not in asked)
    return [run for runs in islice(filter(None, named), OTHER_JOBS) for run in runs]


def _is_triggered(run: RunState) -> bool:
    return not run.key.is_backfill


def skip(rows: Rows, now: Moment, wishes: Sequence[SkipWish], owner: Owner, pace: Pace) -> Claims:
    """Close slots as missed where nobody has them and the next one is due."""
    ask = Ask(printable_owner(owner), now, pace)
    answers: list[Answer] = []
    worn: set[Kind] = set()
    for wish in wishes:
        if not is_storable(wish.key):
            answers.append(refusal(wish.key))
            continue
        run = rows.run(wish.key)
        wish = wish._replace(detail=clean(wish.detail))  # noqa: PLW2901 - the same wish, printable
        step = ends.skip(run, wish, ask, rows.job(wish.key.job))
        worn |= _apply(rows, step)
        answers.append(_complete(rows, step, run, owner))
    _trim(rows, worn, now)
    asked = {wish.key for wish in wishes}
    others: list[OpenRun] = []
    jobs = names(wish.key.job for wish in wishes if is_storable(wish.key))
    orders = rows.orders(frozenset(jobs))
    for job in jobs:
        rest = [run for run in rows.open_runs(job) if run.key not in asked][:NAMED_OPEN]
        rest += _takeable(orders, RunKey(job, 0), now)
        others += [open_run(run, owner, now) for run in rest]
    return Claims(tuple(answers), tuple(others), (), now.wall_ms)


def _complete(rows: Rows, step: Step[Answer], before: RunState | None, owner: Owner) -> Answer:
    """Add to an answer what only the rows know: the checkpoint, or the public record."""
    answer, run = step.answer, step.run or before
    if isinstance(answer, Won) and before is not None:
        return answer._replace(checkpoint=rows.checkpoint(answer.key))
    if isinstance(answer, Closed) and run is not None and run.decided_by == owner.token:
        return answer._replace(run=_public(rows, run))
    return answer


def _record(rows: Rows, step: Step[Closed]) -> Run:
    assert step.run is not None
    return _public(rows, step.run)


def _public(rows: Rows, run: RunState) -> Run:
    """Return the record of a closed run, also when its line of history is gone."""
    row = rows.attempt(run.key, run.attempt)
    if row is None:
        status = run.status or "lost"
        row = AttemptRow(run.key, run.attempt, status, run.detail, "scheduled", None)
    return public_run(row)


# --- the ends ---------------------------------------------------------------------


def settle(
    rows: Rows,
    now: Moment,
    results: Sequence[Result],
    owner: Owner,
    judge: Judge,
) -> Settled:
    """Finish, release or record these results, whichever `judge` says."""
    ask = Ask(printable_owner(owner), now, Pace(0.0))
    answers: list[Settlement] = []
    worn: set[Kind] = set()
    for result in results:
        key = result.key
        if not is_storable(key):
            answers.append(Lost(Lease(key, result.attempt)))
            continue
        step = judge(rows.run(key), printable(result), ask, rows.job(key.job))
        worn |= _apply(rows, step)
        answers.append(step.answer)
    _trim(rows, worn, now)
    return Settled(tuple(answers), now.wall_ms)


def renew(rows: Rows, now: Moment, leases: Sequence[Lease], owner: Owner, lease_ms: int) -> Renewed:
    """Extend the leases that are still the asker's."""
    note(rows, now, owner)
    lost: list[Lease] = []
    cancelled: list[Lease] = []
    done: list[Lease] = []
    for lease in leases:
        run = rows.run(lease.key) if is_storable(lease.key) else None
        if run is None or not holds(run, lease.attempt, owner):
            (done if has_succeeded(run, lease.attempt, owner) else lost).append(lease)
            continue
        rows.extend(renewed(run, lease_ms, now))
        if run.cancel:
            cancelled.append(lease)
    return Renewed(tuple(lost), tuple(cancelled), now.wall_ms, tuple(done))


def save(rows: Rows, _now: Moment, lease: Lease, owner: Owner, value: str) -> bool:
    """Keep a checkpoint, if the attempt is still the asker's."""
    if not is_storable(lease.key) or not holds(rows.run(lease.key), lease.attempt, owner):
        return False
    rows.put_checkpoint(lease.key, value)
    return True


def cancel(rows: Rows, now: Moment, key: RunKey) -> bool:
    """Close a waiting run, flag a running one."""
    if not is_storable(key):
        return False
    step = ends.cancel(rows.run(key), Ask(Owner("", ""), now, Pace(0.0)))
    _trim(rows, _apply(rows, step), now)
    return step.answer


def alert(rows: Rows, now: Moment, keys: Sequence[RunKey], owner: Owner) -> Alerts:
    """Decide who tells that nobody has finished these slots."""
    answers: list[bool] = []
    for key in keys:
        known = is_storable(key)
        told = rows.told_of(key.job) if known else None
        tells = known and ends.may_tell(rows.run(key), key, told, owner)
        if tells and (told is None or told[0] < key.slot_ms):
            rows.put_told(key.job, key.slot_ms, owner.token)
        answers.append(tells)
    return Alerts(tuple(answers), now.wall_ms)


def trigger(rows: Rows, now: Moment, keys: Sequence[RunKey], data: str | None) -> None:
    """Put ordered runs as waiting, in place of those that nobody has taken for too long."""
    for orders in rows.orders({key.job for key in keys}).values():
        for run in orders:
            if ends.is_forgotten(run, now):
                rows.remove(run.key)
    for key in keys:
        if rows.run(key) is None:
            rows.put(ends.ordered(key, now))
            rows.put_checkpoint(key, data)


# --- looks -------------------------------------------------------


def look(rows: Rows, now: Moment, jobs: Sequence[str], owner: Owner, *, everything: bool) -> Looked:
    """Return what is wrong among the open runs of these jobs, or all of them."""
    if everything:
        note(rows, now, owner)
    orders = rows.orders(frozenset(names(jobs)))
    runs: list[OpenRun] = []
    for job in names(jobs):
        named = [*rows.open_runs(job), *_takeable(orders, RunKey(job, 0), now)]
        runs += [open_run(run, owner, now) for run in named]
    wrong = tuple(run for run in runs if everything or ends.is_wrong(run))
    others = sum(not run.mine for run in runs)
    return Looked(wrong, others, ends.next_end_ms(runs), now.wall_ms)


# --- writing ----------------------------------------------------------------------


def _apply(rows: Rows, step: Step[object]) -> set[Kind]:
    """Write what was decided, and return which parts of history may have grown too long."""
    worn = {kind for other in step.also for kind in _apply(rows, other)}
    run = step.run
    if run is None:
        return worn
    if step.extends:
        rows.extend(run)
        return worn
    rows.put(run)
    if step.ending is not None:
        rows.end_attempt(run.key, step.ended, step.ending)
    if step.opened is not None:
        rows.open_attempt(step.opened)
        _count(rows, run)
    if run.state != "closed":
        return worn
    if step.opened is None:
        rows.put_checkpoint(run.key, None)
    return worn | {(run.key.job, run.status == "skipped")}


def _count(rows: Rows, run: RunState) -> None:
    """Count a new line of history, and keep the fence."""
    job = rows.job(run.key.job)
    skipped = run.status == "skipped"
    fence = run.fence if run.fence < FENCE_LIMIT else 0
    counted = job._replace(
        fence=max(job.fence, fence),
        records=job.records + (not skipped),
        skips=job.skips + skipped,
    )
    rows.put_job(run.key.job, counted)


def _trim(rows: Rows, worn: set[Kind], now: Moment) -> None:
    """Remove what history need not keep: whole closed runs, oldest first.

    It comes last in an operation, whose answers may be about what is removed. The floor
    rises with every slot removed, so that it can't be claimed again. A manual run leaves
    no mark there: its slot is only the time at which it was asked for.
    """
    for name, skips in worn:
        job = rows.job(name)
        count, keys = _worn(rows, name, job, now, skips=skips)
        for key in keys:
            rows.remove(key)
        if keys:
            floor_ms = max([job.floor_ms, *(key.slot_ms for key in keys if not key.manual)])
            job = job._replace(floor_ms=floor_ms)
            rows.put_job(name, job._replace(skips=count) if skips else job._replace(records=count))


def _worn(
    rows: Rows, name: str, job: JobState, now: Moment, *, skips: bool
) -> tuple[int, list[RunKey]]:
    """Return the runs of a job to remove, and how many lines are left without them."""
    count, kept = (job.skips, ends.KEPT_SKIPS) if skips else (job.records, ends.KEPT_RECORDS)
    keys: list[RunKey] = []
    for run in rows.oldest(name, skips=skips):
        if not ends.may_trim(run, now):
            continue
        lines = rows.count_attempts(run.key)
        few = count - lines < ends.KEPT_ALWAYS
        if few or len(keys) == TRIM_AT_ONCE or not ends.is_worn(run, now, count, kept):
            break
        keys.append(run.key)
        count -= lines
    return count, keys
