"""Connections to PostgreSQL: every call ends, and one that failed is never used again."""

from __future__ import annotations

import contextlib
import os
import time
import uuid

import psycopg
import psycopg_pool
import pytest

from anarchon._values import Held, Limits, Owner, Won
from anarchon.backends._postgres_wait import ask
from anarchon.backends.postgres import PostgresBackend
from anarchon.errors import BackendError, BackendUnavailable, ConfigurationError
from tests.servers.proxy import Proxy
from tests.stores.helpers import claim, lease, now_ms
from tests.stores.postgres_places import certificate, database_on

LIMITS = Limits(connect=2.0, quick=0.4, call=0.6)
SLACK = 1.0  # what a busy machine may add
A = Owner("a", "a")


@pytest.fixture(scope="module")
def database(shared_server):
    with database_on(shared_server, "postgres-15") as database:
        backend = PostgresBackend(database.url)
        backend.open(Limits(20.0, 20.0, 20.0))
        backend.prepare([])
        backend.close()
        yield database


@pytest.fixture
def proxy(database):
    with Proxy(database.server) as proxy:
        yield proxy


def make_url(url):
    return contextlib.nullcontext(url)


@contextlib.contextmanager
def make_pool(url):
    pool = psycopg_pool.ConnectionPool(url, min_size=1, max_size=1, open=True, timeout=30)
    pool.wait(20)
    yield pool
    pool.close()


@contextlib.contextmanager
def make_checking_pool(url):
    check = psycopg_pool.ConnectionPool.check_connection
    pool = psycopg_pool.ConnectionPool(url, min_size=1, max_size=2, open=True, check=check)
    pool.wait(20)
    yield pool
    pool.close()


def make_function(url):
    return contextlib.nullcontext(lambda: psycopg.connect(url))


KINDS = [make_url, make_pool, make_checking_pool, make_function]


@contextlib.contextmanager
def opened(connection, limits=LIMITS, **options):
    options.setdefault("namespace", f"links {uuid.uuid4()}")
    backend = PostgresBackend(connection, **options)
    backend.open(Limits(20.0, 20.0, 20.0))
    backend._limits = limits
    try:
        yield backend
    finally:
        backend.close()


def through(database, proxy) -> str:
    return database.url.replace(str(database.server.port), str(proxy.port))


def seconds_until_it_fails(call) -> float:
    begun = time.monotonic()
    with pytest.raises(BackendUnavailable):
        call()
    return time.monotonic() - begun


# --- every call ends ---


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("fault", ["black_hole", "half_open"])
def test_a_call_into_a_black_hole_ends_in_time(database, proxy, make, fault):
    with make(through(database, proxy)) as connection, opened(connection) as backend:
        assert isinstance(claim(backend, "job", now_ms()), Won)
        getattr(proxy, fault)()
        calls = (
            (LIMITS.quick, lambda: backend.renew([lease("job", 0)], owner=A, lease_ms=1000)),
            (LIMITS.call, lambda: claim(backend, "other", now_ms())),
        )
        limit, call = calls[0]
        assert seconds_until_it_fails(call) < limit + SLACK
        if fault == "black_hole":
            limit, call = calls[1]
            assert seconds_until_it_fails(call) < limit + SLACK
        if make in (make_url, make_function):  # a pool connects again when it likes
            proxy.passing()
            assert isinstance(claim(backend, "third", now_ms()), Won)


def test_a_call_over_tls_ends_in_time(own_server, tmp_path):
    from tests.servers.postgres import Postgres

    server = own_server(certificate(Postgres("postgres-15")))
    with Proxy(server) as proxy:
        url = server.url().replace(str(server.port), str(proxy.port)) + "?sslmode=require"
        with opened(url, schema="tls") as backend:
            backend.prepare([])
            assert isinstance(claim(backend, "job", now_ms()), Won)
            assert server.ask("SELECT count(*) > 0 FROM pg_stat_ssl WHERE ssl") == [(True,)]
            proxy.black_hole()
            assert seconds_until_it_fails(lambda: claim(backend, "other", 0)) < 0.6 + SLACK
            proxy.passing()
            assert isinstance(claim(backend, "third", now_ms()), Won)


def test_connecting_into_a_black_hole_ends_in_time(proxy, database):
    proxy.black_hole()
    backend = PostgresBackend(through(database, proxy))
    begun = time.monotonic()
    with pytest.raises(BackendUnavailable, match="in time"):
        backend.open(LIMITS)
    assert time.monotonic() - begun < LIMITS.connect + SLACK
    backend.close()


def test_of_several_hosts_the_next_is_tried_in_time(proxy, database):
    proxy.black_hole()
    port = database.server.port
    hosts = (
        f"host=127.0.0.1,127.0.0.1 port={proxy.port},{port} user=postgres dbname={database.name}"
    )
    backend = PostgresBackend(hosts, namespace=f"links {uuid.uuid4()}")
    backend.open(LIMITS)
    assert isinstance(claim(backend, "job", now_ms()), Won)
    backend.close()


def test_the_server_gives_up_when_the_caller_does(database):
    with opened(database.url) as backend, database.connect() as holder:
        slot_ms = now_ms()
        assert isinstance(claim(backend, "job", slot_ms), Won)
        holder.execute("BEGIN")
        holder.execute(
            "SELECT FROM anarchon_run WHERE namespace = %s FOR UPDATE", (backend.namespace,)
        )
        with pytest.raises(BackendUnavailable):
            backend.renew([lease("job", slot_ms)], owner=A, lease_ms=1000)
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        until = time.monotonic() + 5
        while database.ask(waiting) != [(0,)]:
            assert time.monotonic() < until
        holder.execute("ROLLBACK")
        assert not backend.renew([lease("job", slot_ms)], owner=A, lease_ms=1000).lost
    # The caller left just before, or after.
    database.allowed += ("lock timeout", "connection to client lost")


# --- what a connection leaves behind ---


@pytest.mark.parametrize("make", KINDS)
def test_no_trace_is_left_on_a_connection(database, make):
    """No transaction, no setting and no prepared statement: a pooler gives it to somebody else."""
    with make(database.url) as connection, opened(connection) as backend:
        claim(backend, "job", now_ms())
        backend.renew([lease("job", 0)], owner=A, lease_ms=1)
        question = b"SELECT convert_to(current_setting('lock_timeout') || ' ' || (SELECT count(*) "
        question += b"FROM pg_prepared_statements), 'UTF8')"
        deadline = time.monotonic() + 10
        link = backend._idle[0]
        with link.session(deadline) as pgconn:
            assert ask(pgconn, question, (), deadline) == b"0 0"
            assert pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_a_pool_gets_back_what_it_lent(database):
    with make_pool(database.url) as pool, opened(pool) as backend:
        for number in range(5):
            claim(backend, f"job {number}", now_ms())
        with pool.connection(timeout=5) as connection:  # there is only one
            assert connection.execute("SELECT 1").fetchone() == (1,)
            assert not connection.autocommit
        backend.close()
        assert not pool.closed
        backend.open(LIMITS)


def test_a_failed_connection_goes_back_closed(database):
    with make_pool(database.url) as pool, opened(pool) as backend:
        with pool.connection() as connection:
            pid = connection.info.backend_pid
        database.ask("SELECT pg_terminate_backend(%s)", (pid,))
        with pytest.raises(BackendUnavailable):
            claim(backend, "job", now_ms())
        pool.wait(20)
        assert isinstance(claim(backend, "job", now_ms()), Won)
        with pool.connection() as connection:
            assert connection.info.backend_pid != pid
    database.allowed += ("terminating connection",)


def test_a_function_must_return_a_new_connection(database):
    with psycopg.connect(database.url) as connection:
        connection.execute("SELECT 1")  # it is in a transaction now
        backend = PostgresBackend(lambda: connection)
        with pytest.raises(BackendUnavailable, match="a new one at each call"):
            backend.open(LIMITS)
        backend.close()


@pytest.mark.parametrize("made", [None, object(), "postgresql://x"])
def test_a_function_that_returns_something_else(made):
    backend = PostgresBackend(lambda: made)
    with pytest.raises(BackendError, match="psycopg"):
        backend.open(LIMITS)
    backend.close()


@pytest.mark.parametrize("wrong", [None, 7, psycopg.Connection, b"postgresql://x"])
def test_what_is_no_connection(wrong):
    with pytest.raises(ConfigurationError, match="give a URL"):
        PostgresBackend(wrong)


# --- forks ---


def in_child(work) -> str:
    """Run a function in a forked child and return what it says."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = work()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(pid, 0)
    return said


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_leaves_its_parent_s_connections_alone(database):
    with opened(database.url, Limits(10, 10, 10)) as backend:
        slot_ms = now_ms()
        assert isinstance(claim(backend, "job", slot_ms), Won)
        (link,) = backend._idle
        pid = link._pgconn.backend_pid

        def child() -> str:
            backend.open(Limits(10, 10, 10))
            answer = claim(backend, "job", slot_ms, by="b")
            mine = backend._idle[0]._pgconn.backend_pid
            backend.close()
            return f"{type(answer).__name__} {mine != pid}"

        assert in_child(child) == "Held True"
        assert isinstance(claim(backend, "job", slot_ms, by="c"), Held)
        assert backend._idle[0]._pgconn.backend_pid == pid


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_an_inherited_pool_is_refused(database):
    with make_pool(database.url) as pool:
        backend = PostgresBackend(pool, namespace=f"links {uuid.uuid4()}")

        def child() -> str:
            backend.open(Limits(5, 5, 5))
            return "no error"

        assert "BackendUnavailable: The connection was made in another process" in in_child(child)
        with opened(pool) as again:  # and the parent's was left alone
            assert isinstance(claim(again, "job", now_ms()), Won)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_an_inherited_connection_of_a_function_is_refused(database):
    with psycopg.connect(database.url) as connection:
        backend = PostgresBackend(lambda: connection, namespace=f"links {uuid.uuid4()}")

        def child() -> str:
            backend.open(Limits(5, 5, 5))
            return "no error"

        assert "BackendUnavailable: The connection was made in another process" in in_child(child)
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_pool_made_after_the_fork_is_fine(database):
    with make_pool(database.url) as parent:
        PostgresBackend(parent)

        def child() -> str:
            with make_pool(database.url) as pool, opened(pool, Limits(9, 9, 9)) as backend:
                return type(claim(backend, "job", now_ms())).__name__

        assert in_child(child) == "Won"
