"""What is kept beside the runs of a PostgreSQL counts for its own run or attempt alone."""

from __future__ import annotations

import uuid

import pytest

from anarchon._testing_contract.bench import Bench
from anarchon._values import Closed, Limits, Won, instant
from tests.stores.postgres_clock import SCHEMA, ByHand, TableClock

LIMITS = Limits(20.0, 20.0, 20.0)


@pytest.fixture
def bench(database):
    clock = TableClock(database)
    store = ByHand(database.url, clock=clock, namespace=f"completed {uuid.uuid4()}")
    yield Bench(store, clock, 30_000)
    store.close()
    clock.close()


@pytest.fixture
def complete(database, bench):
    """Write down that attempt 2 of slot 0 was completed, with some of its columns changed."""

    def insert(done_ms, **changes):
        key = bench.key(0)
        row = {
            "namespace": bench.backend.namespace,
            "job": key.job,
            "slot_ms": key.slot_ms,
            "manual": "",
            "attempt": 2,
            "done_ms": done_ms,
        }
        columns = ", ".join(row)
        database.ask(
            f'INSERT INTO "{SCHEMA}".anarchon_completion ({columns}) '
            "VALUES (%s, %s, %s, %s, %s, %s)",
            list((row | changes).values()),
        )

    return insert


def complete_others(bench, complete):
    """Complete attempts that differ from attempt 2 of slot 0 in one way each."""
    others = {
        "namespace": f"other {uuid.uuid4()}",
        "job": "other",
        "slot_ms": bench.key(-1).slot_ms,
        "manual": "token-1",
        "attempt": 1,
    }
    for column, value in others.items():
        complete(1, **{column: value})


def die_twice(bench):
    for attempt in (1, 2):
        seen = {"beat": 0, "unseen": bench.lease_ms}
        answer = bench.claim(0, by=f"{attempt}", wants=attempt, skip_overlap=False, **seen)
        assert isinstance(answer, Won)
        bench.pass_leases(1.01)


def take(bench):
    return bench.claim(0, by="b", wants=3, beat=0, unseen=bench.lease_ms)


def test_another_one_completes_nothing(bench, complete):
    die_twice(bench)
    complete_others(bench, complete)
    assert isinstance(take(bench), Won)


def test_its_own_closes_it_with_its_time(bench, complete):
    bench.manual("token-1", 0)
    bench.claim(0, by="x", job="other")
    bench.claim(-1, by="x", skip_overlap=False)
    die_twice(bench)
    complete_others(bench, complete)
    before = bench.history(None)
    begun = bench.open_run().left_ms + bench.now_ms() - bench.lease_ms
    complete(begun + 70)
    answer = take(bench)
    assert isinstance(answer, Closed)
    (changed,) = [run for run in bench.history(None) if run not in before]
    assert answer.run == changed
    assert (changed.run_id, changed.attempt) == (bench.key(0).run_id, 2)
    assert (changed.status, changed.duration_ms) == ("success", 70)
    assert changed.finished_at == instant(begun + 70)


def test_history_is_trimmed_by_whoever_closes_it(bench, complete):
    for slot in range(-200, -100):
        bench.run_through(slot / 1000)
    die_twice(bench)
    assert len(bench.history()) == 102
    complete(bench.now_ms())
    assert isinstance(take(bench), Closed)
    assert len(bench.history()) == 100


def test_what_waited_too_long_succeeds_when_another_slot_is_judged(bench, complete):
    """The handler's transaction was committed after the run was handed over."""
    bench.claim(0, by="a")
    bench.release(0, by="a")
    complete(bench.now_ms(), attempt=1)
    bench.pass_leases(3.1)
    claims = bench.claims(bench.wish(1), by="b")
    assert isinstance(claims.answers[0], Won)
    assert [(run.slot, run.status) for run in claims.closed] == [(bench.key(0).slot_ms, "success")]
    assert bench.told() == [(1, 1, "running", None), (0, 1, "success", None)]


def test_whoever_completed_it_holds_it_until_the_handler_ends(bench, complete):
    """A copy of its claim that comes late closes nothing."""
    bench.claim(0)
    complete(bench.now_ms(), attempt=1)
    assert isinstance(bench.claim(0), Won)
    assert [run.key for run in bench.unfinished()] == [bench.key(0)]


# --- what it is asked for in stricter transactions ---


@pytest.fixture
def strict(database):
    """Have a bench whose sessions see what was there when their statement began."""
    clock = TableClock(database)
    options = r"options=-c%20default_transaction_isolation%3Drepeatable%5C%20read"
    url = f"{database.url}{'&' if '?' in database.url else '?'}{options}"
    store = ByHand(url, clock=clock, namespace=f"strict {uuid.uuid4()}")
    yield Bench(store, clock, 30_000)
    store.close()
    clock.close()


def completions(database):
    columns = "namespace, job, slot_ms, manual, attempt"
    return set(database.ask(f'SELECT {columns} FROM "{SCHEMA}".anarchon_completion'))


def test_to_ask_leaves_nothing_behind_and_takes_nothing_away(database, strict):
    """It is asked by a row that is there for a moment, beside those of others."""
    bench = strict
    die_twice(bench)
    key, space = bench.key(0), bench.backend.namespace
    own = (space, key.job, key.slot_ms, "", 2)
    changes = [f"other {uuid.uuid4()}", "other", bench.key(-1).slot_ms, "token-1", 1]
    others = {(*own[:n], changed, *own[n + 1 :]) for n, changed in enumerate(changes)}
    before = completions(database)
    for row in others:
        database.ask(
            f'INSERT INTO "{SCHEMA}".anarchon_completion VALUES (%s, %s, %s, %s, %s, 1)', list(row)
        )
    assert isinstance(take(bench), Won)
    assert completions(database) - before == others
    assert "isolation" in [one.name for one in bench.backend.open(LIMITS).findings]


# --- a record of which the line, or more, is gone ---


def test_a_closed_run_without_its_line_is_told_by_what_the_run_says(database, bench):
    bench.run_through(0)
    assert bench.claim(0).run.status == "success"
    row = "namespace = %s AND job = %s", [bench.backend.namespace, bench.key(0).job]
    database.ask(f'DELETE FROM "{SCHEMA}".anarchon_attempt WHERE {row[0]}', row[1])
    run = bench.claim(0).run
    assert (run.status, run.reason, run.started_at) == ("success", "scheduled", None)
    database.ask(f'UPDATE "{SCHEMA}".anarchon_run SET status = NULL WHERE {row[0]}', row[1])
    answer = bench.claim(0)
    assert (answer.status, answer.run.status) == ("lost", "lost")


# --- what closing a run removes ---


def neighbours(bench):
    """Return the key of slot 0 as its columns, and keys that differ from it in one each."""
    key = bench.key(0)
    own = (bench.backend.namespace, key.job, key.slot_ms, "")
    changes = [f"other {uuid.uuid4()}", "other", bench.key(-1).slot_ms, "token-1"]
    return own, {(*own[:n], changed, *own[n + 1 :]) for n, changed in enumerate(changes)}


def test_a_run_that_is_closed_takes_along_what_was_kept_for_it_alone(database, bench):
    for attempt in (1, 2):
        seen = {"beat": 0, "unseen": bench.lease_ms}
        bench.claim(0, by=f"{attempt}", wants=attempt, budget=2, skip_overlap=False, **seen)
        bench.pass_leases(1.01)
    own, others = neighbours(bench)
    for row in (own, *others):
        database.ask(
            f'INSERT INTO "{SCHEMA}".anarchon_checkpoint VALUES (%s, %s, %s, %s, %s)',
            [*row, "1"],
        )
        database.ask(
            f'INSERT INTO "{SCHEMA}".anarchon_completion VALUES (%s, %s, %s, %s, 7, 1)', [*row]
        )
    answer = bench.claim(0, by="b", wants=3, beat=0, unseen=bench.lease_ms, budget=2)
    assert (answer.status, answer.run.status) == ("failed", "failed")
    for table in ("checkpoint", "completion"):
        columns = "namespace, job, slot_ms, manual"
        left = set(database.ask(f'SELECT {columns} FROM "{SCHEMA}".anarchon_{table}'))
        assert (own in left, others <= left) == (False, True)
