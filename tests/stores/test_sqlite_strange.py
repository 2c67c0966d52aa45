"""Rows that something else wrote: only what they belong to is harmed, and it heals."""

from __future__ import annotations

import sqlite3

import pytest

from anarchon._runs import Run
from anarchon._values import Closed, Owner, Pace, Recorded, Won, instant
from anarchon.backends._rules import NO_FLOOR, JobState
from anarchon.backends.memory import MemoryBackend
from anarchon.backends.sqlite import SqliteBackend
from anarchon.errors import BackendError, BackendUnavailable, ConfigurationError
from tests.stores.helpers import QUICK, claim, finish, lease, now_ms, opened, wish

OWNER = Owner("a", "a")
STRANGE = ("'abc'", "x'00ff'", "1.5", "9000000000000000000", "-9000000000000000000", "''")
BAD_UTF8 = "CAST(x'61ff62' AS TEXT)"


@pytest.fixture
def database(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def backend(database):
    with opened(database) as backend:
        yield backend


def tamper(database, *statements):
    """Do as somebody with a database tool would."""
    other = sqlite3.connect(database, isolation_level=None)
    for statement in statements:
        other.execute(statement)
    other.close()


def columns(table):
    """Return the columns of a table that are not of its key."""
    scratch = sqlite3.connect(":memory:")
    from anarchon.backends._sqlite_rows import TABLES

    for statement in TABLES:
        scratch.execute(statement)
    rows = scratch.execute(f"PRAGMA table_info({table})").fetchall()
    scratch.close()
    return [row[1] for row in rows if not row[5]]


def everything_works(backend, job):
    """Use every operation on a job's next slots, and on another job's."""
    slot_ms = now_ms() - 1000
    for name in (job, "other"):
        wishes = [wish(name, slot_ms, skip_overlap=False)]
        claims = backend.claim(wishes, owner=OWNER, wins=1, pace=Pace(0.0))
        assert [type(answer) for answer in claims.answers] == [Won], name
        assert backend.renew([lease(name, slot_ms)], owner=OWNER, lease_ms=30_000).lost == ()
        assert backend.save(lease(name, slot_ms), owner=OWNER, value="1")
        assert isinstance(finish(backend, name, slot_ms), Recorded)
        newest = backend.history(name, limit=1)[0]
        assert (newest.slot, newest.status) == (slot_ms, "success")
    backend.look([job, "other"], owner=OWNER)
    backend.unfinished([job, "other"], owner=OWNER)
    for run in backend.history(None, limit=100):
        assert str(run)
        assert run.to_dict()
    backend.pause(job, duration_ms=None)
    backend.resume(job)


@pytest.mark.parametrize("value", [*STRANGE, BAD_UTF8])
@pytest.mark.parametrize("column", columns("anarchon_job"))
def test_a_job_s_value_counts_as_never_stored_and_is_replaced(backend, database, column, value):
    old_ms = now_ms() - 100_000
    claim(backend, "job", old_ms)
    finish(backend, "job", old_ms)
    tamper(database, f"UPDATE anarchon_job SET {column} = {value} WHERE job = 'job'")
    everything_works(backend, "job")
    rows = sqlite3.connect(database)
    (job,) = rows.execute(
        "SELECT fence, floor_ms, paused_until_ms, records, skips FROM anarchon_job"
        " WHERE job = 'job'"
    ).fetchall()
    rows.close()
    job = JobState(*job)
    assert abs(job.fence - now_ms() * 1000) < 60_000_000
    assert (job.floor_ms, job.paused_until_ms, job.skips) == (NO_FLOOR, 0, 0)
    assert job.records in (1, 2)


@pytest.mark.parametrize("value", [*STRANGE, BAD_UTF8])
@pytest.mark.parametrize("column", columns("anarchon_run"))
def test_a_run_s_value_costs_its_own_slot_alone(backend, database, column, value):
    old_ms = now_ms() - 100_000
    claim(backend, "job", old_ms)
    tamper(database, f"UPDATE anarchon_run SET {column} = {value} WHERE job = 'job'")
    answer = claim(backend, "job", old_ms, by="b")
    assert answer.key.slot_ms == old_ms
    everything_works(backend, "job")
    assert isinstance(finish(backend, "other", old_ms), Recorded)


@pytest.mark.parametrize("value", [*STRANGE, BAD_UTF8])
@pytest.mark.parametrize(
    "column", [*columns("anarchon_attempt"), "slot_ms", "manual", "attempt", "job"]
)
def test_history_shows_what_can_be_shown(backend, database, column, value):
    old_ms = now_ms() - 100_000
    for job, slot_ms in (("job", old_ms), ("job", old_ms + 1), ("other", old_ms)):
        claim(backend, job, slot_ms)
        finish(backend, job, slot_ms)
    tamper(
        database,
        f"UPDATE OR IGNORE anarchon_attempt SET {column} = {value} "
        f"WHERE job = 'job' AND slot_ms = {old_ms}",
    )
    assert [run.slot for run in backend.history("other", limit=9)] == [old_ms]
    runs = backend.history("job", limit=9)
    assert old_ms + 1 in [run.slot for run in runs]
    if column in {"started_ms", "finished_ms", "duration_ms", "error", "traceback", "detail"}:
        assert [run.slot for run in runs] == [old_ms + 1, old_ms]
        assert runs[1].status == "success"
    everything_works(backend, "job")


@pytest.mark.parametrize("value", [*STRANGE, BAD_UTF8])
def test_a_pause_of_all_that_can_not_be_meant_is_none(backend, database, value):
    tamper(database, f"INSERT OR REPLACE INTO anarchon_namespace VALUES ('anarchon', {value})")
    assert isinstance(claim(backend, "job", now_ms()), Won)


@pytest.mark.parametrize("value", ["x'00ff'", "1.5", BAD_UTF8])
def test_a_checkpoint_that_is_no_text_is_none(backend, database, value):
    slot_ms = now_ms()
    claim(backend, "job", slot_ms)
    assert backend.save(lease("job", slot_ms), owner=OWNER, value="1")
    tamper(
        database,
        f"UPDATE anarchon_checkpoint SET value = {value}",
        "UPDATE anarchon_run SET end_ms = 1",
    )
    answer = claim(backend, "job", slot_ms, by="b", attempt=2, beat=0)
    assert isinstance(answer, Won)
    assert answer.checkpoint in (None, "1.5", "a\ufffdb")


def test_a_lease_of_ages_can_be_written_again(backend, database):
    """Numbers near the largest that SQLite has, plus one, are more than it has."""
    slot_ms = now_ms()
    claim(backend, "job", slot_ms)
    tamper(database, "UPDATE anarchon_run SET beat = 9223372036854775807")
    assert backend.renew([lease("job", slot_ms)], owner=OWNER, lease_ms=1).lost != ()
    assert isinstance(claim(backend, "job", slot_ms), Closed)


@pytest.mark.parametrize("value", ["'abc'", "x'00'", "1.5", "0", "-1"])
def test_a_format_that_can_not_be_read_says_what_to_do(database, value):
    SqliteBackend(database).pause("job", duration_ms=None)
    tamper(database, f"UPDATE anarchon_format SET version = {value}")
    backend = SqliteBackend(database)
    for ask in (lambda: backend.open(QUICK), lambda: backend.history(None, limit=1)):
        with pytest.raises(BackendError, match="delete that row, or use another file") as raised:
            ask()
        assert not isinstance(raised.value, BackendUnavailable)
        assert "anarchon_format" in str(raised.value)
    backend.close()
    tamper(database, "DELETE FROM anarchon_format")
    with opened(database) as healed:
        assert isinstance(claim(healed, "other", now_ms()), Won)


# --- rows and tables that are gone ------------------------------------------------

TABLES = [
    "anarchon_format", "anarchon_namespace", "anarchon_job", "anarchon_run", "anarchon_attempt",
    "anarchon_checkpoint",
]  # fmt: skip
DAMAGES = {
    "all rows": [f"DELETE FROM {table}" for table in TABLES],
    "all tables": [f"DROP TABLE {table}" for table in TABLES],
    "anarchon_open": ["DROP INDEX anarchon_open"],
    "anarchon_history": ["DROP INDEX anarchon_history"],
    **{table: [f"DROP TABLE {table}"] for table in TABLES},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_missing_is_made_again(database, damage):
    slot_ms = now_ms() - 1000
    with opened(database) as backend:
        claim(backend, "job", slot_ms)
        finish(backend, "job", slot_ms)
    tamper(database, *DAMAGES[damage])
    kept = damage not in {"all rows", "all tables", "anarchon_attempt", "anarchon_run"}
    assert len(SqliteBackend(database).history("job", limit=9)) == kept
    with opened(database) as backend:
        everything_works(backend, "job")
    rows = sqlite3.connect(database)
    assert rows.execute("SELECT version FROM anarchon_format").fetchall() == [(1,)]
    rows.close()


@pytest.mark.parametrize("damage", DAMAGES)
def test_also_under_an_open_store_after_one_failed_call_at_most(backend, database, damage):
    slot_ms = now_ms() - 1000
    claim(backend, "job", slot_ms)
    finish(backend, "job", slot_ms)
    tamper(database, *DAMAGES[damage])
    if damage in {"all tables", "anarchon_open", *TABLES} - {"anarchon_format"}:
        with pytest.raises(BackendUnavailable, match="no such"):
            everything_works(backend, "job")
    everything_works(backend, "job")
    with opened(database) as other:
        everything_works(other, "job-of-another")


def test_tables_of_the_same_names_that_are_somebody_else_s(database):
    tamper(database, "CREATE TABLE anarchon_run (theirs)", "CREATE TABLE anarchon_attempt (x)")
    backend = SqliteBackend(database)
    for ask in (
        lambda: backend.history(None, limit=1),
        lambda: backend.open(QUICK),
    ):
        with pytest.raises(BackendUnavailable, match="name another file, or drop its tables"):
            ask()
    backend.close()


# --- questions that no history can answer -----------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
@pytest.mark.parametrize(
    "fields",
    [
        {"slot": 10**30},
        {"slot": -(10**30)},
        {"slot": "1"},
        {"slot": True},
        {"job": "\ud800"},
        {"job": 3},
        {"run_id": "\ud800", "manual": True},
        {"run_id": None, "manual": True},
        {"attempt": 10**5000},
        {"attempt": None},
        {"attempt": 0},
    ],
    ids="-".join,
)
def test_a_page_before_what_is_no_run_is_refused(kind, fields, database):
    backend = SqliteBackend(database) if kind == "sqlite" else MemoryBackend()
    backend.open(QUICK)
    slot_ms = now_ms()
    claim(backend, "job", slot_ms)
    good = {"run_id": "x", "job": "job", "slot": slot_ms, "attempt": 1, "status": "success"}
    before = Run(scheduled_at=instant(slot_ms), **{**good, **fields})
    for job in ("job", None):
        with pytest.raises(ConfigurationError, match="give the last one of the page before"):
            backend.history(job, limit=9, before=before)
    backend.close()
