"""A job run by hand in a process that is no instance of the service: a command line.

Such a process has to write the run down and renew its lease, so it needs a scheduler that
runs. But it must not take part in anything else: it claims no slot, catches nothing up, and
takes no run over, since it would give all of that up a moment later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._values import Alerts
from .backends.base import LeaseBackend
from .scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ._runs import Run
    from ._values import (
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
    from .backends.base import Holding
    from .jobs import Job
    from .schedules import Schedule


def alone(scheduler: Scheduler, job: Job) -> Scheduler:
    """Return a scheduler for manual runs of one job, on the store of another one.

    It has that one's options and listeners.
    """
    options = scheduler._options  # noqa: SLF001 - of this package
    store = options.backend
    made = Scheduler(
        _Apart(store) if isinstance(store, LeaseBackend) else store,
        lease=options.lease_ms / 1000,
        heartbeat=options.heartbeat_ms / 1000,
        around=options.around,
        enabled=options.enabled,
        instance_id=options.instance_id,
        log=options.log,
        stop_on_exit=options.stop_on_exit,
        exit_timeout=options.exit_seconds,
    )
    made._listeners = scheduler._listeners  # noqa: SLF001 - of this package
    made._clock = scheduler._clock  # noqa: SLF001 - of this package
    made.schedule(
        job.name,
        _Past(job.schedule),
        job.handler,
        timeout=job.timeout,
        data=job.data,
        pass_context=job.pass_context,
        catch_up=0,
    )
    return made


class _Past:
    """The slots of a schedule up to now, as `ctx.previous_slot` asks for them; none to come."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def next_after(self, t: datetime) -> datetime | None:
        """Return None: nothing falls due here."""
        del t
        return None

    def latest(self, t: datetime) -> datetime | None:
        """Return the greatest slot at or before a time."""
        return self._schedule.latest(t)


class _PassedOn(LeaseBackend):
    """A store that passes every call on to another one."""

    def __init__(self, inner: LeaseBackend) -> None:
        self.inner = inner
        self.namespace = inner.namespace

    def open(self, limits: Limits) -> ServerInfo:
        """See `ClaimBackend.open`."""
        return self.inner.open(limits)

    def prepare(self, jobs: Sequence[str]) -> None:
        """See `ClaimBackend.prepare`."""
        self.inner.prepare(jobs)

    def close(self) -> None:
        """See `ClaimBackend.close`."""
        self.inner.close()

    def abandon(self) -> None:
        """See `ClaimBackend.abandon`."""
        self.inner.abandon()

    def claim(self, wishes: Sequence[Wish], *, owner: Owner, wins: int, pace: Pace) -> Claims:
        """See `ClaimBackend.claim`."""
        return self.inner.claim(wishes, owner=owner, wins=wins, pace=pace)

    def finish(self, results: Sequence[Result], *, owner: Owner) -> Settled:
        """See `ClaimBackend.finish`."""
        return self.inner.finish(results, owner=owner)

    def record_manual(self, results: Sequence[Result], *, owner: Owner, lease_ms: int) -> Settled:
        """See `ClaimBackend.record_manual`."""
        return self.inner.record_manual(results, owner=owner, lease_ms=lease_ms)

    def skip(self, wishes: Sequence[SkipWish], *, owner: Owner, pace: Pace) -> Claims:
        """See `ClaimBackend.skip`."""
        return self.inner.skip(wishes, owner=owner, pace=pace)

    def history(
        self,
        job: str | None,
        *,
        limit: int,
        before: Run | None = None,
        status: Status | None = None,
    ) -> list[Run]:
        """See `ClaimBackend.history`."""
        return self.inner.history(job, limit=limit, before=before, status=status)

    def pause(self, job: str | None, *, duration_ms: int | None) -> None:
        """See `ClaimBackend.pause`."""
        self.inner.pause(job, duration_ms=duration_ms)

    def resume(self, job: str | None) -> None:
        """See `ClaimBackend.resume`."""
        self.inner.resume(job)

    def renew(self, leases: Sequence[Lease], *, owner: Owner, lease_ms: int) -> Renewed:
        """See `LeaseBackend.renew`."""
        return self.inner.renew(leases, owner=owner, lease_ms=lease_ms)

    def release(self, results: Sequence[Result], *, owner: Owner) -> Settled:
        """See `LeaseBackend.release`."""
        return self.inner.release(results, owner=owner)

    def save(self, lease: Lease, *, owner: Owner, value: str) -> bool:
        """See `LeaseBackend.save`."""
        return self.inner.save(lease, owner=owner, value=value)

    def cancel(self, key: RunKey) -> bool:
        """See `LeaseBackend.cancel`."""
        return self.inner.cancel(key)

    def trigger(self, keys: Sequence[RunKey], *, data: str | None) -> None:
        """See `LeaseBackend.trigger`."""
        self.inner.trigger(keys, data=data)

    def fence(self, connection: object, lease: Lease, *, owner: Owner) -> Holding:
        """See `LeaseBackend.fence`."""
        return self.inner.fence(connection, lease, owner=owner)

    def complete(self, connection: object, result: Result, *, owner: Owner) -> Holding:
        """See `LeaseBackend.complete`."""
        return self.inner.complete(connection, result, owner=owner)

    def refuse(self, connection: object) -> None:
        """See `LeaseBackend.refuse`."""
        self.inner.refuse(connection)


class _Apart(_PassedOn):
    """A store as it looks to who cares for no open runs but its own."""

    def __repr__(self) -> str:
        return repr(self.inner)

    def look(self, jobs: Sequence[str], *, owner: Owner) -> Looked:
        """Return the store's time alone."""
        return _nothing_of(self.inner.look(jobs, owner=owner))

    def unfinished(self, jobs: Sequence[str], *, owner: Owner) -> Looked:
        """Return the store's time alone."""
        return _nothing_of(self.inner.unfinished(jobs, owner=owner))

    def alert(self, keys: Sequence[RunKey], *, owner: Owner) -> Alerts:
        """Tell of nothing: nobody expects a slot here."""
        del owner
        return Alerts((False,) * len(keys), 0)


def _nothing_of(looked: Looked) -> Looked:
    return looked._replace(wrong=(), others=0, next_end_ms=None)
