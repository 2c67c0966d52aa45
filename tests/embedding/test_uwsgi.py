"""uWSGI: a scheduler in each worker, never in the master, and a hand-over at each kind of end."""

from __future__ import annotations

import json
import signal
from collections import Counter

import pytest

from tests.embedding.servers_running import EARLY, HEARTBEAT, LEASE, SLACK, asking_slowly, long_job

pytestmark = pytest.mark.serial

HAND_OVER = 2 * HEARTBEAT + SLACK
assert LEASE - HEARTBEAT > HAND_OVER
MASTER = ("--master", "--enable-threads")
TICK = {"name": "tick", "every": "1s", "seconds": 0, "options": {"catch_up": 0}}


GRACEFULLY = ("--hook-master-start", "unix_signal:15 gracefully_kill_them_all")


@pytest.mark.parametrize(
    "words",
    [(), ("--lazy-apps",), ("--threads", "2")],
    ids=["", "lazy", "threads"],
)
def test_each_way_to_end_hands_every_run_over(site, words):
    """Each worker starts once, in itself. The setting is that of the page."""
    options = site.options(long_job("one"), long_job("two"), workers=1, at_import="attach")
    server = site.uwsgi(*MASTER, *GRACEFULLY, "-p", "2", *words, options=options)
    begun = [server.expect("begin", job=job)["pid"] for job in ("one", "two")]
    assert server.pid not in begun
    assert sorted(begun) == sorted(server.started(2)) == sorted(server.states(2))
    check_the_end(site, server, options, signal.SIGTERM)
    assert "enable-threads" not in server.log()


@pytest.mark.parametrize(
    ("words", "signum"),
    [((), signal.SIGINT), (("--lazy-apps", "--die-on-term"), signal.SIGTERM), ((), signal.SIGQUIT)],
    ids=["int", "lazy-term", "quit"],
)
def test_ends_that_wait_for_nothing_hand_over_in_workers_that_are_idle(site, words, signum):
    """uWSGI calls no hook in a worker that has, or just had, a request: so there is none here."""
    options = site.options(long_job("one"), long_job("two"), workers=1, at_import="attach")
    server = site.uwsgi(*MASTER, "-p", "2", *words, options=options, serves=False)
    begun = [server.expect("begin", job=job)["pid"] for job in ("one", "two")]
    assert sorted(begun) == sorted(server.started(2))
    check_the_end(site, server, options, signum)


def check_the_end(site, server, options, signum):
    backup = site.backup(options)
    sent = server.send(signum)
    server.end()
    server.wait_for(lambda: len(backup) == 2, "both runs go on in the backup")
    assert all(reason == "takeover" and attempt == 2 for _, _, attempt, reason, _ in backup)
    assert max(at for at, *_ in backup) - sent < HAND_OVER
    for job in ("one", "two"):
        site.wait_for_attempts(job, [(1, "interrupted"), (2, "success")])


def test_a_request_in_hand_is_finished_first_where_uwsgi_is_told_to(site):
    """That is the setting on the page; and what it waits for is handed over after that."""
    options = site.options(long_job(), at_import="attach")
    server = site.uwsgi(*MASTER, *GRACEFULLY, options=options)
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


def test_without_that_a_busy_worker_calls_no_hook_and_the_lease_runs_out(site):
    options = site.options(long_job(), at_import="attach")
    server = site.uwsgi(*MASTER, "--die-on-term", options=options)
    server.expect("begin")
    backup = site.backup(options)
    with asking_slowly(server, 20):
        sent = server.send(signal.SIGTERM)
        server.end()
    server.wait_for(lambda: backup, "the run goes on in the backup")
    assert server.events("aborted") == []
    assert LEASE - HEARTBEAT - EARLY < backup[0][0] - sent < LEASE + 2 * HEARTBEAT + SLACK
    assert site.attempts("work")[0] == (1, "lost")


@pytest.mark.parametrize("words", [(), ("--lazy-apps",)], ids=["", "lazy"])
def test_a_reload_hands_over(site, words):
    options = site.options(long_job(), at_import="attach")
    server = site.uwsgi(*MASTER, *words, options=options)
    old = server.expect("begin", attempt=1)["pid"]
    server.send(signal.SIGHUP)
    fresh = server.expect("begin", attempt=2)
    assert fresh["pid"] != old
    assert fresh["reason"] == "takeover"
    site.wait_for_attempts("work", [(1, "interrupted"), (2, "running")])


@pytest.mark.parametrize("words", [(), ("--lazy-apps",)], ids=["", "lazy"])
def test_workers_run_each_slot_once_and_mules_nothing(site, words):
    options = site.options(TICK, at_import="attach")
    spooler = ("--spooler", str(site.folder / "spool"))
    server = site.uwsgi(*MASTER, "-p", "2", "--mule", *spooler, *words, options=options)
    workers = server.states(2)
    assert server.pid not in workers
    attached = {event["pid"]: event["state"] for event in server.events("attached")}
    assert attached.pop(server.pid, "idle") == "idle"  # in the master, which imports it or not
    assert set(attached) == (set(workers) if words else set())
    server.expect("begin", count=server.count("begin") + 3)
    begun = Counter(event["slot"] for event in server.events("begin"))
    assert set(begun.values()) == {1}
    assert sorted(begun) == list(range(min(begun), max(begun) + 1, 1000))
    assert {event["pid"] for event in server.events("begin")} <= set(workers)
    assert sorted(server.started(2)) == sorted(workers)


def test_start_in_the_master_is_refused(site):
    options = site.options(TICK, at_import="refused")
    server = site.uwsgi(*MASTER, options=options)
    [refused] = server.events("refused")
    assert refused["pid"] == server.pid
    assert refused["type"] == "ConfigurationError"
    assert "attach(scheduler)" in refused["text"]
    assert list(server.states(1, state="idle")) != [server.pid]
    assert server.started() == []


def test_start_in_a_lazy_worker_is_not(site):
    server = site.uwsgi(*MASTER, "--lazy-apps", options=site.options(TICK, at_import="refused"))
    server.states(1)
    assert server.events("refused") == []


@pytest.mark.parametrize("threads", [(), ("--enable-threads",)], ids=["", "threads"])
def test_without_a_master_it_starts_as_well(site, threads):
    """And what was in the hooks before, and comes by uwsgidecorators, is still called."""
    options = site.options(TICK, at_import="attach")
    server = site.uwsgi(*threads, options=options)
    assert list(server.states(1)) == [server.pid]
    server.expect("begin")
    assert ("uWSGI runs without enable-threads" in server.log()) == (not threads)


def test_what_was_in_the_hooks_before_and_comes_later_is_called(site):
    options = site.options(TICK, at_import="attach between")
    server = site.uwsgi(*MASTER, *GRACEFULLY, options=options)
    [worker] = server.states(1)
    server.send(signal.SIGTERM)
    server.end()
    notes = [(note["text"], note["pid"] == worker) for note in server.events("note")]
    assert Counter(notes) == {
        ("fork before", True): 1,
        ("fork after", True): 1,
        ("exit before", True): 1,
    }
    assert server.log().count("scheduler stopped on ") == 1


RAISING = """
import uwsgi
from uwsgidecorators import postfork

def fail():
    say("note", text="fork before")
    raise ValueError("no table")

%s
from anarchon.contrib.uwsgi import attach
attach(scheduler)
"""


@pytest.mark.parametrize("way", ["uwsgi.post_fork_hook = fail", "postfork(fail)"])
def test_what_was_in_the_hooks_before_may_raise(site, way):
    text = f"from servers_app import app, say, scheduler\n{RAISING % way}"
    (site.folder / "raising.py").write_text(text)
    words = ("--module", "raising:app")
    server = site.uwsgi(*MASTER, *GRACEFULLY, *words, options=site.options(TICK))
    [worker] = server.states(1)
    assert [note["pid"] for note in server.events("note")] == [worker]
    assert "ValueError: no table" in server.log()
    server.expect("begin")
    server.send(signal.SIGTERM)
    server.end()
    assert server.log().count("scheduler stopped on ") == 1


def test_a_store_that_is_down_at_boot_keeps_no_site_from_serving(site):
    site.store = site.folder / "mount" / "jobs.db"
    server = site.uwsgi(*MASTER, "-p", "2", options=site.options(TICK, at_import="attach"))
    server.states(2, state="starting")
    site.store.parent.mkdir()
    server.expect("begin")
    server.states(2)


def test_kill_9_is_followed_when_the_lease_is_over(site):
    options = site.options(long_job(), at_import="attach")
    server = site.uwsgi(*MASTER, options=options)
    worker = server.expect("begin", attempt=1)["pid"]
    killed = server.send(signal.SIGKILL, worker)
    begun = server.expect("begin", attempt=2)
    assert begun["pid"] != worker
    assert LEASE - HEARTBEAT - EARLY < begun["at"] - killed < LEASE + 2 * HEARTBEAT + SLACK


def test_elsewhere_nothing_happens(site):
    """In a command or a test the same module is imported, and starts nothing."""
    import subprocess
    import sys

    from tests.embedding.servers_running import environment

    options = site.options(TICK, at_import="attach")
    program = "import servers_app; print(servers_app.scheduler.state)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(site.folder, options),
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("idle\n", "")
    [attached] = [json.loads(line) for line in (site.folder / "events").read_text().splitlines()][
        1:
    ]
    assert attached["said"] is False
