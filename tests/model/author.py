"""Makes histories: on a store, a seed and a number always give the same one."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from anarchon._values import (
    Lease,
    Pace,
    Result,
    RunKey,
    SkipWish,
    Terms,
    Wish,
)
from anarchon.backends._rules import FENCE_LIMIT
from tests.model.askers import OWNERS
from tests.model.moods import any_mood
from tests.model.orders import PATIENT_MS, Orders
from tests.model.steps import TIMES, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anarchon._values import (
        Owner,
    )
    from tests.model.askers import Seen
    from tests.model.moods import Mood
    from tests.model.stores import Store

STATUSES = ("success", "failed", "interrupted")
TEXTS = (None, "", "why", "null", 'a "quote" \\ \0 é', "\u2400 and \ud800", "x" * 9000)
VALUES = ('{"é": "😀"}', "{}", '"a\\u0000b"', "", "x" * 70_000)
DAY_MS = 24 * 3_600_000
SHOWN = 25  # runs that are looked into at the end
LENGTH = 120  # steps of a history, without those that show what was kept


class Author(Orders):
    """Says what happens next, from what was answered so far."""

    def __init__(
        self,
        store: Store,
        seed: int,
        number: int,
        length: int = LENGTH,
        mood: Callable[[random.Random, Store], Mood] = any_mood,
    ) -> None:
        super().__init__(random.Random(f"{seed}/{number}"))
        self.mood = mood(self.dice, store)
        self._shares = store.shares
        self._length = length
        self._later: list[tuple[int, Step]] = []  # copies under way, and when they arrive
        self._slots: dict[RunKey, None] = {}
        self._boots = 0

    # --- what a checker asks for --------------------------------------------------

    def steps(self) -> Iterator[Step]:
        """Give one step after the other, and then those that show what was kept."""
        acts = [act for act, weight in self.mood.weights.items() for _ in range(weight)]
        number = 0
        while number < self._length:
            for step in getattr(self, self.dice.choice(acts))():
                yield self._told(step)
                number += 1
                if self.dice.random() < self.mood.doubt and step.what not in TIMES:
                    yield from self._again(step, number)
            for due, step in [one for one in self._later if one[0] <= number]:
                self._later.remove((due, step))
                yield step
        for step in self._inspection():
            yield self._told(step)

    def _told(self, step: Step) -> Step:
        if step.what in ("advance", "step"):
            getattr(self.clock, step.what)(*step.items)
        return step

    def _again(self, step: Step, number: int) -> Iterator[Step]:
        """Send it once more: now, for its reply was lost, or later, by a slow network."""
        if self.dice.random() < 0.5:
            yield step._replace(why="again")
        else:
            self._later.append((number + self.dice.randrange(2, 25), step._replace(why="late")))

    # --- claims -------------------------------------------------------------------

    def claim(self) -> Iterator[Step]:
        jobs = self.dice.sample(self.mood.jobs, self.dice.randint(1, len(self.mood.jobs)))
        wishes = [self._wish(job) for job in jobs]
        yield self._claim(wishes, self._owner(), self.dice.choice((0, 1, 1, 2, 3, 9)))

    def _claim(self, wishes: list[Wish], owner: Owner, wins: int) -> Step:
        self._slots.update((wish.key, None) for wish in wishes)
        options = {"owner": owner, "wins": wins, "pace": self._pace()}
        return Step("claim", tuple(wishes), options)

    def _wish(self, job: str) -> Wish:
        known = [key for key in self._seen if key.job == job]
        if not known or self.dice.random() < 0.3:
            key, wants = self._key(job), self.dice.choice((1, 1, 1, 1, 2))
            return Wish(key, wants, "scheduled", self._terms(), fence_seen=self._fence_seen())
        key = self.dice.choice(known)
        seen, terms = self._seen[key], self._terms()
        if not seen.attempt:
            terms = terms._replace(catch_up_ms=PATIENT_MS)
        return Wish(
            key,
            seen.attempt + self.dice.choice((0, 1, 1, 1, 1, 2)),
            self.dice.choice(("scheduled", "takeover", "catch-up")),
            terms,
            seen.beat + self.dice.choice((0, 0, 0, 0, 0, 0, 1, -1)),
            self._first_seen(seen),
            self._fence_seen(),
        )

    def _terms(self) -> Terms:
        lease_ms = self.dice.choice(self.mood.leases_ms)
        if self.dice.random() < 0.01:
            lease_ms = self.dice.choice((0, -5, 2**60))
        catch_up_ms = self.dice.choice((0, 0, 4 * lease_ms, 10 * lease_ms, DAY_MS))
        budget = self.dice.choice((0, 1, 2, 3, 3))
        return Terms(lease_ms, lease_ms // 3, budget, self.dice.random() < 0.6, max(0, catch_up_ms))

    def _first_seen(self, seen: Seen) -> float | None:
        """Return since when the asker saw that beat: truly, or just long enough, or just not."""
        if self.dice.random() < 0.4:
            return self.dice.choice((None, seen.since, seen.since))
        lease_ms = seen.lease_ms or self.mood.leases_ms[0]
        witness_ms = _witness_ms(lease_ms)
        unseen_ms = self.dice.choice((
            *(0, lease_ms, lease_ms - 1, 10 * lease_ms),
            *(math.ceil(witness_ms), math.ceil(witness_ms) - 1),
        ))  # fmt: skip
        return self.clock.mono() - unseen_ms / 1000

    def _fence_seen(self) -> int:
        return self.dice.choice((0, 0, 7, self._fence, self._fence + 10**6, self._no_fence()))

    def _no_fence(self) -> int:
        """Return now and then a number that leaves hardly any room, or none, for a fence."""
        nonsense = FENCE_LIMIT - self.dice.choice((0, 1, 2))
        return nonsense if self.dice.random() < 0.05 else 0

    def _pace(self) -> Pace:
        """Return clocks that agree, or that just do, or just don't."""
        lease_ms = self.dice.choice(self.mood.leases_ms)
        half_ms = math.ceil(max(lease_ms / 10, 250) / 2)
        apart_ms = self.dice.choice((0, 0, 0, half_ms, half_ms - 1, 1 - half_ms, -half_ms, 5000))
        witness_ms = math.ceil(_witness_ms(lease_ms))
        steady_ms = self.dice.choice((0, witness_ms, witness_ms - 1, 10**6, 10**6))
        expected_ms = self.clock.wall_ms() + apart_ms
        tolerance_ms = self.dice.choice((1000, 1000, 1000, 0, 5000))
        return Pace(self.clock.mono(), expected_ms, steady_ms, tolerance_ms)

    def _key(self, job: str) -> RunKey:
        """Return one of a few slots around now, or one that no store can hold."""
        if self.dice.random() < 0.01:
            return self.dice.choice((RunKey("\ud800", 0), RunKey(job, 10**15)))
        grid_ms, now_ms = self.mood.grid_ms, self.clock.wall_ms()
        late = self.dice.choice((-1, 0, 0, 0, 1, 1, 2, 3, 20))
        return RunKey(job, (now_ms // grid_ms - late) * grid_ms)

    def skip(self) -> Iterator[Step]:
        wishes = [self._skip_wish() for _ in range(self.dice.choice((1, 1, 2)))]
        options = {"owner": self._owner(), "pace": self._pace()}
        yield Step("skip", tuple(wishes), options)

    def _skip_wish(self) -> SkipWish:
        slots = [key for key in self._seen if not key.manual]
        key = self._key(self.dice.choice(self.mood.jobs))
        if slots and self.dice.random() < 0.5:
            key = self.dice.choice(slots)
        next_ms = key.slot_ms + self.dice.choice((1, self.mood.grid_ms, 60_000))
        return SkipWish(key, next_ms, self.dice.choice(("busy", "no \0")))

    # --- ends ---------------------------------------------------------------------

    def finish(self) -> Iterator[Step]:
        yield self._settled("finish")

    def release(self) -> Iterator[Step]:
        yield self._settled("release")

    def _settled(self, what: str) -> Step:
        """End runs of one owner mostly, some of which it hasn't got any more."""
        found = self._some_leases(self.dice.choice((1, 1, 2, 3)))
        owner = found[0][0] if found and self.dice.random() < 0.8 else self._owner()
        leases = [lease for by, lease in found if by == owner or self.dice.random() < 0.2]
        if not leases or self.dice.random() < 0.15:
            key = self._key(self.dice.choice(self.mood.jobs))
            leases.append(Lease(key, self.dice.choice((1, 1, 2))))
        if self.dice.random() < 0.2:
            leases.append(leases[0])
        self._slots.update((lease.key, None) for lease in leases if not lease.key.manual)
        return Step(what, tuple(map(self._result, leases)), {"owner": owner})

    def _result(self, lease: Lease, status: str | None = None) -> Result:
        now_ms = self.clock.wall_ms()
        return Result(
            lease.key,
            lease.attempt,
            status or self.dice.choice(STATUSES),
            "manual" if lease.key.manual else self.dice.choice(("scheduled", "takeover")),
            self.dice.choice((0, now_ms, now_ms - 700)),
            self.dice.choice((0, 50, 900, -3, 10**14)),
            *(self.dice.choice(TEXTS) for _ in range(3)),
            fence=self.dice.choice((0, self._fence, now_ms * 1000 + 10**7, self._no_fence())),
            counted=self.dice.random() < 0.5,
            completes=self.dice.random() < 0.2 and self._shares,
        )

    def renew(self) -> Iterator[Step]:
        found = self._some_leases(self.dice.choice((1, 2, 4)))
        owner = found[0][0] if found and self.dice.random() < 0.8 else self._owner()
        leases = tuple(dict.fromkeys(lease for _, lease in found))
        lease_ms = self.dice.choice(self.mood.leases_ms)
        yield Step("renew", leases, {"owner": owner, "lease_ms": lease_ms})

    def manual(self) -> Iterator[Step]:
        token = self.dice.choice(("t1", "u\0", "é 2", f"call {self.dice.randrange(100)}"))
        job, slot_ms = self.dice.choice(self.mood.jobs), self.clock.wall_ms()
        lease, owner = Lease(RunKey(job, slot_ms, token), 1), self._owner()
        self._leases.append((owner, lease))
        options = {"owner": owner, "lease_ms": self.dice.choice(self.mood.leases_ms)}
        yield Step("record_manual", (self._result(lease, "running"),), options)

    def save(self) -> Iterator[Step]:
        for owner, lease in self._some_leases(1):
            by = owner if self.dice.random() < 0.8 else self._owner()
            yield Step("save", (lease,), {"owner": by, "value": self.dice.choice(VALUES)})

    def cancel(self) -> Iterator[Step]:
        """Cancel a run; its owner may be told so by its next renewal, and give it up."""
        begun = [key for key, seen in self._seen.items() if seen.attempt]
        key = self.dice.choice([*begun, self._key(self.mood.jobs[0])])
        yield Step("cancel", (key,))
        held = [(owner, lease) for owner, lease in self._leases if lease.key == key]
        for owner, lease in held[-1:]:
            if self.dice.random() < 0.7:
                yield Step("renew", (lease,), {"owner": owner, "lease_ms": self.mood.leases_ms[0]})
            if self.dice.random() < 0.5:
                yield Step("release", (self._result(lease),), {"owner": owner})

    # --- looks, pauses, history ---------------------------------------------------

    def look(self) -> Iterator[Step]:
        jobs = tuple(self.dice.sample((*self.mood.jobs, "nobody", "\udc00"), 2))
        what = self.dice.choice(("look", "look", "unfinished"))
        yield Step(what, (*jobs, jobs[0]), {"owner": self._owner()})

    def pause(self) -> Iterator[Step]:
        job = self.dice.choice((None, *self.mood.jobs))
        if self.dice.random() < 0.4:
            yield Step("resume", (job,))
            return
        lease_ms = self.mood.leases_ms[0]
        yield Step("pause", (job,), {"duration_ms": self.dice.choice((0, 100, lease_ms, None))})

    def history(self) -> Iterator[Step]:
        job = self.dice.choice((None, *self.mood.jobs))
        status = self.dice.choice((None, None, None, *STATUSES, "lost", "running", "skipped"))
        before = self.dice.choice((None, *self._page[-3:]))
        limit = self.dice.choice((0, 1, 3, 50))
        yield Step("history", (job,), {"limit": limit, "before": before, "status": status})

    # --- time ---------------------------------------------------------------------

    def wait(self) -> Iterator[Step]:
        """Let time pass, often just to the end of something."""
        lease_ms = self.dice.choice(self.mood.leases_ms)
        parts = (1, lease_ms // 3, lease_ms // 2, lease_ms - 1, lease_ms, 3 * lease_ms + 1)
        yield Step("advance", (self.dice.choice((*parts, self.mood.grid_ms)),))
        if self.dice.random() < 0.02:
            yield Step("advance", (31 * DAY_MS,))

    def step_clock(self) -> Iterator[Step]:
        yield Step("step", (self.dice.choice((-5000, 5000, 60_000, 3_600_000, -3_600_000)),))

    def boot(self) -> Iterator[Step]:
        self._boots += 1
        yield Step("boot", (f"boot {self._boots}",))

    # --- much at once -------------------------------------------------------------

    def flood(self) -> Iterator[Step]:
        """Have many records of a job, so that some are trimmed, and claim an old slot."""
        job, owner = self.dice.choice(self.mood.jobs), self.dice.choice(OWNERS)
        now_ms, count = self.clock.wall_ms(), self.dice.choice((15, 60, 130, 250))
        slots = [RunKey(job, now_ms - 7 * number) for number in range(count, 0, -1)]
        if self.dice.random() < 0.5:
            results = [self._result(Lease(key, 1)) for key in slots]
            yield Step("finish", tuple(results), {"owner": owner})
        elif self.dice.random() < 0.7:
            wishes = tuple(SkipWish(key, key.slot_ms + 1, "flood") for key in slots)
            yield Step("skip", wishes, {"owner": owner, "pace": self._pace()})
        else:
            for key in slots[-30:]:
                wish = Wish(key, 1, "scheduled", self._terms())
                yield self._claim([wish], self._owner(), self.dice.choice((0, 1)))
        old = Wish(self.dice.choice(slots), 1, "catch-up", self._terms())
        yield self._claim([old], owner, 1)

    def relay(self) -> Iterator[Step]:
        """Hand a run over again and again, so that it has many lines."""
        key = self._key(self.dice.choice(self.mood.jobs))
        terms, owner = self._terms(), self.dice.choice(OWNERS)
        for attempt in range(1, self.dice.choice((3, 7))):
            wish = Wish(key, attempt, "scheduled", terms)
            yield self._claim([wish], owner, 1)
            released = (self._result(Lease(key, attempt)),)
            yield Step("release", released, {"owner": owner})

    # --- what was kept ------------------------------------------------------------

    def _inspection(self) -> Iterator[Step]:
        """Ask for everything that shows what a store keeps, until nothing of it is open."""
        jobs = self.mood.jobs
        yield from self._whole_history()
        for owner in OWNERS:
            yield Step("unfinished", jobs, {"owner": owner})
        yield Step("resume", (None,))
        yield from (Step("resume", (job,)) for job in jobs)
        for key in [*self._slots][-SHOWN:]:
            if key.job in jobs:
                yield from self._continued(key)
        yield Step("advance", (20 * max(self.mood.leases_ms),))
        yield from self._whole_history()
        yield Step("unfinished", jobs, {"owner": OWNERS[0]})

    def _continued(self, key: RunKey) -> Iterator[Step]:
        """Take a run over, which shows its checkpoint, and die again, which shows its deaths."""
        terms = self._terms()
        if key.is_ordered:
            terms = terms._replace(catch_up_ms=PATIENT_MS)
        yield self._claim([Wish(key, 1, "scheduled", terms)], OWNERS[0], 0)
        seen = self._seen.get(key)
        if seen is None:
            return
        terms = Terms(10_000, 3000, 1, skip_overlap=False, catch_up_ms=10**12)
        wish = Wish(key, seen.attempt + 1, "takeover", terms, seen.beat, 0.0)
        yield Step(
            "claim", (wish,), {"owner": OWNERS[0], "wins": 1, "pace": Pace(self.clock.mono())}
        )
        died = Result(key, seen.attempt + 1, "interrupted", "takeover", 0, 0, counted=True)
        yield Step("release", (died,), {"owner": OWNERS[0]})

    def _whole_history(self) -> Iterator[Step]:
        """Ask for all lines, and for some by job, by status and from a place on."""
        yield Step("history", (None,), {"limit": 10_000, "before": None, "status": None})
        places = [None, *self.dice.sample(self._page, min(3, len(self._page)))]
        for status in (None, "success", "lost", "running", "skipped"):
            for job in (None, self.dice.choice(self.mood.jobs)):
                before = self.dice.choice(places)
                yield Step("history", (job,), {"limit": 7, "before": before, "status": status})


def _witness_ms(lease_ms: int) -> float:
    return lease_ms - max(lease_ms / 10, 250)
