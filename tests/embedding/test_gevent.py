"""Under gevent all threads are greenlets of one thread: what that means for leases.

A request that only computes lets nothing else run. docs/gunicorn.md tells how long one may
compute: less than the lease without a heartbeat.
"""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import time

import pytest

from tests.embedding.servers_running import HEARTBEAT, SLACK, long_job

pytestmark = pytest.mark.serial


def late_seconds(server) -> float:
    server.expect_log("heartbeat late by ")
    return float(re.search(r"heartbeat late by ([\d.]+) s", server.log())[1])


def test_three_seconds_of_computing_lose_no_lease_of_ten(site):
    options = site.options(long_job(), lease="10s", heartbeat="1s")
    server = site.gunicorn("-k", "gevent", options=options)
    server.expect("begin")
    backup = site.backup(options)
    assert server.ask("/burn?seconds=3") == "computed"
    assert 1 < late_seconds(server) < 3 + SLACK
    assert json.loads(server.ask("/state"))["state"] == "running"
    assert server.events("aborted") == []
    sent = server.send(signal.SIGTERM)
    server.end()
    server.wait_for(lambda: backup, "the run goes on in the backup")
    assert backup[0][0] - sent < 1 + 2 * HEARTBEAT + SLACK
    site.wait_for_attempts("work", [(1, "interrupted"), (2, "success")])


def test_computing_for_longer_than_the_lease_loses_the_run(site):
    """And only that: the attempt aborts, records nothing, and a backup has run it."""
    options = site.options(long_job())
    server = site.gunicorn("-k", "gevent", options=options)
    server.expect("begin")
    backup = site.backup(options)
    server.ask("/burn?seconds=4")
    server.wait_for(lambda: backup, "the run goes on in the backup")
    server.expect("aborted", reason="lost")
    assert backup[0][0] > server.events("burn")[0]["at"]
    site.wait_for_attempts("work", [(1, "lost"), (2, "success")])
    assert len(backup) == 1


def test_waiting_for_a_locked_sqlite_file_lets_requests_through(site):
    """The wait between two tries is one of Python's, not one inside of SQLite."""
    tick = {"name": "tick", "every": "1s", "seconds": 0, "options": {"catch_up": 0}}
    server = site.gunicorn("-k", "gevent", options=site.options(tick))
    server.expect("begin")
    other = sqlite3.connect(site.store, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    longest = 0.0
    for _ in range(30):
        asked = time.monotonic()
        server.ask("/state")
        longest = max(longest, time.monotonic() - asked)
        time.sleep(0.05)  # so that claims fall due meanwhile
    other.execute("ROLLBACK")
    other.close()
    assert longest < SLACK
    server.expect("begin", count=server.count("begin") + 1)
