"""Random operations on a Redis and in memory: the scripts decide exactly as the rules do."""

from __future__ import annotations

import itertools
import random

import pytest

from anarchon._values import Lease, Limits, Owner, Pace, Result, RunKey, SkipWish, Terms, Wish
from anarchon.backends.memory import MemoryBackend
from anarchon.backends.redis import RedisBackend
from tests.servers.faketime import SteppedClock
from tests.servers.redis import RedisServer

STEPS = 400
JOBS = ("job", "a\0b", "a", "a\1", "{x}:y z", "é😀")
OWNERS = tuple(Owner(token, f"instance-{token}") for token in "abc")
STATUSES = ("success", "failed", "interrupted")
TEXTS = (None, "", "why", "null", 'a "quote" \\ \0 é', "x" * 9000)
LEASE_MS = 3000
numbers = itertools.count(1)


class Telling(RedisBackend):
    """Says what time it was on the server at the last call."""

    def _asked(self, link, call, deadline):
        reply = super()._asked(link, call, deadline)
        self.told_ms = reply.store_ms
        return reply


class ToldClock:
    """The time that the other store told."""

    now_ms = 0

    def wall_ms(self):
        return self.now_ms

    lease_ms = wall_ms


class Twins:
    """A Redis and a store in memory of which the same is asked."""

    def __init__(self, url, seed, clock):
        self.random = random.Random(seed)
        self.redis = Telling(url, namespace=f"alike-{seed}-{next(numbers)}")
        self.memory = MemoryBackend()
        self.memory._steady = False
        self.memory._time = self.time = ToldClock()
        self.clock = clock
        self.begun_ms = self.redis.open(Limits()).store_ms
        self.memory.open(Limits())
        self.known = []  # (key, attempt, beat) of what was seen lately
        self.fence = 0

    def close(self):
        self.redis.close()
        self.memory.close()

    def same(self, ask):
        """Ask both, and return the answer when it is the same."""
        told = ask(self.redis)
        self.time.now_ms = self.redis.told_ms
        expected = ask(self.memory)
        assert repr(told) == repr(expected)
        return told

    def key(self, *, manual=False):
        pick = self.random
        if self.known and pick.random() < 0.6:
            return pick.choice(self.known)[0]
        late_ms = pick.choice((0, 0, -5, 900, 1500, -LEASE_MS * 4))
        slot_ms = self.now_ms() + late_ms + pick.randrange(-30, 30)
        token = pick.choice(("", "", "t1", "t\0", "t2")) if manual else ""
        return RunKey(pick.choice(JOBS), slot_ms, token)

    def now_ms(self):
        return max(self.time.now_ms, self.begun_ms)

    def result(self, *, status=None):
        pick = self.random
        key, attempt = self.key(manual=True), pick.choice((1, 1, 1, 2, 3))
        if self.known and pick.random() < 0.8:
            key, attempt, _ = pick.choice(self.known)
        return Result(
            key,
            attempt,
            status or pick.choice(STATUSES),
            "manual" if key.manual else "scheduled",
            pick.choice((0, self.now_ms(), self.now_ms() - 700)),
            pick.randrange(900),
            *(pick.choice(TEXTS) for _ in range(3)),
            fence=pick.choice((0, self.fence, 2**53 - 1)),
            counted=pick.random() < 0.4,
        )

    # --- operations -------------------------------------------------------------

    def claim(self):
        wishes = {}
        for _ in range(self.random.choice((1, 1, 2, 4))):
            wish = self.wish()
            wishes[wish.key.job] = wish
        pace = Pace(100.0, self.now_ms() + self.random.choice((0, 0, 5000)), 10**6)
        wins, owner = self.random.choice((0, 1, 2, 9)), self.random.choice(OWNERS)
        claims = self.same(
            lambda store: store.claim([*wishes.values()], owner=owner, wins=wins, pace=pace)
        )
        for answer in claims.answers:
            run = getattr(answer, "run", None)
            if type(answer).__name__ == "Won":
                self.fence = answer.fence
                self.known.append((answer.key, answer.attempt, 0))
            elif type(answer).__name__ == "Held":
                self.known.append((answer.key, run.attempt, run.beat))
        self.known += [(run.key, run.attempt, run.beat) for run in claims.open]
        del self.known[:-12]

    def wish(self):
        pick = self.random
        key, attempt, beat = self.key(), 1, -1
        if self.known and pick.random() < 0.7:
            key, attempt, beat = pick.choice(self.known)
            attempt += pick.choice((0, 1, 1))
        terms = Terms(
            pick.choice((LEASE_MS, 2 * LEASE_MS)),
            LEASE_MS // 3,
            pick.choice((0, 1, 2, 3)),
            pick.random() < 0.7,
            pick.choice((0, 10 * LEASE_MS)),
        )
        seen = pick.choice((None, 100.0, 100.0 - LEASE_MS / 1000, 90.0))
        fence = pick.choice((0, self.fence, self.fence + 10**6))
        return Wish(
            key,
            attempt,
            pick.choice(("scheduled", "takeover", "catch-up")),
            terms,
            beat,
            seen,
            fence,
        )

    def skip(self):
        pick = self.random
        wishes = [
            SkipWish(self.key(), self.now_ms() + pick.choice((-10, 0, 5000)), pick.choice("xy"))
            for _ in range(pick.choice((1, 2)))
        ]
        wishes = [wish for wish in wishes if not wish.key.manual]
        pace, owner = Pace(100.0), pick.choice(OWNERS)
        self.same(lambda store: store.skip(wishes, owner=owner, pace=pace))

    def settle(self):
        pick, owner = self.random, self.random.choice(OWNERS)
        results = [self.result() for _ in range(pick.choice((1, 1, 3)))]
        operation = pick.choice(("finish", "finish", "release"))
        self.same(lambda store: getattr(store, operation)(results, owner=owner))

    def record_manual(self):
        owner = self.random.choice(OWNERS)
        result = self.result(status="running")
        token = result.key.manual or "t3"
        results = [result._replace(key=result.key._replace(manual=token))]
        self.same(lambda store: store.record_manual(results, owner=owner, lease_ms=LEASE_MS))
        self.known.append((results[0].key, results[0].attempt, 0))

    def renew(self):
        owner = self.random.choice(OWNERS)
        leases = [Lease(key, attempt) for key, attempt, _ in self.known[-4:]]
        self.same(lambda store: store.renew(leases, owner=owner, lease_ms=LEASE_MS))

    def look(self):
        owner = self.random.choice(OWNERS)
        jobs = self.random.sample(JOBS, 3)
        self.same(lambda store: store.look(jobs, owner=owner))
        self.same(lambda store: store.unfinished(jobs, owner=owner))

    def save(self):
        if self.known:
            key, attempt, _ = self.random.choice(self.known)
            value, owner = self.random.choice(('{"é": "😀"}', "")), self.random.choice(OWNERS)
            self.same(lambda store: store.save(Lease(key, attempt), owner=owner, value=value))

    def cancel(self):
        key = self.key(manual=True)
        self.same(lambda store: store.cancel(key))

    def pause(self):
        job = self.random.choice((None, *JOBS))
        duration_ms = self.random.choice((0, 0, 0, 100, 5000, None))
        self.same(lambda store: store.pause(job, duration_ms=duration_ms))
        if duration_ms is None:
            self.same(lambda store: store.resume(job))

    def history(self):
        pick = self.random
        job, status = pick.choice((None, *JOBS)), pick.choice((None, None, *STATUSES, "lost"))
        limit = pick.choice((1, 3, 50))
        page = self.same(lambda store: store.history(job, limit=limit, status=status))
        if page:
            last = page[-1]
            self.same(lambda store: store.history(job, limit=limit, before=last, status=status))

    def wait(self):
        self.clock.advance(self.random.choice((1, 400, LEASE_MS, 4 * LEASE_MS)))

    OPERATIONS = (
        *(claim,) * 8,
        *(settle,) * 6,
        *(renew, look, wait) * 2,
        *(skip, record_manual, save, cancel, pause, history),
    )

    def play(self, steps):
        for _ in range(steps):
            self.random.choice(self.OPERATIONS)(self)

    def whole(self, job=None):
        """Compare all of history, and read it in pages that may end inside of a run."""
        self.clock.advance(20 * LEASE_MS)  # so that nothing ends while it is read
        told = self.same(lambda store: store.history(job, limit=10_000))
        pages = []
        while page := self.redis.history(job, limit=3, before=pages[-1] if pages else None):
            pages += page
        assert repr(pages) == repr(told)


class Ahead:
    """A server's clock that only ever moves on."""

    def __init__(self):
        self.stepped = SteppedClock()
        self._ahead_ms = 0

    def advance(self, ms):
        self._ahead_ms += ms
        self.stepped.set(self._ahead_ms / 1000)


@pytest.fixture(scope="module", params=["redis-6.2", "redis-8.2"])
def server(request):
    clock = Ahead()
    with RedisServer(request.param, clock=clock.stepped) as server:
        yield server, clock


@pytest.fixture
def twins(server, request):
    twins = Twins(server[0].url, request.param, server[1])
    yield twins
    twins.close()


@pytest.mark.parametrize("twins", range(8), indirect=True)
def test_every_answer_is_the_same(twins):
    twins.play(STEPS)
    for job in (None, *JOBS):
        twins.whole(job)


@pytest.mark.parametrize("twins", [0], indirect=True)
def test_long_histories_are_trimmed_alike(twins):
    owner, pace = OWNERS[0], Pace(100.0)
    terms = Terms(LEASE_MS, LEASE_MS // 3, 3, False, 0)
    for number in range(160):
        key = RunKey("job", twins.begun_ms - 10_000 + 7 * number)
        wish = Wish(key, 1, "scheduled", terms)
        twins.same(lambda store, wish=wish: store.claim([wish], owner=owner, wins=1, pace=pace))
        if number % 11 == 3:
            for attempt in range(1, 2 + number % 5):
                handed = Result(key, attempt, "interrupted", "scheduled", 0, 0)
                twins.same(lambda store, it=handed: store.release([it], owner=owner))
                again = wish._replace(wants=attempt + 1)
                twins.same(
                    lambda store, it=again: store.claim([it], owner=owner, wins=1, pace=pace)
                )
        if number % 17 != 5:
            twins.same(lambda store: store.unfinished(["job"], owner=owner))
            attempt = 1 if number % 11 != 3 else 1 + len(range(1, 2 + number % 5))
            ended = Result(key, attempt, STATUSES[number % 2], "scheduled", 0, 0)
            twins.same(lambda store, it=ended: store.finish([it], owner=owner))
    twins.whole("job")
