"""Which processes of a project run its scheduler: those that serve, each one, and no command."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.embedding.django_project import JOBS, START, WSGI, Project

AUTOSTART = 'ANARCHON["AUTOSTART"] = "server"\n'
STARTED = "] scheduler started on "
TESTS = """
from django.test import SimpleTestCase
from anarchon.contrib.django import scheduler

class Tests(SimpleTestCase):
    def test_it(self):
        import site_wsgi
        assert scheduler.state == "idle"
"""
# It is called after ours, and gives the scheduler time for a claim.
SLOW_APP = """
import sys, time
from django.apps import AppConfig

class ShopConfig(AppConfig):
    name = "shop"

    def ready(self):
        from anarchon.contrib.django import scheduler
        from shop.events import say
        if "runserver" in sys.argv:
            time.sleep(1)
            say(scheduler.state)
"""
GUNICORN = """
from anarchon.contrib.gunicorn import hooks
globals().update(hooks("anarchon.contrib.django:scheduler"))
"""


@pytest.fixture
def make(tmp_path):
    """Return a function that makes the project of a test; what it started is ended."""
    made = []

    def project(**how):
        made.append(Project(tmp_path, **how))
        return made[-1]

    yield project
    for one in made:
        one.clean_up()


def started(command, count: int = 0) -> list[int]:
    """Return the processes whose schedulers have started, in the order of their log lines.

    Wait for so many: a line is written by a thread of its own, so a run may begin before it.
    """
    if count:
        command.expect_log(STARTED, count)
    lines = [line for line in command.log().splitlines() if STARTED in line]
    return [int(line.partition(STARTED)[2].split()[0].rpartition(":")[2]) for line in lines]


def touch(server, path) -> None:
    """Have the server reload; the reloader may not have looked at the file for the first time."""

    def reloads():
        os.utime(path)
        return "changed, reloading." in server.log()

    server.wait_for(reloads, "a reload")


def test_commands_start_nothing_and_find_nothing_to_migrate(make):
    project = make(settings=AUTOSTART, site_wsgi=WSGI + START, shop__tests=TESTS)
    commands = [
        (("check",), "no issues"),
        (("migrate", "-v", "0"), ""),
        (("makemigrations", "shop"), "Create model Paid"),
        (("makemigrations", "--check"), "No changes detected"),
        (("shell", "-c", "import site_wsgi; print(site_wsgi.application)"), "WSGIHandler"),
        (("test",), "OK"),
        (("dumpdata", "--all", "anarchon"), "[]"),
    ]
    for words, said in commands:
        output = project.manage(*words)
        assert said in output, words
        assert STARTED not in output, words
        assert project.events() == [], words


@pytest.mark.parametrize("by", ["autostart", "wsgi.py"])
def test_the_development_server_runs_one_in_the_child(make, by):
    """A touched file reloads it: the old child hands its run over to the new one."""
    how = {"settings": AUTOSTART} if by == "autostart" else {"site_wsgi": WSGI + START}
    project = make(**how)
    project.manage("migrate", "-v", "0")
    server = project.run("manage.py", "runserver", "127.0.0.1:{port}")
    first = server.expect_event(attempt=1)
    state = server.state()
    assert state == {"pid": first["pid"], "state": "running"}
    assert started(server, 1) == [first["pid"]]
    assert first["pid"] != server.pid
    touch(server, project.folder / "shop" / "models.py")
    second = server.expect_event(attempt=2)
    assert second["reason"] == "takeover"
    assert started(server, 2) == [first["pid"], second["pid"]]
    assert server.pid not in started(server)
    assert "handed over to another instance" in server.log()
    # While a module is imported, Python may lose a Ctrl-C.
    server.wait_for(lambda: server.state()["pid"] == second["pid"], "an answer of the new child")
    server.interrupt_with_room("handed over to another instance", count=2)
    server.end()


def test_without_the_reloader_it_runs_in_the_only_process(make):
    """And not before all apps are ready."""
    project = make(settings=AUTOSTART, shop__apps=SLOW_APP)
    project.manage("migrate", "-v", "0")
    server = project.run("manage.py", "runserver", "--noreload", "127.0.0.1:{port}")
    assert server.expect_event(attempt=1)["pid"] == server.pid
    assert server.state() == {"pid": server.pid, "state": "running"}
    kinds = [event["kind"] for event in project.events("") if event["pid"] == server.pid]
    assert kinds == ["idle", "begin"]
    server.interrupt()
    server.end()
    assert "handed over to another instance" in server.log()


@pytest.mark.parametrize("preload", [False, True])
def test_gunicorn_runs_one_in_each_worker(make, preload):
    project = make()
    project.manage("migrate", "-v", "0")
    project.write("gunicorn.conf.py", GUNICORN)
    words = ["-m", "gunicorn", "-w", "2", "-b", "127.0.0.1:{port}", "--no-control-socket"]
    preloading = ["--preload"] if preload else []
    server = project.run(*words, *preloading, "site_wsgi:application")
    found = {}

    def both():
        state = server.state()
        found[state["pid"]] = state["state"]
        return list(found.values()) == ["running"] * 2

    server.wait_for(both, "two workers that run")
    assert server.pid not in found
    assert sorted(started(server, 2)) == sorted(found)
    server.send(signal.SIGTERM)
    server.end()
    assert "handed over to another instance" in server.log()


def test_a_worker_in_the_foreground(make):
    """Its jobs are in a package."""
    project = make()
    (project.folder / "shop" / "jobs.py").unlink()
    project.write("shop/jobs/__init__.py", "")
    project.write("shop/jobs/hourly.py", JOBS)
    project.manage("migrate", "-v", "0")
    worker = project.run("manage.py", "anarchon", "run", "--json")
    assert worker.expect_event(attempt=1)["pid"] == worker.pid
    worker.send(signal.SIGTERM)
    worker.end()
    assert "handed over to another instance" in worker.log()
    assert "scheduler stopped" in worker.log()
    [line] = [line for line in worker.log().splitlines() if line.startswith("{")]
    assert json.loads(line)["status"] == "interrupted"
