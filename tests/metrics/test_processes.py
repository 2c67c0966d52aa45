"""Processes that share a folder, as the client's mode for several of them has it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from anarchon import Scheduler, SqliteBackend
from tests.embedding.servers_running import Site
from tests.metrics.scraped import Scraped

CONF = """
from prometheus_client import multiprocess
from anarchon.contrib.gunicorn import hooks

def child_exit(server, worker):
    multiprocess.mark_process_dead(worker.pid)

globals().update(hooks("tests.metrics.processes_app:scheduler"))
"""
RUNS = ("job_name", "status")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Have what this test starts share a folder; the client of this process chose otherwise."""
    made = tmp_path / "metrics"
    made.mkdir()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(made))
    return made


def in_files(folder):
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(folder))
    return Scraped(generate_latest(registry).decode())


@pytest.mark.serial
def test_gunicorn_with_preload(tmp_path, folder):
    site = Site(tmp_path)
    try:
        server = site.gunicorn(
            *("-w", "2", "--preload"),
            options=site.options(),
            conf=CONF,
            module="tests.metrics.processes_app",
        )

        def scraped():
            # The client can't read a file that another process is just making.
            return Scraped(server.wait_for(lambda: server.answers("/metrics"), "an answer"))

        pids = set(server.states(2))
        server.wait_for(lambda: scraped()("free_workers") == 20, "the gauges of both")
        server.wait_for(lambda: len(scraped().counted("runs_total", *RUNS)) == 5, "runs of all")
        before = scraped()
        assert (before("store_up"), before("healthy")) == (1, 1)
        assert before("store_calls_total", operation="open") == 2
        assert before("runs_total", job_name="bad", status="lost", reason="manual") == 0
        killed = pids.pop()
        os.kill(killed, signal.SIGKILL)
        server.wait_for(lambda: not [*folder.glob(f"gauge_live*_{killed}.db")], "its gauges gone")
        server.wait_for(lambda: scraped()("store_calls_total", operation="open") == 3, "another")
        server.wait_for(lambda: scraped()("free_workers") == 20, "the gauges of both")
        after = scraped()
        for key, count in before.counted("runs_total", *RUNS).items():
            assert after.counted("runs_total", *RUNS)[key] >= count
        own = Scraped(server.ask("/own"))
        assert own("store_calls_total", operation="open") == 1
        server.process.terminate()
        server.end()
        # Nobody lost more than the second before the kill; what was stopped lost nothing.
        found = in_files(folder).counted("runs_total", *RUNS)
        history = Scheduler(SqliteBackend(site.store)).history(limit=1000)
        ran = Counter((run.job, run.status) for run in history if run.instance_id)
        there = {key: count for key, count in ran.items() if key[1] in ("success", "failed")}
        assert there.keys() == found.keys() & there.keys()
        for key, count in there.items():
            assert count - 2 <= found[key] <= count
        assert sum(there.values()) - sum(found[key] for key in there) <= 10
    finally:
        site.clean_up()


HEAD = """
import logging, os, sys, threading, time
logging.basicConfig(stream=sys.stdout, format="%(message)s")
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from anarchon import ConfigurationError, MemoryBackend, Scheduler
from anarchon.contrib import _prometheus_shared
from anarchon.contrib.prometheus import metrics

def made(**options):
    scheduler = Scheduler(MemoryBackend(), catch_up=0, **options)
    for name in ("job", "never"):
        scheduler.every(name, "1h", lambda: None)
    return scheduler

def writers():
    return [thread for thread in threading.enumerate() if thread.name == "anarchon-metrics"]

def wait_for(what):
    until = time.monotonic() + 20
    while what not in generate_latest(REGISTRY).decode():
        assert time.monotonic() < until
        time.sleep(0.05)
"""


@pytest.fixture
def run(tmp_path, folder):
    def run_program(program, **more):
        # The client leaves its files open until the end.
        warnings = ("-W", "error", "-W", "ignore::ResourceWarning")
        done = subprocess.run(
            [sys.executable, *warnings, "-c", HEAD + textwrap.dedent(program)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout

    return run_program


def test_what_was_done_is_written_when_it_stops(run, folder):
    run("""
        _prometheus_shared.PERIOD = 600
        one, two = made(), made(workers=3)
        metrics(one)
        metrics(two, name="two")
        for _ in range(2):
            with one:
                one.run_now("job")
            assert not writers()
        with two:
            for _ in range(3):
                two.run_now("job")
    """)
    found = in_files(folder)
    where = ("scheduler", "job_name", "status", "reason")
    assert found.counted("runs_total", *where) == {
        ("anarchon", "job", "success", "manual"): 2,
        ("two", "job", "success", "manual"): 3,
    }
    assert found.counted("run_starts_total", "scheduler") == {("anarchon",): 2, ("two",): 3}
    assert found.histogram("run_duration_seconds", job_name="job")[2] == 2
    assert found.histogram("run_lateness_seconds", job_name="job")[2] is None
    assert found("store_calls_total", operation="open") == 2
    assert found("store_calls_total", operation="record_manual") is not None
    assert found("runs_total", job_name="never", status="failed", reason="takeover") == 0
    assert found("last_success_timestamp_seconds", job_name="job") > 1.7e9
    assert (found("running_handlers"), found("healthy")) == (0, 0)


def test_after_the_start_and_while_it_runs(run):
    """Asked for when it runs already; the files follow within some seconds."""
    said = run("""
        _prometheus_shared.PERIOD = 0.1
        scheduler = made()
        with scheduler:
            kept = metrics(scheduler)
            for count in (1, 2):
                scheduler.run_now("job")
                wait_for(f'status="success"}} {count}.0')
                time.sleep(0.3)
            wait_for('anarchon_free_workers{scheduler="anarchon"} 10.0')
            text = generate_latest(REGISTRY).decode()
            kept.close()
            assert not writers()
            scheduler.run_now("job")
        print(text)
    """)
    found = Scraped(said)
    assert (found("free_workers"), found("healthy"), found("store_up")) == (10, 1, 1)
    assert found.counted("run_starts_total", "reason") == {("manual",): 2}


def test_a_forked_child_has_files_of_its_own(run, folder):
    """It inherits what its parent has not written yet, and what that has counted."""
    run("""
        scheduler = made()
        metrics(scheduler)
        scheduler.start()
        for _ in range(3):
            scheduler.run_now("job")
        logging.disable(logging.WARNING)
        if (pid := os.fork()) == 0:
            with scheduler:
                scheduler.run_now("job")
            os._exit(0)
        assert os.waitpid(pid, 0) == (pid, 0)
        scheduler.stop()
    """)
    found = in_files(folder)
    assert len([*folder.glob("counter_*.db")]) == 2
    assert found.counted("run_starts_total", "job_name") == {("job",): 4}
    assert found("store_calls_total", operation="open") == 2


def test_one_scheduler_has_one_set_of_files(run):
    said = run("""
        one = made()
        kept = metrics(one)
        for arguments in ((one, {}), (made(), {})):
            try:
                metrics(arguments[0], registry=CollectorRegistry(), **arguments[1])
            except ConfigurationError as error:
                print(error)
        kept.close()
        metrics(one, registry=CollectorRegistry())
    """)
    assert said.count("call it once") == said.count("of the name 'anarchon' already") == 1


def test_files_that_can_not_be_written_are_told_of_once_and_harm_no_job(run, folder):
    said = run(
        """
        _prometheus_shared.PERIOD = 0.1
        scheduler = made()
        metrics(scheduler)
        with scheduler:
            print(scheduler.run_now("job").status)
            time.sleep(0.3)
        print(scheduler.last_run("job").status)
        """,
        PROMETHEUS_MULTIPROC_DIR=str(folder / "nowhere"),
    )
    assert said.count("the metrics can't be written") == 1
    assert said.count("success") == 2
