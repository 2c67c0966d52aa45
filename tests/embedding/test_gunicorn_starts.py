"""Gunicorn starts: a scheduler in every worker and none in the master, whatever else happens."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.embedding.servers_running import long_job

pytestmark = pytest.mark.serial

HOOKS = """\
from anarchon.contrib.gunicorn import hooks
{imports}
def on_exit(server):
    import sys
    app = sys.modules.get("servers_app")
    state = app.scheduler.state if app else "never imported"
    with open({told!r}, "w") as told:
        told.write(state)

globals().update(hooks({scheduler}))
"""
TICK = {"name": "tick", "every": "1s", "seconds": 0, "options": {"catch_up": 0}}


def tasks(pid: int) -> int:
    """Count the threads of a process."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


@pytest.mark.parametrize(
    ("scheduler", "preload"),
    [
        ('"servers_app:scheduler"', ()),
        ('"servers_app:scheduler"', ("--preload",)),
        ("servers_app.scheduler", ("--preload",)),
    ],
    ids=["text", "text-preload", "object-preload"],
)
def test_four_workers_run_each_slot_once(site, preload, scheduler):
    """Every worker says that it runs; the master has no thread but its own."""
    options = site.options(TICK)
    imports = "import servers_app" if "servers_app.s" in scheduler else ""
    told = site.folder / "told"
    conf = HOOKS.format(imports=imports, told=str(told), scheduler=scheduler)
    server = site.gunicorn("-w", "4", "-k", "gthread", *preload, options=options, conf=conf)
    workers = server.states(4)
    assert server.pid not in workers
    assert tasks(server.pid) == 1
    server.expect("begin", count=server.count("begin") + 3)
    server.send(signal.SIGTERM)
    server.end()
    master = told.read_text()
    assert master == ("idle" if preload or imports else "never imported")
    begun = Counter(event["slot"] for event in server.events("begin"))
    assert set(begun.values()) == {1}
    assert sorted(begun) == list(range(min(begun), max(begun) + 1, 1000))
    assert {event["pid"] for event in server.events("begin")} <= set(workers)
    assert sorted(server.started()) == sorted(workers)


def test_start_at_import_with_preload_is_told_and_harms_nobody(site):
    """The misuse: one scheduler, in the master. Workers have none, and hand nothing over."""
    options = site.options(long_job(), at_import="start")
    server = site.gunicorn("-w", "2", "--preload", options=options, conf="workers = 2\n")
    assert server.expect("begin")["pid"] == server.pid
    states = server.states(2, state="idle")
    server.expect_log("forked while the scheduler runs")
    assert server.log().count("forked while the scheduler runs") == 1, server.report()
    backup = site.backup(options)
    gone = next(iter(states))
    server.send(signal.SIGTERM, gone)
    server.expect_log("Booting worker", count=3)  # one more, in its place
    server.states(2, state="idle")
    assert not backup
    assert site.attempts("work") == [(1, "running")]
    server.send(signal.SIGTERM)
    server.end()
    server.wait_for(lambda: backup, "the run goes on in the backup")
    site.wait_for_attempts("work", [(1, "interrupted"), (2, "success")])
    assert server.log().count("scheduler stopped on ") == 1


def test_a_store_that_is_down_at_boot_keeps_no_site_from_serving(site):
    """Jobs begin when it is there."""
    site.store = site.folder / "mount" / "jobs.db"
    options = site.options(TICK)
    server = site.gunicorn("-w", "2", options=options)
    server.states(2, state="starting")
    assert server.events("begin") == []
    site.store.parent.mkdir()
    server.expect("begin")
    server.states(2)
    assert len(server.started(2)) == 2
    assert server.log().count("store down: ") == 2  # once in each worker
    server.send(signal.SIGTERM)
    server.end()


OWN = """\
import os

from anarchon.contrib.gunicorn import hooks

def note(text):
    with open("notes", "a") as notes:
        notes.write(text + "\\n")

def state():
    import servers_app
    return servers_app.scheduler.state

def post_worker_init(worker):
    note(f"init {worker.pid == os.getpid()} {state()}")

def worker_exit(server, worker):
    note(f"exit {worker.pid == os.getpid()} {state()}")

def when_ready(server):
    note("ready")

globals().update(hooks("servers_app:scheduler"))
"""


def test_hooks_of_ones_own_are_called_as_well(site):
    server = site.gunicorn(options=site.options(TICK), conf=OWN)
    server.states(1)
    server.send(signal.SIGTERM)
    server.end()
    notes = (site.folder / "notes").read_text().splitlines()
    assert notes == ["ready", "init True idle", "exit True idle"]
    assert len(server.started()) == 1
    assert "below hooks()" not in server.log()


BELOW = """\
from anarchon.contrib.gunicorn import hooks
globals().update(hooks("servers_app:scheduler"))

def post_worker_init(worker):
    pass

def when_ready(server):
    pass
"""


def test_a_hook_below_is_warned_about_once(site):
    server = site.gunicorn("-w", "2", options=site.options(TICK), conf=BELOW)
    server.states(2, state="idle")
    [warning] = [line for line in server.log().splitlines() if "below hooks()" in line]
    assert "defines post_worker_init below" in warning
    assert "no job runs" in warning
    server.send(signal.SIGTERM)
    server.end()
    assert server.started() == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("servers_ap:scheduler", "servers_ap of 'servers_ap:scheduler' can't be imported"),
        ("servers_app:schedule", "has no 'schedule'"),
        ("servers_app:app", "is no scheduler"),
    ],
)
def test_text_that_leads_nowhere_keeps_the_worker_from_booting(site, text, said):
    server = site.gunicorn(options=site.options(), scheduler=repr(text), serves=False)
    server.end(3)
    assert f"ConfigurationError: hooks(){', ' + text if 'no sch' in said else ''}: " in server.log()
    assert said in server.log()


def test_text_that_names_nothing_keeps_gunicorn_from_starting(site):
    server = site.gunicorn(options=site.options(), scheduler="'servers_app'", serves=False)
    server.end(1)
    assert "'servers_app' names no scheduler; write \"module:attribute\"" in server.log()


def test_two_schedulers_are_two_calls(site):
    conf = (
        "from anarchon.contrib.gunicorn import hooks\n"
        'globals().update(hooks("servers_app:scheduler"))\n'
        'globals().update(hooks("servers_app:make_other.scheduler"))\n'
    )
    server = site.gunicorn(options=site.options(TICK), conf=conf)
    [answer] = server.states(1).values()
    server.wait_for(lambda: json.loads(server.ask("/state"))["other"] == "running", "the other")
    assert "below hooks()" not in server.log()
    server.send(signal.SIGTERM)
    server.end()
    assert server.started() == [answer["pid"]] * 2
    assert server.log().count("scheduler stopped on ") == 2
