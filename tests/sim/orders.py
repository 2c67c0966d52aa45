"""What has to hold of runs that the fleet is asked for: each once, in order, and in time."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from anarchon._messages import (
    Claim,
    Finish,
    Look,
    Release,
    Skip,
    Unfinished,
)
from anarchon._values import Won

from .truth import RunTruth

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anarchon._messages import StoreCall
    from anarchon._threads_lanes import StoreAnswer
    from anarchon._values import RunKey

    from .instance import Instance
    from .ledger import Ledger
    from .referee import Referee, Witnessed

CLAIMED = 3.0  # as for slots: two rounds and the calls; for each that is claimed before
NEXT = 1.0  # seconds within which whoever has run one knows of the next
LOOKED = 0.5  # and by which a look for orders may be late, beside what is in flight
CHECKED = 5  # so many of a job are named in each answer, whatever else is there
TURNS = 3  # claims in a row that may win slots while an order waits


def check_win(ledger: Ledger, truth: RunTruth, lease_now: float) -> None:
    """Only what waits is given, and past slots oldest first and one at a time."""
    key, fail = truth.key, ledger._world.fail
    if truth.state == "new":
        fail("order-once", f"{key} is won, and nobody asked for it")
    if truth.state == "running":
        fail("order-once", f"{key} of {truth.owner} is taken over")
    if not key.is_backfill:
        return
    for other in ledger.open.values():
        if other.key.job != key.job or not other.key.is_backfill or other is truth:
            continue
        if other.state == "waiting" and other.key < key:
            fail("backfills-in-order", f"{key} is won before {other.key}")
        if other.state == "running" and other.until > lease_now:
            fail("backfills-in-order", f"{key} is won beside {other.key}")


class Orders:
    """Watches what the fleet is asked for."""

    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self._world = referee.world
        self._ledger = referee.ledger
        # When a job's open runs were last named to an instance, and when one ended there.
        self._heard: dict[tuple[str, str], float] = {}
        self._ended: dict[tuple[str, str], float] = {}
        self._held_up: dict[RunKey, float] = {}  # when it last had to wait for others, or a pause
        self._known: dict[tuple[RunKey, str], tuple[float, float]] = {}
        self._passed: dict[str, tuple[RunKey | None, int]] = {}

    def asked(self, keys: Iterable[RunKey]) -> None:
        """The store has these orders; it keeps each once."""
        ledger = self._ledger
        for key in keys:
            if key not in ledger.runs:
                truth = ledger.runs[key] = ledger.open[key] = RunTruth(key, None)
                truth.state, truth.extended, truth.opened = "waiting", self._world.now, 0.0
                ledger.figures["orders"] += 1

    def replied(
        self, inst: Instance, call: StoreCall, answer: StoreAnswer, executed_at: float
    ) -> None:
        """An answer names what waits; and an end makes its instance ask."""
        jobs: set[str] = set()
        if isinstance(call, Claim | Skip):
            jobs.update(wish.key.job for wish in call.wishes)
        elif isinstance(call, Look | Unfinished):
            jobs.update(call.jobs)
        elif isinstance(call, Finish | Release):
            for result in call.results:
                if result.key.is_ordered:
                    self._ended[inst.token, result.key.job] = self._world.now
        for job in jobs:
            self._heard[inst.token, job] = executed_at
        if isinstance(call, Claim):
            self._check_turns(inst, [one for one in answer.answers if isinstance(one, Won)])

    def _check_turns(self, inst: Instance, won: list[Won]) -> None:
        """Whoever wins slots, one claim after the other, wins an order in between.

        Dead runs that are taken over come before both: there are only so many.
        """
        before, count = self._passed.get(inst.token, (None, 0))
        known = [
            key
            for key, token in self._known
            if token == inst.token and not key.is_backfill and key in self._ledger.open
        ]
        waits = min(
            (key for key in known if self._ledger.open[key].state == "waiting"), default=None
        )
        if waits is None or any(one.key.is_ordered for one in won):
            self._passed.pop(inst.token, None)
        elif any(one.attempt == 1 for one in won):
            count = count + 1 if waits == before else 1
            self._passed[inst.token] = waits, count
            if count > TURNS:
                self._world.fail("order-turns", f"{inst} wins slots all the time, never {waits}")

    def check(self) -> None:
        """Look at everything that waits."""
        by_job: dict[str, list[RunTruth]] = {}
        for truth in self._ledger.open.values():
            if truth.key.is_ordered:
                by_job.setdefault(truth.key.job, []).append(truth)
        for job, truths in by_job.items():
            self._check_job(job, sorted(truths, key=lambda truth: truth.key))

    def _check_job(self, job: str, truths: list[RunTruth]) -> None:
        now, referee = self._world.now, self._referee
        lease_now = referee.store.lease_now()
        waiting = [truth for truth in truths if truth.state == "waiting"]
        free = [truth for truth in waiting if not truth.key.is_backfill][:CHECKED]
        runs = any(
            truth.state == "running" and truth.key.is_backfill and truth.until > lease_now
            for truth in truths
        )
        if not runs and not referee.liveness.paused(job):
            free += [truth for truth in waiting if truth.key.is_backfill][:1]
        for truth in truths:
            if truth not in free:
                self._held_up[truth.key] = now
        for rank, truth in enumerate(free, start=1):
            for seen in referee.living:
                self._check_taken(truth, rank, seen)

    def _check_taken(self, truth: RunTruth, rank: int, seen: Witnessed) -> None:
        """An instance in good shape, with a free worker, takes it in time."""
        inst, job, now = seen.inst, truth.key.job, self._world.now
        since = max(truth.extended, self._held_up.get(truth.key, -inf), self._ledger.lost_at)
        known = self._knows(truth.key, since, seen)
        if job not in seen.jobs or seen.busy or inst.keeper_delay:
            return
        heartbeat = inst.settings.heartbeat
        good = max(
            self._referee.liveness._base(seen, job),
            seen.reached + min(5.0, heartbeat / 2),
            seen.free,
        )
        if inst.settings.control is not None:
            known = min(known, max(since, good) + inst.settings.control + inst.limit + LOOKED)
        late = now - max(known, good) - 2 * heartbeat - rank * CLAIMED - 2 * inst.limit
        if late > 0:
            text = f"{truth.key} waits since {since:.2f} s; {inst} is {late:.2f} s too late"
            self._world.fail("every-order", text)

    def _knows(self, key: RunKey, since: float, seen: Witnessed) -> float:
        """Return since when an instance must know that this is to be had."""
        token = seen.inst.token
        known = inf
        if self._heard.get((token, key.job), -inf) >= since:
            before, at = self._known.get((key, token), (-inf, 0.0))
            known = at if before == since else self._world.now
            self._known[key, token] = since, known
        ended = self._ended.get((token, key.job), -inf)
        return min(known, ended + NEXT) if ended >= since else known
