"""Whatever the settings of a role, a database or a connection are, the store is the same one."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import psycopg
import psycopg_pool
import pytest

from anarchon._values import Held, Limits, Owner, Won
from anarchon.backends.postgres import PostgresBackend
from anarchon.errors import BackendError, BackendUnavailable
from tests.stores.helpers import claim, finish, lease, now_ms
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


# --- locks of tables ---


@pytest.mark.parametrize("table", ["anarchon_run", "anarchon_format"])
def test_the_server_gives_up_on_a_locked_table_when_the_caller_does(database, table):
    """As VACUUM FULL and ALTER TABLE lock one; a new connection knows no function yet."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND datname = current_database()"
    )
    calls = {
        "anarchon_run": [
            lambda: backend.look(["job"], owner=Owner("a", "a")),
            lambda: backend.renew([lease("job", 0)], owner=Owner("a", "a"), lease_ms=1000),
            lambda: claim(backend, "job", now_ms()),
            lambda: finish(backend, "job", now_ms()),
        ],
        "anarchon_format": [lambda: backend.open(Limits(0.3, 0.3, 0.3))],
    }
    backend = PostgresBackend(database.url)
    backend.open(LIMITS)
    backend._limits = Limits(5.0, 0.2, 0.2)
    with database.connect() as holder:
        holder.execute(f"BEGIN; LOCK TABLE {table}")
        for call in calls[table]:
            backend._drop_idle()
            with pytest.raises(BackendUnavailable):
                call()
        until = time.monotonic() + 5
        while database.ask(waiting) != [(0,)]:
            assert time.monotonic() < until
        holder.execute("ROLLBACK")
    backend.close()
    database.allowed += ("lock timeout", "connection to client lost")


# --- isolation ---


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_stricter_transactions_are_repeated_and_told(shared_server, level):
    server = shared_server("postgres-15")
    name = server.create_database()
    server.ask(f"ALTER DATABASE {name} SET default_transaction_isolation = '{level}'")
    backends = [PostgresBackend(server.url(name)) for _ in range(4)]
    gate, answers = threading.Barrier(len(backends)), []

    def work(number):
        backend = backends[number]
        gate.wait(20)
        backend.prepare([])
        for turn in range(10):
            slot_ms = begun_ms + turn
            gate.wait(20)
            answer = claim(backend, "job", slot_ms, by=str(number))
            answers.append((turn, type(answer)))
            if isinstance(answer, Won):
                finish(backend, "job", slot_ms, by=str(number))

    begun_ms = now_ms() - 10_000
    told = [[one.name for one in backend.open(LIMITS).findings] for backend in backends]
    run_all(work, len(backends))
    for backend in backends:
        backend.close()
    assert sorted(turn for turn, kind in answers if kind is Won) == list(range(10))
    assert len(answers) == 40
    assert all("isolation" in names for names in told)
    assert server.ask("SELECT count(*) FROM anarchon_format", database=name) == [(1,)]
    server.drop_database(name)


def run_all(work, count):
    """Run it on so many threads, and raise what any of them raised."""
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(work, number) for number in range(count)]:
            done.result()


def test_a_second_store_in_the_search_path_is_told(shared_server):
    """A role's own schema, made later, comes before public."""
    server = shared_server("postgres-15")
    name = server.create_database()
    with opened(server.url(name), "x") as backend:
        backend.prepare([])
    server.ask("CREATE SCHEMA postgres", database=name)
    for options, is_told in (({}, True), ({"schema": "public"}, False)):
        backend = PostgresBackend(server.url(name), **options)
        text = str(backend.open(LIMITS).findings)
        backend.close()
        assert ("another store in public" in text) is is_told
    server.drop_database(name)


# --- read-only ---


def test_a_role_that_only_reads_is_told_what_to_change(shared_server):
    server = shared_server("postgres-15")
    name = server.create_database()
    server.ask(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    for connection in (server.url(name), lambda: psycopg.connect(server.url(name))):
        refused = pytest.raises(BackendUnavailable, match="RESET default_transaction_read_only")
        with refused, opened(connection, "x"):
            pass
    server.drop_database(name)
