"""The statements of the SQLite store: what they cost, and that SQLite 3.31 knows them."""

from __future__ import annotations

import os
import re
import sqlite3
import statistics
import time

import pytest

from anarchon._values import Closed, Owner, Pace, RunKey, Won
from anarchon.backends import _sqlite_rows as rows_module
from anarchon.backends._rules import AttemptRow, Ending, JobState, RunState
from anarchon.backends._sqlite_rows import SqliteRows
from tests.stores.helpers import claim, finish, lease, now_ms, opened, wish

NEWER_THAN_3_31 = {
    "RETURNING": "3.35",
    "STRICT": "3.37",
    "IIF": "3.32",
    "MATERIALIZED": "3.35",
    "DROP COLUMN": "3.35",
    "UPDATE FROM": "3.33",
    "RIGHT JOIN": "3.39",
    "FULL JOIN": "3.39",
    "IS DISTINCT": "3.39",
    "UNIXEPOCH": "3.38",
    "JSON": "3.38 (built in)",
    "CEIL": "3.35",
    "FLOOR": "3.35",
    "STRING_AGG": "3.44",
    "OCTET_LENGTH": "3.43",
    "CONCAT": "3.44",
}


@pytest.fixture
def database(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def statements(database):
    """Run every method of the rows once, and return what SQLite was asked."""
    with opened(database) as backend:
        backend.look([], owner=Owner("a", "a"))
        connection = backend._idle[-1]._connection
        seen = []
        connection.set_trace_callback(seen.append)
        use_everything(SqliteRows(connection, "space"))
        connection.set_trace_callback(None)
    return [one for one in seen if "anarchon_" in one]


def use_everything(rows):
    run = RunState(RunKey("job", 1), "running", 1)
    line = AttemptRow(run.key, 1, "running", None, "scheduled", "me")
    rows.put(run)
    rows.extend(run)
    rows.put_job("job", JobState())
    rows.put_paused(1)
    rows.open_attempt(line)
    rows.end_attempt(run.key, 1, Ending("failed", None, 1))
    rows.put_checkpoint(run.key, "x")
    assert rows.run(run.key) == run
    assert rows.open_runs("job") == [run]
    assert not rows.has_newer("job", 1, 9)
    assert rows.job("job") == JobState()
    assert rows.paused_until() == 1
    assert rows.attempt(run.key, 1).status == "failed"
    assert rows.checkpoint(run.key) == "x"
    assert list(rows.oldest("job", skips=False)) == []
    assert rows.count_attempts(run.key) == 1
    for job in ("job", None):
        for before in ((2, "job", "", 1), None):
            for wanted in ((), ("failed",), ("lost", "running")):
                found = list(rows.lines(job, before, wanted))
                assert len(found) == (wanted != ("lost", "running"))
    rows.put_checkpoint(run.key, None)
    rows.remove(run.key)
    assert rows.run(run.key) is None


def test_every_statement_is_answered_by_an_index(statements, database):
    """So a claim costs the same whatever lies in history: no scan, no sorting."""
    plans = sqlite3.connect(database)
    assert len(statements) > 25
    for statement in statements:
        plan = [row[3] for row in plans.execute(f"EXPLAIN QUERY PLAN {statement}")]
        assert not [step for step in plan if "SCAN" in step or "TEMP B-TREE" in step], statement
    plans.close()


def test_open_runs_are_found_without_walking_through_history(statements, database):
    plans = sqlite3.connect(database)
    (statement,) = {one for one in statements if "INDEXED BY" in one}
    plan = [row[3] for row in plans.execute(f"EXPLAIN QUERY PLAN {statement}")]
    plans.close()
    assert any("anarchon_open" in step for step in plan)


def test_no_statement_is_newer_than_sqlite_3_31(statements):
    texts = [*statements, *rows_module.TABLES]
    for text in texts:
        words = re.sub(r"'[^']*'", "", text).upper()
        for word in NEWER_THAN_3_31:
            assert not re.search(rf"\b{word}\b", words), f"{word}: {text}"
        assert "->" not in words


def test_a_run_that_is_closed_or_trimmed_leaves_no_checkpoint_behind(database):
    slot_ms = now_ms()
    with opened(database) as backend:
        for n in range(3):
            claim(backend, "job", slot_ms + n)
            assert backend.save(
                lease("job", slot_ms + n), owner=Owner("a", "a"), value="x" * 60_000
            )
            finish(backend, "job", slot_ms + n)
        rows = sqlite3.connect(database)
        assert rows.execute("SELECT count(*) FROM anarchon_checkpoint").fetchone() == (0,)
        rows.close()


def test_no_name_is_part_of_a_statement(database):
    """Whatever is in it."""
    slot_ms = now_ms()
    names = ["'; DROP TABLE anarchon_run; --", '"', "%", "?", ":job", "x" * 200, "日本", "\u200f"]
    with opened(database, namespace="it's") as backend:
        for name in names:
            assert isinstance(claim(backend, name, slot_ms, by=name), Won)
            finish(backend, name, slot_ms, by=name, error=name)
            assert [run.error for run in backend.history(name, limit=9)] == [name]
        assert len(backend.history(None, limit=99)) == len(names)


def test_a_record_that_something_else_wrote_costs_no_other_run(database):
    """A claim never raises because of one strange run."""
    slot_ms = now_ms()
    with opened(database) as backend:
        for job in ("state", "number", "open", "good"):
            claim(backend, job, slot_ms)
        other = sqlite3.connect(database)
        other.execute("UPDATE anarchon_run SET state = 'gone' WHERE job = 'state'")
        other.execute("UPDATE anarchon_run SET end_ms = 'soon' WHERE job = 'number'")
        other.execute("UPDATE anarchon_run SET beat = 1.5 WHERE job = 'open'")
        other.commit()
        other.close()
        wishes = [wish(job, slot_ms) for job in ("state", "number", "good")]
        wishes.append(wish("open", slot_ms + 1))
        claims = backend.claim(wishes, owner=Owner("a", "a"), wins=9, pace=Pace(0.0))
        kinds = [type(answer) for answer in claims.answers]
        assert kinds == [Closed, Closed, Won, Won]
        assert claims.answers[0].detail == "unreadable record"
        assert backend.look(["state", "number", "open"], owner=Owner("b", "b")).others == 1


# --- scale ------------------------------------------------------------------------


def fill(database, records):
    """Put that many finished runs into history: of one job half, the rest of a thousand."""
    rows = sqlite3.connect(database, isolation_level=None)
    rows.execute("BEGIN")
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :records) "
    job = "CASE WHEN i % 2 THEN 'job' ELSE 'job-' || (i % 1000) END"
    slot = "1700000000000 + i"
    rows.execute(
        f"INSERT INTO anarchon_run {numbers} SELECT 'anarchon', {job}, {slot}, '', 'closed', 1, "
        "'x', 0, 0, '', 30000, 10000, 0, 1, 0, 3, 0, 0, 'success', NULL, 'x', 0 FROM n",
        {"records": records},
    )
    rows.execute(
        f"INSERT INTO anarchon_attempt {numbers} SELECT 'anarchon', {job}, {slot}, '', 1, "
        "'success', NULL, 'scheduled', 'x', 1, 2, 1, NULL, NULL FROM n",
        {"records": records},
    )
    rows.execute("COMMIT")
    rows.close()


# A million takes half a minute to write; they cost the same.
RECORDS = int(os.environ.get("ANARCHON_TEST_RECORDS", "100000"))


def cost(backend, slots):
    """Return the median milliseconds of winning, losing and looking."""
    won, lost, looked = [], [], []
    for slot_ms in slots:
        begun = time.perf_counter()
        assert isinstance(claim(backend, "job", slot_ms), Won)
        won.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        claim(backend, "job", slot_ms, by="b")
        lost.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        backend.look(["job"], owner=Owner("b", "b"))
        looked.append(time.perf_counter() - begun)
        finish(backend, "job", slot_ms)
    return [1000 * statistics.median(some) for some in (won, lost, looked)]


@pytest.mark.serial
def test_a_claim_costs_the_same_beside_many_records(database):
    slot_ms = now_ms() - 60_000
    with opened(database, synchronous="NORMAL") as backend:
        few = cost(backend, range(slot_ms, slot_ms + 50))
        fill(database, RECORDS)
        many = cost(backend, range(slot_ms + 100, slot_ms + 150))
        begun = time.perf_counter()
        assert len(backend.history("job", limit=20)) == 20
        assert len(backend.history(None, limit=20)) == 20
        read = time.perf_counter() - begun
    for before, after in zip(few, many, strict=True):
        assert after < 3 * before + 1, (few, many)
    assert read < 0.2
