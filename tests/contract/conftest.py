"""What several modules of this folder need."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from anarchon._testing_contract.bench import ANY_JOB, Bench
from anarchon.backends import _postgres_words as words
from anarchon.backends._wire import claim_call
from tests.servers.processes import wait_until
from tests.stores.postgres_clock import SCHEMA, ByHand, TableClock, prepare
from tests.stores.postgres_places import database_on

WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
    "AND datname = current_database()"
)


@pytest.fixture(scope="module")
def database(shared_server):
    """A PostgreSQL with a clock that is moved by hand, for all tests of a module."""
    with database_on(shared_server, "postgres-18") as database:
        prepare(database)
        yield database


# --- for tests of rivals; a module may have a `bench` of its own ---


@pytest.fixture
def clock(database):
    clock = TableClock(database)
    yield clock
    clock.close()


@pytest.fixture
def bench(database, clock):
    """A store under a clock that is moved by hand, in a namespace of its own."""
    store = ByHand(database.url, clock=clock, namespace=f"bench {uuid.uuid4()}")
    bench = Bench(store, clock, 30_000)
    bench.run_through(-5)  # a job that is new would have to be waited for
    yield bench
    store.close()


@pytest.fixture
def elsewhere(database, clock):
    """Another namespace beside it."""
    store = ByHand(database.url, clock=clock, namespace=f"elsewhere {uuid.uuid4()}")
    yield Bench(store, clock, 30_000)
    store.close()


@pytest.fixture
def strict(database, clock, bench):
    """The same store, from connections whose transactions see what was there at first."""
    database.allowed += ("could not serialize access",)
    options = r"options=-c%20default_transaction_isolation%3Drepeatable%5C%20read"
    url = f"{database.url}{'&' if '?' in database.url else '?'}{options}"
    store = ByHand(url, clock=clock, namespace=bench.backend.namespace)
    store.open(bench.limits)
    yield Bench(store, clock, 30_000)
    store.close()


@pytest.fixture
def under_way(database, bench):
    """Have an operation done in a transaction that goes on for the block."""

    @contextmanager
    def asked(call, ends="COMMIT"):
        values = (words.head_of(call).decode(), words.items_of(call).decode())
        with database.connect() as connection:
            connection.execute("BEGIN")
            connection.execute(
                f'SELECT "{SCHEMA}".anarchon_{call.operation}_v1(%s, %s, %s)',
                [bench.backend.namespace, *values],
            )
            yield
            connection.execute(ends)

    return asked


@pytest.fixture
def rival(bench, under_way):
    """Let somebody claim in a transaction that goes on for the block."""

    def claims(*wishes, by="rival", ends="COMMIT"):
        return under_way(claim_call(wishes, bench.owner(by), len(wishes), bench.pace()), ends)

    return claims


@pytest.fixture
def locked(database):
    """Lock the row of a run for the block, as renewals and handlers' transactions do."""

    @contextmanager
    def lock(bench, slot=0, *, job=ANY_JOB, manual="", how="NO KEY UPDATE"):
        with database.connect() as connection:
            connection.execute("BEGIN")
            found = connection.execute(
                f'SELECT FROM "{SCHEMA}".anarchon_run WHERE namespace = %s AND job = %s '
                f"AND slot_ms = %s AND manual = %s FOR {how} SKIP LOCKED",
                (bench.backend.namespace, job, bench.key(slot).slot_ms, manual),
            ).fetchall()
            assert len(found) == 1, "the row is there, and nobody has it"
            yield
            connection.execute("COMMIT")

    return lock


@pytest.fixture
def meanwhile(database):
    """Ask something that has to wait for a lock, and return a function that gives the answer."""
    with ThreadPoolExecutor() as pool:

        def ask(function, *arguments, **options):
            answer = pool.submit(function, *arguments, **options)
            wait_until(lambda: database.ask(WAITING) == [(1,)], "it waits for a lock")
            return answer.result

        yield ask
