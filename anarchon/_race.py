"""The race for due slots and for runs to take over: what to claim, when, how many.

Pure. One claim call is planned or in flight at a time. A call goes out one random delay
after its slots fall due; the delay grows with the fleet, so that the mean spacing of two
instances' claims stays the same. An instance first wins at most its share of the slots
due together, in later rounds twice, four times as much. Without a free worker nothing is
claimed; the worker that becomes free claims at once. So the invariant is: *a slot that
may be claimed and a free worker imply a claim that is planned or in flight*.

A claim that got no answer is *unknown*: it is repeated exactly before any new claim,
and nothing starts until it is answered.
"""

from __future__ import annotations

import heapq
from math import ceil, inf
from typing import TYPE_CHECKING, NamedTuple

from ._attempts import EVENTS
from ._lane import Fleet
from ._slots import Slots
from ._values import (
    Claim,
    Closed,
    Early,
    Emit,
    Held,
    Missing,
    Note,
    OpenRun,
    RunKey,
    Suspect,
    Waiting,
    Wish,
    Won,
)
from ._watches import Watches

if TYPE_CHECKING:
    from random import Random

    from ._held import Held as HeldRun
    from ._held import HeldRuns
    from ._slots import JobSlots
    from ._values import (
        Action,
        Answer,
        Answered,
        Claims,
        JobSpec,
        Now,
        Run,
        Settings,
    )
    from ._watches import Watch

OFFER = 128
MOST_OFFERED = 512
MOST_NAMED = 10  # a reply names at most so many other open runs of a job
WIDEST_WINDOW = 1.0
LONGEST_WAIT = 60.0


class Round(NamedTuple):
    """A planned claim: when, which round of this tick, and its share of the slots due."""

    at: float
    number: int
    base: float
    window: float
    share: int


class Race:
    """Everything that this instance claims, and what it learns from the answers."""

    def __init__(self, settings: Settings, rng: Random, held: HeldRuns, out: list[Action]) -> None:
        self._settings = settings
        self._rng = rng
        self._held = held
        self._out = out
        late_ms = int(settings.heartbeat * 1000)
        self.slots = Slots(rng, late_ms=late_ms, recover=settings.leases)
        self.watches = Watches(settings, rng)
        self.fleet = Fleet(settings.token)
        self.unknown: Claim | None = None  # sent, and not answered: repeat it first
        self._flying: Claim | None = None
        self._specs: dict[RunKey, JobSpec] = {}  # of what is claimed, should a job be removed
        self._round: Round | None = None
        self._offer = OFFER
        self._starved = False  # something may be claimed, but no worker was free

    @property
    def undecided(self) -> bool:
        """Whether a claim's outcome is not known yet."""
        return self._flying is not None or self.unknown is not None

    def stop(self) -> None:
        """Forget pending slots and watched runs; what was sent still has to be answered."""
        self.slots.clear()
        self.watches.clear()
        self._round = None

    # --- asking ---

    def next_claim(self, now: Now, *, stopping: bool) -> Claim | None:
        """Return the claim to send now, if there is one."""
        if self.unknown is not None:
            return self._sent(self._repeat(self.unknown, stopping=stopping))
        free = self._held.free_workers()
        if self._round is not None and self._round.at <= now.mono:
            wins = min(free, self._round.share)
            wishes = self._wishes(now)
        elif free == 0:
            # No worker, but a dead run that nobody may continue can still be closed.
            wins = 0
            wishes = self._takeovers(now, set())
        else:
            return None
        return self._sent(Claim(tuple(wishes), wins)) if wishes else None

    def wakeups(self, now: Now) -> list[float]:
        """Return the instants at which a claim may have to be sent or planned."""
        times = [*self.slots.wakeups(now)]
        if self.unknown is not None:
            times.append(now.mono)
        elif self._flying is None:
            if self._round is not None:
                times.append(self._round.at)
            times.extend(at for at in self.watches.wakeups() if at > now.mono)
        return times

    def _sent(self, claim: Claim) -> Claim:
        self.unknown = None
        self._flying = claim
        keys = frozenset(wish.key for wish in claim.wishes)
        self.slots.in_flight = keys
        self.watches.asked(keys)
        return claim

    def _repeat(self, claim: Claim, *, stopping: bool) -> Claim:
        """Repeat a claim exactly; where nobody waits for a win any more, win nothing new."""
        waited_for = all(
            wish.key in self.watches or self.slots.pending(wish.key) for wish in claim.wishes
        )
        return claim if waited_for and not stopping else claim._replace(wins=0)

    def plan(self, now: Now) -> None:
        """Keep a claim planned while something may be claimed and a worker is free."""
        if self.undecided:
            return
        due = self._due(now)
        ready = len(due) + len(self._ready(now))
        free = self._held.free_workers()
        if not ready:
            self._round = None
            self._starved = False
        elif free == 0:
            self._starved = True
            self._round = None
        elif self._starved:
            self._starved = False
            self._round = Round(now.mono, 1, now.mono, 0.0, free)
        elif self._round is None:
            window = self._window(due, ready, now)
            share = ceil(ready / self.fleet.size(now.mono))
            self._round = Round(now.mono + self._rng.random() * window, 1, now.mono, window, share)

    def _window(self, due: list[JobSlots], ready: int, now: Now) -> float:
        """Return how far this round's claims are spread over the fleet, in seconds."""
        jobs = due or [self.slots.jobs[watch.key.job] for watch in self._ready(now)]
        jitter = min(job.spec.jitter for job in jobs)
        period = min((job.period for job in due), default=inf)
        wide = jitter * max(1.0, self.fleet.size(now.mono) / ready)
        if self._held.live_count():
            wide *= 2  # let an idle instance be faster
        return min(wide, WIDEST_WINDOW, period / 10)

    def _due(self, now: Now) -> list[JobSlots]:
        """Return the jobs whose pending slot may be claimed: no handler of it lives here."""
        return [
            job
            for job in self.slots.eligible(now)
            if job.pending is not None and self._held.of(job.pending.key) is None
        ]

    def _ready(self, now: Now) -> list[Watch]:
        """Return the runs that may be taken over now: no handler of them lives here."""
        return [watch for watch in self.watches.ready(now.mono) if self._held.of(watch.key) is None]

    def _wishes(self, now: Now) -> list[Wish]:
        """Return the offer: runs to take over, then slots, the one due again soonest first."""
        used: set[str] = set()
        wishes = self._takeovers(now, used)
        due = [job for job in self._due(now) if job.spec.name not in used]
        chosen = heapq.nsmallest(
            self._offer,
            due,
            key=lambda job: (inf if job.next_ms is None else job.next_ms, job.order),
        )
        for job in chosen:
            if job.pending is not None:
                pending = job.pending
                self._specs[pending.key] = job.spec
                wish = Wish(
                    pending.key, 1, pending.reason, job.spec.terms, fence_seen=job.fence_seen
                )
                wishes.append(wish)
        return wishes

    def _takeovers(self, now: Now, used: set[str]) -> list[Wish]:
        wishes: list[Wish] = []
        for watch in self._ready(now):
            if watch.key.job not in used:
                job = self.slots.jobs[watch.key.job]
                used.add(watch.key.job)
                self._specs[watch.key] = job.spec
                wishes.append(_takeover(watch, job))
        return wishes

    # --- answers ---

    def failed(self, claim: Claim) -> None:
        """No answer: nothing of it starts, and it is repeated before anything else."""
        self._flying = None
        self.unknown = claim

    def answered(self, claim: Claim, claims: Claims, how: Answered, now: Now) -> list[HeldRun]:
        """Take in the answers; return the attempts that were won."""
        self._flying = None
        self.slots.in_flight = frozenset()
        won: list[HeldRun] = []
        for wish, answer in zip(claim.wishes, claims.answers, strict=True):
            self._unblock(wish.key)
            if isinstance(answer, Won):
                won.append(self._won(wish, answer, claims.store_ms, how))
            else:
                self._refused(wish, answer, how, now)
        self.learn(claims, how)
        self._forget_closed(claim, claims)
        self._next_round(claim, len(won), now)
        return won

    def learn(self, claims: Claims, how: Answered) -> None:
        """Become a backup of the open runs named, and tell of the runs closed in passing."""
        for run in claims.open:
            self._see(run, how)
        for closed in claims.closed:
            self.watches.forget(RunKey(closed.job, closed.slot))
            self.tell(closed)

    def remove(self, name: str) -> bool:
        """Stop scheduling and watching a job."""
        self.watches.forget_job(name)
        return self.slots.remove(name)

    def _unblock(self, key: RunKey) -> None:
        """The dead run that blocked a slot was answered for: ask for the slot again."""
        job = self.slots.jobs.get(key.job)
        if job and job.pending and job.pending.blocked_by == key:
            job.pending.blocked_by = None

    def tell(self, run: Run) -> None:
        """Emit the event of a run that this instance decided."""
        self._out.append(Emit(EVENTS[run.status], run))

    def _won(self, wish: Wish, answer: Won, store_ms: int, how: Answered) -> HeldRun:
        spec = self._specs.pop(wish.key)
        self.slots.settle(wish.key)
        self.watches.forget(wish.key)
        job = self.slots.jobs.get(wish.key.job)
        if job is not None:
            job.fence_seen = max(job.fence_seen, answer.fence)
        held = self._held.won(answer, spec, wish.reason, how.sent)
        # Won before its slot by the store's clock: the worker waits the rest.
        held.start_at = how.received + max(0, wish.key.slot_ms - store_ms) / 1000
        return held

    def _refused(self, wish: Wish, answer: Answer, how: Answered, now: Now) -> None:
        """Somebody else has the run, or it is decided, or it has to wait."""
        match answer:
            case Held(run=run):
                self.fleet.note(run.owner, how.received)
                self._see(run, how)
                self._taken(wish)
            case Waiting(attempt=attempt):
                watch = self._see(OpenRun(wish.key, "waiting", attempt), how)
                if watch is not None and watch.wants == wish.wants:
                    watch.ready_at = inf  # paused, or no win left: the next look decides
                self._taken(wish)
            case Closed(run=run, by=by):
                self.fleet.note(by, how.received)
                self.watches.forget(wish.key)
                if run is None:
                    self._taken(wish)
                else:
                    self.slots.settle(wish.key)
                    self.tell(run)
            case Missing():
                self.watches.forget(wish.key)
                job = self.slots.jobs.get(wish.key.job)
                if job is not None:
                    self.slots.catch_up(job, now)
            case _:
                self._put_off(wish, answer, how, now)

    def _put_off(self, wish: Wish, answer: Answer, how: Answered, now: Now) -> None:
        """The slot stays pending; if its next one fell due meanwhile, it was missed."""
        pending = self.slots.pending(wish.key)
        why = "not claimed in time"
        if isinstance(answer, Suspect):
            why = "blocked by a dead run"
            self._see(answer.other, how)
            if pending is not None:
                pending.blocked_by = answer.other.key
        elif isinstance(answer, Early) and pending is not None:
            pending.not_before = how.received + min(answer.wait_ms / 1000, LONGEST_WAIT)
        self.slots.supersede(wish.key, now, why)

    def _taken(self, wish: Wish) -> None:
        """Somebody else has the run."""
        if self.slots.settle(wish.key) and wish.reason == "scheduled":
            self._out.append(Note("taken", wish.key))

    def _see(self, run: OpenRun, how: Answered) -> Watch | None:
        """Become a backup, unless the attempt is held here or leases don't exist."""
        if not self._settings.leases or run.key.job not in self.slots.jobs:
            return None
        held = self._held.of(run.key)
        if held is not None and (run.mine or held.lease.attempt == run.attempt):
            return None
        return self.watches.see(run, how.received, agrees=how.agrees)

    def see_all(self, runs: tuple[OpenRun, ...], how: Answered) -> None:
        """Take in what a look, or a list of unfinished runs, shows."""
        for run in runs:
            self._see(run, how)

    def _forget_closed(self, claim: Claim, claims: Claims) -> None:
        """A reply names a job's other open runs: what it doesn't name has ended."""
        named: dict[str, list[RunKey]] = {wish.key.job: [wish.key] for wish in claim.wishes}
        for run in claims.open:
            named.setdefault(run.key.job, []).append(run.key)
        for answer in claims.answers:
            if isinstance(answer, Suspect):
                named[answer.key.job].append(answer.other.key)
        for job, keys in named.items():
            if len(keys) <= MOST_NAMED:
                self.watches.forget_job(job, except_for=keys)

    def _next_round(self, claim: Claim, won: int, now: Now) -> None:
        """Plan what follows: the same round with a larger offer, or the next one."""
        for wish in claim.wishes:
            self._specs.pop(wish.key, None)
        last, self._round = self._round, None
        left = len(self._due(now))
        if not left or last is None:
            self._offer = OFFER
        elif won < claim.wins and len(claim.wishes) >= self._offer:
            self._offer = min(MOST_OFFERED, self._offer * 4)
            self._round = last._replace(at=now.mono)
        else:
            earliest = last.base + last.number * last.window
            at = max(now.mono, earliest + self._rng.random() * last.window)
            self._round = last._replace(at=at, number=last.number + 1, share=last.share * 2)


def _takeover(watch: Watch, job: JobSlots) -> Wish:
    return Wish(
        watch.key,
        watch.wants,
        "takeover" if watch.wants > 1 else "scheduled",
        job.spec.terms,
        watch.beat,
        watch.first_seen,
        job.fence_seen,
    )
