"""Transactions of users that a store shares: only who holds a run can commit them.

Two owners, `a` and `b`, ask by hand. That `b` has watched the run for a whole lease is only
said, so no test waits for a lease to end.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading

import psycopg
import psycopg2
import psycopg2.extensions
import pytest

from anarchon import ConfigurationError, MemoryBackend, RedisBackend
from anarchon._values import Held, Recorded, Won
from anarchon.testing import ClaimOnly
from tests.fencing.places import LEASE_MS, complete, fence, shared_place, take_over
from tests.fencing.runs import running


def test_who_holds_a_run_commits(bench, place):
    bench.claim(0)
    with place.transaction() as connection:
        place.pay(connection)
        assert fence(bench, connection) == "held"
    assert place.paid() == [("job", 0)]
    assert bench.renew(0)


def test_who_was_followed_is_told_so(bench, place):
    bench.claim(0)
    assert isinstance(take_over(bench), Won)
    with place.transaction() as connection:
        assert fence(bench, connection) == "lost"
    with place.transaction() as connection:
        assert fence(bench, connection, by="b", attempt=2) == "held"


@pytest.mark.parametrize("ending", ["finished", "handed over", "never"])
def test_what_isn_t_running_is_not_held(bench, place, ending):
    bench.claim(0)
    if ending == "finished":
        bench.finish(0)
    elif ending == "handed over":
        bench.release(0)
    by = "nobody" if ending == "never" else "a"
    word = "done" if ending == "finished" else "lost"
    with place.transaction() as connection:
        assert fence(bench, connection, by=by) == word
    with place.transaction() as connection:
        assert complete(bench, connection, by=by) == word


def test_a_takeover_waits_for_the_transaction_and_renewals_don_t(postgres):
    bench = postgres.bench()
    bench.claim(0)
    bench.claim(0, job="other")
    with postgres.transaction() as connection:
        assert fence(bench, connection) == "held"
        assert isinstance(take_over(bench), Held)
        assert bench.renew(0)
        assert isinstance(take_over(bench, beat=1), Held)
        assert isinstance(
            bench.claim(0, job="other", by="b", wants=2, beat=0, unseen=LEASE_MS), Won
        ), "other runs are taken over meanwhile"
    assert isinstance(take_over(bench, beat=1), Won)
    bench.backend.close()


def test_many_transactions_hold_a_run_at_once(postgres):
    bench = postgres.bench()
    bench.claim(0)
    with postgres.transaction() as one, postgres.transaction() as other:
        assert fence(bench, one) == fence(bench, other) == "held"
        one.rollback()
        assert isinstance(take_over(bench), Held)
    assert isinstance(take_over(bench), Won)
    bench.backend.close()


def test_a_result_doesn_t_wait_for_the_transaction(postgres):
    bench = postgres.bench()
    bench.claim(0)
    with postgres.transaction() as connection:
        assert fence(bench, connection) == "held"
        assert isinstance(bench.finish(0), Recorded)
    bench.backend.close()


def test_a_transaction_that_ends_by_the_server_s_limit_lets_go(postgres):
    """A process that is frozen in its transaction must not hold a run for ever."""
    bench = postgres.bench()
    postgres.expect("idle-in-transaction timeout")
    bench.claim(0)
    connection = postgres.connect()
    connection.execute("SET idle_in_transaction_session_timeout = '300ms'")
    postgres.pay(connection)
    assert fence(bench, connection) == "held"
    for _ in range(200):
        answer = take_over(bench)
        if isinstance(answer, Won):
            break
        threading.Event().wait(0.05)
    assert isinstance(answer, Won)
    with pytest.raises(psycopg.Error):
        connection.commit()
    connection.close()
    assert postgres.paid() == []
    bench.backend.close()


def test_a_snapshot_from_before_a_heartbeat_is_good_enough(postgres):
    """Or the driver says that the transaction has to be repeated; never a wrong answer."""
    bench = postgres.bench()
    bench.claim(0)
    connection = postgres.connect()
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    postgres.expect("could not serialize access")
    connection.execute("SELECT 1 FROM paid")
    bench.renew(0)
    try:
        assert fence(bench, connection) == "held"
    except psycopg.errors.SerializationFailure:
        connection.rollback()
        assert fence(bench, connection) == "held"
    connection.commit()
    connection.execute("SELECT 1 FROM paid")
    assert isinstance(take_over(bench, beat=1), Won)
    with pytest.raises(psycopg.errors.SerializationFailure):
        fence(bench, connection)
    connection.rollback()
    assert fence(bench, connection) == "lost"
    connection.close()
    bench.backend.close()


# --- connections ----------------------------------------------------------------------


def test_a_connection_in_autocommit_mode_is_refused(postgres):
    bench = postgres.bench()
    bench.claim(0)
    connection = postgres.connect()
    connection.autocommit = True
    with pytest.raises(ConfigurationError, match="no transaction to share"):
        fence(bench, connection)
    with connection.transaction():
        assert fence(bench, connection) == "held"
    connection.close()
    bench.backend.close()


def test_a_connection_with_rows_of_its_own_kind(postgres):
    bench = postgres.bench()
    bench.claim(0)
    connection = postgres.connect()
    connection.row_factory = psycopg.rows.dict_row
    connection.cursor_factory = psycopg.ClientCursor
    assert fence(bench, connection) == "held"
    connection.close()
    bench.backend.close()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_connection_with_another_encoding(postgres, encoding):
    bench = postgres.bench()
    bench.claim(0)
    with psycopg.connect(postgres.where, prepare_threshold=None) as connection:
        connection.execute(f"SET client_encoding = '{encoding}'")
        assert fence(bench, connection) == complete(bench, connection) == "held"
        connection.execute("RESET client_encoding")
    bench.backend.close()


def test_another_database_is_named_as_such(postgres, tmp_path, shared_server):
    bench = postgres.bench()
    bench.claim(0)
    with shared_place(postgres.kind, tmp_path, shared_server) as elsewhere:
        other = elsewhere.bench()
        with (
            elsewhere.transaction() as connection,
            pytest.raises(ConfigurationError, match=r"knows no job 'job' of .*own database"),
        ):
            fence(bench, connection)
        other.backend.close()
    bench.backend.close()


def test_a_database_without_a_store_is_named_as_such(postgres):
    bench = postgres.bench()
    bench.claim(0)
    with psycopg.connect(postgres.server_database("template1")) as connection:
        with pytest.raises(ConfigurationError, match=r"has no store of .*own database"):
            fence(bench, connection)
        connection.rollback()
    bench.backend.close()


def test_a_database_that_knows_the_job_but_not_the_run_fails_it_once(
    postgres, tmp_path, shared_server
):
    """A copy of the database, say: nothing there is believed, and nothing is started again."""
    starts = []
    with shared_place(postgres.kind, tmp_path, shared_server) as copy:
        other = copy.bench()
        other.claim(0)

        def pay(ctx):
            starts.append(ctx.attempt)
            with copy.transaction() as connection:
                copy.pay(connection)
                ctx.fenced(connection)

        with running(postgres.backend(), pay, on_crash="abandon") as one:
            assert one.event == "failure"
        assert starts == [1]
        assert copy.paid() == []
        other.backend.close()


def test_a_rollback_to_a_savepoint_lets_go(postgres):
    """Why it belongs into the outermost block; the server offers nothing better."""
    bench = postgres.bench()
    bench.claim(0)
    with postgres.transaction() as connection:
        with connection.transaction():
            fence(bench, connection)
            raise psycopg.Rollback
        assert isinstance(take_over(bench), Won)
        connection.rollback()
    bench.backend.close()


@pytest.mark.parametrize("limit", ["200ms", "0"])
def test_a_limit_of_the_user_s_for_locks_stays(postgres, limit):
    bench = postgres.bench()
    bench.claim(0)
    postgres.expect("canceling statement due to lock timeout")
    with postgres.transaction() as connection, postgres.transaction() as rival:
        connection.execute(f"SET LOCAL lock_timeout = '{limit}'")
        assert fence(bench, connection) == "held"
        assert connection.execute("SHOW lock_timeout").fetchone() == (limit,)
        if limit != "0":
            complete(bench, rival)
            with pytest.raises(psycopg.errors.LockNotAvailable):
                complete(bench, connection)
            connection.rollback()
        rival.rollback()
    bench.backend.close()


# Of which % marks nothing; psycopg has it since 3.2.
RAW = getattr(psycopg, "RawCursor", psycopg.ClientCursor)


class MyConnection(psycopg.Connection):
    """Of the user's own module."""


class MyOldConnection(psycopg2.extensions.connection):
    """And one of psycopg2."""


class Waits(psycopg.AsyncConnection):
    """Its name doesn't say that it has to be awaited."""


def test_classes_of_the_user_s_own(postgres):
    bench = postgres.bench()
    bench.claim(0)
    connections = [
        MyConnection.connect(postgres.where, prepare_threshold=None),
        psycopg2.connect(postgres.where, connection_factory=MyOldConnection),
        psycopg.connect(postgres.where, cursor_factory=RAW, prepare_threshold=None),
    ]
    for connection in connections:
        assert fence(bench, connection) == "held"
        connection.close()

    async def attempt():
        async with await Waits.connect(postgres.where) as connection:
            fence(bench, connection)

    with pytest.raises(ConfigurationError, match="has to be awaited"):
        asyncio.run(attempt())
    bench.backend.close()


@pytest.mark.parametrize("what", [None, "sqlite", 5, object(), sqlite3])
def test_what_is_no_connection_is_refused(place, bench, what):
    bench.claim(0)
    with pytest.raises(ConfigurationError, match="own database, of"):
        fence(bench, what)
    with pytest.raises(ConfigurationError, match="own database, of"):
        complete(bench, what)


def test_a_connection_that_has_to_be_awaited_is_refused(postgres):
    bench = postgres.bench()
    bench.claim(0)

    async def attempt():
        async with await psycopg.AsyncConnection.connect(postgres.where) as connection:
            fence(bench, connection)

    with pytest.raises(ConfigurationError, match="has to be awaited"):
        asyncio.run(attempt())
    bench.backend.close()


@pytest.mark.parametrize(
    "backend",
    [MemoryBackend(), RedisBackend("redis://localhost:1")],
    ids=["memory", "redis"],
)
def test_stores_without_transactions_say_what_to_do_instead(backend, sqlite_place):
    bench = sqlite_place.bench()
    lease, owner = bench.lease(0), bench.owner("a")
    for ask in (
        lambda: backend.fence(sqlite_place.connect(), lease, owner=owner),
        lambda: backend.complete(sqlite_place.connect(), bench.result(0), owner=owner),
    ):
        with pytest.raises(ConfigurationError, match=r"shares no transactions.*ctx\.fence: UPDATE"):
            ask()
    bench.backend.close()
    assert not hasattr(ClaimOnly(backend), "fence")
