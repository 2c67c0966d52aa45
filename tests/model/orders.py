"""Runs that the fleet is asked for: orders, who takes them, and what becomes of those of nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anarchon._values import BACKFILLED, TRIGGERED, Pace, Result, RunKey, Terms, Wish
from anarchon.backends._rules_end import KEPT_MS
from tests.model.askers import OWNERS
from tests.model.edges import Edges
from tests.model.steps import Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anarchon._values import Owner

PATIENT_MS = 10**12  # longer than any history: what waits is never too old
DATA = (None, None, '{"n": 1}', '"é \\u0000"', "x" * 70_000)


class Orders(Edges):
    """Orders that an author puts into a history."""

    _ordered = 0

    def order(self) -> Iterator[Step]:
        """Ask for runs, new ones mostly; and have some of them taken at once."""
        keys = [self._order() for _ in range(self.dice.choice((1, 1, 2, 3, 12)))]
        waiting = [key for key in self._seen if key.is_ordered]
        if waiting and self.dice.random() < 0.2:
            keys.append(self.dice.choice(waiting))
        if self.dice.random() < 0.02:
            keys.append(self.dice.choice((RunKey("\ud800", 0, "trigger-1"), RunKey("job", 0, "t"))))
        yield self._asked(keys, self.dice.choice(DATA))
        for key in self.dice.sample(keys, self.dice.randrange(2)):
            yield self._taken(key, 1, self._owner(), self.dice.choice((0, 1, 1, 2)))

    def _order(self, job: str = "", kind: str = "") -> RunKey:
        """Return a run of now, or of a past slot; the tokens' order isn't that of the slots."""
        self._ordered += 1
        now_ms, grid_ms = self.clock.wall_ms(), self.mood.grid_ms
        kind = kind or self.dice.choice((TRIGGERED, BACKFILLED))
        slot_ms = now_ms - self.dice.choice((0, 0, 1))
        if kind == BACKFILLED or self.dice.random() < 0.2:
            slot_ms = (now_ms // grid_ms - self.dice.randrange(6)) * grid_ms
        token = f"{kind}{self.dice.choice(('', 'é', 'z'))}{self._ordered}"
        return RunKey(job or self.dice.choice(self.mood.jobs), slot_ms, token)

    def queue(self) -> Iterator[Step]:
        """Take one backfilled slot after the other: just before, or when, the lease ends."""
        job = self.dice.choice(self.mood.jobs)
        first, second = sorted(self._order(job, BACKFILLED) for _ in range(2))
        lease_ms = self.dice.choice(self.mood.leases_ms)
        yield self._asked([second, first])
        if self.dice.random() < 0.2:
            yield Step("pause", (self.dice.choice((None, job)),), {"duration_ms": lease_ms})
        dead, heir = self.dice.sample(OWNERS, 2)
        yield self._taken(first, 1, dead, lease_ms=lease_ms)
        yield Step("advance", (lease_ms + self.dice.choice((-1, 0)),))
        yield Step("look", (job,), {"owner": heir})
        yield self._taken(second, 1, heir, lease_ms=lease_ms)
        if self.dice.random() < 0.3:
            # In its own place it comes before the one that somebody has.
            status = Result(second, 1, "interrupted", "catch-up", 0, 0)
            yield Step(self.dice.choice(("release", "finish")), (status,), {"owner": heir})
        yield Step("unfinished", (job,), {"owner": dead})
        yield Step("history", (job,), {"limit": 20, "before": None, "status": None})

    def unwanted(self) -> Iterator[Step]:
        """Leave orders, or dead backfills, for just as long as they are kept, or a bit more."""
        job = self.dice.choice(self.mood.jobs)
        keys = [self._order(job) for _ in range(3)]
        lease_ms = self.dice.choice(self.mood.leases_ms)
        yield self._asked(keys, '"old"')
        yield self._taken(min(keys), 1, OWNERS[0], lease_ms=lease_ms)
        yield Step("advance", (KEPT_MS + self.dice.choice((-lease_ms, 0, 0, 1)),))
        yield Step("unfinished", (job,), {"owner": OWNERS[1]})
        yield self._asked([self._order(job, TRIGGERED), self.dice.choice(keys)], '"new"')
        yield Step("unfinished", (job,), {"owner": OWNERS[1]})
        yield self._taken(self.dice.choice(keys), 1, OWNERS[1])

    def _asked(self, keys: list[RunKey], data: str | None = None) -> Step:
        return Step("trigger", tuple(keys), {"data": data})

    def _taken(
        self, key: RunKey, wants: int, owner: Owner, wins: int = 1, lease_ms: int = 0
    ) -> Step:
        lease_ms = lease_ms or self.dice.choice(self.mood.leases_ms)
        terms = Terms(lease_ms, lease_ms // 3, 0, skip_overlap=False, catch_up_ms=PATIENT_MS)
        wish = Wish(key, wants, "catch-up" if key.is_backfill else "manual", terms)
        pace = Pace(self.clock.mono(), self.clock.wall_ms(), 10**6)
        return Step("claim", (wish,), {"owner": owner, "wins": wins, "pace": pace})
