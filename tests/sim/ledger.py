"""What really happened at the store, read from its answers alone, and what may never happen there.

The ledger believes no instance and no guard: it keeps, for every run, who was told to have
won which attempt and when that lease was last extended, in true time.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

from anarchon._values import (
    Claims,
    Closed,
    Lease,
    Lost,
    Owner,
    Recorded,
    Released,
    Renewed,
    RunKey,
    Settled,
    Won,
)

if TYPE_CHECKING:
    from anarchon._messages import (
        Claim,
        Skip,
        StoreCall,
    )
    from anarchon._runs import Run
    from anarchon._threads_lanes import StoreAnswer
    from anarchon._values import Result, Terms, Wish

    from .store import Store
    from .world import World

SINCE = re.compile(r"slots since (\S+)$")


class RunTruth:
    """One run, as the store's answers make it out."""

    __slots__ = (
        "attempt",
        "cancelled",
        "extended",
        "fences",
        "free",
        "key",
        "known",
        "opened",
        "owner",
        "state",
        "status",
        "terms",
        "until",
        "won_at",
    )

    def __init__(self, key: RunKey, terms: Terms | None) -> None:
        self.key = key
        self.terms = terms
        self.state = "new"
        self.attempt = 0
        self.owner = ""
        self.extended = 0.0  # true time of the last extension, or of the release
        self.until = 0.0  # lease end by the store's clock
        self.free = 0  # attempts that were handed over, which cost nothing
        self.status = ""
        self.cancelled = False
        self.fences: dict[int, float] = {}  # by when attempts that were taken had to be given up
        self.won_at = 0.0
        self.opened = 0.0  # true time of the first win
        self.known: dict[str, float] = {}  # since when an instance should know of it


class Ledger:
    """All runs, and the invariants of single store operations."""

    def __init__(self, world: World, store: Store) -> None:
        self.runs: dict[RunKey, RunTruth] = {}
        self.open: dict[RunKey, RunTruth] = {}
        self.winners: dict[Lease, str] = {}
        self.covered: dict[str, list[tuple[int, int]]] = {}  # slots that a missed record stands for
        self.last_open: dict[str, float] = {}  # of each job: when a run was open, in true time
        self.gave_up: set[Lease] = set()  # attempts that lost their lease: these ends count
        self.stepped_at = -1e9
        self.touched_at = -1e9  # when an old copy came last
        self._world = world
        self._store = store

    # --- what was executed ---

    def executed(self, call: StoreCall, answer: StoreAnswer, owner: Owner, old: bool) -> None:
        """Take in one executed call, and check it."""
        if old:
            self.touched_at = self._world.now
        if isinstance(answer, Claims):
            self._judged(call, answer, owner)
        elif isinstance(answer, Renewed):
            for lease in set(call.leases).difference(answer.lost):
                self._renewed(lease, owner)
        elif isinstance(answer, Settled):
            for result, one in zip(call.results, answer.answers, strict=True):
                if not isinstance(one, Lost):
                    self._settled(one, owner, result)

    def _judged(self, call: Claim | Skip, claims: Claims, owner: Owner) -> None:
        for wish, one in zip(call.wishes, claims.answers, strict=True):
            if isinstance(one, Won):
                self._won(wish, one, owner)
            elif isinstance(one, Closed) and one.run is not None:
                self._decided(one.run)
        for run in claims.closed:
            self._decided(run)

    def replied(self, jobs: set[str], token: str, executed_at: float) -> None:
        """A reply reached its asker that names every run of these jobs that was open then."""
        for truth in self.open.values():
            if truth.key.job in jobs and truth.opened <= executed_at:
                truth.known.setdefault(token, self._world.now)

    def cancelled(self, key: RunKey) -> None:
        """Take in a cancel that somebody outside asked for."""
        truth = self.runs[key]
        truth.cancelled = True
        if truth.state == "waiting":
            self._close(truth, "interrupted")

    def decided(self, job: str, slot_ms: int) -> bool:
        """Say whether a slot has a record, or is covered by one."""
        if RunKey(job, slot_ms) in self.runs:
            return True
        return any(first <= slot_ms <= last for first, last in self.covered.get(job, ()))

    # --- claims ---

    def _won(self, wish: Wish, won: Won, owner: Owner) -> None:
        truth = self.runs.get(won.key) or RunTruth(won.key, wish.terms)
        lease = Lease(won.key, won.attempt)
        again = truth.state == "running" and truth.attempt == won.attempt
        if again and truth.owner == owner.token:
            self._extend(truth)
            return
        if won.attempt != wish.wants or truth.state == "closed" or lease in self.winners:
            self._fail("one-winner", f"{owner.token} won {lease} when it was {truth.state}")
        if won.attempt != truth.attempt + 1:
            self._fail("one-winner", f"attempt {won.attempt} of {won.key} after {truth.attempt}")
        if truth.cancelled:
            self._fail("one-winner", f"{owner.token} won {lease}, which was cancelled")
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

    def _taken(self, truth: RunTruth, by: Owner) -> None:
        """Somebody takes a running attempt from its owner, or closes it."""
        terms = truth.terms
        assert terms is not None
        lease = terms.lease_ms / 1000
        margin = max(lease / 10, 0.25)
        since = self._world.now - truth.extended
        truth.fences[truth.attempt] = truth.extended + lease - margin
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
            truth.free += lease not in self.gave_up
        else:
            if result.counted and answer.status == "failed":
                self._died(truth, handed_over=lease not in self.gave_up)
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
        key = RunKey(run.job, run.slot)
        truth = self.runs.get(key)
        if truth is None:
            truth = self.runs[key] = RunTruth(key, None)
            if run.status == "missed":
                self._cover(run)
        elif truth.state == "closed":
            return
        elif truth.state == "running":
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

    def _fail(self, name: str, text: str) -> None:
        self._world.fail(name, text)
