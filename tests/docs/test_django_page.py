"""The page about Django, followed as somebody new would: its commands run, its files saved."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import pytest

from anarchon.contrib.django import _settings
from tests.docs.pages import ROOT, blocks, coded, rows, text_of
from tests.embedding.django_project import Project

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "django.md"
FILES = {block.file: block.text for block in blocks(PAGE, "python") if block.file}
ENDS = {"settings at the end": "mysite/settings.py", "wsgi at the end": "mysite/wsgi.py"}
ACCOUNT = {
    "DJANGO_SUPERUSER_USERNAME": "me",
    "DJANGO_SUPERUSER_EMAIL": "me@example.org",
    "DJANGO_SUPERUSER_PASSWORD": "secret",
}
LOOK = """
from django.contrib.auth.models import User
from django.test import Client
client = Client()
client.force_login(User.objects.get(username="me"))
print(client.get("/admin/anarchon/job/", headers={"host": "localhost"}).content.decode())
"""

# Somebody else writes between a read and a write of one transaction.
READS_FIRST = """
import sqlite3
from django.contrib.auth.models import Group
from django.db import OperationalError, connection, transaction
other = sqlite3.connect(connection.settings_dict["NAME"], timeout=0, isolation_level=None)
try:
    with transaction.atomic():
        Group.objects.count()
        try:
            other.execute("INSERT INTO auth_group (name) VALUES (hex(randomblob(8)))")
            print("other wrote", end=", ")
        except sqlite3.OperationalError:
            print("other waits", end=", ")
        Group.objects.create(name="mine")
    print("wrote")
except OperationalError as error:
    assert "locked" in str(error)
    print("locked")
other.close()
"""


class Newcomer(Project):
    """Somebody in an empty folder, with the page and nothing else."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, bare=True)

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(**ACCOUNT, **more)

    def append(self, block) -> None:
        path = self.folder / ENDS[block.file]
        path.write_text(path.read_text(encoding="utf-8") + block.text, encoding="utf-8")

    def save(self, block) -> None:
        if block.file in ENDS:
            self.append(block)
        else:
            self.write(block.file, block.text)


def part(title: str) -> list:
    """Return the blocks of a section, and of those below it."""
    lines = text_of(PAGE).splitlines()
    first = lines.index(f"## {title}")
    later = [n for n, line in enumerate(lines) if n > first and line.startswith("## ")]
    return [block for block in blocks(PAGE) if first < block.line < (later or [len(lines)])[0]]


def begun(folder: Path) -> Newcomer:
    """Follow the quick start up to the server, which goes on."""
    here = Newcomer(folder)
    for block in part("Quick start"):
        if block.language == "python":
            here.save(block)
            continue
        for line in block.text.splitlines():
            words = shlex.split(line.removeprefix("$ "))
            if words[0] == "django-admin":
                here.manage(*words[1:], program=("-m", "django"))
            elif words[:2] == ["python", "manage.py"] and words[2] != "runserver":
                more = ["--noinput"] if words[2] == "createsuperuser" else []
                here.manage(*words[2:], *more)
    return here


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory):
    here = begun(tmp_path_factory.mktemp("newcomer"))
    yield here
    here.clean_up()


def test_a_job_is_seen_in_the_admin(newcomer):
    server = newcomer.run("manage.py", "runserver", "127.0.0.1:{port}")
    server.expect_log("] clean-sessions @")
    server.expect_log(": finished in ")
    page = newcomer.manage("shell", "-v", "0", "-c", LOOK)
    assert "at 08:00, Monday through Friday (Europe/Athens)" in page
    assert "clean-sessions" in page
    assert ">success</a>" in page
    server.interrupt()
    server.end()


def test_the_commands_do_what_the_page_says(newcomer):
    [block] = part("Commands")
    commands = [shlex.split(line[2:])[2:] for line in block.text.splitlines()]
    assert commands.pop() == ["anarchon", "run"]
    for words in commands:
        # Nothing goes on that could be cancelled.
        out, err = newcomer.said(*words, "--json", code=int("cancel" in words))
        assert json.loads(out), words
        assert ("the digest of" in err) == ("run-now" in words)
    assert newcomer.manage(*commands[1]).count("\n") >= 4


def test_more_jobs_are_defined_and_run(newcomer):
    jobs = newcomer.folder / "shop" / "jobs.py"
    before = jobs.read_text(encoding="utf-8")
    for name in ("more_jobs", "paying"):
        newcomer.write(f"shop/{name}.py", FILES[f"shop/{name}.py"])
    more = "from shop import more_jobs\nfrom shop.paying import pay\n"
    jobs.write_text(
        f"{before}\n{more}from anarchon.contrib.django import scheduler\nscheduler.register(pay)\n"
    )
    try:
        told = newcomer.said("anarchon", "run-now", "pay", "--json")[0]
        assert json.loads(told)["status"] == "success"
        assert "invoices" in newcomer.manage("anarchon", "jobs")
    finally:
        jobs.write_text(before, encoding="utf-8")


def test_who_reads_first_is_refused_the_write_unless_it_begins_as_a_writer(newcomer):
    newcomer.manage("anarchon", "run-now", "clean-sessions")  # turns on the write-ahead log
    assert newcomer.said("shell", "-v", "0", "-c", READS_FIRST)[0] == "other wrote, locked\n"
    [block] = [block for block in part("Settings") if block.file in ENDS]
    newcomer.save(block)
    assert newcomer.said("shell", "-v", "0", "-c", READS_FIRST)[0] == "other waits, wrote\n"


def test_its_tests_pass(newcomer):
    for block in part("Testing"):
        newcomer.save(block)
    words = ("-q", "-p", "no:cacheprovider", "-W", "error")
    assert "4 passed" in newcomer.manage(*words, program=("-m", "pytest"))
    told = newcomer.manage("test")
    assert "Ran 4 tests" in told
    assert "System check identified no issues" in told
    # Nothing is caught up in them, and what they leave is what the page says.
    newcomer.write("shop/test_alone.py", ALONE)
    assert "Ran 1 test" in newcomer.manage("test", "shop.test_alone")
    (newcomer.folder / "shop" / "test_alone.py").unlink()
    assert not (newcomer.folder / "test.sqlite3").exists()
    left = {path.name for path in newcomer.folder.glob("*.sqlite3-*")}
    assert "test.sqlite3-queue" in left


ALONE = """
from django.test import SimpleTestCase
from anarchon.contrib.django import scheduler

class Alone(SimpleTestCase):
    def test_no_job_is_caught_up(self):
        self.assertEqual({job.catch_up for job in scheduler.jobs}, {0})
"""


def test_an_address_stands_in_the_environment_and_on_no_page(newcomer):
    newcomer.write("mysite/stores.py", FILES["mysite/stores.py"])
    assert '`"BACKEND": "mysite.stores.jobs"`' in text_of(PAGE)
    told = newcomer.said("shell", "-v", "0", "-c", SHOWN)[0]
    assert told.splitlines() == ["redis://:seen@host/0", "True", "True", "<RedisBackend"]


# What Django's error page has of the setting, of a database, and what the path leads to.
SHOWN = """
import os
os.environ["JOBS_STORE_SECRET"] = "redis://:hidden@host/0"
from django.views.debug import SafeExceptionReporterFilter
show = SafeExceptionReporterFilter().cleanse_setting
print(show("ANARCHON", {"BACKEND": "redis://:seen@host/0"})["BACKEND"])
print("*****" in show("DATABASES", {"default": {"PASSWORD": "hidden"}})["default"]["PASSWORD"])
print("hidden" not in show("JOBS_STORE_SECRET", os.environ["JOBS_STORE_SECRET"]))
from anarchon.contrib.django._scheduler import _backend_of
print(repr(_backend_of("mysite.stores.jobs", None)).split()[0])
"""


def test_a_deployed_project_is_told_of_the_file(newcomer):
    # Django's own checks have errors of their own for what `startproject` makes.
    check = ("check", "--deploy", "--fail-level", "CRITICAL")
    assert "anarchon.W004" in newcomer.manage(*check)
    newcomer.write("gunicorn.conf.py", FILES["gunicorn.conf.py"])
    told = newcomer.manage(*check)
    assert "anarchon.W004" not in told
    assert "anarchon.W001" in told


def test_a_start_in_wsgi(newcomer):
    block = next(block for block in blocks(PAGE, "python") if block.file == "wsgi at the end")
    newcomer.append(block)
    settings = newcomer.folder / "mysite" / "settings.py"
    before = settings.read_text(encoding="utf-8")
    newcomer.write(
        "mysite/settings.py", before.replace('"AUTOSTART": "server"', '"AUTOSTART": False')
    )
    server = newcomer.run("manage.py", "runserver", "--noreload", "127.0.0.1:{port}")
    server.expect_log("] scheduler started on ")
    assert server.wait_for(lambda: server.get("/admin/login/")[0] == 200, "a page")
    server.interrupt()
    server.end()
    assert server.log().count("] scheduler started on ") == 1
    newcomer.write("mysite/settings.py", before)


def test_the_keys_of_the_setting():
    keys = [coded(row[0])[0].strip('"') for row in rows(PAGE, "key", "value", "without it")]
    assert tuple(keys) == _settings.KEYS


def test_the_checks_are_those_that_there_are():
    shown = [coded(row[0])[0] for row in rows(PAGE, "id", "says")]
    source = (ROOT / "anarchon/contrib/django/_checks.py").read_text(encoding="utf-8")
    assert sorted(shown) == sorted({f"anarchon.{word}" for word in _ids(source)})


def _ids(source: str) -> set[str]:
    return {part.partition('"')[0] for part in source.split('id="anarchon.')[1:]}


def test_permissions_of_the_table(newcomer):
    """Each one exists; tests/embedding/test_django_admin.py shows what each is needed for."""
    ask = (
        "from django.contrib.auth.models import Permission as P;"
        "print(*P.objects.filter(content_type__app_label='anarchon').values_list('codename'))"
    )
    told = newcomer.said("shell", "-v", "0", "-c", ask)[0]
    shown = {
        name.removeprefix("anarchon.")
        for heads in (("page", "shows", "needs"), ("button", "does", "needs"))
        for row in rows(PAGE, *heads)
        for name in coded(row[2])
    }
    assert len(shown) == 5
    assert all(f"'{name}'" in told for name in shown)
