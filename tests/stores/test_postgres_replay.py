"""PostgreSQL decides as the rules in Python do: the same questions, the same answers and history.

Both stores are on one clock, which is moved by hand, so everything must be equal.
"""

from __future__ import annotations

import random
import uuid

import pytest

from anarchon._values import (
    Claims,
    Held,
    Lease,
    Limits,
    Looked,
    Owner,
    Pace,
    Result,
    RunKey,
    SkipWish,
    Terms,
    Waiting,
    Wish,
    Won,
)
from anarchon.backends.memory import MemoryBackend
from tests.stores.postgres_clock import ByHand, TableClock, prepare
from tests.stores.postgres_places import database_on

LEASE_MS = 10_000
JOBS = ("a", "b", "c")
OWNERS = [Owner(token, f"instance-{token}") for token in "xyz"]
STEPS = 150


@pytest.fixture(scope="module")
def database(shared_server):
    with database_on(shared_server, "postgres-15") as database:
        prepare(database)
        yield database


@pytest.fixture
def pair(database):
    clock = TableClock(database)
    memory = MemoryBackend()
    memory._steady, memory._time = False, clock
    stores = (memory, ByHand(database.url, clock=clock, namespace=f"replay {uuid.uuid4()}"))
    for store in stores:
        store.open(Limits())
    yield clock, stores
    for store in stores:
        store.close()
    clock.close()


class Player:
    """Asks both stores the same, and remembers what it was told of open runs."""

    def __init__(self, seed: int, clock, stores) -> None:
        self.dice = random.Random(seed)
        self.clock, self.stores = clock, stores
        self.seen: dict[RunKey, tuple[int, int, float]] = {}  # attempt, beat, first seen
        self.leases: list[tuple[Owner, Lease]] = []

    def both(self, ask):
        one, other = map(ask, self.stores)
        assert one == other
        assert repr(one) == repr(other)
        return one

    # --- what is asked ----------------------------------------------------------

    def slot(self) -> int:
        """Return one of a few slots around now, so that runs meet."""
        return (self.clock.wall_ms() // 5000 - self.dice.randint(-1, 3)) * 5000

    def terms(self) -> Terms:
        lease_ms = self.dice.choice([LEASE_MS, LEASE_MS, 2000])
        return Terms(
            lease_ms,
            lease_ms // 3,
            self.dice.choice([0, 1, 2, 3]),
            self.dice.random() < 0.6,
            self.dice.choice([0, 0, 40_000]),
        )

    def wish(self, job: str) -> Wish:
        known = [key for key in self.seen if key.job == job and not key.manual]
        if known and self.dice.random() < 0.7:
            key = self.dice.choice(known)
            attempt, beat, first_seen = self.seen[key]
            wants = attempt + self.dice.choice([0, 1, 1, 1, 1, 2])
            watched = self.dice.choice([None, first_seen, first_seen])
            return Wish(
                key, wants, "takeover", self.terms(), beat, watched, self.dice.choice([0, 7])
            )
        wants = self.dice.choice([1, 1, 1, 1, 2])
        return Wish(RunKey(job, self.slot()), wants, "scheduled", self.terms())

    def claim(self) -> None:
        owner = self.dice.choice(OWNERS)
        jobs = self.dice.sample(JOBS, self.dice.randint(1, len(JOBS)))
        wishes = [self.wish(job) for job in jobs]
        wins = self.dice.choice([0, 1, 1, 2, 3])
        now = self.clock.mono()
        expected_ms = self.clock.wall_ms() + self.dice.choice([0, 0, 400, -600])
        pace = Pace(now, expected_ms, self.dice.choice([0, 9000, 9001, 50_000]))
        claims = self.both(lambda s: s.claim(wishes, owner=owner, wins=wins, pace=pace))
        assert isinstance(claims, Claims)
        for answer in claims.answers:
            self.watch(answer, owner)

    def watch(self, answer, owner) -> None:
        match answer:
            case Won():
                self.leases.append((owner, Lease(answer.key, answer.attempt)))
                self.see(answer.key, answer.attempt, 0)
            case Held():
                self.see(answer.key, answer.run.attempt, answer.run.beat)
            case Waiting():
                self.see(answer.key, answer.attempt, 0)

    def see(self, key, attempt, beat) -> None:
        if self.seen.get(key, (0, 0, 0))[:2] != (attempt, beat):
            self.seen[key] = (attempt, beat, self.clock.mono())

    def some_leases(self) -> list[tuple[Owner, Lease]]:
        count = min(len(self.leases), self.dice.randint(1, 3))
        return self.dice.sample(self.leases[-12:], min(count, len(self.leases[-12:])))

    def renew(self) -> None:
        leases = list({lease: None for _, lease in self.some_leases()})
        owner = self.dice.choice(OWNERS)
        self.both(lambda s: s.renew(leases, owner=owner, lease_ms=LEASE_MS))

    def results(self, owner) -> list[Result]:
        found = [
            lease for by, lease in self.some_leases() if by == owner or self.dice.random() < 0.2
        ]
        if self.dice.random() < 0.15:
            found.append(Lease(RunKey(self.dice.choice(JOBS), self.slot()), 1))
        if found and self.dice.random() < 0.2:
            found.append(found[0])
        return [
            Result(
                lease.key,
                lease.attempt,
                self.dice.choice(["success", "failed", "interrupted"]),
                self.dice.choice(["scheduled", "takeover"]),
                self.dice.choice([0, self.clock.wall_ms()]),
                self.dice.randint(0, 50),
                self.dice.choice([None, "", "why"]),
                self.dice.choice([None, "E: no\0", "\u2400 and \\"]),
                self.dice.choice([None, "T"]),
                self.dice.choice([0, self.clock.wall_ms() * 1000 + 10**7]),
                self.dice.random() < 0.5,
            )
            for lease in found
        ]

    def finish(self) -> None:
        owner = self.dice.choice(OWNERS)
        results = self.results(owner)
        self.both(lambda s: s.finish(results, owner=owner))

    def release(self) -> None:
        owner = self.dice.choice(OWNERS)
        results = self.results(owner)
        self.both(lambda s: s.release(results, owner=owner))

    def manual(self) -> None:
        owner = self.dice.choice(OWNERS)
        token = f"token-{self.dice.randint(1, 9)}"
        key = RunKey(self.dice.choice(JOBS), self.slot(), token)
        result = Result(key, 1, "running", "manual", self.clock.wall_ms(), 0, "by hand")
        self.both(lambda s: s.record_manual([result], owner=owner, lease_ms=LEASE_MS))
        self.leases.append((owner, Lease(key, 1)))

    def save(self) -> None:
        for owner, lease in self.some_leases()[:1]:
            self.both(lambda s: s.save(lease, owner=owner, value="{}"))  # noqa: B023

    def cancel(self) -> None:
        for _, lease in self.some_leases()[:1]:
            self.both(lambda s: s.cancel(lease.key))  # noqa: B023

    def skip(self) -> None:
        job, slot_ms = self.dice.choice(JOBS), self.slot()
        wishes = [SkipWish(RunKey(job, slot_ms), slot_ms + 5000, "busy")]
        owner, pace = self.dice.choice(OWNERS), Pace(self.clock.mono())
        self.both(lambda s: s.skip(wishes, owner=owner, pace=pace))

    def look(self) -> None:
        jobs = self.dice.sample([*JOBS, "nobody"], 3)
        owner = self.dice.choice(OWNERS)
        looked = self.both(lambda s: s.look(jobs, owner=owner))
        assert isinstance(looked, Looked)
        self.both(lambda s: s.unfinished(jobs, owner=owner))

    def pause(self) -> None:
        job = self.dice.choice([None, *JOBS])
        length_ms = self.dice.choice([0, 0, 3000, None])
        self.both(lambda s: s.pause(job, duration_ms=length_ms))

    def wait(self) -> None:
        self.clock.advance(self.dice.choice([1, 700, 3000, 9000, 10_001, 31_000]))

    def step(self) -> None:
        self.clock.step(self.dice.choice([-5000, 5000, 60_000]))

    # --- and then ---------------------------------------------------------------

    def play(self) -> None:
        moves = [self.claim] * 8 + [self.finish] * 3 + [self.wait] * 4 + [self.renew] * 3
        moves += [self.release] * 2 + [self.look, self.skip, self.manual, self.save, self.cancel]
        moves += [self.pause, self.step]
        for _ in range(STEPS):
            self.dice.choice(moves)()
        self.compare()

    def compare(self) -> None:
        for job in (None, *JOBS):
            whole = self.both(lambda s: s.history(job, limit=10_000))  # noqa: B023
            for status in ("success", "lost", "running", "skipped"):
                self.both(lambda s: s.history(job, limit=5, status=status))  # noqa: B023
            for run in self.dice.sample(whole, min(3, len(whole))):
                self.both(lambda s: s.history(job, limit=4, before=run))  # noqa: B023


@pytest.mark.parametrize("seed", range(8))
def test_a_random_history_is_the_same_on_both(pair, seed):
    Player(seed, *pair).play()


def test_a_long_history_is_trimmed_the_same_on_both(pair):
    player = Player(99, *pair)
    for number in range(260):
        player.clock.advance(5000)
        player.claim()
        player.finish()
        if number % 3 == 0:
            player.manual()
        if number == 200:
            player.clock.advance(31 * 24 * 3_600_000)
    player.compare()
