"""Claims on PostgreSQL that meet another one: what they saw is not so any more under their locks.

A rival is a claim whose transaction a test ends when it likes; until then it holds its locks,
and nobody sees what it wrote.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack

import pytest

from anarchon._testing_contract.bench import Bench
from anarchon._values import Closed, Early, Free, Held, Suspect, Won
from tests.stores.postgres_clock import SCHEMA, ByHand


@pytest.fixture
def bench(database, clock):
    store = ByHand(database.url, clock=clock, namespace=f"rivals {uuid.uuid4()}")
    bench = Bench(store, clock, 30_000)
    for job in "abcde":  # a job that is new has to be waited for
        bench.run_through(-5, job=job)
    yield bench
    store.close()


@pytest.fixture
def elsewhere(database, clock):
    """Another namespace beside it."""
    store = ByHand(database.url, clock=clock, namespace=f"elsewhere {uuid.uuid4()}")
    yield Bench(store, clock, 30_000)
    store.close()


def kinds(claims):
    return [type(answer) for answer in claims.answers]


def test_a_slot_that_was_won_meanwhile_is_held(bench, rival, meanwhile):
    with rival(bench.wish(0)):
        answer = meanwhile(bench.claim, 0)
    assert isinstance(answer(), Held)
    assert answer().run.owner == "rival"
    assert bench.told() == [(0, 1, "running", None)]


def test_a_slot_that_was_skipped_meanwhile_is_closed(bench, rival, meanwhile):
    bench.run_through(0)
    with rival(bench.wish(-1)):
        answer = meanwhile(bench.claim, -1)
    assert isinstance(answer(), Closed)
    assert (answer().by, answer().run) == ("rival", None)
    assert len(bench.history()) == 2


def test_a_win_that_was_lost_goes_to_the_next_wish(bench, rival, meanwhile):
    wishes = [bench.wish(0, job=job) for job in "abcd"]
    with rival(bench.wish(0, job="a")):
        claims = meanwhile(bench.claims, *wishes, wins=2)
    assert kinds(claims()) == [Held, Won, Won, Free]


def test_as_many_as_may_be_won_are_waited_for(bench, rival, meanwhile):
    wishes = [bench.wish(0, job=job) for job in "abc"]
    with rival(bench.wish(0, job="b")):
        claims = meanwhile(bench.claims, *wishes, wins=2)
    assert kinds(claims()) == [Won, Held, Won]


def test_what_an_earlier_copy_won_meanwhile_counts_against_the_bound(bench, rival, meanwhile):
    jobs = ["a", "b", "c", "d", "e"]
    wishes = [bench.wish(0, job=job) for job in jobs]
    with rival(bench.wish(0, job="a"), bench.wish(0, job="b")):
        claims = meanwhile(bench.claims, *wishes, wins=2)
        assert isinstance(bench.claim(0, job="c"), Won)
    lost, also_lost, mine, won, over = claims().answers
    assert (type(lost), type(also_lost)) == (Held, Held)
    assert mine.run.mine
    assert (type(won), type(over)) == (Won, Free)


def test_nobody_waits_for_what_can_not_be_won(bench, rival):
    """One worker, and it has a run already."""
    bench.claim(0, job="a")
    with rival(bench.wish(0, job="b")):
        claims = bench.claims(bench.wish(0, job="a"), bench.wish(0, job="b"), wins=1)
    assert kinds(claims) == [Won, Free]


def test_a_job_that_is_new_takes_a_place_as_any_other(bench, rival):
    """So nobody waits for the one behind it, which can't be won."""
    with rival(bench.wish(0, job="b")):
        claims = bench.claims(bench.wish(0, job="new"), bench.wish(0, job="b"), wins=1)
    assert kinds(claims) == [Won, Free]


def test_what_is_only_closed_takes_the_place_of_nothing(bench, rival, meanwhile):
    """Nor does a wish come later for it, where it would not be waited for."""
    wishes = [bench.wish(-10, job="a"), bench.wish(0, job="b")]
    with rival(bench.wish(0, job="b")):
        claims = meanwhile(bench.claims, *wishes, wins=1)
    assert kinds(claims()) == [Closed, Held]


def test_what_is_over_the_bound_is_asked_about_once(bench, rival, meanwhile):
    """When all places are taken, the answer is what was seen before the locks."""
    wishes = [bench.wish(0, job=job) for job in "ab"]
    with rival(bench.wish(0, job="a"), ends="ROLLBACK"):
        claims = meanwhile(bench.claims, *wishes, wins=1)
        bench.claim(0, job="b", by="x")
    assert kinds(claims()) == [Won, Free]


def test_the_second_wish_for_a_job_starts_nothing(bench):
    """There may be one in a claim, so it is the caller's fault; the store has to stay sound."""
    claims = bench.claims(bench.wish(-1, job="a"), bench.wish(0, job="a"))
    assert kinds(claims) == [Won, Free]
    assert len(bench.unfinished("a")) == 1


def test_what_starts_nothing_is_answered_without_a_lock(bench, rival):
    """Most claims are lost, and must not queue behind those that are won."""
    bench.claim(-1, job="a", by="dead", budget=1)
    bench.pass_leases(1.01)
    bench.claim(1, job="a", by="x", skip_overlap=False)
    with rival(bench.wish(0, job="a")):  # skipped, as there is a newer slot
        assert isinstance(bench.claim(1, job="a"), Held)
        assert isinstance(bench.claim(60, job="a"), Early)
    bench.finish(1, job="a", by="x")
    with rival(bench.wish(0.5, job="a")):
        assert isinstance(bench.claim(2, job="a"), Suspect)


def test_what_was_closed_meanwhile_is_not_told_as_open(bench, rival, meanwhile):
    bench.claim(-1, job="a", by="dead", budget=1)
    bench.pass_leases(1.01)
    with rival(bench.wish(-1, job="a", wants=2, beat=0, unseen=bench.lease_ms)):
        claims = meanwhile(bench.claims, bench.wish(0, job="a", skip_overlap=False))
    assert kinds(claims()) == [Won]
    assert claims().open == ()


def test_nobody_waits_for_the_next_wish(bench, rival, meanwhile):
    """Locks are taken in order once; after that, what somebody else has is left to them."""
    wishes = [bench.wish(0, job=job) for job in "abc"]
    with rival(bench.wish(0, job="b")):
        with rival(bench.wish(0, job="a")):
            claims = meanwhile(bench.claims, *wishes, wins=1)
        assert kinds(claims()) == [Held, Free, Won]


def test_a_wish_that_others_decide_just_now_is_free(bench, rival, meanwhile):
    wishes = [bench.wish(0, job=job) for job in "ab"]
    with rival(bench.wish(0, job="b")):
        with rival(bench.wish(0, job="a")):
            claims = meanwhile(bench.claims, *wishes, wins=1)
        assert kinds(claims()) == [Held, Free]


def test_a_run_that_was_taken_over_meanwhile_is_held(bench, rival, meanwhile):
    bench.claim(0, by="dead")
    bench.pass_leases(1.01)
    seen = {"wants": 2, "beat": 0, "unseen": bench.lease_ms}
    with rival(bench.wish(0, **seen)):
        answer = meanwhile(bench.claim, 0, **seen)
    assert isinstance(answer(), Held)
    assert (answer().run.attempt, answer().run.owner) == (2, "rival")


def test_an_earlier_copy_of_the_same_claim_wins_once(bench, rival, meanwhile):
    """The later one is told so, and adds no beat."""
    with rival(bench.wish(0), by="a"):
        answer = meanwhile(bench.claim, 0, by="a")
    assert isinstance(answer(), Won)
    assert bench.open_run().beat == 0
    assert len(bench.history()) == 1


def test_runs_that_may_not_overlap_have_one_place_and_all_others_their_own(database, bench):
    """The index of open runs takes one at a place, whatever a function of any version does."""
    bench.claim(-1, job="a")
    bench.claim(-2, job="b", skip_overlap=False)
    places = database.ask(
        f'SELECT job, place_ms FROM "{SCHEMA}".anarchon_run '
        "WHERE namespace = %s AND state = 'running' ORDER BY job",
        (bench.backend.namespace,),
    )
    assert places == [("a", -(2**53)), ("b", bench.key(-2).slot_ms)]


def surround(bench, elsewhere):
    """Write runs that differ from the run of slot 0 of job `a` in one way each."""
    bench.claim(0, job="b", by="x")
    bench.manual("by hand", job="a")
    elsewhere.claim(0, job="a", by="x")


def test_rows_of_the_asker_are_locked_in_the_order_of_renewals(bench, locked, meanwhile):
    """Or each of the two could have a row that the other one waits for."""
    bench.claim(1, job="a")
    bench.claim(0, job="b")
    wishes = [bench.wish(0, job="b"), bench.wish(1, job="a")]
    with locked(bench, 1, job="a"):
        claims = meanwhile(bench.claims, *wishes)
        with locked(bench, 0, job="b"):
            pass
    assert kinds(claims()) == [Won, Won]


def test_no_other_row_is_waited_for_by_whoever_extends_a_lease(bench, elsewhere, locked):
    bench.claim(0, job="a")
    surround(bench, elsewhere)
    with ExitStack() as stack:
        stack.enter_context(locked(bench, -5, job="a"))
        stack.enter_context(locked(bench, job="b"))
        stack.enter_context(locked(bench, job="a", manual="by hand"))
        stack.enter_context(locked(elsewhere, job="a"))
        assert isinstance(bench.claim(0, job="a"), Won)


def test_a_dead_run_that_a_transaction_holds_is_left_though_others_are_free(
    bench, elsewhere, locked
):
    bench.claim(0, job="a", by="dead")
    surround(bench, elsewhere)
    bench.pass_leases(1.01)
    seen = {"wants": 2, "beat": 0, "unseen": bench.lease_ms}
    with locked(bench, job="a", how="KEY SHARE"):
        assert isinstance(bench.claim(0, job="a", **seen), Held)
    assert isinstance(bench.claim(0, job="a", **seen), Won)


def test_each_dead_run_is_locked_at_its_own_slot(bench):
    bench.claim(0, job="a", by="dead")
    bench.claim(-1, job="b", by="dead")
    bench.pass_leases(1.01)
    seen = {"wants": 2, "beat": 0, "unseen": bench.lease_ms}
    claims = bench.claims(bench.wish(0, job="a", **seen), bench.wish(-1, job="b", **seen))
    assert kinds(claims) == [Won, Won]


def test_what_was_closed_before_a_second_look_is_not_told_as_open(bench, rival, meanwhile):
    bench.claim(-1, job="b", by="x", skip_overlap=False)
    wishes = [bench.wish(0, job="a"), bench.wish(0, job="b", skip_overlap=False)]
    with rival(bench.wish(0, job="a")):
        claims = meanwhile(bench.claims, *wishes, wins=1)
        bench.finish(-1, job="b", by="x")
        bench.claim(0, job="b", by="x")
    assert kinds(claims()) == [Held, Held]
    assert claims().open == ()
