"""What handlers may do: start once, in time and alone, and be given up before others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anarchon._values import Lease

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anarchon._messages import (
        StartRun,
    )
    from anarchon._values import RunKey

    from .instance import Handler, Instance
    from .referee import Referee, Witnessed

SLACK = 0.003  # whole milliseconds, drift, and the event that is dealt with later in the queue


def is_fenced(key: RunKey) -> bool:
    """Whether another attempt, or the next backfill, may begin when its lease has ended."""
    return not key.manual or key.is_backfill


def _is_beside(other: RunKey, key: RunKey) -> bool:
    """Whether two runs may have to exclude each other; those that were triggered never do."""
    if other == key:
        return True
    return other.job == key.job and is_fenced(other) and other.is_backfill == key.is_backfill


class Handlers:
    """Checks one-winner, self-fence, overlap and never-early where handlers start and end."""

    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self._world = referee.world
        self._ledger = referee.ledger
        self._starts_of: dict[Lease, int] = {}
        self.called: set[Lease] = set()  # whose handler was really called

    def starts(self, inst: Instance, action: StartRun) -> None:
        """Check that this handler may be called, here and now."""
        lease, world = action.lease, self._world
        if inst.stopping_at is not None:
            world.fail("stop-bound", f"{inst} starts {lease} after stop was asked")
        self._starts_of[lease] = self._starts_of.get(lease, 0) + 1
        if self._starts_of[lease] > 1 + self._ledger.disputed.get(lease, 0):
            world.fail("one-winner", f"{lease} starts a second time, on {inst}")
        if lease.key.is_called:
            return
        self._ledger.figures["starts"] += 1
        # An old copy of a batch may have won a run that nobody asked for any more.
        busy = sum(not running.key.is_called for running in inst.handlers)
        room = inst.settings.workers + inst.core.view().stuck
        if busy >= room and inst.token not in self._ledger.touched:
            world.fail("bounded", f"{inst} starts {lease} though {busy} handlers are running")
        if lease not in self._referee.seen[inst.token].won:
            world.fail(
                "one-winner",
                f"{inst} starts {lease}, which it was never told to have won",
            )
        if action.fence != self._ledger.fence_of.get((lease, inst.token)):
            world.fail(
                "fence",
                f"{inst} starts {lease} with {action.fence}, which it was not given",
            )
        self._check_early(inst, action)
        if (lease, inst.token) in self._ledger.shaken:
            return  # the store forgot it while the answer was on its way
        if self._ledger.winners.get(lease) != inst.token:
            world.fail(
                "one-winner",
                f"{inst} starts {lease} of {self._ledger.winners.get(lease)}",
            )
        if not self._taken_over(inst, lease):
            self._check_beside(inst, action)

    def _taken_over(self, inst: Instance, lease: Lease) -> bool:
        """Whether the run went on without it: only one whose machine slept may not know."""
        truth = self._ledger.runs.get(lease.key)
        if truth is None:
            return False
        taken = truth.attempt > lease.attempt or truth.state == "closed"
        if taken and not self._just_resumed(self._referee.seen[inst.token]):
            text = f"{inst} starts {lease}, which somebody has taken over"
            self._world.fail("self-fence", text)
        return taken

    def _check_early(self, inst: Instance, action: StartRun) -> None:
        early = action.lease.key.slot_ms - self._referee.store.time.wall_ms()
        if (
            early > 1
            and not action.lease.key.is_ordered
            and self._world.now - self._ledger.stepped_at > 120
        ):
            self._world.fail("never-early", f"{inst} starts {action.lease} {early} ms early")

    def _check_beside(self, inst: Instance, action: StartRun) -> None:
        """No un-aborted handler of this run lives anywhere, nor of its job (overlap skip)."""
        key, terms = action.lease.key, action.spec.terms
        others = 0
        for other in self._referee.living:
            if not other.inst.handlers or not other.inst.alive or other.inst.excused:
                continue
            for handler in other.inst.handlers.values():
                lease = handler.lease
                if handler.abort or not _is_beside(lease.key, key):
                    continue
                shaken = (lease, other.inst.token) in self._ledger.shaken
                if shaken or self._allowed(other, handler):
                    continue
                if lease.key == key:
                    text = f"{lease} still runs on {other.inst} as {inst} starts the next"
                    self._world.fail("self-fence", text)
                others += lease.key != key
        if key.is_ordered:
            self._check_backfill(inst, key, others)
            return
        first = action.lease.attempt == 1
        if terms.skip_overlap and first and others and self._referee.leases:
            self._world.fail("overlap", f"{action.lease} starts on {inst} beside another slot")
        earlier = [Lease(key, n) for n in range(1, action.lease.attempt)]
        if terms.budget == 0 and any(
            lease in self.called and lease not in self._ledger.disputed for lease in earlier
        ):
            self._world.fail("one-winner", f"{key} is not to be followed, and starts again")

    def _check_backfill(self, inst: Instance, key: RunKey, others: int) -> None:
        """Past slots come one at a time, unless a step of the store's clock ends a lease early."""
        recent = self._world.now - self._ledger.stepped_at < 2 * inst.settings.lease
        if others and key.is_backfill and (self._referee.store.steady or not recent):
            self._world.fail("backfills-in-order", f"{key} starts on {inst} beside another")

    def _fence(self, seen: Witnessed, handler: Handler) -> float | None:
        """Return the true time at which this attempt has to be given up."""
        settings, truth = seen.inst.settings, self._ledger.runs.get(handler.lease.key)
        if truth is not None and truth.status == "success" and truth.owner == seen.inst.token:
            return None  # an old copy of its result came, before the failover that let it run again
        extended = self._ledger.extended_of.get((handler.lease, seen.inst.token))
        return None if extended is None else extended + settings.lease - settings.margin

    def _allowed(self, seen: Witnessed, handler: Handler) -> bool:
        """Whether a handler may not have aborted yet: it wakes up late, and a step ate its margin.

        With the witness of `lease - margin`, and a store clock that stepped forward, the next
        attempt may start as soon as the deadline of this one has passed. A machine that was
        suspended learns from the answer to its first renewal what its clock doesn't say.
        """
        now, inst = self._world.now, seen.inst
        if now - seen.awake < inst.host.slow + SLACK or self._just_resumed(seen):
            return True
        stepped = (
            now - self._ledger.stepped_at < 2 * inst.settings.lease
            and not self._referee.store.steady
        )
        fence = self._fence(seen, handler)
        return stepped and fence is not None and now > fence - SLACK

    def _just_resumed(self, seen: Witnessed) -> bool:
        """Whether an instance can't know yet how long its machine was suspended."""
        now, inst = self._world.now, seen.inst
        soon = inst.settings.heartbeat + inst.quick + inst.keeper_delay + inst.host.slow
        asked = max(seen.resumed, seen.reached)
        return now - seen.resumed < inst.settings.lease and now - asked < soon

    def check(self, seen: Witnessed) -> None:
        """Look at all that an instance runs."""
        if not seen.inst.frozen:
            for handler in seen.inst.handlers.values():
                self.check_late(seen, handler)

    def renews(self, inst: Instance, leases: Iterable[Lease]) -> None:
        """Before a renewal is sent deadlines are looked at, however long nothing ran here."""
        seen = self._referee.seen[inst.token]
        for lease in leases:
            handler = inst.handlers.get(lease)
            fence = None if handler is None else self._fence(seen, handler)
            if (
                handler is None
                or handler.abort is not None
                or fence is None
                or not is_fenced(lease.key)
            ):
                continue
            if self._world.now - fence > SLACK + inst.settings.lease * 2e-4:
                self._world.fail("self-fence", f"{inst} renews {lease} after its deadline")

    def check_late(self, seen: Witnessed, handler: Handler) -> None:
        """An attempt is given up before its lease can be taken, by everybody's clock."""
        if (
            handler.abort is not None
            or not is_fenced(handler.lease.key)
            or not self._referee.leases
        ):
            return
        fence = self._fence(seen, handler)
        if fence is None:
            return
        late = self._world.now - max(fence, seen.awake)
        if late > seen.inst.host.slow + SLACK + seen.inst.settings.lease * 2e-4:
            text = f"{seen.inst} holds on to {handler.lease} {late:.3f} s after its deadline"
            self._world.fail("self-fence", text)
