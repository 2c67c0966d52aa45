"""Ordered runs on PostgreSQL: they queue as starts do, and concern their own job alone."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import pytest

from anarchon._testing_contract.bench import ANY_JOB, Bench
from anarchon._values import Closed, Held, Lease, Recorded, Released, Waiting, Won, instant
from anarchon.backends._wire import Call
from tests.stores.postgres_clock import SCHEMA, ByHand, TableClock

DAY_MS = 24 * 3_600_000
CROWD = 8


def key_of(bench, slot, *, job=ANY_JOB, kind="backfill"):
    return bench.key(slot, job)._replace(manual=f"{kind}-{slot}")


def ordered(bench, *slots, job=ANY_JOB, kind="backfill", data=None):
    """Ask for runs and return their keys."""
    keys = [key_of(bench, slot, job=job, kind=kind) for slot in slots]
    bench.any.trigger(keys, data=data)
    return keys


def wish_for(bench, key, wants=1):
    wish = bench.wish(0, wants=wants, budget=0, catch_up_ms=30 * DAY_MS, reason="manual")
    return wish._replace(key=key)


def take(bench, key, *, by="a", wants=1):
    return bench.claims(wish_for(bench, key, wants), by=by).answers[0]


def waiting(bench, job=ANY_JOB):
    return [run.key for run in bench.unfinished(job) if run.state == "waiting"]


# --- many at once ---


def crowd_takes(database, clock, bench, choose):
    """Let many claim at the same moment, each on a connection of its own; count the answers."""
    gate = Barrier(CROWD)

    def claim(number):
        store = ByHand(database.url, clock=clock, namespace=bench.backend.namespace)
        store.open(bench.limits)
        wish = wish_for(bench, choose(number))
        owner = bench.owner(f"{number}")
        gate.wait(20)
        (answer,) = store.claim([wish], owner=owner, wins=1, pace=bench.pace()).answers
        store.close()
        return type(answer)

    with ThreadPoolExecutor(CROWD) as pool:
        return Counter(pool.map(claim, range(CROWD)))


def test_an_order_that_many_claim_at_once_has_one_winner(database, clock, bench):
    for turn in range(5):
        (key,) = ordered(bench, -turn, kind="trigger")
        counted = crowd_takes(database, clock, bench, lambda _: key)  # noqa: B023 - called here
        assert counted == {Won: 1, Held: CROWD - 1}


def test_of_two_backfills_that_many_claim_at_once_one_is_won(database, clock, bench):
    for turn in range(5):
        keys = sorted(ordered(bench, -20 - turn, -10 + turn / 10, job=f"job {turn}"))
        counted = crowd_takes(
            database,
            clock,
            bench,
            lambda number: keys[number % 2],  # noqa: B023 - called here
        )
        assert counted == {Won: 1, Held: CROWD // 2 - 1, Waiting: CROWD // 2}


# --- one after the other, step by step ---


@pytest.mark.parametrize("kind", ["trigger", "backfill"])
def test_an_order_that_was_won_meanwhile_is_held(bench, rival, meanwhile, kind):
    (key,) = ordered(bench, -10, kind=kind)
    with rival(wish_for(bench, key)):
        answer = meanwhile(take, bench, key)
    assert isinstance(answer(), Held)
    assert answer().run.owner == "rival"
    assert [run.status for run in bench.history()] == ["success", "running"]


def test_the_backfill_after_one_that_is_being_won_waits_and_queues_nowhere(bench, rival):
    first, second = ordered(bench, -20, -10)
    with rival(wish_for(bench, first)):
        assert isinstance(take(bench, second), Waiting)


def test_an_older_backfill_that_was_ordered_meanwhile_comes_first(bench, under_way, meanwhile):
    (second,) = ordered(bench, -10)
    first = key_of(bench, -20)
    with under_way(Call("trigger", (None,), (tuple(first),))):
        answer = meanwhile(take, bench, second)
    assert isinstance(answer(), Waiting)
    assert isinstance(take(bench, first), Won)


def test_the_first_after_a_dead_one_closes_it_and_the_other_is_held(bench, rival, meanwhile):
    first, second = ordered(bench, -20, -10)
    take(bench, first, by="dead")
    bench.pass_leases(1.01)
    with rival(wish_for(bench, second)):
        claims = meanwhile(bench.claims, wish_for(bench, second), by="a")
    assert isinstance(claims().answers[0], Held)
    assert claims().closed == ()
    statuses = {run.run_id: run.status for run in bench.history()}
    assert (statuses[first.manual], statuses[second.manual]) == ("lost", "running")


def test_a_dead_backfill_that_renews_before_its_end_is_judged_is_alive(bench, under_way, meanwhile):
    """Its owner was only slow."""
    first, second = ordered(bench, -20, -10)
    take(bench, first, by="slow")
    bench.pass_leases(1.01)
    pausing = Call("pause", (ANY_JOB, 0))  # which holds the job for a moment
    with under_way(pausing):
        claims = meanwhile(bench.claims, wish_for(bench, second))
        bench.any.renew([Lease(first, 1)], owner=bench.owner("slow"), lease_ms=bench.lease_ms)
    assert isinstance(claims().answers[0], Waiting)
    assert claims().closed == ()


def test_a_copy_of_an_order_that_comes_meanwhile_changes_nothing(bench, under_way, meanwhile):
    key = key_of(bench, 0, kind="trigger")
    with under_way(Call("trigger", ("1",), (tuple(key),))):
        copied = meanwhile(bench.any.trigger, [key, key], data="2")
    copied()
    assert waiting(bench) == [key]
    assert take(bench, key).checkpoint == "1"


def test_a_copy_of_an_order_is_repeated_in_stricter_transactions(
    database, clock, bench, under_way, meanwhile
):
    options = r"options=-c%20default_transaction_isolation%3Drepeatable%5C%20read"
    url = f"{database.url}{'&' if '?' in database.url else '?'}{options}"
    store = ByHand(url, clock=clock, namespace=bench.backend.namespace)
    store.open(bench.limits)
    key = key_of(bench, 0, kind="trigger")
    database.allowed += ("could not serialize access",)
    with under_way(Call("trigger", ("1",), (tuple(key),))):
        copied = meanwhile(store.trigger, [key], data="2")
    copied()
    store.close()
    assert waiting(bench) == [key]
    assert take(bench, key).checkpoint == "1"


# --- what others hold ---


def test_no_backfill_follows_one_that_a_transaction_holds(bench, locked):
    """It may still complete the run, and the next one must not have begun then."""
    first, second = ordered(bench, -20, -10)
    take(bench, first, by="dead")
    bench.pass_leases(1.01)
    with locked(bench, -20, manual=first.manual, how="KEY SHARE"):
        claims = bench.claims(wish_for(bench, second))
        assert (type(claims.answers[0]), claims.closed) == (Waiting, ())
        assert "lost" in [run.status for run in bench.history()]  # as it reads, not as it is
    claims = bench.claims(wish_for(bench, second))
    assert isinstance(claims.answers[0], Won)
    assert [(run.run_id, run.status) for run in claims.closed] == [(first.manual, "lost")]


def test_nor_does_anybody_have_one_that_waits_and_is_held(bench, locked):
    """Though the slot's own run is free."""
    bench.claim(-4)
    (key,) = ordered(bench, -4)
    take(bench, key)
    assert isinstance(bench.release(0, key=key), Released)
    with locked(bench, -4, manual=key.manual, how="KEY SHARE"):
        assert isinstance(take(bench, key, by="b", wants=2), Waiting)
    assert isinstance(take(bench, key, by="b", wants=2), Won)


def test_a_dead_backfill_that_was_completed_is_a_success(database, bench):
    first, second = ordered(bench, -20, -10)
    take(bench, first, by="dead")
    begun = bench.now_ms()
    with database.connect() as user, user.transaction():
        result = bench.result(0, key=first, reason="catch-up")
        assert bench.any.complete(user, result, owner=bench.owner("dead")) == "held"
    bench.pass_leases(1.01)
    claims = bench.claims(wish_for(bench, second))
    assert isinstance(claims.answers[0], Won)
    (run,) = claims.closed
    assert (run.run_id, run.status, run.finished_at) == (first.manual, "success", instant(begun))
    late = bench.finish(0, key=first, by="dead", reason="catch-up", completes=True)
    assert isinstance(late, Recorded)


def test_whoever_extends_waits_for_no_other_row(bench, elsewhere, locked, meanwhile):
    (key,) = ordered(bench, 0)
    take(bench, key)
    bench.claim(0)
    bench.manual("by hand")
    ordered(elsewhere, 0)
    with locked(bench), locked(bench, manual="by hand"), locked(elsewhere, manual=key.manual):
        assert isinstance(take(bench, key), Won)
    with locked(bench, manual=key.manual):
        claims = meanwhile(take, bench, key)
    assert isinstance(claims(), Won)


# --- its own job alone ---


@contextmanager
def untouched(database, *spaces):
    """See that nothing in these namespaces changes."""

    def rows():
        return [
            database.ask(
                f'SELECT * FROM "{SCHEMA}".anarchon_{table} WHERE namespace = %s ORDER BY 2, 3, 4',
                [space],
            )
            for space in spaces
            for table in ("run", "attempt", "checkpoint")
        ]

    before = rows()
    yield
    assert rows() == before


def test_backfills_of_another_job_or_namespace_are_left_alone(database, bench, elsewhere):
    """Whether they are alive, dead or wait."""
    for other, job in ((bench, "other"), (elsewhere, ANY_JOB)):
        take(other, ordered(other, -40, -35, job=job)[0], by="dead")
    first, second = ordered(bench, -30, -25)
    for key, closed in ((first, []), (second, [first])):
        with untouched(database, elsewhere.backend.namespace):
            claims = bench.claims(wish_for(bench, key))
        assert isinstance(claims.answers[0], Won)
        assert [run.run_id for run in claims.closed] == [key.manual for key in closed]
        bench.pass_leases(1.01)
    for other, job in ((bench, "other"), (elsewhere, ANY_JOB)):
        dead, heir = key_of(bench, -40, job=job), key_of(bench, -35, job=job)
        assert waiting(other, job) == [heir]
        claims = other.claims(wish_for(other, heir))
        assert [(run.run_id, run.status) for run in claims.closed] == [(dead.manual, "lost")]


def test_nobody_closes_one_that_is_alive_by_now(database, bench):
    """Its owner may have renewed after the next one was judged."""
    (key,) = ordered(bench, -20)
    take(bench, key)
    asked = f'SELECT "{SCHEMA}".anarchon_bury_backfills_v1(%s, %s, %s, %s)'
    values = [bench.backend.namespace, ANY_JOB, "b"]
    end_ms = bench.now_ms() + bench.lease_ms
    assert database.ask(asked, [*values, end_ms - 1]) == [(None,)]
    assert bench.told() == [(-5, 1, "success", None), (-20, 1, "running", None)]
    assert database.ask(asked, [*values, end_ms]) != [(None,)]
    assert bench.told()[1] == (-20, 1, "lost", "runner died")


def test_what_waits_for_hours_is_not_trimmed(bench):
    """As a manual run is whose runner died."""
    keys = ordered(bench, -20, data="1") + ordered(bench, -20, kind="trigger", data="1")
    bench.clock.advance(5 * 3_600_000)
    for slot in range(110):
        bench.run_through(slot / 1000)
    assert len(bench.history()) == 100
    assert waiting(bench) == keys
    assert {take(bench, key).checkpoint for key in keys} == {"1"}


def test_manual_runs_that_nobody_ordered_hold_up_nothing_and_are_not_named(bench):
    bench.manual("by hand", -40)
    lease = bench.manual("given back", -40)
    bench.release(0, key=lease.key)
    first, second = ordered(bench, -30, -20)
    assert waiting(bench) == [first]
    assert isinstance(take(bench, first), Won)
    bench.pass_leases(1.01)
    claims = bench.claims(wish_for(bench, second))
    assert [run.run_id for run in claims.closed] == [first.manual]


def test_the_data_is_kept_for_its_own_run_alone(bench, elsewhere):
    (key,) = ordered(bench, 0, kind="trigger", data='"mine"')
    others = [key._replace(job="other"), key_of(bench, 1, kind="trigger"), key_of(bench, 0)]
    bench.any.trigger(others, data='"theirs"')
    elsewhere.any.trigger([key], data='"elsewhere"')
    assert take(bench, key).checkpoint == '"mine"'
    assert {take(bench, other).checkpoint for other in others} == {'"theirs"'}
    assert take(elsewhere, key).checkpoint == '"elsewhere"'


@pytest.mark.parametrize("had", ["nobody", "a dead runner"])
def test_what_is_forgotten_takes_along_its_own_rows_alone(database, bench, elsewhere, had):
    old, young = ordered(bench, -20, -10, data="1")
    ordered(bench, -20, job="other", data="2")
    ordered(bench, -20, kind="trigger", data="2")
    ordered(elsewhere, -20, data="2")
    if had == "a dead runner":
        take(bench, old)
    bench.clock.advance(30 * DAY_MS)
    ordered(bench, 5)
    assert len(bench.unfinished()) == 2  # the triggered one, and a backfill: not yet
    bench.clock.advance(1)
    bench.manual("by hand")
    bench.claim(0)
    with untouched(database, elsewhere.backend.namespace):
        last, *_ = ordered(bench, 6)
    keys = "namespace = %s AND job = %s AND manual <> ''", [bench.backend.namespace, ANY_JOB]
    for table, left in {
        "run": {key_of(bench, 5).manual, last.manual, "by hand"},
        "attempt": {"by hand"},
        "checkpoint": set(),
    }.items():
        found = database.ask(
            f'SELECT manual FROM "{SCHEMA}".anarchon_{table} WHERE {keys[0]}', keys[1]
        )
        assert {manual for (manual,) in found} == left
    assert waiting(bench, "other") == [key_of(bench, -20, job="other")]
    assert isinstance(bench.claim(-5), Closed)  # no other record has gone
    assert young not in waiting(bench)


def test_one_that_was_cancelled_in_time_leaves_with_the_history_of_its_days(database, bench):
    """It has no line there, so it is trimmed also beside the ten that always stay."""
    for slot in range(-4, 5):
        bench.run_through(slot / 1000)
    (old,) = ordered(bench, -20, data="1")
    assert bench.any.cancel(old)
    bench.clock.advance(30 * DAY_MS)
    counted = (
        f'SELECT count(*) FROM "{SCHEMA}".anarchon_run WHERE namespace = %s',
        [bench.backend.namespace],
    )
    for passed, left in ((0, 12), (1, 12)):  # the last one stays in place of the first
        bench.clock.advance(passed)
        assert bench.any.cancel(ordered(bench, passed)[0])
        assert database.ask(*counted) == [(left,)]
    assert len(bench.history()) == 10


def test_what_a_transaction_holds_is_forgotten_later(bench, locked):
    (key,) = ordered(bench, -20)
    take(bench, key)
    bench.clock.advance(31 * DAY_MS)
    with locked(bench, -20, manual=key.manual, how="KEY SHARE"):
        ordered(bench, 5)
        assert bench.any.cancel(key)
    ordered(bench, 6)
    assert not bench.any.cancel(key)


def test_a_strange_name_is_an_order_like_any_other(database):
    clock = TableClock(database)
    store = ByHand(database.url, clock=clock, namespace="a\u2400 %s")
    bench = Bench(store, clock, 30_000)
    key = bench.key(0, "j\0\u2400%")._replace(manual="trigger-\0\u2400 %_é😀")
    bench.any.trigger([key], data='"\u2400"')
    assert waiting(bench, key.job) == [key]
    assert take(bench, key).checkpoint == '"\u2400"'
    store.close()
    clock.close()
