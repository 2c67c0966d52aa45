"""Shared transactions on SQLite, where whoever writes is alone."""

from __future__ import annotations

import sqlite3
import sys

import pytest

from anarchon import ConfigurationError
from anarchon._values import Held
from anarchon.errors import BackendError, BackendUnavailable
from tests.fencing.places import LEASE_MS, complete, fence, take_over


def test_a_fence_in_sqlite_needs_half_of_the_lease(sqlite_place):
    bench = sqlite_place.bench()
    now_ms = bench.any._time.lease_ms()
    bench.claim(0)

    class Later:
        wall_ms = bench.any._time.wall_ms

        def lease_ms(self):
            return now_ms + LEASE_MS // 2 + 5_000

    bench.any._time = Later()
    connection = sqlite_place.connect()
    with pytest.raises(BackendError, match=r"Only \d+ ms of a lease of 60000 ms are left"):
        fence(bench, connection)
    connection.rollback()
    assert complete(bench, connection) == "held", "it ends the run, and nobody can come between"
    connection.commit()
    connection.close()
    bench.backend.close()


def test_a_transaction_in_sqlite_holds_off_a_takeover_and_the_run_is_kept(sqlite_place):
    """A transaction that ends inside the lease costs the run nothing."""
    bench, other = sqlite_place.bench(), sqlite_place.bench()
    other.start_ms = bench.start_ms
    bench.claim(0)
    with sqlite_place.transaction() as connection:
        assert fence(bench, connection) == "held"
        with pytest.raises(BackendUnavailable):
            bench.renew(0)
        with pytest.raises(BackendUnavailable):
            take_over(other)
        sqlite_place.pay(connection)
    assert bench.renew(0)
    assert isinstance(take_over(other), Held), "it was renewed"
    for one in (bench, other):
        one.backend.close()


WAYS = [{"isolation_level": mode} for mode in ("DEFERRED", "IMMEDIATE", "EXCLUSIVE", None)]
if sys.version_info >= (3, 12):
    WAYS += [{"autocommit": False}, {"autocommit": True}]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_way_to_begin_in_sqlite(sqlite_place, way):
    bench = sqlite_place.bench()
    bench.claim(0)
    connection = sqlite3.connect(sqlite_place.where, **way)
    if way in ({"isolation_level": None}, {"autocommit": True}):
        with pytest.raises(ConfigurationError, match="no transaction"):
            fence(bench, connection)
        connection.execute("BEGIN")
    assert fence(bench, connection) == "held"
    assert connection.in_transaction
    sqlite_place.pay(connection)
    assert complete(bench, connection) == "held"
    connection.execute("ROLLBACK")
    assert bench.told() == [(0, 1, "running", None)]
    connection.close()
    bench.backend.close()


def test_a_connection_keeps_its_own_ways(sqlite_place):
    bench = sqlite_place.bench()
    bench.claim(0)
    connection = sqlite_place.connect()
    connection.row_factory, connection.text_factory = sqlite3.Row, bytes
    assert fence(bench, connection) == complete(bench, connection) == "held"
    assert connection.row_factory is sqlite3.Row
    assert connection.text_factory is bytes
    connection.close()
    bench.backend.close()


def test_a_snapshot_that_is_old_is_refused_by_sqlite(sqlite_place):
    bench = sqlite_place.bench()
    bench.claim(0)
    connection = sqlite_place.connect()
    connection.execute("BEGIN")
    connection.execute("SELECT * FROM paid").fetchall()
    bench.renew(0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        fence(bench, connection)
    connection.rollback()
    assert fence(bench, connection) == "held"
    connection.close()
    bench.backend.close()


def test_another_file_is_refused(sqlite_place, tmp_path):
    bench = sqlite_place.bench()
    bench.claim(0)
    for other in (tmp_path / "other.db", ":memory:"):
        connection = sqlite3.connect(other)
        with pytest.raises(ConfigurationError, match=r"The connection is to .*the scheduler's"):
            fence(bench, connection)
        connection.close()
    bench.backend.close()
