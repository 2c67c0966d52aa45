"""Successes that are recorded in a transaction of the user's."""

from __future__ import annotations

import threading
from functools import partial
from urllib.parse import quote

import pytest

from anarchon import PostgresBackend
from anarchon._testing_contract.bench import Bench, RealClock
from anarchon._values import (
    Closed,
    Held,
    Lease,
    Lost,
    Recorded,
    Released,
    RunKey,
    Undecided,
    Waiting,
    Won,
)
from tests.fencing.places import LEASE_MS, complete, take_over


def test_effect_and_success_are_committed_together(bench, place):
    bench.claim(0)
    with place.transaction() as connection:
        place.pay(connection)
        assert complete(bench, connection) == "held"
    assert place.paid() == [("job", 0)]
    assert bench.told() == [(0, 1, "success", None)]
    (run,) = bench.history()
    assert run.finished_at is not None
    assert run.duration_ms is not None
    assert isinstance(bench.finish(0, completes=True), Recorded)
    assert bench.told() == [(0, 1, "success", None)]


def test_or_not_at_all(bench, place):
    bench.claim(0)
    connection = place.connect()
    place.pay(connection)
    assert complete(bench, connection) == "held"
    connection.rollback()
    connection.close()
    assert place.paid() == []
    assert bench.told() == [(0, 1, "running", None)]
    assert isinstance(take_over(bench), Won)


def test_what_was_committed_is_a_success_though_its_runner_died(bench, place):
    bench.claim(0)
    with place.transaction() as connection:
        complete(bench, connection)
    answer = take_over(bench)
    assert isinstance(answer, Closed)
    assert answer.status == "success"
    assert bench.told() == [(0, 1, "success", None)]
    assert bench.unfinished() == ()


@pytest.mark.parametrize("terms", [{"budget": 0}, {"budget": 1}], ids=["abandon", "last attempt"])
def test_a_committed_run_that_nobody_may_follow_is_a_success(bench, place, terms):
    bench.claim(0, **terms)
    with place.transaction() as connection:
        complete(bench, connection)
    answer = take_over(bench)
    assert isinstance(answer, Closed)
    assert answer.status == "success"


def test_a_pause_keeps_it_open_and_history_knows(bench, place):
    bench.claim(0)
    with place.transaction() as connection:
        complete(bench, connection)
    bench.backend.pause("job", duration_ms=None)
    take_over(bench)
    assert bench.told() == [(0, 1, "success", None)]
    bench.backend.resume("job")
    answer = take_over(bench)
    assert isinstance(answer, Closed)
    assert answer.status == "success"


@pytest.mark.parametrize("status", ["failed", "interrupted", "success"])
def test_whatever_the_handler_did_afterwards(bench, place, status):
    bench.claim(0)
    with place.transaction() as connection:
        complete(bench, connection)
    answer = bench.finish(
        0, status=status, error="ValueError: too late", traceback="...", completes=True
    )
    assert isinstance(answer, Recorded)
    assert answer.status == "success"
    (run,) = bench.history()
    assert (run.status, run.error, run.traceback) == ("success", None, None)


@pytest.mark.parametrize("counted", [False, True])
def test_a_stop_hands_nothing_over_that_was_committed(bench, place, counted):
    bench.claim(0)
    with place.transaction() as connection:
        complete(bench, connection)
    answer = bench.release(0, completes=True, counted=counted)
    assert isinstance(answer, Recorded)
    assert answer.status == "success"
    assert bench.unfinished() == ()


def test_a_handler_that_returns_without_a_commit_has_failed(bench, place):
    bench.claim(0)
    connection = place.connect()
    complete(bench, connection)
    connection.rollback()
    connection.close()
    answer = bench.finish(0, completes=True)
    assert isinstance(answer, Recorded)
    assert answer.status == "failed"
    (run,) = bench.history()
    assert run.error == (
        "the handler returned, but the transaction given to ctx.complete() was not committed"
    )


def test_a_failure_without_a_commit_keeps_its_own_words(bench, place):
    bench.claim(0)
    connection = place.connect()
    complete(bench, connection)
    connection.rollback()
    connection.close()
    bench.finish(0, status="failed", error="ValueError: no", completes=True)
    (run,) = bench.history()
    assert (run.status, run.error) == ("failed", "ValueError: no")


def test_who_was_followed_can_t_complete(bench, place):
    bench.claim(0)
    take_over(bench)
    connection = place.connect()
    place.pay(connection)
    assert complete(bench, connection) == "lost"
    connection.rollback()
    connection.close()
    assert isinstance(bench.finish(0, completes=True), Lost)


def test_the_second_time_says_that_it_was_done(bench, place):
    """So a commit whose answer was lost can be repeated, and does nothing twice."""
    bench.claim(0)
    with place.transaction() as connection:
        complete(bench, connection)
    with place.transaction() as connection:
        assert complete(bench, connection) == "done"


def test_a_takeover_waits_for_a_completing_transaction_and_renewals_don_t(postgres):
    bench = postgres.bench()
    bench.claim(0)
    with postgres.transaction() as connection:
        complete(bench, connection)
        assert bench.renew(0)
        assert isinstance(take_over(bench, beat=1), Held)
        assert bench.told() == [(0, 1, "running", None)]
    assert isinstance(take_over(bench, beat=1), Closed)
    bench.backend.close()


@pytest.mark.parametrize("ending", ["finish", "release"])
@pytest.mark.parametrize("committed", [True, False])
def test_while_the_transaction_is_open_nothing_is_decided(postgres, ending, committed):
    """The handler has ended, or was stopped, and a thread of its own still writes."""
    bench = postgres.bench()
    bench.claim(0)
    connection = postgres.connect()
    postgres.pay(connection)
    complete(bench, connection)
    end = getattr(bench, ending)
    assert isinstance(end(0, completes=True), Undecided)
    assert bench.told() == [(0, 1, "running", None)]
    assert bench.renew(0)
    if committed:
        connection.commit()
    else:
        connection.rollback()
    connection.close()
    answer = end(0, completes=True)
    if committed:
        assert (type(answer), answer.status) == (Recorded, "success")
    elif ending == "finish":
        assert (type(answer), answer.status) == (Recorded, "failed")
    else:
        assert isinstance(answer, Released)
        assert isinstance(take_over(bench, beat=1), Won)
    assert len(postgres.paid()) == committed
    bench.backend.close()


def test_what_was_handed_over_and_committed_afterwards_is_a_success(postgres):
    """If nobody said in time that a transaction decides: no second attempt follows."""
    bench = postgres.bench()
    bench.claim(0)
    connection = postgres.connect()
    complete(bench, connection)
    assert isinstance(bench.release(0), Released)
    assert isinstance(take_over(bench), Waiting), "the transaction is open"
    connection.commit()
    connection.close()
    answer = take_over(bench)
    assert isinstance(answer, Closed)
    assert answer.status == "success"
    bench.backend.close()


def test_and_can_t_be_cancelled_either(postgres):
    bench = postgres.bench()
    bench.claim(0)
    connection = postgres.connect()
    complete(bench, connection)
    bench.release(0)
    connection.commit()
    connection.close()
    assert bench.any.cancel(bench.key(0))
    assert bench.told() == [(0, 1, "success", None)]
    bench.backend.close()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
@pytest.mark.parametrize("ending", ["claim", "finish"])
@pytest.mark.parametrize("kind", ["postgres-15", "postgres-18"])
def test_what_an_old_snapshot_can_t_see_is_not_overlooked(shared_place_of, kind, level, ending):
    """A role may have another isolation: the statement began before the commit, and waited."""
    postgres = shared_place_of(kind)
    postgres.expect("could not serialize access")
    bench = postgres.bench()
    bench.claim(0)
    user, locker = postgres.connect(), postgres.connect()
    complete(bench, user)
    locker.execute(
        "SELECT FROM anarchon_job WHERE namespace = %s FOR UPDATE", (postgres.namespace,)
    )
    how = f"-c default_transaction_isolation={level.replace(' ', chr(92) + ' ')}"
    url = f"{postgres.where}?options={quote(how)}"
    other = Bench(PostgresBackend(url, namespace=postgres.namespace), RealClock(), LEASE_MS)
    other.start_ms = bench.start_ms
    answers = []
    ask = {"claim": partial(take_over, other), "finish": partial(other.finish, 0, completes=True)}
    thread = threading.Thread(target=lambda: answers.append(ask[ending]()))
    thread.start()
    while not postgres.waiting():
        thread.join(0.01)
    user.commit()
    locker.rollback()
    thread.join()
    if ending == "finish":
        assert [answer.status for answer in answers] == ["success"]
    else:
        assert not isinstance(answers[0], Won)
        assert isinstance(take_over(other), Closed)
    assert bench.told() == [(0, 1, "success", None)]
    for one in (user, locker, bench.backend, other.backend):
        one.close()


def test_whoever_s_run_was_closed_by_somebody_who_found_it_completed_has_succeeded(place, bench):
    """It was frozen, perhaps; its renewals and its result are no surprise to it."""
    bench.claim(0)
    with place.transaction() as connection:
        complete(bench, connection)
    take_over(bench)
    lease = bench.lease(0)
    renewed = bench.any.renew([lease], owner=bench.owner("a"), lease_ms=LEASE_MS)
    assert (renewed.lost, renewed.done) == ((), (lease,))
    answer = bench.finish(0, completes=True)
    assert (type(answer), answer.status) == (Recorded, "success")


def test_other_jobs_are_claimed_during_the_transaction(postgres):
    bench = postgres.bench()
    bench.claim(0)
    with postgres.transaction() as connection:
        complete(bench, connection)
        assert isinstance(bench.claim(0, job="other"), Won)
        answers = bench.claims(bench.wish(-5), bench.wish(-5, job="third")).answers
        assert isinstance(answers[0], Closed), "a newer slot is there"
        assert isinstance(answers[1], Won)
    bench.backend.close()


def test_a_next_attempt_is_completed_on_its_own(bench, place):
    """What an earlier attempt rolled back, or only began, is nothing to the next one."""
    bench.claim(0)
    connection = place.connect()
    complete(bench, connection)
    connection.rollback()
    connection.close()
    take_over(bench)
    assert bench.told()[0][:3] == (0, 2, "running")
    with place.transaction() as connection:
        assert complete(bench, connection, by="b", attempt=2) == "held"
    assert isinstance(bench.finish(0, 2, by="b", completes=True), Recorded)
    assert bench.told() == [(0, 2, "success", None), (0, 1, "lost", "taken over")]


def test_a_manual_run_can_be_completed(bench, place):
    key = RunKey("job", bench.start_ms, "by hand")
    bench.manual("by hand")
    with place.transaction() as connection:
        assert complete(bench, connection, key=key) == "held"
    assert [run.status for run in bench.history()] == ["success"]
    assert isinstance(bench.finish(0, key=key, completes=True), Recorded)
    assert [run.status for run in bench.history()] == ["success"]


@pytest.mark.parametrize("how", ["fence", "complete"])
def test_a_manual_run_that_has_failed_is_not_held(bench, place, how):
    key = RunKey("job", bench.start_ms, "by hand")
    bench.manual("by hand")
    bench.finish(0, key=key, status="failed")
    connection = place.connect()
    ask = getattr(bench.any, how)
    what = Lease(key, 1) if how == "fence" else bench.result(0, key=key)
    assert ask(connection, what, owner=bench.owner("a")) == "lost"
    connection.rollback()
    connection.close()


def test_also_before_it_is_written_down(bench, place):
    key = RunKey("job", bench.start_ms, "by hand")
    with place.transaction() as connection:
        assert complete(bench, connection, key=key, reason="manual") == "held"
    assert isinstance(bench.finish(0, key=key, reason="manual", completes=True), Recorded)
    assert [(run.status, run.manual) for run in bench.history()] == [("success", True)]


def test_nothing_is_left_of_a_completion_when_its_run_is_closed(postgres):
    bench = postgres.bench()
    for slot in range(-4, 0):
        bench.claim(slot)
        result = bench.result(slot)
        with postgres.transaction() as connection:
            bench.any.complete(connection, result, owner=bench.owner("a"))
        if slot % 2:
            bench.finish(slot, completes=True)
        else:
            bench.claim(slot, by="b", wants=2, beat=0, unseen=LEASE_MS)
    with postgres.transaction() as connection:
        (left,) = connection.execute(
            "SELECT count(*) FROM anarchon_completion WHERE namespace = %s", (postgres.namespace,)
        ).fetchone()
        assert left == 0
    bench.backend.close()


def test_two_namespaces_never_meet(bench, place):
    other = place.bench(namespace="other")
    bench.claim(0)
    other.start_ms = bench.start_ms
    other.claim(0, by="b")
    with place.transaction() as connection:
        complete(bench, connection)
    assert other.told() == [(0, 1, "running", None)]
    assert bench.told() == [(0, 1, "success", None)]
    other.backend.close()
