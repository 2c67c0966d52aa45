"""What the stores on one machine have in common: every operation, over rows kept somewhere.

A subclass says how to run a function over `Rows` inside a transaction, for reading or
for writing, and how to open and close what it keeps. Store time comes from `_time`: wall
time for slots, fences and age, lease time for leases. Both are read inside the
transaction. They can be replaced, by a clock moved by hand or by a simulator's.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from . import _operations as operations
from . import _operations_kept as kept
from . import _rules_end as ends
from ._opened import Opened
from ._rules import Moment
from ._storable import check_checkpoint, check_job, check_manual, check_orders

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._runs import Run
    from .._values import (
        Alerts,
        Claims,
        Lease,
        Looked,
        Owner,
        Pace,
        Presences,
        Renewed,
        Result,
        RunKey,
        Settled,
        SkipWish,
        Status,
        Wish,
    )
    from ._rows import Rows

T = TypeVar("T")


class Clock(Protocol):
    """Where a local store takes its time from."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 UTC."""
        ...

    def lease_ms(self) -> int:
        """Return milliseconds of a clock that every instance on this store shares."""
        ...


class HostClock:
    """The clocks of this host; the monotonic one is the same in all its processes."""

    def wall_ms(self) -> int:
        """Return the host's wall time."""
        return time.time_ns() // 1_000_000

    def lease_ms(self) -> int:
        """Return the host's monotonic time."""
        return time.monotonic_ns() // 1_000_000


if TYPE_CHECKING:
    Operation: TypeAlias = Callable[[Rows, Moment], T]


class Storage(Opened):
    """Where rows are kept: how to run a function over them inside a transaction.

    `_steady` says that lease time can't step. A simulator may set it to False: leases
    are then judged by the wall time of `_time`, as on a server whose clock may step.
    """

    _time: Clock
    _steady = True
    _boot = ""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self._time = HostClock()

    @abstractmethod
    def _read(self, operation: Operation[T], seconds: float) -> T:
        """Run an operation that writes nothing, on one state of the rows."""

    @abstractmethod
    def _write(self, operation: Operation[T], seconds: float) -> T:
        """Run an operation in a transaction of its own, and commit it."""

    def _read_once(self, operation: Operation[T], seconds: float) -> T:
        """Read from a store that may not be open, and leave nothing behind."""
        return self._read(operation, seconds)

    def _write_once(self, operation: Operation[T], seconds: float) -> T:
        """Write to a store that may not be open, and leave nothing behind."""
        return self._write(operation, seconds)

    def _decide(self, operation: Operation[T], seconds: float) -> T:
        """Run an operation that mostly finds that there is nothing to write."""
        return self._write(operation, seconds)

    def _now(self) -> Moment:
        wall_ms = self._time.wall_ms()
        lease_ms = self._time.lease_ms() if self._steady else wall_ms
        return Moment(wall_ms, lease_ms, self._boot, self._steady)


class LocalBackend(Storage):
    """Every operation of the run store, on one machine."""

    def prepare(self, jobs: Sequence[str]) -> None:
        """Check that the store is open; `open` has prepared it, and jobs need nothing."""
        del jobs
        self._check_open()

    def claim(self, wishes: Sequence[Wish], *, owner: Owner, wins: int, pace: Pace) -> Claims:
        """Decide who runs these attempts; see `ClaimBackend.claim`."""
        self._check_open()
        return self._decide(
            lambda rows, now: operations.claim(rows, now, wishes, owner, wins, pace),
            self._limits.call,
        )

    def skip(self, wishes: Sequence[SkipWish], *, owner: Owner, pace: Pace) -> Claims:
        """Close slots as missed; see `ClaimBackend.skip`."""
        self._check_open()
        return self._decide(
            lambda rows, now: operations.skip(rows, now, wishes, owner, pace), self._limits.call
        )

    def finish(self, results: Sequence[Result], *, owner: Owner) -> Settled:
        """Close attempts and trim history; see `ClaimBackend.finish`."""
        return self._settle(results, owner, ends.finish)

    def release(self, results: Sequence[Result], *, owner: Owner) -> Settled:
        """Hand attempts over; see `LeaseBackend.release`."""
        return self._settle(
            results, owner, lambda run, result, ask, _: ends.release(run, result, ask)
        )

    def record_manual(self, results: Sequence[Result], *, owner: Owner, lease_ms: int) -> Settled:
        """Insert manual runs as running; see `ClaimBackend.record_manual`."""
        check_manual(results)
        return self._settle(
            results,
            owner,
            lambda run, result, ask, _: ends.record_manual(run, result, ask, lease_ms),
        )

    def _settle(self, results: Sequence[Result], owner: Owner, judge: operations.Judge) -> Settled:
        self._check_open()
        return self._write(
            lambda rows, now: operations.settle(rows, now, results, owner, judge),
            self._limits.call,
        )

    def renew(self, leases: Sequence[Lease], *, owner: Owner, lease_ms: int) -> Renewed:
        """Extend leases; see `LeaseBackend.renew`."""
        self._check_open()
        return self._write(
            lambda rows, now: operations.renew(rows, now, leases, owner, lease_ms),
            self._limits.quick,
        )

    def look(self, jobs: Sequence[str], *, owner: Owner) -> Looked:
        """Return what is wrong; see `LeaseBackend.look`."""
        return self._look(jobs, owner, self._limits.quick, everything=False)

    def unfinished(self, jobs: Sequence[str], *, owner: Owner) -> Looked:
        """Return every open run; see `LeaseBackend.unfinished`."""
        return self._look(jobs, owner, self._limits.call, everything=True)

    def _look(
        self, jobs: Sequence[str], owner: Owner, seconds: float, *, everything: bool
    ) -> Looked:
        self._check_open()
        run = self._decide if everything and owner.presence else self._read
        return run(
            lambda rows, now: operations.look(rows, now, jobs, owner, everything=everything),
            seconds,
        )

    def save(self, lease: Lease, *, owner: Owner, value: str) -> bool:
        """Keep a checkpoint of at most 64 KiB; see `LeaseBackend.save`."""
        self._check_open()
        check_checkpoint(value)
        return self._write(
            lambda rows, now: operations.save(rows, now, lease, owner, value), self._limits.call
        )

    def cancel(self, key: RunKey) -> bool:
        """Close a waiting run, flag a running one; see `LeaseBackend.cancel`."""
        return self._write_once(partial(operations.cancel, key=key), self._limits.call)

    def alert(self, keys: Sequence[RunKey], *, owner: Owner) -> Alerts:
        """Decide who tells of unfinished slots; see `LeaseBackend.alert`."""
        self._check_open()
        return self._decide(
            lambda rows, now: operations.alert(rows, now, keys, owner), self._limits.call
        )

    def trigger(self, keys: Sequence[RunKey], *, data: str | None) -> None:
        """Put manual runs as waiting; see `LeaseBackend.trigger`."""
        check_orders(keys, data)
        self._write_once(partial(operations.trigger, keys=keys, data=data), self._limits.call)

    def history(
        self,
        job: str | None,
        *,
        limit: int,
        before: Run | None = None,
        status: Status | None = None,
    ) -> list[Run]:
        """Return attempts, newest first; see `ClaimBackend.history`."""
        return self._read_once(
            lambda rows, now: kept.history(rows, now, job, limit, before, status),
            self._limits.call,
        )

    def present(self, owner: Owner) -> None:
        """Keep what an instance says of itself; see `ClaimBackend.present`."""
        self._check_open()
        self._write(partial(kept.present, owner=owner), self._limits.call)

    def instances(self) -> Presences:
        """Return the instances that the store has heard from; see `ClaimBackend.instances`."""
        return self._read_once(kept.instances, self._limits.call)

    def pause(self, job: str | None, *, duration_ms: int | None) -> None:
        """Stop starts; see `ClaimBackend.pause`."""
        check_job(job)
        self._write_once(
            lambda rows, now: kept.pause(rows, now, job, duration_ms), self._limits.call
        )

    def resume(self, job: str | None) -> None:
        """End a pause; see `ClaimBackend.resume`."""
        self.pause(job, duration_ms=0)
