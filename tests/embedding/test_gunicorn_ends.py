"""Gunicorn ends, reloads or loses its workers: runs are handed over, or taken over in time."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.embedding.servers_running import EARLY, HEARTBEAT, LEASE, SLACK, asking_slowly, long_job

pytestmark = pytest.mark.serial

HAND_OVER = 2 * HEARTBEAT + SLACK
assert LEASE - HEARTBEAT > HAND_OVER  # even the shortest rest of a lease is longer


@pytest.mark.parametrize("preload", [(), ("--preload",)], ids=["", "preload"])
@pytest.mark.parametrize("kind", ["sync", "gthread", "gevent"])
def test_term_to_the_master_hands_every_run_over(site, kind, preload):
    """Each worker has started once, in itself, and the master never."""
    options = site.options(long_job("one"), long_job("two"), workers=1)
    server = site.gunicorn("-k", kind, "-w", "2", *preload, options=options)
    begun = [server.expect("begin", job=job)["pid"] for job in ("one", "two")]
    backup = site.backup(options)
    assert server.pid not in begun
    assert sorted(begun) == sorted(server.started(2))
    assert len(set(begun)) == 2
    sent = server.send(signal.SIGTERM)
    server.end()
    server.wait_for(lambda: len(backup) == 2, "both runs go on in the backup")
    assert all(reason == "takeover" and attempt == 2 for _, _, attempt, reason, _ in backup)
    assert max(at for at, *_ in backup) - sent < HAND_OVER
    assert {event["reason"] for event in server.events("aborted")} == {"stop"}
    for job in ("one", "two"):
        site.wait_for_attempts(job, [(1, "interrupted"), (2, "success")])


@pytest.mark.parametrize("kind", ["sync", "gthread", "gevent"])
def test_a_request_in_flight_does_not_delay_the_hand_over(site, kind):
    """It would eat the time: gunicorn waits for it until the graceful timeout is over."""
    options = site.options(long_job())
    server = site.gunicorn("-k", kind, "--graceful-timeout", "3", options=options)
    server.expect("begin")
    backup = site.backup(options)
    with asking_slowly(server, 20) as answers:
        sent = server.send(signal.SIGTERM)
        server.wait_for(lambda: backup, "the run goes on in the backup")
        assert backup[0][0] - sent < 1 + SLACK
        assert server.process.poll() is None
        assert answers == []
        ended = server.end()
    assert ended - sent > 2  # it was waited for, and then killed
    site.wait_for_attempts("work", [(1, "interrupted"), (2, "success")])


EDITION = """\
from servers_app import app, say, scheduler
say("edition", number={number})
"""


@pytest.mark.parametrize("way", ["hup", "max-requests", "reload"])
def test_a_worker_that_is_replaced_hands_over_at_once(site, way):
    """To the new one, or to another; and the new one has the code as it is now."""
    words = {
        "hup": (),
        "max-requests": ("--max-requests", "4"),
        "reload": ("--reload", "--reload-engine", "poll"),
    }[way]
    options = site.options(long_job())
    edition = site.folder / "edition.py"
    edition.write_text(EDITION.format(number=1))
    server = site.gunicorn("-k", "gthread", *words, options=options, module="edition")
    old = server.expect("begin", attempt=1)["pid"]
    edition.write_text(EDITION.format(number=22))
    told = time.monotonic()
    if way == "hup":
        told = server.send(signal.SIGHUP)
    elif way == "max-requests":
        for _ in range(4 - 1):
            told = time.monotonic()
            server.ask("/state")
    fresh = server.expect("begin", attempt=2)
    assert fresh["pid"] != old
    aborted = server.expect("aborted", attempt=1)["at"]
    assert aborted - told < 1 + SLACK + (1 if way == "reload" else 0)  # which looks each second
    assert fresh["at"] - aborted < HAND_OVER
    assert [event["number"] for event in server.events("edition")] == [
        1,
        22,
    ]  # other sizes, so that no cached bytecode is taken
    assert server.started(2) == [old, fresh["pid"]]
    server.send(signal.SIGTERM)
    server.end()
    site.wait_for_attempts("work", [(1, "interrupted"), (2, "interrupted")])


@pytest.mark.parametrize("way", ["hup", "max-requests"])
def test_a_stubborn_handler_holds_no_worker_up(site, way):
    """The worker is gone in time, and its slot is run again only when the lease is over."""
    job = long_job(seconds=30, stubborn=True, options={"max_attempts": 5})
    options = site.options(job, exit_timeout=1)
    words = ("--max-requests", "3") if way == "max-requests" else ()
    server = site.gunicorn("-k", "gthread", "--timeout", "3", *words, options=options)
    old = server.expect("begin", attempt=1)["pid"]
    if way == "hup":
        server.send(signal.SIGHUP)
    else:
        for _ in range(3):
            server.ask("/state")
    aborted = server.expect("aborted", attempt=1)["at"]
    gone = server.wait_for(lambda: is_gone(old), "the old worker is gone", 10)
    begun = server.expect("begin", attempt=2)
    assert gone - aborted < 4.5
    assert begun["at"] - aborted > 1  # nobody began while the handler had its time
    assert begun["pid"] != old
    assert server.events("begin", attempt=1)[0]["slot"] == begun["slot"]
    assert site.attempts("work")[0] == (1, "lost")


def is_gone(pid: int) -> float:
    """Return when a process was seen to be gone, or 0."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return time.monotonic()
    return 0.0


def test_abort_in_the_middle_of_a_stop_loses_no_hand_over(site):
    """A worker that hangs gets SIGABRT; what obeys is handed over all the same."""
    options = site.options(
        long_job("obeys"), long_job("ignores", seconds=30, stubborn=True), exit_timeout=20
    )
    server = site.gunicorn("-k", "gthread", "--timeout", "2", options=options)
    worker = server.expect("begin", job="obeys")["pid"]
    server.expect("begin", job="ignores")
    backup = site.backup(options)
    server.send(signal.SIGTERM, worker)
    server.expect("aborted", job="ignores")
    server.expect_log("WORKER TIMEOUT")
    server.wait_for(lambda: is_gone(worker), "the worker is gone", 10)
    server.wait_for(lambda: len(backup) + len(server.events("begin", attempt=2)) >= 1, "hand-over")
    assert (1, "interrupted") in site.attempts("obeys")


def test_a_sync_worker_that_is_stuck_in_a_request_hands_over(site):
    """It gets SIGABRT after `--timeout`, which the scheduler hears of as well."""
    options = site.options(long_job())
    server = site.gunicorn("-k", "sync", "--timeout", "2", options=options)
    worker = server.expect("begin", attempt=1)["pid"]
    with asking_slowly(server, 30):
        aborted = server.expect("aborted", attempt=1)["at"]
        fresh = server.expect("begin", attempt=2)
    assert "WORKER TIMEOUT" in server.log()
    assert fresh["pid"] != worker
    assert fresh["at"] - aborted < HAND_OVER + 1  # when the next worker has booted
    site.wait_for_attempts("work", [(1, "interrupted"), (2, "running")])


def test_kill_9_is_followed_when_the_lease_is_over(site):
    options = site.options(long_job())
    server = site.gunicorn("-k", "sync", options=options)
    worker = server.expect("begin", attempt=1)["pid"]
    killed = server.send(signal.SIGKILL, worker)
    begun = server.expect("begin", attempt=2)
    assert begun["reason"] == "takeover"
    assert begun["pid"] != worker
    assert LEASE - HEARTBEAT - EARLY < begun["at"] - killed < LEASE + 2 * HEARTBEAT + SLACK
    assert site.attempts("work")[0] == (1, "lost")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGQUIT, signal.SIGABRT])
def test_other_signals_to_a_worker(site, signum):
    options = site.options(long_job())
    server = site.gunicorn("-k", "gthread", options=options)
    worker = server.expect("begin", attempt=1)["pid"]
    sent = server.send(signum, worker)
    begun = server.expect("begin", attempt=2)
    assert begun["pid"] != worker
    assert server.events("aborted", attempt=1)[0]["at"] - sent < SLACK
    site.wait_for_attempts("work", [(1, "interrupted"), (2, "running")])


@pytest.mark.parametrize("kind", ["sync", "gthread", "gevent"])
def test_ctrl_c_at_a_terminal_hands_over(site, kind):
    """It goes to the workers and to the master, which then sends a signal of its own."""
    options = site.options(long_job(tidies=0.5))
    server = site.gunicorn("-k", kind, options=options)
    server.expect("begin", attempt=1)
    os.killpg(server.pid, signal.SIGINT)
    server.end()
    assert site.attempts("work") == [(1, "interrupted")]


BROKEN = "def (\n"


def test_a_syntax_error_under_reload_is_mended_by_the_next_save(site):
    """Gunicorn serves the error meanwhile; what its worker can't import runs no jobs."""
    (site.folder / "broken.py").write_text(EDITION.format(number=1))
    words = ("-k", "gthread", "--reload", "--reload-engine", "poll")
    server = site.gunicorn(*words, options=site.options(long_job()), module="broken")
    server.expect("begin", attempt=1)
    (site.folder / "broken.py").write_text(EDITION.format(number=1) + BROKEN)
    server.expect_log("no job runs in this worker: broken:scheduler has SyntaxError")
    site.wait_for_attempts("work", [(1, "interrupted")])
    (site.folder / "broken.py").write_text(EDITION.format(number=333))
    server.expect("begin", attempt=2)
    server.send(signal.SIGTERM)
    server.end()
