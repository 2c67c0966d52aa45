"""What goes into the core, and what comes out of it: frozen, without behaviour.

An `Input` is something that happened: time passed, a store call was answered, a handler
ended. An `Action` is something to do: ask the store, call a handler, abort a signal, tell
somebody. Instants without a unit in their name are seconds of the monotonic clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from ._named import NamedTuple

if TYPE_CHECKING:
    from ._runs import Run
    from ._values import (
        AbortReason,
        Alerts,
        Claims,
        Lease,
        Looked,
        Reason,
        Renewed,
        Result,
        RunEvent,
        RunKey,
        Settled,
        SkipWish,
        Terms,
        Wish,
    )

# --- into the core ----------------------------------------------------------------


class Now(NamedTuple):
    """The fleet's reading of the time, which may step, and the monotonic clock."""

    wall_ms: int
    mono: float


class SlotSource(Protocol):
    """A schedule in milliseconds; both are pure, and either may raise."""

    def next_after_ms(self, t_ms: int) -> int | None:
        """Return the least slot greater than `t_ms`."""
        ...

    def latest_ms(self, t_ms: int) -> int | None:
        """Return the greatest slot at or before `t_ms`."""
        ...


class NotYet(Exception):
    """What a schedule raises that answers later; `Core.schedule_answered` brings the answer."""


class Later(NamedTuple):
    """The answer of a schedule that said `NotYet`: a slot, None, or what it raised."""

    schedule: SlotSource
    method: Literal["next_after_ms", "latest_ms"]
    t_ms: int
    answer: int | BaseException | None


class JobSpec(NamedTuple):
    """A job as the core needs it; `job` is the shell's own object, passed back in `StartRun`."""

    name: str
    schedule: SlotSource
    terms: Terms
    jitter: float
    timeout: float | None
    job: Any = None
    expect_ms: int | None = None  # how long after its slot a run is to be finished


class Settings(NamedTuple):
    """What one core runs with.

    `leases` is False on a claim-only backend. `control`: a look for what the fleet is asked for
    each so many seconds, also by an instance that has nothing else to ask.
    """

    lease: float
    heartbeat: float
    workers: int
    instance_id: str
    token: str = ""  # this instance's owner token
    leases: bool = True
    control: float | None = None

    @property
    def margin(self) -> float:
        """Seconds before the lease's end at which its holder gives up."""
        return max(self.lease / 10, 0.25)


class Tick(NamedTuple):
    """Nothing happened but the passing of time."""


class Answered(NamedTuple):
    """A store call was answered. `agrees`: the store's clock kept pace with ours.

    `sent` and `received` are the asker's monotonic clock right around the call.
    """

    call: StoreCall
    answer: Claims | Renewed | Looked | Settled | Alerts
    sent: float
    received: float
    agrees: bool = True


class Failed(NamedTuple):
    """A store call got no answer; its effect is unknown."""

    call: StoreCall
    error: BaseException


class Ended(NamedTuple):
    """A handler ended: it returned (`error` is None) or raised.

    `aborted`: what it raised was `Aborted`, which is no error worth keeping.
    """

    lease: Lease
    error: str | None = None
    traceback: str | None = None
    aborted: bool = False
    unstarted: bool = False  # no thread could be had: the handler was never called


class Completing(NamedTuple):
    """A handler asks whether it may record its success in a transaction of its own.

    `reply` is the shell's own object, passed back in `Granted`.
    """

    lease: Lease
    reply: Any


class RunNow(NamedTuple):
    """Run a job now on this instance, whatever its schedule."""

    key: RunKey
    data: Any
    has_data: bool = False  # the caller brought data of its own, be it None


class Ordered(NamedTuple):
    """The fleet was asked for runs of a job by this process: see whether one is to be had."""

    job: str


class Stop(NamedTuple):
    """Stop within `timeout` seconds; don't wait for the runs in `spare` to report `Drained`."""

    timeout: float
    spare: frozenset[Lease] = frozenset()


Input: TypeAlias = Tick | Answered | Failed | Ended | Completing | RunNow | Ordered | Stop


# --- out of the core --------------------------------------------------------------


class Claim(NamedTuple):
    """Ask for these runs, and win at most `wins` of them."""

    wishes: tuple[Wish, ...]
    wins: int


class Finish(NamedTuple):
    """Close these attempts."""

    results: tuple[Result, ...]


class Release(NamedTuple):
    """Hand these attempts over."""

    results: tuple[Result, ...]


class Skip(NamedTuple):
    """Close these slots as missed."""

    wishes: tuple[SkipWish, ...]


class Alert(NamedTuple):
    """Ask which of these slots, that nobody seems to have finished, are to be told of here."""

    keys: tuple[RunKey, ...]


class Unfinished(NamedTuple):
    """Ask for every open run of these jobs."""

    jobs: tuple[str, ...]


class RecordManual(NamedTuple):
    """Write these manual runs down as running."""

    results: tuple[Result, ...]


class Renew(NamedTuple):
    """Extend these leases."""

    leases: tuple[Lease, ...]


class Look(NamedTuple):
    """Ask what is wrong among the open runs of these jobs."""

    jobs: tuple[str, ...]


LaneCall: TypeAlias = Claim | Finish | Release | Skip | Unfinished | RecordManual | Alert
KeeperCall: TypeAlias = Renew | Look
StoreCall: TypeAlias = LaneCall | KeeperCall


class StartRun(NamedTuple):
    """Call the handler of this attempt."""

    lease: Lease
    reason: Reason
    fence: int
    checkpoint: str | None
    spec: JobSpec
    data: Any = None
    has_data: bool = False  # a manual run that brought its own data; an ordered one as JSON
    started_ms: int = 0


class Abort(NamedTuple):
    """Abort the signal of this attempt."""

    lease: Lease
    reason: AbortReason


class Granted(NamedTuple):
    """The answer to `Completing`: from now on that transaction decides, or it is too late."""

    reply: Any
    granted: bool


class Emit(NamedTuple):
    """A run event: log it and tell the listeners."""

    event: RunEvent
    run: Run


class Overdue(NamedTuple):
    """Nobody has finished a slot in the time that its job says."""

    key: RunKey
    spec: JobSpec


class Note(NamedTuple):
    """Something for the log alone.

    `kind` is one of ``taken``, ``stuck``, ``schedule``, ``unpaced`` (heartbeat late),
    ``left`` (still running when stop timed out); `key` and `detail` say which and why.
    A ``schedule`` without a detail works again.
    """

    kind: Literal["taken", "stuck", "schedule", "late", "left"]
    key: RunKey
    detail: str = ""


class StoreDown(NamedTuple):
    """An outage began: a call failed and so did its immediate repeat."""

    error: BaseException


class StoreUp(NamedTuple):
    """The outage is over."""


class Return(NamedTuple):
    """A manual run has its result; whoever waits for it may have it."""

    key: RunKey
    run: Run


class Drained(NamedTuple):
    """Everything is done except the runs that `Stop` spared."""


class Stopped(NamedTuple):
    """The core is done and will send nothing more."""


Action: TypeAlias = (
    StoreCall
    | StartRun
    | Abort
    | Granted
    | Emit
    | Overdue
    | Note
    | StoreDown
    | StoreUp
    | Return
    | Drained
    | Stopped
)
