"""The values that cross threads and the store's border: frozen, without behaviour.

Nouns as in the specification. A `RunKey` is the identity of a run, a `Lease` the
right to one attempt of it, a `Run` (``_runs.py``) the public record of an attempt. Below
them come the questions put to a store and its answers; what goes into the core and comes
out of it is in ``_messages.py``.

Instants are whole milliseconds since 1970 UTC and end in ``_ms``, as do durations
that cross the store's border. Names that end in nothing else are seconds of the
asker's own monotonic clock, which never leave the process.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from ._named import NamedTuple

if TYPE_CHECKING:
    from ._runs import Run

Status: TypeAlias = Literal[
    "running", "success", "failed", "interrupted", "skipped", "missed", "lost"
]
Reason: TypeAlias = Literal["scheduled", "manual", "catch-up", "takeover"]
AbortReason: TypeAlias = Literal["stop", "timeout", "lost", "cancel"]
RunEvent: TypeAlias = Literal[
    "started", "success", "failure", "interrupted", "skipped", "missed", "takeover", "lost"
]

LATEST_MS = 253_402_300_800_000  # the end of the year 9999, where datetimes end as well

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(ms: int) -> datetime:
    """Return the aware UTC datetime of an instant in milliseconds."""
    return _EPOCH + timedelta(milliseconds=ms)


def milliseconds(when: datetime) -> int:
    """Return an aware datetime in whole milliseconds since 1970 UTC, rounded down."""
    return (when - _EPOCH) // timedelta(milliseconds=1)


def moment(when: datetime) -> str:
    """Return an aware UTC datetime as ISO text with milliseconds and a ``Z``."""
    return when.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


HISTORY_MS = 30 * 24 * 3_600_000  # how long history is kept, and what the fleet is asked for

TRIGGERED = "trigger-"  # how the tokens begin of runs that the fleet was asked for
BACKFILLED = "backfill-"


class RunKey(NamedTuple):
    """The identity of a run: a slot of a job, or one manual call (its token)."""

    job: str
    slot_ms: int
    manual: str = ""

    @property
    def run_id(self) -> str:
        """The text that names this run in history."""
        return self.manual or f"{self.job}@{self.slot_ms}"

    @property
    def is_called(self) -> bool:
        """Whether one instance was asked for it by a call, of which a thread may wait for it."""
        return bool(self.manual) and not self.is_ordered

    @property
    def is_ordered(self) -> bool:
        """Whether the fleet was asked for it, and no instance of its own."""
        return self.manual.startswith((TRIGGERED, BACKFILLED))

    @property
    def is_backfill(self) -> bool:
        """Whether it is a past slot that the fleet was asked for: these come one at a time."""
        return self.manual.startswith(BACKFILLED)


class Lease(NamedTuple):
    """The right to one attempt of a run."""

    key: RunKey
    attempt: int


class Presence(NamedTuple):
    """What an instance says of itself, as JSON: it is shown and compared, and decides nothing.

    `expected_ms` is until when the store hears from it again at the latest, by store time;
    `state` is what changes, `about` what seldom does (None: as it was told before).
    """

    expected_ms: int
    state: str
    about: str | None = None


class Owner(NamedTuple):
    """Who asks: the random token that decides ownership, and a name for people.

    With a `presence`, which a claim, a renewal and `unfinished` keep in passing.
    """

    token: str
    instance_id: str
    presence: Presence | None = None


# --- questions to a store ---------------------------------------------------------


class Limits(NamedTuple):
    """How long a store call may take, in seconds."""

    connect: float = 5.0
    quick: float = 2.0  # renew, look
    call: float = 4.0  # everything else


class Finding(NamedTuple):
    """Something about a server that may cost runs: its name, and what it is and the fix."""

    name: str
    text: str


class ServerInfo(NamedTuple):
    """What `open` found. `steady`: the clock that judges leases can't step.

    Each of the `findings` is told once, as a warning, when the scheduler has started. `trip` is
    how many seconds the request took that read `store_ms`, and `age` how many have passed since
    its answer: `open` may have loaded a driver before, and asked for more afterwards.
    """

    store: str
    version: str
    store_ms: int
    steady: bool
    findings: tuple[Finding, ...] = ()
    trip: float | None = None  # unknown: as long as `open` itself
    age: float = 0.0


class Terms(NamedTuple):
    """What a job asks of the store for each of its runs.

    `budget` is ``max_attempts``, and 0 for ``on_crash="abandon"``.
    """

    lease_ms: int
    heartbeat_ms: int
    budget: int
    skip_overlap: bool
    catch_up_ms: int


class Wish(NamedTuple):
    """One run in a claim: the attempt it names, and what the asker saw of the last one.

    `wants` is 1, or n+1 after attempt n was seen with `beat` renewals, first at
    `first_seen` (the asker's monotonic clock; None: never seen).
    """

    key: RunKey
    wants: int
    reason: Reason
    terms: Terms
    beat: int = -1
    first_seen: float | None = None
    fence_seen: int = 0


class Pace(NamedTuple):
    """What a claim says about the asker's clock, stamped when it is sent.

    `sent` is the asker's monotonic clock. `expected_ms` is what store time should then
    be, judged by that clock, and `steady_ms` for how long store time has kept pace
    with it (0: unknown); stores whose lease clock can't step ignore both.
    """

    sent: float
    expected_ms: int = 0
    steady_ms: int = 0
    tolerance_ms: int = 1000


class Result(NamedTuple):
    """How an attempt ended, as `finish` and `release` record it."""

    key: RunKey
    attempt: int
    status: Status
    reason: Reason
    started_ms: int
    duration_ms: int
    detail: str | None = None
    error: str | None = None
    traceback: str | None = None
    fence: int = 0
    counted: bool = False  # for release: this end counts against the budget
    completes: bool = False  # its success was to be recorded in a transaction of the handler's


class SkipWish(NamedTuple):
    """A slot to close as missed; allowed once the job's next slot is due."""

    key: RunKey
    next_ms: int
    detail: str


# --- answers of a store -----------------------------------------------------------


class OpenRun(NamedTuple):
    """An open run as the store sees it now. `left_ms` is negative after the lease's end."""

    key: RunKey
    state: Literal["running", "waiting"]
    attempt: int
    beat: int = 0
    left_ms: int = 0
    lease_ms: int = 0
    heartbeat_ms: int = 0
    owner: str = ""
    mine: bool = False


class Won(NamedTuple):
    """The asker holds this attempt for `left_ms`, counted from the sending."""

    key: RunKey
    attempt: int
    left_ms: int
    fence: int
    checkpoint: str | None = None


class Held(NamedTuple):
    """The run is running under somebody's lease."""

    key: RunKey
    run: OpenRun


class Waiting(NamedTuple):
    """The run was handed over and waits for its next attempt."""

    key: RunKey
    attempt: int


class Closed(NamedTuple):
    """The run is decided. `run` is its record if this very token decided it."""

    key: RunKey
    status: Status
    detail: str | None
    by: str
    run: Run | None = None


class Free(NamedTuple):
    """Nobody has it, but the bound on wins was reached."""

    key: RunKey


class Suspect(NamedTuple):
    """Blocked by a dead run that must be closed with a witness first."""

    key: RunKey
    other: OpenRun


class Early(NamedTuple):
    """Not due by the store's clock for another `wait_ms`."""

    key: RunKey
    wait_ms: int


class Missing(NamedTuple):
    """A later attempt was asked for, but the store has no record of the run."""

    key: RunKey


Answer: TypeAlias = Won | Held | Waiting | Closed | Free | Suspect | Early | Missing


class Claims(NamedTuple):
    """The answers to a claim or a skip, one per run in the order sent.

    `open` names up to ten other open runs of each job asked about, oldest first;
    `closed` the runs of other slots that this call closed in passing.
    """

    answers: tuple[Answer, ...]
    open: tuple[OpenRun, ...]
    closed: tuple[Run, ...]
    store_ms: int


class Renewed(NamedTuple):
    """Which leases are gone, and which runs somebody asked to cancel.

    `done` are those whose attempts are recorded as successes, by a transaction of the handler's
    perhaps, which is still running.
    """

    lost: tuple[Lease, ...]
    cancelled: tuple[Lease, ...]
    store_ms: int
    done: tuple[Lease, ...] = ()


class Looked(NamedTuple):
    """What is wrong among the open runs of some jobs.

    `others` counts the open runs that the asker does not hold; `next_end_ms` is the
    time until the earliest of their lease ends that is still ahead.
    """

    wrong: tuple[OpenRun, ...]
    others: int
    next_end_ms: int | None
    store_ms: int


class Recorded(NamedTuple):
    """The end is written; `status` is what the store keeps, also on a repeat."""

    lease: Lease
    status: Status
    detail: str | None = None


class Released(NamedTuple):
    """The run waits for its next attempt."""

    lease: Lease


class Lost(NamedTuple):
    """Somebody else has the run, or it was decided without this attempt."""

    lease: Lease


class Undecided(NamedTuple):
    """A transaction of the handler's is still open, and decides; to be asked again."""

    lease: Lease


Settlement: TypeAlias = Recorded | Released | Lost | Undecided


class Present(NamedTuple):
    """What the store keeps of an instance, and when it heard from it last."""

    token: str
    seen_ms: int
    expected_ms: int
    state: str
    about: str


class Presences(NamedTuple):
    """The instances that a store has heard from."""

    instances: tuple[Present, ...]
    store_ms: int


class Alerts(NamedTuple):
    """Whether the asker is the one that tells of each of some slots which nobody finished."""

    answers: tuple[bool, ...]
    store_ms: int


class Settled(NamedTuple):
    """The answers to a finish, a release or a manual record, one per item."""

    answers: tuple[Settlement, ...]
    store_ms: int
