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
connection it used is thrown away. `history`, `pause`, `resume` and `cancel` also work on
a backend that isn't open, on a short connection of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._runs import Run
    from .._values import (
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

FORMAT_VERSION = 1


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


class LeaseBackend(ClaimBackend):
    """A store that also keeps leases: takeover, hand-over and catch-up are possible."""

    @abstractmethod
    def renew(self, leases: Sequence[Lease], *, owner: Owner, lease_ms: int) -> Renewed:
        """Extend these leases; never creates a record, never looks at the lease's end."""

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
