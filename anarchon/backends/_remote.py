"""Every operation of the run store, for the stores on a server.

What is asked is checked here and put into words by `_wire`; the rules of the run store
themselves run on the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._values import Alerts, Presences, Present
from . import _wire as wire
from ._remote_links import L, Remote
from ._storable import (
    check_checkpoint,
    check_job,
    check_manual,
    check_orders,
    is_sound,
    is_storable,
    names,
    position_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._runs import Run
    from .._values import (
        Claims,
        Lease,
        Looked,
        Owner,
        Pace,
        Renewed,
        Result,
        RunKey,
        Settled,
        SkipWish,
        Status,
        Wish,
    )


class RemoteBackend(Remote[L]):
    """Every operation of the run store, on a server."""

    def claim(self, wishes: Sequence[Wish], *, owner: Owner, wins: int, pace: Pace) -> Claims:
        """Decide who runs these attempts; see `ClaimBackend.claim`."""
        reply = self._ask(wire.claim_call(wishes, owner, wins, pace), self._limits.call)
        return wire.claims_of(wishes, is_sound, owner, reply)

    def skip(self, wishes: Sequence[SkipWish], *, owner: Owner, pace: Pace) -> Claims:
        """Close slots as missed; see `ClaimBackend.skip`."""
        reply = self._ask(wire.skip_call(wishes, owner, pace), self._limits.call)
        return wire.claims_of(wishes, lambda wish: is_storable(wish.key), owner, reply)

    def finish(self, results: Sequence[Result], *, owner: Owner) -> Settled:
        """Close attempts and trim history; see `ClaimBackend.finish`."""
        return self._settle("finish", results, owner)

    def release(self, results: Sequence[Result], *, owner: Owner) -> Settled:
        """Hand attempts over; see `LeaseBackend.release`."""
        return self._settle("release", results, owner)

    def record_manual(self, results: Sequence[Result], *, owner: Owner, lease_ms: int) -> Settled:
        """Insert manual runs as running; see `ClaimBackend.record_manual`."""
        check_manual(results)
        return self._settle("record_manual", results, owner, lease_ms)

    def _settle(
        self, operation: str, results: Sequence[Result], owner: Owner, *more: int
    ) -> Settled:
        call = wire.settle_call(operation, results, owner, *more)
        return wire.settled_of(results, self._ask(call, self._limits.call))

    def renew(self, leases: Sequence[Lease], *, owner: Owner, lease_ms: int) -> Renewed:
        """Extend leases; see `LeaseBackend.renew`."""
        reply = self._ask(wire.renew_call(leases, owner, lease_ms), self._limits.quick)
        return wire.renewed_of(leases, reply)

    def look(self, jobs: Sequence[str], *, owner: Owner) -> Looked:
        """Return what is wrong; see `LeaseBackend.look`."""
        reply = self._ask(wire.look_call("look", jobs, owner), self._limits.quick)
        return wire.looked_of(owner, reply)

    def unfinished(self, jobs: Sequence[str], *, owner: Owner) -> Looked:
        """Return every open run; see `LeaseBackend.unfinished`."""
        reply = self._ask(wire.look_call("unfinished", jobs, owner), self._limits.call)
        return wire.looked_of(owner, reply)

    def save(self, lease: Lease, *, owner: Owner, value: str) -> bool:
        """Keep a checkpoint of at most 64 KiB; see `LeaseBackend.save`."""
        check_checkpoint(value)
        self._check_open()
        if not is_storable(lease.key):
            return False
        item = (*lease.key, lease.attempt)
        reply = self._ask(wire.Call("save", (owner.token, value), (item,)), self._limits.call)
        return bool(reply.answers[0][0] == "yes")

    def cancel(self, key: RunKey) -> bool:
        """Close a waiting run, flag a running one; see `LeaseBackend.cancel`."""
        if not is_storable(key):
            return False
        reply = self._once(wire.Call("cancel", (), (key,)), self._limits.call)
        return bool(reply.answers[0][0] == "yes")

    def alert(self, keys: Sequence[RunKey], *, owner: Owner) -> Alerts:
        """Decide who tells of unfinished slots; see `LeaseBackend.alert`."""
        items = tuple((key.job, key.slot_ms) for key in keys if is_storable(key))
        reply = self._ask(wire.Call("alert", (owner.token,), items), self._limits.call)
        answers = iter(reply.answers)
        told = (is_storable(key) and next(answers)[0] == "yes" for key in keys)
        return Alerts(tuple(told), reply.store_ms)

    def present(self, owner: Owner) -> None:
        """Keep what an instance says of itself; see `ClaimBackend.present`."""
        said = owner.presence or (None, None, None)
        self._ask(wire.Call("present", (owner.token, *said)), self._limits.call)

    def instances(self) -> Presences:
        """Return the instances that the store has heard from; see `ClaimBackend.instances`."""
        reply = self._once(wire.Call("instances", ()), self._limits.call)
        return Presences(tuple(Present(*words) for words in reply.answers), reply.store_ms)

    def trigger(self, keys: Sequence[RunKey], *, data: str | None) -> None:
        """Put manual runs as waiting; see `LeaseBackend.trigger`."""
        check_orders(keys, data)
        self._once(wire.Call("trigger", (data,), tuple(keys)), self._limits.call)

    def history(
        self,
        job: str | None,
        *,
        limit: int,
        before: Run | None = None,
        status: Status | None = None,
    ) -> list[Run]:
        """Return attempts, newest first; see `ClaimBackend.history`."""
        if limit <= 0 or (job is not None and not names([job])):
            return []
        position = None if before is None else position_of(before)
        call = wire.history_call(job, limit, position, status)
        return list(map(wire.run_of, self._once(call, self._limits.call).answers))

    def pause(self, job: str | None, *, duration_ms: int | None) -> None:
        """Stop starts; see `ClaimBackend.pause`."""
        check_job(job)
        self._once(wire.Call("pause", (job, duration_ms)), self._limits.call)

    def resume(self, job: str | None) -> None:
        """End a pause; see `ClaimBackend.resume`."""
        self.pause(job, duration_ms=0)
