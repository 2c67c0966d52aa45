"""The rules of the run store: its records, and the words that every guard is made of.

A store that is a shared state on one machine (memory, a SQLite file) reads the records
of a run, asks these functions what an operation answers and writes, and carries the
`Step` out, all inside one transaction. Nothing here reads a clock or a store. The guards
of a claim are in `_rules_claim`, those of all other operations in `_rules_end`.

Words: a run is *alive* while it is running and store time lies before its lease's end,
*expired* when it is running and not alive; it is *too old* when its lease ended, or it
was handed over, longer ago than the catch-up or three leases; it is *continuable* when
it wasn't cancelled, isn't too old, and waits or has a death left in its budget. The
*witness* of a run is its lease less the margin by which its owner gives up early.

Lease time is the clock that judges leases. Where it can't step (`Moment.steady`), the
store's word that a lease has ended is enough. Where it can, a takeover also needs the
asker's own clock: either the two kept pace for the length of the witness, or the asker
saw the same renewal for that long. The same renewal seen for a whole lease is always
enough, whatever the store's clock says. Slots, the fence and *too old* use wall time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

from .._named import NamedTuple
from .._values import (
    Closed,
    OpenRun,
    instant,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._runs import Run
    from .._values import (
        Owner,
        Pace,
        Reason,
        RunKey,
        Status,
        Wish,
    )

State: TypeAlias = Literal["running", "waiting", "closed"]
A_co = TypeVar("A_co", covariant=True)
B = TypeVar("B")

FENCE_LIMIT = 2**53  # what JSON and JavaScript can still count
NO_FLOOR = -(2**53)
FOREVER = 2**53


class Moment(NamedTuple):
    """Store time, read inside the operation. `steady`: the lease clock can't step."""

    wall_ms: int
    lease_ms: int
    boot: str = ""
    steady: bool = True


class RunState(NamedTuple):
    """What is kept of a run: everything that a guard may consult.

    `owner` is the token that holds, or last held, attempt `attempt`. The lease's end is
    kept twice: by lease time of the boot named, and by wall time; of a waiting run the
    latter is the moment of the release. `deaths` counts the attempts that ended without
    their owner's word, `budget` is how many the winner of this attempt allows.
    """

    key: RunKey
    state: State
    attempt: int
    owner: str = ""
    end_ms: int = 0
    wall_end_ms: int = 0
    boot: str = ""
    lease_ms: int = 0
    heartbeat_ms: int = 0
    beat: int = 0
    fence: int = 0
    deaths: int = 0
    budget: int = 0
    catch_up_ms: int = 0
    cancel: int = 0
    status: Status | None = None
    detail: str | None = None
    decided_by: str = ""
    since_ms: int = 0


class JobState(NamedTuple):
    """What is kept of a job; `records` and `skips` count its lines of history."""

    fence: int = 0
    floor_ms: int = NO_FLOOR
    paused_until_ms: int = 0
    records: int = 0
    skips: int = 0


class AttemptRow(NamedTuple):
    """A line of history: one attempt of a run."""

    key: RunKey
    attempt: int
    status: Status
    detail: str | None
    reason: Reason
    instance: str | None
    started_ms: int | None = None
    finished_ms: int | None = None
    duration_ms: int | None = None
    error: str | None = None
    traceback: str | None = None


class Ending(NamedTuple):
    """How a line of history ends; whatever is None leaves what is there."""

    status: Status
    detail: str | None
    finished_ms: int | None
    error: str | None = None
    traceback: str | None = None
    started_ms: int | None = None
    duration_ms: int | None = None


class Step(NamedTuple, Generic[A_co]):
    """What an operation answers for one run, and what it writes.

    `run` is what the run becomes, `ending` how the attempt named by `ended` ends, `opened`
    a new line of history, `also` the runs of other slots that are closed in passing.
    A step whose `run` differs in its lease alone says so by `extends`.
    """

    answer: A_co
    run: RunState | None = None
    ended: int = 0
    ending: Ending | None = None
    opened: AttemptRow | None = None
    also: tuple[Step[Closed], ...] = ()
    extends: bool = False

    @property
    def starts(self) -> bool:
        """Whether an attempt starts by this step."""
        return self.opened is not None and self.opened.status == "running"

    def with_answer(self, answer: B) -> Step[B]:
        """Return the same writes under another answer."""
        return Step(answer, self.run, self.ended, self.ending, self.opened, self.also, self.extends)


class Ask(NamedTuple):
    """Who asks, when, and what the asker's own clock says."""

    owner: Owner
    now: Moment
    pace: Pace


class Facts(NamedTuple):
    """What a claim needs to know beside the run itself.

    `newer`: a later slot of the job, not after store time, is recorded. `others`: the
    open runs of the job's other slots, oldest first; `orders`: its open ordered runs. `wins`:
    how many the asker may still win.
    """

    job: JobState
    paused: bool
    wins: int
    newer: bool = False
    others: tuple[RunState, ...] = ()
    orders: Sequence[RunState] = ()


# --- words ------------------------------------------------------------------------


def margin_ms(lease_ms: int) -> float:
    """Return how long before its lease's end an owner gives up."""
    return max(lease_ms / 10, 250)


def left_ms(run: RunState, now: Moment) -> int:
    """Return how much of the lease is left; after another boot of the host, nothing."""
    if run.boot != now.boot:
        return min(0, run.wall_end_ms - now.wall_ms)
    return run.end_ms - now.lease_ms


def alive(run: RunState, now: Moment) -> bool:
    """Whether the run is running under a lease that hasn't ended."""
    return run.state == "running" and left_ms(run, now) > 0


def too_old(run: RunState, now: Moment, catch_up_ms: int) -> bool:
    """Whether the lease ended, or the run was handed over, too long ago to go on."""
    return now.wall_ms - run.wall_end_ms > max(catch_up_ms, 3 * run.lease_ms)


def continuable(run: RunState, now: Moment, catch_up_ms: int) -> bool:
    """Whether an open run may have another attempt."""
    if run.cancel or too_old(run, now, catch_up_ms):
        return False
    return run.state == "waiting" or run.deaths + 1 < run.budget


def is_paused(until_ms: int, now: Moment) -> bool:
    """Whether a pause that was set until `until_ms` is on."""
    return now.wall_ms < until_ms


def holds(run: RunState | None, attempt: int, owner: Owner) -> bool:
    """Whether this attempt is running and the asker's, expired or not."""
    return (
        run is not None
        and run.state == "running"
        and run.owner == owner.token
        and run.attempt == attempt
    )


def has_succeeded(run: RunState | None, attempt: int, owner: Owner) -> bool:
    """Whether this attempt was the asker's, and is recorded as a success."""
    return (
        run is not None
        and run.status == "success"
        and run.owner == owner.token
        and run.attempt == attempt
    )


def has_ended(run: RunState, wish: Wish, ask: Ask) -> bool:
    """Whether the asker may take the lease that it saw for ended."""
    unseen_ms = -1.0
    if wish.first_seen is not None:
        # Whole microseconds: the noise of floats must not cost a heartbeat.
        unseen_ms = round((ask.pace.sent - wish.first_seen) * 1000, 3)
    if unseen_ms >= run.lease_ms:
        return True
    witness_ms = run.lease_ms - margin_ms(run.lease_ms)
    witnessed = unseen_ms >= witness_ms or _agree(run, ask, witness_ms)
    return left_ms(run, ask.now) <= 0 and witnessed


def _agree(run: RunState, ask: Ask, witness_ms: float) -> bool:
    """Whether the store's clock kept pace with the asker's for the length of the witness."""
    if ask.now.steady:
        return True
    moved_ms = abs(ask.now.lease_ms - ask.pace.expected_ms)
    return moved_ms < margin_ms(run.lease_ms) / 2 and ask.pace.steady_ms >= witness_ms


def next_fence(job_fence: int, seen: int, now: Moment) -> int:
    """Return a fence above the job's last one, the highest seen, and the time in µs.

    A value that leaves no room below the limit is nonsense and doesn't count.
    """
    sound = (value for value in (seen + 1, now.wall_ms * 1000) if value < FENCE_LIMIT)
    return min(max(job_fence + 1, *sound, 0), FENCE_LIMIT - 1)


def renewed(run: RunState, lease_ms: int, now: Moment) -> RunState:
    """Return the run with its lease counted from now, and one beat more."""
    return run._replace(
        end_ms=now.lease_ms + lease_ms,
        wall_end_ms=now.wall_ms + lease_ms,
        boot=now.boot,
        lease_ms=lease_ms,
        beat=run.beat + 1,
    )


def is_order(run: RunState) -> bool:
    """Whether a run bears on what the fleet is still asked for: it waits, or holds others up."""
    return run.key.is_ordered and (run.state == "waiting" or run.key.is_backfill)


def takeable(orders: Sequence[RunState], now: Moment) -> list[RunState]:
    """Return which of a job's ordered runs may be claimed: of backfills one at a time, in order."""
    backfills = [run for run in orders if run.key.is_backfill]
    first = next((run for run in backfills if run.state == "waiting"), None)
    if any(alive(run, now) for run in backfills):
        first = None
    return [
        run
        for run in orders
        if run is first or (run.state == "waiting" and not run.key.is_backfill)
    ]


def open_run(run: RunState, owner: Owner, now: Moment) -> OpenRun:
    """Return an open run as the asker is told of it."""
    running = run.state == "running"
    return OpenRun(
        run.key,
        "running" if running else "waiting",
        run.attempt,
        run.beat,
        left_ms(run, now) if running else 0,
        run.lease_ms,
        run.heartbeat_ms,
        run.owner,
        mine=running and run.owner == owner.token,
    )


def public_run(row: AttemptRow) -> Run:
    """Return a line of history as the public record."""
    from .._runs import Run

    key = row.key
    return Run(
        run_id=key.run_id,
        job=key.job,
        slot=key.slot_ms,
        scheduled_at=instant(key.slot_ms),
        attempt=row.attempt,
        status=row.status,
        detail=row.detail,
        reason=row.reason,
        manual=bool(key.manual),
        instance_id=row.instance,
        started_at=None if row.started_ms is None else instant(row.started_ms),
        finished_at=None if row.finished_ms is None else instant(row.finished_ms),
        duration_ms=row.duration_ms,
        error=row.error,
        traceback=row.traceback,
    )


# --- closing ----------------------------------------------------------------------


def died_text(deaths: int) -> str:
    """Return what history says of a run whose budget of deaths is used up."""
    return f"runner died {deaths} time{'' if deaths == 1 else 's'}"


def close_run(run: RunState, ask: Ask, ending: Ending) -> Step[Closed]:
    """Close an open run in the asker's name."""
    closed = run._replace(
        state="closed",
        status=ending.status,
        detail=ending.detail,
        decided_by=ask.owner.token,
        since_ms=ask.now.wall_ms,
    )
    return Step(closed_answer(closed), run=closed, ended=run.attempt, ending=ending)


def closed_answer(run: RunState) -> Closed:
    """Return the answer that names a closed run's outcome and who decided it."""
    return Closed(run.key, run.status or "lost", run.detail, run.decided_by)


def close_new(key: RunKey, ask: Ask, status: Status, detail: str) -> Step[Closed]:
    """Record a slot that nobody will run, closed from the start."""
    run = RunState(
        key,
        "closed",
        1,
        status=status,
        detail=detail,
        decided_by=ask.owner.token,
        since_ms=ask.now.wall_ms,
    )
    row = AttemptRow(
        key,
        1,
        status,
        detail,
        "scheduled",
        ask.owner.instance_id,
        finished_ms=ask.now.wall_ms,
    )
    return Step(closed_answer(run), run=run, opened=row)


def trimmed(key: RunKey) -> Closed:
    """Return the answer for a run whose record is gone: decided, nobody knows how."""
    return Closed(key, "skipped", "trimmed", "")
