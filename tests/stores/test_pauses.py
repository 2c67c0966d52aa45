"""Which jobs are paused, as pages show it, on each store."""

from __future__ import annotations

import pytest

from anarchon import MemoryBackend, PostgresBackend, RedisBackend, Scheduler, SqliteBackend
from anarchon.backends._pauses import Pauses, pauses_in
from anarchon.testing import ClaimOnly
from tests.stores.postgres_places import database_on

NAMES = ["plain", "with \u2400, / and \u00fc", "third"]
NONE = Pauses(every=False, jobs=frozenset())
KINDS = ["memory", "sqlite", "postgres-15", "pgbouncer-15", "redis-8.2", "redis-cluster"]


@pytest.fixture(params=KINDS)
def backend(request, tmp_path, shared_server):
    kind = request.param
    if kind == "memory":
        yield MemoryBackend()
    elif kind == "sqlite":
        yield SqliteBackend(tmp_path / "jobs.db")
    elif kind.startswith("redis"):
        yield RedisBackend(shared_server(kind).url, namespace=request.node.name)
    else:
        with database_on(shared_server, kind) as database:
            yield PostgresBackend(database.url)


@pytest.fixture
def scheduler(backend):
    scheduler = Scheduler(backend, catch_up=0)
    for name in NAMES:
        scheduler.every(name, "1d", lambda: None)
    with scheduler:
        pass  # the store is prepared
    return scheduler


def test_pauses_of_jobs_and_of_all(backend, scheduler):
    assert pauses_in(backend, NAMES) == NONE
    scheduler.pause(NAMES[1])
    assert pauses_in(backend, NAMES) == Pauses(every=False, jobs=frozenset([NAMES[1]]))
    assert pauses_in(backend, NAMES[:1]) == NONE
    scheduler.pause()
    assert pauses_in(backend, [*NAMES, "unknown"]).every
    scheduler.resume(NAMES[1])
    assert pauses_in(backend, []) == Pauses(every=True, jobs=frozenset())
    scheduler.resume()
    assert pauses_in(backend, NAMES) == NONE


def test_a_pause_that_is_over_is_none(backend, scheduler):
    scheduler.pause(NAMES[0], duration="1ms")
    scheduler.pause(duration="1ms")
    for _ in range(1000):
        if pauses_in(backend, NAMES) == NONE:
            return
    raise AssertionError("it goes on")


def test_while_it_runs(backend, scheduler):
    with scheduler:
        scheduler.pause(NAMES[0])
        assert pauses_in(backend, NAMES).jobs == {NAMES[0]}


def test_of_a_store_of_another_kind_nothing_is_known():
    assert pauses_in(ClaimOnly(MemoryBackend()), NAMES) is None
