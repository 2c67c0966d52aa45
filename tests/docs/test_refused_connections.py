"""What the page about exactly-once effects quotes: connections that are refused, and why."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import psycopg
import psycopg_pool
import pytest
import sqlalchemy

from anarchon import ConfigurationError, MemoryBackend, RedisBackend
from anarchon.errors import BackendError
from tests.docs.pages import coded, rows, text_of
from tests.fencing.places import LEASE_MS, fence, shared_place
from tests.stores.postgres_places import database_on

PAGE = "exactly-once.md"
FLAT = " ".join(text_of(PAGE).split())


@pytest.fixture(scope="module")
def places(tmp_path_factory, shared_server):
    with (
        shared_place("sqlite", tmp_path_factory.mktemp("sqlite"), shared_server) as sqlite,
        shared_place("postgres-18", tmp_path_factory.mktemp("postgres"), shared_server) as postgres,
    ):
        yield sqlite, postgres


@pytest.fixture
def sqlite(places):
    places[0].clear()
    return places[0]


@pytest.fixture
def postgres(places):
    places[1].clear()
    return places[1]


def refusals(place, connections, store=None):
    """Return what is said of connections, one after another."""
    bench = place.bench()
    bench.claim(0)
    said = []
    for connection in connections:
        with pytest.raises(ConfigurationError) as raised:
            (store or bench.any).fence(connection, bench.lease(0, 1), owner=bench.owner("a"))
        said.append(str(raised.value))
    bench.backend.close()
    return said


REFUSED = [row[0] for row in rows(PAGE, "the error says", "because")]


def lines_for(said):
    """Return which lines of the table fit, of each text."""
    return [[i for i, row in enumerate(REFUSED) if coded(row)[0] in text] for text in said]


def test_refusals_of_a_sqlite_store(sqlite, tmp_path):
    with (
        closing(sqlite3.connect(sqlite.where, isolation_level=None)) as autocommit,
        closing(sqlite3.connect(tmp_path / "other.db")) as other,
        closing(sqlite3.connect(":memory:")) as memory,
        closing(sqlite.connect()) as connection,
        closing(connection.cursor()) as cursor,
    ):
        said = refusals(sqlite, [autocommit, other, memory, cursor, "shop.db"])
    assert lines_for(said) == [[0], [6], [6], [5], [5]]


def test_refusals_of_a_postgres_store(postgres):
    engine = sqlalchemy.create_engine(postgres.where.replace("://", "+psycopg://"))
    with (
        psycopg.connect(postgres.where, autocommit=True) as autocommit,
        psycopg_pool.ConnectionPool(postgres.where, min_size=1) as pool,
    ):
        said = refusals(postgres, [autocommit, autocommit.cursor(), pool, engine, postgres.where])
    assert lines_for(said) == [[0], [4], [4], [4], [4]]


def test_refusals_of_another_database(postgres, shared_server, tmp_path):
    with shared_place("postgres-18", tmp_path, shared_server) as elsewhere:
        bench = elsewhere.bench()
        with psycopg.connect(elsewhere.where) as other:
            assert lines_for(refusals(postgres, [other])) == [[7]]
        bench.backend.close()


def test_refusals_of_a_database_without_a_store(postgres, shared_server):
    with database_on(shared_server, "postgres-18") as empty:
        empty.allowed += ("anarchon_hold_v1",)
        with psycopg.connect(empty.url) as connection:
            assert lines_for(refusals(postgres, [connection])) == [[7]]
            connection.rollback()


def test_refusals_of_what_has_to_be_awaited(postgres):
    async def said():
        async with await psycopg.AsyncConnection.connect(postgres.where) as connection:
            return refusals(postgres, [connection])

    assert lines_for(asyncio.run(said())) == [[3]]


def test_refusals_of_connections_of_django(sqlite):
    """Stand-ins, since the settings of Django's are those of a whole process."""
    outside = {"in_atomic_block": False, "needs_rollback": False}
    spoiled = {"in_atomic_block": True, "needs_rollback": True}
    given = [
        SimpleNamespace(ensure_connection=None, get_autocommit=lambda: True, **state)
        for state in (outside, spoiled)
    ]
    assert lines_for(refusals(sqlite, given)) == [[1], [2]]


def test_refusals_of_stores_without_transactions(sqlite):
    for store in (MemoryBackend(), RedisBackend("redis://localhost:1")):
        with closing(sqlite.connect()) as connection:
            assert lines_for(refusals(sqlite, [connection], store)) == [[8]]
    assert len(REFUSED) == 9


def test_a_late_fence_says_what_the_page_quotes(sqlite):
    bench = sqlite.bench()
    bench.claim(0)
    now_ms = bench.any._time.lease_ms() + LEASE_MS // 2 + 1
    bench.any._time = SimpleNamespace(wall_ms=bench.any._time.wall_ms, lease_ms=lambda: now_ms)
    with closing(sqlite.connect()) as connection, pytest.raises(BackendError) as raised:
        fence(bench, connection)
    bench.backend.close()
    said = re.sub(r"\d+ ms", "… ms", str(raised.value)).partition(":")[0]
    assert f"`{said}`" in FLAT
