"""What really happened at the store, read from its answers alone, and what may never happen there.

The ledger believes no instance and no guard: it keeps, for every run, who was told to have
won which attempt and when that lease was last extended, in true time.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

from anarchon._values import (
    Claims,
    Closed,
    Held,
    Lease,
    Looked,
    Lost,
    Owner,
    Recorded,
    Released,
    Renewed,
    RunKey,
    Settled,
    SkipWish,
    Suspect,
    Undecided,
    Won,
)

from .orders import check_win
from .truth import Kept, RunTruth

if TYPE_CHECKING:
    from anarchon._messages import (
        Claim,
        Skip,
        StoreCall,
    )
    from anarchon._runs import Run
    from anarchon._threads_lanes import StoreAnswer
    from anarchon._values import OpenRun, Result, Wish

    from .store import Store
    from .world import World

TOLERANCE_MS = 1000  # by which clocks may differ where slots are judged
SINCE = re.compile(r"slots since (\S+)$")


class Ledger:
    """All runs, and the invariants of single store operations."""

    def __init__(self, world: World, store: Store) -> None:
        self.runs: dict[RunKey, RunTruth] = {}
        self.open: dict[RunKey, RunTruth] = {}
        self.winners: dict[Lease, str] = {}
        self.fences: dict[str, int] = {}  # of each job: the highest that the store should know
        self.highest: dict[str, int] = {}  # and the highest that anybody was ever given
        self.fence_of: dict[tuple[Lease, str], int] = {}
        self.fences_told: dict[tuple[str, str], int] = {}  # to this owner, of this job
        # When what an owner holds was last extended, in true time; no failover changes that.
        self.extended_of: dict[tuple[Lease, str], float] = {}
        self.disputed: dict[Lease, int] = {}  # how often the store forgot something of a lease
        # Leases whose last extension the store has lost: another may take them meanwhile.
        self.shaken: set[tuple[Lease, str]] = set()
        self.forgotten: dict[str, float] = {}  # when the store forgot something of a run, at last
        # When the store last named a run to whom, and what of that a claim could know.
        self.named_at: dict[tuple[str, RunKey], float] = {}
        self.claimed_knowing: dict[tuple[str, RunKey], float] = {}
        self.figures: Counter[str] = Counter()
        self.covered: dict[str, list[tuple[int, int]]] = {}  # slots that a missed record stands for
        self.floor: dict[str, int] = {}  # of each job: the newest slot that was refused as trimmed
        self.last_open: dict[str, float] = {}  # of each job: when a run was open, in true time
        self.gave_up: set[tuple[Lease, str]] = set()  # who lost a lease: these ends count
        self.stepped_at = -1e9
        self.lost_at = -1e9  # when the store lost writes last
        self.touched_at = -1e9  # when an old copy came last
        self.touched: set[str] = set()  # of whose claims an old copy came
        self._old = False  # what is executed now is a copy that nobody waits for
        self._world = world
        self._store = store

    # --- what was executed ---

    def executed(self, call: StoreCall, answer: StoreAnswer, owner: Owner, old: bool) -> None:
        """Take in one executed call, and check it."""
        self._old = old
        if old:
            self.touched_at = self._world.now
            self.touched.add(owner.token)
        if isinstance(answer, Claims):
            self._judged(call, answer, owner)
        elif isinstance(answer, Renewed):
            for lease in set(call.leases).difference(answer.lost, answer.done):
                self._renewed(lease, owner)
        elif isinstance(answer, Settled):
            for result, one in zip(call.results, answer.answers, strict=True):
                if not isinstance(one, Lost | Undecided):
                    self._settled(one, owner, result)

    def _judged(self, call: Claim | Skip, claims: Claims, owner: Owner) -> None:
        for wish, one in zip(call.wishes, claims.answers, strict=True):
            if isinstance(one, Won):
                self._won(wish, one, owner)
            elif isinstance(one, Closed) and one.detail == "trimmed":
                self._trimmed(wish.key)
            elif isinstance(one, Closed) and one.run is not None:
                if (
                    isinstance(wish, SkipWish)
                    and RunKey(one.run.job, one.run.slot) not in self.runs
                ):
                    self._missed(wish, owner)
                self._decided(one.run)
        for run in claims.closed:
            self._decided(run)

    def _trimmed(self, key: RunKey) -> None:
        """A slot is refused as no newer than what was trimmed: decided, or stepped over."""
        if not any(one.job == key.job and one.slot_ms >= key.slot_ms for one in self.runs):
            self._fail("every-slot", f"{key} is refused as trimmed, and nothing newer is known")
        self.floor[key.job] = max(key.slot_ms, self.floor.get(key.job, 0))

    def _missed(self, wish: SkipWish, owner: Owner) -> None:
        """A slot is closed as missed: not before the next one is due."""
        early = wish.next_ms - self._store.time.wall_ms()
        if early > TOLERANCE_MS:
            text = f"{owner.token} closes {wish.key} {early} ms before the next slot is due"
            self._fail("every-slot", text)

    def replied(self, jobs: set[str], token: str, executed_at: float) -> None:
        """A reply reached its asker that names every run of these jobs that was open then."""
        for truth in self.open.values():
            if truth.key.job in jobs and truth.opened <= executed_at:
                truth.known.setdefault(token, self._world.now)

    def named(self, answer: StoreAnswer, token: str, executed_at: float) -> None:
        """A reply reached its asker that may say how some runs were then."""
        runs: list[OpenRun] = []
        if isinstance(answer, Looked):
            runs += answer.wrong
        elif isinstance(answer, Claims):
            runs += answer.open
            runs += [one.run for one in answer.answers if isinstance(one, Held)]
            runs += [one.other for one in answer.answers if isinstance(one, Suspect)]
        for run in runs:
            self.named_at[token, run.key] = executed_at

    def claims(self, claim: Claim, token: str) -> None:
        """A claim is sent: it can know what was named to its asker until now."""
        for wish in claim.wishes:
            named = token, wish.key
            self.claimed_knowing[named] = self.named_at.get(named, 0.0)

    def cancelled(self, key: RunKey) -> None:
        """Take in a cancel that somebody outside asked for."""
        truth = self.runs[key]
        truth.cancelled = True
        if truth.state == "waiting":
            self._close(truth, "interrupted")

    def decided(self, job: str, slot_ms: int) -> bool:
        """Say whether a slot has a record, or is covered by one."""
        if RunKey(job, slot_ms) in self.runs or slot_ms <= self.floor.get(job, 0):
            return True
        return any(first <= slot_ms <= last for first, last in self.covered.get(job, ()))

    # --- claims ---

    def _won(self, wish: Wish, won: Won, owner: Owner) -> None:
        truth = self.runs.get(won.key) or RunTruth(won.key, wish.terms)
        lease = Lease(won.key, won.attempt)
        again = truth.state == "running" and truth.attempt == won.attempt
        if again and truth.owner == owner.token:
            if won.fence != self.fence_of.get((lease, owner.token)):
                self._fail("fence", f"{owner.token} has {won.fence} for {lease}, told again")
            self._extend(truth)
            return
        if won.attempt != wish.wants or truth.state == "closed" or lease in self.winners:
            self._fail("one-winner", f"{owner.token} won {lease} when it was {truth.state}")
        if won.attempt != truth.attempt + 1:
            self._fail("one-winner", f"attempt {won.attempt} of {won.key} after {truth.attempt}")
        if won.key.is_ordered:
            check_win(self, truth, self._store.lease_now())
        elif won.attempt == 1 and (newer := self._newer(won.key)) is not None:
            self._fail("overlap", f"{owner.token} begins {won.key}, {newer} was decided before")
        if truth.cancelled:
            self._fail("one-winner", f"{owner.token} won {lease}, which was cancelled")
        self._fenced(won, owner)
        self._count("ordered" if won.key.is_ordered and won.attempt == 1 else truth.state)
        if truth.state == "running":
            self._taken(truth, owner)
        self.winners[lease] = owner.token
        self.runs[won.key] = self.open[won.key] = truth
        truth.state, truth.attempt, truth.owner = "running", won.attempt, owner.token
        truth.terms = wish.terms
        truth.won_at = self._world.now
        truth.opened = truth.opened or self._world.now
        self._extend(truth)
        self._explained(truth)

    def _fenced(self, won: Won, owner: Owner) -> None:
        """Every start has a higher fence than all before it, as far as a store can know of them.

        After lost writes that is what survived and what the winner has seen, and what lies
        behind the store's clock: all there is, unless that clock has ever been stepped.
        """
        job, fence = won.key.job, won.fence
        # An old copy was sent before its sender was told of what it knows now.
        told = 0 if self._old else self.fences_told.get((owner.token, job), 0)
        most = max(self.fences.get(job, 0), told)
        if self.stepped_at < 0:
            most = max(most, self.highest.get(job, 0))
        if fence <= most:
            self._fail("fence", f"{owner.token} got {fence} for {won.key}, after {most}")
        self.fences[job] = max(self.fences.get(job, 0), fence)
        self.highest[job] = max(self.highest.get(job, 0), fence)
        self.fence_of[Lease(won.key, won.attempt), owner.token] = fence

    def _newer(self, key: RunKey) -> RunKey | None:
        """Return a later slot of the job that is due, and has a record."""
        wall_ms = self._store.time.wall_ms()
        for other in self.runs:
            if other.job == key.job and key.slot_ms < other.slot_ms <= wall_ms and not other.manual:
                return other
        return None

    def _count(self, state: str) -> None:
        self.figures["attempts"] += 1
        kinds = {"running": "takeovers", "waiting": "hand-overs", "ordered": "orders taken"}
        self.figures[kinds.get(state, "runs")] += 1

    def _taken(self, truth: RunTruth, by: Owner) -> None:
        """Somebody takes a running attempt from its owner, or closes it."""
        terms = truth.terms
        assert terms is not None
        lease = terms.lease_ms / 1000
        margin = max(lease / 10, 0.25)
        since = self._world.now - truth.extended
        forgotten = self.forgotten.get(truth.key.run_id, -1e9)
        if self.claimed_knowing.get((by.token, truth.key), 0.0) < forgotten:
            return  # the same attempt and beat as before the loss: nobody can tell them apart
        if since < lease - margin - 0.01:
            text = f"{by.token} takes {truth.key} from {truth.owner}, {since:.3f} s after"
            self._fail("no-early-takeover", f"{text} a renewal, lease {lease:g} s")

    def _explained(self, truth: RunTruth) -> None:
        """A run's attempts are no more than its deaths and hand-overs allow."""
        assert truth.terms is not None
        most = max(1, truth.terms.budget) + truth.free
        if truth.attempt > most:
            self._fail("hand-overs-are-free", f"{truth.key} has {truth.attempt} attempts")

    def _extend(self, truth: RunTruth) -> None:
        truth.extended = self._world.now
        held = Lease(truth.key, truth.attempt), truth.owner
        self.extended_of[held] = self._world.now
        self.shaken.discard(held)
        if truth.terms is not None:
            truth.until = self._store.lease_now() + truth.terms.lease_ms / 1000

    def _renewed(self, lease: Lease, owner: Owner) -> None:
        truth = self.runs[lease.key]
        if truth.state != "running" or (truth.attempt, truth.owner) != (lease.attempt, owner.token):
            self._fail("one-winner", f"{owner.token} renewed {lease}, held by {truth.owner}")
        self._extend(truth)

    # --- ends ---

    def _settled(self, answer: Recorded | Released, owner: Owner, result: Result) -> None:
        lease = answer.lease
        truth = self.runs.get(lease.key) or self._unheard_of(lease, owner)
        if result.status == "running":
            return  # a manual run that begins
        mine = (truth.attempt, truth.owner) == (lease.attempt, owner.token)
        if not mine or (isinstance(answer, Recorded) and truth.state == "waiting"):
            text = f"{owner.token} recorded an end of {lease}, held by {truth.owner}"
            self._fail("self-fence", text)
        if truth.state != "running":
            return  # a repeat
        if isinstance(answer, Released):
            truth.state, truth.extended = "waiting", self._world.now
            truth.free += (lease, owner.token) not in self.gave_up
        else:
            if result.counted and answer.status == "failed":
                self._died(truth, handed_over=(lease, owner.token) not in self.gave_up)
            self._close(truth, answer.status)

    def _unheard_of(self, lease: Lease, owner: Owner) -> RunTruth:
        """A run that no claim has begun: somebody asked for it by a call."""
        truth = self.runs[lease.key] = RunTruth(lease.key, None)
        truth.state, truth.attempt, truth.owner = "running", lease.attempt, owner.token
        return truth

    def _died(self, truth: RunTruth, *, handed_over: bool = False) -> None:
        """A run is given up because its runners died: hand-overs are no deaths."""
        assert truth.terms is not None
        deaths = truth.attempt - truth.free - handed_over
        if deaths < truth.terms.budget:
            text = f"{truth.key} failed after {deaths} deaths of {truth.terms.budget}"
            self._fail("hand-overs-are-free", text)

    def _decided(self, run: Run) -> None:
        """A claim or a skip has closed a run, or says so again."""
        key = RunKey(run.job, run.slot, run.run_id if run.manual else "")
        truth = self.runs.get(key)
        if truth is None:
            truth = self.runs[key] = RunTruth(key, None)
            if run.status == "missed":
                self._cover(run)
        elif truth.state == "closed":
            return
        elif truth.state == "running":
            if self._store.steady or not key.is_backfill:  # which have no witness
                self._taken(truth, Owner("somebody", ""))
            if run.status == "failed":
                self._died(truth)
        self._close(truth, run.status)

    def _cover(self, run: Run) -> None:
        since = SINCE.search(run.detail or "")
        if since:
            first = round(datetime.fromisoformat(since[1]).timestamp() * 1000)
            self.covered.setdefault(run.job, []).append((first, run.slot))

    def _close(self, truth: RunTruth, status: str) -> None:
        truth.state, truth.status = "closed", status
        self.open.pop(truth.key, None)
        self.last_open[truth.key.job] = self._world.now

    # --- lost writes ---

    def keep(self) -> Kept:
        """Return what is known now, as a replica that hears of nothing more has it."""
        runs = {key: truth.copy() for key, truth in self.runs.items()}
        return Kept(runs, dict(self.winners), dict(self.fences))

    def lose(self, kept: Kept) -> set[RunKey]:
        """The store goes on with what was kept; return the runs of which it forgot something."""
        self.lost_at = now = self._world.now
        forgotten = {
            key
            for key, truth in self.runs.items()
            if key not in kept.runs or kept.runs[key].holding != truth.holding
        }
        self.forgotten.update((key.run_id, now) for key in forgotten)
        for key in forgotten:
            truth = self.runs[key]
            for attempt in range(1, truth.attempt + 1):
                lease = Lease(key, attempt)
                self.disputed[lease] = self.disputed.get(lease, 0) + 1
            self.shaken.add((Lease(key, truth.attempt), truth.owner))
            self.last_open[key.job] = now
        self.runs, self.winners, self.fences = kept
        self.open = {}
        for key, truth in self.runs.items():
            if truth.state in ("running", "waiting") and not key.is_called:
                self.open[key] = truth
                truth.opened = max(truth.opened, now if key in forgotten else 0.0)
        return forgotten

    def _fail(self, name: str, text: str) -> None:
        self._world.fail(name, text)
