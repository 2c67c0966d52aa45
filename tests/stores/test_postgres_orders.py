"""What ordered runs cost a PostgreSQL server, above all while there are none."""

from __future__ import annotations

import time

import pytest

from anarchon._values import (
    Lease,
    Limits,
    Owner,
    Pace,
    Result,
    RunKey,
    SkipWish,
    Terms,
    Waiting,
    Wish,
    Won,
)
from anarchon.backends.postgres import PostgresBackend
from tests.servers.processes import wait_until
from tests.stores.helpers import claim, finish, now_ms
from tests.stores.postgres_places import database_on

LIMITS = Limits(20.0, 20.0, 20.0)
TERMS = Terms(60_000, 20_000, 0, True, 3_600_000)
A, B = Owner("a", "a"), Owner("b", "b")
OURS = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name = 'anarchon'"
)


@pytest.fixture(params=["postgres-15", "postgres-18"])
def database(request, shared_server):
    with database_on(shared_server, request.param) as database:
        yield database


@pytest.fixture
def backend(database):
    """Have a store that nobody has used, so that plans are made of empty tables."""
    backend = PostgresBackend(database.url)
    backend.open(LIMITS)
    backend.prepare([])
    yield backend
    backend.close()


def pace() -> Pace:
    return Pace(time.monotonic())


class Counted:
    """What a store's own sessions did, which they report when they end."""

    def __init__(self, database, backend, view, columns, where):
        self._database, self._backend = database, backend
        self._asked = f"SELECT {columns} FROM {view} WHERE schemaname = 'public' AND {where}"

    def now(self):
        self._backend.close()
        wait_until(lambda: self._database.ask(OURS) == [(0,)], "its sessions have ended")
        ((*counts,),) = self._database.ask(self._asked)
        self._backend.open(LIMITS)
        return counts


@pytest.fixture
def looks(database, backend):
    """Count looks into the index of open manual runs, and the entries that were found there."""
    return Counted(
        database,
        backend,
        "pg_stat_user_indexes",
        "idx_scan, idx_tup_read",
        "indexrelname = 'anarchon_orders'",
    )


def test_a_call_looks_once_for_orders_while_there_are_none(backend, looks):
    """However many jobs it asks about; and what ends or extends runs doesn't look at all."""
    slot_ms = now_ms() - 60_000
    jobs = [f"job {number}" for number in range(20)]
    keys = [RunKey(job, slot_ms) for job in jobs]
    wishes = [Wish(key, 1, "scheduled", TERMS) for key in keys]
    skips = [SkipWish(key, key.slot_ms + 1, "busy") for key in keys]
    leases = [Lease(key, 1) for key in keys]
    results = [Result(key, 1, "success", "scheduled", slot_ms, 1) for key in keys]
    asked = (
        lambda: backend.claim(wishes, owner=A, wins=20, pace=pace()),
        lambda: backend.claim(wishes, owner=B, wins=20, pace=pace()),
        lambda: backend.look(jobs, owner=B),
        lambda: backend.unfinished(jobs, owner=B),
        lambda: backend.skip(skips, owner=B, pace=pace()),
    )
    for call in asked:
        before, entries = looks.now()
        call()
        assert looks.now() == [before + 1, entries]
    before = looks.now()
    backend.renew(leases, owner=A, lease_ms=60_000)
    backend.release(results[:1], owner=A)
    backend.finish(results, owner=A)
    assert looks.now() == before


def test_what_is_recorded_does_not_make_that_look_longer(database, backend, looks):
    """Also not when the statement was planned while there was nothing to go by."""
    slot_ms = now_ms() - 1000
    for number in range(300):
        claim(backend, f"job {number % 10}", slot_ms + number)
        finish(backend, f"job {number % 10}", slot_ms + number)
    keys = [RunKey(f"job {number}", slot_ms, "trigger-1") for number in range(10)]
    backend.trigger(keys, data=None)
    wishes = [Wish(key, 1, "manual", TERMS) for key in keys]
    backend.claim(wishes, owner=A, wins=10, pace=pace())
    results = [Result(key, 1, "success", "manual", slot_ms, 1) for key in keys]
    backend.finish(results, owner=A)
    database.ask("VACUUM anarchon_run")  # as autovacuum does
    before, entries = looks.now()
    for number in range(5):
        backend.look([f"job {number}"], owner=A)
    assert looks.now() == [before + 5, entries]


def test_renewals_of_ordered_runs_change_no_index(database, backend):
    keys = [RunKey(f"job {number}", 7, "trigger-1") for number in range(100)]
    backend.trigger(keys, data=None)
    wishes = [Wish(key, 1, "manual", TERMS) for key in keys]
    claims = backend.claim(wishes, owner=A, wins=100, pace=pace())
    assert {type(answer) for answer in claims.answers} == {Won}
    counted = Counted(
        database,
        backend,
        "pg_stat_user_tables",
        "n_tup_upd, n_tup_hot_upd",
        "relname = 'anarchon_run'",
    )
    before = counted.now()
    leases = [Lease(key, 1) for key in keys]
    for _ in range(10):
        assert not backend.renew(leases, owner=A, lease_ms=60_000).lost
    updated, hot = (after - then for after, then in zip(counted.now(), before, strict=True))
    assert updated == 1000
    assert hot > 0.95 * updated


def test_a_hundred_backfills_of_a_job_are_worked_off(backend):
    keys = [RunKey("job", slot_ms, f"backfill-{slot_ms}") for slot_ms in range(100)]
    backend.trigger(keys[::-1], data=None)
    for turn, key in enumerate(keys):
        (run,) = backend.look(["job"], owner=B).wrong
        assert run.key == key
        wishes = [Wish(one, 1, "catch-up", TERMS) for one in (*keys[turn + 1 :][:1], key)]
        answers = [
            backend.claim([wish], owner=A, wins=1, pace=pace()).answers[0] for wish in wishes
        ]
        assert [type(answer) for answer in answers[:-1]] == [Waiting] * (len(wishes) - 1)
        assert isinstance(answers[-1], Won)
        result = Result(key, 1, "success", "catch-up", 0, 0)
        backend.finish([result], owner=A)
    assert backend.look(["job"], owner=B).wrong == ()
    assert len(backend.history("job", limit=1000)) == 100
