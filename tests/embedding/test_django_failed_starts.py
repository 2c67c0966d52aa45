"""Where a project can't be served, its scheduler doesn't start: no setup, no port, no site."""

from __future__ import annotations

import json
import signal
import socket

import pytest

from tests.embedding.django_project import START, WSGI, Project
from tests.embedding.test_django_processes import AUTOSTART, GUNICORN, started, touch

LATE = """
from django.apps import AppConfig

class LateConfig(AppConfig):
    name = "late"

    def ready(self):
        {what}
"""
INSTALLED = 'INSTALLED_APPS.append("late")\n'


@pytest.fixture
def make(tmp_path):
    """Return a function that makes the project of a test; what it started is ended."""
    made = []

    def project(**how):
        made.append(Project(tmp_path, **how))
        made[-1].manage("migrate", "-v", "0")
        return made[-1]

    yield project
    for one in made:
        one.clean_up()


def say_late(project, what: str) -> None:
    """Have an app that comes after ours do something when the others are ready."""
    project.write("late/apps.py", LATE.format(what=what))


@pytest.mark.parametrize("by", ["autostart", "wsgi.py"])
def test_after_a_setup_that_failed_the_development_server_runs_nothing(make, by):
    how = {"settings": AUTOSTART} if by == "autostart" else {"site_wsgi": WSGI + START}
    how["settings"] = how.get("settings", "") + INSTALLED
    project = make(**how, late__apps=LATE.format(what="pass"))
    say_late(project, 'raise OSError("no such service")')
    server = project.run("manage.py", "runserver", "127.0.0.1:{port}")
    server.expect_log("OSError: no such service")
    say_late(project, "pass")
    touch(server, project.folder / "late" / "apps.py")
    begun = server.expect_event()
    assert (begun["attempt"], begun["pid"]) == (1, server.state()["pid"])
    assert started(server, 1) == [begun["pid"]]
    server.interrupt()
    server.end()


SUBCLASS = """
from django.core.management.commands.runserver import Command as RunserverCommand

class Command(RunserverCommand):
    pass
"""
CALLER = """
from django.core.management import BaseCommand, call_command

class Command(BaseCommand):
    def add_arguments(self, parser):
        parser.add_argument("addrport")

    def handle(self, *, addrport, **options):
        call_command("runserver", addrport, use_reloader=False)
"""
WAYS = {
    "autostart": ({"settings": AUTOSTART}, ["runserver", "--noreload"]),
    "wsgi.py": ({"site_wsgi": WSGI + START}, ["runserver", "--noreload"]),
    "both": ({"settings": AUTOSTART, "site_wsgi": WSGI + START}, ["runserver", "--noreload"]),
    "subclass": ({"site_wsgi": WSGI + START, "command": SUBCLASS}, ["serve", "--noreload"]),
    "caller": ({"site_wsgi": WSGI + START, "command": CALLER}, ["serve"]),
}


def made_to_serve(make, by):
    """Return a project, and the words of the command that serves it."""
    how, words = WAYS[by]
    how = dict(how)
    command = how.pop("command", "pass\n")
    return make(**how, shop__management__commands__serve=command), words


@pytest.mark.parametrize("by", WAYS)
def test_a_port_in_use(make, by):
    project, words = made_to_serve(make, by)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = project.manage(*words, f"127.0.0.1:{taken.getsockname()[1]}", code=1)
    assert "That port is already in use." in told
    assert "scheduler started" not in told
    assert project.events() == []


@pytest.mark.parametrize("by", WAYS)
def test_a_port_that_is_free(make, by):
    project, words = made_to_serve(make, by)
    server = project.run("manage.py", *words, "127.0.0.1:{port}")
    assert server.expect_event()["pid"] == server.pid
    assert started(server, 1) == [server.pid]
    server.interrupt()
    server.end(0, 1)


def test_what_fails_before_the_port_is_bound(make):
    """Here a check; Django goes on to watch the files."""
    project = make(settings=AUTOSTART)
    project.write("site_urls.py", "urlpatterns = 3\n")
    told = project.manage("runserver", "--noreload", "0", code=1)
    assert "scheduler started" not in told


def test_another_server_without_its_port_leaves_no_run_behind(make):
    """It loads the project first, and ends as programs do: what has begun is handed over."""
    project = make(site_wsgi=WSGI + START + "import time; time.sleep(2)\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"--listen=127.0.0.1:{taken.getsockname()[1]}"
        program = ("-m", "waitress")
        told = "".join(project.said(place, "site_wsgi:application", program=program, code=1))
    assert "handed over to another instance" in told
    runs = json.loads(project.said("anarchon", "history", "--json")[0])["runs"]
    assert [run["status"] for run in runs] == ["interrupted"]


# As runservers of other packages: it has a server of its own, and tells nobody when it serves.
OWN_SERVER = """
from wsgiref.simple_server import make_server
from django.core.management.commands.runserver import Command as RunserverCommand

class Command(RunserverCommand):
    def inner_run(self, *args, **options):
        handler = self.get_handler(*args, **options)
        make_server(self.addr, int(self.port), handler).serve_forever()
"""


@pytest.mark.parametrize("by", ["autostart", "wsgi.py"])
def test_a_runserver_of_another_package_starts_with_the_first_request(make, by):
    how = {"settings": AUTOSTART} if by == "autostart" else {"site_wsgi": WSGI + START}
    how["settings"] = how.get("settings", "") + "INSTALLED_APPS.insert(0, 'shop')\n"
    how["settings"] += "INSTALLED_APPS.pop()\n"
    project = make(**how, shop__management__commands__runserver=OWN_SERVER)
    server = project.run("manage.py", "runserver", "--noreload", "127.0.0.1:{port}")
    assert server.state()["state"] in ("starting", "running")
    assert server.expect_event()["pid"] == server.pid
    assert started(server, 1) == [server.pid]


def test_a_worker_of_gunicorn_that_only_shows_an_error_runs_nothing(make):
    """As it does with --reload, until the file is mended."""
    project = make(settings=INSTALLED, late__apps=LATE.format(what="pass"))
    project.write("gunicorn.conf.py", GUNICORN)
    say_late(project, 'raise SyntaxError("half written", (__file__, 1, 1, ""))')
    words = ["-m", "gunicorn", "-b", "127.0.0.1:{port}", "--no-control-socket", "--reload"]
    server = project.run(*words, "--reload-engine", "poll", "site_wsgi:application")
    server.expect_log("no job runs in this worker: ConfigurationError: Django is not set up in")
    assert server.wait_for(lambda: server.get("/state")[0] == 500, "an error page")
    assert started(server) == []
    say_late(project, "pass")
    assert server.expect_event()["attempt"] == 1
    assert server.state()["state"] == "running"
    assert len(started(server, 1)) == 1
    server.send(signal.SIGTERM)
    server.end()
    assert len(started(server)) == 1  # by now the first worker would have told of a start


def test_a_worker_of_gunicorn_whose_setup_has_failed_ends_without_reload(make):
    project = make(settings=INSTALLED, late__apps=LATE.format(what="pass"))
    say_late(project, "1 / 0")
    project.write("gunicorn.conf.py", GUNICORN)
    words = ["-m", "gunicorn", "-b", "127.0.0.1:{port}", "--no-control-socket"]
    server = project.run(*words, "site_wsgi:application")
    server.end(3)
    assert started(server) == []


# On Ctrl-C it needs longer to end than Python's `subprocess` waits for a child.
SLOW_END = """
import time
from anarchon import every
from shop.events import say

@every("work", "1h", catch_up="1h")
def work(ctx):
    say("begin", attempt=ctx.attempt)
    ctx.signal.wait(60)
    time.sleep({tidies})
"""


@pytest.mark.parametrize("reloads", [True, False])
def test_ctrl_c_leaves_the_child_of_the_reloader_a_quarter_of_a_second(make, reloads):
    # What is killed would need much longer, so that no busy machine gives it the time.
    slow = SLOW_END.format(tidies=2.5 if reloads else 1)
    project = make(settings=AUTOSTART, shop__jobs=slow)
    words = ["runserver", *([] if reloads else ["--noreload"])]
    server = project.run("manage.py", *words, "127.0.0.1:{port}")
    server.expect_event()
    server.state()
    server.interrupt()
    server.end()
    assert ("] scheduler stopped on " in server.log()) is not reloads
