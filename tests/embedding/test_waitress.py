"""Waitress: one process that handles no signal; what a program has to do for its scheduler."""

from __future__ import annotations

import signal

import pytest

from tests.embedding.servers_running import EARLY, HEARTBEAT, LEASE, SLACK, long_job

pytestmark = pytest.mark.serial

HAND_OVER = 2 * HEARTBEAT + SLACK
TICK = {"name": "tick", "every": "1s", "seconds": 0, "options": {"catch_up": 0}}


def test_the_process_that_serves_runs(site):
    server = site.waitress(options=site.options(TICK, at_import="patient"))
    assert list(server.states(1)) == [server.pid]
    server.expect("begin", pid=server.pid, count=2)


@pytest.mark.parametrize(
    ("how", "signum", "codes"),
    [("patient", signal.SIGINT, (0,)), ("install", signal.SIGTERM, (-signal.SIGTERM,))],
)
def test_a_hand_over(site, how, signum, codes):
    """After Ctrl-C by itself; at SIGTERM if the program has asked for it."""
    options = site.options(long_job(), at_import=how)
    server = site.waitress(options=options)
    server.expect("begin")
    backup = site.backup(options)
    sent = server.send(signum)
    server.end(*codes)
    server.wait_for(lambda: backup, "the run goes on in the backup")
    assert backup[0][0] - sent < HAND_OVER
    site.wait_for_attempts("work", [(1, "interrupted"), (2, "success")])


def test_sigterm_without_a_handler_ends_all_at_once(site):
    """Nothing of Python is called, and the lease has to run out."""
    options = site.options(long_job(), at_import="patient")
    server = site.waitress(options=options)
    server.expect("begin")
    backup = site.backup(options)
    sent = server.send(signal.SIGTERM)
    server.end(-signal.SIGTERM)
    server.wait_for(lambda: backup, "the run goes on in the backup")
    assert LEASE - HEARTBEAT - EARLY < backup[0][0] - sent < LEASE + 2 * HEARTBEAT + SLACK
    assert site.attempts("work")[0] == (1, "lost")


def test_a_store_that_is_down_at_boot_keeps_no_site_from_serving(site):
    site.store = site.folder / "mount" / "jobs.db"
    server = site.waitress(options=site.options(TICK, at_import="patient"))
    server.states(1, state="starting")
    site.store.parent.mkdir()
    server.expect("begin")
    server.states(1)
