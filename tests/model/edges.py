"""Scenes at the edge of a guard: in the last moment in which something holds, or the next one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anarchon._values import Pace, Result, RunKey, SkipWish, Terms, Wish
from tests.model.askers import OWNERS, Askers
from tests.model.steps import Step

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR_MS = 3_600_000


class Edges(Askers):
    """Scenes that an author puts into a history; each brings what it needs."""

    def vigil(self) -> Iterator[Step]:
        """Watch an owner die, and claim its run when that is just allowed, or just not."""
        key, terms = self._fresh(), self._edge_terms()
        dead, heir = self.dice.sample(OWNERS, 2)
        yield self._first(key, terms, dead)
        yield Step("advance", (terms.lease_ms + self.dice.choice((-1, 0, 0, 0, 1)),))
        unseen_ms, pace = self._just_a_witness(terms.lease_ms)
        yield self._second(key, terms, heir, unseen_ms, pace)

    def age(self) -> Iterator[Step]:
        """Have a run wait, or be dead, for as long as it may still go on, or a moment more."""
        key, terms = self._fresh(), self._edge_terms()
        dead, heir = self.dice.sample(OWNERS, 2)
        yield self._first(key, terms, dead)
        age_ms = max(terms.catch_up_ms, 3 * terms.lease_ms)
        if self.dice.random() < 0.5:
            released = Result(key, 1, "interrupted", "scheduled", 0, 0)
            yield Step("release", (released,), {"owner": dead})
        else:
            age_ms += terms.lease_ms
        yield Step("advance", (age_ms + self.dice.choice((0, 1)),))
        if self.dice.random() < 0.3:
            # The next slot is decided beside it.
            yield self._first(self._fresh(key.job), terms._replace(skip_overlap=True), heir)
        yield self._second(key, terms, heir, 2 * age_ms, Pace(self.clock.mono()))

    def brink(self) -> Iterator[Step]:
        """Claim a slot when a pause ends, or as early as the store's clock allows."""
        key, owner = self._fresh(), self.dice.choice(OWNERS)
        if self.dice.random() < 0.5:
            yield Step("pause", (self.dice.choice((None, key.job)),), {"duration_ms": 500})
            yield Step("advance", (500 - self.dice.choice((0, 1)),))
            yield self._first(key, self._edge_terms(), owner)
            return
        early_ms = self.dice.choice((0, 1000)) + self.dice.choice((0, 1))
        pace = Pace(self.clock.mono(), tolerance_ms=early_ms // 1000 * 1000)
        slot_ms = self.clock.wall_ms() + early_ms
        if self.dice.random() < 0.5:
            wish = Wish(key._replace(slot_ms=slot_ms), 1, "scheduled", self._edge_terms())
            yield Step("claim", (wish,), {"owner": owner, "wins": 1, "pace": pace})
        else:
            wish = SkipWish(key, slot_ms, "edge")
            yield Step("skip", (wish,), {"owner": owner, "pace": pace})

    def lateness(self) -> Iterator[Step]:
        """Look at a run when its renewal is just late, or it has just ended."""
        key, terms = self._fresh(), self._edge_terms()
        owner, other = self.dice.sample(OWNERS, 2)
        yield self._first(key, terms, owner)
        late_ms = math.ceil(1.5 * terms.heartbeat_ms)
        passed_ms = self.dice.choice((late_ms, late_ms - 1, terms.lease_ms, terms.lease_ms - 1))
        yield Step("advance", (passed_ms,))
        yield Step("look", (key.job,), {"owner": self.dice.choice((owner, other))})
        yield Step("history", (key.job,), {"limit": 2, "before": None, "status": None})

    def forgotten(self) -> Iterator[Step]:
        """End runs beside a manual one that is just, or not yet, old enough to be trimmed."""
        job, owner, now_ms = self.dice.choice(self.mood.jobs), OWNERS[0], self.clock.wall_ms()
        lease_ms = self.dice.choice(self.mood.leases_ms)
        called = Result(RunKey(job, now_ms, f"old {now_ms}"), 1, "running", "manual", now_ms, 0)
        yield Step("record_manual", (called,), {"owner": owner, "lease_ms": lease_ms})
        kept_ms = max(HOUR_MS, 3 * lease_ms) + lease_ms
        yield Step("advance", (kept_ms + self.dice.choice((0, 1)),))
        now_ms = self.clock.wall_ms()
        results = tuple(
            Result(RunKey(job, now_ms - number), 1, "success", "scheduled", 0, 0)
            for number in range(110)
        )
        yield Step("finish", results, {"owner": owner})
        yield Step("history", (job,), {"limit": 500, "before": None, "status": None})

    # --- what they are made of ----------------------------------------------------

    def _fresh(self, job: str = "") -> RunKey:
        """Return a slot that nobody has claimed: now is later than all others."""
        return RunKey(job or self.dice.choice(self.mood.jobs), self.clock.wall_ms())

    def _edge_terms(self) -> Terms:
        lease_ms = self.dice.choice(self.mood.leases_ms)
        catch_up_ms = self.dice.choice((0, 5 * lease_ms))
        return Terms(lease_ms, lease_ms // 3, self.dice.choice((0, 1, 2, 3)), False, catch_up_ms)

    def _first(self, key: RunKey, terms: Terms, owner: object) -> Step:
        wish = Wish(key, 1, "scheduled", terms)
        return Step("claim", (wish,), {"owner": owner, "wins": 1, "pace": Pace(self.clock.mono())})

    def _second(
        self, key: RunKey, terms: Terms, owner: object, unseen_ms: int | None, pace: Pace
    ) -> Step:
        since = None if unseen_ms is None else self.clock.mono() - unseen_ms / 1000
        wish = Wish(key, 2, "takeover", terms, 0, since)
        return Step("claim", (wish,), {"owner": owner, "wins": 1, "pace": pace})

    def _just_a_witness(self, lease_ms: int) -> tuple[int | None, Pace]:
        """Return for how long a run was watched, and clocks; one of both may be enough."""
        now_ms, mono = self.clock.wall_ms(), self.clock.mono()
        margin_ms = max(lease_ms / 10, 250)
        witness_ms, half_ms = math.ceil(lease_ms - margin_ms), math.ceil(margin_ms / 2)
        blind, agree = Pace(mono), Pace(mono, now_ms, 10**6)
        return self.dice.choice((
            *((ms, blind) for ms in (lease_ms, lease_ms - 1, witness_ms, witness_ms - 1)),
            *(
                (None, agree._replace(expected_ms=now_ms + apart_ms))
                for apart_ms in (0, half_ms, half_ms - 1, -half_ms, 1 - half_ms)
            ),
            *((None, agree._replace(steady_ms=ms)) for ms in (witness_ms, witness_ms - 1)),
        ))  # fmt: skip
