"""Real schedulers on PostgreSQL: one winner for each slot, at most two connections each."""

from __future__ import annotations

import threading
import uuid
from collections import Counter

import psycopg_pool
import pytest

from anarchon import PostgresBackend, Scheduler
from tests.stores.postgres_places import database_on

SLOTS = 3
LONG = 25.0


@pytest.fixture(params=["postgres-18", "pgbouncer-15"])
def database(request, shared_server):
    with database_on(shared_server, request.param) as database:
        yield database


class Fleet:
    """Two schedulers with the same jobs, and what their handlers saw."""

    def __init__(self, connections, namespace):
        self.runs = Counter()
        self.enough = threading.Event()
        self.schedulers = [
            Scheduler(PostgresBackend(one, namespace=namespace), lease="2s", heartbeat="500ms")
            for one in connections
        ]
        for scheduler in self.schedulers:
            for job in ("one", "two"):
                scheduler.every(job, "1s", self.note, catch_up=0)

    def note(self, ctx):
        self.runs[ctx.name, ctx.slot] += 1
        if len(self.runs) >= 2 * SLOTS:
            self.enough.set()

    def run(self, meanwhile=lambda: None):
        for scheduler in self.schedulers:
            scheduler.start()
        try:
            assert self.enough.wait(LONG)
            meanwhile()
            history = self.schedulers[0].history(limit=100)
        finally:
            for scheduler in self.schedulers:
                scheduler.stop(10)
        return history


def test_each_slot_has_one_winner(database):
    fleet = Fleet([database.url, database.url], f"fleet {uuid.uuid4()}")
    connected = []
    mine = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'anarchon'"
    )
    history = fleet.run(lambda: connected.append(database.ask(mine)[0][0]))
    assert set(fleet.runs.values()) == {1}
    assert {run.attempt for run in history} == {1}
    assert {run.status for run in history} <= {"success", "running"}
    assert len({run.instance_id for run in history}) <= 2
    assert connected[0] <= 4


def test_handlers_that_save_at_once_leave_no_connections_behind(database):
    """One each while they save, and two for the scheduler afterwards."""
    together, done = threading.Barrier(6), threading.Event()
    ended = []

    def save(ctx):
        together.wait(LONG)
        for page in range(5):
            ctx.save(page)

    def note(run):
        ended.append(run.job)
        if len(ended) == 6:
            done.set()

    backend = PostgresBackend(database.url, namespace=f"savers {uuid.uuid4()}")
    scheduler = Scheduler(backend, lease="20s", workers=6, jitter=0)
    scheduler.on("success", note)
    for name in range(6):
        scheduler.every(f"job {name}", "1h", save, catch_up="1h")
    with scheduler:
        assert done.wait(LONG)
        connected = database.ask(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name = 'anarchon' AND state = 'idle'"
        )
        kept = len(backend._idle)
    assert kept <= 2
    if database.server is database.front:  # a pooler keeps connections of its own
        assert connected[0][0] <= 2


def test_a_pool_of_one_serves_a_scheduler_and_its_service(database):
    pools = [
        psycopg_pool.ConnectionPool(
            database.url, min_size=1, max_size=1, open=True, kwargs={"prepare_threshold": None}
        )
        for _ in range(2)
    ]
    try:

        def ask():
            with pools[0].connection(timeout=10) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)

        fleet = Fleet(pools, f"fleet {uuid.uuid4()}")
        fleet.run(ask)
        assert set(fleet.runs.values()) == {1}
        assert not any(pool.closed for pool in pools)
    finally:
        for pool in pools:
            pool.close()
