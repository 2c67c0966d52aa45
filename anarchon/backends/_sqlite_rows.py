"""The rows of a store in SQL, with nothing that SQLite 3.31 doesn't have.

Each method is one statement, answered by one index: the cost of a claim doesn't grow with
the history. Names, slots and texts are parameters, never part of a statement. What each
method does is said in `_rows.Rows`.
"""
# ruff: noqa: S608  (statements are put together from the constants of this module alone)

from __future__ import annotations

from typing import TYPE_CHECKING

from ._rules import JobState, RunState, is_order
from ._sqlite_stored import checkpoint_of, job_of, line_of, pause_of, present_of, run_of
from ._storable import position_in

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Container, Iterator

    from .._values import Presence, Present, RunKey
    from ._rows import Position
    from ._rules import AttemptRow, Ending

TABLES = (
    "CREATE TABLE IF NOT EXISTS anarchon_format (version INTEGER NOT NULL)",
    """
    CREATE TABLE IF NOT EXISTS anarchon_namespace (
        namespace TEXT PRIMARY KEY,
        paused_until_ms INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS anarchon_job (
        namespace TEXT NOT NULL,
        job TEXT NOT NULL,
        fence INTEGER NOT NULL,
        floor_ms INTEGER NOT NULL,
        paused_until_ms INTEGER NOT NULL,
        records INTEGER NOT NULL,
        skips INTEGER NOT NULL,
        PRIMARY KEY (namespace, job)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS anarchon_run (
        namespace TEXT NOT NULL,
        job TEXT NOT NULL,
        slot_ms INTEGER NOT NULL,
        manual TEXT NOT NULL,
        state TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        owner TEXT NOT NULL,
        end_ms INTEGER NOT NULL,
        wall_end_ms INTEGER NOT NULL,
        boot TEXT NOT NULL,
        lease_ms INTEGER NOT NULL,
        heartbeat_ms INTEGER NOT NULL,
        beat INTEGER NOT NULL,
        fence INTEGER NOT NULL,
        deaths INTEGER NOT NULL,
        budget INTEGER NOT NULL,
        catch_up_ms INTEGER NOT NULL,
        cancel INTEGER NOT NULL,
        status TEXT,
        detail TEXT,
        decided_by TEXT NOT NULL,
        since_ms INTEGER NOT NULL,
        PRIMARY KEY (namespace, job, slot_ms, manual)
    ) WITHOUT ROWID
    """,
    # No lease column is in an index, so that a renewal changes one row and no index.
    """
    CREATE INDEX IF NOT EXISTS anarchon_open ON anarchon_run (namespace, job, slot_ms)
    WHERE state <> 'closed' AND manual = ''
    """,
    """
    CREATE INDEX IF NOT EXISTS anarchon_orders ON anarchon_run (namespace, job, slot_ms, manual)
    WHERE state <> 'closed' AND manual <> ''
    """,
    """
    CREATE TABLE IF NOT EXISTS anarchon_checkpoint (
        namespace TEXT NOT NULL,
        job TEXT NOT NULL,
        slot_ms INTEGER NOT NULL,
        manual TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (namespace, job, slot_ms, manual)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS anarchon_attempt (
        namespace TEXT NOT NULL,
        job TEXT NOT NULL,
        slot_ms INTEGER NOT NULL,
        manual TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        status TEXT NOT NULL,
        detail TEXT,
        reason TEXT NOT NULL,
        instance TEXT,
        started_ms INTEGER,
        finished_ms INTEGER,
        duration_ms INTEGER,
        error TEXT,
        traceback TEXT,
        PRIMARY KEY (namespace, job, slot_ms, manual, attempt)
    )
    """,
    """
    CREATE INDEX IF NOT EXISTS anarchon_history
    ON anarchon_attempt (namespace, slot_ms, job, manual, attempt)
    """,
    """
    CREATE TABLE IF NOT EXISTS anarchon_alert (
        namespace TEXT NOT NULL,
        job TEXT NOT NULL,
        slot_ms INTEGER NOT NULL,
        token TEXT NOT NULL,
        PRIMARY KEY (namespace, job)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS anarchon_instance (
        namespace TEXT NOT NULL,
        token TEXT NOT NULL,
        seen_ms INTEGER NOT NULL,
        expected_ms INTEGER NOT NULL,
        state TEXT NOT NULL,
        about TEXT NOT NULL,
        PRIMARY KEY (namespace, token)
    ) WITHOUT ROWID
    """,
)
NAMES = frozenset(statement.split()[5] for statement in TABLES)  # what they create
NEEDED_TO_READ = frozenset(("anarchon_attempt", "anarchon_run"))

_RUN = """
    SELECT job, slot_ms, manual, state, attempt, owner, end_ms, wall_end_ms, boot, lease_ms,
        heartbeat_ms, beat, fence, deaths, budget, catch_up_ms, cancel, status, detail,
        decided_by, since_ms
    FROM anarchon_run
"""
_ROW = """
    SELECT job, slot_ms, manual, attempt, status, detail, reason, instance, started_ms,
        finished_ms, duration_ms, error, traceback
    FROM anarchon_attempt
"""
_KEY = "WHERE namespace = ? AND job = ? AND slot_ms = ? AND manual = ?"

_GET_RUN = f"{_RUN} {_KEY}"
_OPEN_RUNS = f"""{_RUN} INDEXED BY anarchon_open
    WHERE namespace = ? AND job = ? AND manual = '' AND state <> 'closed' ORDER BY slot_ms"""
_ORDERED_JOBS = """
    SELECT DISTINCT job FROM anarchon_run INDEXED BY anarchon_orders
    WHERE namespace = ? AND state <> 'closed' AND manual <> ''
"""
_ORDERS = f"""{_RUN} INDEXED BY anarchon_orders
    WHERE namespace = ? AND job = ? AND state <> 'closed' AND manual <> ''
    ORDER BY slot_ms, manual"""
_OLDEST = f"""{_RUN} WHERE namespace = ? AND job = ? AND (state = 'closed' OR manual <> '')
    AND (status IS 'skipped') = ? ORDER BY slot_ms, manual"""
_HAS_NEWER = """
    SELECT 1 FROM anarchon_run
    WHERE namespace = ? AND job = ? AND slot_ms > ? AND slot_ms <= ? AND manual = '' LIMIT 1
"""
_PUT_RUN = """
    INSERT INTO anarchon_run VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
    ON CONFLICT (namespace, job, slot_ms, manual) DO UPDATE SET
        state = excluded.state, attempt = excluded.attempt, owner = excluded.owner,
        end_ms = excluded.end_ms, wall_end_ms = excluded.wall_end_ms, boot = excluded.boot,
        lease_ms = excluded.lease_ms, heartbeat_ms = excluded.heartbeat_ms,
        beat = excluded.beat, fence = excluded.fence, deaths = excluded.deaths,
        budget = excluded.budget, catch_up_ms = excluded.catch_up_ms,
        cancel = excluded.cancel, status = excluded.status, detail = excluded.detail,
        decided_by = excluded.decided_by, since_ms = excluded.since_ms
"""
_EXTEND = f"""
    UPDATE anarchon_run
    SET end_ms = ?, wall_end_ms = ?, boot = ?, lease_ms = ?, beat = ? {_KEY}
"""
_GET_JOB = """
    SELECT fence, floor_ms, paused_until_ms, records, skips
    FROM anarchon_job WHERE namespace = ? AND job = ?
"""
_PUT_JOB = """
    INSERT INTO anarchon_job VALUES (?,?,?,?,?,?,?)
    ON CONFLICT (namespace, job) DO UPDATE SET
        fence = excluded.fence, floor_ms = excluded.floor_ms,
        paused_until_ms = excluded.paused_until_ms, records = excluded.records,
        skips = excluded.skips
"""
_PUT_PRESENT = """
    INSERT INTO anarchon_instance VALUES (?,?,?,?,?,coalesce(?,''))
    ON CONFLICT (namespace, token) DO UPDATE SET
        seen_ms = excluded.seen_ms, expected_ms = excluded.expected_ms, state = excluded.state,
        about = coalesce(?, about)
"""
_END_ATTEMPT = f"""
    UPDATE anarchon_attempt SET status = ?, detail = ?,
        finished_ms = coalesce(?, finished_ms), error = coalesce(?, error),
        traceback = coalesce(?, traceback), started_ms = coalesce(?, started_ms),
        duration_ms = coalesce(?, duration_ms) {_KEY} AND attempt = ?
"""
_PUT_ATTEMPT = "INSERT OR REPLACE INTO anarchon_attempt VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_PUT_CHECKPOINT = "INSERT OR REPLACE INTO anarchon_checkpoint VALUES (?,?,?,?,?)"


class WouldWrite(Exception):
    """Raised in a read transaction when the operation turns out to have something to write."""


class _Runs:
    """The rows of runs, jobs and pauses; `SqliteRows` has the rest."""

    def __init__(self, connection: sqlite3.Connection, namespace: str) -> None:
        self._execute = connection.execute
        self._namespace = namespace

    def _write(self, statement: str, *values: object) -> None:
        self._execute(statement, values)

    def run(self, key: RunKey) -> RunState | None:
        """Return what is kept of a run; what can't be read is decided, by nobody."""
        row = self._execute(_GET_RUN, (self._namespace, *key)).fetchone()
        if row is None:
            return None
        return run_of(row) or RunState(key, "closed", 1, status="lost", detail="unreadable record")

    def open_runs(self, job: str) -> list[RunState]:
        """Return the open runs of a job's slots, oldest slot first."""
        rows = self._execute(_OPEN_RUNS, (self._namespace, job)).fetchall()
        return [run for run in map(run_of, rows) if run is not None]

    def orders(self, jobs: Container[str]) -> dict[str, list[RunState]]:
        """Return the ordered runs of jobs that wait, and backfills that run, oldest first."""
        found: dict[str, list[RunState]] = {}
        for (job,) in self._execute(_ORDERED_JOBS, (self._namespace,)).fetchall():
            if job in jobs:
                rows = map(run_of, self._execute(_ORDERS, (self._namespace, job)).fetchall())
                found[job] = [run for run in rows if run is not None and is_order(run)]
        return found

    def has_newer(self, job: str, slot_ms: int, until_ms: int) -> bool:
        """Whether a later slot, not after `until_ms`, is recorded."""
        values = (self._namespace, job, slot_ms, until_ms)
        return self._execute(_HAS_NEWER, values).fetchone() is not None

    def put(self, run: RunState) -> None:
        """Insert or replace a run."""
        self._write(_PUT_RUN, self._namespace, *run.key, *run[1:])

    def extend(self, run: RunState) -> None:
        """Replace the lease of a run."""
        lease = (run.end_ms, run.wall_end_ms, run.boot, run.lease_ms, run.beat)
        self._write(_EXTEND, *lease, self._namespace, *run.key)

    def job(self, name: str) -> JobState:
        """Return what is kept of a job."""
        row = self._execute(_GET_JOB, (self._namespace, name)).fetchone()
        return JobState() if row is None else job_of(row)

    def put_job(self, name: str, job: JobState) -> None:
        """Insert or replace a job."""
        self._write(_PUT_JOB, self._namespace, name, *job)

    def put_present(self, token: str, seen_ms: int, presence: Presence) -> None:
        """Keep what an instance says of itself."""
        expected_ms, state, about = presence
        row = (self._namespace, token, seen_ms, expected_ms, state, about)
        self._write(_PUT_PRESENT, *row, about)

    def drop_present(self, token: str, expected_before_ms: int) -> None:
        """Forget an instance, and those that were expected before an instant."""
        self._write(
            "DELETE FROM anarchon_instance WHERE namespace = ? AND (token = ? OR expected_ms < ?)",
            self._namespace,
            token,
            expected_before_ms,
        )

    def presents(self) -> list[Present]:
        """Return the instances that are kept; what can't be read is none."""
        rows = self._execute(
            "SELECT token, seen_ms, expected_ms, state, about FROM anarchon_instance "
            "WHERE namespace = ?",
            (self._namespace,),
        )
        return [kept for row in rows if (kept := present_of(row)) is not None]

    def told_of(self, job: str) -> tuple[int, str] | None:
        """Return the newest slot of a job that was told of as unfinished, and by whom."""
        row = self._execute(
            "SELECT slot_ms, token FROM anarchon_alert WHERE namespace = ? AND job = ?",
            (self._namespace, job),
        ).fetchone()
        return row if row and [*map(type, row)] == [int, str] else None

    def put_told(self, job: str, slot_ms: int, token: str) -> None:
        """Replace that slot."""
        self._write(
            "INSERT OR REPLACE INTO anarchon_alert VALUES (?,?,?,?)",
            self._namespace,
            job,
            slot_ms,
            token,
        )

    def paused_until(self) -> int:
        """Return until when every job is paused."""
        row = self._execute(
            "SELECT paused_until_ms FROM anarchon_namespace WHERE namespace = ?",
            (self._namespace,),
        ).fetchone()
        return pause_of(row[0]) if row else 0

    def put_paused(self, until_ms: int) -> None:
        """Pause every job until then."""
        self._write(
            "INSERT OR REPLACE INTO anarchon_namespace VALUES (?,?)", self._namespace, until_ms
        )


class SqliteRows(_Runs):
    """The rows of one namespace, on one connection that is inside a transaction."""

    def attempt(self, key: RunKey, attempt: int) -> AttemptRow | None:
        """Return a line of history."""
        values = (self._namespace, *key, attempt)
        row = self._execute(f"{_ROW} {_KEY} AND attempt = ?", values).fetchone()
        return None if row is None else line_of(row)

    def open_attempt(self, row: AttemptRow) -> None:
        """Add a line of history."""
        self._write(_PUT_ATTEMPT, self._namespace, *row.key, *row[1:])

    def end_attempt(self, key: RunKey, attempt: int, ending: Ending) -> None:
        """Change a line of history, if it is there."""
        self._write(_END_ATTEMPT, *ending, self._namespace, *key, attempt)

    def checkpoint(self, key: RunKey) -> str | None:
        """Return the checkpoint of a run."""
        row = self._execute(
            f"SELECT value FROM anarchon_checkpoint {_KEY}", (self._namespace, *key)
        ).fetchone()
        return None if row is None else checkpoint_of(row[0])

    def put_checkpoint(self, key: RunKey, value: str | None) -> None:
        """Replace the checkpoint of a run, or remove it."""
        if value is None:
            self._write(f"DELETE FROM anarchon_checkpoint {_KEY}", self._namespace, *key)
        else:
            self._write(_PUT_CHECKPOINT, self._namespace, *key, value)

    def oldest(self, job: str, *, skips: bool) -> Iterator[RunState]:
        """Return closed or manual runs, oldest first: the skipped ones, or all others."""
        rows = self._execute(_OLDEST, (self._namespace, job, skips))
        return (run for run in map(run_of, rows) if run is not None)

    def count_attempts(self, key: RunKey) -> int:
        """Return how many lines of history a run has."""
        row = self._execute(
            f"SELECT count(*) FROM anarchon_attempt {_KEY}", (self._namespace, *key)
        ).fetchone()
        return int(row[0])

    def remove(self, key: RunKey) -> None:
        """Remove a run with all that belongs to it."""
        for table in ("anarchon_run", "anarchon_attempt", "anarchon_checkpoint"):
            self._write(f"DELETE FROM {table} {_KEY}", self._namespace, *key)

    def lines(
        self, job: str | None, before: Position | None, wanted: tuple[str, ...]
    ) -> Iterator[AttemptRow]:
        """Return lines of history, newest first, read as they are asked for."""
        order: tuple[str, ...] = ("slot_ms", "job", "manual", "attempt")
        where = ["namespace = ?"]
        values: list[object] = [self._namespace, *wanted]
        if wanted:
            where.append(f"status IN ({','.join('?' * len(wanted))})")
        if job is not None:
            order = ("slot_ms", "manual", "attempt")
            where.append("job = ?")
            values.append(job)
        if before is not None:
            before = before if job is None else position_in(job, before)
            place = dict(zip(("slot_ms", "job", "manual", "attempt"), before, strict=True))
            where.append(f"({','.join(order)}) < ({','.join('?' * len(order))})")
            values += [place[name] for name in order]
        newest = ", ".join(f"{name} DESC" for name in order)
        statement = f"{_ROW} WHERE {' AND '.join(where)} ORDER BY {newest}"
        return filter(None, map(line_of, self._execute(statement, values)))


class ReadOnlyRows(SqliteRows):
    """The same rows in a read transaction; the first write raises `WouldWrite` instead."""

    def _write(self, statement: str, *values: object) -> None:
        raise WouldWrite(statement, len(values))
