"""Schedulers with a past: records written where SQLite keeps them."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime

import pytest

from anarchon import Scheduler, SqliteBackend
from anarchon.testing import ManualClock
from anarchon.web import dashboard
from tests.web.client import SECRET, Browser

NOON = datetime(2026, 10, 10, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
LINE = "INSERT INTO anarchon_attempt VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Store(SqliteBackend):
    """Counts how often it is asked, and what it hands out."""

    asked = 0
    handed_out = 0

    def _read_once(self, operation, seconds):
        self.asked += 1
        return super()._read_once(operation, seconds)

    def history(self, job, **how):
        found = super().history(job, **how)
        self.handed_out += len(found)
        return found


class Past:
    """A store in a file, and what is written into its history."""

    def __init__(self, path) -> None:
        self.store = Store(path)
        self.store.resume(None)  # makes the tables
        self.path = path
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA synchronous = OFF")

    def write(
        self, job, slot_ms, status="success", *, attempt=1, token="", late=20, took=100, **more
    ):
        """Write a line of history; one that never started has `late` None."""
        started = None if late is None else slot_ms + late
        ended = started is not None and status not in ("running", "lost")
        texts = [more.get(name) for name in ("error", "traceback")]
        line = ["anarchon", job, slot_ms, token, attempt, status, more.get("detail")]
        line += [more.get("reason", "scheduled"), more.get("instance", "web-1:7"), started]
        line += [started + took if ended else None, took if ended else None, *texts]
        self._connection.execute(LINE, line)

    def orders(self) -> int:
        """Return how many runs the fleet is asked for that nobody has begun."""
        asked = "SELECT count(*) FROM anarchon_run WHERE attempt = 0 AND manual <> ''"
        [(count,)] = self._connection.execute(asked)
        return count

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def past(tmp_path):
    past = Past(tmp_path / "jobs.db")
    yield past
    past.close()


@pytest.fixture
def clock():
    return ManualClock(NOON)


@pytest.fixture
def scheduler(past, clock):
    """A scheduler that runs no slot by accident; at noon, nothing has started it."""
    scheduler = Scheduler(past.store, catch_up=0, jitter=0, lease=30)
    clock.attach(scheduler)
    yield scheduler
    scheduler.stop(2)


@pytest.fixture
def browse(scheduler):
    """Return somebody who looks at a dashboard of the scheduler, and may `may`."""

    def browse(may="read", **how):
        options = {"authorize": lambda environ: may, "secret": SECRET}
        return Browser(dashboard(scheduler, **options), **how)

    return browse
