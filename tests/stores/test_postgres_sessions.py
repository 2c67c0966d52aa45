"""Whatever the settings of a role, a database or a connection are, the store is the same one."""

from __future__ import annotations

import contextlib
import uuid

import psycopg
import psycopg_pool
import pytest

from anarchon._values import Held, Limits, Won
from anarchon.backends.postgres import PostgresBackend
from anarchon.errors import BackendError, BackendUnavailable
from tests.stores.helpers import claim, now_ms
from tests.stores.postgres_places import database_on

LIMITS = Limits(10.0, 10.0, 10.0)
SOME_NAME = "zürich"  # two letters in UTF8 where LATIN1 has one


@pytest.fixture(scope="module")
def database(shared_server):
    with database_on(shared_server, "postgres-15") as database:
        with opened(database.url, "first") as backend:
            backend.prepare([])
        yield database


@contextlib.contextmanager
def opened(connection, namespace, **options):
    backend = PostgresBackend(connection, namespace=namespace, **options)
    try:
        backend.open(LIMITS)
        yield backend
    finally:
        backend.close()


# --- client_encoding ---


@pytest.mark.parametrize("encoding", ["UTF8", "LATIN1", "EUC_JP", "SQL_ASCII"])
def test_an_address_has_one_client_encoding(database, encoding):
    """Else the same name is another one, and each of them has a winner."""
    slot_ms = now_ms()
    namespace, schema = f"{SOME_NAME} {uuid.uuid4()}", f"{SOME_NAME} {encoding}"
    url = f"{database.url}?client_encoding={encoding}"
    with opened(url, namespace, schema=schema) as one, opened(database.url, namespace) as other:
        one.prepare([])
        with opened(database.url, namespace, schema=schema) as same:
            assert isinstance(claim(one, "job", slot_ms), Won)
            assert isinstance(claim(same, "job", slot_ms, by="b"), Held)
        assert other.history("job", limit=9) == []
    assert database.ask("SELECT to_regnamespace(%s) IS NOT NULL", (f'"{schema}"',)) == [(True,)]


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_another_client_encoding_of_a_user_s_connection_is_refused(database, encoding):
    def connect():
        return psycopg.connect(database.url, client_encoding=encoding)

    pool = psycopg_pool.ConnectionPool(
        database.url, min_size=1, max_size=1, kwargs={"client_encoding": encoding}, open=True
    )
    for connection in (connect, pool):
        refused = pytest.raises(BackendError, match=rf"{encoding}.*client_encoding=UTF8")
        with refused as caught, opened(connection, SOME_NAME):
            pass
        assert not isinstance(caught.value, BackendUnavailable)
    pool.close()


def test_a_client_encoding_that_changes_later_is_refused_as_well(database):
    """As a service may do with a connection of its pool."""
    made = []

    def connect():
        made.append(psycopg.connect(database.url, client_encoding="UTF8", autocommit=True))
        return made[-1]

    with opened(connect, SOME_NAME) as backend:
        assert isinstance(claim(backend, "job", now_ms()), Won)
        made[0].execute("SET client_encoding = LATIN1")
        with pytest.raises(BackendError, match="LATIN1"):
            claim(backend, "other", now_ms())
        assert made[0].closed
        assert isinstance(claim(backend, "other", now_ms()), Won)


def test_what_a_function_made_is_closed_when_it_is_refused(database):
    made = []

    def connect():
        made.append(psycopg.connect(database.url))
        made[-1].execute("SELECT 1")  # begins a transaction
        return made[-1]

    with pytest.raises(BackendUnavailable, match="in a transaction"), opened(connect, "x"):
        pass
    assert [connection.closed for connection in made] == [True]
