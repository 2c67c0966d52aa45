"""The race for due slots and for runs to take over: what to claim, when, how many.

Pure. One claim call is planned or in flight at a time. A call goes out one random delay
after its slots fall due; the delay grows with the fleet, so that the mean spacing of two
instances' claims stays the same. An instance first wins at most its share of the slots
due together, in later rounds twice, four times as much. Without a free worker nothing is
claimed; the worker that becomes free claims at once. So the invariant is: *a slot that
may be claimed and a free worker imply a claim that is planned or in flight*.

A claim that got no answer is *unknown*: it is asked again before any new claim, and
nothing starts until it is answered. What the answers mean is in `_core_answers.py`, when to
claim in `_core_rounds.py`.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ._core_answers import Answers
from ._core_rounds import Crowd, Rounds
from ._core_slots import Slots
from ._core_watches import Watches
from ._messages import (
    Claim,
)
from ._values import (
    HISTORY_MS,
    Wish,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from ._core_held import Held as HeldRun
    from ._core_held import HeldRuns
    from ._core_jobs import JobSlots
    from ._core_watches import Watch
    from ._messages import (
        Action,
        Answered,
        Now,
        Settings,
    )
    from ._values import (
        Claims,
        Reason,
    )


class Race:
    """Everything that this instance claims."""

    def __init__(self, settings: Settings, rng: Random, held: HeldRuns, out: list[Action]) -> None:
        self._held = held
        late_ms = int(settings.heartbeat * 1000)
        self.slots = Slots(rng, late_ms=late_ms, recover=settings.leases)
        self.watches = Watches(settings, rng)
        self.answers = Answers(settings, held, self.slots, self.watches, out)
        self.rounds = Rounds(settings.workers, rng)
        self.unknown: Claim | None = None  # sent, and not answered: repeat it first
        self._flying: Claim | None = None
        self._orders_next = False  # slots were won the last time, while orders waited

    @property
    def undecided(self) -> bool:
        """Whether a claim's outcome is not known yet."""
        return self._flying is not None or self.unknown is not None

    def stop(self) -> None:
        """Forget pending slots and watched runs; what was sent still has to be answered."""
        self.slots.clear()
        self.watches.clear()
        self.rounds.clear()

    # --- asking ---

    def next_claim(self, now: Now, *, stopping: bool) -> Claim | None:
        """Return the claim to send now, if there is one."""
        if self.unknown is not None:
            return self._sent(self._repeat(self.unknown, stopping=stopping))
        free = self._held.free_workers()
        if (share := self.rounds.due_share(now.mono)) is not None:
            wins = min(free, share)
            wishes = self._wishes(now)
        elif free == 0:
            # No worker, but a dead run that nobody may continue can still be closed.
            wins = 0
            dead = (watch for watch in self._ready(now) if watch.dead)
            wishes = self._takeovers(dead, self.rounds.offer)
        else:
            return None
        return self._sent(Claim(tuple(wishes), wins)) if wishes else None

    def wakeups(self, now: Now) -> list[float]:
        """Return the instants at which a claim may have to be sent or planned; none flies."""
        times = [*self.slots.wakeups(now)]
        if self.unknown is not None:
            times.append(now.mono)
        else:
            times.extend(self.watches.wakeups())
            if self.rounds.at is not None:
                times.append(self.rounds.at)
        return times

    def _sent(self, claim: Claim) -> Claim:
        self.unknown = None
        self._flying = claim
        keys = frozenset(wish.key for wish in claim.wishes)
        self.slots.in_flight = keys
        self.watches.asked(keys)
        return claim

    def _repeat(self, claim: Claim, *, stopping: bool) -> Claim:
        """Ask the same again; where nobody waits for a win any more, win nothing new.

        What was seen of a run is told as it is known now: it may be another renewal since.
        """
        waited_for = all(
            wish.key in self.watches or self.slots.pending(wish.key) for wish in claim.wishes
        )
        if stopping or not waited_for:
            return claim._replace(wins=0)
        return claim._replace(wishes=tuple(self.watches.refreshed(w) for w in claim.wishes))

    def remove(self, name: str) -> bool:
        """Stop scheduling and watching a job."""
        self.watches.forget_job(name)
        return self.slots.remove(name)

    def plan(self, now: Now) -> None:
        """Keep a claim planned while something may be claimed and a worker is free."""
        if self.undecided:
            return
        if self._any_slot(now) or self._ready(now):
            free, busy = self._held.free_workers(), self._held.live_count() > 0
            self.rounds.plan(now.mono, free=free, busy=busy, crowd=lambda: self._crowd(now))
        else:
            self.rounds.clear()

    def _any_slot(self, now: Now) -> bool:
        return any(self._may_claim(job, now) for job in self.slots.waiting.values())

    def _crowd(self, now: Now) -> Crowd:
        due = [job for job in self.slots.waiting.values() if self._may_claim(job, now)]
        ready = self._ready(now)
        jobs = due or [self.slots.jobs[watch.key.job] for watch in ready]
        slots = [job.pending.key.slot_ms for job in due if job.pending is not None]
        return Crowd(
            len(due) + len(ready),
            self.answers.fleet.size(now.mono),
            min(job.spec.jitter for job in jobs),
            min((job.period for job in due), default=inf),
            max(0, now.wall_ms - max(slots)) / 1000 if slots else inf,
        )

    def _may_claim(self, job: JobSlots, now: Now) -> bool:
        """Whether a job's pending slot may be claimed: no handler of it lives here.

        A dead run that blocks it has to be closed first, while it is watched or held here:
        whoever closed it, nobody says so.
        """
        pending = job.pending
        if pending is None or pending.not_before > now.mono:
            return False
        blocked = pending.blocked_by
        if blocked is not None and (blocked in self.watches or self._held.of(blocked)):
            return False
        return self._held.of(pending.key) is None

    def _ready(self, now: Now) -> list[Watch]:
        """Return the runs that may be taken over now: no handler of them lives here."""
        return [watch for watch in self.watches.ready(now.mono) if self._held.of(watch.key) is None]

    def _wishes(self, now: Now) -> list[Wish]:
        """Return the offer: runs to take over, then slots, the one due again soonest first.

        Last come the runs that the fleet is asked for; before the slots, where those were won
        by the last claim instead, so that neither waits for the end of the others.
        """
        ready, most = self._ready(now), self.rounds.offer
        wishes = self._takeovers((w for w in ready if not w.key.is_ordered), most)
        if self._orders_next:
            wishes += self._orders(ready, wishes)
        used = {wish.key.job for wish in wishes}
        chosen = self.slots.line.first(
            most - len(wishes),
            lambda job: job.spec.name not in used and self._may_claim(job, now),
        )
        for job, pending in chosen:
            key, reason = pending.key, pending.reason
            self.answers.specs[key] = job.spec
            wishes.append(Wish(key, 1, reason, job.spec.terms, fence_seen=job.fence_seen))
        return wishes + self._orders(ready, wishes)

    def _orders(self, ready: Iterable[Watch], wishes: list[Wish]) -> list[Wish]:
        """Return the runs to offer that the fleet is asked for, beside what is offered already."""
        used = {wish.key.job for wish in wishes}
        ordered = [w for w in ready if w.key.is_ordered and w.key.job not in used]
        # A past slot that waits for another, or for the end of a pause, hides nothing.
        ordered.sort(key=lambda watch: watch.key.is_backfill)
        return self._takeovers(ordered, self.rounds.offer - len(wishes))

    def _takeovers(self, watches: Iterable[Watch], most: int) -> list[Wish]:
        """Return the first part of an offer: a claim names a job at most once.

        Our own runs, of which nothing is known here, are granted whatever `wins` says: after
        a failover there may be many.
        """
        wishes: dict[str, Wish] = {}
        workers = self._held.free_workers()
        for watch in watches:
            name = watch.key.job
            if name in wishes or (watch.mine and not workers):
                continue
            if len(wishes) < most:
                job = self.slots.jobs[name]
                workers -= watch.mine
                self.answers.specs[watch.key] = job.spec
                wishes[name] = _takeover(watch, job)
        return list(wishes.values())

    # --- answers ---

    def failed(self, claim: Claim) -> None:
        """No answer: nothing of it starts, and it is repeated before anything else."""
        self._flying = None
        self.unknown = claim

    def answered(self, claim: Claim, claims: Claims, how: Answered, now: Now) -> list[HeldRun]:
        """Take in the answers; return the attempts that were won."""
        self._flying = None
        self.slots.in_flight = frozenset()
        won = self.answers.claimed(claim, claims, how, now)
        ready = self._ready(now)
        if won:
            passed = any(watch.key.is_ordered for watch in ready)
            self._orders_next = passed and not any(held.key.is_ordered for held in won)
        left = self._any_slot(now) or bool(ready)
        self.rounds.follow(len(claim.wishes), claim.wins, len(won), now.mono, left=left)
        return won


def _takeover(watch: Watch, job: JobSlots) -> Wish:
    key, terms = watch.key, job.spec.terms
    reason: Reason = "takeover" if watch.wants > 1 else "scheduled"
    if key.is_ordered:
        terms = terms._replace(budget=0, catch_up_ms=HISTORY_MS)
        if watch.wants == 1:
            reason = "catch-up" if key.is_backfill else "manual"
    return Wish(
        key,
        watch.wants,
        reason,
        terms,
        watch.beat,
        watch.first_seen,
        job.fence_seen,
    )
