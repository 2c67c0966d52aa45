"""Granian: its workers are processes of multiprocessing, which call no hook of `atexit`."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from tests.embedding.servers_running import HEARTBEAT, SLACK, asking_slowly, long_job

pytestmark = pytest.mark.serial

HAND_OVER = 2 * HEARTBEAT + SLACK
TICK = {"name": "tick", "every": "1s", "seconds": 0, "options": {"catch_up": 0}}


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_the_end_hands_every_run_over(site, signum):
    options = site.options(long_job("one"), long_job("two"), workers=1, at_import="patient")
    server = site.granian("--workers", "2", options=options)
    begun = [server.expect("begin", job=job)["pid"] for job in ("one", "two")]
    backup = site.backup(options)
    assert sorted(begun) == sorted(server.started(2))
    sent = server.send(signum)
    server.end()
    server.wait_for(lambda: len(backup) == 2, "both runs go on in the backup")
    assert max(at for at, *_ in backup) - sent < HAND_OVER
    for job in ("one", "two"):
        site.wait_for_attempts(job, [(1, "interrupted"), (2, "success")])


def test_a_request_in_flight_is_finished_first(site):
    options = site.options(long_job(), at_import="patient")
    server = site.granian(options=options)
    server.expect("begin")
    backup = site.backup(options)
    with asking_slowly(server, 1.5) as answers:
        server.send(signal.SIGTERM)
        server.end()
    assert answers == ["waited"]
    aborted = server.events("aborted")[0]["at"]
    assert aborted - server.events("slow")[0]["at"] > 1.5
    server.wait_for(lambda: backup, "the run goes on in the backup")
    assert backup[0][0] - aborted < HAND_OVER


def test_a_reload_hands_over_to_the_new_worker(site):
    options = site.options(long_job(), at_import="patient")
    server = site.granian(options=options)
    old = server.expect("begin", attempt=1)["pid"]
    server.send(signal.SIGHUP)
    aborted = server.expect("aborted", attempt=1)["at"]
    fresh = server.expect("begin", attempt=2)
    assert fresh["pid"] != old
    assert fresh["at"] - aborted < HAND_OVER


def test_workers_run_each_slot_once(site):
    """The main process never imports the application, so nothing can start there."""
    server = site.granian("--workers", "2", options=site.options(TICK, at_import="patient"))
    workers = server.states(2)
    assert server.pid not in {event["pid"] for event in server.events("import")}
    server.expect("begin", count=server.count("begin") + 3)
    begun = Counter(event["slot"] for event in server.events("begin"))
    assert set(begun.values()) == {1}
    assert sorted(begun) == list(range(min(begun), max(begun) + 1, 1000))
    assert {event["pid"] for event in server.events("begin")} <= set(workers)


def test_a_store_that_is_down_at_boot_keeps_no_site_from_serving(site):
    site.store = site.folder / "mount" / "jobs.db"
    server = site.granian(options=site.options(TICK, at_import="patient"))
    server.states(1, state="starting")
    site.store.parent.mkdir()
    server.expect("begin")
    server.states(1)


def test_a_stubborn_handler_is_killed_in_time_and_followed_when_the_lease_is_over(site):
    options = site.options(long_job(seconds=30, stubborn=True), at_import="patient")
    server = site.granian("--workers-kill-timeout", "2", options=options)
    server.expect("begin")
    backup = site.backup(options)
    sent = server.send(signal.SIGTERM)
    assert server.end() - sent < 2 + 2 * SLACK
    server.wait_for(lambda: backup, "the run goes on in the backup")
    assert backup[0][0] - sent > HAND_OVER
    assert site.attempts("work")[0] == (1, "lost")
