"""What calls cost a PostgreSQL server, and what they do to each other."""

from __future__ import annotations

import random
import threading
import time
import uuid

import pytest

from anarchon._values import (
    LATEST_MS,
    Held,
    Lease,
    Limits,
    Lost,
    Owner,
    Pace,
    Presence,
    Recorded,
    Result,
    RunKey,
    Terms,
    Wish,
    Won,
)
from anarchon.backends.postgres import PostgresBackend
from tests.stores.helpers import claim, finish, lease, now_ms
from tests.stores.postgres_clock import SCHEMA, ByHand, TableClock, prepare
from tests.stores.postgres_places import database_on

LIMITS = Limits(20.0, 20.0, 20.0)
TERMS = Terms(2000, 600, 3, True, 3_600_000)
A, B = Owner("a", "a"), Owner("b", "b")
SPEAKS = A._replace(presence=Presence(LATEST_MS, '{"next":1800000000000,"running":1}'))


@pytest.fixture(params=["postgres-15", "postgres-18"], scope="module")
def database(request, shared_server):
    with database_on(shared_server, request.param) as database:
        prepare(database)
        database.ask("CREATE EXTENSION pg_stat_statements")
        yield database


@pytest.fixture
def backend(database):
    backend = PostgresBackend(database.url, namespace=f"rows {uuid.uuid4()}")
    backend.open(LIMITS)
    backend.prepare([])
    yield backend
    backend.close()


def pace() -> Pace:
    return Pace(time.monotonic())


# --- cost ---


def test_an_operation_is_one_statement_and_silence_is_none(database, backend):
    slot_ms = now_ms()
    claim(backend, "warm", slot_ms)  # it asks for the current schema, once
    asked = "SELECT sum(calls) FROM pg_stat_statements WHERE dbid = %s AND query !~ 'pg_stat'"
    ((oid,),) = database.ask("SELECT oid FROM pg_database WHERE datname = current_database()")

    def count() -> int:
        return database.ask(asked, (oid,))[0][0]

    wishes = [Wish(RunKey(f"job {n}", slot_ms), 1, "scheduled", TERMS) for n in range(20)]
    results = [Result(w.key, 1, "success", "scheduled", slot_ms, 1) for w in wishes]
    leases = [Lease(w.key, 1) for w in wishes]
    along = "SELECT count(*) FROM pg_stat_statements WHERE dbid = %s AND query LIKE %s"
    calls = (
        lambda: backend.claim(wishes, owner=A, wins=20, pace=pace()),
        lambda: backend.claim(wishes, owner=B, wins=20, pace=pace()),
        lambda: backend.renew(leases, owner=A, lease_ms=2000),
        lambda: backend.look([w.key.job for w in wishes], owner=A),
        lambda: backend.unfinished([w.key.job for w in wishes], owner=A),
        lambda: backend.save(leases[0], owner=A, value="{}"),
        lambda: backend.release(results[:2], owner=A),
        lambda: backend.finish(results, owner=A),
        lambda: backend.alert([w.key for w in wishes], owner=A),
        lambda: backend.look([w.key.job for w in wishes], owner=SPEAKS),
        lambda: backend.present(SPEAKS),
        backend.instances,
    )
    with_words = (
        lambda: backend.claim(wishes, owner=SPEAKS, wins=20, pace=pace()),
        lambda: backend.renew(leases, owner=SPEAKS, lease_ms=2000),
        lambda: backend.unfinished([w.key.job for w in wishes], owner=SPEAKS),
    )
    for some, kinds in ((calls, 0), (with_words, len(with_words))):
        for call in some:
            before = count()
            call()
            assert count() == before + 1
        assert database.ask(along, (oid, "SELECT convert_to(%_keep_v1(%")) == [(kinds,)]
    assert count() == count()
    mine = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    assert database.ask(mine + " AND application_name = 'anarchon'") == [(1,)]


def test_renewals_change_no_index(database, backend):
    slot_ms = now_ms()
    keys = [RunKey(f"job {number}", slot_ms) for number in range(200)]
    for begin in range(0, 200, 100):
        wishes = [Wish(key, 1, "scheduled", TERMS) for key in keys[begin : begin + 100]]
        backend.claim(wishes, owner=A, wins=100, pace=pace())
    statistics = (
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables "
        "WHERE schemaname = 'public' AND relname = 'anarchon_run'"
    )
    # A connection reports what it did when it closes.
    backend.close()
    backend.open(LIMITS)
    before = database.ask(statistics)[0]
    leases = [Lease(key, 1) for key in keys]
    for _ in range(10):
        assert not backend.renew(leases, owner=A, lease_ms=2000).lost
    backend.close()
    until = time.monotonic() + 10
    while (after := database.ask(statistics)[0])[0] < before[0] + 2000:
        assert time.monotonic() < until
    backend.open(LIMITS)
    updated, hot = after[0] - before[0], after[1] - before[1]
    assert hot > 0.95 * updated


def test_what_instances_say_changes_no_index(database, backend):
    """However long it is what they are and have: that is said seldom, and kept where it is."""
    statistics = (
        "SELECT n_tup_upd, n_tup_hot_upd, pg_total_relation_size(relid) FROM "
        "pg_stat_user_tables WHERE schemaname = 'public' AND relname = 'anarchon_instance'"
    )
    dice = random.Random(1)
    about = "".join(dice.choice("0123456789abcdef") for _ in range(20_000))
    owners = [SPEAKS._replace(token=f"number {number}") for number in range(50)]
    for owner in owners:
        backend.present(owner._replace(presence=owner.presence._replace(about=about)))
    backend.close()
    backend.open(LIMITS)
    before = database.ask(statistics)[0]
    for _ in range(10):
        for owner in owners:
            assert not backend.renew([], owner=owner, lease_ms=2000).lost
    backend.close()
    until = time.monotonic() + 10
    while (after := database.ask(statistics)[0])[0] < before[0] + 500:
        assert time.monotonic() < until
    backend.open(LIMITS)
    updated, hot, more = (new - old for new, old in zip(after, before, strict=True))
    assert updated == 500
    assert hot > 0.95 * updated
    assert more < 200_000  # of a million that they have said


def test_no_index_has_a_column_that_a_renewal_changes(database):
    columns = database.ask(
        "SELECT DISTINCT a.attname FROM pg_index i "
        "JOIN pg_attribute a ON a.attrelid = i.indexrelid "
        f"WHERE i.indrelid = '\"{SCHEMA}\".anarchon_run'::regclass"
    )
    names = {name for (name,) in columns}
    assert names == {"namespace", "job", "slot_ms", "manual", "attempt", "place_ms"}


def test_a_day_of_history_stays_small(database):
    """What is kept of a job is bounded, and so are its tables and their indexes."""
    clock = TableClock(database)
    namespace = f"day {uuid.uuid4()}"
    backend = ByHand(database.url, clock=clock, namespace=namespace)
    backend.open(LIMITS)
    sizes = []
    for turn in range(480):
        clock.advance(180_000)
        slot_ms = clock.wall_ms()
        assert isinstance(claim(backend, "job", slot_ms), Won)
        assert isinstance(finish(backend, "job", slot_ms, started_ms=slot_ms), Recorded)
        if turn % 80 == 79:
            database.ask(f'VACUUM "{SCHEMA}".anarchon_run')  # as autovacuum does
            database.ask(f'VACUUM "{SCHEMA}".anarchon_attempt')
            sizes.append(
                database.ask(
                    f"SELECT pg_total_relation_size('\"{SCHEMA}\".anarchon_run') "
                    f"+ pg_total_relation_size('\"{SCHEMA}\".anarchon_attempt')"
                )[0][0]
            )
    for table in ("run", "attempt"):
        counted = f'SELECT count(*) FROM "{SCHEMA}".anarchon_{table} WHERE namespace = %s'
        assert database.ask(counted, (namespace,)) == [(100,)]
    assert sizes[-1] < 1.5 * sizes[1]
    backend.close()
    clock.close()


# --- beside each other ---


def test_batches_in_any_order_never_lock_each_other_out(database):
    """Claims, renewals, ends, pauses, orders and alerts of the same jobs, by many at once.

    They also say something of themselves, and each time somebody else is long gone.
    """
    namespace = f"mix {uuid.uuid4()}"
    jobs = [f"job {number}" for number in range(12)]
    slot_ms = now_ms() - 60_000
    failed: list[Exception] = []

    def work(number: int) -> None:
        dice = random.Random(number)
        # Some share a token: copies of one claim.
        owner = Owner(str(number % 4), "x", Presence(1, "{}", "{}"))
        backend = PostgresBackend(database.url, namespace=namespace)
        try:
            backend.open(LIMITS)
            for turn in range(25):
                some = dice.sample(jobs, 8)
                keys = [RunKey(job, slot_ms + turn * 10) for job in some]
                wishes = [Wish(key, 1, "scheduled", TERMS) for key in keys]
                if turn % 2:
                    dice.shuffle(keys)
                    kind = dice.choice(("trigger", "backfill"))
                    keys = [key._replace(manual=f"{kind}-{turn % 3}") for key in keys]
                    backend.trigger(keys, data="1")
                    wishes = [Wish(key, 1, "manual", TERMS) for key in keys]
                backend.claim(wishes, owner=owner, wins=dice.randint(0, 8), pace=pace())
                dice.shuffle(keys)
                backend.renew([Lease(key, 1) for key in keys], owner=owner, lease_ms=2000)
                ends = [Result(key, 1, "interrupted", "scheduled", 0, 0) for key in keys]
                dice.choice([backend.finish, backend.release])(ends, owner=owner)
                backend.pause(dice.choice(jobs), duration_ms=0)
                backend.cancel(dice.choice(keys))
                backend.alert(keys, owner=owner)
                backend.present(owner if turn % 3 else Owner(*owner[:2]))
        except Exception as error:
            failed.append(error)
        finally:
            backend.close()

    backend = PostgresBackend(database.url, namespace=namespace)
    backend.open(LIMITS)
    backend.prepare([])
    backend.close()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []  # and the log has no deadlock: see `database_on`


def test_a_user_s_transaction_lets_renewals_through_and_holds_takeovers_off(database, backend):
    slot_ms = now_ms()
    quick = {"lease_ms": 300, "heartbeat_ms": 100}
    assert isinstance(claim(backend, "job", slot_ms, **quick), Won)
    assert not backend.renew([lease("job", slot_ms)], owner=A, lease_ms=300).lost
    with database.connect() as user:
        user.execute("BEGIN")
        user.execute(
            "SELECT FROM anarchon_run WHERE namespace = %s FOR KEY SHARE", (backend.namespace,)
        )
        assert not backend.renew([lease("job", slot_ms)], owner=A, lease_ms=300).lost
        threading.Event().wait(0.35)
        wish = Wish(RunKey("job", slot_ms), 2, "takeover", TERMS, 2, time.monotonic() - 9)
        for terms in (TERMS, TERMS._replace(budget=0)):
            taken = backend.claim([wish._replace(terms=terms)], owner=B, wins=1, pace=pace())
            assert isinstance(taken.answers[0], Held)
        user.execute("COMMIT")
    taken = backend.claim([wish], owner=B, wins=1, pace=pace())
    assert isinstance(taken.answers[0], Won)
    assert isinstance(finish(backend, "job", slot_ms), Lost)


def test_a_death_is_not_recorded_while_a_user_s_transaction_goes_on(database, backend):
    slot_ms = now_ms()
    assert isinstance(claim(backend, "job", slot_ms, lease_ms=300, budget=0), Won)
    threading.Event().wait(0.35)
    wish = Wish(RunKey("job", slot_ms), 2, "takeover", TERMS, 0, time.monotonic() - 9)
    with database.connect() as user:
        user.execute("BEGIN")
        user.execute(
            "SELECT FROM anarchon_run WHERE namespace = %s FOR KEY SHARE", (backend.namespace,)
        )
        held = backend.claim([wish], owner=B, wins=1, pace=pace())
        assert isinstance(held.answers[0], Held)
        user.execute("ROLLBACK")
    closed = backend.claim([wish], owner=B, wins=1, pace=pace())
    assert closed.answers[0].status == "lost"


def test_what_a_user_s_transaction_holds_stays_in_history_and_all_else_is_trimmed(database):
    clock = TableClock(database)
    backend = ByHand(database.url, clock=clock, namespace=f"held {uuid.uuid4()}")
    backend.open(LIMITS)
    backend._limits = Limits(1.0, 1.0, 1.0)
    slots: list[int] = []

    def run() -> None:
        clock.advance(1000)
        slots.append(clock.wall_ms())
        assert isinstance(claim(backend, "job", slots[-1]), Won)
        assert isinstance(finish(backend, "job", slots[-1]), Recorded)

    def kept() -> list[int]:
        asked = f'SELECT slot_ms FROM "{SCHEMA}".anarchon_run WHERE namespace = %s ORDER BY 1'
        return [slot_ms for (slot_ms,) in database.ask(asked, (backend.namespace,))]

    run()
    with database.connect() as user:
        user.execute("BEGIN")
        user.execute(
            f'SELECT FROM "{SCHEMA}".anarchon_run WHERE namespace = %s FOR KEY SHARE',
            (backend.namespace,),
        )
        while len(slots) < 103:
            run()
        assert kept() == [slots[0], *slots[4:]]
        user.execute("COMMIT")
    run()
    assert kept() == slots[4:]
    assert claim(backend, "job", slots[0], by="b").detail == "trimmed"
    backend.close()
    clock.close()


def test_two_can_not_start_at_one_place(database, backend):
    """The second line of defence: what no function does, no table takes."""
    import psycopg

    claim(backend, "job", now_ms())
    copy = (
        "INSERT INTO anarchon_run SELECT namespace, job, slot_ms + 1, manual, attempt, state,"
        " owner, end_ms, lease_ms, heartbeat_ms, beat, fence, deaths, budget, catch_up_ms, cancel,"
        " status, detail, decided_by, since_ms, place_ms FROM anarchon_run WHERE namespace = %s"
    )
    with pytest.raises(psycopg.errors.UniqueViolation):
        database.ask(copy, (backend.namespace,))
    database.allowed += ("anarchon_open",)


def test_names_and_times_are_the_server_s(backend):
    before = now_ms()
    slot_ms = before - 5
    won = claim(backend, "job", slot_ms)
    assert abs(won.fence // 1000 - before) < 5000
    (run,) = backend.history("job", limit=9)
    assert abs(run.started_at.timestamp() * 1000 - before) < 5000
