"""A small project of Django's, written into a folder, and its commands as real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import anarchon
from tests.servers.processes import free_port

CHECKOUT = Path(__file__).resolve().parent.parent.parent
INSTALLED = Path(anarchon.__file__).parent.parent  # the wheel, where there is one
LONG = 30.0  # for what has no bound of its own

MANAGE = """
import os, sys
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site_settings")
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""

SETTINGS = """
from pathlib import Path
BASE_DIR = Path(__file__).resolve().parent
SECRET_KEY = "of a test, and long enough that nobody warns: 0123456789abcdefghijklmnopqrstuvwxyz"
DEBUG = True
ALLOWED_HOSTS = ["*"]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "anarchon.contrib.django",
    "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "site_urls"
WSGI_APPLICATION = "site_wsgi.application"
TEMPLATES = [{
    "BACKEND": "django.template.backends.django.DjangoTemplates",
    "APP_DIRS": True,
    "OPTIONS": {"context_processors": [
        "django.template.context_processors.request",
        "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages",
    ]},
}]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "db.sqlite3"}}
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
ANARCHON = {"OPTIONS": {"lease": "3s", "heartbeat": "500ms", "exit_timeout": 3, "log": True}}
"""

URLS = """
import os
from django.contrib import admin
from django.http import JsonResponse
from django.urls import path

def state(request):
    from anarchon.contrib.django import scheduler
    return JsonResponse({"pid": os.getpid(), "state": scheduler.state})

urlpatterns = [path("admin/", admin.site.urls), path("state", state)]
"""

WSGI = """
import os
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site_settings")
from django.core.wsgi import get_wsgi_application
application = get_wsgi_application()
"""

START = """
from anarchon.contrib.django import start
start()
"""

MODELS = """
from django.db import models

class Paid(models.Model):
    slot = models.BigIntegerField()
"""

# What happens in a handler is a line of JSON in one file.
SAY = """
import json, os
from pathlib import Path

def say(kind, **facts):
    line = json.dumps({"kind": kind, "pid": os.getpid(), **facts})
    fd = os.open(Path(__file__).with_name("events"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{line}\\n".encode())
    os.close(fd)
"""

JOBS = """
from anarchon import every
from anarchon.contrib.django import scheduler
from shop.events import say

@every("work", "1h", catch_up="1h")
def work(ctx):
    say("begin", job=ctx.name, attempt=ctx.attempt, reason=ctx.reason)
    ctx.signal.sleep(60)

@scheduler.every("fail", "1d", catch_up=0, description="It can't work.")
def fail():
    raise ValueError("no such table")
"""


class Project:
    """A project in a folder. `files` replace the standard ones, `settings` are added at the end.

    One that is `bare` is empty.
    """

    def __init__(
        self, folder: Path, *, settings: str = "", bare: bool = False, **files: str
    ) -> None:
        self.folder = folder
        self._running: list[Command] = []
        if bare:
            return
        texts = {
            "manage.py": MANAGE,
            "site_settings.py": SETTINGS + settings,
            "site_urls.py": URLS,
            "site_wsgi.py": WSGI,
            "shop/__init__.py": "",
            "shop/models.py": MODELS,
            "shop/events.py": SAY,
            "shop/jobs.py": JOBS,
        }
        texts |= {name.replace("__", "/") + ".py": text for name, text in files.items()}
        for name, text in texts.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def environment(self, **more: str) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
        path = os.pathsep.join(map(str, (self.folder, INSTALLED, CHECKOUT)))
        return {**inherited, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **more}

    def manage(self, *words: str, **how) -> str:
        """Run a command to its end; return what it printed, stderr behind stdout."""
        return "".join(self.said(*words, **how))

    def said(
        self, *words: str, code: int = 0, program: tuple[str, ...] = ("manage.py",)
    ) -> tuple[str, str]:
        """Run a command to its end; return what it printed, and its errors."""
        done = subprocess.run(
            [sys.executable, "-W", "error", *program, *words],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONG * 2,
            check=False,
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout, done.stderr

    def run(self, *words: str, **environment: str) -> Command:
        """Start a command of Python that goes on; `{port}` stands for a free port."""
        command = Command(self, words, self.environment(**environment))
        self._running.append(command)
        return command

    def events(self, kind: str = "begin") -> list[dict]:
        """Return what happened so far, of one kind or ("") of all."""
        path = self.folder / "shop" / "events"
        if not path.exists():
            return []
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [line for line in lines if kind in ("", line["kind"])]

    def clean_up(self) -> None:
        for command in self._running:
            command.clean_up()


class Command:
    """A process that goes on, in a group of its own, as at a terminal."""

    def __init__(self, project: Project, words: tuple[str, ...], environment) -> None:
        self.project = project
        self.port = free_port()
        self._output = project.folder / f"output-{self.port}"
        command = [word.replace("{port}", str(self.port)) for word in words]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=project.folder,
                env=environment,
                start_new_session=True,
            )
        self.pid = self.process.pid

    def log(self) -> str:
        return self._output.read_text(errors="replace")

    def wait_for(self, condition, what: str, within: float = LONG):
        """Wait until something is so; return what was found to be so."""
        until = time.monotonic() + within
        while not (found := condition()):
            assert time.monotonic() < until, f"not within {within} s: {what}\n{self.log()}"
            time.sleep(0.02)
        return found

    def expect_log(self, text: str, count: int = 1) -> None:
        self.wait_for(lambda: self.log().count(text) >= count, f"{count} x {text!r}")

    def expect_event(self, count: int = 1, **facts) -> dict:
        """Wait for the `count`-th event with these facts."""

        def found():
            events = self.project.events()
            events = [one for one in events if all(one[key] == facts[key] for key in facts)]
            return events[count - 1 :]

        return self.wait_for(found, f"{count} x {facts}")[0]

    def get(self, path: str) -> tuple[int, str]:
        """Ask for a page; return its status and text, 0 as long as nobody answers."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=LONG) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def state(self) -> dict:
        """Wait until the site answers, and return what it says of its scheduler."""
        text = self.wait_for(lambda: self.get("/state")[1], "an answer")
        return json.loads(text)

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def interrupt(self) -> None:
        """Press Ctrl-C: the whole group gets it."""
        os.killpg(self.pid, signal.SIGINT)

    def interrupt_with_room(self, text: str, count: int) -> None:
        """Press Ctrl-C; the parent that reloads stands still until the log has the text so often.

        Else it would kill its child a quarter of a second later, however busy the machine is.
        """
        self.send(signal.SIGSTOP)
        self.interrupt()
        self.expect_log(text, count)
        self.send(signal.SIGCONT)

    def end(self, *codes: int) -> None:
        """Wait for its end, with one of these exit statuses."""
        try:
            code = self.process.wait(LONG)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it goes on\n{self.log()}") from None
        assert code in (codes or (0,)), f"exit status {code}\n{self.log()}"

    def clean_up(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(LONG)
