"""The interface between the scheduler and a store: one method, one atomic operation.

A store keeps, for every run, who may run it and how far it got, and for every attempt
a line of history. Each method below is one round trip and one atomic step: a
compare-and-set on (job, slot, attempt, owner token), so that it can be repeated after a
lost reply. What another instance did in between is an *answer*, never an exception; an
exception means only that the store could not be asked. Guards compare owner and
attempt, never the lease's end, except where a claim takes a run over.

Two capabilities are two classes. A `ClaimBackend` decides one winner per slot and keeps
a history; a `LeaseBackend` also knows leases, so that runs can be renewed, watched,
handed over and taken over.

Threads: every method except `open` and `close` may be called from any thread, several
at a time; a backend that needs a connection per thread keeps it so by itself. Time: each
call ends within the limits given to `open`, by an answer or by an exception (any
`Exception`; `BackendUnavailable` where the store is to blame). After a failed call the
connection it used is thrown away. `history`, `pause`, `resume`, `cancel`, `trigger` and
`instances` also work on a backend that isn't open, on a short connection of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal, TypeAlias

from .._values import Presences
from ..errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._runs import Run
    from .._values import (
        Alerts,
        Claims,
        Lease,
        Limits,
        Looked,
        Owner,
        Pace,
        Renewed,
        Result,
        RunKey,
        ServerInfo,
        Settled,
        SkipWish,
        Status,
        Wish,
    )

Holding: TypeAlias = Literal["held", "lost", "done"]  # done: it was completed before

FORMAT_VERSION = 1

_NOT_HERE = (
    "{!r} shares no transactions: ctx.fenced() and ctx.complete() need a PostgresBackend, or a "
    "SqliteBackend on the file that the transaction writes to. For other databases there is "
    "ctx.fence: UPDATE ... SET fence = %s WHERE ... AND fence < %s."
)


class ClaimBackend(ABC):
    """A store that decides one winner per slot and keeps a history."""

    namespace: str = "anarchon"

    @abstractmethod
    def open(self, limits: Limits) -> ServerInfo:
        """Connect, check the server's version and the format of what is stored.

        Called once by `start`, before any other call, and again after `close`. Raises
        `BackendUnavailable` within ``limits.connect`` seconds, `ServerTooOld`, or
        `BackendError` when what is stored has a newer format.
        """

    @abstractmethod
    def prepare(self, jobs: Sequence[str]) -> None:
        """Create what the store needs; safe when many instances do so at once."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections that this backend opened; never raises."""

    def abandon(self) -> None:
        """Forget every connection and lock without touching it: this is a forked child."""
        return

    @abstractmethod
    def claim(self, wishes: Sequence[Wish], *, owner: Owner, wins: int, pace: Pace) -> Claims:
        """Decide who runs these attempts; the asker wins at most `wins`.

        A wish names its attempt, so a repeat can win only that one; repeated by the
        owner it extends the lease as a renewal does and answers `Won` again. With
        ``wins=0`` it extends what is the asker's, records skips, closes what is dead
        and starts nothing. Answers come in the order of the wishes, at most one wish
        per job.
        """

    @abstractmethod
    def finish(self, results: Sequence[Result], *, owner: Owner) -> Settled:
        """Close these attempts with their outcomes, and trim history in passing.

        `Recorded` (on a repeat: the outcome as stored, unchanged) or `Lost`. A result
        whose run has no record, above the floor, is inserted closed. A manual run that
        was never recorded is inserted closed as well.
        """

    @abstractmethod
    def record_manual(self, results: Sequence[Result], *, owner: Owner, lease_ms: int) -> Settled:
        """Insert manual runs as running; `Recorded`, also on a repeat."""

    @abstractmethod
    def skip(self, wishes: Sequence[SkipWish], *, owner: Owner, pace: Pace) -> Claims:
        """Close these slots as missed where nobody has them and the next slot is due."""

    @abstractmethod
    def history(
        self,
        job: str | None,
        *,
        limit: int,
        before: Run | None = None,
        status: Status | None = None,
    ) -> list[Run]:
        """Return attempts, newest slot first and within a slot the newest attempt first.

        A running record whose lease ended and that nobody may continue reads ``lost``.
        """

    @abstractmethod
    def pause(self, job: str | None, *, duration_ms: int | None) -> None:
        """Stop starts of one job, or of every job (None), for ever or for a time."""

    @abstractmethod
    def resume(self, job: str | None) -> None:
        """End a pause of one job, or the one of every job (None)."""

    def present(self, owner: Owner) -> None:
        """Keep what the asker says of itself, as `Owner.presence`; None: forget it.

        A claim, a renewal and `unfinished` keep it in passing, by the same round trip. What is
        a day past its `expected_ms` is removed. A store that keeps nothing of that kind does
        nothing here, and shows no `instances`.
        """
        del owner

    def instances(self) -> Presences:
        """Return the instances that the store has heard from; it needn't be open."""
        return Presences((), 0)


class LeaseBackend(ClaimBackend):
    """A store that also keeps leases: takeover, hand-over and catch-up are possible."""

    @abstractmethod
    def renew(self, leases: Sequence[Lease], *, owner: Owner, lease_ms: int) -> Renewed:
        """Extend these leases; never creates a record, never looks at the lease's end.

        One whose attempt is recorded as a success, and was the asker's, is `done` and not lost.
        """

    @abstractmethod
    def look(self, jobs: Sequence[str], *, owner: Owner) -> Looked:
        """Return what is wrong among the open runs of these jobs; writes nothing.

        Wrong is: waiting; not renewed for 1.5 of its heartbeats; renewed after store
        time; or past its lease.
        """

    @abstractmethod
    def unfinished(self, jobs: Sequence[str], *, owner: Owner) -> Looked:
        """Return every open run of these jobs, in the form of `look`."""

    @abstractmethod
    def release(self, results: Sequence[Result], *, owner: Owner) -> Settled:
        """Hand these attempts over now.

        `Released`; `Recorded` when that closes the run (it was cancelled, or the end
        was counted and used the budget up); `Lost` when it isn't the asker's.
        """

    @abstractmethod
    def save(self, lease: Lease, *, owner: Owner, value: str) -> bool:
        """Keep a checkpoint for the next attempt; False when the run isn't the asker's."""

    @abstractmethod
    def cancel(self, key: RunKey) -> bool:
        """Close a waiting run, flag a running one; False when no such run is open."""

    @abstractmethod
    def alert(self, keys: Sequence[RunKey], *, owner: Owner) -> Alerts:
        """Decide who tells that nobody has finished these slots; True: the asker does.

        Nobody does where the run is closed as a success, failed, interrupted, or skipped for
        another reason than an overlap; nor where this slot or a newer one of the job was told of
        by somebody else. A repeat by who tells is answered so again. The keys are of slots, each
        of another job.
        """

    @abstractmethod
    def trigger(self, keys: Sequence[RunKey], *, data: str | None) -> None:
        """Put manual runs as waiting for their first attempt; a repeat changes nothing.

        The keys are ordered ones (`RunKey.is_ordered`), and `data` is JSON that whoever wins one
        is given as its checkpoint. A claim, a skip, a look and `unfinished` name them among the
        open runs of the jobs that they ask about, and a claim behind those what is ordered of up
        to 20 other jobs: all that were triggered, oldest first, and of
        backfilled slots the oldest, while none of them is running; together as many as of other
        open runs. Whoever wins attempt 1 has a manual run: its terms have no budget, no guard of
        a slot applies, and only a pause of the job keeps backfilled slots waiting. Of these a
        claim gives the oldest alone, and closes one whose runner died. What has waited for as
        long as history is kept, and isn't claimed, is removed with the next one of its job.
        """

    def fence(self, connection: object, lease: Lease, *, owner: Owner) -> Holding:
        """Make every later attempt of a run wait for the transaction of this connection.

        `connection` is the user's, to the store's own database, and has a transaction of the
        user's. Renewals go on meanwhile. A store that has no transactions to share keeps this
        method, which refuses; so it does for the next two.

        Raises:
            ConfigurationError: The connection can't be used for this, or no connection can.
            Exception: Whatever the user's own driver raises.
        """
        del connection, lease, owner
        raise ConfigurationError(_NOT_HERE.format(self))

    def complete(self, connection: object, result: Result, *, owner: Owner) -> Holding:
        """Record a success in the transaction of this connection, and hold the run as `fence`.

        Once that is committed no attempt follows, whatever becomes of this process. Of a result
        with `completes`, `finish` and `release` say `Recorded` then, with the success; they say
        `Undecided` as long as the transaction is open; and else the transaction is over, and
        never was a success.
        """
        del connection, result, owner
        raise ConfigurationError(_NOT_HERE.format(self))

    def refuse(self, connection: object) -> None:
        """Make sure that the transaction of this connection isn't committed; never raises.

        It was asked about a run that is somebody else's, so its effect must not be seen.
        """
        del connection
