"""The table of stores counts each test once, and tells what is missing."""

from __future__ import annotations

from tests.servers.places import STORES
from tests.stores_table import EVERYWHERE, KINDS, counted, store_of, table, trouble

FULL = [
    (f"{KINDS[kind]}test_x.py::test_it[{store}]", "passed") for store in STORES for kind in KINDS
]


def test_a_test_belongs_to_one_store():
    assert store_of("tests/contract/test_redis.py::TestRedis82::test_it") == "redis-8.2"
    assert store_of("tests/on_servers/test_fleets.py::test_it[redis-cluster]") == "redis-cluster"
    assert store_of("tests/on_servers/test_outages.py::test_it[reset-postgres-18]") == "postgres-18"
    assert store_of("tests/contract/test_postgres.py::T::test_it[pgbouncer-15-1]") == "pgbouncer-15"
    assert store_of("tests/contract/test_backends.py::TestSqlite::test_it[1]") is None


def test_a_whole_run_is_a_table_without_trouble():
    counts = counted(FULL)
    assert trouble(counts) == []
    assert [line.split()[1:] for line in table(counts)[1:]] == [["1"] * len(KINDS) + ["0"]] * len(
        STORES
    )


def test_what_was_skipped_or_failed_or_never_ran_is_told():
    skipped, failed, *others = FULL
    kept = [one for one in others if "races" not in one[0] or "valkey" not in one[0]]
    wrong = trouble(counted([(skipped[0], "skipped"), (failed[0], "failed"), *kept]))
    first = STORES[0]
    assert wrong == [
        f"{first}, contract: 1 skipped",
        f"{first}, fleets: 1 failed",
        *(f"{first}: no test of kind {kind!r}" for kind in EVERYWHERE[:2]),
        "valkey-8: no test of kind 'races'",
    ]
