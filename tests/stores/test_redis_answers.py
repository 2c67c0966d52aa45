"""What a Redis answers about open and dead runs, exact to the millisecond and to the letter."""

from __future__ import annotations

from contextlib import closing

import pytest

from anarchon._testing_contract.bench import Bench
from anarchon._values import Closed, Looked, OpenRun, Won
from tests.contract.test_redis import namespace
from tests.stores.redis_clock import ByHand, KeptClock

VARIANT = "redis-8.2"
LEASE_MS, HEARTBEAT_MS = 30_000, 10_000
LATE_MS = 15_000  # after its last renewal a run is late: one and a half heartbeats


@pytest.fixture
def bench(shared_server):
    """Have a store whose clock stands still."""
    server = shared_server(VARIANT)
    with closing(KeptClock(server)) as clock:
        backend = ByHand(server.url, clock=clock, namespace=namespace())
        with closing(backend):
            yield Bench(backend, clock, LEASE_MS)


def running(bench, left_ms, **changes):
    """Return how a look shows the run of slot 0 that `a` holds."""
    run = OpenRun(bench.key(0), "running", 1, 0, left_ms, LEASE_MS, HEARTBEAT_MS, "a")
    return run._replace(**changes)


def looked(bench, *wrong, others, next_end_ms):
    return Looked(wrong, others, next_end_ms, bench.now_ms())


def early(bench):
    """Return the pace of an asker that may claim a slot a little before its time."""
    return bench.pace()._replace(tolerance_ms=10)


def take_over(bench, attempt, **terms):
    """Ask for the attempt that follows, as somebody who saw a whole lease pass."""
    bench.pass_leases(1)
    seen = {"wants": attempt, "beat": 0, "unseen": LEASE_MS}
    return bench.claim(0, by=f"owner-{attempt}", **seen, **terms)


# --- a look -----------------------------------------------------------------------------------


def test_where_nothing_is_open_a_look_says_so(bench):
    assert bench.look() == looked(bench, others=0, next_end_ms=None)


def test_a_run_that_is_renewed_in_time_is_counted_and_not_shown(bench):
    bench.claim(0)
    bench.clock.advance(LATE_MS - 1)
    left_ms = LEASE_MS - LATE_MS + 1
    assert bench.look() == looked(bench, others=1, next_end_ms=left_ms)
    assert bench.unfinished() == (running(bench, left_ms),)


def test_a_run_that_is_late_is_shown(bench):
    bench.claim(0)
    bench.clock.advance(LATE_MS)
    left_ms = LEASE_MS - LATE_MS
    assert bench.look() == looked(bench, running(bench, left_ms), others=1, next_end_ms=left_ms)


@pytest.mark.parametrize(("left_ms", "next_end_ms"), [(1, 1), (0, None), (-1, None)])
def test_only_an_end_that_is_ahead_is_the_next_one(bench, left_ms, next_end_ms):
    bench.claim(0)
    bench.clock.advance(LEASE_MS - left_ms)
    shown = running(bench, left_ms)
    assert bench.look() == looked(bench, shown, others=1, next_end_ms=next_end_ms)


def test_the_next_end_is_the_earliest(bench):
    bench.claim(0, job="first")
    bench.clock.advance(1)
    bench.claim(0, job="second")
    for jobs in (("first", "second"), ("second", "first")):
        assert bench.look(*jobs) == looked(bench, others=2, next_end_ms=LEASE_MS - 1)


def test_a_run_that_was_renewed_after_now_is_shown(bench):
    """As those are that began before the clock was set back."""
    bench.claim(0)
    bench.renew(0)
    now_ms = bench.now_ms() - 1
    bench.clock.step(-1)
    shown = running(bench, LEASE_MS + 1, beat=1)
    assert bench.look() == Looked((shown,), 1, LEASE_MS + 1, now_ms)


def test_a_run_that_waits_is_shown_without_a_lease_s_end(bench):
    """It is nobody's, also for whoever handed it over."""
    bench.claim(0)
    bench.release(0)
    bench.clock.advance(5)
    shown = running(bench, 0, state="waiting")
    for by in ("z", "a"):
        assert bench.look(by=by) == looked(bench, shown, others=1, next_end_ms=None)


def test_a_run_of_the_asker_is_no_other(bench):
    bench.claim(0)
    assert bench.look(by="a") == looked(bench, others=0, next_end_ms=None)
    bench.clock.advance(LATE_MS)
    shown = running(bench, LEASE_MS - LATE_MS, mine=True)
    assert bench.look(by="a") == looked(bench, shown, others=0, next_end_ms=None)


# --- beside the answers -----------------------------------------------------------------------


def test_a_claim_names_the_other_open_runs_and_closes_none_without_need(bench):
    bench.claim(0)
    claims = bench.claims(bench.wish(0.001), by="b", pace=early(bench))
    assert (claims.open, claims.closed) == ((running(bench, LEASE_MS),), ())


def test_a_claim_names_what_it_closed_in_passing(bench):
    bench.claim(0)
    bench.release(0)
    bench.clock.advance(3 * LEASE_MS + 1)
    claims = bench.claims(bench.wish(1), by="b")
    assert isinstance(claims.answers[0], Won)
    assert claims.open == ()
    assert [(run.slot, run.status, run.detail) for run in claims.closed] == [
        (bench.key(0).slot_ms, "lost", "too old")
    ]


# --- what dies --------------------------------------------------------------------------------


@pytest.mark.parametrize(("budget", "error"), [(1, "1 time"), (2, "2 times"), (3, "3 times")])
def test_the_death_that_uses_the_budget_up_is_counted_in_the_error(bench, budget, error):
    """Each before it lets the run go on."""
    bench.claim(0, budget=budget)
    for attempt in range(2, budget + 1):
        assert isinstance(take_over(bench, attempt, budget=budget), Won)
    answer = take_over(bench, budget + 1, budget=budget)
    assert isinstance(answer, Closed)
    assert (answer.status, answer.run.error) == ("failed", f"runner died {error}")


def test_a_run_that_waits_goes_on_whatever_its_budget(bench):
    """So that it is in the way of the slots after it."""
    bench.claim(0, budget=1)
    bench.release(0)
    answer = bench.claim(0.001, by="b", pace=early(bench))
    assert (answer.status, answer.detail) == ("skipped", "overlap")
    assert isinstance(bench.claim(0, wants=2, by="b"), Won)
